"""Reports to make pages of, and a page taken apart with the standard library."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import oomdoctor
from oomdoctor.report.contract import Report
from oomdoctor.report.html import document

ROOT = Path(__file__).parents[3]
LOGS = sorted(ROOT.glob("fixtures/*/*.log"))
STORIES = sorted(path for path in ROOT.glob("fixtures/stories/*") if path.is_dir())

VOID = {"meta", "hr", "br", "img", "link", "input", "wbr"}
# In SVG a tag may close itself.
HOSTILE = (
    "<script>document.title='owned'</script>",
    "</style><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "\"><svg onload=document.title='owned'>",
    "' onfocus='document.title=1' autofocus='",
    "&lt;b&gt; &#60;script&#62; &amp;amp; &nbsp",
    "{{ 7 * 7 }} {% raw %} {# #}",
    "]]></title><!-- --> <!doctype html>",
    "javascript:document.title='owned'",
    "\u202etxt.exe\u202c \u2066abc\u2069 \u05d0\u05d1\u05d2 \u0627\u0644\u0630\u0627\u0643\u0631\u0629",
    "\x1b[31mred\x1b[0m \x00\x07 end",
)

Any_ = TypeVar("Any_")


@cache
def reported(log: Path) -> Report:
    return oomdoctor.diagnose(log)


@cache
def page_of(log: Path) -> str:
    return document(reported(log))


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]


@dataclass
class Page(HTMLParser):
    """What a browser would see of it, as far as the standard library knows."""

    elements: list[Element] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)  # the tag around it, and the text
    comments: list[str] = field(default_factory=list)
    _open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"an attribute twice: {tag} {attrs}"
        self.elements.append(Element(tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1] == tag, f"</{tag}> closes {self._open[-1]}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1].tag == "wbr" and self.texts:  # a word that may be broken is one word
            _, before = self.texts.pop()
            data, self.elements = before + data, self.elements[:-1]
        self.texts.append((self._open[-1] if self._open else "", data))

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def all(self, *tags: str) -> list[Element]:
        return [element for element in self.elements if element.tag in tags]

    @property
    def skeleton(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(element.tag, tuple(element.attributes)) for element in self.elements]

    @property
    def text(self) -> str:
        """What stands on the page, without its style."""
        return " ".join(text for tag, text in self.texts if tag != "style")


def parsed(html: str) -> Page:
    page = Page()
    page.feed(html)
    page.close()
    assert not page._open, f"never closed: {page._open}"
    return page


def without_style(html: str) -> str:
    """The page, whose style has a file and a hash of its own."""
    html = re.sub(r"<style>.*?</style>", "<style>...</style>", html, flags=re.DOTALL)
    return re.sub(r"sha256-[\w+/=]+", "sha256-...", html)


# Words that the renderer looks up: no log writes them.
OUR_WORDS = {
    "verdict", "event", "events", "id", "role", "cause", "pool", "basis", "knob", "relieves", "spends", "per",
    "family", "kind", "stage", "tool", "fingerprint", "alone", "together",
}  # fmt: skip


def changed(value: Any_, change: Callable[[str], str], name: str = "") -> Any_:
    """The same report with other words wherever a log's may stand."""
    return _changed(value, change, name)  # type: ignore[no-any-return]


def _changed(value: Any, change: Callable[[str], str], name: str) -> Any:
    if name in OUR_WORDS:
        return value
    if isinstance(value, str):
        return change(value)
    if isinstance(value, msgspec.Struct):
        parts = {one: _changed(getattr(value, one), change, one) for one in value.__struct_fields__}
        return msgspec.structs.replace(value, **parts)
    if isinstance(value, Mapping):
        log_names = name in ("settings", "frameworks", "hardware", "progress")
        return {(change(key) if log_names else key): _changed(item, change, key) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_changed(item, change, name) for item in value)
    return value
