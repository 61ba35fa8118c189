"""Where secrets and personal names stand in a text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from oomdoctor.records import dataclass
from oomdoctor.redaction import names, pem, views
from oomdoctor.redaction.kinds import KINDS, Kind
from oomdoctor.redaction.names import Names
from oomdoctor.redaction.stretch import Stretch
from oomdoctor.redaction.views import View


@dataclass(frozen=True, slots=True)
class Found:
    """A stretch to take out. What goes on behind a wrap or a prefix is a stretch of its own, with nothing to `put`."""

    kind: str
    line: int
    start: int
    end: int
    put: str
    secret: bool = True  # else it is personal: a host, a user, an address
    value: str = ""  # whom a pseudonym stands for


_STARTS = "(?!" + "|".join(f"(?:{kind.begins})" for kind in KINDS if kind.begins) + ")(?!(?<![.])eyJ)"
_USUAL_WIDTHS = frozenset((40, 72, 79, 80, 99, 100, 119, 120, 132, 140, 150, 159, 160, 180, 200, 220, 240, 256))
# How a line begins that goes on from none
_NEW_LINE = re.compile(
    r"export\b|set\b|[\w.-]{1,80}[=:]|(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL|Traceback|File|srun|sbatch)\b"
    r"|\d{4}-\d\d|--?[A-Za-z]"
)
# What a machine drew by lot
_DRAWN = re.compile(
    r"(?=\D{0,400}\d)(?=[^A-Z]{0,400}[A-Z])(?=[^a-z]{0,400}[a-z])[A-Za-z0-9+/_.-]{6,4000}={0,2}|[0-9a-f]{12,400}"
)


def find(text: str) -> list[Found]:
    """Every secret and personal name of the text, in its order; none overlaps another."""
    return look(text, Names())


def look(text: str, known: Names) -> list[Found]:
    """The same, with names that are known from elsewhere, to which those of this text are added."""
    shown = views.shown(text)
    plain = views.decoded(shown)
    ways = [shown, plain] if plain is not shown else [shown]
    stretches = list(pem.stretches(plain))
    for view in ways:
        names.learn(view, known)
    for view in ways:
        stretches += _in_view(view)
        stretches += names.stretches(view, known)
    stretches += _over_wraps(text, views.joined(plain, _STARTS))
    return _in_order(text, stretches)


def _matches(kind: Kind, text: str) -> Iterator[re.Match[str]]:
    if not any(sign in text for sign in kind.signs):
        return
    pattern, at = kind.compiled, 0
    while match := pattern.search(text, at):
        if kind.check(match):
            yield match
            at = match.end()
        else:  # what was taken for its value may hold another
            at = max(_span(match)[0], match.start() + 1)


def _span(match: re.Match[str]) -> tuple[int, int]:
    return match.span("it") if "it" in match.re.groupindex else match.span()


def _in_view(view: View) -> Iterator[Stretch]:
    for rank, kind in enumerate(KINDS):
        for match in _matches(kind, view.text):
            start, end = _span(match)
            yield Stretch(view.start(start), view.end(end), rank, kind.name, kind.put)


def _over_wraps(text: str, view: View) -> Iterator[Stretch]:
    for rank, kind in enumerate(KINDS):
        for match in _matches(kind, view.text):
            start, end = _span(match)
            parts = _parts(text, view, kind, start, end)
            for number, (part_start, part_end) in enumerate(parts if len(parts) > 1 else ()):
                put = "" if number else kind.put
                yield Stretch(view.start(part_start), view.end(part_end), rank, kind.name, put)


def _parts(text: str, view: View, kind: Kind, start: int, end: int) -> list[tuple[int, int]]:
    """The stretches of a match between its wraps, as far as it goes on over them."""
    parts: list[tuple[int, int]] = []
    for border in view.breaks(start, end):
        parts.append((start, border))
        if not _goes_on(text, view, kind, parts[0][0], border, end):
            return parts
        start = border
    return [*parts, (start, end)]


def _goes_on(text: str, view: View, kind: Kind, start: int, border: int, end: int) -> bool:
    """Whether what ends a line goes on at the beginning of the next."""
    if kind.full is not None and border - start >= kind.full:
        return False
    head = view.text[border:end]
    if kind.full is not None or (kind.begins and not kind.compiled.match(view.text[start:border])):
        return True
    if _NEW_LINE.match(head):
        return False
    at = view.end(border)
    width = at - (text.rfind("\n", 0, at) + 1)
    if width in _USUAL_WIDTHS or width >= 40 and width == _width_before(text, at):
        return True
    return _DRAWN.fullmatch(head) is not None


def _width_before(text: str, at: int) -> int:
    """How wide the line before the one that holds the position is."""
    here = text.rfind("\n", 0, at)
    return here - (text.rfind("\n", 0, max(here, 0)) + 1)


def _in_order(text: str, stretches: Sequence[Stretch]) -> list[Found]:
    """Overlapping stretches made one, each with its line."""
    merged: list[Stretch] = []
    for stretch in sorted(stretches, key=lambda s: (s.start, s.end)):
        if merged and stretch.start < merged[-1].end:
            merged[-1] = _both(merged[-1], stretch)
        else:
            merged.append(stretch)
    breaks = [match.start() for match in re.finditer("\n", text)] if merged else []
    return [Found(s.kind, bisect_right(breaks, s.start) + 1, s.start, s.end, s.put, s.secret, s.value) for s in merged]


def _both(one: Stretch, other: Stretch) -> Stretch:
    # What another kind has begun on an earlier line is not begun again here.
    first = min((one, other), key=lambda s: (not s.put, s.rank))
    return Stretch(one.start, max(one.end, other.end), first.rank, first.kind, first.put, first.secret, first.value)
