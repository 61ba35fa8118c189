"""What an option does, in its own words, where those of its knob say less or something else. The table is
`captions.txt`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from oomdoctor.remedies import cells
from oomdoctor.remedies.settings import Spelling


class Caption(NamedTuple):
    """A row of the table, empty where its knob's words do."""

    action: str = ""
    cost: str = ""


_OF_THE_KNOB: Final = Caption()


@cache
def table() -> Mapping[tuple[str, str], Caption]:
    """By framework and option."""
    rows = cells.rows(Path(__file__).with_suffix(".txt"))
    return {(framework, option): Caption(action, cost) for framework, option, action, cost in rows}


def caption(row: Spelling | None) -> Caption:
    """The words of an option of a framework."""
    return _OF_THE_KNOB if row is None else table().get((row.framework, row.setting), _OF_THE_KNOB)


__all__ = ["Caption", "caption", "table"]
