"""What stands around an event: the lines before and after it, and the traceback that it ends."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oomdoctor.families.event import Frame, Surroundings
from oomdoctor.streams import Line, Page

BEFORE = 60
AFTER = 40

_FRAME = re.compile(r'^\s*File "([^"]{1,400})", line (\d{1,7}), in (\S{1,200})')


def around(page: Page, index: int) -> Surroundings:
    before = page.before(index, BEFORE)
    after = page.after(index, AFTER)[1:]
    return Surroundings(
        before=tuple(line.text for line in before),
        after=tuple(line.text for line in after),
        trace=frames(before),
    )


def frames(lines: Sequence[Line]) -> tuple[Frame, ...]:
    """The frames of the last traceback in these lines, innermost last."""
    found: list[Frame] = []
    for position, line in enumerate(lines):
        if "Traceback (most recent call last)" in line.text:
            found.clear()
        match = _FRAME.match(line.text)
        if match is None:
            continue
        after = lines[position + 1].text.strip() if position + 1 < len(lines) else ""
        code = "" if _FRAME.match(after) or after.startswith("Traceback") else after
        found.append(Frame(match[1], int(match[2]), match[3], code))
    return tuple(found)
