"""What would other settings have changed? The same ledger beside the crashed one, and whether it would have fitted.

Each rule is a function from the crash with the settings it had and the same crash with the others to what changes in
each pool, with its formula. What is not known is said, and a range is a range.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from oomdoctor.incident.model import Crash
from oomdoctor.job.model import Context, Setting, Trajectory, Value
from oomdoctor.job.names import figure
from oomdoctor.job.outside import printed_by
from oomdoctor.language import listed, say, semicolons
from oomdoctor.remedies import from_outside, settings
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.sizes import ZERO_STAGE
from oomdoctor.remedies.whatif import engine, host, needs, options, training
from oomdoctor.remedies.whatif.model import (
    A_VERSION,
    SET,
    Answer,
    Change,
    Comparison,
    Effect,
    Need,
    Pair,
    Rule,
    Shift,
    Unknown,
    Verdict,
    by,
    of_ledger,
    side,
    with_settings,
)
from oomdoctor.remedies.whatif.options import leaf, spellings
from oomdoctor.remedies.whatif.states import CARDS, OPTIMIZER, PARAMETERS
from oomdoctor.units import show

_RULES: Final[tuple[Rule, ...]] = (*engine.RULES, *training.RULES, *host.RULES)
_SHARES: Final = frozenset((*options.SHARE, *options.FRACTION, *host.THRESHOLD))
_SWITCHES: Final = frozenset((*OPTIMIZER, *PARAMETERS, *options.SLEEP, *options.EAGER, *training.CHECKPOINTING))
_SPARING: Final = frozenset((*options.EAGER, *training.CHECKPOINTING))
_HOST: Final = frozenset({"host_ram", "cgroup", "pinned"})
_OFF: Final = (False, "none", "None")
_NUMBERS: Final = frozenset((
    *options.LENGTH, *options.SEQUENCES, *options.TOKENS, *options.PARALLEL, *options.SWAP, *ZERO_STAGE, *CARDS,
    *training.ANY_BATCH, *training.OF_UPDATES, *training.OF_PASSES_WITHOUT_GRADIENTS, *training.LENGTHS,
    *host.WORKERS, *host.NUMBERED,
))  # fmt: skip


def whatif(crash: Crash, wanted: Mapping[str, Value], *, proven: bool = True) -> Comparison:
    """The crash with these settings instead; a ValueError where one of them cannot be meant.

    Where it is not proven that memory failed, no pool is taken for the one that ran out.
    """
    heard: list[Setting] = []
    crash = from_outside.listening(crash, heard)
    printed = printed_by(crash.events)
    for name, value in wanted.items():
        _check(Change(name, value))
    wanted = {_meant(name, crash): value for name, value in wanted.items()}
    changes = tuple(
        Change(name, value, crash.setting(name) or crash.setting(*spellings(name)) or printed.get(spellings(name)[0]))
        for name, value in wanted.items()
    )
    names = frozenset(name for change in changes for name in change.names)
    pair = Pair(crash, with_settings(crash, changes), names)
    counted = needs.counted(pair)
    effects = [] if counted is not None else _effects(pair, changes)
    shifts = [effect for effect in effects if isinstance(effect, Shift)]
    unknown = [effect for effect in effects if isinstance(effect, Unknown)]
    named = {effect.what for effect in effects}
    ignored = tuple(one.name for one in changes if not (counted or _rules(one) or one.name in named))
    found = needs.of(pair)
    verdicts = [counted] if counted is not None else _verdicts(crash, found, shifts, unknown, ignored, proven=proven)
    return Comparison(
        changes=changes,
        sides=tuple(side(ledger, [s for s in shifts if of_ledger(s, ledger)]) for ledger in crash.ledgers),
        shifts=tuple(shifts),
        unknown=tuple(unknown),
        ignored=ignored,
        needs=tuple(found),
        verdicts=tuple(verdicts),
        notes=(*_notes(crash, shifts, verdicts), *_not_from_the_log(crash.context, heard)),
        proven=proven,
    )


def _meant(name: str, crash: Crash) -> str:
    """The option itself; where "batch_size" is none of the log's, the batch that the log does state."""
    if leaf(name) not in training.ANY_BATCH or crash.setting(name) is not None:
        return name
    return training.batch_meant(crash) or name


def _rules(change: Change) -> list[Rule]:
    return [rule for rule in _RULES if not rule.names.isdisjoint(change.names)]


def _effects(pair: Pair, changes: tuple[Change, ...]) -> list[Effect]:
    """Each rule is asked once, whichever of its settings are changed; the table of knobs where there is none."""
    crash = pair.now
    touched = dict.fromkeys(rule for change in changes for rule in _rules(change))
    effects = [_of_this_crash(effect, crash) for rule in touched for effect in rule.work(pair)]
    for change in changes:
        if change.now is None and change.value in _OFF and change.names & _SWITCHES:
            # Offload and sleep take host memory; eager mode and checkpointing spare only the card's.
            gives_back = crash.pool in _HOST and not change.names & _SPARING
            why = say("the log does not say whether {name} is on", name=change.name)
            effects.append(
                Unknown(pool=crash.pool, what=change.name, why=why, relieves=gives_back, spends=not gives_back)
            )
        if not _rules(change):
            effects += by_the_table(change, crash)
    return effects


def by_the_table(change: Change, crash: Crash) -> list[Effect]:
    """What the table of knobs says of an option whose effect no formula gives: which pools, and not how much."""
    option = leaf(change.name)
    knobs = {knob.id: knob for knob in KNOBS.values() if option in map(leaf, knob.settings)}
    for framework in crash.context.frameworks:
        knobs |= {
            row.knob: KNOBS[row.knob]
            for row in settings.rows(framework)
            if leaf(row.key) == option and row.knob in KNOBS
        }
    pools = {pool for knob in knobs.values() for pool in (*knob.relieves, *knob.spends)}
    if crash.pool not in pools:
        return []
    why = say("effect of {name} unknown", name=change.name)
    return [Unknown(pool=crash.pool, what=change.name, why=why, spends=True)]


def _check(change: Change) -> None:
    """What is a number cannot be a word: said, before it is taken for the default."""
    value = change.value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if change.names & _SHARES and not (number and 0 < float(str(value)) <= 1):
        raise ValueError(say("{name} must be between 0 and 1, not {value}", name=change.name, value=repr(value)))
    if change.names & _NUMBERS and not (number and float(str(value)) >= 0):
        raise ValueError(say("{name} must be 0 or more, not {value}", name=change.name, value=repr(value)))


def _of_this_crash(effect: Effect, crash: Crash) -> Effect:
    """What the node's memory gives, the limit on it gives where that is what was hit."""
    if effect.pool == "host_ram" and crash.pool == "cgroup":
        return replace(effect, pool="cgroup")
    if effect.pool == "cgroup" and crash.pool == "host_ram":
        return replace(effect, pool="host_ram")
    if effect.pool == "host_ram" and crash.pool == "pinned":
        why = say("the log does not say how much of it is pinned")
        relieves, spends = _directions(effect)
        return Unknown(pool="pinned", what=effect.what, why=why, relieves=relieves, spends=spends)
    return effect


def _directions(effect: Effect) -> tuple[bool, bool]:
    if isinstance(effect, Unknown):
        return effect.relieves, effect.spends
    return effect.low < 0, effect.high > 0


def _verdicts(
    crash: Crash,
    found: Iterable[Need],
    shifts: list[Shift],
    unknown: list[Unknown],
    ignored: tuple[str, ...],
    *,
    proven: bool,
) -> list[Verdict]:
    """The pool that ran out (or may have) first, then every other one that is touched."""
    known = {need.pool: need for need in found}
    touched: list[Effect] = [*shifts, *unknown]
    pools = dict.fromkeys([crash.pool, *(effect.pool for effect in touched)])
    return [
        _verdict(
            pool,
            known.get(pool),
            [shift for shift in shifts if shift.pool == pool],
            [one for one in unknown if one.pool == pool],
            ignored if pool == crash.pool else (),
            ran_out=proven and pool == crash.pool,
        )
        for pool in pools
    ]


def _verdict(
    pool: str,
    need: Need | None,
    shifts: list[Shift],
    unknown: list[Unknown],
    ignored: tuple[str, ...],
    *,
    ran_out: bool,
) -> Verdict:
    if pool == "none":
        return Verdict(pool=pool, answer="cannot tell", why=say("the log does not say which memory ran out"))
    low, high = sum(shift.low for shift in shifts), sum(shift.high for shift in shifts)
    if not shifts and not unknown and ignored:
        return Verdict(pool=pool, answer="cannot tell", why=_not_known(ignored))
    if need is None:
        return _without_figures(pool, low, high, unknown, ran_out=ran_out)
    least, most = -need.high - high, -need.low - low
    spends, relieves = any(one.spends for one in unknown), any(one.relieves for one in unknown)
    answer: Answer = "cannot tell"
    if least >= 0 and not spends:
        answer, why = "fits", say("{amount} to spare", amount=by(least, most))
    elif most < 0 and not relieves:
        answer, why = "does not fit", say("{amount} still missing", amount=by(-most, -least))
    else:
        why = semicolons(dict.fromkeys([_open(least, most), *(one.why for one in unknown)]))
    return Verdict(pool=pool, answer=answer, why=why, margin_low=least, margin_high=most)


def _without_figures(pool: str, low: int, high: int, unknown: list[Unknown], *, ran_out: bool) -> Verdict:
    """Where the log does not print how much was left, or missing."""
    if ran_out and low >= 0 and not any(one.relieves for one in unknown):
        why = say("needs {amount} more", amount=by(low, high)) if high else say("no change")
        return Verdict(pool=pool, answer="does not fit", why=why)
    reasons = [one.why for one in unknown]
    if low or high:
        reasons.insert(0, _known_part(low, high, ran_out=ran_out))
    why = semicolons(dict.fromkeys(reasons)) or say("no change")
    return Verdict(pool=pool, answer="cannot tell", why=why)


def _known_part(low: int, high: int, *, ran_out: bool) -> str:
    """What changes, where nothing says what that would have had to be."""
    if high > 0:
        amount = by(low, high)
        if ran_out:
            return say("needs {amount} more; the log does not say how much was missing", amount=amount)
        return say("needs {amount} more; the log does not say how much was free", amount=amount)
    amount = by(-high, -low)
    if ran_out:
        return say("saves {amount}; the log does not say how much was missing", amount=amount)
    return say("saves {amount}; the log does not say how much was free", amount=amount)


def _not_known(ignored: tuple[str, ...]) -> str:
    meant = [
        near for name in ignored for near in difflib.get_close_matches(leaf(name), sorted(known()), n=1, cutoff=0.75)
    ]
    if not meant:
        return say("effect of {names} unknown (`oomdoctor whatif --help` lists known settings)", names=listed(ignored))
    return say("effect of {names} unknown; did you mean {meant}?", names=listed(ignored), meant=listed(meant))


def known() -> frozenset[str]:
    """All settings whose effect is."""
    return frozenset(name for rule in _RULES for name in rule.names if name != A_VERSION)


def _open(least: int, most: int) -> str:
    """What the known part comes to."""
    if least < 0 <= most:
        return say("between {missing} missing and {spare} to spare", missing=show(-least), spare=show(most))
    if most < 0:
        return say("{amount} missing without it", amount=by(-most, -least))
    return say("{amount} to spare without it", amount=by(least, most))


def _notes(crash: Crash, shifts: list[Shift], verdicts: list[Verdict]) -> Iterable[str]:
    """What the answer leaves open."""
    first = verdicts[0]
    grows = crash.trajectory
    if grows is not None and grows.growth_bytes and first.margin_high is not None and first.margin_high >= 0:
        least, most = (max(margin or 0, 0) // grows.growth_bytes for margin in (first.margin_low, first.margin_high))
        yield _used_up(grows, show(grows.growth_bytes), least, most)
    if first.answer == "fits" and first.unit == "bytes" and any(shift.pool == first.pool for shift in shifts):
        yield say("this covers the failed allocation only, not what the job would have allocated next")


def _used_up(grows: Trajectory, growth: str, least: int, most: int) -> str:
    """How long what is to spare lasts, where the figure goes on to grow."""
    steps = f"{least}" if least == most else say("{low} to {high}", low=least, high=most)
    if grows.per == "step":
        return say(
            "{what} grew by {amount} per step; steps until full at this rate: {steps}",
            what=figure(grows.what),
            amount=growth,
            steps=steps,
        )
    if grows.per == "second":
        return say(
            "{what} grew by {amount} per second; seconds until full at this rate: {steps}",
            what=figure(grows.what),
            amount=growth,
            steps=steps,
        )
    return say(
        "{what} grew by {amount} per print; prints until full at this rate: {steps}",
        what=figure(grows.what),
        amount=growth,
        steps=steps,
    )


def _not_from_the_log(context: Context, heard: Iterable[Setting]) -> Iterable[str]:
    """What was reckoned with that the log does not print."""
    said = {f"{one.name}={one.value}": one.outside for one in heard if one.outside != SET}
    for name, source in context.outside.items():
        version = context.frameworks.get(name)
        said[f"{name} {version}" if version else name] = source
    return (from_outside.told(what, source or "") for what, source in said.items())
