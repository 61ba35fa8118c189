"""The words alone: advice, source code, settings, counters at zero, names of files, packages, tests and models."""

from __future__ import annotations

from collections.abc import Iterator

from oomdoctor.families import Family
from oomdoctor.families.echoes import SETTING, TEST, echo
from oomdoctor.families.event import Lookalike, Read
from oomdoctor.families.lines import place_of
from oomdoctor.families.spoken import SPOKEN, spoken
from oomdoctor.patterns import late
from oomdoctor.streams import Page

NAME = "part of a name (of a file, a package, a program, a branch, a run)"
INSIDE = "the letters stand inside another word (bloom, zoom, headroom)"

_WORDS = late(
    r"(?i)(?<![a-z])ooms?(?![a-z])|oom[-_]?(?:kill|score)|out[ _-]of[ _-]memory|OutOfMemory|\b\w{0,20}MemoryError\b"
    r"|bad_alloc|earlyoom|torch[-_]memory[-_]saver"
)
# Only settings, tests and names: what begins as a record of a failure is never any of them.
_FAILURE = late(
    r"(?:Error|Exception): |[Tt]ried to allocate|\b(?i:fail(?:ed|ure|s)?)\b|\bERROR\b|\b[Kk]illed\b|\boom_reaper: "
    r"|\bearlyoom(?:\[\d{1,9}\])?: |TorchMemorySaver"
)
_NAMES = tuple(
    (late(pattern), why)
    for pattern, why in (
        (r"\btest\w{0,60}\.py\b|\btest_\w{0,60}oom|\w\.py::\w", TEST),
        (r"--[\w-]{0,60}oom[\w-]{0,60}\b", SETTING),
        (r"(?<![A-Za-z])oom[-_./]\w|\w[-_./]oom(?![A-Za-z])|\bearlyoom\b|(?i:torch[-_]memory[-_]saver)", NAME),
    )
)
_INSIDE = late(r"(?i)\b\w{0,20}(?:bloom|zoom|headroom|boom)\w{0,30}\b")


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    text = line.text[:1200]
    why = _why(text) or (SPOKEN if _WORDS.search(text) and spoken(page, index) else None)
    if why is not None:
        yield Lookalike(place_of(page, line), why)


def _why(text: str) -> str | None:
    if _WORDS.search(text) is None:
        return INSIDE if _INSIDE.search(text) else None
    if why := echo(text):
        return why
    if _FAILURE.search(text):
        return None
    return next((why for pattern, why in _NAMES if pattern.search(text)), None)


FAMILY = Family(
    name="text_lookalike",
    anchors=(),
    triggers=("oom", "Oom", "OOM", "ut of memory", "UT OF MEMORY", "ut-of-memory", "ut_of_memory", "OUT_OF_MEMORY",
              "OutOfMemory", "MemoryError", "bad_alloc", "memory_saver", "memory-saver"),
    read=read,
    last=True,
)  # fmt: skip
