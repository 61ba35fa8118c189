"""Logs that end before the error's own words, and messages of which they hold the beginning alone."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.event import Event
from oomdoctor.families.host_alloc import CutPinning
from oomdoctor.families.training_cut import CutTraining
from oomdoctor.families.vllm_cut import CutTraceback
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.signs.gathering import whole_model_at_once

LAST_WORDS: Final = 4
_UNDER_WAY: Final = {
    "gather": mark("The log ends where parameters of a sharded model are gathered."),
    "backward": mark("The log ends in the backward pass."),
    "optimizer": mark("The log ends in the optimizer step."),
}
# c10/cuda/CUDACachingAllocator.cpp: behind the capacity stands what this process and PyTorch hold.
_BEGUN: Final = late(r"\bTried to allocate [\d.]{1,12} [KMG]iB\b.{0,40}\btotal capacity\b")
_ENDED: Final = late(r"allocated by PyTorch|already allocated|memory in use\b|\bis free\W{0,3}$")


def is_cut(root: Event) -> bool:
    """Whether the log ends within a traceback."""
    return isinstance(root, CutPinning | CutTraceback | CutTraining)


def under_way(crash: Crash) -> str:
    """What the traceback was about where the log ends, in a sentence; "" where its step is not known."""
    root = crash.root
    if not isinstance(root, CutTraining) or root.step not in _UNDER_WAY:
        return ""
    return joined((translated(_UNDER_WAY[root.step]), whole_model_at_once(crash)))


def where_cut(crash: Crash) -> str | None:
    """Where the root's own message breaks off, in words; None where it is whole, or not there at all."""
    words = _last_words(crash.root)
    return say('the message is cut off after "{words}"', words=words) if words else None


def _last_words(root: Event) -> str | None:
    """None where the message is whole, or goes on over several lines."""
    if isinstance(root, CutTraceback):
        return root.said
    if not isinstance(root, DeviceOutOfMemory) or root.at.end_line != root.at.line:
        return None
    text = root.at.text
    if _BEGUN.search(text) is None or _ENDED.search(text) is not None:
        return None
    return " ".join(text.split()[-LAST_WORDS:])


__all__ = ["is_cut", "under_way", "where_cut"]
