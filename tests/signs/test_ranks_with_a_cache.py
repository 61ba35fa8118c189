"""LMCache keeps one buffer per rank; a log that ends without a word is no proof of anything else."""

from __future__ import annotations

import pytest
from system_logs import crash_of, quiet

from oomdoctor.signs.host_caches import every_rank_keeps_a_cache

LAUNCH = "vllm serve /models/q --max-model-len 20000 --tensor-parallel-size {ranks}\n"
CACHE = "chunk_size: 256\nlocal_cpu: true\nmax_local_cpu_size: {size}\n"
LEFT = (
    "/usr/lib/python3.10/multiprocessing/resource_tracker.py:224: UserWarning: resource_tracker: There appear to be 5 "
    "leaked shared_memory objects to clean up at shutdown.\n"
)


def test_the_buffers_of_all_ranks_are_added() -> None:
    crash = crash_of(LAUNCH.format(ranks=4) + CACHE.format(size=200) + LEFT)
    seen = every_rank_keeps_a_cache(crash)
    assert seen is not None
    assert "4 ranks x 200 GB = 800 GB" in seen.words
    assert not crash.proven


@pytest.mark.parametrize(("ranks", "size"), [(1, 200), (4, 5), (2, 100)])
def test_a_small_buffer_or_one_rank_is_no_matter(ranks: int, size: int) -> None:
    assert every_rank_keeps_a_cache(crash_of(LAUNCH.format(ranks=ranks) + CACHE.format(size=size) + LEFT)) is None


@pytest.mark.parametrize(
    "log",
    [
        LAUNCH + LEFT + "INFO: next line of the job\n",
        LAUNCH + "Training finished.\n" + LEFT,
        LAUNCH + "KeyboardInterrupt\n" + LEFT,
        LAUNCH + "ValueError: no such model\n" + LEFT,
        LAUNCH + "100%|####| 8/8 [00:03<00:00]\n" + LEFT,
        LAUNCH + "INFO: Shutting down\n" + LEFT,
        LAUNCH + LEFT.replace("shared_memory", "semaphore"),
    ],
)
def test_a_process_that_ended_by_itself_leaves_no_question(log: str) -> None:
    assert quiet(log.format(ranks=4))


def test_a_silent_end_is_a_question() -> None:
    assert not quiet(LAUNCH.format(ranks=4) + LEFT)
