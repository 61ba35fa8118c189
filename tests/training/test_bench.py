from __future__ import annotations

import json
from pathlib import Path

import pytest

from oomdoctor.training.bench import (
    Outcome,
    calibration_error,
    confusions,
    figures,
    macro_f1,
    outcomes,
    reliability,
    text,
)
from oomdoctor.training.cases import Case, CaseError, cases_in

REFUSAL = "RuntimeError: CUDA error: out of memory\n"


def case(cause: str, also: tuple[str, ...] = (), decided: bool = True, software: tuple[str, ...] = ()) -> Case:
    return Case(name="c", logs=(), cause=cause, also=also, decided=decided, software=software, label={})


def said(
    label: str,
    *causes: str,
    sure: float | None = 0.9,
    verdict: str = "oom",
    also: tuple[str, ...] = (),
    decided: bool = True,
) -> Outcome:
    return Outcome(
        case=case(label, also, decided, ("vLLM 0.8",)), verdict=verdict, causes=causes, confidence=sure, open=False
    )


def test_right_is_what_a_fair_judge_accepts() -> None:
    assert said("activations", "activations").right
    assert said("activations", "logits-spike", also=("logits-spike",)).right
    assert not said("activations", "logits-spike", "activations").right
    assert said("activations", "logits-spike", "activations").among_first
    assert not said("activations", "a", "b", "c", "activations").among_first


def test_silence_is_right_only_where_the_label_says_so() -> None:
    assert said("killed-without-evidence", verdict="no-oom", also=("not-oom",), sure=None).right
    assert not said("activations", verdict="no-oom", sure=None).right
    assert said("not-oom", verdict="no-oom", sure=None).right
    assert not said("not-oom", "activations").right


def test_the_figures_count_clear_cases_apart() -> None:
    told = figures(
        [said("activations", "activations"), said("activations", "x", decided=False), said("not-oom", verdict="no-oom")]
    )
    assert told["right_first"] == [1, 1]
    assert told["right_first_undecidable"] == [0, 1]
    assert told["quiet"] == [1, 1]


def test_calibration_is_nought_where_confidence_is_right_and_large_where_it_is_not() -> None:
    honest = [said("a", "a" if n < 8 else "b", sure=0.8) for n in range(10)] * 5
    assert calibration_error(honest) == 0.32  # one value for all fills each bin with one kind of outcome: score so
    assert calibration_error([said("a", "a", sure=1.0)] * 20) == 0
    assert calibration_error([said("a", "b", sure=1.0)] * 20) == 1.0
    assert calibration_error([]) is None
    assert [count for count, _, _ in reliability([said("a", "a")] * 7)] == [1, 1, 2, 1, 2]


def test_macro_f1_needs_enough_cases_of_a_cause() -> None:
    assert macro_f1([said("a", "a")] * 4) is None
    assert macro_f1([said("a", "a")] * 5 + [said("b", "a")] * 5) == round((2 * 5 / 15 + 0) / 2, 3)


def test_confusions_name_the_verdict_where_there_is_no_answer() -> None:
    assert confusions([said("a", verdict="no-oom"), said("a", "b"), said("a", "b")]) == [
        ("a", "b", 2),
        ("a", "no-oom", 1),
    ]


def test_a_folder_of_cases(tmp_path: Path) -> None:
    for name, log, cause in (("one", REFUSAL, "gpu-memory-exhausted"), ("two", "all is well\n", "not-oom")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log.txt").write_text(log)
        (tmp_path / name / "case.json").write_text(json.dumps({"root_cause": cause, "software": ["PyTorch 2.8"]}))
    told: list[None] = []
    found = outcomes(cases_in(tmp_path), lambda: told.append(None))
    assert [outcome.right for outcome in found] == [True, True]
    assert len(told) == 2
    assert "pytorch" in text(found)
    assert "1/1  100.0%" in text(found)


@pytest.mark.parametrize(
    ("label", "says"),
    [
        ('{"stage": "eval"}', "root_cause"),
        ('{"root_cause": 3}', "root_cause"),
        ("[1]", "root_cause"),
        ("{", "no JSON"),
        ('{"root_cause": "actvations"}', "there is no cause actvations"),
        ('{"root_cause": "activations", "also_acceptable": ["x"]}', "there is no cause x"),
        ('{"root_cause": "activations", "inputs": "log.txt"}', "has to be a list"),
        ('{"root_cause": "activations", "inputs": ["gone.log"]}', "gone.log is not there"),
    ],
)
def test_a_case_that_cannot_be_used(label: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "log.txt").write_text(REFUSAL)
    (tmp_path / "one" / "case.json").write_text(label)
    with pytest.raises(CaseError, match=says):
        cases_in(tmp_path)


def test_a_label_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "one" / "case.json").mkdir(parents=True)
    with pytest.raises(CaseError, match="Is a directory"):
        cases_in(tmp_path)


def test_a_folder_without_cases(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="no case in it"):
        cases_in(tmp_path)


def test_the_wrong_ones_are_named() -> None:
    found = [said("a", "b"), said("a", "a")]
    assert figures(found)["wrong"] == {"c": ["a", "b"]}
    assert "  1  a -> b: c" in text(found)
