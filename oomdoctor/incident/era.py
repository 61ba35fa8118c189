"""When a crash was: the day that its lines are stamped with, and the releases that have a message in these words, or
the files of its traceback."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import Final

from oomdoctor.families.event import Event
from oomdoctor.job.frameworks import Row, frameworks
from oomdoctor.patterns import late
from oomdoctor.versions import Versions, versions

# At the head of a line, with a time behind it: "2024-06-21 10:00:01", "[2024/06/21T10:00", "| 2024-06-21 10:00:01.2 |"
_DAY: Final = late(r"(20[1-4]\d)[-/](0[1-9]|1[0-2])[-/](0[1-9]|[12]\d|3[01])(?=[T ,_]{1,2}\d{1,2}:\d\d)")
_HEAD: Final = 80  # characters
_FILE: Final = late(r'\bFile "([^"]{1,300})", line \d')  # in the next rank's traceback


def day_of(root: Event, told: Sequence[Event]) -> str:
    """The root's own, else that of the lines around it or of other events of its log; "" where no line has one."""
    beside = (event for event in told if event.at.file == root.at.file)
    texts = chain(_stamps(root), root.around.below, reversed(root.around.before), *map(_stamps, beside))
    found = (_DAY.search(text[:_HEAD]) for text in texts)
    return next(("-".join(match.groups()) for match in found if match), "")


def releases_of(told: Sequence[Event]) -> Mapping[str, str]:
    """Of frameworks whose messages or files have changed, the releases that print or have these: {"torch": "<2.1"}."""
    roots = [event for event in told if event.role == "root"]
    texts = {text for event in told for text in (event.at.text, *event.around.before, *event.around.after)}
    files = {frame.path for event in roots for frame in event.around.trace}
    below = chain.from_iterable(event.around.below for event in roots)
    files.update(named[1] for named in map(_FILE.search, below) if named)
    told_by = {each.name: (*_told(each.wordings, texts), *_told(each.layouts, files)) for each in frameworks()}
    return {name: str(_narrowed(releases)) for name, releases in told_by.items() if releases}


def _narrowed(releases: Sequence[str]) -> Versions:
    """What all of them tell; what the first tells before what speaks against it."""
    return reduce(lambda known, told: known.both(told) or known, map(versions, releases))


def _told(signs: Sequence[Row], shown: Collection[str]) -> Iterator[str]:
    return (releases for words, releases in signs if any(re.search(words, one) for one in shown))


def _stamps(event: Event) -> Iterator[str]:
    yield event.time or event.around.time or event.around.later or ""
    yield event.at.text


__all__ = ["day_of", "releases_of"]
