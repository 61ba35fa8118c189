"""The lines of a log that an issue gets: those around the events, numbered as `grep -n` numbers them."""

from __future__ import annotations

from pathlib import Path

import pytest
from crash_logs import CRASH

from oomdoctor import diagnose
from oomdoctor.helpers.excerpt import AFTER, BEFORE, LONGEST_LINE, Line, lines, within
from oomdoctor.sources import gather

OOM = CRASH[CRASH.index("torch.OutOfMemoryError") :]


def excerpt(path: Path) -> tuple[Line, ...]:
    report = diagnose(path)
    return lines(report, report.incidents[0], gather([str(path)])[0])


@pytest.mark.parametrize("ahead", [0, 3, 5_000, 300_000])
def test_a_line_s_number_is_its_number(tmp_path: Path, ahead: int) -> None:
    path = tmp_path / "train.log"
    path.write_text("".join(f"line {n} of some length\n" for n in range(1, ahead + 1)) + OOM + "after\n" * 50)
    found = excerpt(path)
    assert [line.text for line in found if line.distance == 0] == [OOM.rstrip("\n")]
    assert [line.number for line in found if line.distance == 0] == [ahead + 1]
    before = [line for line in found if line.number <= ahead]
    assert len(before) == min(ahead, BEFORE)
    assert all(line.text == f"line {line.number} of some length" for line in before)
    assert len([line for line in found if line.text == "after"]) == AFTER


def test_a_log_without_a_last_line_s_end(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("one\n" + OOM.rstrip("\n"))
    assert [line.number for line in excerpt(path)] == [1, 2]


def test_long_lines_are_cut_and_progress_bars_are_their_last_state(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(b"x" * 3_000_000 + b"\n1%|a\r2%|b\r3%|c\n\x1b[31mred\x1b[0m\n" + OOM.encode())
    texts = [line.text for line in excerpt(path)]
    assert texts[0] == "x" * (LONGEST_LINE - 400) + " [cut]"  # a word is cut off whole, as far as one is long
    assert texts[1:3] == ["3%|c", "red"]


def test_of_little_room_the_events_take_it_first() -> None:
    found = [Line("a.log", number, f"line {number}", abs(number - 10)) for number in range(1, 21)]
    assert within(found, 8) == "[a.log, from line 10]\nline 10"
    assert within(found, 3 * 8) == "[a.log, from line 9]\nline 9\nline 10\nline 11"
    assert within(found, 3) == ""


def test_gaps_and_files_are_marked() -> None:
    found = [Line("a.log", 1, "one", 0), Line("a.log", 3, "three", 0), Line("b.log", 4, "four", 0)]
    assert within(found, 100) == ("[a.log, from line 1]\none\n[a.log, from line 3]\nthree\n[b.log, from line 4]\nfour")
