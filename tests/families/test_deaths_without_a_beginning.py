"""What Ray says of a worker's exit, where the line that tells of the death lost its beginning or is cut off above."""

from __future__ import annotations

import pytest

from oomdoctor import families
from oomdoctor.families import Event, Lookalike
from oomdoctor.families.ray_death import WorkerDeath
from oomdoctor.streams import page

TAIL = "Worker exit type: SYSTEM_ERROR Worker exit detail: "
EXITED = "Worker exits unexpectedly. Worker exits with an exit code {}. "
GUESS = "The worker may have exceeded K8s pod memory limits. "
SIGTERM = "The process receives a SIGTERM."


def read(*lines: str) -> tuple[list[Event], list[str]]:
    found = list(families.read(page("job.log", 1, "\n".join(lines).encode() + b"\n")))
    return [one for one in found if isinstance(one, Event)], [one.why for one in found if isinstance(one, Lookalike)]


@pytest.mark.parametrize(
    "said", [EXITED.format(1) + GUESS + SIGTERM, EXITED.format(3) + GUESS, EXITED.format("None") + GUESS + SIGTERM]
)
def test_rays_guess_at_a_pods_limit_is_called_one(said: str) -> None:
    events, whys = read(TAIL + said)
    assert not events
    assert len(whys) == 1
    assert "Ray guesses the pod's memory limit" in whys[0]


def test_rays_guess_in_a_line_of_its_own_is_of_the_death_above() -> None:
    events, whys = read(TAIL + EXITED.format(1).rstrip(), GUESS + SIGTERM)
    assert not events
    assert "Ray guesses the pod's memory limit" in whys[0]


def test_without_the_guess_none_is_named() -> None:
    events, whys = read(TAIL + EXITED.format(1) + SIGTERM)
    assert not events
    assert whys == ["the worker ended on SIGTERM or sys.exit, not for lack of memory"]


def test_an_exit_that_nothing_explains_stays_a_death() -> None:
    events, whys = read(TAIL + EXITED.format("None") + GUESS)
    assert [one.cause for one in events if isinstance(one, WorkerDeath)] == ["pod-limit"]
    assert whys == []


@pytest.mark.parametrize(
    "lines",
    [
        ("Worker exit type: SYSTEM_ERROR",),
        ("# prints Worker exit type: SYSTEM_ERROR Worker exit detail: and more",),
        ("Worker exit type: none Worker exit detail: it ended",),
    ],
)
def test_other_words_are_no_death(lines: tuple[str, ...]) -> None:
    assert read(*lines) == ([], [])


def test_below_the_line_of_a_death_it_is_that_death() -> None:
    death = "A worker died or was killed while executing a task by an unexpected system error. Worker PID: 77"
    events, _ = read(death, TAIL + "Worker unexpectedly exits with a connection error code 2. End of file.")
    assert len([one for one in events if isinstance(one, WorkerDeath)]) == 1
