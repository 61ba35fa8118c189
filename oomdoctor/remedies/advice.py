"""What to advise on a decision: the remedies of each answer, what must not be tried, and what was missing."""

from __future__ import annotations

from msgspec import Struct

from oomdoctor.decision.diagnosis import Decision
from oomdoctor.decision.ranking import Ranked
from oomdoctor.families.event import Event
from oomdoctor.remedies import Gap, Rejected, Remedy, by_function
from oomdoctor.remedies.advised import advised, placed
from oomdoctor.remedies.backfill import enough_remedies
from oomdoctor.remedies.gap import gap, shown
from oomdoctor.remedies.order import (
    allocator_behind,
    batch_behind,
    default_behind,
    knobs_of,
    length_ahead,
    limit_ahead,
    once,
    others_ahead,
    stated_ahead,
    with_a_restart,
    with_allocator,
    with_misread,
    with_references,
)
from oomdoctor.remedies.printed import rejected_advice


class Advice(Struct, frozen=True, kw_only=True):
    decision: Decision
    remedies: tuple[tuple[Remedy, ...], ...]  # of each answer
    rejected: tuple[Rejected, ...]  # for the first answer
    gap: Gap | None  # what was missing of the pool that the first answer is about
    printed: tuple[tuple[Event, str], ...]  # advice of the log that does not apply, and why


def advise(decision: Decision) -> Advice:
    chosen = [_remedies(answer, decision) for answer in decision.answers]
    lists = [tuple(kept) for kept, _ in chosen]
    lacking = gap(decision.first, lists[0]) if lists else None
    if lacking is not None:
        lists[0] = shown(lists[0], lacking)
    return Advice(
        decision=decision,
        remedies=tuple(lists),
        rejected=tuple(chosen[0][1]) if chosen else (),
        gap=lacking,
        printed=tuple(rejected_advice(decision.crash)),
    )


def _remedies(answer: Ranked, decision: Decision) -> tuple[list[Remedy], list[Rejected]]:
    """Those of the cause, and before them what the message itself advises."""
    crash = decision.crash_of(answer)
    said, cause, theirs = advised(crash), answer.cause.id, knobs_of(answer, decision)
    own = with_references(cause, with_allocator(cause, theirs, crash), crash)
    own = with_a_restart(cause, with_misread(own, crash), crash)
    knobs = (*own, *(one.knob for one in said if one.knob not in own))
    kept, rejected = enough_remedies(cause, knobs, crash)
    kept = default_behind(allocator_behind(placed(kept, said), cause, theirs, crash))
    kept = length_ahead(stated_ahead(others_ahead(limit_ahead(kept, crash), cause), cause), crash)
    return by_function.ahead(batch_behind(once(kept), crash), crash), rejected


__all__ = ["Advice", "advise"]
