"""`python -m benchmarks.answers` sees what changed, and only that."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from benchmarks import answers

HOG = "stories/openrlhf-reward-server"


@pytest.fixture(scope="module")
def answered() -> dict[str, Any]:
    log = Path(__file__).parent.parent / "fixtures" / HOG / "log.txt"
    return dict([answers.answer(answers.Log(HOG, [log], ["reward-model-ram-hog"]))])


def test_the_same_answers_do_not_differ(answered: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert answers.compare(answered, copy.deepcopy(answered), answers.FIELDS) == 0
    assert "1 logs, 0 differ; right first 1 -> 1 of 1" in capsys.readouterr().out


@pytest.mark.parametrize("field", [name for name in answers.FIELDS if name != "verdict"])
def test_each_field_that_differs_is_shown(
    answered: dict[str, Any], field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    after = copy.deepcopy(answered)
    after[HOG]["incidents"][0][field] = "another"
    assert answers.compare(answered, after, answers.FIELDS) == 1
    assert f"{field}: " in capsys.readouterr().out


def test_an_answer_that_is_wrong_now_is_said(answered: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    after = copy.deepcopy(answered)
    after[HOG]["incidents"][0]["causes"] = ["shm-too-small"]
    answers.compare(answered, after, answers.FIELDS)
    assert "NO LONGER RIGHT, want reward-model-ram-hog" in capsys.readouterr().out


def test_healthy_and_undecided_logs_are_judged_as_their_labels_say() -> None:
    quiet = {"verdict": "no-oom", "incidents": [], "right": ["not-oom"]}
    assert answers.is_right(quiet)
    assert answers.is_right({**quiet, "right": []}) is None
    assert answers.is_right({**quiet, "right": ["activations"]}) is False
