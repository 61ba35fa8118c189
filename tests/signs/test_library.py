from __future__ import annotations

import pytest
from gpu_logs import crash, refused

from oomdoctor.signs import Sign, library
from oomdoctor.signs.commands import FIRST_ERRORS

HANDLE = "E xla/stream_executor/cuda/cuda_dnn.cc:439] Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR"
LEFT = "E external/xla/xla/stream_executor/cuda/cuda_dnn.cc:443] Memory usage: {} bytes free, {} bytes total."
BARE = "RuntimeError: CUDA driver error: out of memory"
WSL = "Linux dev 6.6.87.2-microsoft-standard-WSL2 x86_64"
ENGINE = "INFO 10-02 12:09:40 [core.py:58] Initializing a V1 LLM engine (v0.10.2) with config: model='m'\n"


def probed(free: int) -> str:
    return f"{HANDLE}\n{LEFT.format(free * 2**20, 100 * 2**20)}"


def outside(gib: float, total: int = 20) -> str:
    """A process that holds so much of a card outside PyTorch."""
    figures = refused(
        total=f"{total}.00 GiB", free="0.10 GiB", own="OWN", allocated="10.00 GiB", unallocated="0.00 GiB"
    )
    return figures.replace("OWN", f"{gib + 10:.2f} GiB")


def beside_jax(gib: float) -> str:
    return f"jax==0.4.35\n{outside(gib, total=100)}"


SMALL = "8.00 GiB"  # of a GPU


def free(mib: int, tried: int, total: str = "80.00 GiB", device: str = "CUDA") -> str:
    return refused(tried=f"{tried}.00 MiB", free=f"{mib}.00 MiB", total=total, device=device)


@pytest.mark.parametrize(
    ("sign", "not_yet", "from_here"),
    [
        (library.a_handle_found_the_card_taken, probed(free=31), probed(free=29)),
        (library.a_handle_found_the_card_taken, probed(free=0), probed(free=1)),
        (library.jax_or_tensorflow_beside_pytorch, beside_jax(64.9), beside_jax(65.1)),
        (library.an_ordinary_context, outside(1.51), outside(1.49)),
        (library.much_outside_pytorch, outside(2.99), outside(3.01)),
        (library.much_outside_pytorch, outside(3.9, total=40), outside(4.1, total=40)),
        (library.much_outside_pytorch, ENGINE + outside(3.9), outside(3.9)),
        (library.much_outside_pytorch_in_an_engine, ENGINE + outside(2.9), ENGINE + outside(3.9)),
        (library.very_much_outside_pytorch, outside(3.9), outside(4.1)),
        (library.very_much_outside_pytorch, ENGINE + outside(4.1), outside(4.1)),
        (library.less_was_free, free(512, tried=512), free(511, tried=512)),
        (library.enough_was_free, free(523, 512, SMALL, device="MPS"), free(523, 512, SMALL)),
        (library.enough_was_free, free(522, 512, SMALL), free(523, 512, SMALL)),
        (library.enough_was_free, free(511, 200, "10.00 GiB"), free(512, 200, "10.00 GiB")),
        (library.twice_as_much_was_free, free(1100, 551, SMALL), free(1100, 550, SMALL)),
        (library.twice_as_much_was_free, free(1023, 2, SMALL), free(1024, 2, SMALL)),
        (library.twice_as_much_was_free, free(4095, 2), free(4096, 2)),
        (library.plenty_was_free, free(8191, tried=2), free(8192, tried=2)),
        (library.plenty_was_free, free(9000, tried=8830), free(9000, tried=8810)),
        (library.a_platform_that_refuses_what_is_free, BARE, f"{WSL}\n{BARE}"),
    ],
)
def test_what_is_beside_pytorch_and_what_was_free(sign: Sign, not_yet: str, from_here: str) -> None:
    assert sign(crash(*not_yet.splitlines())) is None
    assert sign(crash(*from_here.splitlines())) is not None


def test_a_buffer_of_all_ranks_is_none_of_the_allocators() -> None:
    where = '  File "/opt/{}", line 12, in empty\n    return buffer.empty(size)\n'
    shared = (
        "Traceback (most recent call last):\n" + where.format("torch/distributed/_symmetric_memory/__init__.py") + BARE
    )
    assert library.a_buffer_of_all_ranks_was_refused(crash(shared)) is not None
    another = "Traceback (most recent call last):\n" + where.format("app/memory.py") + BARE
    assert library.a_buffer_of_all_ranks_was_refused(crash(another)) is None


TORN_DOWN = (
    '(VllmWorker rank=2 pid=61)   File "/x/vllm/distributed/parallel_state.py", line 8, in destroy_model_parallel\n'
    "(VllmWorker rank=2 pid=61)     torch.distributed.destroy_process_group(group)\n"
)
IN_A_STEP = (
    '(VllmWorker rank=2 pid=61)   File "/x/vllm/distributed/parallel_state.py", line 9, in all_reduce\n'
    "(VllmWorker rank=2 pid=61)     torch.distributed.all_reduce(x, group=group)\n"
)
OF_NCCL = (
    "(VllmWorker rank=2 pid=61) torch.distributed.DistBackendError: NCCL error in: /p/NCCLUtils.cpp:7, unhandled cuda "
    "error, NCCL version 2.21.5\n(VllmWorker rank=2 pid=61) Last error:\n"
    "(VllmWorker rank=2 pid=61) Cuda failure 'out of memory'\n"
)
DIED = "ERROR 03-02 11:09:41 [multiproc_executor.py:123] Worker proc VllmWorker-{} died unexpectedly, shutting down.\n"


@pytest.mark.parametrize(
    ("trace", "behind", "said"),
    [
        (TORN_DOWN, DIED.format(5), "VllmWorker-5 died unexpectedly"),
        (TORN_DOWN, "", "is not shown"),
        (TORN_DOWN, DIED.format(2), "is not shown"),
        (IN_A_STEP, DIED.format(5), None),
        (IN_A_STEP, "", None),
        ("", DIED.format(5), None),
    ],
)
def test_a_library_that_fails_while_the_job_is_taken_down_is_not_the_first(
    trace: str, behind: str, said: str | None
) -> None:
    seen = library.a_library_was_refused(crash(*(trace + OF_NCCL + behind).splitlines()))
    assert seen is not None
    assert seen.unsure == bool(seen.against) == (said is not None)
    assert said is None or said in seen.against[0]
    assert (FIRST_ERRORS in seen.next_evidence) == (said is not None)


PHYSX = "PxgCudaDeviceMemoryAllocator fail to allocate memory 50331648 bytes!! Result = 2"
START = ("Not connected to PVD", "+++ Using GPU PhysX", "Physics Engine: PhysX")


@pytest.mark.parametrize(("starts", "told"), [(0, ""), (1, ""), (2, "2 starts"), (3, "3 starts")])
def test_a_simulation_that_was_started_before_holds_its_buffers_too(starts: int, told: str) -> None:
    seen = library.a_library_was_refused(crash(*START * starts, PHYSX))
    assert seen is not None
    assert seen.unsure
    assert (told in seen.words) if told else ("starts" not in seen.words)
