from __future__ import annotations

from pathlib import Path

from effort import seconds
from gpu_logs import FORWARD, LOADING, crash, refused, trace
from msgspec.structs import replace
from reports import LOGS, diagnosed, of_each

from benchmarks.mutated import answer, changed
from oomdoctor import diagnose
from oomdoctor.causes import Cause, causes
from oomdoctor.decision.judgement import Finding, RuledOut, judgements
from oomdoctor.decision.model import GROUNDS, Model, Strength, Trust, used
from oomdoctor.decision.ranking import FALLBACK, IN_OTHER_WORDS, LEAST, MOST, UNPROVEN, ranked
from oomdoctor.incident.model import Crash
from oomdoctor.signs import Grade

BY_ID = {cause.id: cause for cause in causes()}
CRASH = crash(*trace(FORWARD), refused())


def found(**grades: Grade) -> list[tuple[Cause, Finding]]:
    return [
        (BY_ID[name.replace("_", "-")], Finding(grade=grade, why="", evidence=(CRASH.root,)))
        for name, grade in grades.items()
    ]


def flat(base: float) -> Trust:
    """The same confidence, whatever an answer rests on."""
    return Trust(base=base, **dict.fromkeys(GROUNDS, 0.0))


def sure_of(cause: str, add_from: float = 0.5) -> Model:
    """A model that always names one cause."""
    return replace(used(), causes=(cause, "not-oom"), bias=(9.0, 0.0), weights={}, temperature=1.0, add_from=add_from)


def order(*, model: Model, ruled_out: frozenset[str] = frozenset(), **grades: Grade) -> list[str]:
    return [answer.cause.id for answer in ranked(CRASH, found(**grades), ruled_out, model).answers]


def test_rules_that_have_their_numbers_decide() -> None:
    assert order(model=sure_of("gpu-shared"), activations=Grade.NAMES, gpu_shared=Grade.POINTS) == [
        "activations",
        "gpu-shared",
    ]


def test_the_classifier_decides_where_the_rules_do_not() -> None:
    for named in ("activations", "gpu-shared"):
        assert order(model=sure_of(named), activations=Grade.HINTS, gpu_shared=Grade.HINTS)[0] == named


def test_it_does_not_overtake_a_rule_that_says_more() -> None:
    assert order(model=sure_of("gpu-shared"), activations=Grade.HINTS, gpu_shared=Grade.LEFT)[0] == "activations"
    assert order(model=sure_of("absurd-size"), absurd_size=Grade.HINTS, activations=Grade.POINTS)[0] == "activations"


def test_it_adds_a_cause_behind_weak_rules_only() -> None:
    assert order(model=sure_of("gpu-shared"), gpu_memory_exhausted=Grade.LEFT) == ["gpu-memory-exhausted", "gpu-shared"]
    assert order(model=sure_of("gpu-shared"), activations=Grade.POINTS) == ["activations"]


def test_it_adds_none_that_a_rule_excludes_or_of_another_pool_or_below_the_threshold() -> None:
    for model, ruled_out in (
        (sure_of("gpu-shared"), frozenset(["gpu-shared"])),
        (sure_of("too-many-workers"), frozenset[str]()),
        (sure_of("gpu-shared", add_from=1.0), frozenset[str]()),
        (sure_of("not-oom"), frozenset[str]()),
    ):
        assert order(model=model, ruled_out=ruled_out, gpu_memory_exhausted=Grade.LEFT) == ["gpu-memory-exhausted"]


def test_it_answers_alone_where_no_rule_does() -> None:
    ranking = ranked(CRASH, [], frozenset(), sure_of("gpu-shared"))
    assert [answer.cause.id for answer in ranking.answers] == ["gpu-shared"]
    assert "most like" in ranking.answers[0].finding.why


def test_a_cause_that_it_was_not_trained_on_is_ranked_by_its_rule() -> None:
    model = sure_of("gpu-shared")
    assert "optimizer-states" not in model.causes
    assert order(model=model, optimizer_states=Grade.NAMES, gpu_shared=Grade.HINTS)[0] == "optimizer-states"


def test_no_answer_is_surer_than_the_one_before_it() -> None:
    ranking = ranked(
        CRASH,
        found(activations=Grade.NAMES, gpu_shared=Grade.POINTS, logits_spike=Grade.HINTS),
        frozenset(),
        sure_of("gpu-shared"),
    )
    sure = [answer.confidence for answer in ranking.answers]
    assert sure == sorted(sure, reverse=True)
    assert all(0 < one < 1 for one in sure)


def test_the_others_have_together_what_the_first_leaves() -> None:
    grades = {"activations": Grade.NAMES, "gpu_shared": Grade.POINTS, "logits_spike": Grade.HINTS}
    first, *others = ranked(CRASH, found(**grades), frozenset(), sure_of("gpu-shared")).answers
    assert len(others) == 2
    assert sum(one.confidence for one in others) <= 1 - round(first.confidence, 2) + 1e-9
    assert all(one.confidence >= LEAST for one in others)


def test_what_is_less_than_that_stays_as_it_is() -> None:
    doubtful = replace(used(), trust=flat(-2.0))  # all of them are 12% sure
    first, *others = ranked(
        CRASH, found(activations=Grade.NAMES, gpu_shared=Grade.POINTS), frozenset(), doubtful
    ).answers
    assert [one.confidence for one in others] == [first.confidence]


def test_a_fallback_shares_with_nobody() -> None:
    certain = replace(used(), trust=flat(4.0))
    for grades in (
        {"activations": Grade.NAMES, "gpu_memory_exhausted": Grade.LEFT},
        {"gpu_memory_exhausted": Grade.NAMES, "gpu_shared": Grade.LEFT},
    ):
        first, behind = ranked(CRASH, found(**grades), frozenset(), certain).answers
        assert behind.confidence == min(first.confidence, FALLBACK)


def test_below_the_threshold_the_cause_is_open() -> None:
    doubtful = replace(used(), trust=flat(0.0))
    certain = replace(used(), trust=flat(4.0))
    assert ranked(CRASH, found(activations=Grade.POINTS), frozenset(), doubtful).open
    assert not ranked(CRASH, found(activations=Grade.POINTS), frozenset(), certain).open
    assert ranked(CRASH, [], frozenset(), doubtful).open


@of_each(LOGS)
def test_an_open_cause_has_its_next_command(log: Path) -> None:
    for incident in diagnosed(log)["incidents"]:
        assert not incident["cause_open"] or incident["next_evidence"]


def test_what_nothing_proves_is_never_sure() -> None:
    killed = crash("bash: line 1:  4955 Killed                  python train.py")
    certain = replace(used(), trust=flat(9.0))
    said = [(cause, j) for cause, j in judgements(killed) if isinstance(j, Finding)]
    ranking = ranked(killed, said, frozenset(), certain)
    assert [answer.cause.id for answer in ranking.answers] == ["killed-without-evidence"]
    assert ranking.answers[0].confidence == FALLBACK < UNPROVEN
    assert ranking.open


def test_figures_that_decide_are_surer_than_a_bare_refusal() -> None:
    def first(*lines: str) -> float:
        it = crash(*lines)
        said = list(judgements(it))
        findings = [(cause, j) for cause, j in said if isinstance(j, Finding)]
        return ranked(it, findings, frozenset(c.id for c, j in said if isinstance(j, RuledOut))).answers[0].confidence

    assert first(*trace(LOADING), refused()) > 0.9
    assert first(*trace(LOADING), refused()) > first("RuntimeError: CUDA error: out of memory")


def test_scoring_costs_little() -> None:
    it: Crash = crash(*trace(*[FORWARD] * 40), refused(others=((7, "10.00 GiB"),)))
    findings = [(cause, j) for cause, j in judgements(it) if isinstance(j, Finding)]
    assert seconds(lambda: ranked(it, findings, frozenset())) < 0.03


def test_a_changed_wording_still_gets_its_cause() -> None:
    logs = list(changed(1))
    right = sum(answer(log) == log.label for log in logs)
    assert len(logs) > 300
    assert right >= 0.8 * len(logs), f"{right} of {len(logs)}"


def test_a_shortage_in_unknown_words_that_name_nothing_leaves_the_cause_open(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("Traceback (most recent call last):\nengine.CapacityError: there's not enough memory to go on\n")
    report = diagnose(log)
    assert report.verdict == "oom"
    assert report.incidents[0].cause_open
    assert report.incidents[0].next_evidence
    first = report.incidents[0].diagnoses[0]
    assert first.cause == "host-memory-exhausted"
    assert first.confidence <= IN_OTHER_WORDS < used().open_below


def test_sure_signs_in_unknown_words_leave_the_cause_open(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("Traceback (most recent call last):\nnewtorch.Error: the device's memory is exhausted\n")
    incident = diagnose(log).incidents[0]
    assert incident.diagnoses[0].confidence <= IN_OTHER_WORDS
    assert incident.cause_open


def test_words_of_one_log_are_heard_though_another_log_tells_of_its_own_failure(tmp_path: Path) -> None:
    known, unknown = tmp_path / "a.log", tmp_path / "b.log"
    known.write_text("RuntimeError: CUDA error: out of memory\n")
    unknown.write_text("Traceback (most recent call last):\nstore.Error: cannot reserve 3 GiB of host memory\n")
    assert {event.family for event in diagnose(known, unknown).events} == {"cuda_error", "unfamiliar"}


def test_at_the_same_grade_a_cause_stands_before_those_that_its_table_names() -> None:
    behind, ahead = (replace(cause, before=()) for cause in causes()[:2])
    ahead = replace(ahead, before=(behind.id,))
    for grade, first in ((Grade.NAMES, ahead.id), (Grade.HINTS, behind.id)):
        answers = [
            (behind, Finding(grade=Grade.NAMES, why="x", evidence=())),
            (ahead, Finding(grade=grade, why="x", evidence=())),
        ]
        assert ranked(CRASH, answers, frozenset(), sure_of(behind.id)).answers[0].cause.id == first


def test_what_only_the_classifier_names_stands_behind_whatever_its_table_says() -> None:
    left, named = (replace(cause, before=()) for cause in causes()[:2])
    answers = [
        (left, Finding(grade=Grade.LEFT, why="x", evidence=())),
        (replace(named, before=(left.id,)), Finding(grade=None, why="x", evidence=())),
    ]
    assert ranked(CRASH, answers, frozenset(), sure_of(named.id)).answers[0].cause.id == left.id


def test_a_fallback_is_never_sure() -> None:
    certain = replace(used(), trust=flat(9.0))
    for cause, most in (("gpu_memory_exhausted", FALLBACK), ("activations", MOST)):
        assert ranked(CRASH, found(**{cause: Grade.NAMES}), frozenset(), certain).answers[0].confidence == most
    assert {cause.id for cause in causes() if cause.fallback} == {
        "gpu-memory-exhausted",
        "host-memory-exhausted",
        "killed-without-evidence",
    }


def test_a_fitted_strength_turns_an_order_that_the_grades_leave_close() -> None:
    activations, shared = (replace(BY_ID[name], before=()) for name in ("activations", "gpu-shared"))
    answers = [
        (activations, Finding(grade=Grade.HINTS, why="x", evidence=(), signs=("weak",))),
        (shared, Finding(grade=Grade.HINTS, why="x", evidence=(), signs=("strong",))),
    ]
    for sign, first in (("weak", "activations"), ("strong", "gpu-shared")):
        model = replace(sure_of("logits-spike"), strengths={sign: Strength(logs=40, contested=30, offset=0.1)})
        assert ranked(CRASH, answers, frozenset(), model).answers[0].cause.id == first
