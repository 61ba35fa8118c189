"""What an evaluation keeps: numbers instead of tensors, thresholds instead of every score, tokens instead of logits."""

from __future__ import annotations

from pathlib import Path

import pytest
from remedy_logs import advise, crashes_of, cuda

from oomdoctor import diagnose
from oomdoctor.signs import evaluation

KILLED = "run.sh: line 3:    71 Killed                  python -u rate.py --batch_size 16\nexit code: 137"
PRINTS = "\n".join(f"validation batch {10 * at}/90 rss {700 + 60 * at} MB" for at in range(6))
KNOBS = ("smaller-buffers", "clear-references")


def test_tensors_become_numbers() -> None:
    chosen, _ = advise(f"{PRINTS}\n{KILLED}", *KNOBS, cause="eval-accumulation")
    assert chosen["smaller-buffers"].snippet == "predictions.append(logits.argmax(dim=-1))"
    assert chosen["clear-references"].action == "Keep numbers of each batch (counts, sums), not its tensors"


@pytest.mark.parametrize(
    ("announced", "of_trainer"),
    [
        ("***** Running Evaluation *****\n  Num examples = 900\n", True),
        ("***** Running Prediction *****\n", True),
        ("***** Running training *****\n", False),  # examples with a loop of their own print it, too
        ("***** Running evaluation 3 *****\n", False),
        ("Running Evaluation\n", False),
    ],
)
def test_a_trainer_that_says_so_keeps_less_by_its_own_argument(announced: str, of_trainer: bool) -> None:
    chosen, _ = advise(f"{announced}{PRINTS}\n{KILLED}", *KNOBS, cause="eval-accumulation")
    line = ARGMAX.format("logits") if of_trainer else "predictions.append(logits.argmax(dim=-1))"
    assert chosen["smaller-buffers"].snippet == line
    assert (chosen["clear-references"].snippet == LOSS_ALONE) is of_trainer


def test_a_curve_takes_thresholds_where_one_is_in_the_log() -> None:
    curve = "| 1 | roc | BinaryROC | 0 | train |\n"
    chosen, _ = advise(f"{curve}{PRINTS}\n{KILLED}", *KNOBS, cause="eval-accumulation")
    assert chosen["smaller-buffers"].snippet == "BinaryROC(..., thresholds=200)"


AT = '  File "/v/site-packages/transformers/{}.py", line 97, in {}\n    {}\n'
CALLED = '  File "/w/run.py", line 7, in main\n    metrics = trainer.evaluate({})\n'
GENERATING = CALLED.format("max_length=99, num_beams=4")
PLAIN = CALLED.format('metric_key_prefix="eval"')
LOGITS = AT.format("trainer", "evaluation_loop", "preds_host = logits if preds_host is None else nested_concat(p, q)")
LABELS = AT.format("trainer", "evaluation_loop", "labels_host = labels if labels_host is None else nested_concat(p, q)")
NEWER = AT.format("trainer", "evaluation_loop", "self.all_preds.add(logits)")
OLD = AT.format("trainer", "prediction_loop", "preds = logits if preds is None else torch.cat((preds, logits), dim=0)")
TUPLE = AT.format(
    "trainer_pt_utils", "<genexpr>",
    "return type(tensors)(nested_concat(t, n, padding_index=pad) for t, n in zip(tensors, new_tensors))",
)  # fmt: skip
ONE = AT.format("trainer_pt_utils", "nested_concat", "return torch_pad_and_concatenate(tensors, new_tensors)")
ARGMAX = "Trainer(..., preprocess_logits_for_metrics=lambda logits, labels: {}.argmax(dim=-1))"
LOSS_ALONE = "--prediction_loss_only True"


def joined(*frames: str, above: str = "") -> str:
    return f"{above}Traceback (most recent call last):\n{''.join(frames)}torch.OutOfMemoryError: {cuda()}"


@pytest.mark.parametrize(
    ("frames", "line"),
    [
        ((PLAIN, LOGITS, ONE), ARGMAX.format("logits")),
        ((PLAIN, NEWER, ONE), ARGMAX.format("logits")),
        ((PLAIN, LOGITS, TUPLE), ARGMAX.format("logits[0]")),
        ((GENERATING, LOGITS, TUPLE), "--predict_with_generate True"),
        ((GENERATING, LOGITS, ONE), ARGMAX.format("logits")),  # it may be tokens that are joined
        ((PLAIN, LABELS, ONE), LOSS_ALONE),
        ((PLAIN, OLD), "TrainingArguments(..., prediction_loss_only=True)"),
    ],
)
def test_trainer_keeps_less_of_each_batch(frames: tuple[str, ...], line: str) -> None:
    chosen, _ = advise(joined(*frames), "clear-references", cause="eval-accumulation")
    assert chosen["clear-references"].snippet == line


@pytest.mark.parametrize(
    ("version", "line", "assumed"),
    [
        ("4.16.2", LOSS_ALONE, ()),
        ("4.17.0", ARGMAX.format("logits"), ()),
        ("", ARGMAX.format("logits"), ("transformers >=4.17 (version not in the log)",)),
    ],
)
def test_logits_are_reduced_from_a_release_on(version: str, line: str, assumed: tuple[str, ...]) -> None:
    above = f"- `transformers` version: {version}\n" if version else ""
    remedy = advise(joined(PLAIN, LOGITS, ONE, above=above), "clear-references", cause="eval-accumulation")[0]
    assert (remedy["clear-references"].snippet, remedy["clear-references"].assumes) == (line, assumed)


def test_a_program_with_options_of_its_own_has_no_call_of_trainer() -> None:
    above = "llamafactory-cli train eval.yaml\n"
    remedy = advise(joined(PLAIN, LOGITS, ONE, above=above), "clear-references", cause="eval-accumulation")[0]
    assert "preprocess_logits" not in (remedy["clear-references"].snippet or "")


@pytest.mark.parametrize(("called", "seen"), [(GENERATING, True), (PLAIN, False)])
def test_who_was_told_how_to_generate_and_does_not_is_told_so_first(called: str, *, seen: bool, tmp_path: Path) -> None:
    text = joined(called, LOGITS, TUPLE)
    crash = crashes_of(text)[0]
    assert (evaluation.keeps_logits_where_it_could_generate(crash) is not None) is seen
    file = tmp_path / "job.log"
    file.write_text(text, encoding="utf-8")
    first = diagnose(str(file)).incidents[0].diagnoses[0]
    assert first.cause == "eval-accumulation"
    assert (first.remedies[0].knob == "clear-references") is seen
