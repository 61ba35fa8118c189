"""No more digits than the log gives, and sums that add up in print."""

from __future__ import annotations

import pytest
from remedy_logs import advise

DUCKDB = "duckdb.duckdb.OutOfMemoryException: Out of Memory Error: failed to allocate data of size 4.0 MiB ({} used)\n"


@pytest.mark.parametrize(
    ("used", "now", "formula"),
    [
        ("93.7 MiB/95.3 MiB", "from 95.3 MiB to 191MiB", "2 x 95.3 MiB, rounded up = 191MiB"),
        ("94.0 MiB/96.0 MiB", "from 96 MiB to 192MiB", "2 x 96 MiB = 192MiB"),
        ("93.7 MiB/95.5 MiB", "from 95.5 MiB to 191MiB", "2 x 95.5 MiB = 191MiB"),
    ],
)
def test_a_limit_is_doubled_as_it_is_printed(used: str, now: str, formula: str) -> None:
    remedy = advise(DUCKDB.format(used), "raise-allocator-cap", cause="allocator-cap")[0]["raise-allocator-cap"]
    assert now in remedy.action
    assert remedy.derivation == formula


REFUSED = (
    "ValueError: To serve at least one request with the models's max seq len ({length}), ({needed} GiB KV cache is "
    "needed, which is larger than the available KV cache memory ({room} GiB). Based on the available memory, the "
    "estimated maximum model length is {fits}. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` "
    "when initializing the engine.\n"
)


@pytest.mark.parametrize(
    ("needed", "room", "said"),
    [
        ("4.26", "4.25", "= 0.902, rounded up: enough on any GPU"),
        ("4.26", "2.25", "enough on a GPU of 40.20 GiB or more"),
    ],
)
def test_no_gpu_is_as_small_as_what_a_hundredth_asks_for(needed: str, room: str, said: str) -> None:
    log = REFUSED.format(length=100000, needed=needed, room=room, fits=52000)
    found = advise(log, "raise-engine-reservation", cause="max-model-len-too-long")[0]["raise-engine-reservation"]
    assert said in (found.derivation or "")
    assert "MiB" not in (found.derivation or "")


def test_a_small_cache_that_lacks_a_hundredth_names_no_gpu() -> None:
    log = REFUSED.format(length=100000, needed="0.54", room="0.50", fits=92592)
    found = advise(log, "raise-engine-reservation", cause="max-model-len-too-long")[0]["raise-engine-reservation"]
    assert "enough on a" not in (found.derivation or "")
