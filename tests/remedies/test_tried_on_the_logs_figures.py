"""A remedy's value is larger than today's, covers what the log says is missing, and is possible on the machine."""

from __future__ import annotations

import pytest
from remedy_logs import advise, crashes_of, cuda

from oomdoctor.causes import causes
from oomdoctor.report.headline import headline
from oomdoctor.units import GIB

STORE = (
    "ValueError: The configured object store size ({:.9f} GB) exceeds /dev/shm size ({:.9f} GB). This will harm "
    "performance. Consider deleting files in /dev/shm or increasing its size with --shm-size in Docker.\n"
)
NO_BLOCKS = (
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing "
    "the engine.\n"
)
PROFILED = "Memory profiling results: total_gpu_memory=40.00GiB initial_memory_usage={}GiB\n"
SERVED = "vllm serve org/M-7B --gpu-memory-utilization {}\n"


def store(requested: float, there: float) -> str:
    return STORE.format(requested * GIB / 1e9, there * GIB / 1e9)


@pytest.mark.parametrize(
    ("requested", "there", "size"),
    [
        (6.99999, 6.9999, "8g"),  # 7g with a file in it
        (7.0, 6.5, "8g"),
        (9.5, 7.0, "10g"),
        (20.0, 0.0625, "20g"),
    ],
)
def test_a_shm_is_larger_than_that_which_is_there(requested: float, there: float, size: str) -> None:
    assert advise(store(requested, there), "bigger-shm")[0]["bigger-shm"].suggested == size


def test_a_store_that_fits_into_the_shm_that_is_there() -> None:
    one = advise(store(7.0, 6.0), "smaller-object-store")[0]["smaller-object-store"]
    assert one.suggested == int(0.95 * 6 * GIB)
    assert one.snippet is not None
    assert str(one.suggested) in one.snippet


@pytest.mark.parametrize(("ram", "refused"), [(20, False), (19, True)])
def test_no_shm_beyond_the_machines_memory(ram: int, refused: bool) -> None:
    rejected = advise(f"MemTotal: {ram * 1024**2} kB\n" + store(19.5, 9.0), "bigger-shm")[1]
    assert ("bigger-shm" in rejected) is refused


@pytest.mark.parametrize(
    ("requested", "there", "told"),
    [
        (6.0, 5.9998, "Ray's object store of 6 GiB is 210 KiB larger than /dev/shm"),
        (6.0, 5.9, "Ray's object store of 6 GiB does not fit into /dev/shm (5.9 GiB)"),
    ],
)
def test_two_sizes_that_look_the_same_are_told_by_their_difference(requested: float, there: float, told: str) -> None:
    cause = next(each for each in causes() if each.id == "shm-too-small")
    assert headline(cause, crashes_of(store(requested, there))[0]) == told


@pytest.mark.parametrize(
    ("share", "used", "then"),
    [
        ("0.3", "12.00", 0.35),  # just in use: nothing is left
        ("0.3", "30.00", 0.8),
        ("0.3", "11.99", 0.35),  # something is left: a step
        ("0.3", "37.20", 0.98),
        ("0.6", "8.00", 0.65),
    ],
)
def test_a_share_is_raised_above_what_others_hold(share: str, used: str, then: float) -> None:
    log = SERVED.format(share) + PROFILED.format(used) + NO_BLOCKS
    assert advise(log, "raise-engine-reservation")[0]["raise-engine-reservation"].suggested == then


def test_no_share_holds_what_is_in_use_already() -> None:
    log = SERVED.format("0.3") + PROFILED.format("37.30") + NO_BLOCKS
    chosen, rejected = advise(log, "raise-engine-reservation")
    assert not chosen
    assert "in use before the profiling run" in rejected["raise-engine-reservation"].why


@pytest.mark.parametrize(
    ("line", "then"),
    [
        ("Trial 2 pruned; please compare per_device_train_batch_size: 3 of trial 1\n", 1),
        ("Please look at per_device_train_batch_size\n", 4),
        ("Please compare rows / per_device_train_batch_size = 3\n", 4),
        ("Please compare my.other_per_device_train_batch_size: 3\n", 4),
        ("", 4),
    ],
)
def test_no_default_stands_in_for_a_value_that_was_not_read(line: str, then: int) -> None:
    frame = '  File "/x/site-packages/transformers/trainer.py", line 9, in train\n    return inner_training_loop(\n'
    log = f"{line}Traceback (most recent call last):\n{frame}{cuda()}"
    assert advise(log, "smaller-microbatch", cause="activations")[0]["smaller-microbatch"].suggested == then
