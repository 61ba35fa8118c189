"""At a limit on address space what the job holds is made less before the limit goes: a kill may take its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from remedy_logs import advise, crashes_of
from reports import body

from oomdoctor.signs.held_data import hash_table_of

LIMIT = "+ ulimit -v 700000\n"
SOLVES = "+ python -u waves.py {}\n"
TRACE = 'Traceback (most recent call last):\n  File "/srv/waves.py", line 30, in <module>\n    {}\n'
DENSE = (
    TRACE.format('solve_ivp(rhs, (0, 9), u, method="Radau")')
    + '  File "/v/site-packages/scipy/integrate/_ivp/common.py", line 346, in _dense_num_jac\n'
    + "    f_new = fun(t, y[:, None] + h_vecs)\n"
    + "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 288. MiB for an array with shape (6144, 6144) and "
    + "data type float64\n"
)
SPARSE = DENSE.replace("_dense_num_jac", "_sparse_num_jac")
BFGS = (
    TRACE.format("minimize(loss, x0)")
    + '  File "/v/site-packages/scipy/optimize/_optimize.py", line 1428, in _minimize_bfgs\n'
    + "    I = np.eye(N, dtype=int)\n"
    + "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 288. MiB for an array with shape (6144, 6144)\n"
)
READ = "".join(f"decoded {count}/900 pictures\n" for count in (100, 200, 300))
CLIP = TRACE.format("ok, picture = film.read()") + (
    "cv2.error: OpenCV(4.11.0) modules/core/src/alloc.cpp:73: error: (-4:Insufficient memory) Failed to allocate "
    "2764800 bytes in function 'OutOfMemoryError'\n"
)
RUST = "memory allocation of {} bytes failed\n"
LINES = "".join(f"{count} records, {count - 90} keys\n" for count in (1_000_000, 2_000_000, 3_000_000))


def first(tmp_path: Path, text: str) -> dict[str, Any]:
    diagnosis: dict[str, Any] = body(tmp_path, text)["diagnoses"][0]
    return diagnosis


def knobs(diagnosis: dict[str, Any]) -> list[str]:
    return [one["knob"] for one in diagnosis["remedies"]]


@pytest.mark.parametrize(
    ("text", "told"),
    [(DENSE, "jac_sparsity"), (BFGS, "L-BFGS-B"), (SPARSE, ""), (DENSE.replace("scipy/integrate", "mine"), "")],
)
def test_a_solver_is_told_of_its_zeros(text: str, told: str, tmp_path: Path) -> None:
    remedies = first(tmp_path, LIMIT + SOLVES.format("") + text)["remedies"]
    assert (told in remedies[0]["action"]) if told else all("jac" not in one["action"] for one in remedies)
    assert remedies[-1]["knob"] == "more-address-space"


@pytest.mark.parametrize(
    ("option", "wanted"),
    [
        ("--grid 48", "--grid 24"),
        ("--mesh-size 48", "--mesh-size 24"),
        ("--grid-search 48", ""),
        ("--grid-points-every 1", ""),
        ("--methods 48", ""),
    ],
)
def test_the_programs_own_size_goes_before_the_limit(option: str, wanted: str, tmp_path: Path) -> None:
    remedies = first(tmp_path, LIMIT + SOLVES.format(option) + DENSE)["remedies"]
    smaller = [one["snippet"] for one in remedies if one["knob"] == "smaller-input"]
    assert smaller == ([wanted] if wanted else [None])
    assert remedies[-1]["knob"] == "more-address-space"
    assert "kill" in remedies[-1]["assumes"][0]


@pytest.mark.parametrize(
    ("option", "wanted"),
    [("--segment 0", "--segment 50"), ("--segment 400", "--segment 200"), ("--segment-name 7", "")],
)
def test_a_clip_is_cut_by_the_programs_option(option: str, wanted: str, tmp_path: Path) -> None:
    diagnosis = first(tmp_path, LIMIT + SOLVES.format(option) + READ + CLIP)
    assert diagnosis["cause"] == "dataset-in-ram"
    assert ("smaller-partitions" in knobs(diagnosis)) is bool(wanted)
    assert wanted in str([one["snippet"] for one in diagnosis["remedies"]])
    assert "clip in parts" in diagnosis["remedies"][1 if wanted == "--segment 50" else 0]["action"]
    assert "more-host-memory" not in knobs(diagnosis)  # which has the same limit


@pytest.mark.parametrize(
    "prints", ["", "decoded 300/900 pictures\n", READ.replace("decoded", "drew"), READ.replace("00/900", "00%")]
)
def test_what_was_not_collected_is_not_said_to_be(prints: str, tmp_path: Path) -> None:
    text = LIMIT + SOLVES.format("") + prints + CLIP.replace("film.read()", "track(film)")
    assert first(tmp_path, text)["cause"] == "address-space-limit"


@pytest.mark.parametrize(
    ("size", "buckets"),
    [
        (2**20 * 33 + 16, 2**20),
        (2**18 * 57 + 8, 2**18),
        (2**20 * 33, None),  # a vector that doubles
        (2**20 * 33 + 48, None),
        (2**10 * 33 + 16, None),
        (2**20 + 16, None),  # entries of no bytes
    ],
)
def test_a_table_of_hashes_is_known_by_its_size(size: int, buckets: int | None) -> None:
    table = hash_table_of(crashes_of(RUST.format(size))[0])
    assert (table.buckets if table is not None else None) == buckets


def test_only_rust_has_such_tables() -> None:
    cut = f"numpy.core._exceptions.MemoryError: Unable to allocate array with {2**20 * 33 + 16} bytes"
    assert all(hash_table_of(crash) is None for crash in crashes_of(cut))


@pytest.mark.parametrize(
    ("prints", "size", "cause"),
    [
        (LINES, 2**20 * 33 + 16, "dataset-in-ram"),
        ("", 2**20 * 33 + 16, "dataset-in-ram"),
        (LINES, 2**20 * 33, "address-space-limit"),
    ],
)
def test_such_a_table_is_filled_in_parts(prints: str, size: int, cause: str, tmp_path: Path) -> None:
    diagnosis = first(tmp_path, LIMIT + "+ ./count --input all.txt\n" + prints + RUST.format(size))
    assert diagnosis["cause"] == cause
    assert knobs(diagnosis)[-1] == "more-address-space"
    assert (knobs(diagnosis)[0] == "smaller-partitions") is (cause == "dataset-in-ram")


@pytest.mark.parametrize(
    ("prints", "cause"),
    [
        ("".join(f"{n}000000 records, rss {n}00 MiB\n" for n in range(1, 9)), "dataset-in-ram"),
        ("".join(f"request {n} served, rss {n}00 MiB\n" for n in range(1, 9)), "host-memory-leak"),
    ],
)
def test_a_table_of_the_input_leaks_nothing(prints: str, cause: str, tmp_path: Path) -> None:
    assert first(tmp_path, prints + RUST.format(2**20 * 33 + 16))["cause"] == cause


def test_without_a_limit_a_larger_node_is_an_answer() -> None:
    chosen, _ = advise(READ + CLIP, "more-host-memory", cause="dataset-in-ram")
    assert list(chosen) == ["more-host-memory"]


TABLES = LIMIT + "+ python -u visits.py {}\n{}\n" + RUST.format(48_000_128)


@pytest.mark.parametrize(
    ("prints", "cause"),
    [
        ("loaded 9 tables: 310 MB", "dataset-in-ram"),
        ("memory_usage 310 MB", "dataset-in-ram"),
        ("loaded 9 tables: 90 MB", "address-space-limit"),  # too little of it
        ("loaded 9 tables: 3100 MB", "address-space-limit"),  # more than it may have: not in memory
        ("loaded 9 tables: 310 MB on disk", "address-space-limit"),
        ("loaded at 310 MB/s", "address-space-limit"),
        ("loaded weights: 310 MB", "address-space-limit"),
        ("written: 310 MB", "address-space-limit"),
    ],
)
def test_data_of_a_printed_size_fill_the_limit(prints: str, cause: str, tmp_path: Path) -> None:
    assert first(tmp_path, TABLES.format("", prints))["cause"] == cause


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--engine eager", None),
        ("--engine in-memory", "streaming"),
        ("--engine streaming", "no"),
        ("--engine-url in-memory", "no"),
        ("--optimizer eager", "no"),
    ],
)
def test_who_reads_all_at_once_reads_lazily_first(option: str, value: str | None, tmp_path: Path) -> None:
    remedies = first(tmp_path, TABLES.format(option, "loaded 9 tables: 90 MB"))["remedies"]
    streams = remedies[0] if remedies[0]["knob"] == "stream-data" else {"suggested": "no"}
    assert streams["suggested"] == value
    assert "more-address-space" in [one["knob"] for one in remedies]


@pytest.mark.parametrize(
    ("release", "offered"), [("polars 1.34.0", True), ("using polars 1.34.0", True), ("bipolars 1.34.0", False)]
)
def test_polars_reads_lazily_at_a_limit(release: str, *, offered: bool, tmp_path: Path) -> None:
    remedies = first(tmp_path, TABLES.format("", f"{release}\nread_parquet: 9 files"))["remedies"]
    line = 'pl.scan_parquet(path).collect(engine="streaming")'
    assert (line in [one["snippet"] for one in remedies]) == offered
