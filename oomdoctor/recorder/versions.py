"""The packages of the job's environment, from the names of their metadata's folders: nothing is imported."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from oomdoctor.recorder import proc

_METADATA: Final = re.compile(r"(?P<name>[\w.]{1,80})-(?P<version>[\w.+!]{1,60})\.(?:dist|egg)-info")


def packages(pid: int) -> tuple[str, ...]:
    """Those whose version may decide something, as `pip freeze` writes them; none of a process without Python."""
    from oomdoctor.job import frameworks  # noqa: PLC0415  (once a job, and not at its start)

    known = {name.replace("-", "_") for name in frameworks.packages()}
    found: dict[str, str] = {}
    for folder in _folders(pid):
        try:
            names = os.listdir(folder)  # noqa: PTH208
        except OSError:
            continue
        for match in map(_METADATA.fullmatch, names):
            if match is not None and match["name"].lower() in known:
                found.setdefault(match["name"].lower(), match["version"])
    return tuple(f"{name}=={version}" for name, version in sorted(found.items()))


def is_python(pid: int) -> bool:
    """Whether the process runs Python."""
    return _program(pid).name.startswith(("python", "pt_main_thread"))


def _program(pid: int) -> Path:
    """As it was called: in an environment, Python is a link."""
    first = (proc.text(f"{proc.PROC}/{pid}/cmdline") or "").partition("\0")[0]
    if first.startswith("/"):
        return Path(first)
    try:
        return Path(os.readlink(f"{proc.PROC}/{pid}/exe"))  # noqa: PTH115
    except OSError:
        return Path()


def _folders(pid: int) -> Iterator[Path]:
    said = (proc.text(f"{proc.PROC}/{pid}/environ") or "").split("\0")
    environment = dict(pair.partition("=")[::2] for pair in said)
    prefixes = [_program(pid).parent.parent]
    prefixes += [Path(environment[name]) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environment.get(name)]
    for prefix in dict.fromkeys(prefixes):
        if prefix.is_absolute():
            yield from sorted(prefix.glob("lib/python3*/site-packages"))
            yield from sorted(prefix.glob("lib/python3*/dist-packages"))
