from __future__ import annotations

import pytest
from sample_reports import NODE

from oomdoctor.report.contract import Ledger, LedgerRow
from oomdoctor.report.html.bars import LETTERS, MOST_PARTS, Bar, bar

GIB = 1024**3


def of(total: int | None, *rows: tuple[str, float | None], unexplained: int | None = None) -> Bar:
    made = tuple(
        LedgerRow(what, None if size is None else round(size * GIB), "printed" if size else "unknown", 1)
        for what, size in rows
    )
    return bar(Ledger("gpu", "gpu 0", None if total is None else total * GIB, made, unexplained))


def test_the_largest_first_and_what_was_free_last() -> None:
    made = bar(NODE)
    assert [(part.what, part.letter, part.fill) for part in made.parts] == [
        ("reward server (PID 230)", "A", "c0"),
        ("everything else in use", "B", "c1"),
        ("PolicyActor (PID 4471)", "C", "c2"),
        ("object store", "", ""),
        ("free", "", "free"),
    ]
    assert [part.width for part in made.parts] == [68.75, 21.25, 5.0, 0.0, 5.0]
    assert [part.x for part in made.parts] == [0.0, 68.75, 90.0, 95.0, 95.0]
    assert made.patterns == ("printed", "derived", "free")
    assert made.end_of_total is None


def test_what_is_not_known_has_no_part() -> None:
    made = of(80, ("weights", 40.0), ("others", None))
    assert [(part.bytes, part.share, part.width) for part in made.parts] == [(40 * GIB, 0.5, 50.0), (None, None, 0.0)]


def test_what_nobody_explains_has_one_before_what_was_free() -> None:
    made = of(80, ("free", 20.0), ("weights", 40.0), unexplained=20 * GIB)
    assert [(part.what, part.x, part.pattern) for part in made.parts] == [
        ("weights", 0.0, "printed"),
        ("not explained", 50.0, "unexplained"),
        ("free", 75.0, "free"),
    ]


@pytest.mark.parametrize("rounding", [1, -1, 50 * 1024**2])
def test_what_rounding_leaves_is_no_row(rounding: int) -> None:
    assert [part.what for part in of(80, ("weights", 80.0), unexplained=rounding).parts] == ["weights"]


def test_rows_that_are_more_than_there_is_show_where_the_total_ends() -> None:
    made = of(80, ("weights", 60.0), ("cache", 40.0), unexplained=-20 * GIB)
    assert made.end_of_total == 80.0
    assert [(part.what, part.width) for part in made.parts] == [
        ("weights", 60.0),
        ("cache", 40.0),
        ("more than there is, by", 0.0),
    ]


def test_a_size_below_zero_is_told_and_not_drawn() -> None:
    made = of(8, ("weights", 8.5), ("KV cache", -0.5))
    assert [(part.width, part.bytes) for part in made.parts] == [(100.0, round(8.5 * GIB)), (0.0, -GIB // 2)]
    assert made.parts[1].share == -0.0625


def test_without_a_total_the_rows_are_the_whole() -> None:
    made = of(None, ("weights", 3.0), ("cache", 1.0))
    assert [(part.width, part.share) for part in made.parts] == [(75.0, None), (25.0, None)]


@pytest.mark.parametrize("rows", [(), (("weights", None),), (("weights", 0.0),)])
def test_nothing_to_draw(rows: tuple[tuple[str, float | None], ...]) -> None:
    assert not of(80, *rows).drawn
    assert not of(None, *rows).drawn


def test_many_rows_share_one() -> None:
    made = of(1000, *((f"worker {number}", 1.0 + number / 10) for number in range(100)))
    assert len(made.parts) == MOST_PARTS + 1 <= len(LETTERS)
    assert made.parts[-1].what == "76 smaller rows together"
    assert made.parts[-1].basis == "derived"
    assert sum(part.bytes or 0 for part in made.parts) == sum(round((1 + number / 10) * GIB) for number in range(100))
    assert all(part.x + part.width <= 100.001 for part in made.parts)


def test_a_part_too_small_for_its_letter_has_none() -> None:
    assert [part.shows_letter for part in of(100, ("weights", 90.0), ("cache", 4.0)).parts] == [True, False]


def test_what_the_text_says_is_not_explained_has_a_row_of_a_large_card_too() -> None:
    assert [part.what for part in of(80, ("weights", 79.0), unexplained=70 * 1024**2).parts][-1] == "not explained"
