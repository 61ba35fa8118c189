"""What the wheel has in place of many files that are alike: together they take half the room. Its build writes them
into a folder, as they lie in the package: `python -m oomdoctor.packed FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from oomdoctor import catalogues, grammars, pages

PACKAGE = Path(__file__).parent


def files() -> dict[Path, bytes]:
    """By their places in the package."""
    texts = {
        grammars.PACKED: grammars.packed().encode(),
        pages.PACKED: pages.packed(),
    }
    languages = (path for path in (PACKAGE / "locale").iterdir() if path.is_dir())
    found = texts | {folder / catalogues.PACKED: catalogues.packed(folder) for folder in languages}
    return {path.relative_to(PACKAGE): content for path, content in found.items()}


def write(folder: Path) -> None:
    for path, content in files().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
