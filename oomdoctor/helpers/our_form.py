"""The issue form for memory crashes that a maintainer can put into a repository."""

from __future__ import annotations

from importlib import resources
from typing import Final

from oomdoctor import __version__
from oomdoctor.helpers.forms import Form, parse

FILE: Final = "oom.yml"
PLACE: Final = f".github/ISSUE_TEMPLATE/{FILE}"


def text() -> str:
    """The file, with the version that wrote it."""
    written = f"# Written by oomdoctor {__version__}: oomdoctor issue-form --keep {PLACE}\n"
    return written + resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")


def form() -> Form:
    """The same, as a form to fill in."""
    return parse(text(), FILE)
