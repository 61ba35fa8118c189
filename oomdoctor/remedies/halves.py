"""Half of what an option is now, as far down as the program takes it."""

from __future__ import annotations

from oomdoctor.job.model import Setting
from oomdoctor.language import say
from oomdoctor.remedies.floors import Floor, floor
from oomdoctor.remedies.initial import begin, may_be_none
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal, already
from oomdoctor.units import in_digits


def half(case: Case) -> Answer:
    """Half of what it is now."""
    now = case.number()
    if now is None or case.now is None:
        return begin(case)
    if now <= 1:
        return _to_none(case, case.now) if now == 1 and may_be_none(case) else already(case.now, f"{now:g}")
    then = int(now) // 2
    least = floor(case)
    if least is not None and then < least.value + (not least.equal):
        return _down_to(case.now, least)
    own = case.own_name()
    name = case.row.setting if case.is_no_option and case.row is not None else case.now.name
    return Proposal(
        action=say("Halve {name}: {now} -> {then}", name=name, now=in_digits(now), then=then),
        current=case.now.value,
        suggested=then,
        derivation=f"{in_digits(now)} / 2 = {then}",
        setting=own,
        snippet=case.own_spelling(then) if own is not None else None,
    )


def _to_none(case: Case, now: Setting) -> Proposal:
    own = case.own_name()
    return Proposal(
        action=say("Lower {name} from {now} to 0", name=now.name, now=now.value),
        current=now.value,
        suggested=0,
        derivation=say("0 is the minimum"),
        setting=own,
        snippet=case.own_spelling(0) if own is not None else None,
    )


def _down_to(now: Setting, least: Floor) -> Answer:
    """The least that the program starts with, in the place of a half that it refuses."""
    if not least.equal or (now.whole or 0) <= least.value:
        return Refusal(
            say(
                "half of {name} is too little: {least} is {value}, and the program does not start with less",
                name=now.name, least=least.name, value=least.value,
            )
        )  # fmt: skip
    return Proposal(
        action=say(
            "Lower {name} to {least}, with less the program does not start: {now} -> {then}",
            name=now.name, least=least.name, now=now.whole, then=least.value,
        ),
        current=now.value,
        suggested=least.value,
        derivation=f"{least.name} = {least.value}",
    )  # fmt: skip
