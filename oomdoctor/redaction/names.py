"""Where personal names stand. One that is told once is known everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from oomdoctor.redaction.kinds import matches, span
from oomdoctor.redaction.personal import PERSONAL, is_distinct
from oomdoctor.redaction.stretch import Stretch
from oomdoctor.redaction.views import View

_RANK = 1000  # behind every secret


@dataclass(slots=True)
class Names:
    """The users and hosts that a text told of."""

    users: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)


def told(view: View, names: Names) -> list[Stretch]:
    """Where the text tells a name by its form or by what stands around it; users and hosts among them are learned."""
    found: list[Stretch] = []
    for rank, kind in enumerate(PERSONAL):
        for match in matches(kind, view.text):
            start, end = span(match)
            value = view.text[start:end]
            if kind.name == "user":
                names.users.add(value)
            elif kind.name == "host" and is_distinct(value):
                names.hosts.add(value)
            found.append(_stretch(view, kind.name, _RANK + rank, start, end))
    return found


def known(view: View, names: Names) -> Iterator[Stretch]:
    """Where names stand that were told elsewhere: a user as part of a path or before an @, a host as a word."""
    if names.users:
        user = re.compile(
            rf"(?:(?<=[/\\~])|(?<=user=)|(?<=user:)|(?<![\w.-])(?=[\w.-]{{1,64}}@))({_any(names.users)})(?![A-Za-z0-9])"
        )
        for match in user.finditer(view.text):
            yield _stretch(view, "user", _RANK, *match.span(1))
    if names.hosts:
        host = re.compile(rf"(?<![A-Za-z0-9])(?<![A-Za-z0-9][.-])({_any(names.hosts)})(?![A-Za-z0-9]|-[A-Za-z0-9])")
        for match in host.finditer(view.text):
            yield _stretch(view, "host", _RANK + len(PERSONAL), *match.span(1))


def _any(names: Iterable[str]) -> str:
    return "|".join(re.escape(name) for name in sorted(names, key=lambda name: (-len(name), name)))


def _stretch(view: View, kind: str, rank: int, start: int, end: int) -> Stretch:
    return Stretch(view.start(start), view.end(end), rank, kind, kind.upper(), secret=False, value=view.text[start:end])
