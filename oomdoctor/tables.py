"""Write every grammar's tables into a folder: `python -m oomdoctor.tables FOLDER`. The build of the wheel runs it."""

from __future__ import annotations

import sys
from pathlib import Path

from oomdoctor import grammars


def write(folder: Path) -> None:
    for path in sorted(grammars.FOLDER.glob("*.lark")):
        if path.stem != "common":  # only imported by the others
            text = grammars.tables(grammars.build(path.stem))
            (folder / f"{path.stem}.json").write_text(text, encoding="ascii")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
