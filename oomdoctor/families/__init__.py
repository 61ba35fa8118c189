"""The message families: one family is one grammar, one module here, one fixture folder; found by name."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import ahocorasick_rs
from msgspec import Struct

from oomdoctor.families.again import Again
from oomdoctor.families.event import Event, Lookalike, Place, Read
from oomdoctor.families.spoken import SPOKEN, spoken
from oomdoctor.families.surroundings import Neighbourhood
from oomdoctor.streams import Page


class Family(Struct, frozen=True):
    """How to find a family's messages and how to read them."""

    name: str
    # Literals for the one pass over all bytes: few, and rare in healthy logs. What stands at the head or the tail of
    # a log, or near a traceback or another family's anchor, is read without one.
    anchors: tuple[str, ...]
    # Literals looked for in the clean lines around the hits; the reader is called for each line that holds one.
    triggers: tuple[str, ...]
    # Events and lookalikes that begin at the line with this index. Nothing, where the words only look like it.
    read: Callable[[Page, int], Iterable[Read]]
    # Asked only where no other family reads the line, in the order of the names: it knows words, not messages.
    last: bool = False
    # Asked only for lines that nobody else reads, before the first message of the page that tells of a memory failure.
    otherwise: bool = False


# What a wheel knows of the families before it loads their modules: most logs ask for a few of them.
HEADS: Final = Path(__file__).parent / "heads.json"


@cache
def families() -> tuple[Family, ...]:
    """All families, in order of their names."""
    return tuple(_headed()) if HEADS.is_file() else whole()


def whole() -> tuple[Family, ...]:
    """All families, from their modules."""
    modules = sorted(m.name for m in pkgutil.iter_modules(__path__))
    loaded = (importlib.import_module(f"{__name__}.{name}") for name in modules)
    return tuple(module.FAMILY for module in loaded if hasattr(module, "FAMILY"))


def heads() -> str:
    """All but the readers, as a wheel has it."""
    return json.dumps(
        [[it.name, it.anchors, it.triggers, it.last, it.otherwise] for it in whole()], ensure_ascii=False, indent=0
    )


def _headed() -> Iterator[Family]:
    for name, anchors, triggers, last, otherwise in json.loads(HEADS.read_bytes()):
        yield Family(name, tuple(anchors), tuple(triggers), _reader(name), last, otherwise)


def _reader(name: str) -> Callable[[Page, int], Iterable[Read]]:
    """The family's own, whose module is loaded when it is first asked."""

    def read(page: Page, index: int) -> Iterable[Read]:
        found: Iterable[Read] = importlib.import_module(f"{__name__}.{name}").FAMILY.read(page, index)
        return found

    return read


# Ends most failures of a Python program, so that no family needs an anchor for what only an exception says.
CRASH = "Traceback (most recent call last)"


@cache
def anchors() -> tuple[bytes, ...]:
    """The literals of the first pass, without those that hold another one inside."""
    everything = sorted({CRASH.encode(), *(a.encode() for family in families() for a in family.anchors)}, key=len)
    kept: list[bytes] = []
    for anchor in everything:
        if not any(short in anchor for short in kept):
            kept.append(anchor)
    return tuple(sorted(kept))


@cache
def _triggers() -> tuple[ahocorasick_rs.AhoCorasick, tuple[int, ...]]:
    pairs = [(trigger, number) for number, family in enumerate(families()) for trigger in family.triggers]
    automaton = ahocorasick_rs.AhoCorasick([t for t, _ in pairs], matchkind=ahocorasick_rs.MatchKind.Standard)
    return automaton, tuple(number for _, number in pairs)


def found_in(page: Page) -> Iterator[tuple[int, Read]]:
    """Every event and lookalike of a page, with the index of the line that it was read at.

    Without their surroundings: who keeps an event looks them up.
    """
    waiting: list[tuple[Family, int]] = []
    known: Event | None = None
    for index, found in _each(page, waiting):
        if isinstance(found, Event) and found.proves and (known is None or found.at.line < known.at.line):
            known = found
        yield index, found
    for family, index in waiting:
        if known is None or page.lines[index].number < known.at.line:
            yield from ((index, found) for found in _read(family, page, index) if _is_another(found, known))


def _is_another(found: Read, known: Event | None) -> bool:
    return known is None or not isinstance(found, Event) or found.is_another(known)


def _each(page: Page, waiting: list[tuple[Family, int]]) -> Iterator[tuple[int, Read]]:
    """What is read line by line; who is asked only otherwise waits, with the lines that nobody else has read."""
    asked = list(_asked(page))
    again = Again(page.lines[index].text for index, _ in asked)
    lines_of: dict[str, int] = {}  # what was last read at these words
    passed: dict[str, int] = {}  # up to where each writer's lines belong to what is not read again
    read_up_to: dict[tuple[str, str], int] = {}
    told_up_to: dict[str, int] = {}  # by any family, figures of a job apart
    for index, asked_here in asked:
        line = page.lines[index]
        worth = again.worth(line.text)
        if line.number <= passed.get(line.writer, 0):
            continue
        if not worth:
            if line.text in lines_of:
                page.left_out[_longest_trigger(line.text)] += 1
                passed[line.writer] = line.number + lines_of[line.text]
            continue
        for family in asked_here:
            key = (family.name, line.writer)
            read_so_far = told_up_to.get(line.writer, 0) if family.last else read_up_to.get(key, 0)
            if line.number <= read_so_far:
                continue
            if family.otherwise:
                waiting.append((family, index))
                continue
            for found in _read(family, page, index):
                read_up_to[key] = max(read_up_to.get(key, 0), found.at.end_line)
                if _tells(found):
                    told_up_to[line.writer] = max(told_up_to.get(line.writer, 0), found.at.end_line)
                lines_of[line.text] = found.at.end_line - line.number
                yield index, found


def _asked(page: Page) -> Iterator[tuple[int, list[Family]]]:
    """The lines that hold a family's trigger, with the families to ask in their order."""
    automaton, owners = _triggers()
    known = families()
    for index, line in enumerate(page.lines):
        if hits := automaton.find_matches_as_indexes(line.text, overlapping=True):
            asked = [known[number] for number in dict.fromkeys([owners[hit[0]] for hit in hits])]
            yield index, sorted(asked, key=_turn)


def _longest_trigger(text: str) -> str:
    found = _triggers()[0].find_matches_as_strings(text, overlapping=True)
    return max(found, key=len)


def _turn(family: Family) -> str:
    return family.name if family.last else ""


def _tells(found: Read) -> bool:
    """Whether it speaks of a failure, or of what looks like one; a job's figures may stand on every second line."""
    return isinstance(found, Lookalike) or found.role != "context"


def _read(family: Family, page: Page, index: int) -> Iterator[Read]:
    """What the family finds at the line, where the line is a program's."""
    for found in family.read(page, index):
        if _tells(found) and spoken(page, index):
            line = page.lines[index]
            yield Lookalike(Place(page.file, line.number, line.end, line.raw), SPOKEN)
            return
        yield found


def read(page: Page) -> Iterator[Read]:
    """Every event and lookalike of a page."""
    neighbourhood = Neighbourhood(page)
    for index, found in found_in(page):
        yield neighbourhood.of(found, index) if isinstance(found, Event) else found


__all__ = ["Event", "Family", "Lookalike", "Read", "anchors", "families", "found_in", "read"]
