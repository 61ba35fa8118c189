"""A lower share takes from the KV cache: no more than the longest request leaves of it."""

from __future__ import annotations

import pytest
from remedy_logs import advise

SERVE = (
    "vllm serve acme/m --gpu-memory-utilization 0.96 --max-model-len {length}\n"
    "INFO 07-07 10:00:01 [gpu_worker.py:300] Available KV cache memory: {room} GiB\n"
    "{size}"
    "INFO 07-07 10:00:09 [gpu_model_runner.py:2100] Graph capturing finished in 4 secs, took 0.30 GiB\n"
    "torch.OutOfMemoryError: CUDA out of memory.{figures}\n"
)
SIZE = "INFO 07-07 10:00:01 [kv_cache_utils.py:700] GPU KV cache size: {tokens} tokens\n"
FIGURES = (
    " Tried to allocate 20.00 MiB. GPU 0 has a total capacity of {total} GiB of which 40.00 MiB is free. Of the "
    "allocated memory 7.00 GiB is allocated by PyTorch, and 10.00 MiB is reserved by PyTorch but unallocated."
)


def lowered(room: str = "4.00", tokens: str = "80,000", length: int = 60000, total: str = "") -> tuple[object, str]:
    """The share that is suggested, and what it assumes."""
    size = SIZE.format(tokens=tokens) if tokens else ""
    log = SERVE.format(room=room, size=size, length=length, figures=FIGURES.format(total=total) if total else "")
    remedy = advise(log, "lower-engine-reservation", cause="vllm-utilization-too-high")[0]["lower-engine-reservation"]
    return remedy.suggested, " ".join(remedy.assumes)


@pytest.mark.parametrize("total", ["", "24.00"])
def test_a_small_step_where_a_large_one_may_take_more_than_can_go(total: str) -> None:
    """80000 tokens take 4 GiB, 60000 of them 3: of 1 GiB a large GPU's twentieth may be more."""
    share, assumes = lowered(total=total)
    assert share == 0.95
    assert assumes.startswith("1.00 GiB of the KV cache can go (4.00 GiB - 4.00 GiB x 60000 / 80000 tokens); beyond")


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"total": "16.00"}, "a twentieth of it is less than what can go"),
        ({"tokens": ""}, "what a token takes is not printed"),
        ({"tokens": "50,000"}, "the length does not fit as it is: nothing is left"),
        ({"room": "0.00"}, "there is no cache"),
    ],
)
def test_the_usual_step_where_nothing_speaks_against_it(told: dict[str, str], why: str) -> None:
    assert lowered(**told) == (0.91, ""), why  # type: ignore[arg-type]
