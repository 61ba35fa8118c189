"""What an option may not fall below: another one of the same program, which refuses to start otherwise."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from msgspec import Struct

from oomdoctor.remedies import cells
from oomdoctor.remedies.proposal import Case


class Row(Struct, frozen=True):
    """The names are their program's alone, and who starts the program hands them on by the same ones."""

    option: str
    least: str  # the option that it may not fall below
    equal: bool  # whether it may have the same value


class Floor(Struct, frozen=True):
    """The option that it may not fall below, as the log states it."""

    name: str
    value: int
    equal: bool


@cache
def table() -> tuple[Row, ...]:
    rows = cells.rows(Path(__file__).with_suffix(".txt"))
    return tuple(Row(option, least, equal == "yes") for _, option, least, equal, _ in rows)


def floor(case: Case) -> Floor | None:
    """The largest of the options that this one may not fall below, where the log states one."""
    if case.row is None:
        return None
    option = case.row.key.rsplit(".", 1)[-1]
    own = (one for one in table() if one.option == option)
    stated = ((case.crash.setting(one.least), one.equal) for one in own)
    known = [Floor(now.name, now.whole, equal) for now, equal in stated if now is not None and now.whole is not None]
    return max(known, key=lambda one: one.value, default=None)


__all__ = ["Floor", "floor", "table"]
