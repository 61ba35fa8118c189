from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from oomdoctor.causes import causes
from oomdoctor.decision.model import GROUNDS, SHIPPED, ModelError, Strength, Trust, grounds, loaded, strength_of
from oomdoctor.signs import Grade
from oomdoctor.training.strengths import CONTESTED

MODEL = loaded(SHIPPED)


def test_what_ships_is_small_and_readable() -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    assert len(text) < 200_000
    told = json.loads(text)
    assert {"seed", "figures", "temperature", "trust", "weights"} <= told.keys()
    assert "root cuda out-of-memory" in told["weights"]


def test_every_cause_of_the_model_is_one_of_ours() -> None:
    assert set(MODEL.causes) - {"not-oom"} <= {cause.id for cause in causes()}


def test_probabilities_add_up_and_nothing_known_is_the_bias() -> None:
    likely = MODEL.probabilities({"no such feature": 1.0})
    assert math.isclose(sum(likely.values()), 1.0)
    assert likely == MODEL.probabilities({})


def test_it_is_what_scikit_learn_says_of_the_same_weights() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    numpy = pytest.importorskip("numpy")
    names = sorted(MODEL.weights)
    same = linear.LogisticRegression()
    same.classes_ = numpy.array(MODEL.causes)
    coefficients = [[MODEL.weights[name].get(cause, 0.0) for name in names] for cause in MODEL.causes]
    same.coef_ = numpy.array(coefficients) / MODEL.temperature
    same.intercept_ = numpy.array(MODEL.bias) / MODEL.temperature
    rows = [dict.fromkeys(names[start::step], 1.0) for start, step in ((0, 40), (3, 101), (7, 13), (0, 1))]
    rows.append({names[5]: 0.25, names[60]: 0.5})
    theirs = same.predict_proba(numpy.array([[row.get(name, 0.0) for name in names] for row in rows]))
    for row, theirs_of_row in zip(rows, theirs, strict=True):
        ours = list(MODEL.probabilities(row).values())
        assert max(abs(a - b) for a, b in zip(ours, theirs_of_row, strict=True)) < 1e-9


def test_trust_rises_with_everything_that_speaks_for_an_answer() -> None:
    trust = MODEL.trust
    little = grounds(0.3, 0.3, first=False, proven=False, known=False, agreement=0.1)
    for name in GROUNDS:
        assert trust.of({**little, name: 1.0}) >= trust.of(little)
    sure = grounds(0.93, 0.2, first=True, proven=True, known=True, agreement=0.9)
    assert trust.of(sure) > 0.9


def test_trust_of_nothing_is_the_base() -> None:
    nothing = grounds(0, 0, first=False, proven=False, known=False, agreement=0)
    assert Trust(base=0.0, **dict.fromkeys(GROUNDS, 1.0)).of(nothing) == 0.5


def test_what_a_sign_is_worth_is_its_grade_and_what_was_fitted() -> None:
    fitted = {
        "seen_often": Strength(logs=60, contested=30, offset=-0.1),
        "seen": Strength(logs=9, contested=2, offset=None),
    }
    assert strength_of(Grade.NAMES, "seen_often", fitted) == pytest.approx(0.65)
    assert strength_of(Grade.NAMES, "seen", fitted) == strength_of(Grade.NAMES, "never_seen", fitted) == 0.75


def test_no_strength_is_fitted_to_few_logs() -> None:
    assert all(it.offset is None for it in MODEL.strengths.values() if it.contested < CONTESTED)
    signs = {row.sign.__name__ for cause in causes() for row in cause.signs}
    assert MODEL.strengths.keys() <= signs


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "not a model"), ("[]", "not a model"), ('{"format": 9}', "format 9"), ('{"format": 3}', "not a model")],
)
def test_a_file_that_is_no_model(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(ModelError, match=says):
        loaded(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", 0),
        ("temperature", "abc"),
        ("causes", []),
        ("bias", {"activations": 1.0}),
        ("weights", []),
        ("weights", {"x": {"no-such-cause": 1.0}}),
        ("weights", {"x": {"activations": "1"}}),
        ("weights", {"x": {"activations": float("nan")}}),
        ("trust", {"base": 1e9}),
    ],
)
def test_a_model_that_cannot_be_reckoned_with(field: str, value: object, tmp_path: Path) -> None:
    told = json.loads(SHIPPED.read_text(encoding="utf-8"))
    told[field] = {**told[field], **value} if field == "trust" and isinstance(value, dict) else value
    path = tmp_path / "model.json"
    path.write_text(json.dumps(told))
    with pytest.raises(ModelError, match="not a model"):
        loaded(path)


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"gone\.json: No such file"):
        loaded(tmp_path / "gone.json")
