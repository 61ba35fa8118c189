"""A cause's table in words, as Markdown: what `oomdoctor explain CAUSE --signs` and the documentation print."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator

from oomdoctor.causes import Cause, Row
from oomdoctor.language import say
from oomdoctor.signs import Sign


def outline(cause: Cause) -> str:
    """The rows from top to bottom. Signs are named as in the code, and say themselves what they ask."""
    return "\n".join(["## " + say("Signs"), *_parts(cause), ""])


def _parts(cause: Cause) -> Iterator[str]:
    yield from _signs(say("Another cause, where one of these is seen:"), cause.silent)
    yield from _signs(say("Ruled out, where one of these is seen:"), cause.excluded)
    yield from _rows(say("Rests on the first of these that is seen:"), cause.signs)
    yield from _rows(say("At most this grade, where one of these is seen:"), cause.against)
    yield from _signs(say("Not enough to tell, where one of these is seen and none of the above:"), cause.missing)
    if cause.before:
        yield from ("", say("At the same grade, this cause comes before {causes}.", causes=", ".join(cause.before)))


def _signs(title: str, signs: Iterable[Sign]) -> Iterator[str]:
    items = [f"- {_question(sign)}" for sign in signs]
    yield from ("", title, "", *items) if items else ()


def _rows(title: str, rows: Iterable[Row]) -> Iterator[str]:
    items = [f"- **{row.grade.name}** {_question(row.sign)}" for row in rows]
    yield from ("", title, "", *items) if items else ()


def _question(sign: Sign) -> str:
    words = " ".join((inspect.getdoc(sign) or "").split())
    return f"`{getattr(sign, '__name__', '')}`: {words}"


__all__ = ["outline"]
