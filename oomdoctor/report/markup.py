"""The border between the report's words and Markdown or a CI's log: text that no renderer and no runner obeys.

Most of what a report says quotes a log, so nothing of it is trusted. Words that could be markup stand in code spans,
where GitHub makes no link, mention, reference, emoji, formula or HTML of them, and which read well unrendered, too.
"""

from __future__ import annotations

import re
from typing import Final

from oomdoctor.language import say
from oomdoctor.text import disarm, sanitize

LONGEST_LINE: Final = 2_000  # characters of one line of a log that a shared report shows
LONGEST_PROSE: Final = 2_000

# Has no blanks between its words and no meaning in Markdown.
_CHINESE: Final = "\u3400-\u4dbf\u4e00-\u9fff，。、；：？！（）《》"
_UNITS: Final = re.compile(
    rf"""(?<![^\s{_CHINESE}])([("']{{0,3}})`([^`]{{1,200}})`([).,;:!?"']{{0,3}})(?![^\s{_CHINESE}])"""
    rf"""|([^\s{_CHINESE}]+)|([{_CHINESE}]+)"""
)
_LEAD: Final = "(\"'"
_ARROW: Final = "->"  # between two values, never at the head of a line
_TRAIL: Final = ".,;:!?)\"'"
_PLAIN: Final = frozenset(".,;%()/+=?!-'\"–—×…’“”°±·")

# Made of plain characters, and yet GitHub or a mail reader would link it: a commit, GH-1 and the like, www.x.y, x.py.
_LINKED: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9A-Fa-f]{7,64}(?![0-9A-Za-z])|[A-Z][0-9A-Z]{0,20}-\d|(?i:gh-\d|ghsa-))"
    r"|(?i:www)\.|[0-9A-Za-z]\.[A-Za-z]{2}"
)
_NUMBERED: Final = re.compile(r"\d{1,9}[.)]")
_URL: Final = re.compile(r"https://[0-9A-Za-z./#?=&%~:+_-]{1,500}")
_TICKS: Final = re.compile("`+")
_NO_INFO: Final = re.compile(r"[^\w+#.-]+")


def prose(text: str, limit: int = LONGEST_PROSE) -> str:
    """A sentence of ours that may quote the log, as one line of Markdown."""
    text = shortened(sanitize(text), limit).strip()
    line = ""
    for found in _UNITS.finditer(text):
        blank = " " if text[found.start() - 1].isspace() else ""
        if found[2]:
            line += f"{blank}{found[1]}{code(found[2])}{found[3]}"
        else:  # two code spans side by side would be read as one: Chinese, which may stand between, is never one
            line += blank + (found[5] or _word(found[4], first=not line))
    return line


def _word(word: str, *, first: bool) -> str:
    """The word as it is where it cannot mean anything, else in a code span, without the signs around it."""
    if first and (word[0] in "-+=" or _NUMBERED.fullmatch(word)):
        return code(word)
    core = word.lstrip(_LEAD)
    lead = word[: len(word) - len(core)]
    end = len(core)
    while end and core[end - 1] in _TRAIL and not (core[end - 1] == ")" and _closes(core[:end])):
        end -= 1
    core, trail = core[:end], core[end:]
    return word if core == _ARROW or _is_plain(core) else f"{lead}{code(core)}{trail}"


def _closes(text: str) -> bool:
    """Whether the bracket at its end belongs to one within: `main()`."""
    return text.count("(") >= text.count(")")


def _is_plain(word: str) -> bool:
    return (
        all(sign.isalnum() or sign in _PLAIN for sign in word)
        and not word.startswith("--")
        and _LINKED.search(word) is None
    )


def code(text: str, limit: int = LONGEST_LINE) -> str:
    """The text as a code span, whatever backticks it has; nothing where there is no text."""
    text = " ".join(shortened(sanitize(text), limit).split())
    if not text:
        return ""
    ticks = "`" * _beside(text)
    return f"{ticks} {text} {ticks}" if text[0] == "`" or text[-1] == "`" else f"{ticks}{text}{ticks}"


def _beside(text: str) -> int:
    """The smallest number of backticks that do not stand together in the text."""
    runs = {len(run) for run in _TICKS.findall(text)}
    return next(length for length in range(1, len(runs) + 2) if length not in runs)


def cell(markdown: str) -> str:
    """One line of Markdown inside a table: a backslash would not hold where the log has one before its pipe."""
    return markdown.replace("|", "¦")


def fenced(text: str, info: str = "text", indent: int = 0) -> str:
    """Lines of a log, or to copy, in a fence longer than any run of backticks in them."""
    lines = [
        shortened(line.rstrip("\r").replace("\r", " "), LONGEST_LINE) for line in disarm(text).strip("\n").split("\n")
    ]
    longest = max((len(run) for run in _TICKS.findall("\n".join(lines))), default=0)
    fence = "`" * max(3, longest + 1)
    margin = " " * indent
    info = _NO_INFO.sub("", info)
    return "\n".join(f"{margin}{line}".rstrip() for line in (f"{fence}{info}", *lines, fence))


def link(url: str) -> str:
    """An address of our own tables; anything else is only shown."""
    return f"<{url}>" if _URL.fullmatch(url) else code(url)


def shortened(text: str, limit: int) -> str:
    """The text, or its beginning and how much more there is."""
    if len(text) <= limit:
        return text
    return say("{text}… ({count:,} characters more)", text=text[:limit], count=len(text) - limit)


# GitHub's runner obeys lines that begin with "::", and "##[" wherever it stands.
_COMMAND: Final = re.compile(r"^([^\S\n]*):(?=:)|##(?=\[)", re.MULTILINE)


def harmless(text: str) -> str:
    """Lines that a CI's runner prints and does not obey; a blank more shows where it would have."""
    return _COMMAND.sub(lambda found: "## " if found[0] == "##" else f"{found[1]}: ", disarm(text).replace("\r", " "))


def command(name: str, message: str, **properties: str | int | None) -> str:
    """A workflow command, as GitHub's runner reads it back: `::error file=train.log,line=3,title=...::...`."""
    named = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items() if value is not None)
    return f"::{name}{' ' + named if named else ''}::{_data(message)}\n"


def _data(text: str) -> str:
    return harmless(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(sanitize(text)).replace(":", "%3A").replace(",", "%2C")
