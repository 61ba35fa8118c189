"""Options of releases that came out after the log was written are not proposed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from remedy_logs import advise, crashes_of

import oomdoctor
from oomdoctor.job.frameworks import framework
from oomdoctor.remedies import cells
from oomdoctor.remedies.settings import AHEAD, by_then
from oomdoctor.versions import ALL

TABLE = Path(oomdoctor.__file__).parent / "remedies" / "releases.txt"


def test_the_table_names_known_frameworks_and_days() -> None:
    rows = list(cells.rows(TABLE))
    assert len(rows) > 100
    for name, release, day, *_ in rows:
        assert framework(name) is not None, name
        assert re.fullmatch(r"\d+(\.\d+){1,3}", release), release
        assert re.fullmatch(r"20[12]\d-\d\d-\d\d", day), day


@pytest.mark.parametrize(
    ("day", "before"),
    [("2024-06-21", (0, 6)), ("2025-03-18", (0, 9)), ("2019-01-01", (0, 4)), ("2040-01-01", None), ("", None)],
)
def test_what_was_out_by_then(day: str, before: tuple[int, ...] | None) -> None:
    assert AHEAD == 60
    assert by_then("vllm", day) == ALL if before is None else by_then("vllm", day).before == before


@pytest.mark.parametrize("day", ["2024-02-30", "2024-13-01", "yesterday"])
def test_a_day_that_is_none_tells_nothing(day: str) -> None:
    assert by_then("vllm", day) == ALL


def test_a_framework_without_releases_is_as_before() -> None:
    assert by_then("slime", "2019-01-01") == ALL


LINE = "[{stamp}] ERROR trainer: tensorflow/core/common_runtime/bfc_allocator.cc:462 Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.10GiB (rounded to 2254857830)\n"  # noqa: E501


@pytest.mark.parametrize(
    ("stamp", "day"),
    [
        ("2019-10-02 10:00:01,311", "2019-10-02"),
        ("2024/06/21T10:00:01", "2024-06-21"),
        ("10-02 10:00:01", ""),
        ("build 2019-10-02", ""),
        ("2019-10-40 10:00:01", ""),
    ],
)
def test_the_day_of_a_crash_stands_at_the_head_of_its_lines(stamp: str, day: str) -> None:
    assert crashes_of(LINE.format(stamp=stamp))[0].context.day == day


@pytest.mark.parametrize(("year", "known"), [(2019, False), (2023, True)])
def test_a_call_is_proposed_from_its_release_on(year: int, known: bool) -> None:
    log = (
        LINE.format(stamp=f"{year}-10-02 10:00:01") + "tensorflow.python.framework.errors_impl.ResourceExhaustedError\n"
    )
    remedy = advise(log, "mixed-precision", cause="activations")[0]["mixed-precision"]
    assert ("set_global_policy" in (remedy.snippet or "")) is known


OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 3.25 GiB (GPU 0; 31.75 GiB total capacity; 18.00 GiB already "
    "allocated; 1.20 GiB free; 24.31 GiB reserved in total by PyTorch)\n"
)
NEW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.25 GiB. GPU 0 has a total capacity of 31.75 GiB "
    "of which 1.20 GiB is free. Of the allocated memory 18.00 GiB is allocated by PyTorch, and 6.31 GiB is reserved by "
    "PyTorch but unallocated.\n"
)


@pytest.mark.parametrize(
    ("log", "told"), [(OLD, {"torch": "<2.1"}), (NEW, {}), (OLD.replace("CUDA", "NPU").replace("(GPU", "(NPU"), {})]
)
def test_the_words_of_a_message_tell_its_releases(log: str, told: dict[str, str]) -> None:
    assert crashes_of(log)[0].context.releases == told


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (OLD, "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512"),
        (NEW, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
        (
            OLD.replace("CUDA", "NPU").replace("(GPU", "(NPU"),
            "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True",
        ),
    ],
)
def test_an_allocator_is_told_what_its_release_knows(log: str, line: str) -> None:
    remedy = advise(log, "allocator-config", cause="allocator-fragmentation")[0]["allocator-config"]
    assert remedy.snippet == line
