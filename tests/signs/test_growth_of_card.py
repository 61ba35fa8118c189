from __future__ import annotations

from itertools import accumulate

import pytest
from gpu_logs import crash, refused

from oomdoctor.incident.model import Crash
from oomdoctor.signs import growth_of_card

STEP = (
    "[Rank 0] (after {} iterations) memory (MB) | allocated: {}.00 | max allocated: 70000.00 | reserved: {}.00 "
    "| max reserved: 74000.00"
)


def growing(*steps: int) -> Crash:
    sizes = list(accumulate((30000, *steps)))
    lines = [STEP.format(10 * (place + 1), size, size + 500) for place, size in enumerate(sizes)]
    return crash(*lines, refused())


@pytest.mark.parametrize(
    ("steps", "for_long", "at_all"),
    [
        ([4000] * 7, 1, 1),
        ([4000] * 6, 0, 1),
        ([4000] * 3, 0, 1),
        ([4000] * 2, 0, 0),
        ([155] * 7, 0, 0),
    ],
)
def test_so_many_prints_and_so_much_a_step(steps: list[int], for_long: int, at_all: int) -> None:
    grown = growing(*steps)
    assert bool(growth_of_card.card_grows_for_long(grown)) is bool(for_long)
    assert bool(growth_of_card.card_grows(grown)) is bool(at_all)
    assert growth_of_card.card_grows_by_fits(grown) is None


def test_a_figure_that_falls_now_and_then() -> None:
    by_fits = growing(*[6000, 6000, -2000] * 3)
    assert growth_of_card.card_grows_by_fits(by_fits) is not None
    assert growth_of_card.card_grows(by_fits) is None
