"""Replay memories whose size the log tells: near misses first."""

from __future__ import annotations

import pytest
from gpu_logs import TRACEBACK, crash

from oomdoctor.signs.replays import a_replay_memory_is_large, replay_of

REFUSED = (TRACEBACK, '  File "/home/ann/main.py", line 7, in <module>', "    agent = Agent(env)", "MemoryError")

NO_AGENT = (TRACEBACK, '  File "/home/ann/main.py", line 7, in <module>', "    y = decode(x)", "MemoryError")


@pytest.mark.parametrize(
    "lines",
    [
        ("replay_capacity: 1000000",),  # of what, nobody says
        ("observation_shape: (84, 84)",),
        ("shuffle_buffer_size: 1000000", "observation_shape: (84, 84)"),
        ("batch_size: 1000000", "observation_shape: (84, 84)"),
        ("replay_ratio: 1000000", "observation_shape: (84, 84)"),
        ("replay_capacity: 1000000", "output_shape: (84, 84)"),
        ("replay_capacity: 120.50", "observation_shape: (84, 84)"),
        # a decoder's, a data set's
        ("buffer_size=2097152", "frame_size: (720, 1280)"),
        ("buffer_size: 20000", "frame_shape: (96, 96, 3)"),
        ("memory_size: 20000", "state_shape: (96, 96, 3)"),
    ],
)
def test_what_tells_of_no_replay_memory(lines: tuple[str, ...]) -> None:
    refused = REFUSED if "observation" in lines[-1] or "output" in lines[-1] else NO_AGENT
    assert replay_of(crash(*lines, *refused)) is None


@pytest.mark.parametrize(
    ("lines", "least"),
    [
        (("INFO: \t observation_shape: (72, 72)", "INFO: \t replay_capacity: 900000"), 900000 * 72 * 72),
        (("Namespace(buffer_size=1e6, lr=0.1)", "obs_shape=(4, 84, 84)"), 10**6 * 4 * 84 * 84),
        (
            ("{'replay_buffer_size': 1_000_000}", "Observation space: Box(0, 255, (96, 96, 3), uint8)"),
            10**6 * 96 * 96 * 3,
        ),
        (("python main.py --memory-capacity 400000", "state_dim: [64, 64]"), 400000 * 64 * 64),
        (("max_replay_size = 2,000,000", "frame_shape: (60, 80)"), 2 * 10**6 * 60 * 80),
    ],
)
def test_a_replay_memory_in_a_programs_words(lines: tuple[str, ...], least: int) -> None:
    it = crash(*lines, *REFUSED)
    replay, seen = replay_of(it), a_replay_memory_is_large(it)
    assert replay is not None and replay.least_bytes == least
    assert seen is not None and replay.formula in seen.words


@pytest.mark.parametrize(("capacity", "large"), [(149130, False), (149131, True)])
def test_a_gibibyte_is_large(capacity: int, *, large: bool) -> None:
    it = crash(f"replay_capacity: {capacity}", "observation_shape: (80, 90)", *REFUSED)
    assert (a_replay_memory_is_large(it) is not None) == large


@pytest.mark.parametrize(("capacity", "large"), [(114532461, True), (114532462, False)])
def test_what_no_machine_has_is_a_wrong_count(capacity: int, *, large: bool) -> None:
    it = crash(f"replay_capacity: {capacity}", "observation_shape: (80, 90)", *REFUSED)
    assert (a_replay_memory_is_large(it) is not None) == large


def test_a_kill_needs_a_limit_that_it_exceeds() -> None:
    told = ("replay_capacity: 1000000", "observation_shape: (84, 84)")
    kill = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed."
    assert a_replay_memory_is_large(crash(*told, kill)) is None
