"""Tables that an encoding makes wide, by the rows and columns that a job printed before it was killed; near misses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_logs import crash

import oomdoctor
from oomdoctor.signs import encoded_tables, held_data

ROWS = "orders (400000, 9)"
DUMMIES = "get_dummies: 2500 columns"
KILL = (
    "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "memory: usage {0}kB, limit {0}kB, failcnt 0",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/job,task_memcg=/job,task=python,pid=96,uid=0",
    "Memory cgroup out of memory: Killed process 96 (python) total-vm:6329060kB, anon-rss:{0}kB",
)


def table(command: str, *prints: str) -> tuple[int, int, int] | None:
    """Rows, columns and the bytes of a number."""
    found = encoded_tables.encoded_table(crash(f"+ {command}", *prints, "Killed"))
    return (found.rows, found.columns, found.width) if found is not None else None


@pytest.mark.parametrize(
    ("prints", "found"),
    [
        ((ROWS, DUMMIES), (400000, 2500, 1)),
        ((ROWS, "one-hot encoded: 2,500 features, float32"), (400000, 2500, 4)),
        (("[400000 rows x 9 columns]", "pivot to 700 columns"), (400000, 700, 8)),
        (("read 400000 records", "CountVectorizer vocabulary: 52000"), (400000, 52000, 8)),
        (("rows: 400_000", "OneHotEncoder 2500 columns"), (400000, 2500, 8)),
        (("pivot (400000, 700)",), (400000, 700, 8)),
        (("orders (900000, 9)", ROWS, DUMMIES), (400000, 2500, 1)),  # the nearest
        ((DUMMIES,), None),
        (("batch (64, 9)", DUMMIES), None),  # of too few rows
        ((ROWS, "2500 columns"), None),
        ((ROWS, "get_dummies of 2 frames"), None),
        ((ROWS, "sparse one-hot: 2500 columns"), None),
        ((ROWS, "one-hot (csr): 2500 columns"), None),
        ((ROWS, DUMMIES, *(f"fit fold {n}" for n in range(9))), None),  # long done
    ],
)
def test_rows_and_columns_are_read(prints: tuple[str, ...], found: tuple[int, int, int] | None) -> None:
    assert table("python features.py", *prints) == found


@pytest.mark.parametrize(
    ("options", "width"),
    [
        ("--dummy-dtype float64", 8),
        ("--onehot-dtype uint8", 1),
        ("--dtype float64 --dummies-dtype float16", 2),  # the encoding's own
        ("--dtype float32", 4),
        ("--model-type float32", 1),
    ],
)
def test_an_option_says_how_wide_a_number_is(options: str, width: int) -> None:
    assert table(f"python features.py {options}", ROWS, DUMMIES) == (400000, 2500, width)


@pytest.mark.parametrize(
    ("columns", "limit_kb", "large"),
    [(2500, None, False), (2800, None, True), (2500, 1500000, True), (2500, 4500000, False)],
)
def test_it_is_large_beside_a_limit_or_by_itself(columns: int, limit_kb: int | None, *, large: bool) -> None:
    ended = [line.format(limit_kb) for line in KILL] if limit_kb is not None else ["Killed"]
    log = crash("+ python features.py", ROWS, f"get_dummies: {columns} columns", *ended)
    seen = held_data.an_encoded_table_is_large(log)
    assert (seen is not None) == large
    assert seen is None or (f"400000 x {columns} x 1" in seen.words)
    assert seen is None or (("in all" in seen.words) == (limit_kb is not None))


def diagnosis(tmp_path: Path, options: str, *prints: str) -> dict[str, Any]:
    command = f"python features.py {options}"
    log = "\n".join((f"+ {command}", *prints, f"run.sh: line 3:    12 Killed     {command}", "exit code: 137", ""))
    (tmp_path / "job.log").write_text(log, encoding="utf-8")
    first: dict[str, Any] = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]
    return first


def remedies(tmp_path: Path, options: str, *prints: str) -> dict[str, dict[str, Any]]:
    return {one["knob"]: one for one in diagnosis(tmp_path, options, *prints)["remedies"]}


def test_a_bare_kill_at_a_large_table_is_the_tables(tmp_path: Path) -> None:
    assert diagnosis(tmp_path, "--dummy-dtype float32", ROWS, DUMMIES)["cause"] == "dataset-in-ram"
    assert diagnosis(tmp_path, "", "orders (4000, 9)", DUMMIES)["cause"] == "killed-without-evidence"


def test_the_programs_own_options_are_turned(tmp_path: Path) -> None:
    found = remedies(tmp_path, "--dummy-dtype float32 --chunksize 0", ROWS, DUMMIES)
    assert list(found)[:2] == ["smaller-partitions", "narrow-dtypes"]  # what is done all at once comes first
    narrow, parts = found["narrow-dtypes"], found["smaller-partitions"]
    assert (narrow["snippet"], narrow["derivation"]) == ("--dummy-dtype uint8", "400000 x 2500 x 1 = 954 MiB")
    assert (parts["snippet"], parts["derivation"]) == ("--chunksize 20000", "400000 / 16 = 25000, rounded down")


def test_without_options_the_table_is_kept_sparse(tmp_path: Path) -> None:
    found = remedies(tmp_path, "", ROWS, "get_dummies: 2500 columns, float32")
    assert "sparse=True" in found["narrow-dtypes"]["snippet"]
    assert "954 MiB instead of 3.73 GiB" in found["narrow-dtypes"]["action"]
    assert "1.5 MiB" in found["smaller-input"]["action"]


def test_values_are_not_cut_to_a_byte(tmp_path: Path) -> None:
    narrow = remedies(tmp_path, "", ROWS, "pivot to 2500 columns")["narrow-dtypes"]
    assert (narrow["snippet"], narrow["derivation"]) == (None, None)
    assert "byte" not in narrow["action"]


@pytest.mark.parametrize(
    ("option", "prints", "then"),
    [
        ("--chunksize 0", ("read 400000 rows",), 20000),
        ("--chunksize -1", (), 10000),
        ("--chunksize 4000", ("read 400000 rows",), 2000),
        ("--chunk-size 0", ("read 400000 rows",), 64),  # of anything
        ("--chunksize 0", ("read 4000 rows",), 10000),
    ],
)
def test_all_rows_are_split_into_thousands(tmp_path: Path, option: str, prints: tuple[str, ...], then: int) -> None:
    found = remedies(tmp_path, option, *prints, "merging")
    assert found["smaller-partitions"]["suggested"] == then
