"""Text that does nothing to the screen it is printed on."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text in one line, what is not to be seen (escapes, bidi marks, line breaks) written out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c == "\t" else _written_out(c) for c in text)


def _written_out(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
