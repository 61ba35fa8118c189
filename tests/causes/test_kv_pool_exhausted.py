from __future__ import annotations

import pytest
from engine_logs import ABORTED, NO_BLOCKS, PREEMPTED, SWAP_TOO_LARGE, judged, refusal

from oomdoctor.causes import Finding

CAUSE = "kv-pool-exhausted"


@pytest.mark.parametrize("end", [NO_BLOCKS, SWAP_TOO_LARGE, refusal("2.00 GiB", 23.55, 1.0, 22.0, 21.0)])
def test_preemption_and_another_failure(end: str) -> None:
    assert not isinstance(judged(CAUSE, f"{PREEMPTED}{end}\n"), Finding)


def test_a_pool_and_a_swap_space_that_are_full() -> None:
    finding = judged(CAUSE, PREEMPTED + ABORTED)
    assert isinstance(finding, Finding)
    assert finding.weight >= 0.85
    assert "51 sequences" in finding.why
    assert isinstance(judged(CAUSE, ABORTED), Finding)
