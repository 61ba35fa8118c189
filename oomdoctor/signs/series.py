"""Figures that are printed again and again: whether they grow, and per what."""

from __future__ import annotations

from typing import Final

from oomdoctor.incident.climb import course
from oomdoctor.incident.model import Crash
from oomdoctor.job import names
from oomdoctor.job.model import Trajectory
from oomdoctor.language import joined, mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.units import show

_BEFORE_STEPS: Final = ("data_load", "model_load", "checkpoint_load", "cuda_graph_capture")  # a bar there is of these
MANY_STEPS: Final = 20  # as many that went well are more than a warm-up and the first of a kind
# tqdm's bar: "116/1155 [7:54:43<67:30:48"
_BAR: Final = late(r"(?<![\d.])(?P<done>\d{1,12})/(?P<total>\d{1,12}) \[(?P<elapsed>\d{1,4}:\d\d(?::\d\d)?)<")
UNEVEN: Final = 4.0  # times the low end of the slope's interval


def no_growth(figure: Trajectory) -> str | None:
    """None where its prints leave open whether it grows."""
    if figure.shape in ("few", "growing", "unclear"):
        return None
    first, last = figure.points[0].bytes, figure.points[-1].bytes
    sizes = [point.bytes for point in figure.points]
    figures = {
        "figure": names.figure(figure.what),
        "count": max(figure.prints, len(sizes)),
        "first": show(first),
        "last": show(last),
    }
    if figure.of_rest:
        return say("{figure}: {first} at first, {last} at the end ({count} prints)", **figures)
    if figure.shape == "plateau":
        return say("{figure} rises from {first} to {last} and then stays there ({count} prints)", **figures)
    if figure.shape == "sawtooth":
        return say(
            "{figure} goes up and down between {low} and {high}; its low points do not grow ({count} prints)",
            figure=figures["figure"],
            count=figures["count"],
            low=show(min(sizes)),
            high=show(max(sizes)),
        )
    return say("{figure} does not grow: {first} at first, {last} at the end ({count} prints)", **figures)


def went_on_before(crash: Crash) -> str:
    """How far the job came before it failed, by its own bar: what was there from its start did not fill the memory."""
    if crash.trajectory is not None:
        return ""
    lines = (crash.root.at.text, *reversed(crash.root.around.before))
    bar = next((bars[-1] for line in lines if (bars := list(_BAR.finditer(line)))), None)
    if bar is None or crash.stage in _BEFORE_STEPS or not MANY_STEPS <= int(bar["done"]) < int(bar["total"]):
        return ""
    return say(
        "Its progress bar had come to {done} of {total} in {elapsed}: either memory grew, or a later part needs more.",
        done=bar["done"],
        total=bar["total"],
        elapsed=bar["elapsed"],
    )


def is_uneven(figure: Trajectory) -> bool:
    """Whether no rate tells how it went: per print, which comes at any time, and by some it grows several times as much
    as by others."""
    low, high = figure.growth_low_bytes, figure.growth_high_bytes
    return figure.per == "print" and low is not None and high is not None and high > UNEVEN * low


def change(figure: Trajectory) -> str:
    """A sentence: from what to what it grew, or what is left fell."""
    figures = {**course(figure), "step": per(figure)}
    if figure.of_rest and is_uneven(figure):
        went = say(
            "From line {first_line} to line {last_line}, {figure} fell from {first} to {last}, by some prints far more "
            "than by others.",
            **figures,
        )
    elif figure.of_rest:
        went = say(
            "From line {first_line} to line {last_line}, {figure} fell from {first} to {last}, about {rate} "
            "per {step}.",
            **figures,
        )
    else:
        went = say(
            "From line {first_line} to line {last_line}, {figure} grew from {first} to {last}, about {rate} "
            "per {step}.",
            **figures,
        )
    if figure.assumed_unit is None:
        return went
    return joined((went, say("The log prints no unit; {unit} is assumed.", unit=figure.assumed_unit)))


_PER = {"step": mark("step"), "second": mark("second"), "print": mark("print")}


def per(figure: Trajectory) -> str:
    """What its growth is for, in words."""
    return translated(_PER[figure.per])


__all__ = ["change", "is_uneven", "no_growth", "per"]
