"""What can go wrong with an input."""

from __future__ import annotations

import os

from msgspec import Struct

from oomdoctor.language import say


class Trouble(Struct, frozen=True):
    """An input that could not be read (or not whole), and why."""

    file: str
    why: str


class UnreadableError(Exception):
    """Raised while an input is read, after what could be read; the message is for the user."""


class PickleError(UnreadableError):
    """It is a pickle, which may be one that we can read."""


def shown(path: str) -> str:
    """A path as it may be printed: one form on every system, whatever bytes a hostile archive named its files with."""
    text = os.fsencode(path).decode("utf-8", "replace").replace(os.sep, "/")
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def why(error: OSError) -> str:
    """The system's reason as part of a sentence: "permission denied"."""
    if isinstance(error, FileNotFoundError):
        return say("no such file")
    reason = error.strerror or str(error) or type(error).__name__
    return reason[:1].lower() + reason[1:]
