from __future__ import annotations

import pytest
from gpu_logs import crash, refused, trace

from oomdoctor.signs import checkpoints

KILL = "Killed"


@pytest.mark.parametrize(
    ("lines", "ends_there"),
    [
        (("Saving model to out/7",), True),
        (("Saving model to out/7", "uploading the run's notes"), True),
        (("Saving model to out/7", "step 8 loss: 1.48"), False),
        (("epoch 3: loss 0.4", "Saving model to out/7"), True),
        (("the model is large",), False),
    ],
)
def test_a_checkpoint_that_training_went_on_behind(lines: tuple[str, ...], ends_there: bool) -> None:
    assert (checkpoints.a_line_on_a_checkpoint(crash(*lines, KILL)) is not None) is ends_there


BEGINS = "saving step_{} in the background"
ENDED = "checkpoint step_{} written in 41 s"


@pytest.mark.parametrize(
    ("lines", "wait"),
    [
        ([BEGINS.format(n) for n in (10, 20, 30)] + [ENDED.format(10)], True),
        (["Async checkpoint save started: step 10", "successfully saved checkpoint from iteration 10"] * 2, False),
        ([BEGINS.format(n) for n in (10, 20, 30, 40)] + ["successfully saved checkpoint from iteration 10"], True),
        ([BEGINS.format(n) for n in (10, 20)], False),  # a program that prints no end
        ([BEGINS.format(n) for n in (10, 20)] + [ENDED.format(10)], False),
        ([f"saving step_{n}" for n in (10, 20, 30)] + [ENDED.format(10)], False),  # each before training goes on
        ([f"Finished saving step {n} in the background (41 s)" for n in (10, 20, 30)], False),
        (["Async checkpoint saving disabled: no save starts in the background"] * 3 + [ENDED.format(1)], False),
        (["saving plots in the background"] * 3 + [ENDED.format(1)], False),
    ],
)
def test_saves_that_wait_in_the_background(lines: list[str], wait: bool) -> None:
    assert (checkpoints.saves_wait_in_the_background(crash(*lines, KILL)) is not None) is wait


RAYS_KILL = (
    "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
    (
        f"Memory on the node (IP: 10.9.8.7, ID: {'ab' * 28}) where the task (task ID: {'cd' * 24}, name=run, pid=71, "
        "memory used=2.00GB) was running was {used}GB / 800.00GB (0.951000), which exceeds the memory usage threshold "
        f"of 0.95. Ray killed this worker (ID: {'ef' * 28}) because it was the most recently scheduled task; to see "
        "more information about memory usage on this node, use `ray logs raylet.out -ip 10.9.8.7`. Top 10 memory users:"
    ),
    "PID\tMEM(GB)\tCOMMAND",
)


def told(rows: int, used: str = "760.80", others: int = 0) -> str:
    """What is said of so many workers of 60 GB that save a checkpoint."""
    users = [f"{100 + rank}\t60.00\tray::Trainer.save_checkpoint" for rank in range(rows)]
    small = [f"{500 + number}\t0.10\tray::IDLE" for number in range(others)]
    seen = checkpoints.who_held_most_was_saving(crash(*(line.format(used=used) for line in RAYS_KILL), *users, *small))
    assert seen is not None
    return seen.words


def test_rows_that_the_log_lost_may_hold_the_rest() -> None:
    assert told(4).endswith(
        "The log shows 4 of the 10 rows that Ray prints: more such processes may hold part of the other 520.80 GiB."
    )


@pytest.mark.parametrize(
    ("rows", "used", "others", "why"),
    [
        (10, "760.80", 0, "Ray prints no more"),
        (4, "760.80", 6, "Ray prints no more, and those that follow are small"),
        (4, "299.99", 0, "what is left is less than one more of them holds"),
    ],
)
def test_rows_that_nobody_lost(rows: int, used: str, others: int, why: str) -> None:
    assert "rows that Ray prints" not in told(rows, used, others), why


@pytest.mark.parametrize(
    ("code", "is_seen"), [("optim.load_state_dict(kept)", True), ("model.load_state_dict(kept)", False)]
)
def test_the_state_of_an_optimizer_is_loaded(code: str, is_seen: bool) -> None:
    lines = [*trace(("app/keep.py", "restore_checkpoint", code)), refused()]
    assert (checkpoints.in_code_that_loads_an_optimizers_state(crash(*lines)) is not None) is is_seen


@pytest.mark.parametrize(
    ("end", "shows"),
    [
        ("A worker died or was killed while executing a task by an unexpected system error.", False),
        ("run.sh: line 3: 71 Killed    python fit.py", True),
    ],
)
def test_a_worker_that_ray_only_misses_proves_nothing_by_its_moment(end: str, shows: bool) -> None:
    died = crash("Loading the checkpoint from /srv/loom/step-9", end)
    seen = checkpoints.while_a_checkpoint_was_written_or_read(died)
    assert seen is not None
    assert seen.shows_memory is shows
