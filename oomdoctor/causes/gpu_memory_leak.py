"""Device memory grows step after step until it is full."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.causes.gpu import refusal
from oomdoctor.causes.growth import no_growth
from oomdoctor.causes.host import per
from oomdoctor.incident.model import Crash
from oomdoctor.job import names
from oomdoctor.job.model import Trajectory
from oomdoctor.language import mark, say
from oomdoctor.units import MIB, show

POINTS = 4  # fewer prints may be a warm-up
GROWTH = 16 * MIB  # per step; less is a counter or a slowly filling cache


def judge(crash: Crash) -> Judgement | None:
    grown = crash.trajectory
    if grown is None or grown.pool != "gpu":
        return None
    if not grown.growth_bytes:
        return no_growth(grown)
    if len(grown.points) < POINTS or grown.growth_bytes < GROWTH:
        return None
    first, last = grown.points[0], grown.points[-1]
    steady = _steady(grown)
    return Finding(
        shows_memory=steady,
        weight=0.85 if steady and len(grown.points) >= 2 * POINTS else 0.65 if steady else 0.4,
        why=say(
            "{figure} grew from {first} (line {first_line}) to {last} (line {last_line}), about {rate} per {step}: "
            "something keeps what every step makes.",
            figure=names.figure(grown.what),
            first=show(first.bytes),
            first_line=first.line,
            last=show(last.bytes),
            last_line=last.line,
            rate=show(grown.growth_bytes),
            step=per(grown),
        ),
        evidence=(refusal(crash) or crash.root,),
        against=() if steady else (say("it does not grow at every print"),),
    )


def _steady(grown: Trajectory) -> bool:
    steps = [later.bytes - earlier.bytes for earlier, later in zip(grown.points, grown.points[1:], strict=False)]
    return sum(step > 0 for step in steps) >= 0.8 * len(steps)


CAUSE = Cause(
    id="gpu-memory-leak",
    title=mark("Device memory grows with every step"),
    pools=("gpu",),
    knobs=("clear-references", "smaller-buffers", "pin-version", "restart-periodically"),
    rule=judge,
)
