"""What an ambiguous sign, a cut message or a bare death leave open, and what would tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_logs import refused
from reports import body

CUBLAS = "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
SOLVER = "RuntimeError: cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`"
PRODUCT = "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasSgemm(handle, opa, opb, m, n, k)`"
ILLEGAL = "what():  CUDA error: an illegal memory access was encountered"
NCCL = "Failed to CUDA calloc async 608 bytes"
SEGMENT = "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-Hw1 (size 7340384)"
NO_GPU = "RuntimeError: No CUDA GPUs are available"
SAVING = """\
{'loss': 0.31, 'epoch': 0.5}
Saving model checkpoint to out/checkpoint-1000
[launch.py:315:sigkill_handler] Killing subprocess 44307
[launch.py:321:sigkill_handler] ['python', '-u', 'train.py', '--deepspeed', 'z3.json'] exits with return code = -9"""
WAKING = """\
Traceback (most recent call last):
  File "/lib/vllm/worker/worker.py", line 148, in wake_up
    allocator.wake_up()
  File "/lib/vllm/device_allocator/cumem.py", line 83, in create_and_map
    python_create_and_map(*allocation_handle)
RuntimeError: CUDA Error: o"""
PINNING = """\
Traceback (most recent call last):
  File "/lib/deepspeed/accelerator/cuda_accelerator.py", line 217, in pin_memory
    return tensor.pin_memory()"""
UNLISTED = "Including non-PyTorch memory, this process has {own} memory in use."
WINDOWS = r"""Traceback (most recent call last):
  File "C:\jobs\run.py", line 54, in <module>
    self.observations = np.zeros(self.shape, dtype=np.float32)
numpy.core._exceptions._ArrayMemoryError: Unable to allocate 96. GiB for an array with shape (12884901888, 1) and """


def remainder(free: str, own: str, total: str = "8.00 GiB") -> str:
    """A card of which so much is neither free nor this process's."""
    return (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.20 GiB. "
        f"GPU 0 has a total capacity of {total} of which {free} is free. "
        f"{UNLISTED.format(own=own)} Of the allocated memory 4.00 GiB is allocated by "
        "PyTorch, and 18.97 MiB is reserved by PyTorch but unallocated."
    )


def first(folder: Path, log: str) -> dict[str, Any]:
    incident: dict[str, Any] = body(folder, log)["incidents"][0]
    return incident


@pytest.mark.parametrize(
    ("cause", "doubtful", "plain"),
    [
        ("non-torch-memory", f"{PRODUCT}\nterminate called\n  {ILLEGAL}", PRODUCT),
        ("non-torch-memory", CUBLAS, f"trainer: GPU 2 is out of memory\n{CUBLAS}"),
        ("non-torch-memory", SOLVER, SOLVER.replace("cusolverDnCreate(handle)", "cusolverDnSgeqrf(handle, m, n)")),
        ("non-torch-memory", NCCL, f"NCCL WARN Cuda failure 'out of memory'\n{NCCL}"),
        ("shm-too-small", "Error while creating shared memory segment", SEGMENT),
        ("gpu-visibility", NO_GPU, f"CUDA_VISIBLE_DEVICES=''\n{NO_GPU}"),
        ("pinned-memory-exhausted", PINNING, f"{PINNING}\nRuntimeError: CUDA error: out of memory"),
        ("vllm-utilization-too-high", WAKING, f"{WAKING}ut of memory at /csrc/cumem_allocator.cpp:62"),
        ("gpu-shared", remainder("1.00 GiB", "5.40 GiB"), remainder("1.00 GiB", "5.40 GiB", "16.00 GiB")),
        ("gpu-shared", remainder("1.21 GiB", "5.20 GiB"), remainder("0.20 GiB", "5.20 GiB")),
    ],
)
def test_what_another_failure_would_print_as_well_is_likely_at_most(
    tmp_path: Path, cause: str, doubtful: str, plain: str
) -> None:
    less, more = first(tmp_path, doubtful), first(tmp_path, plain)
    assert [one["diagnoses"][0]["cause"] for one in (less, more)] == [cause, cause]
    assert less["cause_open"]
    assert less["diagnoses"][0]["against"]
    assert less["next_evidence"]
    assert not more["cause_open"]


def test_a_cut_message_is_said_to_be_cut(tmp_path: Path) -> None:
    assert first(tmp_path, WAKING)["diagnoses"][0]["against"][0] == 'the message is cut off after "CUDA Error: o"'


def test_a_bare_death_is_explained_by_circumstances_and_no_more(tmp_path: Path) -> None:
    incident = first(tmp_path, SAVING)
    assert incident["diagnoses"][0]["cause"] == "checkpoint-spike"
    assert incident["cause_open"]
    assert "journalctl" in incident["next_evidence"][0]


@pytest.mark.parametrize(
    ("log", "command"),
    [
        (f"{PRODUCT}\n{ILLEGAL}", "CUDA_LAUNCH_BLOCKING=1"),
        (CUBLAS, "CUDA_LAUNCH_BLOCKING=1"),
        (NCCL, "NCCL_DEBUG=INFO"),
        (NO_GPU, "nvidia-smi -L"),
        (remainder("1.21 GiB", "5.20 GiB"), "nvidia-smi --query-compute-apps"),
        (WINDOWS, "Get-CimInstance"),
        ("[sim] DeviceHeap.cpp:88: failed to allocate 339738624 bytes of GPU memory", "nvidia-smi"),
        ("[{'GPU': 6, 'CPU': 60}]\nWaiting for placement group to be scheduled", "ray status"),
        ("Process finished with exit code 137 (interrupted by signal 9: SIGKILL)", "for boot in"),
        ("trainer-1 exited with code 137", "docker inspect"),
        (refused(), "grep -n -A 60 'Traceback"),
    ],
)
def test_the_next_command_can_be_run_and_tells(tmp_path: Path, log: str, command: str) -> None:
    assert first(tmp_path, log)["next_evidence"][0].startswith(command)


def test_nothing_of_another_system_is_asked_on_windows(tmp_path: Path) -> None:
    asked = first(tmp_path, WINDOWS)["next_evidence"]
    assert asked
    assert not [
        command for command in asked if command.startswith(("ulimit", "grep", "sysctl", "free", "ps ", "dmesg"))
    ]
