"""What a what-if is made of: the crash as it was and as it would have been set, and what that changes in each pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from oomdoctor.incident.model import Basis, Crash, Ledger
from oomdoctor.job.frameworks import has_versions
from oomdoctor.job.model import Context, Setting, Value
from oomdoctor.language import say
from oomdoctor.remedies.whatif.options import leaf, spellings
from oomdoctor.units import show
from oomdoctor.versions import version_of

Answer = Literal["fits", "does not fit", "cannot tell"]

SET: Final = "--set"
A_VERSION: Final = "(a version)"  # stands for the name of whichever package


def is_version(name: str, value: Value) -> bool:
    """Whether a release of a package is meant, not a setting."""
    package = name.lower().replace("_", "-")
    return has_versions(package) and version_of(str(value)) is not None


class Change(Struct, frozen=True):
    """One setting, as it was (None where nothing says) and as it would be."""

    name: str
    value: Value
    now: Setting | None = None

    @property
    def names(self) -> frozenset[str]:
        """Every name under which a rule may know it."""
        if is_version(self.name, self.value):
            return frozenset({A_VERSION})
        parts = self.name.strip("-+").replace("-", "_").split(".")
        return frozenset((*spellings(self.name), *(".".join(parts[begin:]) for begin in range(len(parts)))))


class Shift(Struct, frozen=True, kw_only=True):
    """How much more (or, negative, less) of a pool would be taken: at least `low` and at most `high` bytes."""

    pool: str
    what: str
    low: int
    high: int
    derivation: str
    basis: Basis = "derived"
    assumes: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()  # what the ledger's row may be called that it is part of
    booked: bool = True  # whether the ledger holds it; a share that was refused at start was never taken
    asked: int = 0  # the part of it that was refused, and is in no row
    back: str | None = None  # the row that grows by what this one gives back, where it is not what is free


class Unknown(Struct, frozen=True, kw_only=True):
    """A setting that would change a pool by nobody knows how much."""

    pool: str
    what: str
    why: str
    relieves: bool = True
    spends: bool = False


Effect = Shift | Unknown


class Pair(Struct, frozen=True):
    """The crash with the settings it had, and with the others."""

    now: Crash
    then: Crash
    changed: frozenset[str]  # all spellings of what is changed

    def touches(self, *names: str) -> bool:
        return not self.changed.isdisjoint(names)

    def values(self, *names: str) -> tuple[Value, Value]:
        """The first of these settings, before and after."""
        return _value(self.now, names), _value(self.then, names)

    def numbers(self, *names: str) -> tuple[float | None, float | None]:
        """As numbers; None where there is none."""
        now, then = (value if _is_number(value) else None for value in self.values(*names))
        assert not isinstance(now, str | bool)
        assert not isinstance(then, str | bool)
        return now, then


def _value(crash: Crash, names: tuple[str, ...]) -> Value:
    found = crash.setting(*names)
    return found.value if found is not None else None


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


Work = Callable[[Pair], Iterator[Effect]]


class Rule(Struct, frozen=True):
    """What some settings do: asked once, whichever of them are changed."""

    names: frozenset[str]
    work: Work


class Need(Struct, frozen=True, kw_only=True):
    """What was missing in a pool when it ran out, and how that was reckoned."""

    pool: str
    low: int
    high: int
    derivation: str
    assumes: tuple[str, ...] = ()
    unit: str = "bytes"  # or what is counted: "GPUs"


class Verdict(Struct, frozen=True, kw_only=True):
    """Whether a pool would do, and with what to spare (negative: missing)."""

    pool: str
    answer: Answer
    why: str
    margin_low: int | None = None
    margin_high: int | None = None
    unit: str = "bytes"


class Cell(Struct, frozen=True):
    """One row of the ledger, as it was and as it would be."""

    what: str
    now_bytes: int | None
    low_bytes: int | None
    high_bytes: int | None
    basis: Basis


class Side(Struct, frozen=True):
    """A ledger beside itself."""

    pool: str
    device: str
    total_bytes: int | None
    cells: tuple[Cell, ...]


class Comparison(Struct, frozen=True, kw_only=True):
    """The answer."""

    changes: tuple[Change, ...]
    sides: tuple[Side, ...]
    shifts: tuple[Shift, ...]
    unknown: tuple[Unknown, ...]
    ignored: tuple[str, ...]  # settings of which no effect is known
    needs: tuple[Need, ...]
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...] = field(default_factory=tuple)
    proven: bool = True  # that a pool ran out

    @property
    def answer(self) -> Answer:
        """Of the pool that ran out."""
        return self.verdicts[0].answer if self.verdicts and self.proven else "cannot tell"


def with_settings(crash: Crash, changes: tuple[Change, ...]) -> Crash:
    """The crash as if it had been set otherwise."""
    context = crash.context
    for change in changes:
        context = _with(context, change)
    return replace(crash, context=context)


def _with(context: Context, change: Change) -> Context:
    if is_version(change.name, change.value):
        package = change.name.lower().replace("_", "-")
        return replace(context, frameworks={**context.frameworks, package: str(change.value)})
    wanted = change.name.strip("-+").replace("-", "_").removesuffix(".device")
    names = spellings(wanted)
    # `offload_optimizer.device` is that of the switch
    known = {name: name.replace("-", "_").removesuffix(".device") for name in context.settings}
    hit = {name for name, spelled in known.items() if spelled == wanted or spelled.endswith("." + wanted)}
    if "." not in wanted:
        hit = {name for name, spelled in known.items() if leaf(spelled) in names}
    else:  # what the log names without the framework's key
        hit |= {name for name, spelled in known.items() if "." not in spelled and spelled in names}
    settings = {
        name: _changed(setting, change.value) if name in hit else setting for name, setting in context.settings.items()
    }
    if not hit:
        settings = {wanted: Setting(wanted, change.value, SET, 0, outside=SET), **settings}
    return replace(context, settings=settings)


def _changed(setting: Setting, value: Value) -> Setting:
    """What a script says of the old value it does not say of the new one."""
    return replace(setting, value=value, outside=SET if setting.outside is not None else None)


def of_ledger(shift: Shift, ledger: Ledger) -> bool:
    """Whether the ledger holds what is shifted: an engine's plan of its share, the room for the cache as well."""
    rows = {row.what for row in ledger.rows}
    return shift.pool == ledger.pool or (
        shift.pool == "kv_cache" and shift.back in rows and not rows.isdisjoint(shift.rows)
    )


def side(ledger: Ledger, shifts: list[Shift]) -> Side:
    """The ledger's rows with what changes in each; what is in no row of it gets one, and what is free the rest."""
    shifts = [_taken(shift) for shift in shifts if shift.booked]
    moved = [*shifts, *(shift for one in shifts if (shift := _given_back(one, ledger)) is not None)]
    homes = [_home(shift, ledger) for shift in moved]
    cells = []
    for row in ledger.rows:
        if row.what.startswith("free"):
            continue
        own = [shift for shift, home in zip(moved, homes, strict=True) if home == row.what]
        low, high = sum(shift.low for shift in own), sum(shift.high for shift in own)
        basis: Basis = own[0].basis if own else row.basis
        if row.bytes is None or not own:
            cells.append(Cell(row.what, row.bytes, row.bytes, row.bytes, basis))
        else:
            least = 0 if row.bytes >= 0 else row.bytes + low  # what a plan lacks is below zero
            cells.append(Cell(row.what, row.bytes, max(row.bytes + low, least), max(row.bytes + high, least), basis))
    loose = [shift for shift, home in zip(moved, homes, strict=True) if home is None and (shift.low or shift.high)]
    cells += [Cell(say("{what}, by", what=shift.what), None, shift.low, shift.high, shift.basis) for shift in loose]
    free = next((row for row in ledger.rows if row.what.startswith("free")), None)
    if free is not None and free.bytes is not None:
        least = free.bytes - sum(shift.high for shift in shifts)
        most = free.bytes - sum(shift.low for shift in shifts)
        cells.append(Cell(free.what, free.bytes, max(least, 0), max(most, 0), "derived" if shifts else free.basis))
    return Side(ledger.pool, ledger.device, ledger.total_bytes, tuple(cells))


def _taken(shift: Shift) -> Shift:
    """The change without what was only asked for."""
    if not shift.asked or shift.low >= 0:
        return shift
    return replace(shift, low=min(shift.low + shift.asked, 0), high=min(shift.high + shift.asked, 0))


def _home(shift: Shift, ledger: Ledger) -> str | None:
    """The row that a change is part of."""
    names = (row.what for wanted in shift.rows for row in ledger.rows if row.what.startswith(wanted))
    return next(names, None)


def _given_back(shift: Shift, ledger: Ledger) -> Shift | None:
    if shift.back is None or not any(row.what == shift.back for row in ledger.rows):
        return None
    return replace(shift, low=-shift.high, high=-shift.low, rows=(shift.back,), back=None)


def by(low: int, high: int) -> str:
    """An amount or a range of them, in words."""
    return show(low) if low == high else say("{low} to {high}", low=show(low), high=show(high))
