"""No pattern of the package takes superlinear time, whatever text it is given.

Each is attacked with what its own tree says that it repeats, at one length; where that takes long, at eight times the
length. What grows with the length alone stays a hundredth of the limit, what grows with its square far exceeds it.
"""

from __future__ import annotations

import pytest

from fuzz import patterns

pytestmark = pytest.mark.slow

SHORT, LONG = 1000, 8000  # characters; longer texts are searched with a limit of time (oomdoctor/patterns.py)
WORTH_A_LOOK = 3e6 / SHORT  # nanoseconds per character: three milliseconds
LIMIT = 0.4e9 / LONG  # 0.4 seconds


def slow(found: dict[tuple[str, int], bool]) -> list[str]:
    dear = []
    for (pattern, flags), anchored in found.items():
        price, number = patterns.worst(pattern, flags, SHORT, anchored=anchored)
        if price > WORTH_A_LOOK and patterns.grown(pattern, flags, LONG, number, anchored=anchored) > LIMIT:
            dear.append(pattern)
    return dear


def test_no_pattern_of_the_package_can_be_kept_busy() -> None:
    found = patterns.package_patterns()
    assert len(found) > 1000
    assert slow(found) == []


def test_a_pattern_that_can_be_kept_busy_is_seen() -> None:
    hostile = {(r"(?:a+)+!", 0): False, (r"(\w+\s?)*$", 0): True, (r"x\s*y?\s*z?\s*!", 0): True}
    assert slow(hostile) == [pattern for pattern, _ in hostile]
