"""The crashed ledger beside the one with other settings: as text, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from oomdoctor import __version__
from oomdoctor.columns import cells, cut, filled, wrapped
from oomdoctor.incident.model import Crash
from oomdoctor.job.names import row as row_name
from oomdoctor.language import listed, mark, say, translated
from oomdoctor.remedies.whatif.model import Cell, Change, Comparison, Shift, Side, Verdict
from oomdoctor.report.as_json import finite
from oomdoctor.report.vocabulary import POOL_NAMES, THE_MEMORY, failed
from oomdoctor.text import sanitize
from oomdoctor.units import show

SCHEMA_VERSION: Final = 1
_HEADS: Final = {
    "fits": mark("IT WOULD HAVE FITTED"),
    "does not fit": mark("IT WOULD NOT HAVE FITTED"),
    "cannot tell": mark("CANNOT TELL"),
}
_ANSWERS: Final = (mark("fits"), mark("does not fit"), mark("cannot tell"))
NARROWEST_NAME: Final = 12
COLUMN: Final = 12
RANGE: Final = 24


def as_json(crash: Crash, found: Comparison) -> str:
    """The comparison for programs."""
    return json.dumps(finite(_body(crash, found)), indent=2, ensure_ascii=False) + "\n"


def _body(crash: Crash, found: Comparison) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "oomdoctor", "version": __version__},
        "answer": found.answer,
        "crash": {
            "verdict": "oom" if found.proven else "inconclusive",
            "pool": crash.pool, "stage": crash.stage, "file": crash.root.at.file, "line": crash.root.at.line,
        },
        "changes": [
            {"setting": c.name, "current": c.now.value if c.now else None, "wanted": c.value, "stated": _stated(c)}
            for c in found.changes
        ],
        "pools": [
            {
                "pool": verdict.pool,
                "answer": verdict.answer,
                "why": verdict.why,
                "unit": verdict.unit,
                "margin_low": verdict.margin_low,
                "margin_high": verdict.margin_high,
                "missing": [
                    {"low": n.low, "high": n.high, "derivation": n.derivation, "assumes": list(n.assumes)}
                    for n in found.needs
                    if n.pool == verdict.pool
                ],
                "effects": [
                    {
                        "what": s.what, "low_bytes": s.low, "high_bytes": s.high, "basis": s.basis,
                        "derivation": s.derivation, "assumes": list(s.assumes),
                    }
                    for s in found.shifts
                    if s.pool == verdict.pool
                ],
                "unknown": [{"what": u.what, "why": u.why} for u in found.unknown if u.pool == verdict.pool],
            }
            for verdict in found.verdicts
        ],
        "ledger": [
            {
                "pool": side.pool,
                "device": side.device,
                "total_bytes": side.total_bytes,
                "rows": [
                    {
                        "what": c.what, "bytes": c.now_bytes, "then_low_bytes": c.low_bytes,
                        "then_high_bytes": c.high_bytes, "basis": c.basis,
                    }
                    for c in side.cells
                ],
            }
            for side in found.sides
        ],
        "ignored": list(found.ignored),
        "notes": list(found.notes),
    }  # fmt: skip


def _stated(change: Change) -> str | None:
    return change.now.place if change.now is not None else None


def text(crash: Crash, found: Comparison, width: int) -> str:
    """The comparison for a person."""
    return "".join(f"{line.rstrip()}\n" for line in _lines(crash, found, width))


def _lines(crash: Crash, found: Comparison, width: int) -> Iterator[str]:
    at = crash.root.at
    place, what = f"{at.file}:{at.line}", failed(crash.pool, proven=found.proven)
    why = found.verdicts[0].why if found.verdicts else say("no change")
    if not found.proven:
        why = f"{what}  ({place})"
    yield from _wrapped(say("{name}: {why}", name=translated(_HEADS[found.answer]), why=why), width)
    for change in found.changes:
        now = change.now.value if change.now is not None else say("(not in the log)")
        where = f"  ({_stated(change)})" if change.now is not None else ""
        yield from _wrapped(f"{change.name}: {now} -> {change.value}{where}", width, 2)
    if found.proven:
        yield from _wrapped(say("The crash: {what} ({place})", what=what, place=place), width, 2)
    for verdict in found.verdicts:
        yield ""
        yield from _pool(verdict, found, width)
    for side in found.sides:
        yield ""
        yield from _side(side, width)
    if found.ignored or found.notes:
        yield ""
    if found.ignored:
        names = listed(found.ignored)
        yield from _wrapped(say("Not counted, effect unknown: {names}", names=names), width)
    for note in found.notes:
        yield from _wrapped(say("Note: {note}", note=note), width)


def _pool(verdict: Verdict, found: Comparison, width: int) -> Iterator[str]:
    name = translated(POOL_NAMES.get(verdict.pool, THE_MEMORY))
    name = f"{name[:1].upper()}{name[1:]}"
    answer = translated(verdict.answer)
    yield from _wrapped(say("{pool}: {answer} ({why})", pool=name, answer=answer, why=verdict.why), width)
    for need in found.needs:
        if need.pool == verdict.pool:
            missing = say("missing in the crash: {formula}", formula=need.derivation)
            at_hand = say("free in the crash: {formula}", formula=need.derivation)
            yield from _wrapped(missing if need.low > 0 else at_hand, width, 2)
            yield from _assumed(need.assumes, width)
    for shift in found.shifts:
        if shift.pool == verdict.pool:
            yield from _wrapped(say("{name}: {why}", name=shift.what, why=_signed(shift)), width, 2)
            yield from _wrapped(shift.derivation, width, 4)
            yield from _assumed(shift.assumes, width)
    for one in found.unknown:
        if one.pool == verdict.pool:
            yield from _wrapped(say("{what}: unknown; {why}", what=one.what, why=one.why), width, 2)


def _assumed(assumes: Sequence[str], width: int) -> Iterator[str]:
    for one in assumes:
        yield from _wrapped(say("Assumes: {assumption}", assumption=one), width, 4)


def _signed(shift: Shift) -> str:
    if shift.low == shift.high:
        return _sign(shift.low) if shift.low else say("no change")
    return say("{low} to {high}", low=_sign(shift.low), high=_sign(shift.high))


def _sign(size: int) -> str:
    return f"{'+' if size > 0 else '-'}{show(abs(size))}" if size else say("nothing")


def _side(side: Side, width: int) -> Iterator[str]:
    where = side.device
    if side.total_bytes is not None:
        where = say("{size} of {device}", size=show(side.total_bytes), device=side.device)
    yield from _wrapped(say("Memory in the crash and with the change: {where}", where=where), width)
    room = width - 2 - COLUMN - RANGE - 12
    if room < NARROWEST_NAME:
        yield from _stacked(side, width)
        return
    names = [sanitize(row_name(cell.what)) for cell in side.cells]
    widest = min(room, max(map(cells, names), default=0))
    yield f"  {'':<{widest}}{_right(say('crash'), COLUMN)}{_right(say('with change'), RANGE)}"
    for cell, name in zip(side.cells, names, strict=True):
        basis = "" if cell.basis == "printed" else f"  {translated(cell.basis)}"
        was = "" if cell.now_bytes is None else show(cell.now_bytes)
        yield f"  {filled(cut(name, widest), widest)}{was:>{COLUMN}}{_right(_then(cell), RANGE)}{basis}"


def _stacked(side: Side, width: int) -> Iterator[str]:
    """Where there is no room for columns: each row's figures stand under its name."""
    for cell in side.cells:
        yield from _wrapped(row_name(cell.what), width, 2)
        basis = "" if cell.basis == "printed" else f"  {translated(cell.basis)}"
        if cell.now_bytes is not None:
            yield from _wrapped(say("{name}: {why}", name=say("crash"), why=show(cell.now_bytes)), width, 4)
        yield from _wrapped(say("{name}: {why}", name=say("with change"), why=_then(cell)) + basis, width, 4)


def _right(words: str, width: int) -> str:
    return " " * (width - cells(words)) + words


def _then(cell: Cell) -> str:
    if cell.low_bytes is None or cell.high_bytes is None:
        return say("unknown")
    if cell.now_bytes is None:
        shown = _sign(cell.low_bytes), _sign(cell.high_bytes)
    else:
        shown = show(cell.low_bytes), show(cell.high_bytes)
    return shown[0] if shown[0] == shown[1] else say("{low} to {high}", low=shown[0], high=shown[1])


def _wrapped(words: str, width: int, indent: int = 0) -> list[str]:
    return wrapped(sanitize(words), width, " " * indent, " " * (indent + 2))
