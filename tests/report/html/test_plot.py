from __future__ import annotations

import re
from typing import Any

import pytest

from oomdoctor.report.contract import Ledger
from oomdoctor.report.html.plot import FOOT, MOST_DOTS, TOP, WIDTH, Plot, plot

GIB = 1024**3


def node(total: int) -> Ledger:
    return Ledger("host_ram", "node 10.3.0.8", total * GIB, (), None)


def of(*gib: float, steps: list[int | None] | None = None, ledgers: tuple[Ledger, ...] = ()) -> Plot | None:
    made: dict[str, Any] = {
        "what": "memory used", "pool": "host_ram", "growth_bytes": None, "per": "step",
        "points": [
            {"step": step, "bytes": round(size * GIB), "line": line}
            for line, (step, size) in enumerate(zip(steps or list(range(len(gib))), gib, strict=True), start=1)
        ],
    }  # fmt: skip
    return plot(made, ledgers)


def drawn(*gib: float, steps: list[int | None] | None = None, ledgers: tuple[Ledger, ...] = ()) -> Plot:
    made = of(*gib, steps=steps, ledgers=ledgers)
    assert made is not None
    return made


@pytest.mark.parametrize("gib", [(), (40.0,)])
def test_no_line_without_two_points(gib: tuple[float, ...]) -> None:
    assert of(*gib) is None


def test_it_begins_at_zero_where_the_figure_doubles() -> None:
    made = drawn(40.0, 80.0, 120.0)
    assert made.from_zero
    assert made.path == "M0 142.7L500 85.3L1000 28"
    assert made.dots == ((0.0, 142.7), (500.0, 85.3), (1000.0, 28.0))


def test_it_begins_at_the_least_where_that_is_most_of_it() -> None:
    made = drawn(100.0, 101.0, 104.0)
    assert not made.from_zero
    assert made.dots[0] == (0.0, FOOT)
    assert made.dots[-1] == (WIDTH, TOP)


@pytest.mark.parametrize("size", [0.0, 40.0])
def test_a_figure_that_stands_still_is_a_level_line(size: float) -> None:
    made = drawn(size, size, size)
    assert len({y for _, y in made.dots}) == 1


def test_points_stand_where_their_steps_are() -> None:
    assert [x for x, _ in drawn(1.0, 2.0, 3.0, steps=[10, 20, 110]).dots] == [0.0, 100.0, 1000.0]


@pytest.mark.parametrize("steps", [[1, None, 3], [3, 1, 2], [7, 7, 7]])
def test_steps_that_do_not_go_up_are_not_trusted(steps: list[int | None]) -> None:
    assert [x for x, _ in drawn(1.0, 2.0, 3.0, steps=steps).dots] == [0.0, 500.0, 1000.0]


def test_the_total_is_a_line_over_it() -> None:
    made = drawn(40.0, 80.0, 120.0, ledgers=(node(128),))
    assert made.limit is not None
    assert (made.limit.y, made.limit.text) == (TOP, "128.00 GiB")
    assert made.dots[-1][1] > TOP


@pytest.mark.parametrize("ledgers", [(node(1000),), (node(100),), (node(128), node(256))])
def test_no_total_that_is_far_below_or_not_the_only_one(ledgers: tuple[Ledger, ...]) -> None:
    assert drawn(40.0, 80.0, 120.0, ledgers=ledgers).limit is None


def test_no_total_of_another_pool() -> None:
    assert drawn(40.0, 80.0, ledgers=(Ledger("gpu", "gpu 0", 81 * GIB, (), None),)).limit is None


def test_a_label_does_not_stand_in_the_totals_line() -> None:
    made = drawn(119.0, 60.0, 120.0, ledgers=(node(121),))
    assert made.limit is not None
    assert made.first_label_y > made.dots[0][1]
    assert made.last_label_y > made.dots[-1][1]


def test_a_label_does_not_stand_in_the_figures_own_line() -> None:
    rising, falling = drawn(40.0, 80.0), drawn(80.0, 40.0)
    assert rising.first_label_y > rising.dots[0][1]
    assert rising.last_label_y < rising.dots[-1][1]
    assert falling.first_label_y < falling.dots[0][1]
    assert falling.last_label_y > falling.dots[-1][1]


def test_many_points_keep_the_first_and_the_last_dot() -> None:
    made = drawn(*(1.0 + number for number in range(MOST_DOTS * 5)))
    assert len(made.dots) == 2
    assert len(re.findall(r"[ML]", made.path)) == MOST_DOTS * 5
