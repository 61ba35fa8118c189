"""Rows of `ulimit -a`, as few of them as somebody kept, and what only looks like them."""

from __future__ import annotations

import pytest

from oomdoctor import families, streams
from oomdoctor.families.process_limits import ProcessLimits
from oomdoctor.units import KIB


def limits(text: str) -> list[ProcessLimits]:
    page = streams.page("job.log", 1, text.encode() + b"\n")
    return [found for found in families.read(page) if isinstance(found, ProcessLimits)]


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("max user processes              (-u) 700\nvirtual memory (kbytes, -v) 4194304", "processes", 700),
        ("max user processes              (-u) 700\nfile locks                      (-x) unlimited", "processes", 700),
        ("open files                      (-n) 1500\nmax user processes (-u) 700", "open_files", 1500),
        ("open files (-n) 1500\nvirtual memory (kbytes, -v) 4194304", "address_space_bytes", 4194304 * KIB),
        ("max locked memory (kbytes, -l) 96\nmax memory size (kbytes, -m) unlimited", "locked_bytes", 96 * KIB),
        ("stack size (kbytes, -s) 10240", "stack_bytes", 10240 * KIB),
        ("Max processes             700                  700                  processes", "processes", 700),
    ],
)
def test_rows_without_the_rest_of_the_listing(text: str, field: str, value: int) -> None:
    (found,) = limits(text)
    assert getattr(found, field) == value


@pytest.mark.parametrize(
    "text",
    [
        "usage: fit [-u NAME] [-n COUNT]",
        "run it with user (-u) or count (-n) and a size (kbytes, -k)",
        "max user processes (-u) are set by an administrator",
        "open files (-n) 12 of 40 done",
        "sizes are in kbytes, -1 for none",
    ],
)
def test_options_in_prose_are_no_limits(text: str) -> None:
    assert limits(text) == []
