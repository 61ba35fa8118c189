"""What to begin with where the log does not print what an option is now: its default, or the least that there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oomdoctor.language import say
from oomdoctor.remedies.proposal import Answer, Case, Proposal
from oomdoctor.versions import version_of

# The least with which a program still works
LEAST: Final[Mapping[str, int]] = {
    "smaller-microbatch": 1,
    "fewer-workers": 1,
    "fewer-sequences": 1,
    "fewer-environments": 1,
}


def default_of(case: Case) -> tuple[float, tuple[str, ...]] | None:
    """What the option is where nobody sets it, and that this was assumed; of several releases the smallest."""
    row = case.row
    if row is None or case.now is not None:
        return None
    value = row.smallest_default(version_of(case.crash.context.frameworks.get(row.framework)))
    if value is None:
        return None
    figures = {"name": row.setting, "value": f"{value:g}"}
    if len(row.defaults) > 1:
        return value, (say("{name} is {value} (its smallest default, not in the log)", **figures),)
    return value, (say("{name} is {value} (its default, not in the log)", **figures),)


def begin(case: Case) -> Answer:
    """Half of the default; the least where there is none, and the table has no usual value."""
    row = case.row
    if row is None or not row.takes_value or row.type not in ("int", "size"):
        return None
    known = default_of(case)
    if known is not None and known[0] >= 2:
        now, assumed = known
        then = int(now) // 2
        return Proposal(
            action=say("Set {name} to {then}, half its default", name=row.setting, then=then),
            suggested=then,
            derivation=f"{now:g} / 2 = {then}",
            assumes=assumed,
        )
    least = LEAST.get(case.knob)
    if least is None or row.value is not None:
        return None
    return Proposal(
        action=say("Start with {name} {least} and double it while it fits", name=row.setting, least=least),
        suggested=least,
        derivation=say("{least} is the minimum; current value not in the log", least=least),
    )
