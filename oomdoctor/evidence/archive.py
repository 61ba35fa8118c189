"""The archive: one text for each answer, and the list of what could not be had."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from oomdoctor.evidence.answers import Answer

FOLDER: Final = "evidence"
MISSING: Final = "not-available.txt"


def packed(answers: Iterable[Answer], told: Callable[[str], str]) -> bytes:
    """The archive's bytes, each text as `told` gives it: as it is, or without names."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name, text in _texts(answers):
            data = told(text).encode("utf-8", "replace")
            member = tarfile.TarInfo(f"{FOLDER}/{name}")
            member.size, member.mtime = len(data), time.time()
            archive.addfile(member, io.BytesIO(data))
    return target.getvalue()


def _texts(answers: Iterable[Answer]) -> Iterator[tuple[str, str]]:
    missing = []
    for one in answers:
        if one.missing:
            missing.append(f"{one.question.text}: {one.missing}\n")
        else:
            yield f"{one.question.name}.txt", one.page
    if missing:
        yield MISSING, "".join(missing)


__all__ = ["packed"]
