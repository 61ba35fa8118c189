"""The wheel brings the parsers' tables along; to compute them from the grammars takes a process's first half second."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Tables(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard":  # an editable install reads the grammars as they are now
            return
        self._folder = tempfile.TemporaryDirectory()
        subprocess.run(  # noqa: S603  (our own module)
            [sys.executable, "-m", "oomdoctor.packed", self._folder.name],
            check=True,
            cwd=self.root,
        )
        for path in sorted(Path(self._folder.name).iterdir()):
            build_data["force_include"][str(path)] = f"oomdoctor/_packed/{path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        del build_data, artifact_path
        if version == "standard":
            self._folder.cleanup()
