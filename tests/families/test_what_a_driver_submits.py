"""What a driver in user space says of a card's memory, and what shows that a job went on without what it was refused.

Beside each kind stand its near misses, which are more.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

from oomdoctor.families.lines import PROGRESS

LOST = "terminate called after throwing an instance of 'vk::DeviceLostError'\n  what():  vk::submit: ErrorDeviceLost"
HELP = """\
The verbs transport could not start while it allocated some locked
memory. The memlock limits may be set too low.

  Local host:    c17
  Device:        mlx5_2
  Memlock limit: 65536
"""
TRY = (
    "2021-06-01 08:00:0{at}.120001: E stream_executor/cuda_driver.cc:71] failed to alloc {size} bytes on host: "
    "CUDA_ERROR_OUT_OF_MEMORY: out of memory\n"
    "2021-06-01 08:00:0{at}.120090: W gpu/host_pool.h:44] could not allocate pinned host memory of size: {size}\n"
)
LADDER = "".join(TRY.format(at=at, size=size) for at, size in enumerate((3221225472, 2899102924, 2609192631)))
STEP = "Rank 2 of 4: epoch 3 step 40 loss 1.17"
REGISTERED = "[9:0:9] ib_md.c:12  UCX  ERROR ibv_reg_mr(length=8388608) failed: Cannot allocate memory"


@pytest.mark.parametrize(
    ("text", "pool"),
    [
        (f"radv/amdgpu: Not enough memory for command submission.\n{LOST}", "gpu"),
        ("radeon: Not enough memory for command submission.\nAborted (core dumped)", "gpu"),
        ("Nov  3 10:00:01 ws2 kwin[712]: amdgpu: Not enough memory for command submission.", "gpu"),
        ("iris: Failed to submit batchbuffer: Cannot allocate memory\nAborted (core dumped)", "gpu"),
        ("nouveau: kernel rejected pushbuf: Cannot allocate memory", "gpu"),
        ("ERROR: vkAllocateMemory failed with VK_ERROR_OUT_OF_DEVICE_MEMORY (size 268435456, heap 0)", "gpu"),
        ("gridd: write of the index failed: Cannot allocate memory", "host_ram"),
        ("There is insufficient system memory to run this query.", "host_ram"),
        ("12:00:01 UTC  Memory limit of 512 MiB exceeded with 531 MiB used.", "host_ram"),
        ("StoreError: b'out of memory while adding a key'", "host_ram"),
        ("2023-03-04 11:20:01.110203: W tensorflow/c/logging.cc:43] DML allocator out of memory!", "gpu"),
        ("jaxlib.Error: INTERNAL: Error dispatching computation: RESOURCE_EXHAUSTED: Out of memory allocating 9 GiB.",
         "gpu"),
    ],
)  # fmt: skip
def test_what_was_refused(tmp_path: Path, text: str, pool: str) -> None:
    found = body(tmp_path, text)
    assert (found["verdict"], found["diagnoses"][0]["pool"]) == ("oom", pool)


@pytest.mark.parametrize(
    "text",
    [
        f"step 3 loss 2.2\nradv/amdgpu: Not enough memory for command submission.\n{STEP}",
        "Not enough memory for the preview cache, using a smaller one.",
        f"radv/amdgpu: The CS was cancelled because another context hung.\n{LOST}",
        "iris: Failed to submit batchbuffer: Invalid argument\nAborted (core dumped)",
        "nouveau: kernel rejected pushbuf: No such device",
        "INFO VK_ERROR_OUT_OF_DEVICE_MEMORY is handled by the pool",
        "INFO There is insufficient memory to cache the table, reading it again",
        "There is no more memory to reclaim, done in 3 s: finished",
        "12:00:01 UTC  INFO Memory limit of 512 MiB, 31 MiB used.",
        "if a memory limit of 512 MiB is exceeded, the pod is restarted",
        "StoreError: b'wrong key'",
        f"2023-03-04 11:20:01.110203: W tensorflow/c/logging.cc:43] DML allocator out of memory!\n{STEP}",
        "[warn] memory pool out of memory, falling back to malloc",
        "jaxlib.Error: INTERNAL: Error dispatching computation: INVALID_ARGUMENT: the buffer was donated",
    ],
)
def test_what_was_not(tmp_path: Path, text: str) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (LADDER + STEP, "no-oom"),
        (LADDER + "Killed", "oom"),
        (LADDER, "oom"),
        (HELP + STEP, "no-oom"),
        (HELP, "oom"),
        (HELP + "*** An error occurred in MPI_Init\n*** MPI_ERRORS_ARE_FATAL", "oom"),
        (f"{REGISTERED}\n{STEP}\n{STEP}", "no-oom"),
        (f"{REGISTERED}\n{STEP}\nTraceback (most recent call last):\nRuntimeError: peer exited", "oom"),
        (f"RuntimeError: failed to allocate 4294967296 bytes of pinned memory\n{STEP}", "oom"),
    ],
)
def test_the_jobs_own_steps_show_that_it_went_on(tmp_path: Path, text: str, verdict: str) -> None:
    assert body(tmp_path, text)["verdict"] == verdict


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("error: failed to load '/models/step-2.1-q5.gguf'", False),
        ("loading Step-2.1-Mini", False),
        ("reading /ckpt/step-500/model.bin", False),
        ("reading C:\\ckpt\\step-500\\model.bin", False),
        ("step-12 loss", True),
        ("train/step: 12", True),
        ("step 12-b", True),
        ("epoch=3-step=12", True),
    ],
)
def test_a_name_that_begins_with_a_step_is_no_progress(line: str, *, told: bool) -> None:
    assert (PROGRESS.search(line) is not None) == told
