"""The issue form for memory crashes that a maintainer can put into a repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from typing import Final

from oomdoctor import __version__
from oomdoctor.helpers.forms import Form, parse
from oomdoctor.language import ENGLISH, in_use, translated
from oomdoctor.patterns import late

FILE: Final = "oom.yml"
PLACE: Final = f".github/ISSUE_TEMPLATE/{FILE}"
# A key whose value people read, and its value: on its line, or in the lines under it.
_SAID: Final = late(
    r"^(?P<begin>(?P<indent> *)(?:- )?(?:name|description|label|placeholder|value): )"
    r"(?:(?P<fold>>-|\|)\n(?P<block>(?:(?P=indent) {2}.*\n)+)|(?P<line>[^>|\n].*)\n)",
    re.MULTILINE,
)


def text() -> str:
    """The file, with the version that wrote it."""
    lang = "" if in_use() == ENGLISH else f" --lang {in_use()}"
    written = f"# Written by oomdoctor {__version__}: oomdoctor issue form{lang} --keep {PLACE}\n"
    return written + _SAID.sub(_in_words, _english())


def form() -> Form:
    """The same, as a form to fill in."""
    return parse(text(), FILE)


def sentences() -> Iterator[str]:
    """What of it is translated."""
    for found in _SAID.finditer(_english()):
        yield from _sentences(found)


def _english() -> str:
    return resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")


def _sentences(found: re.Match[str]) -> list[str]:
    if found["line"]:
        return [found["line"]]
    lines = [line.strip() for line in found["block"].splitlines()]
    return lines if found["fold"] == "|" else [" ".join(lines)]


def _in_words(found: re.Match[str]) -> str:
    if in_use() == ENGLISH:
        return found[0]
    said = [translated(sentence) for sentence in _sentences(found)]
    if found["line"]:
        return f"{found['begin']}{said[0]}\n"
    margin = " " * (len(found["indent"]) + 2)
    return f"{found['begin']}{found['fold']}\n" + "".join(f"{margin}{line}\n" for line in said)
