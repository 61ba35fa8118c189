"""A log that only waits for another process, or hides its error, says that it cannot tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose, families, streams
from oomdoctor.families.peer import LostPeer
from oomdoctor.report import words
from oomdoctor.report.text import rendered

WATCHDOG = (
    "[rank5]:[E901 05:42:20.446 ProcessGroupNCCL.cpp:1899] [Rank 5] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=4606, OpType={op}, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600051 milliseconds before "
    "timing out."
)
LAST = (
    "[rank5]:[E901 05:42:20.447 ProcessGroupNCCL.cpp:1834] Timeout at NCCL work: 17284, last enqueued NCCL work: 17290"
)
HIDDEN = "[rank0]: RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)"
TOLD = "node7:2211:2390 [3] include/alloc.h:187 NCCL WARN Cuda failure 'out of memory'"
FAULT = "RuntimeError: CUDA error: an illegal memory access was encountered"


def told(folder: Path, *lines: str) -> tuple[str, str, list[str]]:
    (folder / "rank5.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = diagnose(folder / "rank5.log")
    return words.nothing_found(report).words, words.not_memory(report), [look.why for look in report.lookalikes]


@pytest.mark.parametrize("op", ["ALLREDUCE", "_ALLGATHER_BASE"])
def test_a_rank_that_waits_cannot_tell(tmp_path: Path, op: str) -> None:
    found, label, whys = told(tmp_path, WATCHDOG.format(op=op), LAST)
    assert "a process waited for another one" in found
    assert label == "This log cannot tell"
    assert f"waited 600 s in {op}" in whys[0]


@pytest.mark.parametrize(("prefix", "rank"), [("[rank5]:", 5), ("", 1)])
def test_the_launchers_rank_is_the_jobs_and_c10ds_the_groups(prefix: str, rank: int) -> None:
    line = prefix + WATCHDOG.removeprefix("[rank5]:").replace("[Rank 5]", "[Rank 1]").format(op="ALLREDUCE")
    page = streams.page("rank5.log", 1, f"{line}\n".encode())
    assert [found.process.rank for found in families.read(page) if isinstance(found, LostPeer)] == [rank]


def test_a_hidden_error_may_be_of_memory(tmp_path: Path) -> None:
    _, label, whys = told(tmp_path, HIDDEN)
    assert label == "This log cannot tell"
    assert "NCCL_DEBUG=INFO" in whys[0]


@pytest.mark.parametrize("who", ["system", "cuda"])
def test_a_call_of_nccls_that_failed_is_no_wait(tmp_path: Path, who: str) -> None:
    line = f"RuntimeError: NCCL error in: /b/ProcessGroupNCCL.cpp:44, unhandled {who} error, NCCL version 2.19.3"
    found, label, (why,) = told(tmp_path, line)
    assert "waits" not in found
    assert label == "This log cannot tell"
    assert ("/dev/shm" in why) == (who == "system")


def test_what_is_told_is_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "rank5.log").write_text(f"{TOLD}\n{HIDDEN}\n", encoding="utf-8")
    report = diagnose(tmp_path / "rank5.log")
    assert report.incidents
    assert not any("hides" in look.why for look in report.lookalikes)


def test_a_fault_is_no_memory(tmp_path: Path) -> None:
    found, label, _ = told(tmp_path, FAULT)
    assert "waits" not in found
    assert label == "Not a memory failure"


@pytest.mark.parametrize(("number", "name"), [(1, "SIGHUP: its terminal"), (15, "SIGTERM or SIGHUP")])
def test_the_signal_that_the_log_names(tmp_path: Path, number: int, name: str) -> None:
    line = f"torch.distributed.elastic.multiprocessing.api.SignalException: Process 2973540 got signal: {number}"
    received = (
        f"WARNING:torch.distributed.elastic.agent.server.api:Received {number} death signal, shutting down workers"
    )
    _, _, whys = told(tmp_path, received, line)
    assert any(name in why for why in whys)


CORRUPT = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory."


def text_of(folder: Path, *lines: str) -> str:
    (folder / "rank5.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return rendered(diagnose(folder / "rank5.log"), width=100, color=False, unicode=False, verbose=False)


def test_what_a_broken_collective_leaves_is_no_error_of_its_own(tmp_path: Path) -> None:
    text = text_of(tmp_path, WATCHDOG.format(op="BROADCAST"), CORRUPT)
    assert "It failed with another error" not in text
    assert "more than 1EB is a corrupt size" in text


@pytest.mark.parametrize(
    ("lines", "asks"),
    [
        ((WATCHDOG.format(op="ALLREDUCE"), LAST), True),
        ((HIDDEN,), False),
        (("step 4 loss 0.2", "ValueError: no"), False),
    ],
)
def test_the_other_ranks_are_asked_where_this_one_only_waited(
    tmp_path: Path, lines: tuple[str, ...], *, asks: bool
) -> None:
    text = text_of(tmp_path, *lines)
    assert ("<the logs of the other ranks>" in text) is asks
    assert ("dmesg" in text) is asks


def test_whose_line_it_is_on_a_line_of_several(tmp_path: Path) -> None:
    said = "(Engine pid=21) Sampling done (Engine pid=22, ip=10.1.0.2) Sampling done (Actor pid=33, ip=10.1.0.3) "
    _, _, whys = told(tmp_path, said + WATCHDOG.format(op="BROADCAST"))
    assert "rank 5 (Actor) waited 600 s in BROADCAST" in whys[0]


def test_the_rank_of_the_job_and_not_that_of_its_group(tmp_path: Path) -> None:
    _, _, whys = told(tmp_path, WATCHDOG.format(op="BROADCAST").replace("[Rank 5]", "[PG ID 1 PG GUID 2 Rank 1]"))
    assert "rank 5 " in whys[0]
    _, _, whys = told(
        tmp_path, WATCHDOG.format(op="BROADCAST").removeprefix("[rank5]:").replace("[Rank 5]", "[Rank 1]")
    )
    assert "rank 1 " in whys[0]
