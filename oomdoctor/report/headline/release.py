"""Slots about a release that needs more memory than it should."""

from __future__ import annotations

from typing import Final

from oomdoctor.language import say, translated
from oomdoctor.report.headline.names import title
from oomdoctor.report.headline.slot import about
from oomdoctor.signs.releases import Match, fitting

_FIXED: Final = ">="


@about(fitting)
def release(match: Match) -> str | None:
    """The package with its version, where that is printed or a framework pins it."""
    if match.version is None:
        return None
    name = title(match.known.affected.package)
    if match.told == "printed":
        return f"{name} {match.version}"
    package, _, version = match.version.partition(" ")
    return say("{name} (pinned by {framework})", name=name, framework=f"{title(package)} {version}")


@about(fitting)
def suspect(match: Match) -> str | None:
    """The package with the versions that are known for it, where its own is not printed."""
    affected = match.known.affected
    return f"{title(affected.package)} {affected.versions}" if match.version is None else None


@about(fitting)
def flaw(match: Match) -> str | None:
    """What is known of it, as the rest of a sentence: "leaks ZeRO-3 parameters"."""
    return translated(match.known.short)


@about(fitting)
def fixed(match: Match) -> str | None:
    """The release that ends it."""
    return (match.known.install or "").partition(_FIXED)[2] or None
