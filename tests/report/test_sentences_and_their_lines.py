"""Sentences that say no more than the line they cite: whose limit, who was asked, who alone holds the memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from host_logs import kill
from reports import body

MAC = (
    "RuntimeError: MPS backend out of memory (MPS allocated: 15.64 GiB, other allocations: 2.38 MiB, max allowed: "
    "18.13 GiB). Tried to allocate 5.77 GiB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper "
    "limit for memory allocations (may cause system failure)."
)
TOO_FEW = "ValueError: The number of required {unit} exceeds the total number of available {unit} in the {whole}."
SLURM = "Some of the step tasks have been OOM Killed."
LENGTH = (
    "vLLM related: model's max seq len (8192) is larger than the maximum number of tokens that can be stored in KV "
    "cache (6048)."
)
FORK = """\
Traceback (most recent call last):
  File "/lib/python3.11/multiprocessing/popen_fork.py", line 67, in _launch
    self.pid = os.fork()
OSError: [Errno 12] Cannot allocate memory"""
MAPPED = FORK.replace("popen_fork.py", "heap.py").replace("os.fork()", "mmap.mmap(-1, 8589934592)")
SAVED = """\
Traceback (most recent call last):
  File "train.py", line 9, in _save_checkpoint
    {call}
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of \
which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated \
memory 77.00 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated."""


def incident(folder: Path, log: str) -> dict[str, Any]:
    first: dict[str, Any] = body(folder, log)["incidents"][0]
    return first


def why(folder: Path, log: str) -> str:
    return str(incident(folder, log)["diagnoses"][0]["explanation"])


def test_the_limit_on_a_mac_is_pytorchs_and_is_lifted_last(tmp_path: Path) -> None:
    found = incident(tmp_path, MAC)
    assert found["headline"].startswith("PyTorch's limit on this Mac is 18.13 GiB")
    assert "macOS recommends 18.13" not in found["diagnoses"][0]["explanation"]
    advised = [remedy["knob"] for remedy in found["diagnoses"][0]["remedies"]]
    assert advised[-1] == "raise-allocator-cap"
    assert "freeze" in found["diagnoses"][0]["remedies"][-1]["cost"]


@pytest.mark.parametrize(
    ("whole", "unit", "told"),
    [
        ("placement group", "GPUs", "its placement group has"),
        ("cluster", "GPUs", "Ray counts in the cluster"),
        ("placement group", "NPUs", None),
    ],
)
def test_vllms_check_of_its_group_is_no_request_that_waits(
    tmp_path: Path, whole: str, unit: str, told: str | None
) -> None:
    report = body(tmp_path, TOO_FEW.format(unit=unit, whole=whole))
    if told is None:
        assert not report["incidents"] or "vLLM needs more" not in report["incidents"][0]["headline"]
        return
    found = report["incidents"][0]
    assert told in found["headline"]
    assert "unnamed" not in found["diagnoses"][0]["explanation"]


@pytest.mark.parametrize(("log", "family"), [(SLURM, "container"), (LENGTH, "vllm_error")])
def test_a_stock_text_is_read_by_its_own_family(tmp_path: Path, log: str, family: str) -> None:
    report = body(tmp_path, f"step 3\n{log}")
    assert family in {event["family"] for event in report["events"]}
    assert not any("unknown" in doubt for doubt in report["incidents"][0]["diagnoses"][0]["against"])


@pytest.mark.parametrize(
    "line", ["# Some of the step tasks have been OOM Killed: ask for more", "a max seq len (8192) is set"]
)
def test_what_only_sounds_like_it_is_not(tmp_path: Path, line: str) -> None:
    assert body(tmp_path, f"step 3\n{line}\nstep 4")["verdict"] == "no-oom"


def test_a_fork_is_refused_in_words_of_its_own(tmp_path: Path) -> None:
    found = incident(tmp_path, FORK)
    assert "fork" in found["diagnoses"][0]["explanation"]
    assert "kills a process instead" not in found["diagnoses"][0]["explanation"]
    assert found["cause_open"]
    assert found["next_evidence"][0].startswith("sysctl vm.overcommit_memory")
    assert "kills a process instead" in why(tmp_path, MAPPED)


def test_a_full_state_is_gathered_where_a_frame_gathers(tmp_path: Path) -> None:
    assert "Gathering" in why(tmp_path, SAVED.format(call="state = get_fsdp_full_state_dict(model)"))
    assert "Gathering" not in why(tmp_path, SAVED.format(call="torch.save(model, path)"))


def test_a_share_of_shm_is_that_of_df(tmp_path: Path) -> None:
    bus = "RuntimeError: DataLoader worker (pid 13) is killed by signal: Bus error."
    assert "97% was in use" in why(tmp_path, f"tmpfs   24G   24G  840M  97% /dev/shm\n{bus}")
    assert "100% was in use" in why(tmp_path, f"tmpfs   24G   24G     0 100% /dev/shm\n{bus}")


def test_a_collective_that_timed_out_blames_nobody(tmp_path: Path) -> None:
    waited = (
        "[E ProcessGroupNCCL.cpp:475] [Rank 5] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88412, "
        "OpType=BROADCAST, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800417 milliseconds before timing out."
    )
    told = [one["why"] for one in body(tmp_path, waited)["lookalikes"]]
    why = (
        "rank 5 waited 1800 s in BROADCAST for a rank that did not come; only the other ranks' logs tell whether "
        "that one was killed, failed or was late"
    )
    assert told == [why]
    other = [one["why"] for one in body(tmp_path, f"{waited}\n[rank2]: ValueError: bad label")["lookalikes"]]
    assert "failed first" in other[0]


ALIKE = tuple((4000 + n, 4.5, "ray::Evaluator.apply") for n in range(4))
LARGEST = (3999, 7.3, "ray::Trainer.train")


def test_rows_that_are_more_than_the_node_have_no_sum(tmp_path: Path) -> None:
    found = incident(tmp_path, "\n".join(kill(LARGEST, *ALIKE, used=15.9, total=16.8)))
    assert "Trainer (PID 3999)" in found["headline"]
    told = found["diagnoses"][0]["explanation"]
    assert "7.30 GiB" in told
    assert "%" not in told
    assert "18.00 GiB" not in told
    assert all("x Evaluator" not in row["what"] for row in found["ledger"][0]["rows"])


def test_rows_that_fit_have_one(tmp_path: Path) -> None:
    found = incident(tmp_path, "\n".join(kill(LARGEST, *ALIKE, used=30.0, total=31.0)))
    assert "4 Evaluator processes hold 18.00 GiB of the 30.00 GiB in use" in found["diagnoses"][0]["explanation"]
