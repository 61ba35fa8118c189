"""Slots about a release that needs more memory than it should."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from oomdoctor.incident.model import Crash
from oomdoctor.language import say, translated
from oomdoctor.report.headline.gpu import title
from oomdoctor.signs.releases import fitting

_FIXED: Final = ">="


def release(crash: Crash) -> str | None:
    """The package with its version, where that is printed or a framework pins it."""
    match = fitting(crash)
    if match is None or match.version is None:
        return None
    name = title(match.known.affected.package)
    if match.told == "printed":
        return f"{name} {match.version}"
    package, _, version = match.version.partition(" ")
    return say("{name} (pinned by {framework})", name=name, framework=f"{title(package)} {version}")


def suspect(crash: Crash) -> str | None:
    """The package with the versions that are known for it, where its own is not printed."""
    match = fitting(crash)
    if match is None or match.version is not None:
        return None
    return f"{title(match.known.affected.package)} {match.known.affected.versions}"


def flaw(crash: Crash) -> str | None:
    """What is known of it, as the rest of a sentence: "leaks ZeRO-3 parameters"."""
    match = fitting(crash)
    return translated(match.known.short) or None if match is not None else None


def fixed(crash: Crash) -> str | None:
    """The release that ends it."""
    match = fitting(crash)
    install = match.known.install if match is not None else None
    return install.partition(_FIXED)[2] or None if install else None


SLOTS: Final[Mapping[str, Callable[[Crash], str | None]]] = {
    slot.__name__: slot for slot in (fixed, flaw, release, suspect)
}
