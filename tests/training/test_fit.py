from __future__ import annotations

import json
from pathlib import Path

import pytest

from oomdoctor.decision.model import loaded
from oomdoctor.training.examples import Example, examples
from oomdoctor.training.fit import TooFewError, _add_from, fit

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
    return examples([], LOGS, 5, nothing)


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
    assert min(trust.first, trust.weight, trust.lead, trust.proven, trust.agreement) >= 0
    assert max(trust.weight, trust.lead, trust.agreement) > 0


def test_it_learns(learned: list[Example]) -> None:
    model = fit(learned, 5, LOGS, nothing).model
    likely = [model.probabilities(e.features) for e in learned]
    right = sum(max(p, key=p.__getitem__) in e.fair for e, p in zip(learned, likely, strict=True))
    assert right > 0.9 * len(learned)


def test_too_little_to_learn_from(learned: list[Example]) -> None:
    with pytest.raises(TooFewError, match="too few"):
        fit(learned[:9], 5, 9, nothing)


def unruled(cause: str, weight: float = 0.0) -> Example:
    weights = {"gpu-shared": weight} if weight else {}
    return Example(
        cause=cause, fair=frozenset({cause}), features={}, weights=weights, proven=True, known=True, own=False
    )


def test_its_own_word_counts_from_where_it_was_right_often_enough() -> None:
    right, wrong = unruled("activations"), unruled("logits-spike")
    sure, unsure = {"activations": 0.85, "logits-spike": 0.15}, {"activations": 0.65, "logits-spike": 0.35}
    assert _add_from([right] * 4 + [wrong], [sure] * 4 + [unsure]) == 0.5  # four of five
    assert _add_from([right] * 3 + [wrong] * 2, [sure] * 3 + [unsure] * 2) == 0.7  # without those below
    assert _add_from([right] * 3 + [wrong], [sure] * 4) == 1.0  # three of four are never enough
    assert _add_from([], []) == 1.0


def test_where_a_rule_names_a_cause_its_own_word_is_not_measured() -> None:
    named, sure = unruled("activations", weight=0.9), {"activations": 0.95, "logits-spike": 0.05}
    assert _add_from([named], [sure]) == 1.0
    assert _add_from([unruled("activations", weight=0.1)], [sure]) == 0.5
