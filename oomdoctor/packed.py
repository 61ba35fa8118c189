"""What the wheel has in place of many files that are alike: together they take half the room. Its build writes them
into a folder: `python -m oomdoctor.packed FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from oomdoctor import grammars, pages


def write(folder: Path) -> None:
    for packed, text in ((grammars.PACKED, grammars.packed()), (pages.PACKED, pages.packed())):
        (folder / packed.name).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
