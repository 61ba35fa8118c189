"""How many rows `datasets` may keep back: by the size of one, as the log tells it."""

from __future__ import annotations

from typing import Final

from oomdoctor.job.model import Setting
from oomdoctor.language import say
from oomdoctor.remedies.proposal import Case, Proposal
from oomdoctor.signs.mapped_data import rows_wait_to_be_written, waiting_rows
from oomdoctor.units import MIB, show

_ROOM: Final = 64 * MIB  # for the rows of one process; as much again while they become a table
_OPTION: Final = "writer_batch_size"
_STEPS: Final = (1, 2, 5)


def fewer_rows(case: Case) -> Proposal | None:
    """As many as fit into 64 MiB in each process, in round numbers: 1, 2, 5, 10, ..."""
    waiting = waiting_rows(case.crash) if rows_wait_to_be_written(case.crash) is not None else None
    if waiting is None:
        return None
    then = _round(_ROOM // waiting.row_bytes)
    if then >= waiting.rows:
        return None
    now = case.crash.setting(_OPTION)
    flag = now.flag if now is not None else _OPTION
    return Proposal(
        action=say("Write finished rows to disk more often: lower {name} from {now} to {then}", name=flag,
                   now=waiting.rows, then=then),
        current=waiting.rows,
        suggested=then,
        setting=flag,
        snippet=_line(now, then),
        derivation=say("{formula} = {size} wait now; with {then} rows {rest}", formula=waiting.formula,
                       size=show(waiting.bytes), then=then, rest=show(waiting.bytes // waiting.rows * then)),
        assumes=waiting.assumed,
    )  # fmt: skip


def _line(now: Setting | None, then: int) -> str:
    """As the launch line spells it, else as the call takes it."""
    if now is not None and now.written is not None:
        return f"{now.written}{then}"
    return f"dataset.map(function, {_OPTION}={then})"


def _round(rows: int) -> int:
    """Down to 1, 2 or 5 with zeros behind it; 1 at least."""
    tens = int("1" + "0" * (len(str(max(rows, 1))) - 1))
    return max(step * tens for step in _STEPS if step * tens <= max(rows, 1))


__all__ = ["fewer_rows"]
