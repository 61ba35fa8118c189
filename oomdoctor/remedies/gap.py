"""What was missing, and which remedies make up for it: one alone, or the first ones together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from oomdoctor.arithmetic import vllm
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.event import SIDES
from oomdoctor.incident.model import Crash
from oomdoctor.job.model import Value
from oomdoctor.job.names import figure
from oomdoctor.language import say, semicolons, translated
from oomdoctor.remedies import A_SWITCH, A_WORD, Gap, Remedy
from oomdoctor.remedies.advise import AMONG_THE_FIRST
from oomdoctor.remedies.advised import AT_A_PRICE
from oomdoctor.remedies.engine.known import card_total
from oomdoctor.remedies.whatif.model import Need, Pair, Verdict
from oomdoctor.remedies.whatif.needs import of as needs_of
from oomdoctor.remedies.whatif.options import leaf
from oomdoctor.units import show

# What follows the failed allocation is not known: a rest of less than this, of the GPU, is no answer. Each request of
# an engine that serves may need more than the one before. A share is computed with a rest of its own.
_REST: Final = 0.02
_REST_WHILE_SERVING: Final = 0.05
_SHARE: Final = "lower-engine-reservation"


def gap(crash: Crash, remedies: Sequence[Remedy]) -> Gap | None:
    """None where the log does not print what was missing, or nothing was."""
    need = next((one for one in needs_of(Pair(crash, crash, frozenset())) if one.pool == crash.pool), None)
    if need is None or need.high <= 0 or need.unit != "bytes":
        return None
    growth, formula = _growth(crash, need)
    turned = [(remedy.knob, _settings(remedy)) for remedy in remedies if _can_be_reckoned(remedy)]
    verdicts = {knob: _verdict(crash, settings) for knob, settings in turned}
    rest = rest_bytes(crash)
    of_a_share = min(rest, vllm.CAPTURE_SLACK_BYTES)
    alone = tuple(
        knob for knob, one in verdicts.items() if _closes(one, growth + (of_a_share if knob == _SHARE else rest))
    )
    together, last = ((), None) if alone else _first_together(crash, turned, growth + rest)
    return Gap(
        pool=need.pool,
        missing_low_bytes=need.low + growth,
        missing_high_bytes=need.high + growth,
        derivation=formula,
        assumes=need.assumes,
        alone=alone,
        together=together,
        still_missing_bytes=_short(last),
    )


def rest_bytes(crash: Crash) -> int:
    """What has to be left behind the failed allocation, before a remedy is called enough."""
    total = card_total(crash) if isinstance(crash.root, DeviceOutOfMemory) else None
    share = _REST_WHILE_SERVING if crash.stage == "serving" else _REST
    return round(share * total) if total is not None else 0


def shown(remedies: Sequence[Remedy], lacking: Gap) -> tuple[Remedy, ...]:
    """The remedies with one that closes the gap alone before the others, or second where it has to be bought; what
    was put before the cause's own says why."""
    alone = lacking.alone
    closing = [remedy for remedy in remedies if remedy.knob in alone]
    free = next((remedy for remedy in closing if remedy.knob not in AT_A_PRICE), None)
    lead = free or next(iter(closing), None)
    ahead = 0 if free is not None else AMONG_THE_FIRST - 1
    if lead is None or lead in remedies[: ahead + 1]:
        return tuple(remedies)
    rest = [remedy for remedy in remedies if remedy is not lead]
    return (*rest[:ahead], _with_reason(lead, lacking), *rest[ahead:])


def _with_reason(remedy: Remedy, lacking: Gap) -> Remedy:
    why = say("enough alone: {formula}", formula=lacking.derivation)
    formula = remedy.derivation if remedy.derivation not in (translated(A_SWITCH), translated(A_WORD)) else None
    return replace(remedy, derivation=semicolons(filter(None, (formula, why))))


def _growth(crash: Crash, need: Need) -> tuple[int, str]:
    """What a memory that climbs takes until it is printed again: to get past this moment is no cure for it."""
    grows = crash.trajectory
    if (
        grows is None
        or not grows.growth_bytes
        or grows.per == "second"
        or SIDES.get(grows.pool) != SIDES.get(need.pool)
    ):
        return 0, need.derivation
    figures = {"formula": need.derivation, "growth": show(grows.growth_bytes), "what": figure(grows.what)}
    if grows.per == "step":
        return grows.growth_bytes, say("{formula}; + {growth} growth of {what} per step", **figures)
    return grows.growth_bytes, say("{formula}; + {growth} growth of {what} per print", **figures)


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


def _closes(verdict: Verdict | None, growth: int) -> bool:
    return verdict is not None and verdict.answer == "fits" and (verdict.margin_low or 0) >= growth


def _first_together(
    crash: Crash, turned: Sequence[tuple[str, Mapping[str, Value]]], growth: int
) -> tuple[tuple[str, ...], Verdict | None]:
    """One knob after the other, in the order of the advice, until it fits."""
    verdict = None
    knobs: list[str] = []
    settings: dict[str, Value] = {}
    for knob, wanted in _one_each(turned):
        knobs.append(knob)
        settings.update(wanted)
        verdict = _verdict(crash, settings) if len(knobs) > 1 else None
        if _closes(verdict, growth):
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
