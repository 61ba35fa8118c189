from __future__ import annotations

import math
import random
import subprocess
import sys

import pytest

from oomdoctor.job.model import Shape
from oomdoctor.job.trend import theil_sen, trend

STEADY = [100 + 2 * n for n in range(12)]


def shape(*sizes: float) -> Shape:
    return trend(range(len(sizes)), [round(size * 1000) for size in sizes]).shape


@pytest.mark.parametrize("count", [3, 4, 7, 12, 40, 96])
def test_the_slope_and_its_interval_are_those_of_scipy(count: int) -> None:
    stats = pytest.importorskip(
        "scipy.stats", reason="what we do not need to import, for it is what we are held against"
    )
    drawn = random.Random(count)
    places = sorted(drawn.sample(range(500), count))
    for noise in (0, 3, 300):
        sizes = [7 * place + drawn.randint(-noise, noise) for place in places]
        theirs = stats.theilslopes(sizes, places, alpha=0.8)
        assert theil_sen(places, sizes) == pytest.approx((theirs.slope, theirs.low_slope, theirs.high_slope))


def test_nobody_imports_scipy() -> None:
    program = "import sys, oomdoctor.job.trend; sys.exit('scipy' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize("sizes", [(), (1,), (1, 2)])
def test_too_few_points_tell_nothing(sizes: tuple[int, ...]) -> None:
    assert shape(*sizes) == "few"


def test_a_straight_line_grows_and_its_interval_is_nothing_but_the_slope() -> None:
    found = trend(range(12), STEADY)
    assert (found.shape, found.slope, found.low, found.high, found.reached) == ("growing", 2, 2, 2, 122)


def test_the_slope_is_per_step_not_per_print() -> None:
    assert trend(range(0, 120, 10), STEADY).slope == 0.2


def test_a_spike_or_a_dip_moves_nothing() -> None:
    for wrong in (0, 900):
        sizes = [*STEADY[:7], wrong, *STEADY[8:]]
        found = trend(range(12), sizes)
        assert found.shape == "growing"
        assert found.slope == pytest.approx(2)


def test_noise_widens_the_interval() -> None:
    drawn = random.Random(7)
    sizes = [1000 + 20 * n + drawn.randint(-30, 30) for n in range(40)]
    found = trend(range(40), sizes)
    assert found.shape == "growing"
    assert found.low is not None
    assert found.high is not None
    assert found.low < 20 < found.high
    assert found.high - found.low > 0.5


@pytest.mark.parametrize(
    "sizes",
    [
        (5, 40, 80, 80, 80, 80, 80, 80, 80, 80, 80, 80),  # a warm-up of two steps
        (5, 40, 80, 81, 80, 79.5, 80, 80.4, 80, 79.8, 80.1, 80),  # and what wanders afterwards
        (10, 20, 30, 40, 50, 60, 60, 60.2, 59.9, 60.1, 60, 60),  # rises half of the time
        tuple(50 + 40 * (1 - math.exp(-n / 4)) for n in range(30)),  # a cache that fills up
    ],
)
def test_a_plateau_after_a_rise_is_no_growth(sizes: tuple[float, ...]) -> None:
    assert shape(*sizes) == "plateau"


def test_a_rise_that_slows_down_and_goes_on_is_growth() -> None:
    assert shape(*(50 + 10 * math.sqrt(n) for n in range(30))) == "growing"


def test_a_jump_in_the_warm_up_and_a_leak_afterwards_is_growth() -> None:
    found = trend(range(22), [5, 100, *(300 + 4 * n for n in range(20))])
    assert (found.shape, found.slope) == ("growing", 4)


def test_a_sawtooth_is_no_growth_wherever_it_ends() -> None:
    ramp = [10, 20, 30, 40, 50] * 6
    for end in range(15, 30):
        assert shape(*ramp[:end]) != "growing", end
    assert shape(*ramp) == "sawtooth"
    assert shape(*[60, 20] * 8) == "sawtooth"  # an engine sleeps and wakes


def test_higher_lows_of_two_teeth_tell_nothing() -> None:
    assert shape(10, 20, 30, 40, 50, 14, 24, 34, 44, 54, 18, 28, 38, 48) == "unclear"


def test_a_sawtooth_whose_lows_rise_is_growth() -> None:
    sizes = [n + 100 * (n % 2) + 20 for n in range(24)]
    found = trend(range(24), sizes)
    assert found.shape == "growing"
    assert found.slope == 1
    assert found.reached == 20 + 23 + 100  # the last peak, not the last low


def test_teeth_that_are_small_beside_the_growth_are_noise_on_it() -> None:
    found = trend(range(40), [100 + 10 * n + 30 * (n % 5) for n in range(40)])
    assert found.shape == "growing"
    assert found.slope == pytest.approx(10, rel=0.1)


def test_low_teeth_are_noise() -> None:
    assert shape(100, 101, 99, 101, 99, 101, 99, 101, 99, 101, 99, 101, 99, 101, 99) == "level"


def test_a_figure_that_falls_does_not_grow() -> None:
    assert shape(*range(80, 40, -2)) == "falling"


def test_a_rise_within_the_noise_is_open() -> None:
    found = trend(range(8), [100, 112, 103, 103, 120, 108, 118, 124])
    assert found.shape == "unclear"
    assert found.low is not None
    assert found.low <= 0


def test_one_small_step_up_is_level() -> None:
    assert shape(50, 50, 50, 50, 50, 51, 51, 51, 51, 51) == "level"


def test_noise_alone_is_rarely_called_growth() -> None:
    drawn = random.Random(3)
    called = [shape(*(100 + drawn.gauss(0, 5) for _ in range(count))) for count in (6, 9, 14, 30) for _ in range(100)]
    assert called.count("growing") <= 0.08 * len(called)


def test_steps_of_a_staircase_are_growth() -> None:
    assert shape(*(50 + 4 * (n // 4) for n in range(32))) == "growing"
