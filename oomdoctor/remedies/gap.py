"""What was missing, and which remedies make up for it: one alone, or the first ones together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from oomdoctor.incident.model import Crash
from oomdoctor.job.model import Value
from oomdoctor.remedies import Remedy
from oomdoctor.remedies.advise import AMONG_THE_FIRST
from oomdoctor.remedies.whatif.model import Answer, Pair, Verdict
from oomdoctor.remedies.whatif.needs import of as needs_of
from oomdoctor.remedies.whatif.options import leaf


class Gap(Struct, frozen=True, kw_only=True):
    """What the pool that ran out lacked. A range where a part of it hangs on what the log does not show."""

    pool: str
    missing_low_bytes: int
    missing_high_bytes: int
    derivation: str
    assumes: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()  # knobs, each of which closes it
    together: tuple[str, ...] = ()  # the first knobs that close it only together
    still_missing_bytes: int | None = None  # with all that could be computed, where that is not enough


def gap(crash: Crash, remedies: Sequence[Remedy]) -> Gap | None:
    """None where the log does not print what was missing, or nothing was."""
    need = next((one for one in needs_of(Pair(crash, crash, frozenset())) if one.pool == crash.pool), None)
    if need is None or need.high <= 0 or need.unit != "bytes":
        return None
    turned = [(remedy.knob, _settings(remedy)) for remedy in remedies if _can_be_reckoned(remedy)]
    verdicts = {knob: _verdict(crash, settings) for knob, settings in turned}
    alone = tuple(knob for knob, verdict in verdicts.items() if _is(verdict, "fits"))
    together, last = ((), None) if alone else _first_together(crash, turned)
    return Gap(
        pool=need.pool,
        missing_low_bytes=need.low,
        missing_high_bytes=need.high,
        derivation=need.derivation,
        assumes=need.assumes,
        alone=alone,
        together=together,
        still_missing_bytes=_short(last),
    )


def shown(remedies: Sequence[Remedy], alone: Sequence[str]) -> tuple[Remedy, ...]:
    """The remedies with one that closes the gap alone among the first: these are shown on every screen."""
    first = next((place for place, remedy in enumerate(remedies) if remedy.knob in alone), 0)
    if first < AMONG_THE_FIRST:
        return tuple(remedies)
    rest = [remedy for remedy in remedies if remedy is not remedies[first]]
    ahead = AMONG_THE_FIRST - 1
    return (*rest[:ahead], remedies[first], *rest[ahead:])


def _can_be_reckoned(remedy: Remedy) -> bool:
    return remedy.setting is not None and remedy.suggested is not None and " " not in remedy.setting


def _settings(remedy: Remedy) -> dict[str, Value]:
    return {remedy.setting or "": remedy.suggested} | {one.setting: one.value for one in remedy.beside}


def _verdict(crash: Crash, settings: Mapping[str, Value]) -> Verdict | None:
    """What the settings would have done for the pool that ran out; None where one of them means something else."""
    from oomdoctor.remedies.whatif.compare import whatif  # noqa: PLC0415  (a few hundredths of a second, seldom needed)

    try:
        verdicts = whatif(crash, settings).verdicts
    except ValueError:
        return None
    return next((verdict for verdict in verdicts if verdict.pool == crash.pool), None)


def _is(verdict: Verdict | None, answer: Answer) -> bool:
    return verdict is not None and verdict.answer == answer


def _first_together(
    crash: Crash, turned: Sequence[tuple[str, Mapping[str, Value]]]
) -> tuple[tuple[str, ...], Verdict | None]:
    """One knob after the other, in the order of the advice, until it fits."""
    verdict = None
    knobs: list[str] = []
    settings: dict[str, Value] = {}
    for knob, wanted in _one_each(turned):
        knobs.append(knob)
        settings.update(wanted)
        verdict = _verdict(crash, settings) if len(knobs) > 1 else None
        if _is(verdict, "fits"):
            return tuple(knobs), verdict
    return (), verdict


def _one_each(turned: Sequence[tuple[str, Mapping[str, Value]]]) -> Iterator[tuple[str, Mapping[str, Value]]]:
    """One option is turned one way only."""
    seen: set[str] = set()
    for knob, settings in turned:
        names = set(map(leaf, settings))
        if seen.isdisjoint(names):
            seen |= names
            yield knob, settings


def _short(verdict: Verdict | None) -> int | None:
    if verdict is None or verdict.answer != "does not fit" or verdict.margin_high is None:
        return None
    return -verdict.margin_high
