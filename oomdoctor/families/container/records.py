"""What the managers' files share: what they read, and its figures."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from oomdoctor import grammars
from oomdoctor.families.container import CHARACTERS, LimitKill
from oomdoctor.families.event import Read
from oomdoctor.families.lines import place_of
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page
from oomdoctor.units import DECIMAL, size


class Record(Struct, frozen=True):
    """A sentence of a manager, or a line of its record."""

    pattern: re.Pattern[str]
    read: Callable[[Page, int], Read | None]
    loose: bool = False  # known by a few words, which advice and code hold too


def figures_of(text: str) -> dict[str, tuple[str, ...]]:
    figures: dict[str, tuple[str, ...]] = {}
    for name, values in grammars.said("container", text[:CHARACTERS]):
        if values:
            figures.setdefault(name, values)
    return figures


def count(figures: Mapping[str, tuple[str, ...]], name: str) -> int | None:
    values = figures.get(name, ())
    return int(values[0]) if values and values[0].lstrip("-").isdecimal() else None


_QUANTITY = late(r"(-?\d{1,20}(?:\.\d{1,12})?)(?![.,]?\d)\s?([A-Za-z]*)")


def size_of(values: tuple[str, ...] | None, table: Mapping[str, int]) -> int | None:
    match = _QUANTITY.match(values[0]) if values else None
    return size(match[1], match[2], table) if match else None


def quantity(values: tuple[str, ...] | None) -> int | None:
    """Kubernetes' Ki, Mi and Gi are binary, its K, M and G decimal; docker's and Slurm's small k, m and g binary."""
    return size_of(values, DECIMAL)


def two_sizes(values: tuple[str, ...], table: Mapping[str, int]) -> tuple[int | None, int | None]:
    return size_of(values[:1], table), size_of(values[1:], table)


def limit_kill(
    page: Page, line: Line, manager: str, used: int | None, limit: int | None, *, virtual: bool
) -> LimitKill:
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager=manager,
        used_bytes=used,
        limit_bytes=limit,
        virtual=virtual or None,
    )
