"""What the wheel brings along and the tree does not have (oomdoctor/wheel.py): working it out takes a second."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Computed(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard":  # an editable install reads the files as they are now
            return
        self._folder = tempfile.TemporaryDirectory()
        top = Path(self._folder.name)
        subprocess.run([sys.executable, "-m", "oomdoctor.wheel", str(top)], check=True, cwd=self.root)  # noqa: S603
        for path in sorted(path for path in top.rglob("*") if path.is_file()):
            build_data["force_include"][str(path)] = f"oomdoctor/{path.relative_to(top).as_posix()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        del build_data, artifact_path
        if version == "standard":
            self._folder.cleanup()
