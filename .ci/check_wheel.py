"""Is everything in the wheel, nothing else, and the same from the sdist as from the tree?"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

TOP = Path(__file__).parent.parent
LARGEST = 2_600_000  # bytes; tables stay plain files, which a reader of the wheel can open
# What a checkout has beside the package or works out (oomdoctor/wheel.py).
GRAMMARS = {path.stem for path in (TOP / "grammars").glob("*.lark")}
BUILT = {
    "oomdoctor/families/heads.json",
    "oomdoctor/families/wordings.json",
    "oomdoctor/needed.json",
    *(f"oomdoctor/_grammars/{name}.lark" for name in GRAMMARS),
    *(f"oomdoctor/_grammars/{name}.json" for name in GRAMMARS - {"common"}),
}


def wanted() -> set[str]:
    """Every file of the package, as the wheel names it."""
    package = {p.relative_to(TOP).as_posix() for p in (TOP / "oomdoctor").rglob("*") if p.is_file()}
    compiled = {name.removesuffix(".po") + ".mo" if name.endswith(".po") else name for name in package}
    return {name for name in compiled if "__pycache__" not in name} | BUILT


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def main(from_sdist: Path, from_tree: Path) -> None:
    found = contents(from_sdist)
    package = {name for name in found if ".dist-info/" not in name}
    problems = [f"missing: {name}" for name in sorted(wanted() - package)]
    problems += [f"should not be there: {name}" for name in sorted(package - wanted())]
    if not any(name.endswith("/licenses/LICENSE") for name in found):
        problems.append("missing: the licence")
    if from_sdist.stat().st_size > LARGEST:
        problems.append(f"{from_sdist.stat().st_size} bytes are too many")
    other = contents(from_tree)
    problems += [
        f"differs from sdist to tree: {n}" for n in sorted(found.keys() | other.keys()) if found.get(n) != other.get(n)
    ]
    if found == other and from_sdist.read_bytes() != from_tree.read_bytes():
        problems.append("the files are the same from sdist to tree, their order, times or modes are not")
    if problems:
        sys.exit("\n".join(problems))
    sys.stdout.write(f"{from_sdist.name}: {len(found)} files, {from_sdist.stat().st_size} bytes\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
