"""The knobs: what each one is in words, which pools it relieves and which it spends, and what it costs.

They stand in knobs.txt, one per line. How one is spelled for a framework stands in settings/.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from oomdoctor.records import dataclass

COLUMNS: Final = ("knob", "relieves", "spends", "least", "settings", "cost", "action")


@dataclass(frozen=True, slots=True)
class Knob:
    """One way to change where memory goes."""

    id: str
    action: str  # what to do, where nothing can be computed
    relieves: tuple[str, ...]  # pools
    spends: tuple[str, ...]
    cost: str
    settings: tuple[str, ...]  # the names under which configurations of any framework state it
    least: int  # a smaller value is an option of another meaning: the block of a KV cache, a default of generate()

    def is_meant(self, value: object) -> bool:
        """Whether an option of one of these names, with this value, is the knob's."""
        return not isinstance(value, int | float) or isinstance(value, bool) or value >= self.least


def _table() -> Iterator[Knob]:
    for line in Path(__file__).with_name("knobs.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(("#", "knob ")):
            continue
        knob, relieves, spends, least, settings, cost, action = (cell.strip() for cell in line.split("|"))
        yield Knob(
            id=knob,
            action=action,
            relieves=tuple(relieves.split()),
            spends=tuple(spends.split()),
            cost=cost,
            settings=tuple(name.strip() for name in settings.split(",") if name),
            least=int(least or 0),
        )


KNOBS: Final[Mapping[str, Knob]] = {knob.id: knob for knob in _table()}
