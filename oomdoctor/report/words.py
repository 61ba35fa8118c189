"""Words that every form of the report says alike: the headline, what began it, what would be enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from oomdoctor.incident.node import low_limit
from oomdoctor.job.names import figure
from oomdoctor.language import all_of, mark, one_of, say, semicolons, translated
from oomdoctor.remedies import A_SWITCH, A_WORD, Remedy
from oomdoctor.remedies.gap import Gap
from oomdoctor.report.contract import Diagnosis, EventRecord, Incident, LedgerRow, Moment, Report
from oomdoctor.report.vocabulary import CAUSES, NOT_SHOWN, POOLS, STAGES, WAKING
from oomdoctor.units import MIB, show

WORTH_A_LINE: Final = 64 * MIB  # of what no row of a ledger explains
NO_COST: Final = mark("none")  # of a remedy

_COURSES: Final = {
    "plateau": mark("it rises at first and then stays"),
    "sawtooth": mark("it goes up and down, and what is left each time does not grow"),
    "level": mark("it does not grow"),
    "falling": mark("it does not grow"),
}


class Told(Struct, frozen=True):
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
        return Told(say("CANNOT TELL"), translated(NOT_SHOWN))
    if best is None:
        return Told(say("OUT OF MEMORY"))
    head = say("NOT SCHEDULED") if best.pool == "scheduling" else say("OUT OF MEMORY")
    what, when = _what(report, incident, best), _when(best, root_of(report, incident))
    return Told(head, say("{what} {when}", what=what, when=when) if what and when else what or when)


def left_open(incident: Incident) -> str | None:
    """What is said before a cause that the log does not decide."""
    if not incident.cause_open or not incident.diagnoses or incident.verdict != "oom":
        return None
    return say("The log leaves the cause open. What fits best:")


def nothing_found(report: Report) -> Told:
    """What is said of logs without a crash."""
    if not report.stats.bytes:
        return Told(say("NOTHING READ"))
    size, files = show(report.stats.bytes), report.stats.files
    if files > 1 and report.errors:
        where = say("in the {size} of {files} files that could be read", size=size, files=files)
    elif files > 1:
        where = say("in {size} of {files} files", size=size, files=files)
    elif report.errors:
        where = say("in the {size} that could be read", size=size)
    else:
        where = say("in {size}", size=size)
    return Told(say("NO MEMORY FAILURE"), where)


def verdict(told: Told) -> str:
    """Both, as one line."""
    return say("{verdict}: {words}", verdict=told.verdict, words=told.words) if told.words else told.verdict


def _what(report: Report, incident: Incident, best: Diagnosis) -> str:
    """What ran out, in words."""
    killed = [event for event in report.events if event.id in incident.events and event.family == "ray_kill"]
    if best.pool == "host_ram" and any(low_limit(kill.usage, kill.threshold) for kill in killed):
        return say("Ray's own limit on the node's memory was reached")
    return translated(CAUSES.get(best.cause) or POOLS.get(best.pool, best.pool))


def _when(best: Diagnosis, root: EventRecord | None) -> str:
    """What the job was doing, in words, where what ran out does not say it."""
    if best.pool == "kv_cache" and best.stage == "kv_cache_init":
        return ""
    if best.stage == "weight_sync" and root is not None and root.fields.get("layer") == "cumem":
        return translated(WAKING)
    return translated(STAGES.get(best.stage, ""))


def growth(trajectory: Mapping[str, Any]) -> str:
    """From where to where a figure went, how fast where it grew, and how long that could have gone on."""
    first, last = trajectory["points"][0], trajectory["points"][-1]
    went = say(
        "{what}: {first} at line {first_line}, {last} at line {last_line}",
        what=figure(trajectory["what"]),
        first=show(first["bytes"]), first_line=first["line"],
        last=show(last["bytes"]), last_line=last["line"],
    )  # fmt: skip
    unit = trajectory.get("assumed_unit")
    assumed = [say("the log prints no unit, {unit} is assumed", unit=unit)] if unit else []
    return semicolons([went, *_course(trajectory), *assumed])


def _course(trajectory: Mapping[str, Any]) -> Iterator[str]:
    rate, low, high = (trajectory.get(name) for name in ("growth_bytes", "growth_low_bytes", "growth_high_bytes"))
    step = translated(trajectory["per"])
    if trajectory.get("shape") in _COURSES:
        yield translated(_COURSES[trajectory["shape"]])
    elif rate is None and low is not None and high is not None:
        yield say("open whether it grows: {low} to {high} per {step}", low=show(low), high=show(high), step=step)
    elif rate and low is not None and high is not None and show(low) != show(high):
        yield say(
            "about {rate} per {step} ({low} to {high})", rate=show(rate), step=step, low=show(low), high=show(high)
        )
    elif rate:
        yield say("about {rate} per {step}", rate=show(rate), step=step)
    if full := trajectory.get("full"):
        count, formula = full["count"], full["derivation"]
        if count == 1 and trajectory["per"] == "step":
            yield say("about one more step at that rate would fill it: {formula}", formula=formula)
        elif count == 1:
            yield say("about one more print at that rate would fill it: {formula}", formula=formula)
        elif trajectory["per"] == "step":
            yield say("about {count} more steps at that rate would fill it: {formula}", count=count, formula=formula)
        else:
            yield say("about {count} more prints at that rate would fill it: {formula}", count=count, formula=formula)


def who(event: EventRecord, quoted: Callable[[str], str] = str) -> list[str]:
    """Which process, rank, node and card, as far as the log says; the log's own names as they are quoted there."""
    process = event.process
    names = [quoted(str(process["name"]))] if process.get("name") else []
    if isinstance(process.get("pid"), int):
        names.append(quoted(f"PID {process['pid']}"))
    if process.get("rank") is not None:
        names.append(say("rank {number}", number=process["rank"]))
    if process.get("node"):
        names.append(say("node {name}", name=quoted(str(process["node"]))))
    if process.get("gpu") is not None:
        names.append(say("card {number}", number=process["gpu"]))
    return names


def since(moment: Moment) -> str:
    """How long after the first failure; empty where that is not known, or where it is the first failure itself."""
    if moment.after_seconds is None or moment.role == "root":
        return ""
    return f"{moment.after_seconds:+,.0f} s"


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
    amount = show(low) if low == high else say("{low} to {high}", low=show(low), high=show(high))
    if gap.alone:
        return Told(_got_past(gap, amount), _either(gap.alone, numbers))
    if gap.together:
        names = all_of(numbers[knob] for knob in gap.together)
        return Told(_got_past(gap, amount), say("{numbers} together", numbers=names))
    if gap.still_missing_bytes:
        left = show(gap.still_missing_bytes)
        words = say("with all of these {left} of {amount} would still be missing", left=left, amount=amount)
        return Told(say("Not enough"), words)
    return None


def _got_past(gap: Gap, amount: str) -> str:
    """Of the card only what was refused is known; what would have been asked for next is not."""
    if gap.pool == "gpu":
        return say("Past this refusal ({amount} short)", amount=amount)
    return say("Enough for the {amount} that were missing", amount=amount)


def _either(knobs: Sequence[str], numbers: Mapping[str, str]) -> str:
    names = [numbers[knob] for knob in knobs]
    if len(names) == 1:
        return say("{number} alone", number=names[0])
    return say("{numbers}, each alone", numbers=one_of(names))


def action(remedy: Remedy) -> str:
    """The sentence, with the option's name where no line to copy holds it."""
    named = remedy.snippet is not None or not remedy.setting or " " in remedy.setting or remedy.setting in remedy.action
    return remedy.action if named else f"{remedy.action} ({remedy.setting})"


def formula(remedy: Remedy) -> str:
    """How the suggested value comes about; empty where nothing was computed."""
    text = remedy.derivation or ""
    return "" if text in (translated(A_SWITCH), translated(A_WORD)) else text


def costs(remedy: Remedy) -> bool:
    """Whether it has a price that is worth a word."""
    return remedy.cost not in ("", NO_COST, translated(NO_COST))


def sentences(parts: Iterable[str]) -> str:
    """One behind the other, the last without its full stop."""
    text = ""
    for part in (part.rstrip(".。") for part in parts if part):
        text = say("{sentence}. {next}", sentence=text, next=part) if text else part
    return text


def is_free(row: LedgerRow) -> bool:
    """What nobody held, in a ledger of what was held."""
    return row.what.startswith("free")
