"""Slots about what is printed beside a failure, in the words of any program: of which shape."""

from __future__ import annotations

from typing import Final

from oomdoctor.incident.model import Crash
from oomdoctor.patterns import late
from oomdoctor.report.headline.beside import around

_DIMENSIONS: Final = late(
    r"(?i)\b(?:alloc\w{0,10}|buffer|array|volume|grid|texture|image)\b[^\n]{0,24}?(?<![\w.])"
    r"(?P<shape>\d{1,6}(?: ?[x\u00d7] ?\d{1,6}){1,3})(?![\w.x])"
)


def dimensions(crash: Crash) -> str | None:
    """What was to be allocated, by its dimensions: "1024x300x768"."""
    return next((found["shape"] for text in around(crash.root) if (found := _DIMENSIONS.search(text))), None)
