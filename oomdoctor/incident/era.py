"""When a crash was: the day that its lines are stamped with, and the releases that have a message in these words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.event import Event
from oomdoctor.patterns import late

# At the head of a line, with a time behind it: "2024-06-21 10:00:01", "[2024/06/21T10:00", "| 2024-06-21 10:00:01.2 |"
_DAY: Final = late(r"(20[1-4]\d)[-/](0[1-9]|1[0-2])[-/](0[1-9]|[12]\d|3[01])(?=[T ,_]{1,2}\d{1,2}:\d\d)")
_HEAD: Final = 80  # characters
# c10/cuda/CUDACachingAllocator.cpp up to 2.0.1; torch_npu and others keep these words
_OLD_WORDS: Final = late(r"\(GPU \d{1,3}; [\d.]{1,12} [KMG]iB total capacity;")
_UP_TO_2_0: Final = "<2.1"
_TORCH: Final = "torch"


def day_of(root: Event, told: Sequence[Event]) -> str:
    """The root's own, else that of the lines around it or of other events of its log; "" where no line has one."""
    beside = (event for event in told if event.at.file == root.at.file)
    texts = chain(_stamps(root), root.around.below, reversed(root.around.before), *map(_stamps, beside))
    found = (_DAY.search(text[:_HEAD]) for text in texts)
    return next(("-".join(match.groups()) for match in found if match), "")


def releases_of(told: Sequence[Event]) -> Mapping[str, str]:
    """Of frameworks whose message has changed, the releases that print it like this: {"torch": "<2.1"}."""
    cards = (event for event in told if isinstance(event, DeviceOutOfMemory))
    return {_TORCH: _UP_TO_2_0} if any(_OLD_WORDS.search(event.at.text) for event in cards) else {}


def _stamps(event: Event) -> Iterator[str]:
    yield event.time or ""
    yield event.at.text


__all__ = ["day_of", "releases_of"]
