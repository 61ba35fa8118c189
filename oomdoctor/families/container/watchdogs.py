"""Whoever ends a job for its memory: what any manager may say of its own kill, and any watchdog of what it guards."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.container import ANY_MANAGER, CHARACTERS, LimitKill
from oomdoctor.families.container.records import Record, size_of
from oomdoctor.families.event import Event
from oomdoctor.families.lines import place_of
from oomdoctor.patterns import late
from oomdoctor.streams import Page
from oomdoctor.units import DECIMAL, KIB

GUARD_LINES: Final = 3
# What any manager of jobs may say of its own kill, and any watchdog of the limit that it guards
_DISMISSED = late(
    r"(?i)\b(?:job|task|step|container|worker|process|application|session|workflow)\b[^\n]{0,80}?"
    r"\b(?:killed|terminated|aborted|evicted|removed|held|stopped|cancell?ed)\b(?: by (?:the )?(\w{2,30}))?,?"
    r" (?:due to|because of|for) (?:its |their )?(?:excessive|excess|too high|high|too much) (?:memory|RAM|RSS)\b"
    r"(?:[^\n]{0,24}?\b(?:RSS|PSS|memory|used)\s?[=:]\s?(\d[\d.]{0,12} ?[KMGT]i?B)\b)?"
)
# ... or how much it used: "put on hold by SYSTEM_PERIODIC_HOLD due to memory usage 3000000"
_HELD = late(
    r"(?i)\b(?:job|task|step|container|worker|process|application|session|workflow|pod)\b[^\n]{0,80}?"
    r"\b(?:on hold|held|killed|terminated|aborted|evicted|removed|stopped|suspended|cancell?ed)\b"
    r"(?: by (?:the )?(?P<who>\w{2,30}))?,? (?:due to|because of|for) (?:its |their |the |a |high |excessive )?"
    r"(?:memory|RAM|RSS|resident set)(?: size)?(?: usage| use| consumption| footprint)?(?: of| at|:| =)? ?"
    r"(?P<used>\d[\d.]{0,14}(?: ?[KMGT]i?B)?)\b(?! ?%)"
)
_OF_CONDOR = late(r"\b(?:SYSTEM_)?PERIODIC_(?:HOLD|REMOVE|VACATE)\b")
_BARE = late(r"\d{5,9}$")  # HTCondor counts ResidentSetSize and ImageSize in KiB
_GUARDED = late(
    r"(?i)\b(?:job|task|step|container|worker|process)\b(?: \S{1,60})? (?:has |is )?exceed(?:ed|ing) (?:its |the )?"
    r"max(?:imum)? ?(PSS|RSS|vsize|memory)\b(?: size| usage)?\s?[:=]?\s?(\d[\d.]{0,12} ?[KMGT]i?B)\b"
)
_HAS = late(r"(?i)\bhas (?:PSS|RSS|vsize|memory)\b\s?[:=]?\s?(\d[\d.]{0,12} ?[KMGT]i?B)\b")
_KNOWN: Final = frozenset({"slurm", "lsf", "pbs", "htcondor", "kubernetes", "docker", "yarn", "nomad"})


def _dismissed(page: Page, index: int) -> Event:
    """It ended a job for its memory, of which it may say how much, and not what was allowed."""
    line = page.lines[index]
    who, used = _DISMISSED.search(line.text[:CHARACTERS]).groups("")  # type: ignore[union-attr]
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager=who.lower() if who.lower() in _KNOWN else ANY_MANAGER,
        used_bytes=size_of((used,), DECIMAL),
    )


def _held(page: Page, index: int) -> Event:
    """It ended a job, or holds it, and says what the job used; what was allowed stands in its own settings."""
    line = page.lines[index]
    found = _HELD.search(line.text)
    who, used = ((found["who"] or "").lower(), found["used"]) if found else ("", "")
    condor = _OF_CONDOR.search(line.text) is not None
    kibibytes = int(used) * KIB if condor and _BARE.match(used) else None
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager="htcondor" if condor else who if who in _KNOWN else ANY_MANAGER,
        used_bytes=kibibytes if _BARE.match(used) else size_of((used,), DECIMAL),
    )


def _guarded(page: Page, index: int) -> Event:
    """A watchdog beside the job prints what it allows, and what the job has."""
    line = page.lines[index]
    what, limit = _GUARDED.search(line.text[:CHARACTERS]).groups()  # type: ignore[union-attr]
    near = (_HAS.search(one.text) for one in page.after(index, GUARD_LINES))
    used = tuple(match[1] for match in near if match)
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager=ANY_MANAGER,
        limit_bytes=size_of((limit,), DECIMAL),
        used_bytes=size_of(used, DECIMAL),
        virtual=what.lower() == "vsize" or None,
    )


RECORDS: Final = (
    Record(_DISMISSED, _dismissed, loose=True),
    Record(_HELD, _held, loose=True),
    Record(_GUARDED, _guarded, loose=True),
)
