"""What the log prints of who, how much and how long stands in the report; what it does not print is not claimed."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose
from oomdoctor.report.contract import Diagnosis, Report
from oomdoctor.report.text import rendered

KILL = (
    "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
    "Memory on the node (IP: 10.4.0.9, ID: 5e1c) where the task (actor ID: 77aa, name=Walker.walk, pid=4410, "
    "memory used=6.50GB) was running was 121.60GB / 128.00GB (0.95), which exceeds the memory usage threshold of 0.95. "
    "Ray killed this worker (ID: 9b) because it was the most recently scheduled task."
)
SAVING = 'Traceback (most recent call last):\n  File "run.py", line 40, in fit\n    self.save_checkpoint(path)\n'
SLURM = "slurmstepd: error: Detected 1 oom_kill event in StepId=5521.0. Some of the step tasks have been OOM Killed."
DEATH = (
    "(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker ID: ab12 "
    "Worker IP address: 10.4.0.9 Worker port: 10044 Worker PID: 4410 Worker exit type: SYSTEM_ERROR"
)
REFUSED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 31.74 GiB "
    "of which 1.20 GiB is free. Including non-PyTorch memory, this process has 30.50 GiB memory in use. Of the "
    "allocated memory 29.10 GiB is allocated by PyTorch, and 612.00 MiB is reserved by PyTorch but unallocated."
)
LOAD = (
    '  File "fit.py", line 12, in main\n    state = torch.load(path)\n'
    '  File "/opt/lib/torch/serialization.py", line 119, in default_restore_location\n'
    "    result = fn(storage, location)\n"
    '  File "/opt/lib/torch/serialization.py", line 99, in _cuda_deserialize\n    return storage_type(obj.size())\n'
    "RuntimeError: CUDA out of memory. Tried to allocate 40.00 MiB (GPU 0; 15.90 GiB total capacity; 820.00 MiB "
    "already allocated; 12.00 MiB free; 840.00 MiB cached)"
)
BFC = (
    "2024-02-02 10:00:09: W external/org_tensorflow/tensorflow/core/common_runtime/bfc_allocator.cc:457] Allocator "
    "(GPU_0_bfc) ran out of memory trying to allocate 8.00MiB (rounded to 8388608)requested by op \n"
    "RuntimeError: Resource exhausted: Out of memory while trying to allocate 8388608 bytes."
)
UNIFIED = (
    "2024-02-02 10:00:0{at}: E external/org_tensorflow/tensorflow/stream_executor/cuda/cuda_driver.cc:764] failed "
    "to alloc {size} bytes unified memory; result: CUDA_ERROR_OUT_OF_MEMORY: out of memory"
)
NO_BLOCKS = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
RAISES = '    raise ValueError("No available memory for the cache blocks. "'


def report(folder: Path, *lines: str) -> Report:
    log = folder / "job.log"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return diagnose(log)


def best(folder: Path, *lines: str) -> Diagnosis:
    return report(folder, *lines).incidents[0].diagnoses[0]


def page(folder: Path, *lines: str) -> str:
    return rendered(report(folder, *lines), width=100, color=False, unicode=False, verbose=False)


def test_whom_ray_killed_stands_beside_the_checkpoint(tmp_path: Path) -> None:
    told = best(tmp_path, SAVING + KILL)
    assert told.cause == "checkpoint-spike"
    assert told.headline.endswith("filled node 10.4.0.9: 122 of 128 GiB in use; Ray killed Walker (PID 4410, 6.5 GiB)")


@pytest.mark.parametrize(
    ("lines", "end"),
    [
        ((SLURM,), ": 1 process OOM-killed"),
        ((DEATH.replace("Worker PID: 4410 ", ""), SLURM), ": 1 process OOM-killed"),
        ((DEATH, SLURM), "; Ray worker 4410 died"),
    ],
)
def test_which_of_rays_workers_died_at_the_limit(tmp_path: Path, lines: tuple[str, ...], end: str) -> None:
    told = best(tmp_path, *lines)
    assert told.cause == "container-limit"
    assert told.headline.endswith(end)


@pytest.mark.parametrize(
    ("bar", "told"),
    [
        ("", False),
        ("Training:   1%|  | 7/900 [00:31:10<66:00:00, 267s/it]", False),  # its first steps
        ("Training: 100%|##| 900/900 [7:31:10<00:00, 30s/it]", False),  # at its end
        ("Training: 300/900 done", False),
        ("Training:  33%|# | 300/900 [2:31:10<5:02:20, 30.2s/it]", True),
    ],
)
def test_how_far_the_job_came(tmp_path: Path, bar: str, told: bool) -> None:
    words = "Its progress bar had come to 300 of 900 in 2:31:10: either memory grew, or a later part needs more."
    found = best(tmp_path, bar, KILL).explanation
    assert (words in found) is told
    assert ("progress bar" in found) is told


@pytest.mark.parametrize(
    ("finished", "told"),
    [("10:20:00", ""), ("10:00:09", " 9 s after the container started"), ("12:30:00", " 2.5 h after the container")],
)
def test_how_long_a_container_ran(tmp_path: Path, finished: str, told: str) -> None:
    state = (
        "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n"
        f"      Started:      Tue, 03 Mar 2026 10:00:00 +0000\n      Finished:     Tue, 03 Mar 2026 {finished} +0000"
    )
    words = best(tmp_path, state).explanation
    assert told in words
    assert (" after the container started" in words) is bool(told)


@pytest.mark.parametrize(
    ("name", "call", "pid"),
    [
        ("main_task", "", 71),
        ("main_task", "ray::Rollout.generate() (pid=93, ip=10.4.0.9)", 93),
        ("main_task", "ray::Rollout.generate() (pid=93, ip=10.4.0.9) ray::Rollout.load() (pid=94, ip=10.4.0.9)", 71),
        ("ActorWorker", "ray::Rollout.generate() (pid=93, ip=10.4.0.9)", 71),
    ],
)
def test_the_gpu_is_that_of_the_call_that_a_driver_reports(tmp_path: Path, name: str, call: str, pid: int) -> None:
    lines = (f"({name} pid=71) {REFUSED}", f"({name} pid=71) Unhandled error: {call}")
    assert report(tmp_path, *lines).incidents[0].ledger[0].device == f"GPU 0 (PID {pid})"


@pytest.mark.parametrize("rank", ["", "[rank1]: ", "torchrun --nproc-per-node 4 fit.py\n"])
def test_several_ranks_are_only_claimed_where_one_is_seen(tmp_path: Path, rank: str) -> None:
    text = rank + LOAD if rank.endswith("\n") else LOAD.replace("RuntimeError", f"{rank}RuntimeError")
    told = best(tmp_path, "Traceback (most recent call last):\n" + text)
    assert told.cause == ("device-misplacement" if rank else "gpu-shared")
    assert ("where others hold about 13 GiB" in told.headline) is bool(rank)
    assert not rank or not told.against


def test_what_another_pool_was_refused_before(tmp_path: Path) -> None:
    told = best(tmp_path, UNIFIED.format(at=1, size=4294967296), UNIFIED.format(at=2, size=3865470566), BFC)
    assert told.headline == (
        "Unified memory (GPU and host RAM) ran out: 4.00 GiB could not be allocated, then 8 MiB on GPU 0"
    )
    assert "4.00 GiB of unified memory could not be allocated" in told.explanation


@pytest.mark.parametrize("before", ["", UNIFIED.format(at=1, size=4294967296).replace("unified memory", "on device")])
def test_without_it_the_gpu_alone_is_named(tmp_path: Path, before: str) -> None:
    told = best(tmp_path, before, BFC)
    assert "nified" not in told.headline + told.explanation


@pytest.mark.parametrize("below", ["", "                     ^^^^^^^^^^^^\n"])
def test_the_message_is_shown_and_not_the_line_that_raises_it(tmp_path: Path, below: str) -> None:
    lines = f"{RAISES}\n{below}{NO_BLOCKS}initializing the engine."
    told = best(tmp_path, 'Traceback (most recent call last):\n  File "vllm/worker.py", line 5, in check', lines)
    assert [one.text[:11] for one in told.evidence] == ["ValueError:"]
    assert "does not show what fills the engine's share" in told.explanation


def test_the_line_that_raises_is_shown_where_nothing_follows(tmp_path: Path) -> None:
    told = best(tmp_path, 'Traceback (most recent call last):\n  File "vllm/worker.py", line 5, in check', RAISES)
    assert told.evidence[0].text.strip().startswith("raise ValueError")


@pytest.mark.parametrize(("swap", "told"), [(0, ""), (200_000, ""), (2_621_440, "Another 10.00 GiB of it is in swap.")])
def test_what_is_in_swap(tmp_path: Path, swap: int, told: str) -> None:
    lines = (
        "[10.1] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
        f"[10.1] [  52011]  1000 52011 21234410 13107200 104857600  {swap:>8}             0 simulate",
        "[10.1] [    812]     0   812    58951     1904   212992      642             0 rsyslogd",
        "[10.1] Out of memory: Killed process 52011 (simulate) total-vm:84937640kB, anon-rss:52428800kB, file-rss:0kB",
    )
    words = best(tmp_path, *lines).explanation
    assert (told in words) if told else ("in swap" not in words)


def test_a_reason_ends_with_a_sentence(tmp_path: Path) -> None:
    whole = "Training:  33%|# | 300/900 [2:31:10<5:02:20, 30.2s/it]"
    shown = page(tmp_path, whole, KILL.replace("Walker.walk", "walker_of_the_long_road_4_99f24f82:Walker.__init__"))
    reason = shown.split("host-memory-exhausted (likely):")[1].split("  job.log:")[0]
    assert reason.rstrip().endswith(".")
    assert "..." not in reason


def test_an_error_that_is_no_lack_of_memory_is_not_quoted_as_one(tmp_path: Path) -> None:
    waits = (
        "[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType={op}, NumelIn=1, "
        "NumelOut=1, Timeout(ms)=600000) ran for 600051 milliseconds before timing out."
    )
    huge = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory."
    shown = page(tmp_path, *(waits.format(rank=rank, op="GATHER") for rank in (4, 2, 2)), f"Traceback:\n{huge}")
    assert "It failed with another error" not in shown
    assert "ranks 2 and 4 waited 600 s in GATHER" in shown
    shown = page(tmp_path, waits.format(rank=4, op="GATHER"), waits.format(rank=2, op="REDUCE"))
    assert "rank 4 waited 600 s in GATHER" in shown


@pytest.mark.parametrize(
    ("banner", "told"),
    [
        ("", "The model does not fit on the GPU"),
        ("device: Tesla T4", "The model does not fit on the GPU (T4)"),
        (
            "   GPU: Tesla T4. Max memory: 14.741 GB. Platform: Linux.",
            "The model does not fit on the GPU (T4 with 14.741 GB)",
        ),
    ],
)
def test_which_gpu_the_model_does_not_fit_on(tmp_path: Path, banner: str, told: str) -> None:
    plan = (
        "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to fit the "
        "quantized model."
    )
    assert best(tmp_path, banner, plan).headline == told


WAITS = (
    "(autoscaler +{at}s) Warning: The following resource request cannot be scheduled right now: {what}. This is likely "
    "due to all cluster resources being claimed by actors."
)
GPUS = "{'CPU': 3.0, 'GPU': 1.0}"


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (GPUS, None),
        ("{'GPU': 0.5}", None),
        ("{'CPU': 0.5, 'memory': 1000000000.0}", None),
        ("{'CPU': 0.5}", "nor 0.5 CPU"),
    ],
)
def test_a_request_for_cpus_alone_that_waits_too(tmp_path: Path, other: str, told: str | None) -> None:
    lines = (WAITS.format(at=at, what=what) for at, what in enumerate((other, GPUS, other, GPUS)))
    found = best(tmp_path, *lines)
    assert found.headline.startswith("Ray cannot place 1 GPU, 3 CPUs" + (f", {told}" if told else ""))
    assert ("waits, too" in found.explanation) is (told is not None)
    if told:
        assert "'GPU': 1.0" in found.evidence[0].text
