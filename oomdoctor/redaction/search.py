"""Where secrets and personal names stand in a text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.redaction import names, pem, views
from oomdoctor.redaction.kinds import KINDS, Kind, matches, span
from oomdoctor.redaction.names import Known
from oomdoctor.redaction.stretch import Stretch
from oomdoctor.redaction.views import LEAD, View


class Found(Struct, frozen=True):
    """A stretch to take out. What goes on behind a wrap or a prefix is a stretch of its own, with nothing to `put`."""

    kind: str
    line: int
    start: int
    end: int
    put: str
    secret: bool = True  # else it is personal: a host, a user, an address
    value: str = ""  # whom a pseudonym stands for


_STARTS = "(?!" + "|".join(f"(?:{kind.begins})" for kind in KINDS if kind.begins) + ")"
_USUAL_WIDTHS = frozenset((40, 72, 79, 80, 99, 100, 119, 120, 132, 140, 150, 159, 160, 180, 200, 220, 240, 256))
# How a line begins that goes on from none
_NEW_LINE = re.compile(
    r"export\b|set\b|[A-Z][A-Z0-9_]{2,40}[=:](?=[^=:])|(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL|Traceback|File|srun|sbatch)\b"
    r"|\d{4}-\d\d-|--[a-z]"
)
# How a message begins, which no secret's rest looks like
_MESSAGE = re.compile(
    r"(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}?(?:Error|Exception|Warning|Interrupt|Failure|Exit)\b"
    r"|(?:Traceback|File|Killed|Aborted|Segmentation|TRACE|DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)(?=[ :]|\Z)"
    r"|/(?:usr|opt|home|tmp|root|data|mnt|var|workspace)/|\d{4}-\d\d-\d\d[ T]"
)
_PROSE = re.compile(r"(?:[A-Z]?[a-z]{3,20}|[A-Z]{3,20})(?=[ .,:]|\Z)")
_HEX = re.compile("[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}")
# What a machine drew by lot
_DRAWN = re.compile(
    r"(?=\D{0,400}\d)(?=[^A-Z]{0,400}[A-Z])(?=[^a-z]{0,400}[a-z])[A-Za-z0-9+/_.-]{6,4000}={0,2}|[0-9a-f]{12,400}"
)


_PERSONAL_FIRST = (("EMAIL",), ("BUCKET",), ("IP",), ("USER", "HOST"))


def find(text: str) -> list[Found]:
    """Every secret and personal name of the text, in its order; none overlaps another."""
    return look(text, Known())


def look(text: str, known: Known) -> list[Found]:
    """The same, with names that are known from elsewhere, to which those of this text are added."""
    shown = views.shown(text)
    encoded = views.encoded_lines(shown)
    more = (views.decoded(encoded) if encoded else None, views.otherwise_shown(text))
    ways = [shown, *(view for view in more if view)]
    stretches: list[Stretch] = []
    for view in ways:
        stretches += pem.stretches(view)
        stretches += names.told(view, known)
    for view in ways:
        stretches += _in_view(view)
        stretches += _over_wraps(views.joined(view, _STARTS))
        stretches += names.told_elsewhere(view, known)
        stretches += _cut(view)
    return _in_order(text, stretches)


def _in_view(view: View) -> Iterator[Stretch]:
    for rank, kind in enumerate(KINDS):
        for match in matches(kind, view.text):
            start, end = span(match)
            yield Stretch(view.start(start), view.end(end), rank, kind.name, kind.put)


# The beginning of a secret where a text was cut
_CUT = re.compile(
    "(?<![A-Za-z0-9])(?:"
    + "|".join(kind.begins for kind in KINDS if kind.begins)
    + r"|eyJ)(?=[A-Za-z_-]{0,200}\d)[A-Za-z0-9_.-]{4,8000}(?=…|\.\.\.|\Z)"
)


def _cut(view: View) -> Iterator[Stretch]:
    end = len(view.text)
    places = [match.start() for match in re.finditer(r"…|\.\.\.", view.text)]
    for place in [*places, end]:
        for match in _CUT.finditer(view.text, max(0, place - 400), place):
            if match.end() == place:
                yield Stretch(view.start(match.start()), view.end(place), len(KINDS), "cut", "<SECRET>")


def _over_wraps(view: View) -> Iterator[Stretch]:
    for rank, kind in enumerate(KINDS):
        for match in matches(kind, view.text):
            start, end = span(match)
            if not all(_is_full(view, border) for border in view.breaks(match.start(), start)):
                continue
            whole = end if kind.full is None else min(end, start + kind.full)
            parts = _parts(view, kind, start, whole)
            if len(parts) == 1 and parts[0][1] < end:
                continue  # it ends with its line, where it is found without the next
            for number, (part_start, part_end) in enumerate(parts):
                put = "" if number else kind.put
                yield Stretch(view.start(part_start), view.end(part_end), rank, kind.name, put)


def _parts(view: View, kind: Kind, start: int, end: int) -> list[tuple[int, int]]:
    """The stretches of a match between its wraps, as far as it goes on over them."""
    parts: list[tuple[int, int]] = []
    at = start
    for border in view.breaks(start, end):
        if border > at:
            parts.append((at, border))
        if not _goes_on(view, kind, start, border, end):
            return parts
        at = border
    return [*parts, (at, end)]


def _goes_on(view: View, kind: Kind, start: int, border: int, end: int) -> bool:
    """Whether what ends a line goes on at the beginning of the next."""
    done, head = view.text[start:border], view.text[border:end]
    if _is_whole(kind, done, head) or any(begins.match(view.text, border) for begins in (_MESSAGE, _NEW_LINE)):
        return False
    full, prose = _is_full(view, border), _PROSE.match(view.text, border) is not None
    if kind.begins and not kind.compiled.match(done):
        return full or not prose
    if _DRAWN.fullmatch(head) or _is_usual(view.line_before(border)):
        return True
    in_quotes = view.text[start - 1 : start] in ("'", '"')
    return full and (in_quotes or not prose)


def _is_whole(kind: Kind, done: str, head: str) -> bool:
    """Whether what ends a line is a secret as long as those of its kind are, so that nothing of it follows."""
    if kind.full is not None and len(done) >= kind.full:
        return True
    if _HEX.fullmatch(done):
        return re.match("[0-9a-f]{8}", head) is None
    return any(one.full == len(done) and one.compiled.fullmatch(done) for one in KINDS if one.begins)


def _is_full(view: View, border: int) -> bool:
    """Whether the line that was cut there is as wide as a terminal, or as the line before it."""
    line = view.line_before(border)
    return _is_usual(line) or (len(line) >= 40 and len(line) == len(view.line_before(border, 1)))


def _is_usual(line: str) -> bool:
    lead = LEAD.match(line)
    return len(line) in _USUAL_WIDTHS or (lead is not None and len(line) - lead.end() in _USUAL_WIDTHS)


def _in_order(text: str, stretches: Iterable[Stretch]) -> list[Found]:
    """One stretch where several overlap, each with its line."""
    taken: list[Stretch] = []
    for stretch in sorted((s for s in stretches if s.secret), key=lambda s: (s.start, s.end)):
        if taken and stretch.start < taken[-1].end:
            taken[-1] = _both(taken[-1], stretch)
        else:
            taken.append(stretch)
    for group in _PERSONAL_FIRST:  # what is personal inside of a secret goes with it
        names = [s for s in stretches if not s.secret and s.put in group]
        taken = _beside(taken, sorted(names, key=lambda s: (s.start, -s.end)))
    breaks = [match.start() for match in re.finditer("\n", text)] if taken else []
    return [Found(s.kind, bisect_right(breaks, s.start) + 1, s.start, s.end, s.put, s.secret, s.value) for s in taken]


def _beside(taken: list[Stretch], more: list[Stretch]) -> list[Stretch]:
    """Those taken, and those of the others that overlap none before them."""
    free: list[Stretch] = []
    starts = [s.start for s in taken]
    end = 0
    for stretch in more:
        before = bisect_right(starts, stretch.start)
        clear = (before == 0 or taken[before - 1].end <= stretch.start) and (
            before == len(taken) or stretch.end <= taken[before].start
        )
        if clear and stretch.start >= end:
            free.append(stretch)
            end = stretch.end
    return sorted([*taken, *free], key=lambda s: s.start)


def _both(one: Stretch, other: Stretch) -> Stretch:
    # What another kind has begun on an earlier line is not begun again here.
    first = min((one, other), key=lambda s: (not s.put, s.rank))
    return replace(first, start=one.start, end=max(one.end, other.end))
