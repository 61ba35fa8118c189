from __future__ import annotations

from pathlib import Path

import pytest
from gpu_logs import crash, finding, ranking, says
from host_logs import REWARD_SERVER, TRAINERS, kill

from oomdoctor import diagnose
from oomdoctor.causes.host_memory_leak import CAUSE
from oomdoctor.decision.diagnosis import decide
from oomdoctor.decision.judgement import RuledOut
from oomdoctor.signs import Grade


def steps(*gib: float) -> list[str]:
    return [f"(main_task pid=7) [step {n}] memory used = {size:.2f} GiB" for n, size in enumerate(gib, 1)]


def test_not_without_figures() -> None:
    assert says(CAUSE, *kill(REWARD_SERVER)) is None


def test_not_where_the_figure_stands_still() -> None:
    assert says(CAUSE, *steps(210.0, 211.0, 210.5, 210.8), *kill()) is None


def test_not_a_jump_in_the_first_step_alone() -> None:
    assert says(CAUSE, *steps(20.0, 210.0, 210.2, 210.1, 210.3, 210.2, 210.1), *kill()) is None


def test_megabytes_of_a_small_process_explain_no_kill() -> None:
    rss = [f"step {n} RSS: {10 + n} MiB" for n in range(20)]
    assert says(CAUSE, *rss, "slurmstepd: error: Detected 1 oom_kill event in StepId=71.0.") is None
    rss = [f"step {n} RSS: {1000 + 100 * n} MiB" for n in range(20)]
    assert says(CAUSE, *rss, "slurmstepd: error: Detected 1 oom_kill event in StepId=71.0.") is not None


def test_a_little_growth_weighs_less() -> None:
    found = finding(CAUSE, *steps(200.0, 204.0, 208.0, 212.0), *kill())
    assert found.grade is Grade.POINTS
    assert "most of the memory was in use before" in found.against[0]


def test_growth_step_after_step() -> None:
    lines = (*steps(40.0, 90.0, 140.0, 190.0), *kill())
    found = finding(CAUSE, *lines)
    assert found.grade is Grade.PROVES
    assert "From line 1 to line 4, memory used grew from 40.00 GiB to 190.00 GiB, about 50.00 GiB per step" in found.why
    assert ranking(*lines)[0] == "host-memory-leak"


def test_three_prints_without_steps_may_be_a_start() -> None:
    prints = [f"(main_task pid=7) memory used = {size:.2f} GiB" for size in (40.0, 90.0, 140.0, 190.0, 240.0)]
    few = finding(CAUSE, *prints[:3], *kill())
    assert few.grade is Grade.NAMES
    assert any("only 3 prints show the growth" in reason for reason in few.against)
    enough = finding(CAUSE, *prints, *kill())
    assert enough.grade is Grade.PROVES
    assert not any("prints show it" in reason for reason in enough.against)


def test_the_engine_that_makes_its_cache_anew_comes_first() -> None:
    config = "(main_task pid=7) Namespace(free_cache_engine=True, swap_space=40, enforce_eager=True)"
    found = finding(CAUSE, config, *steps(40.0, 90.0, 140.0, 190.0), *kill())
    assert found.knobs[:2] == ("keep-engine-cache", "less-swap-space")


def test_a_cache_that_is_kept_already_is_no_knob() -> None:
    config = "Namespace(free_cache_engine=False, swap_space=0)"
    found = finding(CAUSE, config, *steps(40.0, 90.0, 140.0, 190.0), *kill())
    assert "keep-engine-cache" not in found.knobs
    assert "less-swap-space" not in found.knobs


def test_where_it_grows_may_be_the_reward_model() -> None:
    lines = (*steps(40.0, 90.0, 140.0, 190.0), *kill(REWARD_SERVER, *TRAINERS))
    assert "(PID 31207) holds 171.44 GiB: its growth matters more" in finding(CAUSE, *lines).against[0]
    assert decide(crash(*lines)).answers[0].cause.id == "reward-model-ram-hog"


def test_the_logs_own_word_for_a_leak_is_a_suspicion() -> None:
    word = "WARNING memory leak suspected in worker 3"
    for lines in ((word, *kill()), (*steps(210.0, 211.0, 210.5, 210.8), word, *kill())):
        found = finding(CAUSE, *lines)
        assert found.grade is Grade.LEFT
        assert "no figure in it shows growth" in found.why
        assert ranking(*lines)[0] != "host-memory-leak"
    assert says(CAUSE, "INFO memory leak check passed", *kill()) is None


def test_figures_that_stay_speak_against_the_logs_word_for_a_leak() -> None:
    level = steps(*(210.0 + n % 2 / 10 for n in range(12)))
    assert isinstance(says(CAUSE, *level, "WARNING memory leak suspected in worker 3", *kill()), RuledOut)


@pytest.mark.parametrize(
    ("print_of", "is_read"),
    [
        ("batch {n} RSS MEM USE: {size}G", True),
        ("batch {n} rss mem usage: {size} GB", True),
        ("batch {n} memory used by process: {size} GB", True),
        ("batch {n} RSS feeds in use: {size}G", False),
    ],
)
def test_what_a_process_says_of_itself(print_of: str, is_read: bool) -> None:
    prints = [print_of.format(n=n, size=10 + 20 * n) for n in range(8)]
    found = says(CAUSE, "each rank gets killed by the system after some hours", *prints)
    assert (found is not None) is is_read


@pytest.mark.parametrize(("rise", "first"), [(100, "clear-references"), (0, None)])
def test_what_is_kept_is_dropped_before_a_batch_is_halved(rise: int, first: str | None, tmp_path: Path) -> None:
    rows = "".join(f"step {n} RSS: {1000 + rise * n} MiB\n" for n in range(20))
    path = tmp_path / "job.log"
    path.write_text(
        f"+ python fit.py --batch-size 64\n{rows}job.sh: line 2: 4 Killed   python fit.py\n", encoding="utf-8"
    )
    found = diagnose(path).as_json()["diagnoses"]
    leaks = [one for one in found if one["cause"] == "host-memory-leak"]
    assert (leaks[0]["remedies"][0]["knob"] if leaks else None) == first
