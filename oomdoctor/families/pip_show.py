"""`pip show`: which release of a package is installed, in pip's environment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Lookalike, Read, Role
from oomdoctor.families.lines import place_of
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Page

CHARACTERS: Final = 200


class InstalledPackage(Event, frozen=True, kw_only=True):
    """One package."""

    family = "pip_show"
    kind = "installed-package"

    role: Role = "context"

    name: str
    version: str


_NAME = late(r"^\s{0,4}Name: (?P<name>[A-Za-z0-9][\w.-]{0,80})\s{0,4}$")
_VERSION = late(r"^\s{0,4}Version: (?P<version>\d[\w.+!-]{0,40})\s{0,4}$")
_MISSING = late(r"^\s{0,4}WARNING: Package\(s\) not found: \S")


def read(page: Page, index: int) -> Iterator[Read]:
    lines = page.after(index, 2)
    if _MISSING.match(lines[0].text[:CHARACTERS]):
        why = mark("pip does not find this package in its environment")
        yield Lookalike(place_of(page, lines[0]), why)
        return
    name = _NAME.match(lines[0].text[:CHARACTERS])
    version = _VERSION.match(lines[-1].text[:CHARACTERS])
    if name is not None and version is not None:
        package = name["name"].lower().replace("_", "-")
        yield InstalledPackage(at=place_of(page, lines[0], lines[-1]), name=package, version=version["version"])


FAMILY = Family(
    name="pip_show",
    anchors=(),
    triggers=("Name: ", "Package(s) not found: "),
    read=read,
)
