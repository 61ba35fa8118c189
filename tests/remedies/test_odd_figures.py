"""Figures that no job has, as a damaged line prints them: nothing is computed from them, and nothing fails."""

from __future__ import annotations

import pytest
from gpu_logs import TRACEBACK
from remedy_logs import crashes_of, kill
from reports import body

from oomdoctor.remedies.host.thresholds import threshold_of
from oomdoctor.remedies.whatif.compare import whatif

SCORES = [TRACEBACK, '  File "/srv/net.py", line 7, in forward', "    s = q @ k.transpose(-2, -1)"]
REFUSED = (
    "RuntimeError: CUDA out of memory. Tried to allocate 52.00 GiB (GPU 0; 15.78 GiB total capacity; 11.20 GiB already "
    "allocated; {} free; 11.40 GiB reserved in total by PyTorch)"
)
WIDE = "9" * 400


@pytest.mark.parametrize(("free", "by_the_square"), [("-2.25 MiB", False), ("3.10 GiB", True)])
def test_less_than_nothing_is_no_room(tmp_path, free: str, *, by_the_square: bool) -> None:  # type: ignore[no-untyped-def]
    first = body(tmp_path, "\n".join([*SCORES, REFUSED.format(free)]))["diagnoses"][0]
    assert ("sqrt(" in str(first["remedies"])) is by_the_square


@pytest.mark.parametrize(("fraction", "known"), [(WIDE, False), ("95", False), ("0.95", True)])
def test_a_threshold_is_a_share(fraction: str, *, known: bool) -> None:
    (crash,) = crashes_of(kill(61.2, 63.9, "7\t51.20\tpython serve_rewards.py\n", threshold=fraction))
    assert (threshold_of(crash) is not None) is known
    assert str(whatif(crash, {"RAY_memory_usage_threshold": 0.97}))
