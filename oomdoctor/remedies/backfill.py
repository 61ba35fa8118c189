"""What to add where a cause's own list gives too little: what relieves this pool in this kind of job."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.families.event import RAM
from oomdoctor.incident.model import Crash
from oomdoctor.remedies import Rejected, Remedy, cells
from oomdoctor.remedies.advise import remedies
from oomdoctor.remedies.knobs import BOUGHT
from oomdoctor.remedies.loading import in_its_order
from oomdoctor.remedies.order import EVIDENCE, evidence_ahead, in_order, is_vague
from oomdoctor.remedies.own_line import in_front
from oomdoctor.remedies.own_options import own_option
from oomdoctor.remedies.proposal import RACE
from oomdoctor.signs.address_space import kill_at_a_virtual_limit
from oomdoctor.signs.kills import only_small_processes_were_killed
from oomdoctor.signs.limits import most_is_in_no_process

ENOUGH: Final = 3
_NOTHING_ELSE: Final = (RACE, "absurd-size")  # causes of which less of anything is no remedy
_LEARNS: Final = ("training", "rl")  # tasks
_OWN: Final = "*"  # only where the job's own program has an option for the knob


class Row(Struct, frozen=True):
    """One row of the table."""

    pool: str
    tasks: frozenset[str]
    knobs: tuple[str, ...]
    own: frozenset[str]  # those of them that only an option of the job's own program turns


@cache
def table() -> tuple[Row, ...]:
    rows = cells.rows(Path(__file__).with_suffix(".txt"))
    return tuple(_row(pool, tasks, knobs.split()) for pool, tasks, knobs in rows)


def _row(pool: str, tasks: str, cells_of_knobs: Sequence[str]) -> Row:
    own = frozenset(cell.rstrip(_OWN) for cell in cells_of_knobs if cell.endswith(_OWN))
    return Row(pool, frozenset(tasks.split()), tuple(cell.rstrip(_OWN) for cell in cells_of_knobs), own)


def in_general(crash: Crash) -> tuple[str, ...]:
    """The knobs of the first row of this pool and task; none where no process of the job holds the memory, or where
    a scheduler counted address space: what uses less RAM may reserve as much, and a mapped file more."""
    if only_small_processes_were_killed(crash) is not None or kill_at_a_virtual_limit(crash) is not None:
        return ()
    fitting = (row for row in table() if row.pool == crash.pool and (not row.tasks or crash.job.task in row.tasks))
    row = next(fitting, None)
    if row is None:
        return ()
    return tuple(name for name in row.knobs if name not in row.own or own_option(name, crash) is not None)


def enough_remedies(cause: str, knobs: Sequence[str], crash: Crash) -> tuple[list[Remedy], list[Rejected]]:
    """The cause's own remedies, the general ones behind them until there are enough, in their order."""
    knobs = in_its_order(knobs if cause in _NOTHING_ELSE else in_front(knobs, crash), cause, crash)
    chosen, rejected = remedies(cause, knobs, crash)
    chosen = _once(chosen)
    listed = {*knobs, *(one.knob for one in rejected)}
    unpaid = ENOUGH - sum(one.knob not in (EVIDENCE, *BOUGHT) and not _is_vague(one, cause, crash) for one in chosen)
    if most_is_in_no_process(crash) is not None:
        unpaid = ENOUGH - len(chosen)  # nor would an option of the job's own free what no process holds
    more = [name for name in in_general(crash) if name not in listed]
    found = remedies(cause, more, crash)[0] if unpaid > 0 and more and cause not in _NOTHING_ELSE else []
    lines = {one.snippet for one in chosen} - {None}
    found = [one for one in found if one.knob not in listed and one.snippet not in lines and _has_a_sign(one, crash)]
    further = sorted(
        (replace(one, general=own_option(one.knob, crash) is None) for one in found),
        key=lambda one: one.current is None,
    )
    chosen = [*_real(chosen), *_added(further, ENOUGH - len(chosen), unpaid)]
    return evidence_ahead(in_order(chosen, cause, crash.pool), cause, crash), rejected


def _is_vague(remedy: Remedy, cause: str, crash: Crash) -> bool:
    return crash.pool in RAM and is_vague(remedy, cause)


def _once(chosen: Sequence[Remedy]) -> list[Remedy]:
    """Those of which none before sets the same option to the same value."""
    first: dict[str, Remedy] = {}
    for one in chosen:
        first.setdefault((one.snippet if one.suggested is not None else None) or one.knob, one)
    return list(first.values())


def _added(further: Sequence[Remedy], lacking: int, unpaid: int) -> list[Remedy]:
    """As many as are lacking; where the others have to be bought, as many more as the job states an option for."""
    first = list(further[: max(lacking, 0)])
    stated = [one for one in further if one.current is not None and one not in first]
    return [*first, *stated[: unpaid - len(first)]]


def _has_a_sign(remedy: Remedy, crash: Crash) -> bool:
    """What is advised of any job is worth a line where it names something of this one, or where the job is known to
    learn; a library's line of code names nothing of it."""
    told = remedy.setting or remedy.subject or remedy.derivation or remedy.current is not None
    return bool(told) or crash.job.task in _LEARNS


def _real(chosen: Sequence[Remedy]) -> list[Remedy]:
    """Those that name what to change first; the others fall away where these are enough, and beside any other one what
    only says that something is to be recorded."""
    if any(one.knob != EVIDENCE for one in chosen):
        chosen = [one for one in chosen if one.knob != EVIDENCE or one.has_object]
    real = [one for one in chosen if one.has_object]
    if sum(one.knob != EVIDENCE for one in real) >= ENOUGH:
        return real
    return sorted(chosen, key=lambda one: not one.has_object)


__all__ = ["ENOUGH", "EVIDENCE", "enough_remedies", "in_general", "table"]
