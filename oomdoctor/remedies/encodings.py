"""What to change where an encoding makes a table with a column for each value: most of its cells are empty."""

from __future__ import annotations

from typing import Final

from oomdoctor.incident.model import Crash
from oomdoctor.incident.prints import own_lines
from oomdoctor.job.verbs import words_of
from oomdoctor.language import say
from oomdoctor.remedies.proposal import Case, Proposal
from oomdoctor.signs.encoded_tables import Table, rows_printed
from oomdoctor.signs.held_data import large_encoded_table
from oomdoctor.units import cut_off, show

_NARROW: Final = "narrow-dtypes"
_PARTS: Final = "smaller-partitions"
_FEWER: Final = "smaller-input"
PIECES: Final = 16
_USUAL_ROWS: Final = 10_000  # of a table, where nothing prints how many there are
_OF_PANDAS: Final = "chunksize"  # pandas/io/parsers/readers.py, sql.py: rows of each part
_LEAST_ROWS: Final = 10_000
# pandas/core/reshape/encoding.py 3.1.1
_SPARSE: Final = "pd.get_dummies(df, columns=COLUMNS, sparse=True)"


def proposal(case: Case) -> Proposal | None:
    """The knob in the words of the table; None where it is no matter of one."""
    table = large_encoded_table(case.crash)
    if table is None:
        return None
    if case.knob == _NARROW:
        return _narrower(table)
    if case.knob == _PARTS:
        return Proposal(
            action=say("Encode some thousand rows at a time, and hand each part on before the next is made"),
            setting="",
            derivation=formula(case),
            cost=say("slower"),
        )
    if case.knob == _FEWER:
        return Proposal(
            action=say(
                "Put rare values together before they are encoded: each one has a column of {size}",
                size=show(table.rows * table.width),
            ),
            setting="",
            derivation=f"{table.rows} x {table.width} = {show(table.rows * table.width)}",
            cost=say("less detail"),
        )
    return None


def _narrower(table: Table) -> Proposal:
    of_a_byte = _of_a_byte(table)
    if of_a_byte is None:
        action = say("Keep the table sparse: most of its cells are empty")
    else:
        bytes_each = show(table.rows * table.columns)
        action = say("Keep the table sparse, or give each cell one byte: {bytes_each} instead of {size}",
                     bytes_each=bytes_each, size=show(table.bytes))  # fmt: skip
    snippet = _SPARSE if table.has_flags else None
    return Proposal(action=action, setting="", snippet=snippet, derivation=of_a_byte, cost=say("none"))


def formula(case: Case) -> str | None:
    """How the value of the program's own option comes about that the knob is turned by."""
    table = large_encoded_table(case.crash)
    if table is None:
        return None
    if case.knob == _PARTS:
        return part_of(table.rows)
    return _of_a_byte(table) if case.knob == _NARROW else None


def _of_a_byte(table: Table) -> str | None:
    if table.width == 1 or not table.has_flags:
        return None
    return f"{table.rows} x {table.columns} x 1 = {show(table.rows * table.columns)}"


def rows_at_a_time(name: str, crash: Crash) -> int | None:
    """For an option that says how many rows of a table a part has, and now says all of them; None for parts of anything
    else."""
    table = large_encoded_table(crash)
    if table is not None:
        return max(1, cut_off(table.rows // PIECES, 1))
    if words_of(name)[-1:] != [_OF_PANDAS]:
        return None
    rows = rows_printed(own_lines(crash))
    return cut_off(rows // PIECES, 1) if rows is not None and rows >= _LEAST_ROWS else _USUAL_ROWS


def part_of(rows: int) -> str:
    """How many a part has of so many."""
    return say("{formula}, rounded down", formula=f"{rows} / {PIECES} = {rows // PIECES}")


__all__ = ["PIECES", "formula", "part_of", "proposal", "rows_at_a_time"]
