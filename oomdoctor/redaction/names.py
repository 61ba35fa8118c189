"""Where personal names stand. One that is told once is known everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from ahocorasick_rs import AhoCorasick, MatchKind
from msgspec import Struct, field
from msgspec.structs import replace

from oomdoctor.redaction.kinds import matches, span
from oomdoctor.redaction.personal import PERSONAL, is_distinct
from oomdoctor.redaction.stretch import Stretch
from oomdoctor.redaction.views import View

_RANK = 1000  # behind every secret


class Known(Struct):
    """What texts told: users, hosts, and secrets, which another text may hold without their name or in halves."""

    users: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    secrets: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)  # what the logs are called


def told(view: View, known: Known) -> list[Stretch]:
    """Where the text tells a name by its form or by what stands around it; users and hosts among them are learned."""
    found: list[Stretch] = []
    for rank, kind in enumerate(PERSONAL):
        for match in matches(kind, view.text):
            start, end = span(match)
            value = view.text[start:end]
            if kind.name == "user":
                known.users.add(value)
            elif kind.name == "host" and is_distinct(value):
                known.hosts.add(value)
            found.append(_stretch(view, kind.name, _RANK + rank, start, end))
    return found


def told_elsewhere(view: View, known: Known) -> Iterator[Stretch]:
    """Where stands what was told elsewhere: a user as part of a path or before an @, a host as a word."""
    for start, end in _occurrences(known.secrets, view.text):
        yield replace(_stretch(view, "named", _RANK, start, end), put="<SECRET>", secret=True)
    for start, end in _occurrences(known.users, view.text):
        if _is_user(view.text[max(0, start - 20) : start], view.text[end : end + 1]):
            yield _stretch(view, "user", _RANK, start, end)
    for start, end in _occurrences(known.hosts, view.text):
        before, after = view.text[max(0, start - 2) : start], view.text[end : end + 2]
        if not _IN_WORD_BEFORE.search(before) and not _IN_WORD_AFTER.match(after):
            yield _stretch(view, "host", _RANK + len(PERSONAL), start, end)
    for start, end in _occurrences(known.files, view.text):
        yield from _in_file_name(view, known, start, end)


def _in_file_name(view: View, known: Known, start: int, end: int) -> Iterator[Stretch]:
    """A log may be called after its user or its host: mireille.log, slurm-88-larch-1.out."""
    name = view.text[start:end]
    for kind, words in (("user", known.users), ("host", known.hosts)):
        for first, last in _occurrences(words, name):
            if not name[max(0, first - 1) : first].isalnum() and not name[last : last + 1].isalnum():
                yield _stretch(view, kind, _RANK + len(PERSONAL), start + first, start + last)


def _is_user(before: str, after: str) -> bool:
    """Whether a user's name stands for the user, between these."""
    named = _AS_USER.search(before) and _USER_ENDS.match(after)
    return bool(named) or (after == "@" and not re.match(r"[\w.-]", before[-1:]))


_AS_USER = re.compile(r"(?:[/\\~]|user[=:]|GroupId=|(?:gid=|groups=|,)\d{1,10}\()\Z")
_USER_ENDS = re.compile(r"[^A-Za-z0-9]|\Z")
_IN_WORD_BEFORE = re.compile(r"[A-Za-z0-9](?:[.-])?\Z")
_IN_WORD_AFTER = re.compile(r"[A-Za-z0-9]|-[A-Za-z0-9]")


def _occurrences(words: AbstractSet[str], text: str) -> Iterator[tuple[int, int]]:
    """Where the words stand, the longest where several do."""
    if words:
        automaton = AhoCorasick(sorted(words), matchkind=MatchKind.LeftmostLongest)
        for _, start, end in automaton.find_matches_as_indexes(text):
            yield start, end


def _stretch(view: View, kind: str, rank: int, start: int, end: int) -> Stretch:
    return Stretch(view.start(start), view.end(end), rank, kind, kind.upper(), secret=False, value=view.text[start:end])
