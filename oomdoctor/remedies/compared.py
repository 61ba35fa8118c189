"""A run that went well beside one that did not: what is different, and which of it can explain the crash.

What a difference can do is asked of the same rules as `whatif`: the crash with the other run's value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct

from oomdoctor.decision.diagnosis import decide
from oomdoctor.families.event import SIDES, Event
from oomdoctor.incident.ledger import ledgers
from oomdoctor.incident.model import Crash, Ledger, LedgerRow
from oomdoctor.job.model import Context, Setting, Value
from oomdoctor.job.names import figure, row
from oomdoctor.language import mark, say, translated
from oomdoctor.regressions import regressions
from oomdoctor.remedies.whatif.compare import whatif
from oomdoctor.remedies.whatif.model import Comparison, Shift
from oomdoctor.units import show
from oomdoctor.versions import version_of

Kind = Literal["setting", "version", "model", "hardware"]

# Differences that can explain the crash, the surest first.
WOULD_FIT: Final = 4
LESS: Final = 3
KNOWN_TROUBLE: Final = 3
MAY: Final = 2
NOTHING: Final = 0

# What a machine has less of where the job fails, by the side of the memory that ran out.
_HAVE: Final = {"gpu_count": "device", "ram_bytes": "host", "shm_bytes": "host", "ram_available_bytes": "host"}


class Run(Struct, frozen=True, kw_only=True):
    """What the logs of one run say."""

    crashes: tuple[Crash, ...]
    context: Context
    events: tuple[Event, ...]


class Difference(Struct, frozen=True, kw_only=True):
    """One thing that is not the same in both runs; None where a log does not state it."""

    kind: Kind
    name: str
    good: Value
    bad: Value
    good_line: int | None = None
    bad_line: int | None = None
    why: str = ""  # how it can explain the crash; empty where nothing says that it can
    derivation: str | None = None
    weight: int = NOTHING
    less_bytes: int = 0  # that the good run's value would take of what ran out


class Figure(Struct, frozen=True):
    """The size of one thing in both runs; None where a log does not print it."""

    what: str
    good_bytes: int | None
    bad_bytes: int | None


class Pool(Struct, frozen=True):
    """The ledgers of one device, side by side."""

    pool: str
    good_device: str | None
    bad_device: str | None
    rows: tuple[Figure, ...]


class Compared(Struct, frozen=True, kw_only=True):
    """Both runs."""

    crash: Crash | None  # of the bad run
    proven: bool  # that it is one of memory
    good_failed: bool
    differences: tuple[Difference, ...]  # what can explain the crash first
    peaks: tuple[Figure, ...]
    pools: tuple[Pool, ...]

    @property
    def explains(self) -> tuple[Difference, ...]:
        return tuple(one for one in self.differences if one.weight)


def compared(good: Run, bad: Run) -> Compared:
    """What is different."""
    decision = decide(bad.crashes[0]) if bad.crashes else None
    crash = decision.first if decision is not None else None
    found = [
        *_settings(good.context, bad.context, crash),
        *_versions(good.context, bad.context, crash),
        *_models(good.context, bad.context, crash),
        *_hardware(good.context, bad.context, crash),
    ]
    return Compared(
        crash=crash,
        proven=decision is not None and decision.verdict == "oom",
        good_failed=bool(good.crashes),
        differences=tuple(sorted(found, key=_turn)),
        peaks=tuple(_peaks(good.context, bad.context)),
        pools=tuple(_pools(_ledgers(good), _ledgers(bad))),
    )


def _turn(one: Difference) -> tuple[int, int, bool]:
    return -one.weight, -one.less_bytes, one.good is None or one.bad is None


def _settings(good: Context, bad: Context, crash: Crash | None) -> Iterator[Difference]:
    """Settings that both logs state, and those that one of them states and that bear on what ran out."""
    there = _by_name(good)
    for name, setting in _by_name(bad).items():
        other = there.pop(name, None)
        if other is None or other.value != setting.value:
            yield _judged(setting.name, other, setting, crash)
    for other in there.values():
        yield _judged(other.name, other, None, crash)


def _by_name(context: Context) -> dict[str, Setting]:
    """The settings that a log states, spelled alike; what a line only speaks of is none."""
    return {s.name.replace("-", "_").lower(): s for s in context.settings.values() if not s.mentioned}


def _judged(name: str, good: Setting | None, bad: Setting | None, crash: Crash | None) -> Difference:
    weight, less, why, derivation = NOTHING, 0, "", None
    if crash is not None:
        weight, less, why, derivation = _effect(crash, name, good, bad)
    return Difference(
        kind="setting",
        name=name,
        good=good.value if good else None,
        bad=bad.value if bad else None,
        good_line=good.line if good else None,
        bad_line=bad.line if bad else None,
        why=why,
        derivation=derivation,
        weight=weight,
        less_bytes=less,
    )


def _effect(crash: Crash, name: str, good: Setting | None, bad: Setting | None) -> tuple[int, int, str, str | None]:
    """How much the other run's value can have to do with the crash."""
    if good is None:
        return _not_stated(crash, name, bad)
    found = _tried(crash, name, good.value)
    if found is None:
        return NOTHING, 0, "", None
    # Not of its whole side: what an engine's share spares the card, its KV cache lacks.
    shifts = [shift for shift in found.shifts if shift.pool == crash.pool]
    less = -sum(shift.high for shift in shifts)
    if less > 0:
        if found.answer == "fits":
            why = say("{value} would have saved {size}, enough to fit", value=good.value, size=show(less))
            return WOULD_FIT, less, why, _formula(shifts)
        why = say("{value} would have saved {size}", value=good.value, size=show(less))
        return LESS, less, why, _formula(shifts)
    if shifts:
        return NOTHING, 0, "", None  # known, and not for the better
    if any(one.relieves and one.pool == crash.pool for one in found.unknown):
        return MAY, 0, say("related; effect unknown"), None
    return NOTHING, 0, "", None


def _not_stated(crash: Crash, name: str, bad: Setting | None) -> tuple[int, int, str, str | None]:
    found = _tried(crash, name, bad.value) if bad is not None else None
    if found is None or name in found.ignored:
        return NOTHING, 0, "", None
    return MAY, 0, say("related; not in the log of GOOD"), None


def _tried(crash: Crash, name: str, value: Value) -> Comparison | None:
    try:
        return whatif(crash, {name: value})
    except ValueError:  # the value means something else here
        return None


def _formula(shifts: Sequence[Shift]) -> str | None:
    return max(shifts, key=lambda shift: -shift.high).derivation if shifts else None


def _versions(good: Context, bad: Context, crash: Crash | None) -> Iterator[Difference]:
    for name, version in bad.frameworks.items():
        other = good.frameworks.get(name)
        if version is None or other is None or version == other:
            continue
        why = _known_trouble(name, other, version, crash) if crash is not None else ""
        yield Difference(
            kind="version", name=name, good=other, bad=version, why=why, weight=KNOWN_TROUBLE if why else NOTHING
        )


def _known_trouble(name: str, good: str, bad: str, crash: Crash) -> str:
    """What is known to be wrong with the one release and not with the other."""
    for one in regressions():
        if (
            one.affected.package == name
            and crash.pool in one.pools
            and one.affected.holds(version_of(bad))
            and not one.affected.holds(version_of(good))
        ):
            return say("{releases}: {trouble}", releases=one.affected, trouble=translated(one.what))
    return ""


def _models(good: Context, bad: Context, crash: Crash | None) -> Iterator[Difference]:
    """Other models: where two are loaded from other places they are the same."""
    here, there = (
        list(dict.fromkeys(name.rstrip("/").rpartition("/")[2] for name in context.models)) for context in (bad, good)
    )
    new, gone = [name for name in here if name not in there], [name for name in there if name not in here]
    if here and there and (new or gone):
        weighs = crash is not None and SIDES.get(crash.pool) in ("device", "host")
        yield Difference(
            kind="model",
            name=mark("model"),
            good=", ".join(gone) or None,
            bad=", ".join(new) or None,
            why=say("another model, other weights") if weighs and new else "",
            weight=MAY if weighs and new else NOTHING,
        )


def _hardware(good: Context, bad: Context, crash: Crash | None) -> Iterator[Difference]:
    for name in ("gpu_name", *_HAVE):
        one, other = good.hardware.get(name), bad.hardware.get(name)
        if one is None or other is None or one == other:
            continue
        why = ""
        if crash is not None and SIDES.get(crash.pool) == _HAVE.get(name, "device"):
            if not (isinstance(one, (int, float)) and isinstance(other, (int, float))):
                why = say("another GPU")
            elif other < one:
                why = say("BAD has less")
        yield Difference(kind="hardware", name=name, good=one, bad=other, why=why, weight=MAY if why else NOTHING)


def _peaks(good: Context, bad: Context) -> Iterator[Figure]:
    """The most that each figure came to, at each place of the program that the log names."""
    there, here = _most(good), _most(bad)
    for what in dict.fromkeys([*here, *there]):
        yield Figure(what, there.get(what), here.get(what))


def _most(context: Context) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in context.memory:
        if not one.shows_a_whole:  # the ledger has them
            continue
        for point in one.points:
            name = figure(one.what)
            what = say("{figure}, {place}", figure=name, place=point.text) if point.text else name
            found[what] = max(found.get(what, 0), point.bytes)
    return found


def _ledgers(run: Run) -> tuple[Ledger, ...]:
    return run.crashes[0].ledgers if run.crashes else ledgers(run.events)


def _pools(good: Sequence[Ledger], bad: Sequence[Ledger]) -> Iterator[Pool]:
    """Each ledger beside the one of the same device, or else the next of the same pool."""
    left = list(good)
    for one in bad:
        alike = [other for other in left if other.pool == one.pool]
        other = next((o for o in alike if o.device == one.device), alike[0] if alike else None)
        if other is not None:
            left.remove(other)
        yield Pool(one.pool, other.device if other else None, one.device, _rows(other, one))
    yield from (Pool(other.pool, other.device, None, _rows(other, None)) for other in left)


def _rows(good: Ledger | None, bad: Ledger | None) -> tuple[Figure, ...]:
    there, here = ({one.what: one for one in ledger.rows} if ledger else {} for ledger in (good, bad))
    rows = [Figure(row(what), _size(there, what), _size(here, what)) for what in dict.fromkeys([*here, *there])]
    total = Figure(say("total"), good.total_bytes if good else None, bad.total_bytes if bad else None)
    return (*rows, total)


def _size(rows: dict[str, LedgerRow], what: str) -> int | None:
    return rows[what].bytes if what in rows else None
