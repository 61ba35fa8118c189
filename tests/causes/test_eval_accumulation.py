from __future__ import annotations

import pytest
from gpu_logs import BACKWARD, FORWARD, crash, finding, ranking, refused, ruled_out, says, trace

from oomdoctor.causes.eval_accumulation import CAUSE
from oomdoctor.decision.judgement import Finding
from oomdoctor.remedies.order import with_references
from oomdoctor.signs import Grade, evaluation

EVALUATE = ("transformers/trainer.py", "evaluate", "output = self.prediction_loop(eval_dataloader)")
JOIN = ("transformers/trainer.py", "prediction_loop", "preds = torch.cat((preds, logits), dim=0)")


def test_not_in_the_backward_pass() -> None:
    assert "backward" in ruled_out(CAUSE, *trace(BACKWARD), refused())


def test_not_a_cat_of_the_model_itself() -> None:
    cat = (
        "transformers/cache_utils.py",
        "update",
        "self.key_cache[i] = torch.cat([self.key_cache[i], key_states], dim=-2)",
    )
    assert not isinstance(says(CAUSE, *trace(FORWARD, cat), refused()), Finding)


def test_an_evaluation_that_only_computes_is_a_weak_sign() -> None:
    found = finding(CAUSE, *trace(EVALUATE, FORWARD), refused())
    assert found.grade == Grade.HINTS
    assert found.against


def test_predictions_that_are_joined_name_it() -> None:
    lines = (*trace(EVALUATE, JOIN), refused(tried="7.64 GiB"))
    assert finding(CAUSE, *lines).grade == Grade.NAMES
    assert ranking(*lines)[0] == "eval-accumulation"


def test_the_newer_trainers_function_names_it() -> None:
    concat = (
        "transformers/trainer_pt_utils.py",
        "nested_concat",
        "return torch_pad_and_concatenate(tensors, new_tensors)",
    )
    assert ranking(*trace(EVALUATE, concat), refused(tried="3.20 GiB"))[0] == "eval-accumulation"


def test_a_refusal_without_figures_says_as_much() -> None:
    assert ranking(*trace(EVALUATE, JOIN), "RuntimeError: CUDA error: out of memory")[0] == "eval-accumulation"


def test_the_evaluations_own_code_outweighs_the_models() -> None:
    score = ("app/metrics.py", "rank_all", "scores[~known] += bias")
    assert ranking(*trace(("app/metrics.py", "evaluate_all", "rank_all(scores)"), score), refused())[:2] == [
        "eval-accumulation",
        "activations",
    ]


SCORE = ("app/metrics.py", "evaluate_all", "scores = rank_all(batch)")


@pytest.mark.parametrize(
    ("lines", "grade"),
    [
        ([*trace(SCORE), refused()], Grade.POINTS),
        ([*trace(SCORE), '  File "app/rank.pyx", line 3, in rank_all', refused()], Grade.HINTS),
        ([*trace(SCORE)[:-1], refused()], Grade.POINTS),  # no frame shows its source
    ],
)
def test_a_traceback_that_breaks_off_does_not_say_whose_code_it_was(lines: list[str], grade: Grade) -> None:
    assert finding(CAUSE, *lines).grade == grade


VALIDATES = ("app/fit.py", "validate", "out = net(batch)")
IN_THE_MODEL = ("app/net.py", "forward", "x = self.layers(x)")


@pytest.mark.parametrize(
    ("frames", "keeps"),
    [
        ([("app/fit.py", "train_epoch", "out = net(batch)"), IN_THE_MODEL], False),
        ([VALIDATES, ("torch/utils/_contextlib.py", "decorate_context", "return func(*args)"), IN_THE_MODEL], False),
        ([EVALUATE, IN_THE_MODEL], False),
        ([VALIDATES, ("lightning/pytorch/loops/fit_loop.py", "run", "self.advance()"), IN_THE_MODEL], True),
        ([VALIDATES, IN_THE_MODEL], True),
    ],
)
def test_an_evaluation_may_keep_what_a_backward_pass_needs(frames: list[tuple[str, str, str]], *, keeps: bool) -> None:
    knobs = with_references("activations", ("smaller-microbatch",), crash(*trace(*frames), refused()))
    assert (knobs[0] == "clear-references") is keeps


@pytest.mark.parametrize(
    ("last", "evaluates"),
    [
        ("[asr] test batch 9 of 15, 0.9 s", True),
        ("val: batch 3/20 dice 0.61", True),
        ("[asr] test batch 15 of 15, 1.4 s", False),
        ("the test batch has 9 of 15 features", False),
        ("step 9 of 15, loss 0.3", False),
    ],
)
def test_a_bare_kill_behind_a_counted_batch_of_an_evaluation(last: str, evaluates: bool) -> None:
    killed = crash("train step 6 loss 0.31", last, "run.sh: line 2:   914 Killed      python fit.py")
    assert (evaluation.killed_bare_during_an_evaluation(killed) is not None) is evaluates
