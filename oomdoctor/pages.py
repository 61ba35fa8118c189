"""The pages that `oomdoctor explain` prints, in every language: each is a file beside its cause."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from oomdoctor.language import ENGLISH

FOLDER: Final = Path(__file__).parent / "causes"


def page(cause: str, language: str = ENGLISH) -> str | None:
    """None where it is not translated."""
    name = cause.replace("-", "_")
    path = FOLDER / (f"{name}.md" if language == ENGLISH else f"{name}.{language}.md")
    return path.read_text(encoding="utf-8") if path.is_file() else None
