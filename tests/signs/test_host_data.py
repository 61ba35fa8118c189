from __future__ import annotations

import pytest
from gpu_logs import crash
from host_logs import kill

from oomdoctor.signs import host_data


@pytest.mark.parametrize(
    ("shape", "size", "wide"),
    [
        ("(2211840, 25000)", "412. GiB", True),
        ("(2211840, 999)", "16.5 GiB", False),
        ("(25000, 12501)", "2.33 GiB", False),
        ("(25002, 12501)", "2.33 GiB", True),
        ("(25002, 12501)", "0.99 GiB", False),
        ("(12, 25002, 12501)", "28. GiB", False),
    ],
)
def test_a_wide_table_has_a_thousand_columns_and_is_no_matrix_of_pairs(shape: str, size: str, wide: bool) -> None:
    line = f"numpy.core._exceptions.MemoryError: Unable to allocate {size} for an array with shape {shape}"
    assert (host_data.a_wide_table_was_refused(crash(line)) is not None) == wide


@pytest.mark.parametrize(("processes", "many"), [(63, False), (64, True)])
def test_so_many_readers_fill_a_machine(processes: int, many: bool) -> None:
    log = crash(f"Running tokenizer on dataset (num_proc={processes}):  71%|███████  | 639/900 [01:10<00:28]", "Killed")
    seen = host_data.many_readers_and_one_vanished(log)
    assert (seen is not None and f"{processes} processes" in seen.words) == many
    assert seen is None or seen.shows_memory

    assert host_data.vanished_at_a_line_on_data(log) is not None
    assert host_data.memory_ran_out_at_a_line_on_data(log) is None


def test_a_reader_that_vanished_may_have_failed_of_anything() -> None:
    bar = "Running tokenizer on dataset (num_proc=96):  71%|███████  | 639/900 [01:10<00:28]"
    died = "RuntimeError: One of the subprocesses has abruptly died during map operation."
    seen = host_data.many_readers_and_one_vanished(crash(bar, died))
    assert seen is not None
    assert not seen.shows_memory


@pytest.mark.parametrize(
    ("line", "reads"),
    [
        ("Load the 7200 image of 8000.", True),
        ("reading 312 files of 900", True),
        ("Loaded 8000 images", False),
        ("step 7200 of 8000", False),
        ("Download the 7200 image of 8000.", False),
        ("Load the 7200 image", False),
    ],
)
def test_a_line_that_counts_what_is_read(line: str, *, reads: bool) -> None:
    assert (host_data.vanished_at_a_line_on_data(crash(line, "Killed")) is not None) == reads


def test_a_kill_for_memory_did_not_just_vanish() -> None:
    log = crash("Running tokenizer on dataset (num_proc=64):  71%|███████  | 639/900 [01:10<00:28]", *kill())
    assert host_data.memory_ran_out_at_a_line_on_data(log) is not None
    assert host_data.many_readers_and_one_vanished(log) is None
    assert host_data.vanished_at_a_line_on_data(log) is None


def test_images_that_are_cached_on_disk_are_not_in_memory() -> None:
    cached = "train: Caching images (41.2GB {}):  64%|██████▍   | 19204/30006 [04:40<02:37, 68.52it/s]"
    assert host_data.data_is_cached_in_memory(crash(cached.format("disk"), *kill())) is None
    assert host_data.data_is_cached_in_memory(crash(cached.format("ram"), *kill())) is not None


@pytest.mark.parametrize(
    ("bar", "held", "whole"),
    [
        ("(3.9GB ram):  30%|###  | 1200/4000 [00:12<00:28, 98.1it/s]", "3.9 GB", "13 GB"),
        ("(3.9GiB RAM): 100%|####| 4000/4000 [00:40<00:00, 98.1it/s]", "3.9 GiB", None),
        ("(0.0GB ram):   0%|     | 0/4000 [00:00<?, ?it/s]", "0.0 GB", None),
        ("(3.9GB ram)", "3.9 GB", None),
        ("(3.9GB ram) of shard 2/16", "3.9 GB", None),
    ],
)
def test_what_a_whole_cache_takes_is_told_while_it_fills(bar: str, held: str, whole: str | None) -> None:
    cached = host_data.cached_data(crash(f"val: Caching images {bar}", *kill()))
    assert cached is not None
    assert cached.held == held
    assert (cached.whole if cached.is_filling else None) == whole


REFUSED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 17.25 GiB. "
    "GPU 0 has a total capacity of 23.69 GiB of which 9.12 GiB is free."
)


def trace(file: str, function: str, code: str, refusal: str = REFUSED) -> tuple[str, ...]:
    return ("Traceback (most recent call last):", f'  File "{file}", line 206, in {function}', f"    {code}", refusal)


@pytest.mark.parametrize(
    ("file", "function", "code", "reads"),
    [
        ("/srv/cut/frames.py", "load_video_frames", "clip = clip.cuda()", True),
        ("/opt/venv/lib/python3.11/site-packages/cudf/io/parquet.py", "read_parquet", "return reader.read()", True),
        ("/srv/cut/frames.py", "load_weights", "weights = weights.cuda()", False),
        ("/srv/cut/model.py", "forward", "return self.up(x)", False),
        ("/srv/cut/frames.py", "load_frame_rate", "rate = rate.cuda()", False),
    ],
)
def test_data_are_read_onto_the_card_by_a_function_that_reads_them(
    file: str, function: str, code: str, reads: bool
) -> None:
    log = crash("Loading dataset: clips of 1 folder", *trace(file, function, code))
    assert (host_data.data_are_read_onto_the_card(log) is not None) == reads
    assert (host_data.a_card_without_data(log) is None) == reads


def test_a_pass_that_is_made_while_data_are_read_is_another_matter() -> None:
    outer = trace("/srv/cut/frames.py", "load_video_frames", "self.fit(clip).backward()")[:-1]
    inner = trace("/v/site-packages/torch/_tensor.py", "backward", "torch.autograd.backward(self)")[1:]
    assert host_data.data_are_read_onto_the_card(crash(*outer, *inner)) is None


@pytest.mark.parametrize("path", ["/v/site-packages/pandas/core/tile.py", r"C:\v\site-packages\pandas\core\tile.py"])
def test_a_path_of_windows_says_the_same(path: str) -> None:
    refused = "MemoryError: Unable to allocate 654. MiB for an array with shape (26000, 26000) and data type uint8"
    assert host_data.refused_while_reading_data(crash(*trace(path, "tile", "np.eye(n)", refused))) is not None


def test_what_reads_data_into_host_memory_reads_none_onto_the_card() -> None:
    refused = "numpy.core._exceptions.MemoryError: Unable to allocate 412. GiB for an array with shape (2211840, 25000)"
    log = crash(*trace("/srv/cut/table.py", "load", "pd.read_parquet(path)", refused))
    assert host_data.data_are_read_onto_the_card(log) is None
    assert host_data.a_card_without_data(log) is None


WORKER = "RuntimeError: DataLoader worker (pid 8) is killed by signal: {}. "


@pytest.mark.parametrize(
    ("option", "signal", "is_kept"),
    [
        ("--cache ram", "Killed", True),
        ("--preload true", "Killed", True),
        ("--cache disk", "Killed", False),
        ("--cache-dir ram", "Killed", False),
    ],
)
def test_workers_that_each_keep_what_they_load(option: str, signal: str, *, is_kept: bool) -> None:
    log = (f"+ python fit.py {option} --workers 4", WORKER.format(signal))
    assert (host_data.data_is_kept_by_workers(crash(*log)) is not None) is is_kept
