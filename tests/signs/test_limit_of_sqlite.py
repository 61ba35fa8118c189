"""SQLite below a limit of its own: no machine is too small for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

STARTED = "+ python -u load.py {}\n"
PRAGMA = "09:00 PRAGMA hard_heap_limit = 33554432\n"
SORTS = "09:00 PRAGMA temp_store = MEMORY\n"
CALL = 'Traceback (most recent call last):\n  File "/srv/load.py", line 9, in run\n    {}\nMemoryError\n'
SORT = CALL.format('rows = db.execute("SELECT * FROM t ORDER BY b").fetchall()')


def first(tmp_path: Path, text: str) -> dict[str, Any]:
    diagnosis: dict[str, Any] = body(tmp_path, text)["diagnoses"][0]
    return diagnosis


@pytest.mark.parametrize("call", ["db.executemany(SQL, rows)", "db.commit()", "cursor.fetchall()"])
@pytest.mark.parametrize("line", [PRAGMA, "sqlite3_hard_heap_limit64(33554432)\n", '{"hard_heap_limit": 33554432}\n'])
def test_its_calls_stop_at_it(line: str, call: str, tmp_path: Path) -> None:
    diagnosis = first(tmp_path, line + CALL.format(call))
    assert diagnosis["cause"] == "allocator-cap"
    assert diagnosis["headline"].startswith("SQLite's memory limit of 32 MiB was hit")


@pytest.mark.parametrize(
    "text",
    [
        SORT,
        PRAGMA.replace("33554432", "0") + SORT,
        PRAGMA.replace("hard_heap", "soft_heap") + SORT,  # which refuses nothing
        PRAGMA + CALL.format("table = [row for row in numbers]"),
        PRAGMA + SORT.replace("MemoryError", "MemoryError: Unable to allocate 3.2 GiB for an array"),
        "why hard_heap_limit was left out: 33554432\n" + SORT,
    ],
)
def test_what_is_not_its_limit(text: str, tmp_path: Path) -> None:
    assert first(tmp_path, text)["cause"] != "allocator-cap"


def test_what_it_sorts_goes_to_a_disk_or_the_limit_up(tmp_path: Path) -> None:
    remedies = first(tmp_path, STARTED.format("") + SORTS + PRAGMA + SORT)["remedies"]
    assert [one["snippet"] for one in remedies[:2]] == [
        "PRAGMA temp_store=FILE;",
        "PRAGMA hard_heap_limit=67108864;",
    ]
    assert "more-host-memory" not in str(remedies)


def test_by_the_options_of_the_program(tmp_path: Path) -> None:
    options = STARTED.format("--temp-store memory --heap-limit-mb 32 --cache-mb 8")
    remedies = first(tmp_path, options + SORTS + PRAGMA + SORT)["remedies"]
    assert [one["snippet"] for one in remedies] == ["--temp-store FILE", "--heap-limit-mb 64", "--cache-mb 4"]


def test_nothing_that_is_not_printed_is_turned(tmp_path: Path) -> None:
    remedies = first(tmp_path, STARTED.format("") + PRAGMA + SORT)["remedies"]
    assert [one["knob"] for one in remedies] == ["raise-allocator-cap"]
