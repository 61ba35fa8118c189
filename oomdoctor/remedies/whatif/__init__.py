"""What would other settings have changed? The same ledger beside the crashed one, and whether it would have fitted.

Each rule is a function from the crash with the settings it had and the same crash with the others to what changes in
each pool, with its formula. What is not known is said, and a range is a range.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from oomdoctor.incident.model import Context, Crash, Setting, Value
from oomdoctor.incident.outside import printed_by
from oomdoctor.remedies import from_outside
from oomdoctor.remedies.whatif import engine, host, needs, training
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
    leaf,
    side,
    spellings,
    with_settings,
)
from oomdoctor.remedies.whatif.states import CARDS, ZERO_STAGE
from oomdoctor.units import show

_RULES: Final[tuple[Rule, ...]] = (*engine.RULES, *training.RULES, *host.RULES)
_SHARES: Final = frozenset((*engine.SHARE, *engine.FRACTION, *host.THRESHOLD))
_NUMBERS: Final = frozenset((
    *engine.LENGTH, *engine.SEQUENCES, *engine.TOKENS, *engine.PARALLEL, *engine.SWAP, *ZERO_STAGE, *CARDS,
    *training.OF_UPDATES, *training.OF_PASSES_WITHOUT_GRADIENTS, *training.LENGTHS, *host.WORKERS, *host.NUMBERED,
))  # fmt: skip


def whatif(crash: Crash, settings: Mapping[str, Value]) -> Comparison:
    """The crash with these settings instead; a ValueError where one of them cannot be meant."""
    heard: list[Setting] = []
    crash = from_outside.listening(crash, heard)
    printed = printed_by(crash.events)
    changes = tuple(
        Change(name, value, crash.setting(name) or crash.setting(*spellings(name)) or printed.get(spellings(name)[0]))
        for name, value in settings.items()
    )
    for change in changes:
        _check(change)
    names = frozenset(name for change in changes for name in change.names)
    pair = Pair(crash, with_settings(crash, changes), names)
    touched = [rule for rule in _RULES if not rule.names.isdisjoint(names)]
    effects = [_of_this_crash(effect, crash) for rule in touched for effect in rule.work(pair)]
    counted = needs.counted(pair)
    effects = [] if counted is not None else effects
    shifts = [effect for effect in effects if isinstance(effect, Shift)]
    unknown = [effect for effect in effects if isinstance(effect, Unknown)]
    ignored = tuple(change.name for change in changes if all(change.names.isdisjoint(rule.names) for rule in touched))
    found = needs.of(pair)
    verdicts = [counted] if counted is not None else _verdicts(crash, found, shifts, unknown, ignored)
    return Comparison(
        changes=changes,
        sides=tuple(side(ledger, [s for s in shifts if s.pool == ledger.pool]) for ledger in crash.ledgers),
        shifts=tuple(shifts),
        unknown=tuple(unknown),
        ignored=() if counted is not None else ignored,
        needs=tuple(found),
        verdicts=tuple(verdicts),
        notes=(*_notes(crash, shifts, verdicts), *_not_from_the_log(crash.context, heard)),
    )


def _check(change: Change) -> None:
    """What is a number cannot be a word: said, before it is taken for the default."""
    value = change.value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if change.names & _SHARES and not (number and 0 < float(str(value)) <= 1):
        raise ValueError(f"{change.name} is a share between 0 and 1, not {value!r}")
    if change.names & _NUMBERS and not (number and float(str(value)) >= 0):
        raise ValueError(f"{change.name} is a number from 0 on, not {value!r}")


def _of_this_crash(effect: Effect, crash: Crash) -> Effect:
    """What the node's memory gives, the limit on it gives where that is what was hit."""
    if effect.pool == "host_ram" and crash.pool == "cgroup":
        return replace(effect, pool="cgroup")
    return effect


def _verdicts(
    crash: Crash, found: Iterable[Need], shifts: list[Shift], unknown: list[Unknown], ignored: tuple[str, ...]
) -> list[Verdict]:
    """The pool that ran out first, then every other one that is touched."""
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
        )
        for pool in pools
    ]


def _verdict(
    pool: str, need: Need | None, shifts: list[Shift], unknown: list[Unknown], ignored: tuple[str, ...]
) -> Verdict:
    low, high = sum(shift.low for shift in shifts), sum(shift.high for shift in shifts)
    if not shifts and not unknown and ignored:
        return Verdict(pool=pool, answer="cannot tell", why=_not_known(ignored))
    if need is None:
        amount = f"it takes {by(low, high)} more" if high > 0 else f"it gives {by(-high, -low)} back"
        if not low and not high:
            amount = "; ".join(one.why for one in unknown) or "nothing changes there"
        return Verdict(pool=pool, answer="cannot tell", why=f"{amount}, and how much is left there is not printed")
    least, most = -need.high - high, -need.low - low
    spends, relieves = any(one.spends for one in unknown), any(one.relieves for one in unknown)
    answer: Answer = "cannot tell"
    if least >= 0 and not spends:
        answer, why = "fits", f"{by(least, most)} to spare"
    elif most < 0 and not relieves:
        answer, why = "does not fit", f"{by(-most, -least)} are still missing"
    else:
        why = "; ".join(dict.fromkeys([_open(least, most), *(one.why for one in unknown)]))
    return Verdict(pool=pool, answer=answer, why=why, margin_low=least, margin_high=most)


def _not_known(ignored: tuple[str, ...]) -> str:
    meant = [
        near for name in ignored for near in difflib.get_close_matches(leaf(name), sorted(known()), n=1, cutoff=0.75)
    ]
    hint = f"; did you mean {', '.join(meant)}?" if meant else ""
    return f"what {', '.join(ignored)} would change is not known{hint}"


def known() -> frozenset[str]:
    """All settings whose effect is."""
    return frozenset(name for rule in _RULES for name in rule.names if name != A_VERSION)


def _open(least: int, most: int) -> str:
    """What the known part comes to."""
    if least < 0 <= most:
        return f"between {show(-least)} missing and {show(most)} to spare"
    return f"{by(-most, -least)} missing without that" if most < 0 else f"{by(least, most)} to spare without that"


def _notes(crash: Crash, shifts: list[Shift], verdicts: list[Verdict]) -> Iterable[str]:
    """What the answer leaves open."""
    first = verdicts[0]
    grows = crash.trajectory
    if grows is not None and grows.growth_bytes and first.margin_high is not None and first.margin_high >= 0:
        least, most = (max(margin or 0, 0) // grows.growth_bytes for margin in (first.margin_low, first.margin_high))
        steps = f"{least}" if least == most else f"{least} to {most}"
        yield (
            f"{grows.what} grew by {show(grows.growth_bytes)} per {grows.per}: if that goes on, the room is used up "
            f"after {steps} more"
        )
    if first.answer == "fits" and first.unit == "bytes" and any(shift.pool == first.pool for shift in shifts):
        yield "it is about what was refused: what the job would ask for after it is not printed"


def _not_from_the_log(context: Context, heard: Iterable[Setting]) -> Iterable[str]:
    """What was reckoned with that the log does not print."""
    said = {f"{one.name}={one.value}": one.outside for one in heard if one.outside != SET}
    for name, source in context.outside.items():
        version = context.frameworks.get(name)
        said[f"{name} {version}" if version else name] = source
    return (f"{what} is from {source}, not from the log" for what, source in said.items())


__all__ = ["Change", "Comparison", "Need", "Shift", "Unknown", "Verdict", "whatif"]
