"""Words that every form of the report says alike: the headline, what began it, what would be enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from oomdoctor.families.gpu_lookalike import ON_THE_CHIP, UNTOLD
from oomdoctor.incident.climb import LEAST_POINTS
from oomdoctor.job.names import figure
from oomdoctor.language import all_of, counted, filled, mark, one_of, say, semicolons, translated
from oomdoctor.patterns import late
from oomdoctor.remedies import A_CHOICE, A_SWITCH, A_WORD, Gap, Remedy
from oomdoctor.report.contract import Diagnosis, EventRecord, Incident, Ledger, LedgerRow, Line, Moment, Quote, Report
from oomdoctor.units import MIB, in_print, is_rough, show

if TYPE_CHECKING:
    from oomdoctor.causes import Cause

_NOT_VISIBLE: Final = "gpu-visibility"  # a cause
_UNEXPLAINED: Final = "killed-without-evidence"  # a cause: that there was a kill is sure
_NOTHING_SHORT: Final = "profiling-race"  # a cause
# Signs of checks that an engine makes before it takes memory: no allocation failed
_OF_A_CHECK: Final = (("cards_are_unequal",), ("a_check_failed_without_weights",))
_NEARLY_FULL: Final = ("disk_is_nearly_full",)  # a sign: a warning, and no object was rejected
OTHERS: Final = 2  # causes that a line names beside the likeliest
# Of a kernel or the C library: "FILE:LINE: FUNCTION: block: [0,0,0], thread: [4,0,0] Assertion `CHECK` failed."
_CHECK: Final = late(
    r"(?:\S{0,400}[/\\])?(?P<place>[^\s/\\:]{1,100}:\d{1,7}): .{1,2000}?\b(?P<check>Assertion [`'].{1,2000})"
)
_OF_A_WATCHDOG: Final = late(r"ProcessGroupNCCL|\bNCCL (?:operations|work)\b|[Ww]atchdog|\bPG (?:ID|GUID)\b")
# XLA's compiler for TPUs of a kernel: "Exceeded smem capacity by 348.0K", "exceeded scoped vmem limit by 2.2M"
_TOO_MUCH_FOR_THE_CHIP: Final = late(
    r"\b[Ee]xceeded (?:scoped )?(?P<space>[vsc]mem|sflag) (?:capacity|limit) by (?P<excess>\d[\d.]{0,9}[BKMG]?)(?!\w)"
)
# The compiler's own limit, which may be below what the chip has: "Used 1.3M of 1.0M smem", "and limit 16.00M exceeded"
_LIMIT_OF_THE_COMPILER: Final = late(
    r"\b[Uu]sed \d[\d.]{0,9}[BKMG]? of (?P<used_of>\d[\d.]{0,9}[BKMG]?) (?:[vsc]mem|sflag)\b"
    r"|\blimit (?P<limit>\d[\d.]{0,9}[BKMG]?) exceeded\b"
)
_SOUNDS_LIKE_MEMORY: Final = late(r"(?i)out ?of ?(?:memory|resource)|\bran out\b|exhausted|alloc|memoryerror")
_RECORD: Final = "collect-evidence"  # a knob that mends nothing
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


def headline(incident: Incident) -> Told:
    """What happened: the verdict, then who, which memory, how much, doing what."""
    best = incident.diagnoses[0] if incident.diagnoses else None
    named = best is not None and best.cause not in _fallbacks()
    doubted = named and incident.verdict == "oom" and incident.cause_open and bool(best and best.against)
    words = say("{headline} (likely)", headline=incident.headline) if doubted else incident.headline
    return Told(_verdict(incident), words)


def _verdict(incident: Incident) -> str:
    if incident.verdict == "inconclusive":
        return say("CANNOT TELL")
    best = incident.diagnoses[0] if incident.diagnoses else None
    if best is not None and (best.cause == _NOTHING_SHORT or best.signs[:1] in _OF_A_CHECK):
        return say("MEMORY CHECK FAILED")
    if best is not None and best.cause == _NOT_VISIBLE:
        return say("GPU NOT VISIBLE")
    if best is not None and best.signs[:1] == _NEARLY_FULL:
        return say("DISK NEARLY FULL")
    return say("NOT SCHEDULED") if best is not None and best.pool == "scheduling" else say("OUT OF MEMORY")


def crashes(report: Report) -> str | None:
    """How many there are, where there are several."""
    count = len(report.incidents)
    return say("{count} crashes in these logs.", count=count) if count > 1 else None


def sure(incident: Incident, diagnosis: Diagnosis) -> str:
    """How sure a cause is: no figure for what is only the likeliest of several."""
    if incident.verdict == "inconclusive" and diagnosis.cause != _UNEXPLAINED:
        return say("if it was memory") if diagnosis is incident.diagnoses[0] else say("possible")
    if incident.cause_open or incident.verdict == "inconclusive":
        return say("likely") if diagnosis is incident.diagnoses[0] else say("possible")
    return say("{confidence} sure", confidence=f"{diagnosis.confidence:.0%}")


def open_question(incident: Incident) -> str | None:
    """What the log leaves open, what else it may be, and on which node what would tell is."""
    question = _question(incident)
    if question is None or incident.evidence_node is None:
        return question
    return say("{question} Look on node {node}.", question=question, node=incident.evidence_node)


def _question(incident: Incident) -> str | None:
    if incident.verdict == "inconclusive":
        return say("First find out whether it was memory.")
    if not incident.cause_open:
        return None
    if others := _others(incident):
        return say("Open: the log does not decide the cause; it may also be {causes}.", causes=one_of(others))
    if incident.diagnoses[:1] and incident.diagnoses[0].cause not in _fallbacks():
        return say("Open: the log does not prove the cause.")
    return say("Open: the log does not show what used the memory.")


def _others(incident: Incident) -> list[str]:
    """The other causes that would change what to do."""
    fallbacks = _fallbacks()
    advised = {remedy.knob for one in incident.diagnoses[:1] for remedy in one.remedies}
    others = (one for one in incident.diagnoses[1:] if one.cause not in fallbacks)
    return [one.cause for one in others if {remedy.knob for remedy in one.remedies[:1]} - advised][:OTHERS]


def also_possible(incident: Incident) -> list[Diagnosis]:
    """The causes behind the first. Beside one that is named a fallback says nothing that is new: that memory ran out
    stands in the headline, and "the log does not show for what" would contradict it."""
    fallbacks = _fallbacks()
    named = any(one.cause not in fallbacks for one in incident.diagnoses[:1])
    return [one for one in incident.diagnoses[1:] if not (named and one.cause in fallbacks)]


def same_remedies(incident: Incident, other: Diagnosis) -> bool:
    """Whether another cause asks for nothing that is not advised already."""
    advised = {remedy.knob for remedy in incident.diagnoses[0].remedies} | {_RECORD}
    return bool(other.remedies) and {remedy.knob for remedy in other.remedies} <= advised


def is_fallback(cause: str) -> bool:
    """Whether it only says that memory ran out, or that something died."""
    return cause in _fallbacks()


def _fallbacks() -> set[str]:
    return {cause.id for cause in _causes() if cause.fallback}


def _causes() -> Sequence[Cause]:
    from oomdoctor.causes import causes  # noqa: PLC0415  (all the tables; most logs have no crash)

    return causes()


def nothing_found(report: Report) -> Told:
    """What is said of logs without a crash."""
    if not report.stats.bytes:
        return Told(say("NOTHING READ"))
    what = what_was_read(report)
    if report.verdict == "inconclusive":
        return Told(say("CANNOT TELL:"), say("the job's own output is not here ({what} read)", what=what))
    if waits_for_another(report):
        return Told(
            say("NO MEMORY FAILURE FOUND"),
            say("in this log; a process waited for another one ({what} read)", what=what),
        )
    chip = _chip_that_is_full(report)
    if chip is not None:
        return Told(
            say("NO MEMORY FAILURE FOUND"), say("in host or device memory: {chip} ({what} read)", chip=chip, what=what)
        )
    return Told(say("NO MEMORY FAILURE FOUND"), say("({what} read)", what=what))


def _chip_that_is_full(report: Report) -> str | None:
    """What a log says that ends with a kernel for which a chip has too little memory of its own."""
    error, reasons = report.last_error, set(map(translated, ON_THE_CHIP))
    if error is None or not any(
        (look.file, look.line) == (error.file, error.line) and look.why in reasons for look in report.lookalikes
    ):
        return None
    excess = _TOO_MUCH_FOR_THE_CHIP.search(error.text)
    if excess is None:
        return say("a kernel needs more memory on the chip than there is")
    limit = _LIMIT_OF_THE_COMPILER.search(error.text)
    if limit is not None:
        return say(
            "a kernel needs {excess} more {space} than the compiler's limit of {limit}",
            excess=excess["excess"], space=excess["space"], limit=limit["used_of"] or limit["limit"],
        )  # fmt: skip
    return say("a kernel needs {excess} more {space} than it may use", excess=excess["excess"], space=excess["space"])


def not_memory(report: Report) -> str:
    """What stands before the lines that sound like memory; where they leave it open, no more than that."""
    untold = any(map(_is_untold, report.lookalikes)) or waits_for_another(report)
    if not report.incidents and (untold or report.verdict == "inconclusive"):
        return say("This log cannot tell")
    return say("Not a memory failure")


def waits_for_another(report: Report) -> bool:
    """Whether the log only tells that another process of the job no longer answers: why, that one's log says."""
    told = [look for look in report.lookalikes if not _is_untold(look)]
    return not report.incidents and any(_OF_A_WATCHDOG.search(look.text) for look in told)


def _is_untold(look: Quote) -> bool:
    """Whether NCCL tells of a failed call, and not of which."""
    return look.why in map(translated, UNTOLD)


def nothing_in_a_line(report: Report) -> str:
    """The same as one line."""
    told = nothing_found(report)
    return f"{told.verdict} {told.words}".strip()


def last_error(report: Report) -> str | None:
    """What ended a log without a memory failure, where a line near its end says so."""
    error = report.last_error
    if error is None or (waits_for_another(report) and (_OF_A_WATCHDOG.search(error.text) or _is_told(report, error))):
        return None
    place = say("{file}:{line}: {text}", file=error.file, line=error.line, text=message(error.text.strip()))
    return how_it_ended(report, error, place)


def how_it_ended(report: Report, error: Line, quoted: str) -> str:
    """The error as it is quoted; of one that speaks of memory, and stands among those that are none, that it is none:
    "another error: OutOfMemoryError" would contradict itself."""
    if _SOUNDS_LIKE_MEMORY.search(error.text) and _is_told(report, error):
        return say("It failed with an error that only sounds like memory: {line}", line=quoted)
    return say("It failed with another error: {line}", line=quoted)


def _is_told(report: Report, error: Line) -> bool:
    """Whether the line stands among those that sound like memory, with what it is instead."""
    return any((look.file, look.line) == (error.file, error.line) for look in report.lookalikes)


def of_other_ranks(report: Report) -> tuple[str, ...]:
    """What tells of the rank that the others waited for, which this log does not."""
    if not waits_for_another(report):
        return ()
    from oomdoctor.signs.commands import DMESG, OF_OTHER_RANKS  # noqa: PLC0415  (many families; most logs do not wait)

    return OF_OTHER_RANKS, DMESG


def message(text: str) -> str:
    """The line without the signature of a kernel in front of its failed check, which may be longer than two lines."""
    check = _CHECK.match(text)
    return f"{check['place']}: {check['check']}" if check is not None else text


def what_was_read(report: Report) -> str:
    """How much, and whether a raylet's log was among it."""
    stats = report.stats
    size = (
        show(stats.bytes) if stats.lines is None else counted(stats.lines, mark("{count} line"), mark("{count} lines"))
    )
    if stats.files > 1:
        size = say("{size} of {files} files", size=size, files=stats.files)
    return say("{size} with the raylet's log", size=size) if stats.raylet_logs else size


def verdict(told: Told) -> str:
    """Both, as one line."""
    return say("{verdict}: {words}", verdict=told.verdict, words=told.words) if told.words else told.verdict


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


def growing(report: Report) -> list[str]:
    """The figures that grow in a log without a failure: it may be one of the next days'."""
    if report.incidents:
        return []
    figures = (one for one in report.context.get("memory") or () if one["shape"] == "growing" and one["growth_bytes"])
    enough_prints = (one for one in figures if len(one["points"]) >= LEAST_POINTS)
    return [say("No failure of memory, but it grows: {growth}", growth=growth(one)) for one in enough_prints]


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
        elif trajectory["per"] == "second":
            yield say("about {count} s more at that rate would fill it: {formula}", count=count, formula=formula)
        elif count == 1:
            yield say("about one more print at that rate would fill it: {formula}", formula=formula)
        elif trajectory["per"] == "step":
            yield say("about {count} more steps at that rate would fill it: {formula}", count=count, formula=formula)
        else:
            yield say("about {count} more prints at that rate would fill it: {formula}", count=count, formula=formula)


def who(event: EventRecord, quoted: Callable[[str], str] = str) -> list[str]:
    """Which process, rank, node and GPU, as far as the log says; the log's own names as they are quoted there."""
    process = event.process
    names = [quoted(str(process["name"]))] if process.get("name") else []
    if isinstance(process.get("pid"), int):
        names.append(quoted(f"PID {process['pid']}"))
    if process.get("rank") is not None:
        names.append(say("rank {number}", number=process["rank"]))
    if process.get("node"):
        names.append(say("node {name}", name=quoted(str(process["node"]))))
    if process.get("gpu") is not None:
        names.append(say("GPU {number}", number=process["gpu"]))
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
    amount = in_print(low) if low == high else say("{low} to {high}", low=show(low), high=show(high))
    if alone := [knob for knob in gap.alone if knob in numbers]:
        return Told(_got_past(gap, amount), _either(alone, numbers))
    if gap.together and numbers.keys() >= set(gap.together):
        names = all_of(numbers[knob] for knob in gap.together)
        return Told(_got_past(gap, amount), say("{numbers} together", numbers=names))
    if gap.still_missing_bytes:
        left = show(gap.still_missing_bytes)
        words = say("with all of these {left} of {amount} would still be missing", left=left, amount=amount)
        return Told(say("Not enough"), words)
    return None


def worth_doing(incident: Incident, diagnosis: Diagnosis) -> tuple[Remedy, ...]:
    """The remedies without the question whether it was memory, where that stands above them as what would tell: to look
    is none. Where nothing else is advised it stays."""
    if incident.verdict != "inconclusive":
        return diagnosis.remedies
    return tuple(one for one in diagnosis.remedies if not _is_asked(one, incident)) or diagnosis.remedies


def _is_asked(remedy: Remedy, incident: Incident) -> bool:
    if remedy.knob != _RECORD or not remedy.snippet:
        return False
    asked = set(incident.next_evidence)
    return remedy.snippet in asked or set(remedy.snippet.split("; ")) <= asked


def particular(diagnosis: Diagnosis, gap: Gap | None) -> tuple[Remedy, ...]:
    """The remedies that are about this job: the first, and what is more than a word that any job would be told."""
    counted_on = {*gap.alone, *gap.together} if gap is not None else set()
    kept = [one for one in diagnosis.remedies if not one.general or one.knob in counted_on] or diagnosis.remedies
    only_ends = any(cause.only_ends for cause in _causes() if cause.id == diagnosis.cause)
    vague = {*_VAGUE, *(("stream-data",) if only_ends else ())}
    later = [one for one in kept[1:] if one.has_object or one.knob not in vague]
    later = [one for one in later if not (only_ends and _only_delays(one))]
    split = any(one.knob == "tensor-parallel" for one in later)  # over more GPUs, and says how
    return (*kept[:1], *(one for one in later if one.knob != "more-gpus" or not split))


# Without an object they are said of any job; data are streamed where the cause is about data.
_VAGUE: Final = ("clear-references", "move-process", "offload-optimizer", "offload-parameters", "shorter-sequences",
                 "start-in-sequence")  # fmt: skip


_FULL: Final = 0.9  # of a node: from there on a higher threshold of Ray's gains a moment


def _only_delays(remedy: Remedy) -> bool:
    now = remedy.current if isinstance(remedy.current, int | float) else 1.0
    return remedy.knob == "tune-ray-monitor" and now >= _FULL


def _got_past(gap: Gap, amount: str) -> str:
    """Of the card only what was refused is known; what would have been asked for next is not."""
    if gap.pool == "gpu" and is_rough(gap.missing_high_bytes):
        return say("Enough for this request (about {amount} short)", amount=amount)
    if gap.pool == "gpu":
        return say("Enough for this request ({amount} short)", amount=amount)
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
    chosen = filled(A_CHOICE, {"value": remedy.suggested})
    return "" if text in (translated(A_SWITCH), translated(A_WORD), chosen) else text


def costs(remedy: Remedy) -> bool:
    """Whether it has a price that is worth a word."""
    return remedy.cost not in ("", NO_COST, translated(NO_COST))


def sentences(parts: Iterable[str]) -> str:
    """One behind the other, the last without its full stop."""
    text = ""
    for part in (part.rstrip(".。") for part in parts if part):
        text = say("{sentence}. {next}", sentence=text, next=part) if text else part
    return text


def tells_much(ledger: Ledger) -> bool:
    """Whether its rows come to half of the whole; of an unknown whole, whether there are two to hold against each
    other."""
    known = [row.bytes for row in ledger.rows if row.bytes]
    if not known or (len(known) == 1 and is_free(ledger.rows[0])):
        return False
    return len(known) > 1 if ledger.total_bytes is None else sum(known) * 2 >= ledger.total_bytes


def is_free(row: LedgerRow) -> bool:
    """What nobody held, in a ledger of what was held."""
    return row.what.startswith("free")
