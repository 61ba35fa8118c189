"""What a report can answer to the questions of an issue form, each as Markdown and as plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from oomdoctor import __version__
from oomdoctor.helpers.excerpt import Line, within
from oomdoctor.language import mark, say, semicolons, translated
from oomdoctor.report import markup
from oomdoctor.report.contract import Diagnosis, Incident, Report
from oomdoctor.report.vocabulary import STAGES
from oomdoctor.report.words import action, formula, headline, root_of, sentences, sure
from oomdoctor.text import sanitize
from oomdoctor.units import show

if TYPE_CHECKING:
    from oomdoctor.redaction import Redactor
    from oomdoctor.remedies import Remedy

REMEDIES: Final = 3
COMMANDS: Final = 3
LONGEST_VALUE: Final = 200
DECIDED: Final = 0.9  # from here on printed figures decide a cause
_SIZES: Final = (("ram_bytes", mark("memory of the node")), ("shm_bytes", "/dev/shm"))  # noqa: S108  (a name)
_NAMES: Final = (("gpu_count", "GPUs"), ("gpu_name", "GPU"), ("nccl_version", "NCCL"))


class Budget(Struct, frozen=True):
    """How long the long answers may be."""

    log: int  # characters of the excerpt
    settings: int
    words: int  # characters of what is told in sentences


FULL: Final = Budget(log=16_000, settings=200, words=4_000)


class Answer(Struct, frozen=True):
    markdown: str  # safe where Markdown is read
    plain: str  # for a field that becomes a code block; safe where a fence holds it
    is_part: bool = False  # a log never has all that the question is after


class Answers(Struct, frozen=True):
    """What the report tells, by topic; what it does not tell is not there."""

    title: str
    by_topic: Mapping[str, Answer]
    versions: Mapping[str, str]  # those that are printed, by the framework's name
    options: frozenset[str]  # what else a dropdown's option may say to be proven by the log
    of_memory: bool  # whether the log shows that it was memory; a request that Ray cannot place is none


def answers(
    report: Report, incident: Incident, excerpt: Sequence[Line], redactor: Redactor | None, budget: Budget = FULL
) -> Answers:
    """The report and its incident are redacted already; the excerpt is redacted here, as one text."""
    log = within(excerpt, budget.log)
    told = {
        "happened": _happened(report, incident, budget),
        "diagnosis": _diagnosis(incident, budget),
        "log": _fenced(redactor.text(log) if redactor else log),
        "settings": _settings(report, budget),
        "versions": _listed(_versions(report), is_part=True),
        "hardware": _listed(_hardware(report, incident)),
        "model": _models(report),
        "when": _spoken(_when(report, incident)),
    }
    outside = report.context.get("outside") or {}
    frameworks = report.context.get("frameworks") or {}
    printed = {name: version for name, version in frameworks.items() if version and name not in outside}
    return Answers(
        title=_title(incident),
        by_topic={topic: answer for topic, answer in told.items() if answer is not None},
        versions=printed | ({"pytorch": printed["torch"]} if "torch" in printed else {}),
        options=frozenset(_options(report, incident, printed)),
        of_memory=_of_memory(incident),
    )


def _of_memory(incident: Incident) -> bool:
    best = incident.diagnoses[0] if incident.diagnoses else None
    return incident.verdict == "oom" and (best is None or best.pool != "scheduling")


def _title(incident: Incident) -> str:
    """The headline, with the cause's id."""
    best = incident.diagnoses[0] if incident.diagnoses else None
    said = _said(incident)
    return f"{said} ({best.cause})" if best and incident.verdict == "oom" else said


def _happened(report: Report, incident: Incident, budget: Budget) -> Answer:
    root = root_of(report, incident)
    place = f" ({root.file}:{root.line})" if root else ""
    best = incident.diagnoses[0] if incident.diagnoses else None
    lines = [say("{words}.", words=_said(incident) + place), *([_told(best)] if best else [])]
    return _paragraphs(lines, budget.words)


def _said(incident: Incident) -> str:
    words = headline(incident).words
    return words or say("Out of memory")


def _told(best: Diagnosis) -> str:
    return best.explanation


def block(incident: Incident) -> str:
    """The diagnosis for a document that has the log itself: what ran out, why, and what to change."""
    best = incident.diagnoses[0] if incident.diagnoses else None
    about = [markup.prose(_told(best))] if best else []
    return "\n\n".join([f"**{markup.prose(_said(incident))}**", *about, _diagnosis(incident, FULL).markdown])


def _paragraphs(lines: Sequence[str], limit: int) -> Answer:
    texts = [markup.shortened(sanitize(line), limit) for line in lines if line.strip(".。 ")]
    return Answer("\n\n".join(markup.prose(text) for text in texts), "\n".join(texts))


def _diagnosis(incident: Incident, budget: Budget) -> Answer:
    """The cause, what to change or to look at next, and the fingerprint that tells duplicates."""
    text, plain = list[str](), list[str]()
    best = incident.diagnoses[0] if incident.diagnoses else None
    if best is not None:
        likely = sure(incident, best)
        text.append(say("Cause: {cause} ({sure})", cause=f"`{best.cause}`", sure=likely))
        plain.append(say("Cause: {cause} ({sure})", cause=best.cause, sure=likely))
        said = [_remedy(remedy, budget.words // 3) for remedy in best.remedies[:REMEDIES]]
        text += [f"{number}. {markup.prose(one)}" for number, one in enumerate(said, start=1)]
        plain += [f"{number}. {one}" for number, one in enumerate(said, start=1)]
    if incident.verdict == "inconclusive" and incident.next_evidence:
        commands = [sanitize(command) for command in incident.next_evidence[:COMMANDS]]
        text.append(say("To check next:") + "\n\n" + markup.fenced("\n".join(commands), "shell"))
        plain += [say("To check next:"), *commands]
    for lines, name in ((text, f"`{incident.fingerprint}`"), (plain, incident.fingerprint)):
        lines.append(
            say(
                "Fingerprint: {fingerprint} (oomdoctor {version}; the same for the same failure elsewhere)",
                fingerprint=name,
                version=__version__,
            )
        )
    return Answer(_spaced(text), "\n".join(plain))


def _remedy(remedy: Remedy, limit: int) -> str:
    """What to change; a value never stands without the formula and the assumptions that it comes of."""
    assumed = say("Assumes: {assumption}", assumption=semicolons(remedy.assumes)) if remedy.assumes else ""
    said = sanitize(sentences((action(remedy), formula(remedy), assumed)))
    return said if len(said) <= limit else say("{knob} (the value stands in the full report)", knob=remedy.knob)


def _spaced(parts: Sequence[str]) -> str:
    """Parts with an empty line between, but not between the items of a list."""
    text = ""
    for before, part in zip(["", *parts], parts, strict=False):
        tight = before[:1].isdecimal() and part[:1].isdecimal()
        text += ("" if not text else "\n" if tight else "\n\n") + part
    return text


def _settings(report: Report, budget: Budget) -> Answer | None:
    settings = report.context.get("settings") or {}
    outside = report.context.get("outside") or {}
    sources = {name: f"  ({source})" for name, source in outside.items()}
    pairs = [f"{name}={sanitize(str(value), LONGEST_VALUE)}{sources.get(name, '')}" for name, value in settings.items()]
    left = len(pairs) - budget.settings
    shown = pairs[: budget.settings] + ([say("[{count} more]", count=left)] if left > 0 else [])
    if not pairs or not budget.settings:
        return None
    text = "\n".join(sanitize(pair) for pair in shown)
    return Answer(say("Settings:") + "\n\n" + markup.fenced(text), text, is_part=True)


def _versions(report: Report) -> Iterator[str]:
    outside = report.context.get("outside") or {}
    for name, version in (report.context.get("frameworks") or {}).items():
        source = f" ({outside[name]})" if name in outside else ""
        yield f"{name} {version}{source}" if version else say("{name}, version not in the log", name=name)


def _hardware(report: Report, incident: Incident) -> Iterator[str]:
    hardware = report.context.get("hardware") or {}
    yield from (
        say("{name}: {why}", name=title, why=hardware[name]) for name, title in _NAMES if hardware.get(name) is not None
    )
    for ledger in incident.ledger:
        if ledger.total_bytes is not None:
            yield say("{name}: {why}", name=ledger.device, why=show(ledger.total_bytes))
    if not any(ledger.pool == "host_ram" for ledger in incident.ledger):
        for name, title in _SIZES:
            if isinstance(hardware.get(name), int):
                yield say("{name}: {why}", name=translated(title), why=show(hardware[name]))


def _models(report: Report) -> Answer | None:
    models = [sanitize(str(model), LONGEST_VALUE) for model in report.context.get("models") or ()]
    if not models:
        return None
    return Answer("\n".join(say("- model: {model}", model=markup.code(model)) for model in models), "\n".join(models))


def _when(report: Report, incident: Incident) -> str:
    stage = incident.diagnoses[0].stage if incident.diagnoses else "unknown"
    progress = report.context.get("progress") or {}
    words = translated(STAGES.get(stage, ""))
    said = words[:1].upper() + words[1:]
    died = said or say("It died")
    if "step" in progress:
        return say("{when}; last step in the log: {step}", when=died, step=progress["step"])
    if "done" in progress:
        done = progress["done"]
        if "total" in progress:
            done = say("{done} of {total}", done=done, total=progress["total"])
        return say("{when}; last progress bar: {done}", when=died, done=done)
    return said


def _listed(items: Iterator[str], *, is_part: bool = False) -> Answer | None:
    texts = [sanitize(item, LONGEST_VALUE) for item in dict.fromkeys(items)]
    if not texts:
        return None
    return Answer("\n".join(f"- {markup.prose(text)}" for text in texts), "\n".join(texts), is_part)


def _spoken(text: str) -> Answer | None:
    return Answer(markup.prose(text), sanitize(text)) if text else None


def _fenced(text: str) -> Answer | None:
    return Answer(markup.fenced(text), text) if text.strip() else None


def _options(report: Report, incident: Incident, printed: Mapping[str, str]) -> Iterator[str]:
    """Words that may stand as an option of a dropdown and that the log proves, as `folded` leaves them."""
    for name, version in printed.items():
        yield from (folded(f"{name} {version}"), folded(f"{name}=={version}"), folded(f"{name} v{version}"))
    outside = report.context.get("outside") or {}
    yield from (folded(str(model)) for model in report.context.get("models") or () if model not in outside)
    gpu = (report.context.get("hardware") or {}).get("gpu_name")
    if gpu:
        yield folded(str(gpu))
    if incident.verdict == "oom" and incident.diagnoses:
        best = incident.diagnoses[0]
        yield folded(best.pool)
        if best.confidence >= DECIDED:
            yield folded(best.cause)


def folded(text: str) -> str:
    """The text as one compares it with another person's spelling of it."""
    return " ".join(text.lower().replace("_", " ").split())
