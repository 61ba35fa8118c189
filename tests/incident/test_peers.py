"""What a log of mere consequences says of the process that failed first."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose

GLOO = (
    "[rank{rank}]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
    "[{host}]:40112"
)
BLAMED = (
    "E0412 10:11:12.500000 881 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: {code}) "
    "local_rank: {rank} (pid: 903) of binary: /usr/bin/python3"
)
TABLE = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
tr.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2024-04-12_10:11:12
  host      : gpu-a12.pool
  rank      : 8 (local_rank: 0)
  exitcode  : -15 (pid: 902)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 902
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2024-04-12_10:11:12
  host      : gpu-a12.pool
  rank      : 11 (local_rank: 3)
  exitcode  : 1 (pid: 903)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================"""


def told(tmp_path: Path, *lines: str) -> tuple[str, list[str]]:
    log = tmp_path / "job.log"
    log.write_text("\n".join(lines) + "\n")
    report = diagnose(log)
    return report.verdict, [one.why for one in report.lookalikes if one.why.startswith("a consequence")]


@pytest.mark.parametrize(
    ("lines", "who"),
    [
        ((TABLE,), "rank 11 on gpu-a12.pool (exit code 1)"),
        # the launcher blames a rank that itself lost a peer
        ((GLOO.format(rank=2, host="10.4.0.9"), BLAMED.format(code=1, rank=2)), "another rank, on 10.4.0.9,"),
        ((GLOO.format(rank=2, host="127.0.0.1"), BLAMED.format(code=1, rank=2)), "another rank"),
        ((GLOO.format(rank=0, host="10.4.0.9"), BLAMED.format(code=1, rank=2)), "local rank 2 (exit code 1)"),
        (("RuntimeError: [Rank 0]: Ranks 3 failed to pass monitoredBarrier in 1800000 ms",), "rank 3"),
    ],
)
def test_who_died_first_and_that_its_log_is_missing(tmp_path: Path, lines: tuple[str, ...], who: str) -> None:
    expected = f"a consequence: {who} died first, and its log is not here; look for the earliest error of that process"
    assert told(tmp_path, *lines) == ("no-oom", [expected])


def test_not_where_another_rank_says_itself_why_it_ended(tmp_path: Path) -> None:
    verdict, why = told(tmp_path, GLOO.format(rank=0, host="10.4.0.9"), "[rank1]: ValueError: the shapes differ")
    assert verdict == "no-oom"
    assert why == ["a consequence: another rank, on 10.4.0.9, failed first, with an error other than a lack of memory"]


def test_not_beside_a_memory_failure(tmp_path: Path) -> None:
    refused = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total"
    verdict, why = told(tmp_path, GLOO.format(rank=0, host="10.4.0.9"), refused)
    assert (verdict, why) == ("oom", [])


def test_not_of_a_healthy_log(tmp_path: Path) -> None:
    lines = ("step 12 loss 1.9", "NCCL watchdog is on, timeout 600 s", "step 13 loss 1.8", "done")
    assert told(tmp_path, *lines) == ("no-oom", [])


def test_the_first_of_two_ranks_that_ran_out_is_the_root(tmp_path: Path) -> None:
    sentence = (
        "[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}.00 MiB. GPU {rank} has a "
        "total capacity of 79.15 GiB of which 12.00 MiB is free."
    )
    log = tmp_path / "job.log"
    log.write_text(
        "\n".join(
            (
                GLOO.format(rank=0, host="10.4.0.9"),
                sentence.format(rank=5, tried=640),
                sentence.format(rank=1, tried=320),
                TABLE,
            )
        )
    )
    roles = [(e.process["rank"], e.role) for e in diagnose(log).events if e.family in ("cuda", "peer")]
    assert roles == [(0, "cascade"), (5, "root"), (1, "confirmation")]


WAITS = (
    "[rank{rank}]:[E ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=12, OpType={kind}, NumelIn=40, NumelOut=40, Timeout(ms)=600000) ran for 600004 milliseconds "
    "before timing out."
)


@pytest.mark.parametrize(
    ("ranks", "who", "silent"),
    [
        ((2,), "rank 2 waited", ""),
        ((0, 1), "ranks 0 and 1 waited", ""),
        ((1, 3), "ranks 1 and 3 waited", "; ranks 0 and 2 do not say that they waited"),
        ((0, 2), "ranks 0 and 2 waited", "; rank 1 does not say that it waited"),
        ((0, 63), "ranks 0 and 63 waited", ""),  # too many to name
    ],
)
def test_all_that_waited_in_one_collective_and_those_that_do_not_say_so(
    tmp_path: Path, ranks: tuple[int, ...], who: str, silent: str
) -> None:
    log = tmp_path / "job.log"
    log.write_text("".join(WAITS.format(rank=rank, kind="ALLREDUCE") + "\n" for rank in ranks))
    (why,) = [one.why for one in diagnose(log).lookalikes if "did not come" in one.why]
    assert why.startswith(f"{who} 600 s in ALLREDUCE")
    assert why.endswith(f"or was late{silent}")


def test_who_waited_in_another_collective_is_another_matter(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(WAITS.format(rank=0, kind="ALLREDUCE") + "\n" + WAITS.format(rank=1, kind="BROADCAST") + "\n")
    assert any(one.why.startswith("rank 0 waited") for one in diagnose(log).lookalikes)
