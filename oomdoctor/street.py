"""The whole street: from inputs to a report. Each room imports only from the rooms before it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.families.event import Event, Lookalike, Place
from oomdoctor.incident.assemble import Gathered, crashes
from oomdoctor.incident.devices import device_name
from oomdoctor.incident.flight import without_its_output
from oomdoctor.incident.joins import clocks_apart
from oomdoctor.incident.model import Crash
from oomdoctor.incident.peers import died_elsewhere
from oomdoctor.incident.unharmed import only_dropped, only_slower
from oomdoctor.job.model import Context
from oomdoctor.language import GPU, call_devices
from oomdoctor.reading import Reading, parallel
from oomdoctor.report.build import build
from oomdoctor.report.contract import Report, Stats
from oomdoctor.sources import Found, Source, Trouble, gather, look
from oomdoctor.sources.recognised import is_raylets

if TYPE_CHECKING:
    from oomdoctor.job.outside import Outside
    from oomdoctor.remedies.advice import Advice

Progress = Callable[[int], None]  # called with the bytes read so far, of all logs
Given = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]  # one file or several
Add = Callable[[Context], Context]


class Facts(Struct, frozen=True, kw_only=True):
    """What the logs say: what a report is built of."""

    crashes: tuple[Crash, ...]
    lookalikes: tuple[Lookalike, ...]
    context: Context
    errors: tuple[Trouble, ...]
    notes: tuple[str, ...]
    stats: Stats
    ending: Place | None = None  # the error that a log ends with
    cannot_tell: bool = False  # a record shows that a job failed, and the job's own output is not there
    events: tuple[Event, ...] = ()  # also of a job that did not fail


def diagnose(
    *paths: str | os.PathLike[str],
    absolute: bool = False,
    progress: Progress | None = None,
    launch: Given = (),
    config: Given = (),
    assume: Iterable[str] | Mapping[str, object] = (),
) -> Report:
    """The report on these logs: files, folders, or "-" for standard input. Several are one incident.

    Launch scripts, configurations (YAML, JSON) and assumptions ("vllm=0.8.3") add what the logs do not print. A
    ValueError says which of them cannot be read, and why.
    """
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            kind = type(path).__name__
            raise TypeError(f"a path is a str or an os.PathLike, not a {kind}; several are diagnose(*paths)")
    told = beside(launch, config, assume)
    return report_of(facts_in(look([os.fspath(path) for path in paths], absolute=absolute), progress, told))


def beside(launch: Given = (), config: Given = (), assume: Iterable[str] | Mapping[str, object] = ()) -> Outside | None:
    """What launch scripts, configurations and assumptions tell; None where there are none."""
    launch, config = ([given] if isinstance(given, str | os.PathLike) else list(given) for given in (launch, config))
    pairs = [f"{name}={value}" for name, value in assume.items()] if isinstance(assume, Mapping) else assume
    assumed = [pairs] if isinstance(pairs, str) else list(pairs)
    if not (launch or config or assumed):
        return None
    from oomdoctor.job import outside  # noqa: PLC0415  (most reports need none of it)

    return outside.read(launch, config, assumed)


def report_on(
    sources: Sequence[Source],
    troubles: Sequence[Trouble],
    progress: Progress | None = None,
    told: Outside | None = None,
) -> Report:
    """The report on logs that are found already, and on what was met while they were looked for."""
    return report_of(facts_of(sources, troubles, progress, told))


def _advice(crashes: Sequence[Crash]) -> list[Advice]:
    if not crashes:
        return []
    from oomdoctor.decision.diagnosis import decide  # noqa: PLC0415  (all the tables; most logs have no crash)
    from oomdoctor.remedies.advice import advise  # noqa: PLC0415

    return [advise(decide(crash)) for crash in crashes]


def report_of(facts: Facts) -> Report:
    """The report on what the logs say."""
    call_devices(device_name(facts.crashes))
    advice = _advice(facts.crashes)
    report = build(advice, facts.lookalikes, facts.context, facts.errors, facts.notes, facts.stats, facts.ending)
    return replace(report, verdict="inconclusive") if facts.cannot_tell else report


def facts_in(found: Found, progress: Progress | None = None, told: Outside | None = None) -> Facts:
    """What these logs say, before any cause is asked, and of folders and archives what was left out."""
    facts = facts_of(found.sources, found.troubles, progress, told)
    return replace(facts, notes=(*facts.notes, *found.summary()))


def facts_of(
    sources: Sequence[Source],
    troubles: Sequence[Trouble],
    progress: Progress | None = None,
    told: Outside | None = None,
) -> Facts:
    """What the logs say, before any cause is asked."""

    def tell() -> None:
        if progress is not None:
            progress(sum(source.size for source in sources))

    call_devices(GPU)  # until the crashes are known, and not as an earlier report did
    return concluded(
        parallel.read(sources, tell),
        errors=(*troubles, *(trouble for source in sources for trouble in source.troubles)),
        notes=[note for source in sources for note in source.notes],
        bytes_read=sum(source.size for source in sources),
        files=sum(source.size > 0 for source in sources),
        raylets=sum(source.size > 0 and is_raylets(source.name) for source in sources),
        told=told,
    )


def concluded(
    reading: Reading,
    *,
    errors: Sequence[Trouble] = (),
    notes: Sequence[str] = (),
    bytes_read: int,
    files: int = 1,
    raylets: int = 0,
    told: Outside | None = None,
) -> Facts:
    """The crashes of what was read, and what is said of the job."""
    gathered, job, memory = reading.gathered, reading.job, reading.memory
    facts = replace(job.build(), memory=memory.figures())
    add, of_outside = _adder(facts, told, gathered)
    found_crashes = crashes(
        gathered, add(facts), memory.build(), lambda file: add(replace(job.of(file), memory=facts.memory))
    )
    clocks = dict.fromkeys(note for crash in found_crashes for note in clocks_apart(crash.events))
    told_of = () if found_crashes else _no_failure(gathered.events.values(), facts)
    unheard = {} if found_crashes or reading.beside else without_its_output(gathered.events.values())
    lookalikes = (unheard.get((each.at.file, each.at.line), each) for each in gathered.lookalikes.values())
    return Facts(
        crashes=found_crashes,
        lookalikes=(*lookalikes, *told_of),
        context=add(facts),
        errors=tuple(errors),
        notes=(*notes, *of_outside, *clocks),
        stats=Stats(
            bytes=bytes_read,
            lines=reading.lines or None,
            files=files,
            events=len(gathered.events),
            raylet_logs=raylets,
        ),
        ending=reading.ending,
        cannot_tell=bool(unheard),
        events=tuple(gathered.events.values()),
    )


def _no_failure(events: Iterable[Event], context: Context) -> tuple[Lookalike, ...]:
    """What a log without a memory failure says of memory, or of who failed first."""
    told = (only_slower(events), died_elsewhere(events))
    return (*(one for one in told if one is not None), *only_dropped(events, context))


def _adder(facts: Context, told: Outside | None, gathered: Gathered) -> tuple[Add, tuple[str, ...]]:
    """What adds to a context what is known from outside the log, and what to say of it."""
    if told is None:
        return lambda context: context, ()
    from oomdoctor.job.outside import joined  # noqa: PLC0415

    events = tuple(gathered.events.values())
    return lambda context: joined(context, told, events)[0], joined(facts, told, events)[1]


__all__ = [
    "Facts",
    "Progress",
    "Report",
    "Source",
    "Trouble",
    "beside",
    "concluded",
    "diagnose",
    "facts_in",
    "facts_of",
    "gather",
    "look",
    "report_of",
    "report_on",
]
