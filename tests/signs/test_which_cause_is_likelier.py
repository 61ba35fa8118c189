"""What a traceback, a table, a list of devices or the rounding of figures say for one cause against another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

OOM = "RuntimeError: CUDA failed with error out of memory"
FULL = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total capacity; "
    "{} GiB already allocated; 310.44 MiB free; {} GiB reserved in total by PyTorch)"
)
ADAM = (
    'Traceback (most recent call last):\n  File "/opt/torch/optim/adamw.py", line 321, in adamw\n    func(\n'
    '  File "/opt/torch/optim/adamw.py", line 440, in _single_tensor_adamw\n    denom = exp_avg_sq.sqrt()\n'
)
PREDICT = (
    'Traceback (most recent call last):\n  File "/srv/run.py", line 7, in predict\n    out = self.apply(params, feat)\n'
    '  File "/opt/jax/_src/{}", line 436, in {}\n    out = compiled.execute(bufs)\n'
    "RuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 13013345720 bytes."
)
TABLE = (
    "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
    "Memory on the node (IP: 10.0.0.1, ID: 9526eac435) where the task (task ID: 8c35, name=main_task, pid=21, memory "
    "used=0.63GB) was running was 482.39GB / 503.52GB (0.958038), which exceeds the memory usage threshold of 0.95. "
    "Top 10 memory users:\nPID\tMEM(GB)\tCOMMAND\n"
)
DEVICES = (
    "CUDA error: out of memory\n  current device: {}, in function ggml_cuda_pool_malloc_leg at /src/ggml-cuda.cu:84\n"
    "  Device 0: AMD Radeon RX 6500M, compute capability 10.3, VMM: no\n"
    "  Device 1: AMD Radeon Graphics, compute capability 10.3, VMM: no"
)


def first(tmp_path: Path, text: str) -> dict[str, Any]:
    found: dict[str, Any] = body(tmp_path, text)["diagnoses"][0]
    return found


@pytest.mark.parametrize(("allocated", "cause"), [(12.10, "optimizer-states"), (9.10, "allocator-fragmentation")])
def test_what_lies_idle_has_to_be_more_than_was_requested(allocated: float, cause: str, tmp_path: Path) -> None:
    assert first(tmp_path, ADAM + FULL.format(allocated, 14.10))["cause"] == cause


@pytest.mark.parametrize(("file", "function"), [("dispatch.py", "_execute_compiled"), ("interpreters/pxla.py", "call")])
def test_a_compiled_program_is_a_pass(file: str, function: str, tmp_path: Path) -> None:
    assert first(tmp_path, PREDICT.format(file, function))["cause"] == "activations"


def test_a_constructor_whose_underscores_are_lost_loads_a_model(tmp_path: Path) -> None:
    trace = (
        'Traceback (most recent call last):\n  File "cli.py", line 9, in cli\n  File "transcribe.py", line 5, in init\n'
    )
    assert first(tmp_path, trace + OOM)["stage"] == "model_load"
    trace = trace.replace("in init", "in initial")
    assert first(tmp_path, trace + OOM)["stage"] != "model_load"


@pytest.mark.parametrize(
    ("titles", "cause"),
    [
        (("critic_save_checkpoint", "critic_save_checkpoint"), "checkpoint-spike"),
        (("actor_load_checkpoint", "actor_load_checkpoint"), "checkpoint-spike"),
        (("compute_rewards", "critic_save_checkpoint"), "process-ram-hog"),
    ],
)
def test_workers_at_their_checkpoint_are_no_single_hog(titles: tuple[str, str], cause: str, tmp_path: Path) -> None:
    rows = "".join(
        f"{22 + at}\t{size}\tray::WorkerDict.{title}\n"
        for at, (size, title) in enumerate(zip((260.26, 191.01), titles, strict=True))
    )
    assert first(tmp_path, TABLE + rows)["cause"] == cause


@pytest.mark.parametrize(("device", "misplaced"), [(1, True), (0, False)])
def test_what_runs_on_the_processors_own_gpu_is_misplaced(device: int, misplaced: bool, tmp_path: Path) -> None:
    assert (first(tmp_path, DEVICES.format(device))["cause"] == "device-misplacement") == misplaced


def test_an_only_gpu_is_in_its_place(tmp_path: Path) -> None:
    text = DEVICES.format(1).replace("  Device 0: AMD Radeon RX 6500M, compute capability 10.3, VMM: no\n", "")
    assert first(tmp_path, text)["cause"] != "device-misplacement"
