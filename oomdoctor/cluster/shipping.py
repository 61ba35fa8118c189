"""oomdoctor itself, for nodes that have another version of it or none: they seldom have a network to install from."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

# What reading takes; Ray sees to it that all nodes run one version of Python. Compressed logs want zstandard, too,
# where they have it.
PACKAGES: Final = ("oomdoctor", "ahocorasick_rs", "lark", "msgspec", "regex")
_LEFT_OUT: Final = shutil.ignore_patterns("__pycache__", "*.pyi", "*.po", "*.mo", "*.md", "tests")


@contextmanager
def packages() -> Iterator[Path]:
    """A folder with all that the reading of logs imports (8 MB)."""
    with TemporaryDirectory(prefix="oomdoctor-") as folder:
        for name in PACKAGES:
            package = Path(str(import_module(name).__file__)).parent
            shutil.copytree(package, Path(folder, name), ignore=_LEFT_OUT)
        grammars = Path(str(import_module("oomdoctor").__file__)).parent.parent / "grammars"
        if grammars.is_dir():  # a checkout; a wheel has them inside
            shutil.copytree(grammars, Path(folder, "grammars"))
        yield Path(folder)
