"""What can be pasted or looked at at once stands before what the log does not even state."""

from __future__ import annotations

from pathlib import Path

import pytest
from remedy_logs import advise, crashes_of

from oomdoctor import diagnose
from oomdoctor.remedies import Remedy
from oomdoctor.remedies.order import evidence_ahead
from oomdoctor.report.contract import Diagnosis

KILLED = "run.sh: line 12: 90210 Killed                  python fit.py\n"
NCCL = "gpu7:4120:4188 [2] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\n"
ENGINE = "INFO engine.py: Initializing vLLM engine, gpu_memory_utilization=0.88\n"
LOOK = "free-the-gpu"


def first(tmp_path: Path, text: str) -> Diagnosis:
    log = tmp_path / "job.log"
    log.write_text(text)
    return diagnose(log).incidents[0].diagnoses[0]


def test_nobody_changes_a_job_before_he_knows_who_killed_it(tmp_path: Path) -> None:
    found = first(tmp_path, KILLED)
    assert found.cause == "killed-without-evidence"
    assert found.remedies[0].knob == "collect-evidence"
    assert found.remedies[0].snippet


@pytest.mark.parametrize("flags", ["--per_device_train_batch_size 6", "--num_workers 10"])
def test_what_the_job_states_is_changed_at_once(tmp_path: Path, flags: str) -> None:
    found = first(tmp_path, f"+ python fit.py {flags}\n{KILLED}")
    assert found.remedies[0].knob != "collect-evidence"
    assert found.remedies[0].snippet
    assert "collect-evidence" in {one.knob for one in found.remedies}


LISTED = {
    "batch": Remedy(knob="smaller-microbatch", action="Halve it", snippet="--bs 8", current=16, suggested=8),
    "workers": Remedy(knob="fewer-workers", action="Fewer", setting="--procs", current=8, suggested=4),
    "stream": Remedy(knob="stream-data", action="Stream it", current="memory"),
    "line": Remedy(knob="smaller-buffers", action="Keep less", snippet="kept.clear()"),
    "leak": Remedy(knob="clear-references", action="Drop them"),
    "delay": Remedy(knob="tune-ray-monitor", action="Raise it", current=0.95),
    "bought": Remedy(knob="more-host-memory", action="A larger node"),
    "look": Remedy(knob="collect-evidence", action="Look", snippet="free -h"),
}


@pytest.mark.parametrize(
    ("cause", "others", "listed"),
    [
        ("killed-without-evidence", "batch workers stream", "batch workers stream look"),
        ("killed-without-evidence", "stream bought", "stream bought look"),  # asked above the remedies, too
        ("host-memory-exhausted", "batch leak stream bought", "batch leak stream look bought"),
        ("process-ram-hog", "leak batch workers", "leak batch workers look"),
        ("killed-without-evidence", "line bought", "line look bought"),  # nothing is known
        ("killed-without-evidence", "bought", "look bought"),
        ("host-memory-exhausted", "batch leak bought", "batch look leak bought"),
        ("host-memory-exhausted", "workers stream", "workers look stream"),  # all of them are among the first three
        ("host-memory-exhausted", "delay line leak", "look delay line leak"),  # no remedy
        ("host-memory-exhausted", "leak line bought batch", "look leak line bought batch"),
        ("process-ram-hog", "line leak bought", "line look leak bought"),
    ],
)
def test_to_look_takes_no_place_from_what_the_log_states(cause: str, others: str, listed: str) -> None:
    crash = crashes_of(KILLED)[0]
    given = [LISTED[name] for name in (*others.split(), "look")]
    assert evidence_ahead(given, cause, crash) == [LISTED[name] for name in listed.split()]


def test_who_else_holds_the_gpu_is_seen_before_a_batch_is_halved(tmp_path: Path) -> None:
    found = first(tmp_path, NCCL)
    assert found.cause == "non-torch-memory"
    assert [one.knob for one in found.remedies][:2] == [LOOK, "smaller-microbatch"]


@pytest.mark.parametrize("before", ["+ torchrun fit.py --per_device_train_batch_size 6\n", ENGINE])
def test_a_batch_or_a_share_that_is_stated_goes_first(tmp_path: Path, before: str) -> None:
    found = first(tmp_path, before + NCCL)
    assert found.cause == "non-torch-memory"
    assert found.remedies[0].knob != LOOK
    assert found.remedies[0].snippet or found.remedies[0].setting


def test_another_model_is_another_answer(tmp_path: Path) -> None:
    log = (
        "[TM][ERROR] CUDA runtime error: out of memory /b/src/turbomind/utils/memory_utils.cu:32\n"
        '  File "/x/lmdeploy/turbomind/turbomind.py", line 240, in _create_weight_func\n'
    )
    knobs = [one.knob for one in first(tmp_path, log).remedies]
    assert knobs.index("tensor-parallel") < knobs.index("smaller-model")


CAPPED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 300.00 MiB. GPU 0 has a total capacity of 31.50 GiB "
    "of which 20.00 GiB is free. {allowed}Of the allocated memory 3.00 GiB is allocated by PyTorch, and 50.00 MiB is "
    "reserved by PyTorch but unallocated.\n"
)


def test_a_cap_of_the_process_is_lifted_by_a_line() -> None:
    chosen, _ = advise(CAPPED.format(allowed="3.15 GiB allowed; "), "raise-allocator-cap", cause="allocator-cap")
    one = chosen["raise-allocator-cap"]
    assert one.snippet == "torch.cuda.set_per_process_memory_fraction(1.0)"
    assert one.suggested == 1
    assert "3.15 GiB" in one.action


def test_without_a_cap_there_is_no_fraction_to_lift() -> None:
    chosen, _ = advise(CAPPED.format(allowed=""), "raise-allocator-cap", cause="allocator-cap")
    assert all(one.snippet is None for one in chosen.values())


TRITON = "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n): out of memory (/b/tllmBuffers.h:140)\n"


@pytest.mark.parametrize(
    ("options", "first_of_all"),
    [
        ("--max_batch_size 48", ["fewer-sequences", "lower-engine-reservation"]),
        ("--max_num_tokens 6000", ["smaller-prefill", "lower-engine-reservation"]),
        ("--max_num_tokens 6000 --max_batch_size 48", ["smaller-prefill", "fewer-sequences"]),
        ("--backend pytorch", ["lower-engine-reservation"]),
        ("--max_batch_size 48 --kv_cache_free_gpu_memory_fraction 0.85", ["lower-engine-reservation"]),  # is stated
    ],
)
def test_a_batch_that_is_stated_goes_before_a_share_that_is_not(
    tmp_path: Path, options: str, first_of_all: list[str]
) -> None:
    found = first(tmp_path, f"+ trtllm-serve m {options}\n{TRITON}")
    assert found.cause == "vllm-utilization-too-high"
    assert [one.knob for one in found.remedies][: len(first_of_all)] == first_of_all
