"""Data programs, builds and runtimes are recognised, and their first remedies are lines of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from remedy_logs import advise, cuda
from test_free_before_bought import advised
from test_premises import ARRAY

CALL = 'Traceback (most recent call last):\n  File "/home/me/prep.py", line 5, in <module>\n    {}\n'
PANDAS = (
    CALL.format('df = pd.read_csv("big.csv")')
    + '  File "/v/site-packages/pandas/io/parsers/readers.py", line 1026, in read_csv\n    return _read()\n'
    "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 9.16 GiB for an array with shape (12, 102400000) "
    "and data type float64\n"
)
DUCKDB = (
    CALL.format("con.sql(query).df()") + "_duckdb.OutOfMemoryException: Out of Memory Error: could not allocate block "
    "of size 30.5 MiB (66.9 MiB/95.3 MiB used)\n"
)
PROMPT = (
    "D COPY kilns TO 'kilns.parquet';\n"
    "Error: Out of Memory Error: failed to allocate data of size 9.5 MiB (66.9 MiB/95.3 MiB used)\n"
)
DASK = (
    "distributed.worker.memory - WARNING - Worker is at 83% memory usage. Pausing worker.  Process memory: 478.50 MiB "
    "-- Worker memory limit: 572.20 MiB\ndistributed.nanny.memory - WARNING - Worker tcp://127.0.0.1:4026 (pid=4026) "
    "exceeded 95% memory budget. Restarting...\n"
)
NODE = "FATAL ERROR: Ineffective mark-compacts near heap limit Allocation failed - JavaScript heap out of memory\n"
DIRECT = (
    "java.lang.OutOfMemoryError: Cannot reserve 8388608 bytes of direct buffer memory (allocated: 125829120, "
    "limit: 134217728)\n"
)
JAVA = (
    'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n'
    "\tat java.base/java.util.Arrays.copyOf(Arrays.java:3537)\n"
)
CARGO = (
    "   Compiling widget v0.4.0\nerror: could not compile `widget` (lib)\nCaused by:\n  process didn't exit "
    "successfully: `rustc --crate-name widget` (signal: 9, SIGKILL: kill)\n"
)
FLASH = (
    "  Building wheel for flash-attn (setup.py): started\nninja: build stopped: subcommand failed.\n"
    "c++: fatal error: Killed signal terminated program cc1plus\n"
)


@pytest.mark.parametrize(
    ("log", "cause", "knob", "line"),
    [
        (PANDAS, "dataset-in-ram", "stream-data", "chunksize=100000"),
        (DUCKDB, "allocator-cap", "raise-allocator-cap", "SET memory_limit='191MiB'"),
        (DASK, "allocator-cap", "raise-allocator-cap", "--memory-limit=1145MiB"),
        (NODE, "allocator-cap", "raise-allocator-cap", "export NODE_OPTIONS=--max-old-space-size=8192"),
        (JAVA, "allocator-cap", "raise-allocator-cap", "java -XX:MaxRAMPercentage=75"),
        (CARGO, "build-parallelism", "fewer-build-jobs", "export CARGO_BUILD_JOBS=1"),
        (FLASH, "build-parallelism", "fewer-build-jobs", "export MAX_JOBS=1"),
    ],
    ids=["pandas", "duckdb", "dask", "node", "java", "cargo", "flash-attention"],
)
def test_the_first_remedy_is_a_line_of_the_programs_own(
    tmp_path: Path, log: str, cause: str, knob: str, line: str
) -> None:
    found, knobs, lines = advised(tmp_path, log)
    assert (found, knobs[0]) == (cause, knob)
    assert line in (lines[knob] or "")


@pytest.mark.parametrize(
    ("used", "line"),
    [
        (610.4, "export NODE_OPTIONS=--max-old-space-size=1221"),
        (2010.0, "export NODE_OPTIONS=--max-old-space-size=8192"),
    ],
)
def test_a_heap_that_is_full_early_is_of_a_small_machine(tmp_path: Path, used: float, line: str) -> None:
    before, after = f"{used + 3:.1f} ({used + 19:.1f})", f"{used} ({used + 18:.1f})"
    swept = f"[91:0x5581e0]    61022 ms: Mark-sweep {before} -> {after} MB, 71.8 / 0.0 ms  (average mu = 0.19)\n"
    assert advised(tmp_path, f"<--- Last few GCs --->\n\n{swept}\n{NODE}")[2]["raise-allocator-cap"] == line


@pytest.mark.parametrize(
    ("end", "line"),
    [
        ("ninja: subcommand failed\n", "ninja -j 1"),
        ("ninja: build stopped: subcommand failed.\n", "ninja -j 1"),
        ("", "export CMAKE_BUILD_PARALLEL_LEVEL=1"),
    ],
)
def test_the_build_tool_of_the_log_is_told(tmp_path: Path, end: str, line: str) -> None:
    killed = "c++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n"
    built = "[12/90] Building CXX object lib/CMakeFiles/core.dir/tensor.cpp.o\n"
    assert advised(tmp_path, built + killed + end)[2]["fewer-build-jobs"] == line


def test_a_wide_table_is_computed_in_blocks_and_has_no_batch(tmp_path: Path) -> None:
    refused = "Unable to allocate 9.31 GiB for an array with shape (500000, 5000) and data type int32"
    frames = 'Traceback (most recent call last):\n  File "score.py", line 4, in impute\n    out = np.empty(\n'
    _, knobs, lines = advised(tmp_path, f"{frames}numpy._core._exceptions._ArrayMemoryError: {refused}\n")
    assert knobs[0] == "smaller-partitions" and "smaller-microbatch" not in knobs
    assert lines["smaller-partitions"] == "for rows in np.array_split(x, 16): ..."


def test_a_shape_that_no_machine_has_room_for_is_not_put_on_a_disk(tmp_path: Path) -> None:
    refused = "Unable to allocate 29.5 PiB for an array with shape (1813201, 23053201, 397) and data type uint16"
    frames = (
        'Traceback (most recent call last):\n  File "grid.py", line 4, in fill\n    out = np.zeros(shape, np.uint16)\n'
    )
    cause, knobs, _ = advised(tmp_path, f"{frames}numpy._core._exceptions._ArrayMemoryError: {refused}\n")
    assert (cause, knobs) == ("absurd-size", ["fix-shape"])


def test_a_budget_is_raised_to_twice_what_it_is() -> None:
    remedy = advise(DUCKDB, "raise-allocator-cap", cause="allocator-cap")[0]["raise-allocator-cap"]
    assert remedy.suggested == "191MiB"
    assert remedy.snippet == "con.execute(\"SET memory_limit='191MiB'\")"


def test_pieces_of_data_are_cut_only_where_a_program_has_an_option_for_it() -> None:
    knobs = ("narrow-dtypes", "smaller-partitions", "spill-to-disk")
    assert advise(PANDAS, *knobs)[0].keys() == {"narrow-dtypes"}
    assert advise("Killed\n", *knobs)[0] == {}


def test_a_line_of_code_is_nothing_for_a_program_that_is_driven_by_options() -> None:
    refused = "torch.OutOfMemoryError: " + cuda()
    driven = "python3 -m verl.trainer.main_ppo trainer.nnodes=1\n" + refused
    assert advise(refused, "clear-references")[0]["clear-references"].snippet == "del outputs, loss"
    assert all(r.snippet is None for r in advise(driven, "clear-references")[0].values())


MAPS = "OSError: [Errno 12] Cannot allocate memory (vm.max_map_count)\n"
WINDOWS = (
    "RuntimeError: [enforce fail at ..\\c10\\core\\impl\\alloc_cpu.cpp:72] data. DefaultCPUAllocator: not enough "
    "memory: you tried to allocate 713031680 bytes.\n"
)


def test_a_page_file_is_windows_own() -> None:
    line = advise(WINDOWS, "more-address-space")[0]["more-address-space"].snippet or ""
    assert "AutomaticManagedPagefile" in line
    assert "ulimit" in (advise(ARRAY, "more-address-space")[0]["more-address-space"].snippet or "")


def test_the_number_of_maps_is_raised_by_its_name() -> None:
    assert advise(MAPS, "raise-map-count")[0]["raise-map-count"].snippet == (
        "sudo sysctl vm.max_map_count=262144   # and in /etc/sysctl.d/, to keep it"
    )


def test_a_limit_is_not_lifted_first_where_nothing_shows_one(tmp_path: Path) -> None:
    _, knobs, _ = advised(tmp_path, "$ python fit.py --num_workers 8\n" + CALL.format("fit()") + WINDOWS)
    assert knobs[0] == "fewer-workers"
    assert "more-address-space" in knobs[:3]


def test_a_workers_budget_is_raised_by_its_own_flag() -> None:
    remedy = advise(DASK, "raise-allocator-cap", cause="allocator-cap")[0]["raise-allocator-cap"]
    assert remedy.snippet == "dask worker SCHEDULER --memory-limit=1145MiB"


@pytest.mark.parametrize(
    ("launch", "failure", "line"),
    [
        ("java -Xms64m -Xmx128m -jar etl.jar", JAVA, "java -Xmx512m"),
        ("java -Xmx511m -jar etl.jar", JAVA, "java -Xmx2044m"),
        ("java -Xmx512m -jar etl.jar", JAVA, "java -Xmx1024m"),
        ("java -Xmx128m -jar etl.jar", DIRECT, "java -XX:MaxDirectMemorySize=256m"),
        ("node --max-old-space-size=150 build.js", NODE, "export NODE_OPTIONS=--max-old-space-size=600"),
        ("java -Xmx65536k Etl", JAVA, "java -Xmx262144k"),
        ("java -Xmx4G Etl", JAVA, "java -Xmx8G"),
        ("java -Xms4G Etl", JAVA, "java -XX:MaxRAMPercentage=75"),
        ("java -Xmx Etl", JAVA, "java -XX:MaxRAMPercentage=75"),
        ("node --max-old-space-size=4096 build.js", NODE, "export NODE_OPTIONS=--max-old-space-size=8192"),
        ("node --max-old-space-size=12000 build.js", NODE, "export NODE_OPTIONS=--max-old-space-size=24000"),
        ("node build.js", NODE, "export NODE_OPTIONS=--max-old-space-size=8192"),
    ],
)
def test_a_heap_that_is_stated_is_doubled_and_a_small_one_twice(
    tmp_path: Path, launch: str, failure: str, line: str
) -> None:
    _, knobs, lines = advised(tmp_path, f"+ {launch}\n{failure}")
    assert knobs[0] == "raise-allocator-cap"
    assert lines["raise-allocator-cap"] == line


@pytest.mark.parametrize(
    ("bar", "has_batch"),
    [
        ("(18.3GB ram):  61%|######    | 9150/15000 [01:02<00:40, 140.00it/s]", False),
        ("(18.3GB ram): 100%|##########| 15000/15000 [01:42<00:00, 140.00it/s]", True),
        ("(18.3GB disk):  61%|######    | 9150/15000 [01:02<00:40, 140.00it/s]", True),
    ],
)
def test_data_that_are_still_cached_have_no_batch_yet(bar: str, *, has_batch: bool) -> None:
    refused = (
        f"train: Caching images {bar}\ncv2.error: OpenCV(4.8.1) alloc.cpp:73: error: (-4:Insufficient memory) Failed "
        "to allocate 6220800 bytes in function 'cv::OutOfMemoryError'\n"
    )
    assert ("smaller-microbatch" in advise(refused, "smaller-microbatch", cause="dataset-in-ram")[0]) is has_batch


STAR = (
    "Mar 02 10:11:12 ..... started STAR run\nMar 02 10:41:12 ..... started sorting BAM\n\n"
    "EXITING because of fatal ERROR: not enough memory for BAM sorting:\n"
    "SOLUTION: re-run STAR with {} --limitBAMsortRAM 31000000000\n"
)


@pytest.mark.parametrize(("asks", "line"), [("at least", "31000000000"), ("another", "62000000000")])
def test_what_a_message_asks_for_at_least_is_the_value(asks: str, line: str, tmp_path: Path) -> None:
    cause, knobs, snippets = advised(tmp_path, STAR.format(asks))
    assert (cause, knobs[0]) == ("allocator-cap", "raise-allocator-cap")
    assert snippets[knobs[0]] == f"STAR --limitBAMsortRAM {line}"


@pytest.mark.parametrize(("share", "early"), [("95", False), ("100", False), ("94", True), ("60", True), ("0", True)])
def test_dask_that_was_told_to_end_workers_early_is_told_to_wait(share: str, early: bool) -> None:
    log = f"distributed.nanny - WARNING - Worker tcp://10.1.0.7:4410 exceeded {share}% memory budget. Restarting\n"
    chosen, _ = advise(log, "raise-allocator-cap", cause="allocator-cap")
    cap = chosen.get("raise-allocator-cap")
    assert (cap is not None and cap.snippet == "export DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE=0.95") == early
    if early:
        assert cap is not None
        assert f"not at {share}%" in cap.action


@pytest.mark.parametrize(
    ("log", "in_the_shell"),
    [
        (PROMPT, True),
        (PROMPT.replace("COPY", "copy"), True),
        (DUCKDB, False),
        (PROMPT.replace("D COPY", "2026-01-08 COPY"), False),
    ],
)
def test_what_is_typed_at_duckdbs_prompt_is_sql(tmp_path: Path, log: str, in_the_shell: bool) -> None:
    snippets = [snippet for snippet in advised(tmp_path, log)[2].values() if snippet and "SET " in snippet]
    assert snippets
    assert all(snippet.startswith("SET ") == in_the_shell for snippet in snippets)


def test_what_reads_no_table_is_told_nothing_of_tables(tmp_path: Path) -> None:
    """`read_csv` is advised where the log shows it, and not of another reader of the same library."""
    rows = PANDAS.replace('read_csv("big.csv")', 'read_json("big.json")').replace("parsers/readers.py", "json/_json.py")
    rows = rows.replace("in read_csv", "in read_json")
    assert "read_csv" in str(advised(tmp_path, PANDAS))
    assert "read_csv" not in str(advised(tmp_path, rows))
