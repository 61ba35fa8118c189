"""Memory that grows from batch to batch of one evaluation is what it keeps; from evaluation to evaluation it leaks."""

from __future__ import annotations

import pytest
from gpu_logs import crash, ranking

from oomdoctor.signs import evaluation

KILLED = "run.sh: line 3:    71 Killed                  python -u rate.py --batch_size 16"
END = "exit code: 137"


def prints(form: str, *counts: int) -> list[str]:
    return [form.format(count=count, rss=700 + 60 * place) for place, count in enumerate(counts)]


STEPS = (0, 10, 20, 30, 40, 50)


@pytest.mark.parametrize(
    "lines",
    [
        prints("step {count}/90 rss {rss} MB", *STEPS),
        prints("validation batch 9/9 rss {rss} MB", *STEPS),
        prints("validation after step {count} rss {rss} MB", *STEPS),
        [*prints("step {count}/90 rss {rss} MB", 0, 10), *prints("validation batch {count}/90 rss {rss} MB", *STEPS)],
        prints("validation batch {count}/90 rss {rss} MB", 0, 10, 20, 0, 10, 20),
        ["validation batch 1/90 rss 700 MB", "validation batch 2/90 rss 900 MB"],
    ],
    ids=["training", "each at its end", "steps", "training and validation", "two validations", "two prints"],
)
def test_not_what_grows_elsewhere_or_from_one_evaluation_to_the_next(lines: list[str]) -> None:
    assert evaluation.host_memory_grew_within_an_evaluation(crash(*lines, KILLED, END)) is None


@pytest.mark.parametrize(
    "form",
    [
        "validation batch {count}/90 rss {rss} MB",
        "Testing: {count} of 90, rss {rss} MB",
        "eval [{count}/90] rss: {rss} MB",
    ],
)
def test_one_evaluation_that_keeps_its_results(form: str) -> None:
    lines = (*prints(form, *STEPS), KILLED, END)
    found = evaluation.host_memory_grew_within_an_evaluation(crash(*lines))
    assert found is not None
    assert found.unsure
    assert ranking(*lines)[0] == "eval-accumulation"
    assert "host-memory-leak" not in ranking(*lines)
