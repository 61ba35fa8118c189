"""Rows that `datasets` keeps back while it maps: by their size, and near misses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_logs import crash

import oomdoctor
from oomdoctor.signs import mapped_data

BAR = "Embedding (num_proc={}):  41%|####      | 3702/9030 [00:41<00:58, 91.10 examples/s]"
TRACE = (
    "Traceback (most recent call last):",
    '  File "/x/site-packages/datasets/arrow_dataset.py", line 560, in wrapper',
    "    out = func(self, *args, **kwargs)",
    '  File "/x/site-packages/datasets/arrow_dataset.py", line 3310, in {}',
    "    for rank, done, content in iflatmap_unordered(",
)
DIED = (
    "RuntimeError: One of the subprocesses has abruptly died during map operation.To debug the error, disable "
    "multiprocessing."
)


def lines(command: str, processes: int = 4, *prints: str, function: str = "map") -> list[str]:
    return [f"+ {command}", *prints, BAR.format(processes), *(line.format(function) for line in TRACE), DIED]


def waiting(*told: str) -> mapped_data.Waiting | None:
    return mapped_data.waiting_rows(crash(*told))


@pytest.mark.parametrize(
    ("command", "prints", "held"),
    [
        ("python prep.py --image_size 256", (), (1000, 4, 3 * 256 * 256 * 4)),
        ("python prep.py --image_size 256 --writer_batch_size 40", (), (40, 4, 3 * 256 * 256 * 4)),
        ("python prep.py --image_size 256 --pixel_dtype float16", (), (1000, 4, 3 * 256 * 256 * 2)),
        ("python prep.py", ("spectrogram (128, 3000) float64",), (1000, 4, 128 * 3000 * 8)),
        ("python prep.py --image_size 256", ("input_features: torch.Size([80, 3000])",), (1000, 4, 80 * 3000 * 4)),
        ("python prep.py --image_size 16", (), None),  # of a filter
        ("python prep.py --max_length 2048", (), None),
        ("python prep.py", ("batch (128, 3000)",), None),
        ("python prep.py", ("features: ['picture', 'label']",), None),
    ],
)
def test_a_row_is_as_large_as_the_log_says(
    command: str, prints: tuple[str, ...], held: tuple[int, int, int] | None
) -> None:
    found = waiting(*lines(command, 4, *prints))
    assert (None if found is None else (found.rows, found.processes, found.row_bytes)) == held


def test_a_filter_writes_no_rows() -> None:
    assert waiting(*lines("python prep.py --image_size 256", function="filter")) is None


def test_another_kill_is_no_matter_of_a_map() -> None:
    assert waiting("+ python prep.py --image_size 256", BAR.format(4), "Killed") is None


@pytest.mark.parametrize(("rows", "many"), [(1000, True), (300, False)])
def test_small_rows_or_few_of_them_fill_nothing(rows: int, *, many: bool) -> None:
    log = crash(*lines(f"python prep.py --image_size 256 --writer_batch_size {rows}"))
    assert (mapped_data.rows_wait_to_be_written(log) is not None) == many


def diagnosis(tmp_path: Path, *told: str) -> dict[str, Any]:
    (tmp_path / "job.log").write_text("\n".join(told) + "\n", encoding="utf-8")
    first: dict[str, Any] = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]
    return first


def test_what_waits_is_written_more_often_first(tmp_path: Path) -> None:
    first = diagnosis(tmp_path, *lines("python prep.py --image_size 256 --writer_batch_size 500 --num_proc 6", 6))
    assert first["cause"] == "dataset-in-ram"
    assert "500 x 768 KiB x 6" in first["explanation"]
    one = first["remedies"][0]
    assert (one["knob"], one["snippet"], one["suggested"]) == ("smaller-buffers", "--writer_batch_size 50", 50)
    assert one["assumes"] == ["numbers of 4 bytes (float32)", "pictures have 3 channels"]


def test_a_call_is_no_batched_one(tmp_path: Path) -> None:
    first = diagnosis(tmp_path, *lines("python prep.py --image_size 256"))
    snippets = {one["knob"]: one["snippet"] for one in first["remedies"]}
    assert snippets["smaller-buffers"] == "dataset.map(function, writer_batch_size=50)"
    assert "batched" not in "".join(snippet or "" for snippet in snippets.values())


def test_one_process_is_one_too_many_to_see_the_error(tmp_path: Path) -> None:
    first = diagnosis(tmp_path, *lines("python prep.py --max_length 2048"))
    assert "leave num_proc out" in first["explanation"]


IMAGES = "features: {'pixel_values': Array3D(shape=(3, 224, 224), dtype='float32')}"
STUCK = "Preparing:   0%|          | 0/4000 [00:00<?, ? examples/s]run.sh: line 7:     8 Killed      python prepare.py"


@pytest.mark.parametrize(
    ("options", "bar", "waits"),
    [
        ("--writer_batch_size 1000", STUCK, True),  # 2 x 1000 x 588 KiB
        ("--writer_batch_size 800", STUCK, False),  # 919 MiB
        ("--batch_size 1000", STUCK, False),
        ("--writer_batch_size 1000", "run.sh: line 7:     8 Killed      python prepare.py", False),
    ],
)
def test_a_bar_of_a_map_that_was_killed(options: str, bar: str, *, waits: bool) -> None:
    told = crash(f"+ python prepare.py {options}", IMAGES, bar)
    assert (mapped_data.rows_wait_to_be_written(told) is not None) is waits
