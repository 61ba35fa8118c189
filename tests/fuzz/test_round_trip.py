"""What is rendered of figures is read as these figures: no more, no less, whatever they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from rendered import SHAPES, Rendered

from oomdoctor import families, streams
from oomdoctor.families import Event

STRATEGIES = [
    pytest.param(family, shape(), id=f"{family}-{shape.__name__}")
    for family, shapes in SHAPES.items()
    for shape in shapes
]


def events(text: str) -> list[Event]:
    page = streams.page("job.log", 1, text.encode())
    return [found for found in families.read(page) if isinstance(found, Event)]


def said(event: Event, name: str) -> Any:
    if name in ("pid", "name", "rank", "node", "gpu"):
        return getattr(event.process, name)
    value = getattr(event, name)
    return tuple(_plain(name, value)) if isinstance(value, tuple) else value


def _plain(name: str, items: Any) -> Iterator[tuple[Any, ...]]:
    kept = {
        "others": ("pid", "bytes"),
        "rows": ("pid", "bytes", "command"),
        "victims": ("pid", "name", "bytes", "worker_id"),
        "tasks": ("pid", "name", "rss_bytes", "swap_bytes"),
    }[name]
    found = (tuple(getattr(item, field) for field in kept) for item in items)
    return iter(sorted(found)) if name == "tasks" else found  # the largest stands first


@pytest.mark.parametrize(("family", "rendered"), STRATEGIES)
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_rendered_is_read(family: str, rendered: SearchStrategy[Rendered], data: st.DataObject) -> None:
    text, kind, told = data.draw(rendered)
    found = [event for event in events(text) if event.family == family and event.role != "advice"]
    assert [event.kind for event in found] == [kind]
    assert {name: said(found[0], name) for name in told} == told
    figures = {**found[0].figures("usage"), **found[0].figures("threshold")}
    assert figures.keys() <= told.keys(), "a figure that was not printed"
