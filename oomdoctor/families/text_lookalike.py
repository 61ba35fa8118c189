"""The words alone: advice, source code, settings, counters at zero, names of files, packages, tests and models."""

from __future__ import annotations

import re
from collections.abc import Iterator

from oomdoctor.families import Family
from oomdoctor.families.echoes import ADVICE, CHANGE, SETTING, TEST, echo
from oomdoctor.families.event import Lookalike, Read
from oomdoctor.families.lines import place_of
from oomdoctor.families.loudness import is_error, is_warning, tells_at_once
from oomdoctor.families.shortage import shortfall
from oomdoctor.families.spoken import SPOKEN, spoken
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Page

NAME = mark("part of a name (of a file, a package, a setting, a part of the program, a run)")
NOTHING_ASKED = mark("0 bytes were asked for: no memory was short")
ONLY_WARNED = mark("a warning about memory, or about a setting for it; a failure has a line of its own")
INSIDE = mark("the letters stand inside another word (bloom, zoom, headroom)")

_WORDS = late(
    r"(?i)(?<![a-z])ooms?(?![a-z])|oom[-_]?(?:kill|score)|out[ _-]of[ _-]memory|OutOfMemory|\b\w{0,20}MemoryError\b"
    r"|bad_alloc|earlyoom|torch[-_]memory[-_]saver"
)
_IT = r"(?:an? |any |the |more )?(?:CUDA |GPU )?(?:ooms?\b|out[ -]of[ -]memory)"
_TELLING = tuple(
    (late("(?i)" + "|".join(patterns)), why)
    for why, *patterns in (
        (
            mark("Ray's list of guesses, printed with every death; not evidence"),
            r"potential root causes|possible reasons include|crashes unexpectedly \(oom",
        ),
        (mark("the line says that none happened"), rf"\b(?:no|without|zero|never) {_IT}"),
        (
            mark("caught: the program says that it continues"),
            r"(?:\boom|OutOfMemoryError|out of memory)\b.{0,120}\b(?:skipp\w{2,3}|retrying|falling back|continuing)\b",
            r"(?:\boom|OutOfMemoryError|out of memory)\b.{0,120}\busing (?:the |a )?(?:default|smaller|CPU)\b",
            rf"\b(?:skipped|skipping|recover(?:ed|ing)|survived)\b.{{0,60}}\b(?:due to|from|after|because of|on) {_IT}",
        ),
        (
            mark("what the program would do in that case"),
            rf"\b(?:retry|retries|stop|skip|exit|dump|restart)s? (?:on|upon) {_IT}",
        ),
        (mark("a search for the words"), r"\b(?:grep|rg|awk|sed)\b(?!: ).{0,60}\b(?:oom|out.of.memory)\b"),
        (SETTING, r"\w[\"']? ?[:=] ?\[[^\]]{0,200}(?:\boom|out of memory|OutOfMemory)"),  # a list of what to look for
        (CHANGE, rf"\b(?:fix(?:e[sd]|ing)?|handle[sd]?|resolve[sd]?|closes?) {_IT}"),
    )
)
# What begins as a record of a failure, or counts some, is no name.
_FAILURE = late(
    r"(?:Error|Exception): |[Tt]ried to allocate|\b(?i:fail(?:ed|ure|s)?)\b|\bERROR\b|\b[Kk]illed\b|\boom_reaper: "
    r"|\b[1-9]\d{0,6} oom[-_ ]kill|\bearlyoom(?:\[\d{1,9}\])?: |TorchMemorySaver|(?i:oom\w{0,20})[\"']? ?[:=] ?[1-9]"
)
_NAMES = tuple(
    (late(pattern), why)
    for pattern, why in (
        (r"\btest\w{0,60}\.py\b|\btest_\w{0,60}oom|\w\.py::\w", TEST),
        (r"--[\w-]{0,60}oom[\w-]{0,60}\b", SETTING),
        (r"\bhttps?://\S{0,200}(?i:oom|out[-_]of[-_]memory)", mark("the address of a page")),
        (r"(?<![A-Za-z])oom[-_./]\w|\w[-_./]oom(?![A-Za-z])|\bearlyoom\b|(?i:torch[-_]memory[-_]saver)", NAME),
        (
            (
                r"(?i)\boom (?:protection|detect(?:ion|ors?|ing)"
                r"|handl\w{2,3}|observer|hook|guard|policy|recovery|watcher)\b"
            ),
            NAME,
        ),
    )
)
_NOTHING_ASKED = late(
    r"(?i)\b(?:fail\w{0,3}|limit|cannot|could not|unable|refused|exhausted|error)\b[^\n]{0,120}"
    r"\balloc\w{0,8}\b[^\n\d]{0,40}?(?<![\d.,])0 bytes\b(?! (?:free|left|available|remain))"
)
_SHORT = late(
    r"(?i)\blow memory\b|\b(?:memory |vm\.)?overcommit|\bmemory (?:limit|pressure)\b(?!:)"
    r"|\b(?:insufficient|not enough) memory\b|\bswap limit\b"
)
# ... of what it was too little for
_ENDED = late(r"(?i)\b(?:(?:exceed|kill|abort|exit|fail|crash)ed|terminated|aborting|exiting)\b")
# Names, of which nothing is left but what the line says itself: "callbacks.oom_observer: Out of memory observed"
_PARTS = late(r"(?i)[\w./-]{0,200}(?<![A-Za-z])oom[-_./]\w[\w./-]{0,200}|[\w./-]{0,200}\w[-_./]oom(?![A-Za-z])")
_ITSELF = late(r"\bOOM\b|(?i:\bout of memory\b)")
_INSIDE = late(r"(?i)\b\w{0,20}(?:bloom|zoom|headroom|boom)\w{0,30}\b")


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    text = line.text[:1200]
    why = _why(text) or (SPOKEN if _WORDS.search(text) and spoken(page, index) else _in_other_words(page, index, text))
    if why is not None:
        yield Lookalike(place_of(page, line), why)


def _in_other_words(page: Page, index: int, text: str) -> str | None:
    """What a line is that speaks of memory without a word for its end."""
    if _NOTHING_ASKED.search(text):
        return NOTHING_ASKED
    warns = _SHORT.search(text) is not None and is_warning(page, index, text)
    return ONLY_WARNED if warns and _ENDED.search(text) is None else None


def _why(text: str) -> str | None:
    words = _WORDS.search(text)
    if words is None:
        return INSIDE if _INSIDE.search(text) and shortfall(text, raised=False) is None else None
    why = echo(text)
    tells = tells_at_once(text) or is_error(text[: words.end()])
    if why in {ADVICE, SETTING} and tells and echo(text[: words.end()]) is None:
        return None  # what is advised, or set, stands behind what happened
    if why := why or _first(_TELLING, text):
        return why
    if _FAILURE.search(text):
        return None
    why = _first(_NAMES, text)
    return None if why == NAME and _says_it_beside(_PARTS.sub(" ", text)) else why


def _says_it_beside(text: str) -> bool:
    """Whether what is left of the line without the names in it tells of a failure."""
    return _ITSELF.search(text) is not None and shortfall(text, raised=False) is not None


def _first(table: tuple[tuple[re.Pattern[str], str], ...], text: str) -> str | None:
    return next((why for pattern, why in table if pattern.search(text)), None)


FAMILY = Family(
    name="text_lookalike",
    anchors=(),
    triggers=("oom", "Oom", "OOM", "ut of memory", "UT OF MEMORY", "ut-of-memory", "ut_of_memory", "OUT_OF_MEMORY",
              "OutOfMemory", "MemoryError", "bad_alloc", "memory_saver", "memory-saver", " 0 bytes", "low memory",
              "vercommit", "emory limit", "emory pressure", "nsufficient memory", "ot enough memory", "swap limit"),
    read=read,
    last=True,
)  # fmt: skip
