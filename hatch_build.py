"""What the wheel brings along and the tree does not have: the parsers' tables, which take a process half a second to
compute from the grammars, and the compiled catalogues."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Computed(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard":  # an editable install reads the grammars and the catalogues as they are now
            return
        self._folder = tempfile.TemporaryDirectory()
        top = Path(self._folder.name)
        for where, *command in (
            ("_packed", "-m", "oomdoctor.packed"),
            ("locale", ".ci/catalogues.py", "compile"),
        ):
            (top / where).mkdir()
            self._run(*command, str(top / where))
            for path in sorted(path for path in (top / where).rglob("*") if path.is_file()):
                build_data["force_include"][str(path)] = f"oomdoctor/{path.relative_to(top).as_posix()}"

    def _run(self, *command: str) -> None:
        subprocess.run([sys.executable, *command], check=True, cwd=self.root)  # noqa: S603  (our own programs)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        del build_data, artifact_path
        if version == "standard":
            self._folder.cleanup()
