"""Which cause stands first, where two have something for them. Orders, not figures: how they come about may change."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose

BACKWARD = (
    "Traceback (most recent call last):\n"
    '  File "/w/train.py", line 30, in main\n    loss.backward()\n'
    '  File "/v/lib/python3.10/site-packages/torch/_tensor.py", line 522, in backward\n'
    "    torch.autograd.backward(self, gradient)\n"
)
GROWS = "".join(f"step {n} max_memory_allocated: {30 + 2 * n}.00 GB\n" for n in range(1, 22))


def refused(mine: float, live: float, unused: float = 1.2, others: float = 0) -> str:
    """The allocator's sentence on a card of 79.15 GiB, in GiB."""
    beside = f"Process 4711 has {others:.2f} GiB memory in use. " if others else ""
    return (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 "
        f"GiB of which 1.00 GiB is free. {beside}Including non-PyTorch memory, this process has {mine:.2f} GiB memory "
        f"in use. Of the allocated memory {live:.2f} GiB is allocated by PyTorch, and {unused:.2f} GiB is reserved by "
        "PyTorch but unallocated.\n"
    )


def causes(log: str, folder: Path) -> list[str]:
    path = folder / "job.log"
    path.write_text(log)
    (incident,) = diagnose(path).as_json()["incidents"]
    return [diagnosis["cause"] for diagnosis in incident["diagnoses"]]


@pytest.mark.parametrize("others", [30.0, 37.0])
def test_in_a_backward_pass_the_activations_come_before_others_on_the_card(others: float, tmp_path: Path) -> None:
    mine = 78.1 - others
    found = causes(BACKWARD + refused(mine, mine - 2, others=others), tmp_path)
    assert found[:2] == ["activations", "gpu-shared"]


@pytest.mark.parametrize(
    ("log", "before"),
    [
        (BACKWARD + refused(20.0, 18.0, others=58.1), "gpu-shared"),  # this process holds a quarter of the card
        (BACKWARD + refused(78.0, 66.0, unused=11.2), "allocator-fragmentation"),
        (GROWS + BACKWARD + refused(78.0, 76.0), "gpu-memory-leak"),
    ],
)
def test_what_the_figures_show_comes_before_the_activations_of_a_backward_pass(
    log: str, before: str, tmp_path: Path
) -> None:
    assert causes(log, tmp_path)[0] == before


# What an engine's worker prints of a computation, without a frame that is the engine's own
SORTED = (
    '  File "/job/score.py", line 9, in rank',
    "    scores, order = hidden.sort(dim=-1, descending=False)",
)
# What the allocators say that map memory anew when an engine wakes
MAPPED = (
    "[torch_memory_saver.cpp] CUresult error: 2 (out of memory)  file=csrc/utils.h func=cu_mem_create line=194",
    "CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62",
)


def by(actor: str, *lines: str) -> str:
    return "".join(f"({actor} pid=1054, ip=10.0.0.52) {line}\n" for line in lines)


@pytest.mark.parametrize(
    "actor",
    ["RayWorkerWrapper", "LLMRayActor", "SGLangHttpServer", "vLLMHttpServer", "ServeReplica:app:LLM", "actor_infer-3"],
)
def test_an_engines_process_keeps_nothing_for_a_backward_pass(actor: str, tmp_path: Path) -> None:
    """Its name alone says that it is one."""
    found = causes(by(actor, *SORTED, refused(78.0, 76.0).rstrip()), tmp_path)
    assert found[0] == "vllm-utilization-too-high"
    assert "activations" not in found


@pytest.mark.parametrize("actor", ["WorkerDict", "ActorModelRayActor", "TrainerActor", "RewardModelRayActor"])
def test_a_trainers_process_that_prints_the_same_does(actor: str, tmp_path: Path) -> None:
    found = causes(by(actor, *SORTED, refused(78.0, 76.0).rstrip()), tmp_path)
    assert found[0] == "activations"
    assert "vllm-utilization-too-high" not in found


@pytest.mark.parametrize("line", MAPPED)
@pytest.mark.parametrize(
    ("actor", "cause"),
    [
        ("LLMRayActor", "vllm-utilization-too-high"),
        ("SGLangHttpServer", "vllm-utilization-too-high"),
        ("WorkerDict", "gpu-shared"),
        ("ActorModelRayActor", "gpu-shared"),
    ],
)
def test_who_wakes_an_engine_is_not_the_engine(actor: str, line: str, cause: str, tmp_path: Path) -> None:
    assert causes(by(actor, line), tmp_path)[0] == cause
