"""Checks that nothing printed is obeyed by a terminal, a browser, a renderer, a runner or a reader of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

from gfm import LINKED, inline, tokens
from payloads import MARK
from runner import commands

OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def no_escapes(printed: str) -> None:
    assert OBEYED.search(printed) is None, repr(printed[max(0, OBEYED.search(printed).start() - 40) :][:120])  # type: ignore[union-attr]


def no_json_escapes(printed: str) -> None:
    no_escapes(printed)
    for line in [printed] if printed.startswith("{\n") else printed.splitlines():
        for text in _strings(json.loads(line, parse_constant=_no_number)):
            no_escapes(text.replace("\n", ""))


def _no_number(name: str) -> Any:
    raise AssertionError(f"{name} is no JSON")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def no_markdown(printed: str) -> None:
    """What is marked stands in code, or is text of which no renderer makes anything."""
    no_escapes(printed)
    parsed = tokens(printed)
    for token in [*parsed, *inline(parsed)]:
        if MARK in str(token.attrs) or (token.type.startswith("html") and MARK in token.content):
            raise AssertionError(f"{token.type}: {token.attrs} {token.content[:200]}")
        if token.type == "text" and MARK in token.content:
            assert LINKED.search(token.content) is None, token.content


def no_commands(printed: str) -> None:
    no_escapes(printed)
    found = commands(printed)
    assert {command.name for command in found} <= {"error", "warning", "notice"}
    assert all(set(command.properties) <= {"title", "file", "line"} for command in found)
    assert not [line for line in printed.splitlines() if MARK in line and line.lstrip().startswith("::add-mask")]


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.marked: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "img", "iframe", "object", "form", "link", "base") or MARK.lower() in tag:
            self.marked.append(tag)
        for name, value in attrs:
            followed = name in ("href", "src", "style", "id", "class") and MARK in (value or "")
            if name.startswith("on") or MARK.lower() in name or followed:
                self.marked.append(f"{tag} {name}={value}")

    def handle_comment(self, data: str) -> None:
        self.marked.append(data)


def no_markup(printed: str) -> None:
    no_escapes(printed)
    page = _Tags()
    page.feed(printed)
    page.close()
    assert page.marked == []


CHECKS = {
    "text": no_escapes,
    "json": no_json_escapes,
    "jsonl": no_json_escapes,
    "markdown": no_markdown,
    "html": no_markup,
    "github": no_commands,
}
