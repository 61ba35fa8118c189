from __future__ import annotations

from gpu_logs import FORWARD, finding, refused, says, trace

from oomdoctor.causes.gpu_memory_leak import CAUSE
from oomdoctor.decision.judgement import RuledOut
from oomdoctor.signs import Grade

STEP = (
    "[Rank 0] (after {} iterations) memory (MB) | allocated: {}.00 | max allocated: 70000.00 | reserved: {}.00 "
    "| max reserved: 74000.00"
)


def why_not(*lines: str) -> str:
    judgement = says(CAUSE, *lines, refused())
    assert isinstance(judgement, RuledOut)
    return judgement.why


def steps(*sizes: int) -> list[str]:
    return [STEP.format(10 * (n + 1), size, size + 500) for n, size in enumerate(sizes)]


def test_not_a_figure_that_stays() -> None:
    assert why_not(*steps(*[40000] * 8)) == (
        "allocated GPU memory does not grow: 39.06 GiB at first, 39.06 GiB at the end (8 prints)"
    )


def test_not_of_seven_prints() -> None:
    assert says(CAUSE, *steps(*[40000] * 7), refused()) is None


def test_not_a_warm_up() -> None:
    assert why_not(*steps(30000, 42000, 42000, 42000, 42000, 42000, 42000, 42000)) == (
        "allocated GPU memory rises from 29.30 GiB to 41.02 GiB and then stays there (8 prints)"
    )


def test_not_a_log_without_figures() -> None:
    assert says(CAUSE, *trace(FORWARD), refused()) is None


def test_not_a_figure_that_goes_up_and_down() -> None:
    assert why_not(*steps(*[40000, 52000, 40100, 51000] * 4)) == (
        "allocated GPU memory goes up and down between 39.06 GiB and 50.78 GiB; its low points do not grow (16 prints)"
    )


def test_not_a_counter_that_creeps() -> None:
    assert says(CAUSE, *steps(*range(30000, 31000, 100)), refused()) is None


def test_not_where_the_figures_leave_it_open() -> None:
    assert says(CAUSE, *steps(40000, 52000, 39000, 51000, 43000, 50500, 45000, 56000), refused()) is None


def test_a_figure_that_grows_with_every_print() -> None:
    found = finding(CAUSE, *steps(*range(30000, 76000, 4000)), refused())
    assert found.grade == Grade.PROVES
    assert "29.30 GiB" in found.why
