from __future__ import annotations

from oomdoctor.report.sparkline import sparkline


def test_a_rise() -> None:
    assert sparkline(range(8), 48, unicode=True) == "▁▂▃▄▅▆▇█"
    assert sparkline(range(8), 48, unicode=False) == "_.,:-=+#"


def test_first_and_last_are_there_however_narrow_it_is() -> None:
    line = sparkline(range(1000), 10, unicode=True)
    assert len(line) == 10
    assert (line[0], line[-1]) == ("▁", "█")


def test_what_stays_is_a_level_line() -> None:
    assert len(set(sparkline([70] * 9, 48, unicode=True))) == 1


def test_it_begins_at_the_least_where_that_is_most_of_it() -> None:
    assert sparkline([100, 101, 102], 48, unicode=True) == "▁▅█"
    assert sparkline([50, 75, 100], 48, unicode=True)[0] == "▅"


def test_nothing_of_one_point() -> None:
    assert sparkline([5], 48, unicode=True) == ""
