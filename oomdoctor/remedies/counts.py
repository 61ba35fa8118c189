"""How many there are of what an option counts: of `--sensors-per-batch` the sensors, of `--chunk-rows` the rows."""

from __future__ import annotations

from typing import Final

from oomdoctor.incident.model import Crash
from oomdoctor.incident.prints import A_COUNT, number, own_lines
from oomdoctor.job.verbs import words_of
from oomdoctor.patterns import late

# Words of such an option that name no things
_OF_PARTS: Final = frozenset({
    "per", "batch", "chunk", "chunks", "chunksize", "part", "parts", "partition", "group", "round", "pass", "block",
    "max", "num", "n", "size", "flush", "write", "spill", "every", "read", "fetch", "segment", "step", "len",
})  # fmt: skip
_COUNTED: Final = late(A_COUNT + r" ?(?P<things>[a-z_]{3,24})\b")
_COUNT: Final = late(A_COUNT)
_LEAST: Final = 16


def whole_of(name: str, crash: Crash) -> int | None:
    """How many the job has in all, by a setting of that name or by what it printed last."""
    things = [word for word in words_of(name) if word not in _OF_PARTS]
    if len(things) > 1:
        return None
    whole = _of_things(things[0], crash) if things else _of_the_work(crash)
    return whole if whole is not None and whole >= _LEAST else None


def _of_the_work(crash: Crash) -> int | None:
    """All that there is to do, by the last print of how much of it is done."""
    totals = (match["total"] for line in own_lines(crash) for match in _COUNT.finditer(line) if match["total"])
    return next((number(total) for total in totals), None)


def _of_things(things: str, crash: Crash) -> int | None:
    stated = crash.setting(things, f"num_{things}", f"n_{things}")
    return stated.whole if stated is not None else _printed(things, crash)


def _printed(things: str, crash: Crash) -> int | None:
    for line in own_lines(crash):
        for match in _COUNTED.finditer(line):
            if match["things"] == things:
                return number(match["total"] or match["count"])
    return None


__all__ = ["whole_of"]
