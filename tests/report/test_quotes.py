"""Of a message that goes over several lines the report quotes the one that holds the headline's figures."""

from __future__ import annotations

import pytest

from oomdoctor import streams
from oomdoctor.families.event import Place
from oomdoctor.families.lines import place_of
from oomdoctor.report.quotes import quoted

FIRST = "OutOfMemoryError: CUDA out of memory. Tried to allocate 640.00 MiB."
ROOM = "GPU 3 has a total capacity of 47.54 GiB of which 211.44 MiB is free."
HELD = "Of the allocated memory 40.10 GiB is allocated by PyTorch."
NEEDED = "The backward pass needed 640 MiB more; 211 MiB of 47.54 GiB were free on GPU 3"


def lines(*texts: str, headline: str, explanation: str = "") -> list[int]:
    first, *rest = texts
    place = Place("job.log", 1, len(texts), first, tuple(enumerate(rest, start=2)))
    return [line for line, _ in quoted(place, headline, explanation)]


@pytest.mark.parametrize(
    ("texts", "headline", "explanation"),
    [
        ((FIRST, ROOM, HELD), NEEDED, ""),
        (("could not create the KV cache", "Free memory (GiB): 61.25"), "KV cache failed", "it takes 61.25 GiB"),
        (("the model's length (200000),", "9.5 GiB needed, 7.25 GiB there"), "need 9.50 GiB of 7.25 GiB", ""),
        (("cgroup stats", "Killed process 31337 (worker) anon-rss:499712kB"), "killed PID 31337: 488 MiB", ""),
        (("no memory", "Required: 131072 MB"), "128 GiB are needed", ""),
        (("on device 0", "limit 2.00 GiB"), "0 bytes of 2.00 GiB were free", ""),
        (("kill process 31337", "killed process 31337 anon-rss:499712kB"), "killed PID 31337, which held 488 MiB", ""),
    ],
)  # fmt: skip
def test_the_line_with_the_figures_is_quoted_too(texts: tuple[str, ...], headline: str, explanation: str) -> None:
    assert lines(*texts, headline=headline, explanation=explanation) == [1, 2]


@pytest.mark.parametrize(
    ("texts", "headline", "explanation"),
    [
        ((f"{FIRST} {ROOM}", HELD), NEEDED, ""),  # all of them in the first line
        ((FIRST, HELD), NEEDED, ""),  # none of them in the other
        ((FIRST, "640.00 MiB again"), NEEDED, ""),  # the same once more
        ((ROOM, FIRST), NEEDED, ""),  # fewer than in the first
        (
            ("killed", "step 47 of 640, GPU 3"),
            "Node 3 is full: 47 GiB of 640",
            "",
        ),  # without their unit they are others
        (("killed", "took 640.00 KiB"), "640 MiB were missing", ""),
        (("killed", HELD), "worker died", "it was killed"),  # nothing to look for
        ((FIRST,), NEEDED, ""),
        (("asked for 640 MiB", "a cap of 2.00 GiB"), "640 MiB were missing", "the cap is 2.00 GiB"),
    ],
)
def test_else_the_first_line_is_enough(texts: tuple[str, ...], headline: str, explanation: str) -> None:
    assert lines(*texts, headline=headline, explanation=explanation) == [1]


def test_a_place_keeps_its_message_s_lines_and_nobody_else_s() -> None:
    text = (
        "(Worker pid=11) begins\n(Other pid=12) says something\n(Worker pid=11) goes on\nbare\n(Worker pid=11) next\n"
    )
    page = streams.page("job.log", 1, text.encode())
    place = place_of(page, page.lines[0], page.lines[3])
    assert [line for line, _ in place.below] == [3, 4]
    assert place.text == "(Worker pid=11) begins"
    assert place_of(page, page.lines[0]).below == ()
    assert place_of(page, page.lines[2], page.lines[0]).below == ()
