"""What does not go together: a release refuses it, or breaks on it. The table is `together.txt`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from oomdoctor.arithmetic import vllm
from oomdoctor.families.vllm_figures import Sleep
from oomdoctor.incident.model import Crash
from oomdoctor.language import mark, say, translated
from oomdoctor.remedies import cells
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.settings import known_versions, of_knob, same, setting_of
from oomdoctor.spellings import title
from oomdoctor.versions import ALL, Versions, version_of, versions

# The other halves that have no name of their own, as the table calls them
_CALLED: Final = {
    "sleep": mark("the engine's sleep mode"),
    "memory saver": mark("the engine's torch_memory_saver"),
    "PyTorch engine": mark("its PyTorch engine"),
}
ITSELF: Final = "itself"
_NAMES_THE_ENGINE: Final = ("actor_rollout_ref.rollout.name", "worker.rollout.name", "rollout.name")
_TUNES: Final = r"sft_trainer\b"
_SLEEP: Final = "engine-sleep"  # a knob, which an option or a default of the framework turns


class Pair(NamedTuple):
    """A row of the table: the knob, and what shows the other half of it."""

    knob: str
    other: str
    settings: tuple[str, ...]
    trace: str
    package: str
    releases: Versions
    source: str


@cache
def table() -> tuple[Pair, ...]:
    return tuple(map(_pair, cells.rows(Path(__file__).with_suffix(".txt"))))


def _pair(row: tuple[str, ...]) -> Pair:
    knob, other, settings, trace, package, releases, source = row
    names = tuple(filter(None, map(str.strip, settings.split(","))))
    return Pair(knob, other, names, trace, package, versions(releases), source)


def refused(knob: str, crash: Crash) -> str | None:
    """Why the knob cannot be turned beside what the log shows of the job; None where nothing speaks against it."""
    for pair in table():
        known = known_versions(pair.package, crash.context)
        meant = pair.releases.covers(known) if pair.other == ITSELF else pair.releases.overlaps(known)
        if pair.knob == knob and meant and _is_there(pair, crash):
            return _if_it_is(pair) if _is_assumed(pair, crash) else _why(pair)
    return None


def _why(pair: Pair) -> str:
    package = title(pair.package) if pair.releases == ALL else f"{title(pair.package)} {pair.releases}"
    if pair.other == ITSELF:
        return say("{package} sets it by default ({source})", package=package, source=pair.source)
    return say(
        "{package} does not support it with {other} ({source})",
        package=package,
        other=translated(_CALLED.get(pair.other, pair.other)),
        source=pair.source,
    )


def _if_it_is(pair: Pair) -> str:
    """Nothing in the log names the engine: the reader knows which one it is."""
    return say(
        "if the engine is {package} {releases} (not in the log): it does not support this with {other} ({source})",
        package=title(pair.package),
        releases=pair.releases,
        other=translated(_CALLED.get(pair.other, pair.other)),
        source=pair.source,
    )


def _is_assumed(pair: Pair, crash: Crash) -> bool:
    """Whether only the defaults of the job's trainer speak for the engine and for what it does."""
    if pair.other == ITSELF or pair.package in crash.context.frameworks or crash.in_trace(pair.trace) is not None:
        return False
    stated = any(setting_of(one, crash.context) is not None for one in pair.settings if "=" in one)
    return not stated and crash.setting(*_NAMES_THE_ENGINE) is None


def assumed(knob: str, crash: Crash) -> bool:
    """Whether the knob is refused for an engine that the log does not name."""
    why = refused(knob, crash)
    return why is not None and any(pair.knob == knob and why == _if_it_is(pair) for pair in table())


def _is_there(pair: Pair, crash: Crash) -> bool:
    own = pair.package in crash.context.frameworks or pair.package == _engine_unseen(crash)
    if pair.other == ITSELF:
        return own
    if pair.trace and crash.in_trace(pair.trace) is not None:
        return True
    if pair.other == "sleep" and own and crash.first(Sleep) is not None:
        return True
    if any(setting_of(one, crash.context) is not None for one in pair.settings if "=" in one):
        return True
    return own and _SLEEP in pair.settings and _turned(_SLEEP, crash)


def _engine_unseen(crash: Crash) -> str | None:
    """The engine that a trainer puts on its own GPUs and that prints nothing: a setting names it, else it is vLLM, the
    default of such trainers. What only tunes has none, whatever else the framework trains."""
    if crash.job.engine is not None or crash.job.placement != "shared cards" or crash.shows(_TUNES):
        return None
    told = crash.setting(*_NAMES_THE_ENGINE)
    return str(told.value) if told is not None else vllm.NAME


def _turned(knob: str, crash: Crash) -> bool:
    """Whether a framework's option for the knob is on: stated so, or where nobody states it by default."""
    for framework, release in crash.context.frameworks.items():
        version, known = version_of(release), known_versions(framework, crash.context)
        for row in (each for each in of_knob(knob, framework) if each.versions.overlaps(known)):
            now = crash.setting(row.key, *KNOBS[knob].settings)
            value = now.value if now is not None else row.default(version)
            if value is True or (row.goal is None and same(value, row.value)) or value in (1, 2):
                return True
            break
    return False


__all__ = ["Pair", "refused", "table"]
