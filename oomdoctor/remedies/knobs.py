"""The knobs: what each one is in words, which pools it relieves and which it spends, and what it costs.

They stand in knobs.txt, one per line. How one is spelled for a framework stands in its file (job/frameworks/).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from oomdoctor.remedies import cells

COLUMNS: Final = (
    "knob", "relieves", "spends", "worlds", "tasks", "while", "least", "settings", "cost", "action",
)  # fmt: skip


class Knob(Struct, frozen=True):
    """One way to change where memory goes."""

    id: str
    action: str  # what to do, where nothing can be computed
    relieves: tuple[str, ...]  # pools
    spends: tuple[str, ...]
    cost: str
    settings: tuple[str, ...]  # the names under which configurations of any framework state it
    worlds: tuple[str, ...]  # of the jobs that have it; any where none is named
    tasks: tuple[str, ...]
    conditions: tuple[str, ...]  # what has to be so: see conditions.py
    least: int  # a smaller value is an option of another meaning: the block of a KV cache, a default of generate()

    def is_meant(self, value: object) -> bool:
        """Whether an option of one of these names, with this value, is the knob's."""
        return not isinstance(value, int | float) or isinstance(value, bool) or value >= self.least


def _table() -> Iterator[Knob]:
    for one in cells.rows(Path(__file__).with_name("knobs.txt")):
        row = dict(zip(COLUMNS, one, strict=True))
        yield Knob(
            id=row["knob"],
            action=row["action"],
            relieves=tuple(row["relieves"].split()),
            spends=tuple(row["spends"].split()),
            cost=row["cost"],
            settings=_names(row["settings"]),
            worlds=tuple(row["worlds"].split()),
            tasks=tuple(row["tasks"].split()),
            conditions=_names(row["while"]),
            least=int(row["least"] or 0),
        )


def _names(cell: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in cell.split(",") if name)


KNOBS: Final[Mapping[str, Knob]] = {knob.id: knob for knob in _table()}
# They cost money: what is changed for nothing comes first.
BOUGHT: Final = frozenset({"raise-container-limit", "more-host-memory", "more-gpus", "add-nodes"})
