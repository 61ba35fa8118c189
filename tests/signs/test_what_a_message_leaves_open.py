"""What is said no surer than the message: a step of training is two passes, a pool ends at one of two limits."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.98 GiB. GPU 0 has a total capacity of 44.64 GiB "
    "of which 1.99 GiB is free. Including non-PyTorch memory, this process has 42.64 GiB memory in use. Of the "
    "allocated memory 38.79 GiB is allocated by PyTorch, and 3.02 GiB is reserved by PyTorch but unallocated."
)
BARE = "RuntimeError: CUDA error: out of memory"
RMM = "MemoryError: std::bad_alloc: out_of_memory: RMM failure at:/include/rmm/mr/device/{}.hpp:188: {}"
DUCK = "duckdb.duckdb.OutOfMemoryException: Out of Memory Error: {}"


def trace(*frames: str, ends: str) -> str:
    parts = (frame.split(" ", 2) for frame in frames)
    heads = [f'  File "{file}", line 7, in {function}\n    {code}' for file, function, code in parts]
    return "\n".join(["Traceback (most recent call last):", *heads, ends])


STEP = "/srv/tune/loop.py training_step out = super().run(batch)"


@pytest.mark.parametrize(
    ("text", "work"),
    [
        (trace(STEP, "/srv/tune/nets.py forward x = self.mix(x)", ends=OOM), "The forward pass"),
        (trace(STEP, "/srv/tune/loop.py compute_loss x = self.mix(x)", ends=OOM), "The forward pass"),
        (trace(STEP, "/srv/tune/loop.py fit loss.backward()", ends=OOM), "The backward pass"),
        (trace(STEP, ends=OOM), "A training step"),
        (f"epoch: 3 loss: 0.71\n{OOM}", "A training step"),
    ],
)
def test_a_step_of_training_is_no_forward_pass(text: str, work: str, tmp_path: Path) -> None:
    told = body(tmp_path, text)["diagnoses"][0]
    assert told["headline"].startswith(f"{work} needed 3.98 GiB more")
    assert ("In a training step, an" in told["explanation"]) == (work == "A training step")


@pytest.mark.parametrize(
    ("text", "headline", "open_"),
    [
        (RMM.format("limiting_resource_adaptor", "Exceeded memory limit"), "RMM's memory limit was hit", False),
        (
            RMM.format("pool_memory_resource", "Maximum pool size exceeded"),
            "RMM's pool could not grow on the GPU",
            True,
        ),
    ],
)
def test_a_pool_that_does_not_grow_is_at_its_own_limit_or_at_the_gpus(
    text: str, headline: str, open_: bool, tmp_path: Path
) -> None:
    told = body(tmp_path, text)
    assert told["diagnoses"][0]["headline"] == headline
    assert any("query-compute-apps" in command for command in told["next_evidence"]) == open_


@pytest.mark.parametrize(
    ("said", "headline"),
    [
        ("failed to pin block of size 256.0 KiB (1.1 GiB/1.8 GiB used)",
         "DuckDB's memory limit of 1.80 GiB was hit"),
        ("Failed to change memory limit to 128000000: could not free up enough memory for the new limit",
         "DuckDB could not lower its memory limit to 128000000 bytes"),
        (("Failed to change memory limit to 128000000: could not free up enough memory for the new limit "
         "(1.1 GiB/1.8 GiB used)"), "DuckDB could not lower its memory limit to 128000000 bytes: 1.10 GiB are in use"),
    ],
)  # fmt: skip
def test_a_limit_that_could_not_be_lowered_was_not_hit(said: str, headline: str, tmp_path: Path) -> None:
    assert body(tmp_path, DUCK.format(said))["diagnoses"][0]["headline"].startswith(headline)


def test_a_pool_is_made_at_the_start_and_an_engine_is_one(tmp_path: Path) -> None:
    pool = trace(
        "/srv/etl/run.py main reinitialize_allocator(POOL, 1000)", ends="RuntimeError: CUDA error: out of memory"
    )
    assert body(tmp_path, pool)["diagnoses"][0]["stage"] == "launch"
    engine = pool.replace("reinitialize_allocator", "initialize_engine")
    assert body(tmp_path, engine)["diagnoses"][0]["stage"] == "engine_init"
