"""Words that every form of the report says alike: the headline, what began it, what would be enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oomdoctor.causes.host import low_limit
from oomdoctor.language import say, translated
from oomdoctor.records import dataclass
from oomdoctor.remedies import A_SWITCH, A_WORD, Remedy
from oomdoctor.remedies.gap import Gap
from oomdoctor.report.contract import Diagnosis, EventRecord, Incident, LedgerRow, Report
from oomdoctor.report.vocabulary import CAUSES, POOLS, STAGES, WAKING
from oomdoctor.units import show


@dataclass(frozen=True, slots=True)
class Told:
    """What stands out, and what follows it."""

    verdict: str
    words: str = ""


def root_of(report: Report, incident: Incident) -> EventRecord | None:
    """What began the crash."""
    roots = [moment.event for moment in incident.timeline if moment.role == "root"]
    first = next(iter([*roots, *incident.events]), None)
    return next((event for event in report.events if event.id == first), None)


def headline(report: Report, incident: Incident) -> Told:
    """What ran out, and what the job was doing."""
    best = incident.diagnoses[0] if incident.diagnoses else None
    if incident.verdict == "inconclusive":
        return Told("CANNOT TELL", "something died, and the log does not show of what")
    if best is None:
        return Told("OUT OF MEMORY")
    when = _when(best, root_of(report, incident))
    head = "NOT SCHEDULED" if best.pool == "scheduling" else "OUT OF MEMORY"
    return Told(head, " ".join(part for part in (_what(report, incident, best), when) if part))


def left_open(incident: Incident) -> str | None:
    """What is said before a cause that the log does not decide."""
    if not incident.cause_open or not incident.diagnoses or incident.verdict != "oom":
        return None
    return say("The log leaves the cause open. What fits best:")


def nothing_found(report: Report) -> Told:
    """What is said of logs without a crash."""
    if not report.stats.bytes:
        return Told("NOTHING READ")
    files = f" of {report.stats.files} files" if report.stats.files > 1 else ""
    there = " that could be read" if report.errors else ""
    the = "the " if report.errors else ""
    return Told("NO MEMORY FAILURE", f"in {the}{show(report.stats.bytes)}{files}{there}")


def _what(report: Report, incident: Incident, best: Diagnosis) -> str:
    """What ran out, in words."""
    killed = [event for event in report.events if event.id in incident.events and event.family == "ray_kill"]
    if best.pool == "host_ram" and any(low_limit(kill.usage, kill.threshold) for kill in killed):
        return "Ray's own limit on the node's memory was reached"
    return CAUSES.get(best.cause) or POOLS.get(best.pool, best.pool)


def _when(best: Diagnosis, root: EventRecord | None) -> str:
    """What the job was doing, in words, where what ran out does not say it."""
    if best.pool == "kv_cache" and best.stage == "kv_cache_init":
        return ""
    if best.stage == "weight_sync" and root is not None and root.fields.get("layer") == "cumem":
        return WAKING
    return STAGES.get(best.stage, "")


def growth(trajectory: Mapping[str, Any]) -> str:
    """From where to where a figure went, and how fast where it grew."""
    first, last = trajectory["points"][0], trajectory["points"][-1]
    sizes = f"{show(first['bytes'])} at line {first['line']}, {show(last['bytes'])} at line {last['line']}"
    grown = trajectory.get("growth_bytes")
    rate = f", {show(grown)} per {trajectory['per']}" if grown else ""
    return f"{trajectory['what']}: {sizes}{rate}"


def commands(incident: Incident, remedies: Sequence[Remedy]) -> list[str]:
    """What to run next, without what these remedies say already."""
    said = [remedy.snippet for remedy in remedies if remedy.snippet]
    return [command for command in incident.next_evidence if not any(command in snippet for snippet in said)]


def enough(gap: Gap | None, remedies: Sequence[Remedy]) -> Told | None:
    """Which of the numbered remedies make up for what was missing."""
    if gap is None:
        return None
    numbers = {remedy.knob: str(number) for number, remedy in enumerate(remedies, start=1)}
    low, high = gap.missing_low_bytes, gap.missing_high_bytes
    amount = show(low) if low == high else f"{show(low)} to {show(high)}"
    if gap.alone:
        return Told(_got_past(gap, amount), _either(gap.alone, numbers))
    if gap.together:
        names = " and ".join(numbers[knob] for knob in gap.together)
        return Told(_got_past(gap, amount), f"{names} together")
    if gap.still_missing_bytes:
        left = show(gap.still_missing_bytes)
        return Told("Not enough", f"with all of these {left} of {amount} would still be missing")
    return None


def _got_past(gap: Gap, amount: str) -> str:
    """Of the card only what was refused is known; what would have been asked for next is not."""
    return f"Past this refusal ({amount} short)" if gap.pool == "gpu" else f"Enough for the {amount} that were missing"


def _either(knobs: Sequence[str], numbers: Mapping[str, str]) -> str:
    names = [numbers[knob] for knob in knobs]
    return f"{names[0]} alone" if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}, each alone"


def action(remedy: Remedy) -> str:
    """The sentence, with the option's name where no line to copy holds it."""
    named = remedy.snippet is not None or not remedy.setting or " " in remedy.setting or remedy.setting in remedy.action
    return remedy.action if named else f"{remedy.action} ({remedy.setting})"


def formula(remedy: Remedy) -> str:
    """How the suggested value comes about; empty where nothing was computed."""
    text = remedy.derivation or ""
    return "" if text in (translated(A_SWITCH), translated(A_WORD)) else text


def is_free(row: LedgerRow) -> bool:
    """What nobody held, in a ledger of what was held."""
    return row.what.startswith("free")
