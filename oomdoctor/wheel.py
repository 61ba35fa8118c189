"""What a wheel brings along ready-made, and a checkout works out of its sources when it is asked: the parsers' tables,
the heads of the families, the index of wordings, the words that patterns need, the compiled catalogues. The build
writes them: `python -m oomdoctor.wheel FOLDER`."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import shutil
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from oomdoctor import families, grammars, needed
from oomdoctor.causes import causes
from oomdoctor.families import likeness
from oomdoctor.job import roles
from oomdoctor.patterns import late
from oomdoctor.remedies.functions import COMPUTE, compute

PACKAGE: Final = Path(__file__).parent


def write(folder: Path) -> None:
    """All of it, by its places in the package."""
    for path in grammars.FOLDER.glob("*.lark"):
        shutil.copyfile(path, _place(folder, grammars.INSIDE / path.name))
    for name in grammars.names():
        _place(folder, grammars.table(name, grammars.INSIDE)).write_bytes(grammars.written(name))
    _place(folder, families.HEADS).write_text(families.heads(), encoding="utf-8", newline="\n")
    _place(folder, likeness.TABLE).write_bytes(likeness.written())
    _place(folder, needed.TABLE).write_bytes(needed.written(_patterns()))
    for path in (PACKAGE / "locale").glob("*/*.po"):
        _compile(path, _place(folder, path.with_suffix(".mo")))


def _patterns() -> Iterator[tuple[str, int]]:
    """Those of the modules that a diagnosis loads, but for what draws the report."""
    for module in pkgutil.walk_packages(families.__path__, f"{families.__name__}."):
        importlib.import_module(module.name)
    causes()
    for name in ("street", "decision.diagnosis", "remedies.advice"):
        importlib.import_module(f"oomdoctor.{name}")
    for knob in COMPUTE:
        compute(knob)
    roles.role_of("ray::Unknown.work")  # makes those of the frameworks' files
    roles.role_of("unknown")
    kind: Any = late
    for it in gc.get_objects():
        if type(it) is kind and isinstance(it.pattern, str):
            yield it.pattern, it.asked_flags


def _place(folder: Path, path: Path) -> Path:
    place = folder / path.relative_to(PACKAGE)
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _compile(catalogue: Path, to: Path) -> None:
    from babel.messages.mofile import write_mo  # noqa: PLC0415  (only who builds needs it)
    from babel.messages.pofile import read_po  # noqa: PLC0415

    with catalogue.open("rb") as file:
        words = read_po(file)
    words.creation_date = datetime.fromtimestamp(0, timezone.utc)  # or two builds of one tree differ
    with to.open("wb") as file:
        write_mo(file, words)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
