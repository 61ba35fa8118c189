"""Figures that no reader knows, by the names that stand beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose
from oomdoctor.families.event import Event, Place, Surroundings
from oomdoctor.incident.nearby import MOST, NEAREST, nearby


def around(text: str = "it failed", *, before: tuple[str, ...] = (), below: tuple[str, ...] = ()) -> Event:
    return Event(at=Place("a.log", 1, 1, text), around=Surroundings(before=before, below=below))


def figures(text: str) -> dict[str, tuple[float, ...]]:
    return nearby(around(text))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("arena size =  2.50 MiB", {"arena size": (2621440,)}),
        ("n_rows    = 512", {"n_rows": (512,)}),
        ("'used(GiB)': 1.5, 'epoch': 3", {"used(GiB)": (1610612736,), "epoch": (3,)}),
        ("left: 19 of 950 MiB", {"left": (19922944, 996147200)}),
        ("step 40/90", {"step": (40, 90)}),
        ("sort --host_mem 70000000000 --flag 1", {"host_mem": (70000000000,), "flag": (1,)}),
        ("tensor of shape (2048, 16)", {"tensor of shape": (2048, 16)}),
        ("12 workers, 3 groups", {"workers": (12,), "groups": (3,)}),
        ("rowsPerBlock (128) * maxBlocks (7)", {"rowsPerBlock": (128,), "maxBlocks": (7,)}),
        ("mmap of 4096 bytes failed with errno=12", {"mmap": (4096,), "failed with errno": (12,)}),
        ("timeout: 120000 ms", {"timeout": (120000,)}),
        ("rate=1.5e-05", {"rate": (1.5e-05,)}),
        ("1,234,567 rows", {"rows": (1234567,)}),
    ],
)
def test_a_figure_has_the_words_beside_it(text: str, found: dict[str, tuple[float, ...]]) -> None:
    assert figures(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "at 10:20:30 on 2024-03-01",
        "seen 2024/03/01",
        "listening on 10.0.0.7:8080",
        "release 1.2.3 of it",
        "address=0x7f12ab00",
        "/data/run12/part-003.bin",
        "model-7b-v2",
        "node12 and sha 3f2a9c11",
        "100%",
        "42",
    ],
)
def test_what_is_no_figure(text: str) -> None:
    assert figures(text) == {}


def test_the_message_first_then_the_nearest_lines_each_once() -> None:
    event = around("size: 3", before=("far: 1", "near: 2", "size: 3"), below=("behind: 4",))
    assert list(nearby(event)) == ["size", "behind", "near", "far"]
    many = around(below=tuple(f"row{n}: {n}" for n in range(NEAREST + 5)))
    assert len(nearby(many)) == NEAREST
    wide = around(" ".join(f"c{n}={n}," for n in range(90)))
    assert len(nearby(wide)) == MOST


def test_the_report_has_them_at_what_failed_first(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("sort --host_mem 70000000000\nterminate called after throwing an instance of 'std::bad_alloc'\n")
    events = diagnose(log).as_json()["events"]
    (root,) = [event for event in events if event["role"] == "root"]
    assert root["near"]["host_mem"] == [70000000000]
