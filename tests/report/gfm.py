"""What a CommonMark reader with GitHub's tables makes of Markdown, and what GitHub then links in its text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

# What GitHub makes of a text that stands in no code: after its own documentation, wider where that is vague.
LINKED = re.compile(
    r"@|#\d|://|www\.|mailto:|xmpp:|:[\w+-]+:|\$|\[|(?i:\bgh-\d|\bghsa-)|\b[A-Z]+-\d|\b[0-9a-f]{7,64}\b"
)


def tokens(markdown: str) -> list[Token]:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)


def inline(parsed: list[Token]) -> Iterator[Token]:
    for token in parsed:
        yield from token.children or ()


def kinds(markdown: str) -> set[str]:
    """The kinds of blocks and of inline pieces."""
    parsed = tokens(markdown)
    return {token.type for token in [*parsed, *inline(parsed)]}


def loose_text(markdown: str) -> list[str]:
    """What stands in no code: here a renderer looks for mentions, references and addresses."""
    return [token.content for token in inline(tokens(markdown)) if token.type == "text"]


def content(markdown: str) -> str:
    """All that a reader sees of the inline pieces."""
    return "".join(
        "\n" if token.type in ("softbreak", "hardbreak") else token.content for token in inline(tokens(markdown))
    )
