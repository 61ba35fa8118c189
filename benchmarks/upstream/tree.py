"""The source files of a checkout: of a work tree, or of what stands in a git directory at HEAD."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

LANGUAGES = {
    "python": (".py",),
    "c": (
        ".c",
        ".cc",
        ".cpp",
        ".cxx",
        ".cu",
        ".cuh",
        ".h",
        ".hh",
        ".hip",
        ".hpp",
        ".inc",
        ".inl",
        ".m",
        ".metal",
        ".mm",
    ),
    "rust": (".rs",),
    "go": (".go",),
    "java": (".java", ".kt", ".scala"),
}
SUFFIXES = {suffix: language for language, suffixes in LANGUAGES.items() for suffix in suffixes}
LARGEST = 4_000_000  # bytes of a source that somebody wrote
# Folders and files that a user's job does not run: tests, documents, and what belongs to another program.
ELSEWHERE = re.compile(
    r"(?:^|/)(?:\.[^/]+|tests?|testing|unittests?|testdata|test_\w+|docs?|examples?|samples?|tutorials?|bench(?:marks?)?|"
    r"asv|third[_-]?party|3rdparty|vendor|external|extern|node_modules|build|site-packages)/"
    r"|(?:^|/)(?:(?:test_|tst-|bug-)[^/]*|conftest|setup|[^/]*(?:_tests?|Tests?|_benchmark|_unittest))\.\w+$"
)


def language(path: str) -> str | None:
    """What a file is written in; None where it is not read."""
    return None if ELSEWHERE.search(path) else SUFFIXES.get(PurePosixPath(path).suffix)


def files(folder: Path, at: str = "") -> Iterator[tuple[str, bytes]]:
    """The files that are read, by their paths: of a work tree, or of a git directory or work tree at a revision."""
    bare = (folder / "HEAD").is_file() and (folder / "objects").is_dir()
    if at or bare:
        yield from _of_git(folder if bare else folder / ".git", at or "HEAD")
    else:
        yield from _of_tree(folder)


def _of_tree(folder: Path) -> Iterator[tuple[str, bytes]]:
    for root, folders, names in os.walk(folder):
        folders.sort()
        inside = Path(root).relative_to(folder).as_posix()
        for name in sorted(names):
            path = name if inside == "." else f"{inside}/{name}"
            file = folder / path
            if language(path) and file.is_file() and file.stat().st_size <= LARGEST:
                yield path, file.read_bytes()


def _of_git(folder: Path, at: str) -> Iterator[tuple[str, bytes]]:
    # what a partial clone leaves out stays out
    environ = {**os.environ, "GIT_NO_LAZY_FETCH": "1"}
    git = ["git", f"--git-dir={folder}"]
    listed = subprocess.run([*git, "ls-tree", "-r", "-z", at], capture_output=True, check=True, env=environ).stdout
    rows = (row.partition("\t") for row in listed.decode("utf-8", "surrogateescape").split("\0") if row)
    blobs = {path: kind.split()[2] for kind, _, path in rows if " blob " in kind and language(path)}
    with tempfile.TemporaryFile() as names:
        names.write("".join(f"{blob}\n" for blob in blobs.values()).encode())
        names.seek(0)
        with subprocess.Popen(
            [*git, "cat-file", "--batch"], stdin=names, stdout=subprocess.PIPE, env=environ
        ) as reader:
            assert reader.stdout is not None
            for path in blobs:
                head = reader.stdout.readline().split()
                data = reader.stdout.read(int(head[2]) + 1)[:-1] if len(head) == 3 else b""
                if len(data) <= LARGEST:
                    yield path, data
