"""Releases, and ranges of them: "0.8.5.post1", ">=0.5.8 <0.10.2"; builds with a number alone: "b4500", "<b6325"."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from oomdoctor.patterns import late

Version = tuple[int, ...]
_RELEASE: Final = late(r"v?(\d{1,4}(?:\.\d{1,4}){1,3})|b?(\d{3,5})\Z")
_BOUND: Final = late(r"(>=|<=|<|>|==)b?(\d{1,5}(?:\.\d{1,4}){0,3})")
_ENDLESS: Final[Version] = (10**6,)


def version_of(text: str | None) -> Version | None:
    """The release that a version names: "v0.10.1.1+cu128" is (0, 10, 1, 1), "0.8.5.post1" is (0, 8, 5)."""
    match = _RELEASE.match(text or "")
    return tuple(int(part) for part in (match[1] or match[2]).split(".")) if match else None


class Versions(Struct, frozen=True):
    """From one release (with it) to another (without it)."""

    since: Version = ()
    before: Version = _ENDLESS
    text: str = ""

    def __str__(self) -> str:
        return self.text

    @classmethod
    def exactly(cls, printed: str | None) -> Versions | None:
        version = version_of(printed)
        return None if version is None else cls(version, _after(version), printed or "")

    def holds(self, version: Version) -> bool:
        return self.since <= version < self.before

    def overlaps(self, other: Versions) -> bool:
        return self.since < other.before and other.since < self.before

    def covers(self, other: Versions) -> bool:
        return self.since <= other.since and other.before <= self.before

    def both(self, other: Versions) -> Versions | None:
        """What both hold; None where that is nothing."""
        if not self.overlaps(other):
            return None
        since, before = max(self.since, other.since), min(self.before, other.before)
        return Versions(since, before, _spelled(since, before))

    def either(self, other: Versions) -> Versions:
        """From the first of both to the last of both."""
        since, before = min(self.since, other.since), max(self.before, other.before)
        return ALL if (since, before) == (ALL.since, ALL.before) else Versions(since, before, _spelled(since, before))


ALL: Final = Versions()


def versions(text: str) -> Versions:
    """The range that a cell of a table states."""
    since, before = ALL.since, ALL.before
    for sign, number in _BOUND.findall(text):
        bound = tuple(int(part) for part in number.split("."))
        if sign in (">=", "==", ">"):
            since = max(since, _after(bound) if sign == ">" else bound)
        if sign in ("<", "<=", "=="):
            before = min(before, bound if sign == "<" else _after(bound))
    return Versions(since, before, text.strip())


def _spelled(since: Version, before: Version) -> str:
    bounds = ((">=", since, ALL.since), ("<", before, ALL.before))
    return " ".join(f"{sign}{'.'.join(map(str, bound))}" for sign, bound, open_end in bounds if bound != open_end)


def _after(version: Version) -> Version:
    """The bound that shuts a release in, with its post-releases: 0.7.1 and 0.7.1.post1, not 0.7.2."""
    return (*version[:-1], version[-1] + 1)
