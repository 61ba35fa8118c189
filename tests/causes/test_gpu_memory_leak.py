from __future__ import annotations

from gpu_logs import FORWARD, finding, refused, says, trace

from oomdoctor.causes.gpu_memory_leak import CAUSE

STEP = (
    "[Rank 0] (after {} iterations) memory (MB) | allocated: {}.00 | max allocated: 70000.00 | reserved: {}.00 "
    "| max reserved: 74000.00"
)


def steps(*sizes: int) -> list[str]:
    return [STEP.format(10 * (n + 1), size, size + 500) for n, size in enumerate(sizes)]


def test_not_a_figure_that_stays() -> None:
    assert says(CAUSE, *steps(*[40000] * 8), refused()) is None


def test_not_a_warm_up() -> None:
    assert says(CAUSE, *steps(30000, 42000, 42000, 42000, 42000, 42000, 42000, 42000), refused()) is None


def test_not_a_log_without_figures() -> None:
    assert says(CAUSE, *trace(FORWARD), refused()) is None


def test_not_a_figure_that_goes_up_and_down() -> None:
    assert says(CAUSE, *steps(40000, 52000, 39000, 51000, 41000, 50500, 40000, 52000), refused()) is None


def test_a_figure_that_grows_with_every_print() -> None:
    found = finding(CAUSE, *steps(*range(30000, 76000, 4000)), refused())
    assert found.weight >= 0.8
    assert "29.30 GiB" in found.why
