"""The pages that `oomdoctor explain` prints, in every language. Each is a file beside its cause; in the wheel all are
one file, which compresses well."""

from __future__ import annotations

import json
from pathlib import Path

from oomdoctor.language import ENGLISH

FOLDER = Path(__file__).parent / "causes"
PACKED = Path(__file__).parent / "_packed" / "pages.txt"
_ENCODING = "gb18030"  # a Chinese character in two bytes, and all others somehow


def page(cause: str, language: str = ENGLISH) -> str | None:
    """None where it is not translated."""
    name = cause.replace("-", "_")
    return pages().get(name if language == ENGLISH else f"{name}.{language}")


def pages() -> dict[str, str]:
    """All of them, by their files' names."""
    if PACKED.is_file():
        found: dict[str, str] = json.loads(PACKED.read_bytes().decode(_ENCODING))
        return found
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}


def packed() -> bytes:
    """All of them, as the wheel has them."""
    return json.dumps(pages(), ensure_ascii=False).encode(_ENCODING)
