"""Series of the card's memory over the job's steps."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from oomdoctor.incident.model import Crash
from oomdoctor.job.model import Trajectory
from oomdoctor.language import joined, say
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.series import change, is_uneven, no_growth
from oomdoctor.signs.trace import refusal
from oomdoctor.units import MIB

POINTS: Final = 4  # fewer prints may be a warm-up
GROWTH: Final = 16 * MIB  # per step; less is a counter or a slowly filling cache
_SAID_TO_GROW: Final = (
    r"(?i)^(?!.*\b(?:if|not|no|never|without|n't|may|might|could|can|will)\b).*?"
    r"\b(?:memory|vram)(?: (?:usage|use|consumption|footprint|allocation))? "
    r"(?:(?:is|are|keeps?|was|has been|steadily|slowly) ){0,3}"
    r"(?:accumulat|grow|increas|climb|creep|ris|build)(?:e?s|ing|ed)?\b(?: up)?.{0,24}?"
    r"\b(?:(?:with|at|after|on|in|over|by|for|during|per) )?(?:each|every|per|successive) "
    r"(?:\w{1,12} )?(?:step|iteration|epoch|batch|round|update)\b"
)
STEADY: Final = 0.8  # of the prints are larger than the one before


@sign
def card_grows_for_long(crash: Crash) -> Seen | None:
    """A GPU memory figure grows by 16 MiB per step or more, over 8 prints or more, at 4 of 5 of them."""
    grown = _grown(crash)
    long = grown is not None and len(grown.points) >= 2 * POINTS
    return _growth(crash, grown) if grown is not None and long and _is_steady(grown) else None


@sign
def card_grows(crash: Crash) -> Seen | None:
    """A GPU memory figure grows by 16 MiB per step or more, over 4 prints or more, at 4 of 5 of them."""
    grown = _grown(crash)
    return _growth(crash, grown) if grown is not None and _is_steady(grown) else None


@sign
def card_grows_by_fits(crash: Crash) -> Seen | None:
    """A GPU memory figure grows by 16 MiB per step or more, over 4 prints or more, at fewer than 4 of 5 of them."""
    grown = _grown(crash)
    if grown is None or _is_steady(grown):
        return None
    return _growth(crash, grown, against=(say("the figure does not grow at every print"),))


@sign
def people_say_that_it_grows(crash: Crash) -> Seen | None:
    """Who shows the failure says that memory grows from step to step; no figures show it."""
    if _figure(crash) is not None or crash.mentions(_SAID_TO_GROW) is None:
        return None
    words = say("The text beside the error says that memory grows from step to step; no figure shows it.")
    return Seen(words=words, evidence=(refusal(crash) or crash.root,))


@sign
def card_does_not_grow(crash: Crash) -> Seen | None:
    """A GPU memory figure is printed often enough and does not grow."""
    figure = _figure(crash)
    still = no_growth(figure) if figure is not None and not figure.growth_bytes else None
    return Seen(words=still) if still is not None else None


def _figure(crash: Crash) -> Trajectory | None:
    figure = crash.trajectory
    return figure if figure is not None and figure.pool == "gpu" else None


def _grown(crash: Crash) -> Trajectory | None:
    figure = _figure(crash)
    if figure is None or len(figure.points) < POINTS or (figure.growth_bytes or 0) < GROWTH:
        return None
    return figure


def _is_steady(grown: Trajectory) -> bool:
    sign_of_use = -1 if grown.of_rest else 1
    steps = [sign_of_use * (later.bytes - earlier.bytes) for earlier, later in pairwise(grown.points)]
    return sum(step > 0 for step in steps) >= STEADY * len(steps)


def _growth(crash: Crash, grown: Trajectory, against: tuple[str, ...] = ()) -> Seen:
    keeps = "" if is_uneven(grown) else say("Something keeps memory from every step.")
    words = joined((change(grown), keeps))
    return Seen(words=words, evidence=(refusal(crash) or crash.root,), against=against, shows_memory=_is_steady(grown))
