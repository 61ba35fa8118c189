from __future__ import annotations

import pytest

from oomdoctor.job.model import Point, Trajectory
from oomdoctor.report.outlook import outlook
from oomdoctor.report.words import growth

GIB = 1024**3


def grows(growth: float | None, low: float, high: float, last: int = 40, reached: int | None = None) -> Trajectory:
    return Trajectory(
        what="memory used on the node",
        pool="host_ram",
        points=(Point(1, 10 * GIB, 1), Point(2, last * GIB, 2)),
        growth_bytes=None if growth is None else round(growth * GIB),
        growth_low_bytes=round(low * GIB),
        growth_high_bytes=round(high * GIB),
        reached_bytes=None if reached is None else reached * GIB,
    )


def test_how_long_the_rest_lasts() -> None:
    found = outlook(grows(1.8, 1.5, 2.1), 84 * GIB)
    assert found is not None
    assert (found.count, found.count_low, found.count_high) == (24, 20, 30)
    assert found.derivation == "(84.00 GiB - 40.00 GiB) / 1.80 GiB = 24"


def test_a_sawtooth_is_full_with_its_peaks() -> None:
    found = outlook(grows(1.0, 1.0, 1.0, last=40, reached=70), 80 * GIB)
    assert found is not None
    assert found.count == 10


@pytest.mark.parametrize(
    ("figure", "limit"),
    [
        (grows(None, -1, 1), 84),  # open whether it grows
        (grows(1, 1, 1), None),  # nobody says how much there is
        (grows(1, 1, 1), 40),  # full already
        (grows(5, 5, 5), 42),  # full before another step is done
        (grows(1, 1, 1), 30),  # a limit that it is beyond is another's
    ],
)
def test_nothing_is_foretold(figure: Trajectory, limit: int | None) -> None:
    assert outlook(figure, limit and limit * GIB) is None


@pytest.mark.parametrize(
    ("count", "per", "said"),
    [
        (1, "step", "about one more step at that rate would fill it: (formula)"),
        (2, "step", "about 2 more steps at that rate would fill it: (formula)"),
        (1, "print", "about one more print at that rate would fill it: (formula)"),
        (21, "print", "about 21 more prints at that rate would fill it: (formula)"),
    ],
)
def test_one_is_not_many(count: int, per: str, said: str) -> None:
    points = [{"bytes": GIB, "line": 1}, {"bytes": 2 * GIB, "line": 2}]
    full = {"count": count, "derivation": "(formula)"}
    assert growth({"what": "memory used", "points": points, "per": per, "full": full}).endswith(f"; {said}")
