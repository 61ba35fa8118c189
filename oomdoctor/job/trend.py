"""Whether a figure that is printed again and again grows, levels off or goes up and down, and how fast it grows.

The slope is Theil's and Sen's: the median of the slopes between all pairs of points, so that a spike does not matter.
Its interval is the one of scipy.stats.theilslopes (the tests compare them). scipy itself takes a second to import and
is larger than the rest of the package and its dependencies together, for two dozen lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from math import ceil, sqrt
from statistics import NormalDist, median
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.job.model import LEAST_POINTS, Shape

LEAST_LOWS: Final = 4  # three lows of noise stand in order in one of six logs

# Four of five intervals hold the true slope. Logs print a dozen points: among so few, one spike opens a wider interval
# to both sides and says nothing of the others.
CONFIDENCE: Final = 0.8
_WIDTH: Final = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
MOST_COMPARED: Final = 96  # points: the pairs grow with their square

WARM_UP: Final = 5  # the first of so many parts of a series is one
LEAST_RISE: Final = 0.02  # the fitted rise over the whole series against its level
LEVEL: Final = 0.1  # of the highest figure: a rise over the whole series that the interval may leave open
STANDS_OUT: Final = 6  # times as much as the points usually are off the fitted line
LEVELLED: Final = 0.2  # of the slope; less than that at the end is a plateau
STARTED_LOWER: Final = 0.1  # of the level: what came during the warm-up
DEEP: Final = 1 / 3  # of the whole range: a fall that makes a tooth
TALL: Final = 0.1  # of the level: lower teeth are noise


class Trend(Struct, frozen=True):
    shape: Shape
    slope: float | None = None  # per step, with its interval
    low: float | None = None
    high: float | None = None
    reached: int = 0  # how high it stood last: of a sawtooth the last peak


def trend(places: Sequence[int], sizes: Sequence[int]) -> Trend:
    """What becomes of these sizes over places (steps) that go up.

    The first fifth is warm-up: a jump there and a plateau afterwards is no growth. Of a sawtooth (garbage collected, an
    engine put to sleep and woken) only the lows count: what is left each time.
    """
    if len(sizes) < LEAST_POINTS:
        return Trend("few", reached=sizes[-1] if sizes else 0)
    begin = len(sizes) // WARM_UP
    where, steady = places[begin:], sizes[begin:]
    lows = _lows(steady)
    found = _of_teeth(where, steady, lows) if len(lows) >= LEAST_POINTS else _of_line(where, steady)
    if found.shape == "level" and _started_lower(sizes[0], steady):
        return replace(found, shape="plateau")
    if found.shape == "unclear" and _stays_higher(where, steady):
        return replace(found, shape="plateau")
    return found


def _started_lower(first: int, steady: Sequence[int]) -> bool:
    """Whether it rose during the warm-up, by more than it wanders afterwards."""
    level = median(steady)
    wanders = median(abs(size - level) for size in steady)
    return level - first >= max(STARTED_LOWER * max(steady), STANDS_OUT * wanders)


def _stays_higher(places: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether its second half is level, and above all of its first third."""
    if len(sizes) < 2 * LEAST_POINTS:
        return False
    half, third = len(sizes) // 2, len(sizes) // 3
    if min(sizes[half:]) - max(sizes[:third]) < STARTED_LOWER * max(sizes):
        return False
    return _of_line(places[half:], sizes[half:]).shape == "level"


def theil_sen(places: Sequence[int], sizes: Sequence[int]) -> tuple[float, float, float]:
    """The slope, and the lower and upper end of its interval."""
    every = ceil(len(sizes) / MOST_COMPARED)
    points = list(zip(places[::every], sizes[::every], strict=True))
    slopes = sorted((b - a) / (to - at) for (at, a), (to, b) in combinations(points, 2))
    ties = Counter(size for _, size in points).values()
    variance = (_kendall(len(points)) - sum(map(_kendall, ties))) / 18
    reach = _WIDTH * sqrt(variance)
    low = max(round((len(slopes) - reach) / 2) - 1, 0)
    high = min(round((len(slopes) + reach) / 2), len(slopes) - 1)
    return median(slopes), slopes[low], slopes[high]


def _kendall(count: int) -> int:
    """The term of so many points, or so many equal ones, in the variance of Kendall's S."""
    return count * (count - 1) * (2 * count + 5)


def _of_line(places: Sequence[int], sizes: Sequence[int]) -> Trend:
    slope, low, high = theil_sen(places, sizes)
    span, most = places[-1] - places[0], max(sizes)
    stands_out = abs(slope * span) >= max(LEAST_RISE * most, STANDS_OUT * _scatter(places, sizes, slope))
    if stands_out and low > 0:
        shape: Shape = "plateau" if _levelled(places, sizes, slope) else "growing"
    elif stands_out and high < 0:
        shape = "falling"
    else:
        shape = "level" if high * span < LEVEL * most else "unclear"
    return Trend(shape, slope, low, high, sizes[-1])


def _scatter(places: Sequence[int], sizes: Sequence[int], slope: float) -> float:
    """How far a point usually is off the line."""
    off = [size - slope * place for place, size in zip(places, sizes, strict=True)]
    middle = median(off)
    return median(abs(one - middle) for one in off)


def _levelled(places: Sequence[int], sizes: Sequence[int], slope: float) -> bool:
    """Whether the last third surely no longer rises as the whole does, which may have been fast at first."""
    if len(sizes) < 2 * LEAST_POINTS:
        return False
    few = LEAST_POINTS
    on_the_whole = (median(sizes[-few:]) - median(sizes[:few])) / (median(places[-few:]) - median(places[:few]))
    slope = max(slope, on_the_whole)
    last = max(ceil(len(sizes) / 3), few)
    at_the_end, _, at_most = theil_sen(places[-last:], sizes[-last:])
    return at_the_end < LEVELLED * slope and at_most < slope


def _of_teeth(places: Sequence[int], sizes: Sequence[int], lows: Sequence[int]) -> Trend:
    found = _of_line([places[low] for low in lows], [sizes[low] for low in lows])
    shape = found.shape if found.shape in ("growing", "unclear") else _up_and_down(sizes)
    if shape == "growing" and len(lows) < LEAST_LOWS:
        shape = "unclear"
    return replace(found, shape=shape, reached=max(sizes[lows[-2] :]))


def _up_and_down(sizes: Sequence[int]) -> Shape:
    return "sawtooth" if max(sizes) - min(sizes) >= TALL * max(sizes) else "level"


def _lows(sizes: Sequence[int]) -> list[int]:
    """Where a figure that goes up and down turns up again, and where it stands low at the end."""
    deep = DEEP * (max(sizes) - min(sizes))
    if not deep:
        return []
    lows: list[int] = []
    falling, turn = True, 0
    for here, size in enumerate(sizes):
        beyond = size < sizes[turn] if falling else size > sizes[turn]
        if beyond:
            turn = here
        elif abs(size - sizes[turn]) >= deep:
            if falling:
                lows.append(turn)
            falling, turn = not falling, here
    return [*lows, turn] if falling and lows else lows
