"""Words that try to be obeyed, and logs in which they stand wherever the report quotes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from oomdoctor import street
from oomdoctor.report.contract import Report
from oomdoctor.sources import InMemory

MARK: Final = "EVIL"  # stands in each of them

PAYLOADS: Final[Mapping[str, str]] = {
    "CSI": f"\x1b[2J\x1b[1;31m{MARK}\x1b[0m\x1b[",
    "OSC 0 (a title)": f"\x1b]0;{MARK}\x07{MARK}\x1b]2;{MARK}\x1b\\",
    "OSC 8 (a link)": f"\x1b]8;;http://{MARK}.test\x1b\\{MARK}\x1b]8;;\x1b\\",
    "OSC 52 (the clipboard)": f"\x1b]52;c;RVZJTA==\x07{MARK}\x1bP{MARK}\x1b\\\x1b_{MARK}\x1b\\",
    "C1": f"\x9b31m{MARK}\x9d0;{MARK}\x9c\x90{MARK}\x9c\x85",
    "bidi": f"\u202e{MARK}\u202c\u2066{MARK}\u2069\u061c",
    "zero width": f"{MARK}\u200b\u200d\u2060\ufeff\xad\U000e0041",
    "rich": f"[bold_red]{MARK}[/][link=http://{MARK}.test]x[/link]\\[/]",
    "HTML": f"<script>{MARK}</script><img/src=x/onerror={MARK}>&lt;'\"",
    "Markdown": f"](http://{MARK}.test)![{MARK}](x)**{MARK}**`@{MARK}`#1<!--{MARK}-->|",
    "workflow": f"\r::error::{MARK}\r##[set-env/name={MARK}]x%0A::add-mask::{MARK}",
    "format": f"%s%n%({MARK})s{{{MARK}}}{{0.__class__}}{{:>999999999}}${{{MARK}}}\\1\\g<0>",
    "shell": f"';{MARK};'\"$({MARK})`{MARK}`|{MARK}&{MARK}\\",
    "JSON": f'","{MARK}":{{"\\u001b\\',
    "numbers": f"{'9' * 400}.{'9' * 400}e{'9' * 9}{MARK}-0x{'f' * 90}",
    "a surrogate": f"\udc9b\ud800{MARK}\ufffe",
}


def quoted(report: Report) -> set[str]:
    """The words of the log that a report repeats."""
    return {word for word in _words(report) if 3 <= len(word) <= 200 and not word.isdecimal() and "\n" not in word}


def _words(report: Report) -> Iterator[str]:
    for event in report.events:
        yield from _strings({name: event.process.get(name) for name in ("name", "node")})
        yield from _strings(event.fields)
    context = report.context
    yield from _strings([context.get(name) for name in ("settings", "models", "hardware", "processes")])
    yield from _strings([*(context.get("frameworks") or {}).values()])


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def poisoned(text: str, payload: str, words: set[str]) -> str:
    """The log, with the payload in the middle of each of these words."""
    for word in sorted(words, key=len, reverse=True):
        middle = len(word) // 2
        text = text.replace(word, f"{word[:middle]}{payload}{word[middle:]}", 40)
    return text


def reported(text: str, name: str = "job.log") -> Report:
    """The report on a log of this text."""
    return street.report_on([InMemory(name, None, data=text.encode("utf-8", "surrogatepass"))], ())
