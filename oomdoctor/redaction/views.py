"""The ways to read a text in which a secret may stand: as it is, with its escapes decoded, with its wraps undone.

A view remembers where each of its characters stands in the text, so that what is found in it is taken out of the text.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable
from functools import cache

from oomdoctor.text import BREAK, INVISIBLE, SEQUENCE

# What `disarm` takes off before a terminal gets the text; how journald, syslog, cat -v and JSON write sequences out;
# and the sign that makes an emoji of another, which takes no room either.
_NOT_SHOWN = re.compile(
    f"{SEQUENCE}|(?P<blank>{BREAK})|{INVISIBLE}|\ufe0f"
    r"|(?:\^\[|#033|\\x1[bB]|\\033|\\{1,4}u001[bB]|\\e)\[[0-9;]{0,20}[A-Za-z]"
)
# What a file shows otherwise: titles and links hold a text there, and a form feed parts nothing.
_OTHERWISE = re.compile(rf"\x1b[\]PX^_]|{BREAK}")
_IN_A_FILE = re.compile(r"(?P<border>\x1b[\]PX^_\\]|[\x07\x9c])|" + _NOT_SHOWN.pattern)
_AS_AT_A_TERMINAL = re.compile(rf"(?m)^(?:(?!{BREAK})[^\x1b\n]){{0,100000}}\n")
# A backslash may itself be escaped, once per nesting of JSON; so may a percent sign.
_ENCODED = re.compile(
    r"\\{1,8}(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|([nrtbf\"'/]))|%(?:25){0,4}([0-9A-Fa-f]{2})|&(amp|quot|apos|lt|gt|#3[49]);"
)
_AS_IT_IS = re.compile(r"(?m)^[^\\%&\n]{0,100000}\n")
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": " ", "f": " "}
_ENTITIES = {"amp": "&", "quot": '"', "apos": "'", "lt": "<", "gt": ">", "#34": '"', "#39": "'"}

_STAMP = (
    r"(?:\d{4}[-/]\d\d[-/]\d\d|\d\d[-/]\d\d)[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
    r"|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}\d{1,2} \d\d:\d\d:\d\d"
)
_PREFIXES = (
    r"\([^()\n]{0,120}pid=\d{1,10}[^()\n]{0,80}\) ?",  # Ray, vLLM
    r"\((?:raylet|gcs_server|autoscaler|scheduler)[^()\n]{0,80}\) ?",
    r"\[rank\d{1,6}\]:? ?",  # torchrun
    r"\[default\d{1,6}\]:",
    r"\[\d{1,6},\d{1,6}\]<std(?:out|err|diag)>: ?",  # mpirun
    r"\[pod/[^\]\n]{1,200}\] ?",  # kubectl
    r"[A-Za-z][\w.-]{0,60} {0,20}\| ",  # docker compose
    r"\d{1,5}: ",  # srun -l
    r"\[(?:" + _STAMP + r")[^\]\n]{0,60}\] ?",
    r"(?:" + _STAMP + r") ?(?:std(?:out|err) [FP] )?",  # containerd
    r"(?:TRACE|DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL)[: ] ?",
    r"\[[\w./-]{1,60}:\d{1,6}\] ?",
    r"(?=[A-Za-z.-]{1,60}\d)[A-Za-z][\w.-]{0,62}: ",  # pdsh
    r"[│┃|>] ?",
)
PREFIX = "(?:" + "|".join(_PREFIXES) + "){0,5}"
_SEAM = (
    r"(?<=[A-Za-z0-9_\-+/=.%:@~ \"'])(?P<dot>(?<=\.))?(?: {0,200}[│┃|])?\r?\n(?=(?P<front>"
    + PREFIX
    + r"))(?P=front)(?: {2,40})?"
    r"(?= ?[A-Za-z0-9_\-+/=.%:@~\"'])(?(dot)|(?!eyJ))"
)


LONGEST = 1000  # characters of a line that a terminal may have cut
LEAD = re.compile(PREFIX + r"[ │┃]{0,40}(?:[{\[ ]{0,8}\"[^\"\n]{0,60}\": ?\")?")  # what is in front of what was cut


class View:
    """A text made of another one by replacing stretches of it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._parent: View | None = None
        self._at = array("q", [0])  # where each piece begins here,
        self._from = array("q", [0])  # where in the parent,
        self._width = array("q", [0])  # and how many characters of the parent one character stands for; 0: each for one

    def rewritten(self, pattern: re.Pattern[str], new: Callable[[re.Match[str]], str]) -> View:
        """The view with every match replaced by nothing or by one character."""
        parts: list[str] = []
        made = View("")
        made._parent = self
        done = length = 0
        for match in pattern.finditer(self.text):
            start, end = match.span()
            parts.append(self.text[done:start])
            length += start - done
            put = new(match)
            if put:
                made._add(length, start, end - start)
                parts.append(put)
                length += 1
            made._add(length, end, 0)
            done = end
        if not done:
            return self
        parts.append(self.text[done:])
        made.text = "".join(parts)
        return made

    def _add(self, at: int, origin: int, width: int) -> None:
        self._at.append(at)
        self._from.append(origin)
        self._width.append(width)

    def start(self, position: int) -> int:
        """Where the character at the position stands in the original text."""
        if self._parent is None:
            return position
        piece = bisect_right(self._at, position) - 1
        origin = self._from[piece]
        return self._parent.start(origin if self._width[piece] else origin + position - self._at[piece])

    def end(self, position: int) -> int:
        """Where what ends before the position ends in the original text."""
        if self._parent is None or position == 0:
            return position
        piece = bisect_right(self._at, position - 1) - 1
        origin, width = self._from[piece], self._width[piece]
        return self._parent.end(origin + (width or position - self._at[piece]))

    def line_before(self, position: int, back: int = 0) -> str:
        """The line that ends before the position in the view that this one was made of, or one so many lines back."""
        if self._parent is None or position == 0:
            return ""
        piece = bisect_right(self._at, position - 1) - 1
        end = self._from[piece] + (self._width[piece] or position - self._at[piece])
        text = self._parent.text
        end = max(end, text.find("\n", end, end + LONGEST))  # behind the border of a box
        for _ in range(back):
            end = max(0, text.rfind("\n", max(0, end - LONGEST), end))
        return text[text.rfind("\n", max(0, end - LONGEST), end) + 1 : end].rstrip("\r")

    def breaks(self, start: int, end: int) -> list[int]:
        """The positions between the two where something was taken out."""
        first, last = bisect_right(self._at, start), bisect_right(self._at, end - 1)
        return sorted(set(self._at[first:last]))


def shown(text: str) -> View:
    """Without what a terminal does not show."""
    view = View(text)
    return view.rewritten(_NOT_SHOWN, _blank) if _NOT_SHOWN.search(text) else view


def otherwise_shown(text: str) -> View | None:
    """Only the lines with escape sequences and with breaks, as a file shows them; None where that is no other text."""
    if _OTHERWISE.search(text) is None:
        return None
    return View(text).rewritten(_AS_AT_A_TERMINAL, _nothing).rewritten(_IN_A_FILE, _border)


def _blank(match: re.Match[str]) -> str:
    return " " if match.lastgroup == "blank" else ""


def _border(match: re.Match[str]) -> str:
    return " " if match.lastgroup == "border" else ""


def _nothing(match: re.Match[str]) -> str:
    del match
    return ""


def decoded(view: View) -> View:
    """With the escapes of JSON, Python, URLs and HTML decoded."""
    return view.rewritten(_ENCODED, _meaning)


def encoded_lines(view: View) -> View | None:
    """Only the lines that hold an escape; None where there are none."""
    if _ENCODED.search(view.text) is None:
        return None
    return view.rewritten(_AS_IT_IS, _nothing)


def _meaning(match: re.Match[str]) -> str:
    wide, narrow, letter, percent, entity = match.groups()
    if letter:
        return _LETTERS.get(letter, letter)
    if entity:
        return _ENTITIES[entity]
    return chr(int(wide or narrow or percent, 16))


def joined(view: View, starts: str) -> View:
    """With lines that may go on from one to the next made one; not before what the pattern `starts` matches."""
    return view.rewritten(_seam(starts), _nothing)


@cache
def _seam(starts: str) -> re.Pattern[str]:
    return re.compile(_SEAM + starts)
