"""What headlines call a package and a process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oomdoctor.job.frameworks import framework
from oomdoctor.language import say

# Packages that are no framework, or whose file is named after a part of them
_PACKAGES: Final[Mapping[str, str]] = {"liger-kernel": "Liger Kernel", "transformers": "Transformers"}


def title(package: str) -> str:
    """What a package or framework calls itself."""
    known = framework(package)
    return _PACKAGES.get(package) or (known.title if known is not None else package)


def with_pid(name: str, pid: int | str | None) -> str:
    """A process by its name, with its PID where that is known."""
    return say("{name} (PID {pid})", name=name, pid=pid) if pid is not None else name
