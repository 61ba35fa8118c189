"""Releases that are known to need more memory than they should: symptoms and version together decide."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.incident.model import Crash
from oomdoctor.job.model import Setting
from oomdoctor.language import joined, listed, say, translated
from oomdoctor.regressions import Carrier, Regression, Releases, Symptom, regressions
from oomdoctor.signs import Grade, Seen, sign
from oomdoctor.signs.commands import release_of
from oomdoctor.signs.series import per
from oomdoctor.signs.trace import card, innermost, where
from oomdoctor.versions import Versions, version_of, versions

_ZERO_STAGE: Final = ("zero_stage", "zero_optimization.stage", "deepspeed_stage", "actor.zero_stage", "ds_zero_stage")
_OFF: Final = frozenset({"", "0", "false", "no", "none", "null", "cpu=false"})

ONE_SIGN: Final = 0.35  # what one sign proves
TELLING: Final = 0.5  # symptoms that are worth a question for the version
CARRIED: Final = 0.95  # a framework's pin instead of the version: somebody may have installed another one
UNKNOWN: Final = 0.5  # of the weight, where nothing says which version it is
BY_ITS_SOURCE: Final = 0.8  # at most, where the failing source tells the version
FIRST: Final = 1  # step: a bar that shows one done may not have been drawn anew
FRAGMENTS: Final = 0.10  # of the card
_OF_ALL_LAYERS: Final = "vllm-pipeline-needs-whole-model"
_TELL_TALES: Final = ("line", "code")

Told = Literal["printed", "pinned", "source", "nowhere", "other"]


class Match(Struct, frozen=True, kw_only=True):
    """An entry of which all that has to be seen is seen."""

    known: Regression
    signs: tuple[str, ...]
    score: float  # of the symptoms alone
    told: Told  # by what the version is known
    version: str | None = None  # as printed
    around: str | None = None  # the release of a framework that works around it
    carrier: Carrier | None = None
    tell_tale: bool = False

    @property
    def weight(self) -> float:
        """The symptoms' weights, and less of it where the version is not printed."""
        if self.told == "source":
            return min(self.score, BY_ITS_SOURCE)
        part = {"printed": 1.0, "pinned": CARRIED, "nowhere": UNKNOWN}.get(self.told, 0.0)
        return round(self.score * part, 3)


def matches(crash: Crash) -> list[Match]:
    """The entries whose symptoms are there, whatever the version, the best first."""
    found = [match for known in regressions() if (match := _match(crash, known)) is not None]
    return sorted(found, key=lambda match: (-match.weight, -match.score))


def fitting(crash: Crash) -> Match | None:
    """The best entry whose version the job has, or whose own line or source stands in the log."""
    return next((match for match in matches(crash) if _fits(match)), None)


def _fits(match: Match) -> bool:
    return match.told in ("printed", "pinned", "source") or (match.told == "nowhere" and match.tell_tale)


def likely(crash: Crash) -> Match | None:
    """The best entry whose version the job has, or may have."""
    # Only the settings of the entry that is taken are to be heard of, not those that every entry asks for.
    unheard = replace(crash, context=replace(crash.context, heard=None))
    possible = (match for match in matches(unheard) if match.told != "other")
    taken = next((match for match in possible if _fits(match) or match.score >= TELLING), None)
    return _match(crash, taken.known) if taken is not None else None


@sign
def release_is_known_for_it(crash: Crash) -> Seen | None:
    """The symptoms and the version match a known problem beyond doubt."""
    return _worth(crash, Grade.PROVES)


@sign
def release_fits(crash: Crash) -> Seen | None:
    """Most symptoms of a known problem, and its version."""
    return _worth(crash, Grade.NAMES)


@sign
def release_may_be_it(crash: Crash) -> Seen | None:
    """Several symptoms of a known problem, or all of them without a version."""
    return _worth(crash, Grade.POINTS)


@sign
def release_has_a_symptom(crash: Crash) -> Seen | None:
    """One symptom of a known problem, and its version."""
    return _worth(crash, Grade.HINTS)


@sign
def release_is_named(crash: Crash) -> Seen | None:
    """Hardly a symptom of a known problem."""
    return _worth(crash, Grade.LEFT)


@sign
def one_stage_is_asked_for_all_layers(crash: Crash) -> Seen | None:
    """A vLLM that may be one of those which compare the cache of the whole model with one pipeline stage's."""
    match = likely(crash)
    return Seen(words="") if match is not None and match.known.id == _OF_ALL_LAYERS else None


@sign
def only_a_kill_is_shown(crash: Crash) -> Seen | None:
    """The root event does not show that memory ran out."""
    return None if crash.proven else Seen(words=say("the log shows a kill, but not its reason"))


@sign
def another_release(crash: Crash) -> Seen | None:
    """The symptoms of a known problem, in a version that is not affected, and no known problem fits."""
    match = _unfitting(crash)
    return Seen(words=_not_affected(match)) if match is not None and match.told == "other" else None


@sign
def release_is_not_printed(crash: Crash) -> Seen | None:
    """The symptoms of a known problem, in a package that the job uses and whose version the log does not print."""
    match = _unfitting(crash)
    if match is None or match.told == "other":
        return None
    words = say("the version of {package}", package=match.known.affected.package)
    return Seen(words=words, next_evidence=(release_of(match.known.affected.package),))


def _worth(crash: Crash, grade: Grade) -> Seen | None:
    """The best entry that fits, where its symptoms are worth this grade."""
    match = fitting(crash)
    if match is None or min(Grade, key=lambda each: abs(each - 100 * match.weight)) is not grade:
        return None
    known = match.known
    signs = say("Seen here: {signs}.", signs=listed(match.signs))
    cure = say("Fix: {cure}.", cure=known.cures)
    return Seen(
        words=joined((_what(match), signs, cure)),
        evidence=(crash.root,),
        shows_memory=match.score > ONE_SIGN,
        next_evidence=() if match.told == "printed" else (release_of(known.affected.package),),
    )


def _unfitting(crash: Crash) -> Match | None:
    """An entry whose symptoms are there and whose version is another one or not printed, where none fits."""
    if fitting(crash) is not None:
        return None
    telling = (match for match in matches(crash) if match.score >= TELLING)
    named = _named(crash)
    return next((match for match in telling if match.told == "other" or match.known.affected.package in named), None)


def _what(match: Match) -> str:
    affected, what = match.known.affected, translated(match.known.what)
    package = affected.package
    if match.told == "printed":
        return say(
            "{package} {version} is affected ({affected}): {what}.",
            package=package,
            version=match.version,
            affected=affected,
            what=what,
        )
    if match.carrier is not None:
        return say(
            "{carrier} pins an affected {package} ({affected}): {what}.",
            carrier=match.version,
            package=package,
            affected=affected,
            what=what,
        )
    return say(
        "The log does not show the version of {package}, but it matches a known problem of some versions "
        "({affected}): {what}.",
        package=package,
        affected=affected,
        what=what,
    )


def _not_affected(match: Match) -> str:
    version, affected, dated = match.version, match.known.affected, match.known.dated
    if match.around is not None:
        return say(
            "{around} works around the problem and is not affected ({affected} is)",
            around=match.around,
            affected=affected,
        )
    if dated:
        return say("as far as is known, {version} is not affected ({affected} is)", version=version, affected=affected)
    return say("{version} is not affected ({affected} is)", version=version, affected=affected)


# matching


def _match(crash: Crash, known: Regression) -> Match | None:
    if crash.pool not in known.pools:
        return None
    seen: dict[Symptom, str] = {}
    for symptom in known.symptoms:
        sign = _KINDS[symptom.kind](crash, symptom)
        if sign is not None:
            seen[symptom] = sign
        elif symptom.needed:
            return None
    around = _works_around(crash, known)
    told, version, carrier = _version(crash, known, by_source=any(symptom.kind == "code" for symptom in seen))
    return Match(
        known=known,
        signs=tuple(seen.values()),
        score=round(sum(symptom.weight for symptom in seen), 3),
        told="other" if around is not None else told,
        version=version,
        around=around,
        carrier=carrier,
        tell_tale=any(symptom.kind in _TELL_TALES for symptom in seen),
    )


def _version(crash: Crash, known: Regression, by_source: bool) -> tuple[Told, str | None, Carrier | None]:
    """By what the version is known, whose it is, and the framework that pins it."""
    packages = crash.context.frameworks
    printed = packages.get(known.affected.package)
    exact = Versions.exactly(printed)
    carrier = next(_carriers(crash, known), None)
    if exact is not None and known.affected.versions.covers(exact):
        return "printed", printed, carrier
    if exact is not None and not known.affected.versions.overlaps(exact):
        return "other", f"{known.affected.package} {printed}", None
    # Here it is not printed, or as "0.16" alone, which may be one or not.
    if carrier is not None:
        name = carrier.releases.package
        return "pinned", f"{name} {packages[name]}", carrier
    return ("source" if by_source else "nowhere"), None, None


def _works_around(crash: Crash, known: Regression) -> str | None:
    """The framework whose release does, where the job has it."""
    if known.around is None:
        return None
    printed = crash.context.frameworks.get(known.around.package)
    return f"{known.around.package} {printed}" if known.around.holds(version_of(printed)) else None


def _carriers(crash: Crash, known: Regression) -> Iterator[Carrier]:
    for carrier in known.carriers:
        if carrier.releases.holds(version_of(crash.context.frameworks.get(carrier.releases.package))):
            yield carrier


def _named(crash: Crash) -> frozenset[str]:
    """The packages that the job uses, as far as the log shows; ZeRO is DeepSpeed's."""
    uses_zero = crash.setting(*_ZERO_STAGE) is not None
    return frozenset({*crash.context.frameworks, *(("deepspeed",) if uses_zero else ())})


# the kinds of symptoms: each says in words what it saw, None where it is not there


def _stage(crash: Crash, symptom: Symptom) -> str | None:
    return say("failure {where}", where=where(crash)) if crash.stage in symptom.words else None


def _zero(crash: Crash, symptom: Symptom) -> str | None:
    setting = crash.setting(*_ZERO_STAGE)
    if setting is None or isinstance(setting.value, bool):
        return None
    match = re.fullmatch(r"(?:zero)?_?(?:stage)?_?([0-3])", str(setting.value).lower())
    return f"ZeRO-{match[1]} ({setting.name})" if match and match[1] in symptom.words else None


def _on(crash: Crash, symptom: Symptom) -> str | None:
    return next((setting.name for setting in _stated(crash, symptom.words) if not _is_off(setting)), None)


def _off(crash: Crash, symptom: Symptom) -> str | None:
    return next(
        (say("{name} is off", name=setting.name) for setting in _stated(crash, symptom.words) if _is_off(setting)), None
    )


def _has(crash: Crash, symptom: Symptom) -> str | None:
    name, _, wanted = symptom.text.partition("=")
    setting = crash.setting(name)
    return f"{setting.name}={wanted}" if setting is not None and wanted.lower() in str(setting.value).lower() else None


def _unset(crash: Crash, symptom: Symptom) -> str | None:
    return say("{name} is not set", name=symptom.words[0]) if crash.setting(*symptom.words) is None else None


def _above(crash: Crash, symptom: Symptom) -> str | None:
    limit, *names = symptom.words
    for setting in _stated(crash, names):
        if setting.whole is not None and setting.whole > int(limit):
            return f"{setting.name}={setting.value}"
    return None


def _with(crash: Crash, symptom: Symptom) -> str | None:
    package, *wanted = symptom.words
    printed = crash.context.frameworks.get(package)
    beside = Releases(package, versions(" ".join(wanted)))
    return f"{package} {printed}" if beside.holds(version_of(printed)) else None


def _model(crash: Crash, symptom: Symptom) -> str | None:
    found = next((name for name in crash.context.models if re.search(symptom.text, name[:200])), None)
    return say("model {model}", model=found) if found is not None else None


def _frame(crash: Crash, symptom: Symptom) -> str | None:
    frame = crash.in_trace(symptom.text)
    if frame is None:
        return None
    return (
        say("in {function}", function=frame.function)
        if frame.function.isidentifier()
        else say("in a stack frame of the affected code")
    )


def _code(crash: Crash, symptom: Symptom) -> str | None:
    return say("the affected code itself failed") if innermost(crash, symptom.text, 2) else None


def _line(crash: Crash, symptom: Symptom) -> str | None:
    return say("a log line typical of this problem") if crash.mentions(symptom.text) else None


def _growth(crash: Crash, symptom: Symptom) -> str | None:
    del symptom
    grows = crash.trajectory is not None and crash.trajectory.growth_bytes
    return say("memory grows with every {step}", step=per(crash.trajectory)) if crash.trajectory and grows else None


def _first_step(crash: Crash, symptom: Symptom) -> str | None:
    del symptom
    done = crash.context.progress.get("done", crash.context.progress.get("step"))
    return say("in the first step") if done is not None and done <= FIRST else None


def _fragmented(crash: Crash, symptom: Symptom) -> str | None:
    del symptom
    it = card(crash)
    idle, tried = it.unallocated_bytes, it.tried_bytes
    if idle is None or tried is None or idle < tried or (it.share(idle) or 0) < FRAGMENTS:
        return None
    return say("reserved but unallocated memory would be enough")


def _stated(crash: Crash, names: Sequence[str]) -> Iterator[Setting]:
    for name in names:
        setting = crash.setting(name)
        if setting is not None and setting.value is not None:
            yield setting


def _is_off(setting: Setting) -> bool:
    return str(setting.value).lower() in _OFF


_KINDS: Final[Mapping[str, Callable[[Crash, Symptom], str | None]]] = {
    "stage": _stage, "zero": _zero, "on": _on, "off": _off, "has": _has, "unset": _unset, "above": _above,
    "with": _with, "model": _model, "frame": _frame, "code": _code, "line": _line, "growth": _growth,
    "first-step": _first_step, "fragmented": _fragmented,
}  # fmt: skip
KINDS: Final = frozenset(_KINDS)
