"""What a library beside the framework, the driver or a neighbour needs: room, and nothing that does not make any."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose
from oomdoctor.remedies import Remedy

NCCL = "n4:52:77 [1] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'"
SIZED = f"{NCCL}\nn4:52:77 [1] include/alloc.h:185 NCCL WARN Failed to CUDA calloc 8388608 bytes"
CUBLAS = "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
EITHER = "in training, halve the batch size; in serving, lower the engine's memory share"
TRAINS = "torchrun --nproc_per_node 4 fit.py\n{'loss': 0.83, 'grad_norm': 1.2, 'learning_rate': 1e-05, 'epoch': 0.1}"
FAILED = "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"


def remedies(folder: Path, text: str) -> dict[str, Remedy]:
    log = folder / "job.log"
    log.write_text(text + "\n", encoding="utf-8")
    first = diagnose(log).incidents[0].diagnoses[0]
    return {each.knob: each for each in first.remedies}


@pytest.mark.parametrize(
    ("log", "action", "derivation"),
    [
        (NCCL, f"Leave NCCL room on the GPU: {EITHER}", None),
        (SIZED, f"Leave NCCL room on the GPU: {EITHER}", "NCCL requested 8 MiB"),
        (CUBLAS, f"Leave cuBLAS room on the GPU: {EITHER}", None),
    ],
)
def test_who_lacks_room_is_left_some_once_nobody_else_holds_it(
    tmp_path: Path, log: str, action: str, derivation: str | None
) -> None:
    found = remedies(tmp_path, log)
    look, change = list(found.values())[:2]
    assert look.knob == "free-the-gpu"
    assert (change.knob, change.action, change.derivation) == ("smaller-microbatch", action, derivation)
    assert "fix-environment" not in found


def test_who_trains_is_not_told_of_serving(tmp_path: Path) -> None:
    change = remedies(tmp_path, f"{TRAINS}\n{CUBLAS}")["smaller-microbatch"]
    assert "serving" not in change.action


@pytest.mark.parametrize(
    ("log", "buffers", "states"),
    [
        (NCCL, True, False),
        (SIZED, True, False),
        (CUBLAS, False, False),  # whose workspace is another matter
        (f"{TRAINS}\n{SIZED}", True, True),
    ],
)
def test_nobody_shards_states_where_nothing_trains(tmp_path: Path, log: str, buffers: bool, states: bool) -> None:
    found = remedies(tmp_path, log)
    assert ("shard-states" in found) is states
    assert any("NCCL_BUFFSIZE" in (one.snippet or "") for one in found.values()) is buffers


@pytest.mark.parametrize(
    ("log", "action"),
    [
        (FAILED, "Halve the batch size"),  # it does not say that it got none
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.20 GiB", "Halve the batch size"),
    ],
)
def test_who_does_not_say_that_it_lacks_room_is_not_named(tmp_path: Path, log: str, action: str) -> None:
    assert remedies(tmp_path, log)["smaller-microbatch"].action == action


def test_versions_matter_to_a_library_that_only_fails(tmp_path: Path) -> None:
    assert "fix-environment" in remedies(tmp_path, FAILED)


WOKEN = 'router: POST http://10.1.1.7:9000/wake_up -> 500: {{"error": "{error}"}}'
UNBALANCED = "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes."


@pytest.mark.parametrize(
    "log",
    [
        WOKEN.format(error="CUDA Error: out of memory at /src/csrc/cumem_allocator.cpp:150"),
        "Call to wake_up method failed: CUDA Error: out of memory at /src/csrc/cumem_allocator.cpp:150",
    ],
)
def test_a_server_that_wakes_up_looks_for_who_holds_the_gpu(tmp_path: Path, log: str) -> None:
    found = remedies(tmp_path, log)
    assert [*found][:2] == ["free-the-gpu", "start-in-sequence"]
    assert found["free-the-gpu"].action == "Find out which process holds the GPU that the engine wakes up on"
    assert found["start-in-sequence"].action.startswith("Put the other engine on this GPU to sleep")


@pytest.mark.parametrize(
    "log",
    [
        # a trainer beside it has to leave the GPU first
        "trl/trainer/grpo_trainer.py: step 4\n"
        + WOKEN.format(error="CUDA Error: out of memory at cumem_allocator.cpp:150"),
        "GET /health CUDA Error: out of memory at /src/csrc/cumem_allocator.cpp:150",
        "the next wake_up is at 10:00\nCUDA Error: out of memory at /src/csrc/cumem_allocator.cpp:150",
    ],
)
def test_nobody_else_is_put_to_sleep_where_no_request_woke_it(tmp_path: Path, log: str) -> None:
    assert not [one for one in remedies(tmp_path, log).values() if "sleep before" in one.action]


def test_a_share_is_no_matter_before_anything_is_loaded(tmp_path: Path) -> None:
    found = remedies(tmp_path, UNBALANCED)
    assert [*found] == ["free-the-gpu", "fix-placement"]
    assert found["fix-placement"].snippet == "export CUDA_VISIBLE_DEVICES=N,N   # their numbers"


MEASURED = (
    "AssertionError: Error in memory profiling. Initial free memory {before} GiB, current free memory {after} GiB. "
    "This happens when {words}"
)
V1 = "other processes sharing the same container release GPU memory while vLLM is profiling during initialization."
V0 = "the GPU memory was not properly cleaned up before initializing the vLLM instance."


@pytest.mark.parametrize("after", ["17.25", "19.5"])
def test_a_cache_of_a_stated_size_is_not_measured_for(tmp_path: Path, after: str) -> None:
    found = remedies(tmp_path, MEASURED.format(before="17.25", after=after, words=V1))
    assert found["lower-engine-reservation"].setting == "--kv-cache-memory-bytes"
    assert found["lower-engine-reservation"].suggested is None


@pytest.mark.parametrize(("after", "first"), [("17.25", "lower-engine-reservation"), ("19.5", "start-in-sequence")])
def test_equal_figures_fail_again_without_anybody_else(tmp_path: Path, after: str, first: str) -> None:
    found = remedies(tmp_path, MEASURED.format(before="17.25", after=after, words=V1))
    assert next(iter(found)) == first


@pytest.mark.parametrize(
    ("words", "before"),
    [
        (V0, ""),
        (V1, "INFO vLLM API server version 0.9.2\n"),
        (V1, "vllm serve acme/m --kv-cache-memory-bytes 4294967296\n"),
    ],
)
def test_who_cannot_state_it_or_does_is_not_told_to(tmp_path: Path, words: str, before: str) -> None:
    log = before + MEASURED.format(before="17.25", after="19.5", words=words)
    assert "lower-engine-reservation" not in remedies(tmp_path, log)


FREE = (
    "torch.OutOfMemoryError: {runtime} out of memory. Tried to allocate 48.00 MiB. GPU {gpu} has a total capacity of "
    "63.98 GiB of which {free} is free. Of the allocated memory 2.00 GiB is allocated by PyTorch, and 12.00 MiB is "
    "reserved by PyTorch but unallocated."
)


@pytest.mark.parametrize(("runtime", "mask"), [("HIP", "HIP_VISIBLE_DEVICES"), ("CUDA", "CUDA_VISIBLE_DEVICES")])
def test_what_was_refused_on_a_free_gpu_is_tried_alone(tmp_path: Path, runtime: str, mask: str) -> None:
    found = remedies(tmp_path, FREE.format(runtime=runtime, gpu=3, free="58.10 GiB"))
    alone = found["collect-evidence"].snippet or ""
    assert "torch.empty(50331648, dtype=torch.uint8, device='cuda:3')" in alone
    assert "container image" in found["pin-version"].action
    nothing = FREE.replace("2.00 GiB", "0 bytes").replace("12.00 MiB", "0 bytes")
    first = remedies(tmp_path, nothing.format(runtime=runtime, gpu=3, free="58.10 GiB"))["fix-environment"]
    assert mask in first.action


def test_a_driver_that_gave_memory_before_is_not_the_wrong_one(tmp_path: Path) -> None:
    found = remedies(tmp_path, FREE.format(runtime="HIP", gpu=3, free="58.10 GiB"))["fix-environment"]
    assert "gave this process 2.01 GiB before" in found.action
    assert "sysctl vm.max_map_count" in (found.snippet or "")
    on_windows = 'File "C:\\jobs\\fit.py", line 3, in <module>\n' + FREE
    other = remedies(tmp_path, on_windows.format(runtime="HIP", gpu=3, free="58.10 GiB"))["fix-environment"]
    assert "HIP_VISIBLE_DEVICES" in other.action


@pytest.mark.parametrize(
    ("before", "clashes"),
    [("", False), ("step 31 loss 0.44\n", False), ("INFO vLLM API server version 0.9.2\n", True)],
)
def test_segments_that_grow_cost_something_beside_an_engine_only(tmp_path: Path, before: str, clashes: bool) -> None:
    split = FREE.replace("12.00 MiB", "9.00 GiB").replace("2.00 GiB", "52.00 GiB")
    unused = split.format(runtime="CUDA", gpu=3, free="10.00 MiB")
    assert ("sleep mode" in remedies(tmp_path, before + unused)["allocator-config"].cost) is clashes


def test_who_fills_a_full_gpu_is_recorded(tmp_path: Path) -> None:
    found = remedies(tmp_path, FREE.format(runtime="CUDA", gpu=3, free="10.00 MiB"))
    assert not [one for one in found.values() if "torch.empty(" in (one.snippet or "")]


VRAM = "[drm] amdgpu: {there}M of VRAM memory ready\n\n"


@pytest.mark.parametrize(
    ("there", "mapped"),
    [("262144", True), ("65536", False), ("66000", False)],  # four times what the framework sees, and as much
)
def test_what_the_framework_cannot_see_is_mapped(tmp_path: Path, there: str, mapped: bool) -> None:
    log = VRAM.format(there=there) + FREE.format(runtime="HIP", gpu=0, free="60.00 GiB").replace(
        "48.00 MiB", "80.00 GiB"
    )
    found = remedies(tmp_path, log)
    assert ("on an apu" in " ".join(one.action for one in found.values()).lower()) is mapped
    if mapped:
        assert next(iter(found)) == "raise-allocator-cap"  # and not a look at versions
        # 80 GiB x 1.25 are less than half of what the BIOS and the system have
        assert found["raise-allocator-cap"].snippet == "uname -r"
