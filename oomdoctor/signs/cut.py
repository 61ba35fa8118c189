"""Messages of which the log holds the beginning alone."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.incident.model import Crash
from oomdoctor.patterns import late

LAST_WORDS: Final = 4
# c10/cuda/CUDACachingAllocator.cpp: behind the capacity stands what this process and PyTorch hold.
_BEGUN: Final = late(r"\bTried to allocate [\d.]{1,12} [KMG]iB\b.{0,40}\btotal capacity\b")
_ENDED: Final = late(r"allocated by PyTorch|already allocated|memory in use\b|\bis free\W{0,3}$")


def last_words(crash: Crash) -> str | None:
    """The last words of the root's message, where it breaks off before its figures do; None where it is whole, or goes
    on over several lines."""
    root = crash.root
    if not isinstance(root, DeviceOutOfMemory) or root.at.end_line != root.at.line:
        return None
    text = root.at.text
    if _BEGUN.search(text) is None or _ENDED.search(text) is not None:
        return None
    return " ".join(text.split()[-LAST_WORDS:])


__all__ = ["last_words"]
