"""Two runs side by side: as text, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from oomdoctor import __version__
from oomdoctor.columns import cells, filled, wrapped
from oomdoctor.job.model import Value
from oomdoctor.language import listed, say, translated
from oomdoctor.remedies.compared import Compared, Difference, Figure
from oomdoctor.report.as_json import finite
from oomdoctor.report.vocabulary import POOL_NAMES, STAGES, THE_MEMORY, failed
from oomdoctor.text import sanitize
from oomdoctor.units import show

SCHEMA_VERSION: Final = 1
OTHERS_SHOWN: Final = 12  # of what is different and explains nothing; a dump of settings has hundreds
ALONE: Final = 2  # settings of unknown effect that get a line each; more of them share one
TOGETHER: Final = 6  # of them that are named there
VALUE: Final = 60  # characters
COLUMN: Final = 14


def as_json(found: Compared) -> str:
    """The comparison for programs."""
    return json.dumps(finite(_body(found)), indent=2, ensure_ascii=False) + "\n"


def _body(found: Compared) -> dict[str, Any]:
    crash = found.crash
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "oomdoctor", "version": __version__},
        "crash": None if crash is None else {
            "verdict": "oom" if found.proven else "inconclusive",
            "pool": crash.pool, "stage": crash.stage, "file": crash.root.at.file, "line": crash.root.at.line,
        },
        "good_failed": found.good_failed,
        "explains": [_difference(one) for one in found.explains],
        "differences": [_difference(one) for one in found.differences if not one.weight],
        "peaks": [_figure(one) for one in found.peaks],
        "ledgers": [
            {
                "pool": pool.pool, "good_device": pool.good_device, "bad_device": pool.bad_device,
                "rows": [_figure(one) for one in pool.rows],
            }
            for pool in found.pools
        ],
    }  # fmt: skip


def _difference(one: Difference) -> dict[str, Any]:
    return {
        "kind": one.kind, "name": one.name, "good": one.good, "bad": one.bad,
        "good_line": one.good_line, "bad_line": one.bad_line,
        "why": one.why or None, "less_bytes": one.less_bytes or None, "derivation": one.derivation,
    }  # fmt: skip


def _figure(one: Figure) -> dict[str, Any]:
    return {"what": one.what, "good_bytes": one.good_bytes, "bad_bytes": one.bad_bytes}


def text(found: Compared, width: int) -> str:
    """The comparison for a person."""
    return "".join(f"{line.rstrip()}\n" for line in _lines(found, width))


def _lines(found: Compared, width: int) -> Iterator[str]:
    yield from _head(found, width)
    of_unknown_effect = _of_unknown_effect(found)
    alone = [one for one in found.explains if one not in of_unknown_effect]
    for number, one in enumerate(alone, start=1):
        yield from _wrapped(f"{number}. {_changed(one)}", width, 2)
        yield from _wrapped(one.why, width, 5)
        if one.derivation:
            yield from _wrapped(one.derivation, width, 5)
    yield from _together(of_unknown_effect, width)
    others = [one for one in found.differences if not one.weight]
    if others:
        yield ""
        yield say("Other differences (GOOD -> BAD):")
        for one in others[:OTHERS_SHOWN]:
            yield from _wrapped(_changed(one), width, 2)
        if len(others) > OTHERS_SHOWN:
            yield "  " + say("and {count} more; --format json lists all", count=len(others) - OTHERS_SHOWN)
    if found.peaks:
        yield ""
        yield from _table(say("Peak of each figure"), found.peaks, width)
    for pool in found.pools:
        yield ""
        device = pool.bad_device or pool.good_device or pool.pool
        yield from _table(say("Where the memory was: {device}", device=sanitize(device)), pool.rows, width)


def _of_unknown_effect(found: Compared) -> list[Difference]:
    """Settings that have to do with what ran out, and of which no more is known, where they are many."""
    related = [one for one in found.explains if one.kind == "setting" and not one.less_bytes and not one.derivation]
    return related if len(related) > ALONE else []


def _together(related: Sequence[Difference], width: int) -> Iterator[str]:
    """One line for those that both logs state, one for those that only BAD does."""
    both = [one for one in related if one.good is not None]
    if both:
        yield from _wrapped(say("Related; effect unknown: {changes}", changes=_some(both)), width, 2)
    only = [one for one in related if one.good is None]
    if only:
        yield from _wrapped(say("Related, but not in the log of GOOD: {changes}", changes=_some(only)), width, 2)


def _some(related: Sequence[Difference]) -> str:
    shown = listed(_briefly(one) for one in related[:TOGETHER])
    if len(related) <= TOGETHER:
        return shown
    return say("{changes} and {count} more (--format json lists all)", changes=shown, count=len(related) - TOGETHER)


def _briefly(one: Difference) -> str:
    name, there, here = one.name.rpartition(".")[2], _shown(one.name, one.good), _shown(one.name, one.bad)
    return f"{name} {here}" if one.good is None else f"{name} {there} -> {here}"


def _head(found: Compared, width: int) -> Iterator[str]:
    crash = found.crash
    if crash is None:
        yield from _wrapped(say("BAD shows no failure: nothing to explain"), width)
        return
    stage = translated(STAGES.get(crash.stage, "")) if found.proven else ""
    what = failed(crash.pool, proven=found.proven)
    place = f"{crash.root.at.file}:{crash.root.at.line}"
    when = say("{what} {stage}", what=what, stage=stage) if stage else what
    yield from _wrapped(say("In BAD {what} ({place})", what=when, place=place), width)
    if found.good_failed:
        yield from _wrapped(say("Note: GOOD failed, too"), width)
    yield ""
    if found.explains and not found.proven:
        pool = translated(POOL_NAMES.get(crash.pool, THE_MEMORY))
        yield from _wrapped(say("If {pool} ran out, these changes can explain it (GOOD -> BAD):", pool=pool), width)
    elif found.explains:
        yield say("Changes that can explain it (GOOD -> BAD):")
    else:
        yield from _wrapped(say("No change that both logs show can explain it"), width)


def _changed(one: Difference) -> str:
    lines = [str(line) for line in (one.good_line, one.bad_line) if line is not None]
    where = "" if not lines else say("  (line {lines})", lines=" -> ".join(lines))
    name = translated(one.name) if one.kind == "model" else one.name
    return f"{name}: {_shown(one.name, one.good)} -> {_shown(one.name, one.bad)}{where}"


def _shown(name: str, value: Value) -> str:
    if value is None:
        return say("(not in the log)")
    if name.endswith("_bytes") and isinstance(value, (int, float)):
        return show(value)
    words = str(value)
    return words if len(words) <= VALUE else words[: VALUE - 3] + "..."


def _table(title: str, rows: Sequence[Figure], width: int) -> Iterator[str]:
    names = [sanitize(one.what) for one in rows]
    widest = min(max(12, width - 2 - 3 * COLUMN), max(map(cells, names)))
    yield from _wrapped(title, width)
    heads = (say("GOOD"), say("BAD"), say("more in BAD"))
    yield f"  {'':<{widest}}" + "".join(_right(head) for head in heads)
    for one, name in zip(rows, names, strict=True):
        known = one.good_bytes is not None and one.bad_bytes is not None
        more = _signed((one.bad_bytes or 0) - (one.good_bytes or 0)) if known else ""
        sizes = ("" if size is None else show(size) for size in (one.good_bytes, one.bad_bytes))
        yield f"  {filled(name[:widest], widest)}" + "".join(_right(cell) for cell in (*sizes, more))


def _signed(size: int) -> str:
    return "" if not size else f"{'+' if size > 0 else '-'}{show(abs(size))}"


def _right(words: str) -> str:
    return " " * (COLUMN - cells(words)) + words


def _wrapped(words: str, width: int, indent: int = 0) -> list[str]:
    return wrapped(sanitize(words), width, " " * indent, " " * (indent + 2))
