"""Tests that take long and do not say so: `pytest --junitxml=FILE`, then `python .ci/durations.py FILE`.

Without `-m`, pytest runs what is not marked as slow. Prints what took longer than a second of that, and ends with 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree as ET

LONG_S: Final = 1.0  # with what its fixtures take


def long_ones(file: str) -> Iterator[tuple[float, str]]:
    for case in ET.parse(file).iter("testcase"):  # noqa: S314  (of our own pytest)
        seconds = float(case.get("time", 0))
        if seconds > LONG_S:
            yield seconds, f"{case.get('classname')}::{case.get('name')}"


def main(file: str) -> int:
    found = sorted(long_ones(file), reverse=True)
    for seconds, name in found:
        sys.stdout.write(f"{seconds:6.2f} s  {name}\n")
    if found:
        sys.stdout.write(f"{len(found)} tests took longer than {LONG_S:g} s: mark them as slow, or let them do less\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
