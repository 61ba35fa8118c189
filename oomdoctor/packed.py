"""Write what the wheel has in place of the grammars into a folder, as its build does: `python -m oomdoctor.tables
FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from oomdoctor import grammars


def write(folder: Path) -> None:
    (folder / grammars.PACKED.name).write_text(grammars.packed(), encoding="ascii", newline="\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
