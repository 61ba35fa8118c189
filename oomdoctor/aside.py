"""Files that are there whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path


def replace(target: Path, data: bytes) -> None:
    """The file with these bytes, or as it was; a link stays a link, and who may read it stays as it is."""
    target = target.resolve()
    aside = target.with_name(f".oomdoctor-{os.urandom(8).hex()}.part")  # a name that nobody can have taken before us
    try:
        with aside.open("xb") as file:
            with suppress(FileNotFoundError):
                aside.chmod(stat.S_IMODE(target.stat().st_mode))
            file.write(data)
        aside.replace(target)
    except BaseException:  # also where we are asked to end
        aside.unlink(missing_ok=True)
        raise
