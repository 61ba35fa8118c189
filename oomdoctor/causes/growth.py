"""What a figure that does not grow says of leaks."""

from __future__ import annotations

from oomdoctor.decision.judgement import RuledOut
from oomdoctor.job import names
from oomdoctor.job.model import Trajectory
from oomdoctor.language import say
from oomdoctor.units import show


def no_growth(figure: Trajectory) -> RuledOut | None:
    """None where its prints leave open whether it grows."""
    first, last = figure.points[0].bytes, figure.points[-1].bytes
    sizes = [point.bytes for point in figure.points]
    told = {
        "figure": names.figure(figure.what),
        "count": max(figure.prints, len(sizes)),
        "first": show(first),
        "last": show(last),
    }
    if figure.shape == "plateau":
        return RuledOut(
            say("{figure} is printed {count} times, rises from {first} to {last} and then stays there", **told)
        )
    if figure.shape == "sawtooth":
        low, high = show(min(sizes)), show(max(sizes))
        return RuledOut(
            say(
                "{figure} is printed {count} times and goes up and down between {low} and {high}: "
                "what is left each time does not grow",
                **told, low=low, high=high,
            )
        )  # fmt: skip
    if figure.shape in ("level", "falling"):
        return RuledOut(
            say("{figure} is printed {count} times and does not grow: {first} at first, {last} at the end", **told)
        )
    return None


__all__ = ["no_growth"]
