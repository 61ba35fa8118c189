"""Memory that climbs while the job still runs: what to say of it, and when to say it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from oomdoctor.job import names
from oomdoctor.job.model import Context, Trajectory
from oomdoctor.language import say, semicolons
from oomdoctor.units import GIB, show

LEAST_POINTS: Final = 5
# Of a figure whose limit is not known: so much more than at first, and not only megabytes.
MUCH: Final = 0.25
LEAST_RISE: Final = 1 * GIB
# Of one whose limit is known: nearly full, or full before the log is three times as long.
NEARLY_FULL: Final = 0.8
AHEAD: Final = 2
# It has become worse when half of what was left is gone, or when it is so much larger.
WORSE: Final = 1.25


class Climbs:
    """Remembers what was said."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[int, int]] = {}  # what → its size then, and its last line

    def of(self, figures: Sequence[Trajectory], context: Context) -> list[str]:
        """A sentence for each figure that climbs and of which that was not said, or that has become worse."""
        found = []
        for figure in figures:
            if figure.growth_bytes and not figure.of_rest and len(figure.points) >= LEAST_POINTS:
                limit = _limit(figure, context)
                if _is_news(figure, limit, self._said.get(figure.what)):
                    last = figure.points[-1]
                    self._said[figure.what] = last.bytes, last.line
                    found.append(_sentence(figure, limit))
        return found


def _is_news(figure: Trajectory, limit: int | None, said: tuple[int, int] | None) -> bool:
    first, last = figure.points[0], figure.points[-1]
    if said is not None:
        worse = (limit + said[0]) / 2 if limit is not None and limit > said[0] else said[0] * WORSE
        return last.line != said[1] and last.bytes >= worse
    if limit is None:
        return last.bytes - first.bytes >= max(LEAST_RISE, MUCH * first.bytes)
    return last.bytes >= NEARLY_FULL * limit or _left(figure, limit) <= AHEAD * _so_far(figure)


def _so_far(figure: Trajectory) -> int:
    """How many steps (or prints) the log has."""
    first, last = figure.points[0].step, figure.points[-1].step
    if figure.per == "step" and first is not None and last is not None:
        return last - first + 1
    return max(figure.prints, len(figure.points))


def _left(figure: Trajectory, limit: int) -> int:
    """How many more steps (or prints) there is room for."""
    assert figure.growth_bytes
    return max(1, (limit - figure.points[-1].bytes) // figure.growth_bytes)


def _limit(figure: Trajectory, context: Context) -> int | None:
    """What there is in all, where that is known and not reached: as it is printed beside the figure, or what the node
    has, which one process may use up."""
    last = figure.points[-1].bytes
    limit = figure.limit_bytes or (_of_the_node(figure, context) if figure.pool == "host_ram" else None)
    return limit if limit is not None and limit > last else None


def _of_the_node(figure: Trajectory, context: Context) -> int | None:
    last = figure.points[-1].bytes
    ram, used = context.hardware.get("ram_bytes"), context.hardware.get("ram_used_fraction")
    if isinstance(ram, (int, float)) and ram > last:
        return int(ram)
    if figure.what == names.ON_THE_NODE and isinstance(used, float) and 0 < used < 1:
        return round(last / used)
    return None


def course(figure: Trajectory) -> dict[str, Any]:
    """From where to where it went and how fast, for a sentence."""
    first, last = figure.points[0], figure.points[-1]
    return {
        "figure": names.figure(figure.what),
        "first": show(first.bytes),
        "first_line": first.line,
        "last": show(last.bytes),
        "last_line": last.line,
        "rate": show(figure.growth_bytes or 0),
    }


def _sentence(figure: Trajectory, limit: int | None) -> str:
    values = course(figure)
    if figure.per == "step":
        climbed = say(
            "memory climbs: {figure} grew from {first} (line {first_line}) to {last} (line {last_line}), about "
            "{rate} per step",
            **values,
        )
    elif figure.per == "second":
        climbed = say(
            "memory climbs: {figure} grew from {first} (line {first_line}) to {last} (line {last_line}), about "
            "{rate} per second",
            **values,
        )
    else:
        climbed = say(
            "memory climbs: {figure} grew from {first} (line {first_line}) to {last} (line {last_line}), about "
            "{rate} per print",
            **values,
        )
    return climbed if limit is None else semicolons((climbed, _ahead(figure, limit)))


def _ahead(figure: Trajectory, limit: int) -> str:
    """How long it can go on."""
    left, whole = _left(figure, limit), show(limit)
    if figure.per == "step":
        if left == 1:
            return say("the limit of {limit} will be reached in about one step", limit=whole)
        return say("the limit of {limit} will be reached in about {left} steps", limit=whole, left=f"{left:,}")
    if figure.per == "second":
        return say("the limit of {limit} will be reached in about {left} s", limit=whole, left=f"{left:,}")
    if left == 1:
        return say("the limit of {limit} will be reached at about the next print", limit=whole)
    return say("the limit of {limit} will be reached in about {left} prints", limit=whole, left=f"{left:,}")
