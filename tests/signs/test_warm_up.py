from __future__ import annotations

import pytest
from gpu_logs import FORWARD, crash, refused, trace

from oomdoctor.signs import warm_up

LINE = (
    "2024-04-19T11:06:25.868602Z ERROR text_generation_launcher: RuntimeError: Not enough memory to handle 2048 "
    "prefill tokens. You need to decrease `--max-batch-prefill-tokens`"
)


@pytest.mark.parametrize(("allocated", "are_there"), [("68.00 GiB", True), ("67.90 GiB", False)])
def test_weights_that_fill_the_card_in_the_warm_up(allocated: str, are_there: bool) -> None:
    refusal = crash(refused(total="80.00 GiB", own=None, allocated=allocated), "", LINE)
    assert warm_up.warm_up_short(refusal) is not None
    assert (warm_up.weights_there_in_the_warm_up(refusal) is not None) is are_there


def test_a_message_without_figures_shows_no_weights() -> None:
    assert warm_up.weights_there_in_the_warm_up(crash(LINE)) is None
    assert warm_up.warm_up_after_loading(crash(LINE)) is not None
    assert warm_up.warm_up_short(crash(*trace(FORWARD), refused())) is None
