"""Which part of the report each figure of an event stands in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_type_hints

from oomdoctor import families
from oomdoctor.families.event import Event, _names


def kinds(of: type[Event] = Event) -> Iterator[type[Event]]:
    for kind in of.__subclasses__():
        yield kind
        yield from kinds(kind)


def test_a_figure_stands_in_the_part_that_its_type_names() -> None:
    families.whole()
    parts = set()
    for kind in kinds():
        hints = get_type_hints(kind, include_extras=True)
        for part in ("usage", "threshold", "fields"):
            own = [name for name in kind.__struct_fields__ if name not in Event.__struct_fields__]
            found = tuple(name for name in own if getattr(hints[name], "__metadata__", ("fields",)) == (part,))
            assert _names(kind, part) == found, kind
            parts.add((part, bool(found)))
    assert len(parts) == 6
