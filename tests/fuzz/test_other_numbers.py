"""Every number of every fixture is another one: gigantic, negative, of another script, or none at all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fuzz.checks import Rigour, check
from fuzz.mutations import FIXTURES

OTHERS = {
    "gigantic": "9" * 5000,  # more digits than Python makes an int of
    "large": "9" * 30,
    "unknown": "17179869183.97",
    "negative": "-7",
    "nan": "nan",
    "infinite": "1e999",
    "of another script": "\u0663",
    "no decimal digit": "\u2460",
    "superscript": "\u00b2",
    "dots": "1.2.3",
    "commas": "1,,2,",
    "a point": ".",
    "nothing": "",
}
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


# All fixtures in a few tests, each shorter than what a test may take
QUARTERS = [pytest.param(first, 4, marks=pytest.mark.slow) for first in range(4)]


@pytest.mark.parametrize(("first", "one_in"), [(0, 12), *QUARTERS])
@pytest.mark.parametrize("other", OTHERS)
def test_a_report_comes_out_whatever_the_numbers_are(other: str, first: int, one_in: int, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    for number, fixture in enumerate(sorted(FIXTURES.glob("*/*.log"))[first::one_in]):
        text = NUMBER.sub(OTHERS[other], fixture.read_text(encoding="utf-8", errors="replace"))
        log.write_text(text, encoding="utf-8")
        check(log, len(text), Rigour(forms=False, schema=number % 10 == 0))
