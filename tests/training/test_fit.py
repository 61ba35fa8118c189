from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from oomdoctor.causes import causes
from oomdoctor.decision.features import holds_words
from oomdoctor.decision.model import GROUNDS, Strength, loaded
from oomdoctor.signs import Grade
from oomdoctor.training.confidence import ENOUGH, LATEST
from oomdoctor.training.examples import FIRST_READINGS, Answer, Example, examples, of_row, rows
from oomdoctor.training.fit import FOLDS, TooFewError, _add_from, _folds, fit
from oomdoctor.training.strengths import CONTESTED, strengths

pytest.importorskip("sklearn")
pytestmark = pytest.mark.slow

LOGS = 171  # three of each recipe


def nothing() -> None:
    pass


@pytest.fixture(scope="module")
def learned(request: pytest.FixtureRequest) -> list[Example]:
    patch = pytest.MonkeyPatch()
    request.addfinalizer(patch.undo)
    patch.setattr("oomdoctor.training.examples.fixtures", list)  # generated logs are enough here, and quicker
    return [one for one in examples([], LOGS, 5, nothing) if not one.first]


def test_the_same_logs_and_seed_give_the_same_bytes(learned: list[Example]) -> None:
    assert fit(learned, 5, LOGS, nothing).document == fit(learned, 5, LOGS, nothing).document


def test_what_is_written_is_what_is_read(learned: list[Example], tmp_path: Path) -> None:
    trained = fit(learned, 5, LOGS, nothing)
    path = tmp_path / "model.json"
    path.write_text(trained.document, encoding="utf-8")
    assert loaded(path) == trained.model
    assert json.loads(trained.document)["seed"] == 5


def test_no_part_of_trust_falls(learned: list[Example]) -> None:
    trust = fit(learned, 5, LOGS, nothing).model.trust
    slopes = [getattr(trust, name) for name in GROUNDS]
    assert min(slopes) >= 0
    assert max(trust.strength, trust.lead, trust.agreement) > 0


def test_how_often_answers_are_right_is_told_by_first_readings_alone(learned: list[Example]) -> None:
    """With nine answers of ten wrong there is little trust left; classifier and strengths do not hear of it."""
    before = fit(learned, 5, LOGS, nothing).model
    wrong = [
        replace(one, first=True, cause="", fair=frozenset({""}) if n % 10 else one.fair)
        for n, one in enumerate(one for one in learned if one.answers and one.own)
    ]
    assert len(wrong) >= ENOUGH
    after = fit([*learned, *wrong], 5, LOGS, nothing).model
    sure = dict.fromkeys(GROUNDS, 1.0)
    assert after.trust.of(sure) < 0.3 < 0.8 < before.trust.of(sure)
    assert (after.weights, after.strengths) == (before.weights, before.strengths)
    few = fit([*learned, *wrong[: ENOUGH - 1]], 5, LOGS, nothing).model
    assert few.trust.of(sure) > 0.8


def test_the_latest_first_readings_tell_it(learned: list[Example]) -> None:
    """What older tables got wrong is forgotten, however much of it there is."""
    own = [one for one in learned if one.answers and one.own]
    latest = [_read_first(own[n % len(own)], right=n % 10 > 0) for n in range(LATEST)]
    older = [_read_first(own[n % len(own)], right=n % 10 == 0) for n in range(2 * LATEST)]
    sure = dict.fromkeys(GROUNDS, 1.0)
    assert fit([*learned, *older, *latest], 5, LOGS, nothing).model.trust.of(sure) > 0.8
    assert fit([*learned, *latest, *older], 5, LOGS, nothing).model.trust.of(sure) < 0.3


def _read_first(one: Example, *, right: bool) -> Example:
    return replace(one, first=True, cause="", fair=one.fair if right else frozenset({""}))


def test_a_first_reading_is_no_case_that_is_learned_from() -> None:
    first = {(one.project, one.name) for one in rows(FIRST_READINGS, first=True)}
    assert len(first) >= ENOUGH
    assert first.isdisjoint({(one.project, one.name) for one in rows()})


def test_it_learns(learned: list[Example]) -> None:
    model = fit(learned, 5, LOGS, nothing).model
    likely = [model.probabilities(e.features) for e in learned]
    right = sum(max(p, key=p.__getitem__) in e.fair for e, p in zip(learned, likely, strict=True))
    assert right > 0.9 * len(learned)


def test_too_little_to_learn_from(learned: list[Example]) -> None:
    with pytest.raises(TooFewError, match="too few"):
        fit(learned[:9], 5, 9, nothing)


def unruled(cause: str, grade: Grade | None = None) -> Example:
    return Example(
        name="x",
        project="x",
        cause=cause,
        fair=frozenset({cause}),
        features={},
        answers={"gpu-shared": Answer(grade, "sign")} if grade is not None else {},
        proven=True,
        known=True,
        own=False,
    )


def test_its_own_word_counts_from_where_it_was_right_often_enough() -> None:
    right, wrong = unruled("activations"), unruled("logits-spike")
    sure, unsure = {"activations": 0.85, "logits-spike": 0.15}, {"activations": 0.65, "logits-spike": 0.35}
    assert _add_from([right] * 4 + [wrong], [sure] * 4 + [unsure]) == 0.5  # four of five
    assert _add_from([right] * 3 + [wrong] * 2, [sure] * 3 + [unsure] * 2) == 0.7  # without those below
    assert _add_from([right] * 3 + [wrong], [sure] * 4) == 1.0  # three of four are never enough
    assert _add_from([], []) == 1.0


def test_where_a_rule_names_a_cause_its_own_word_is_not_measured() -> None:
    named, sure = unruled("activations", Grade.PROVES), {"activations": 0.95, "logits-spike": 0.05}
    assert _add_from([named], [sure]) == 1.0
    assert _add_from([unruled("activations", Grade.LEFT)], [sure]) == 0.5


def test_rows_hold_signs_and_labels_and_no_word_of_a_log() -> None:
    told = rows()
    assert len(told) > 300
    for one in told:
        assert of_row(one.as_row()) == one
        assert not [name for name in one.features if holds_words(name)]
        assert one.answers.keys() <= {cause.id for cause in causes()}


def test_logs_of_one_project_are_held_back_together(learned: list[Example]) -> None:
    folds = dict(zip((e.project for e in learned), _folds(learned), strict=True))
    assert len(set(folds.values())) == FOLDS
    assert [folds[e.project] for e in learned] == _folds(learned)


def test_strengths_are_fitted_only_where_enough_logs_contest_them() -> None:
    by_grade = [contest(n, Grade.NAMES, "other") for n in range(CONTESTED)]  # what a grade is worth shows in these
    contested = [contest(n, Grade.HINTS, "right") for n in range(CONTESTED)]
    enough, few = (fitted([*by_grade, *logs]) for logs in (contested, contested[1:]))
    assert few["right"].offset is None
    assert enough["right"].offset is not None
    assert enough["right"].offset > 0
    assert enough["right"].contested == CONTESTED


def fitted(logs: list[Example]) -> dict[str, Strength]:
    return strengths(logs, [n % FOLDS for n in range(len(logs))], [{} for _ in logs])


def contest(number: int, grade: Grade, sign: str) -> Example:
    """A right answer of this grade beside a wrong one that hints."""
    answers = {"gpu-visibility": Answer(Grade.HINTS, "wrong"), "ray-unschedulable": Answer(grade, sign)}
    return replace(unruled("ray-unschedulable"), project=f"p{number}", answers=answers, own=True)
