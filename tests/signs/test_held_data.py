"""What a job's last prints say of the data that it holds: buffers, collections, tables; and near misses."""

from __future__ import annotations

import pytest
from gpu_logs import crash

from oomdoctor.decision.diagnosis import decide
from oomdoctor.incident import prints
from oomdoctor.signs import held_data

KILL = (
    "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "memory: usage 1843200kB, limit 1843200kB, failcnt 0",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/job,task_memcg=/job,task=python,pid=26396,uid=0",
    "Memory cgroup out of memory: Killed process 26396 (python) total-vm:6329060kB, anon-rss:1838192kB",
)
REPLAY = (
    "step 4000 replay buffer 3999/100000",
    "step 8000 replay buffer 7999/100000",
)
SHUFFLE = "shuffle_dataset_op.cc:453] Filling up shuffle buffer (this may take a while): 1482 of 10000"


@pytest.mark.parametrize(
    ("lines", "held"),
    [
        (REPLAY, ("replay buffer", 7999, 100000)),
        ((SHUFFLE,), ("shuffle buffer", 1482, 10000)),
        (("[reader] page 100 backlog 67 rows", "[reader] page 200 backlog 131 rows"), ("backlog", 131, None)),
        (("step 5000 reward 1.2 buffer 5000", "step 10000 reward 1.4 buffer 10000"), ("buffer", 10000, None)),
        (("4000 answers, cache 4001, rss 61 MiB", "8000 answers, cache 8001, rss 85 MiB"), ("cache", 8001, None)),
        (("task queue: 1,200 waiting", "task queue: 9,400 waiting"), ("task queue", 9400, None)),
    ],
)
def test_a_buffer_that_fills_is_named(lines: tuple[str, ...], held: tuple[str, int, int | None]) -> None:
    found = held_data.buffer_of(crash(*lines, *KILL))
    assert found is not None
    assert (found.what, found.count, found.total) == held


FILLED = "shuffle_dataset_op.cc:482] Shuffle buffer filled."


@pytest.mark.parametrize(
    ("lines", "full"),
    [
        ((SHUFFLE, FILLED), True),
        ((SHUFFLE, FILLED, "step 1 loss 4.2"), True),
        ((SHUFFLE,), False),
        ((FILLED, SHUFFLE), False),  # it fills anew
        ((*REPLAY, "cache hits 900"), False),
    ],
)
def test_a_buffer_that_was_filled_fills_no_more(lines: tuple[str, ...], full: bool) -> None:
    failed = crash(*lines, *KILL)
    held, seen = held_data.buffer_of(failed), held_data.a_buffer_was_filling(failed)
    assert held is not None
    assert seen is not None
    assert held.is_full == full
    assert ("just been filled" in seen.words) == full


@pytest.mark.parametrize(
    "lines",
    [
        ("step 8000 replay buffer 7999/100000",),  # one print shows no growth
        ("step 8000 replay buffer 7999/100000", "step 9000 replay buffer 7999/100000"),
        ("KV cache 300 of 900 blocks", "KV cache 500 of 900 blocks"),
        ("message queue hits 30", "message queue size 4 MiB", "message queue 12%"),
        ("gpu memory 300 MB", "gpu memory 900 MB"),
        ("cache hits 300", "cache hits 900", "prefix cache 300", "prefix cache 900"),
        (*REPLAY, "a", "b", "c", "d", "e", "f", "training has begun"),  # long ago
    ],
)
def test_what_does_not_grow_or_is_no_data_is_no_buffer(lines: tuple[str, ...]) -> None:
    assert held_data.buffer_of(crash(*lines, *KILL)) is None


def test_a_buffer_counts_only_where_the_job_was_killed() -> None:
    refused = "MemoryError: Unable to allocate 3.00 GiB for an array with shape (402653184,) and data type float64"
    assert held_data.buffer_of(crash(*REPLAY, refused)) is None


@pytest.mark.parametrize(
    ("lines", "collected"),
    [
        (("loaded 100/4000 images", "loaded 200/4000 images"), True),
        (("inserted 50000 rows", "inserted 100000 rows"), True),
        (("processed 100/4000 images", "processed 200/4000 images"), False),
        (("loaded 100/4000 images",), False),
        (("loaded 12 MB", "loaded 24 MB"), False),
    ],
)
def test_things_that_pile_up_are_counted(lines: tuple[str, ...], *, collected: bool) -> None:
    assert (held_data.things_were_collected(crash(*lines, *KILL)) is not None) == collected


def test_a_bare_death_behind_a_collection_proves_nothing() -> None:
    assert held_data.things_were_collected(crash("loaded 100/400 images", "loaded 200/400 images", "Killed")) is None


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ("pivot of 399692 ratings: 30000 users, 8000 items", True),
        ("joining clicks with users", True),
        ("converting the counts to dense", True),
        ("merging LoRA weights into the model", False),
        ("joining the process group", False),
        ("epoch 3 done", False),
    ],
)
def test_a_join_and_a_pivot_are_whole_in_memory(line: str, *, whole: bool) -> None:
    assert (held_data.a_table_was_made_whole(crash(line, *KILL)) is not None) == whole


@pytest.mark.parametrize(
    ("line", "beyond"),
    [
        ("counts: csr matrix (6000000, 200000), 9 stored values", True),
        ("features (6000000, 200000) float64", True),
        ("features (6000, 200) float64", False),
        ("model weights (6000000, 200000)", False),
        ("building DMatrix 3000000 x 200", True),  # x 4 bytes = 2.24 GiB
        ("table: 3,000,000 rows x 1,200 columns", True),
        ("left 5,000,000 rows x 12 columns", False),
        ("picture 1920 x 1080", False),
        ("3,000,000 samples x 200 epochs", False),
        ("3,000,000 steps x 200", False),
        ("cube float64 33.2 GB, 40 chunks", True),
        ("dataset: 41 GiB", True),
        ("dataset: 410 MiB", False),
        ("dataset: 41 GiB on disk", False),
        ("loaded at 3.1 GB/s, table ready", False),
    ],
)
def test_a_shape_is_held_against_the_limit(line: str, *, beyond: bool) -> None:
    assert (held_data.a_table_beyond_the_limit(crash(line, *KILL)) is not None) == beyond


@pytest.mark.parametrize(
    ("lines", "by"),
    [
        (("batch 0: 20000 vectors", "batch 1: 40000 vectors", "batch 2: 60000 vectors"), True),
        (("batch 0: 20000 vectors", "batch 1: 40000 vectors"), False),
    ],
)
def test_batches_that_went_by_are_counted(lines: tuple[str, ...], *, by: bool) -> None:
    assert prints.several_batches_went_by(crash(*lines, "MemoryError: std::bad_alloc")) == by


BAR = "Loading samples:  {done:>3}%|####      | {done}/{all} [00:01<00:01, 10.29it/s]"


@pytest.mark.parametrize(
    ("line", "is_read"),
    [
        (BAR.format(done=42, all=100), True),
        (BAR.format(done=100, all=100), False),  # at its end
        ("Loading checkpoint shards:  42%|####      | 42/100 [00:01<00:01, 10.29it/s]", False),  # no data
        ("Epoch 1:  42%|####      | 42/100 [00:01<00:01, 10.29it/s, loss=0.3]", False),
        ("Loading samples", False),  # nothing says how far
    ],
)
def test_a_bar_of_reading_data_that_a_kill_ended(line: str, *, is_read: bool) -> None:
    assert (held_data.data_were_being_read(crash(line, *KILL)) is not None) is is_read


BROKEN_POOL = (
    "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the "
    "future was running or pending."
)
BAR = "Reading point clouds...:  {percent}%|######    | {done}/80 [00:41<00:12,  1.90it/s]"


@pytest.mark.parametrize(
    ("lines", "seen"),
    [
        ((BAR.format(percent=75, done=60), "Killed"), True),
        ((BAR.format(percent=100, done=80), "Killed"), False),
        ((BAR.format(percent=75, done=60), "Bus error (core dumped)"), False),
        ((BAR.format(percent=75, done=60), BROKEN_POOL), False),
        ((BAR.format(percent=75, done=60), "epoch 1 step 40 loss 0.71", "Killed"), False),
        (("Loading checkpoint shards:  75%|######    | 60/80 [00:41<00:12]", "Killed"), False),
        ((BAR.format(percent=75, done=60), *KILL), False),  # the kernel's record is a proof
    ],
)
def test_a_bare_kill_in_the_middle_of_reading(lines: tuple[str, ...], *, seen: bool) -> None:
    assert (held_data.killed_in_the_middle_of_reading(crash(*lines)) is not None) is seen


def test_data_stand_before_the_kill_that_nothing_explains() -> None:
    decision = decide(crash(BAR.format(percent=75, done=60), "Killed"))
    assert decision.verdict == "inconclusive"
    assert [one.cause.id for one in decision.answers[:2]] == ["dataset-in-ram", "killed-without-evidence"]


@pytest.mark.parametrize(
    ("lines", "seen"),
    [
        ((">>> t = pd.read_csv('/d/rows.csv')", "Killed"), True),
        (("In [4]: %time t = pl.read_parquet('/d/rows.parquet')", "Killed"), True),
        (("In [4]: t = pl.scan_csv('/d/*.csv').collect()", "Killed"), True),
        (("In [4]: %%time", "   ...: t = sc.read_h5ad('/d/cells.h5ad')", "", "Killed"), True),
        (("me@n1:~$ python3 -c \"import polars as pl; pl.read_csv('rows.csv')\"", "Killed"), True),
        ((">>> t = load_dataset('rows')", "Killed", "me@n1:~$ "), True),
        ((">>> t = pd.read_csv('rows.csv', chunksize=900)", "Killed"), False),
        ((">>> t = load_dataset('rows', streaming=True)", "Killed"), False),
        ((">>> t = sc.read_h5ad('cells.h5ad', backed='r')", "Killed"), False),
        ((">>> t = pd.read_csv('rows.csv')", ">>> m = fit(t)", "Killed"), False),
        ((">>> t = pd.read_csv('rows.csv')", ">>> exit()", "Killed"), False),
        ((">>> t = pd.read_csv('rows.csv')", "12 columns", "Killed"), False),
        ((">>> print('read_csv')", "Killed"), False),
        (("Tokenizing:  41%|####      | 410/1000 [00:41<00:59]", ">>> fit(t)", "Killed"), False),
        ((">>> m = AutoModel.from_pretrained('x')", "Killed"), False),
        ((">>> t = pd.read_csv('/d/rows.csv')", "Bus error (core dumped)"), False),
        ((">>> t = pd.read_csv('/d/rows.csv')", *KILL), False),
        (("t = pd.read_csv('/d/rows.csv')", "Killed"), False),  # a script's
    ],
)
def test_a_bare_kill_below_what_was_typed(lines: tuple[str, ...], *, seen: bool) -> None:
    assert (held_data.killed_bare_at_a_prompt(crash(*lines)) is not None) is seen


def test_what_was_typed_stands_before_the_kill_that_nothing_explains() -> None:
    decision = decide(crash("In [4]: %time t = pl.read_parquet('/d/rows.parquet')", "Killed"))
    assert decision.verdict == "inconclusive"
    assert [one.cause.id for one in decision.answers[:2]] == ["dataset-in-ram", "killed-without-evidence"]
