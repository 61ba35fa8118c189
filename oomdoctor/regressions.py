"""Releases that need more memory than others: what shows it, which they are, and what to install instead.

They stand in regressions.txt, which says how at its head.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from oomdoctor.language import say, translated
from oomdoctor.versions import Version, Versions, versions

TABLE: Final = Path(__file__).with_name("regressions.txt")


class Releases(Struct, frozen=True):
    """Some releases of a package."""

    package: str
    versions: Versions

    def __str__(self) -> str:
        return f"{self.package} {self.versions}"

    def holds(self, found: Version | None) -> bool:
        return found is not None and self.versions.holds(found)


class Carrier(Struct, frozen=True):
    """A framework that pins an affected release."""

    releases: Releases
    sound: str  # its release that pins another one
    pins: str  # which that is


class Symptom(Struct, frozen=True):
    weight: float
    kind: str
    words: tuple[str, ...]
    needed: bool  # nothing fits without it

    @property
    def text(self) -> str:
        return " ".join(self.words)


class Regression(Struct, frozen=True, kw_only=True):
    """One known case."""

    id: str
    what: str  # for a person
    short: str  # the same in a few words, as the rest of a sentence that begins with the release
    affected: Releases
    symptoms: tuple[Symptom, ...]
    pools: tuple[str, ...]
    seen: tuple[str, ...]
    carriers: tuple[Carrier, ...] = ()
    around: Releases | None = None
    dated: str | None = None
    install: str | None = None
    set: str | None = None
    cure: str | None = None
    worse: str | None = None  # what was advised once, and why not

    @property
    def cures(self) -> str:
        """What to do, in words: a clause."""
        if self.set:
            return say("use `{line}`", line=self.set)
        return say("use {release}", release=self.install or translated(self.cure or ""))


@cache
def regressions() -> tuple[Regression, ...]:
    """All entries of the table."""
    return tuple(_regression(block) for block in blocks(TABLE.read_text(encoding="utf-8")))


def blocks(text: str) -> Iterator[list[tuple[str, str]]]:
    """The facts of each entry, of which the first is its id."""
    block: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("["):
            block = [("id", line.strip("[]"))]
        elif line.strip() and not line.startswith("#"):
            key, _, value = line.partition(" ")
            block.append((key, value.strip()))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _regression(block: list[tuple[str, str]]) -> Regression:
    facts = dict(block)
    return Regression(
        id=facts["id"],
        what=facts["what"],
        short=facts["short"],
        affected=_releases(facts["affected"]),
        symptoms=tuple(_symptom(key, value) for key, value in block if key in ("must", "may")),
        pools=tuple(facts["pools"].split()),
        seen=tuple(facts["seen"].split()),
        carriers=tuple(_carrier(value) for key, value in block if key == "carrier"),
        around=_releases(facts["around"]) if "around" in facts else None,
        dated=facts.get("dated"),
        install=facts.get("install"),
        set=facts.get("set"),
        cure=facts.get("cure"),
        worse=facts.get("worse"),
    )


def _releases(text: str) -> Releases:
    package, _, wanted = text.partition(" ")
    return Releases(package, versions(wanted))


def _carrier(text: str) -> Carrier:
    releases, sound, pins = (part.strip() for part in text.split("|"))
    return Carrier(_releases(releases), sound, pins)


def _symptom(key: str, text: str) -> Symptom:
    weight, kind, *words = text.split()
    return Symptom(float(weight), kind, tuple(words), needed=key == "must")
