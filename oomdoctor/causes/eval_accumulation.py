"""Predictions of the whole evaluation set are kept on the device."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.causes.gpu import asked, card, in_engine, innermost, phase, refusal
from oomdoctor.incident.model import Crash
from oomdoctor.language import mark, say

_GATHERING = (
    r"nested_concat|pad_and_concatenate|\bnested_gather\b|numpy_pad_and_concatenate"
    r"|\b(?:torch|np|xp|tf)\.(?:cat|concat\w*|[vh]?stack)\("
    r"|\.(?:append|extend)\((?:preds?|logits|outputs?)\b|gather_for_metrics"
)
_EVALUATING = r"\b(?:evaluate|evaluation_loop|prediction_loop|validate|validation_step|predict|test_epoch|run_eval)\b"


def judge(crash: Crash) -> Judgement | None:
    gathering = innermost(crash, _GATHERING)
    evaluating = crash.stage == "eval" or crash.in_trace(_EVALUATING) is not None
    event = refusal(crash) or crash.root
    if not crash.proven:
        return None
    if gathering is not None and evaluating:
        return Finding(
            weight=0.86,
            why=say(
                "It failed where the evaluation joins what it has predicted so far ({gathering}): "
                "{asked}. All of it is kept on the device until the end.",
                gathering=gathering,
                asked=asked(card(crash)),
            ),
            evidence=(event,),
            stage="eval",
        )
    if evaluating and crash.root.around.trace and phase(crash) is None and not in_engine(crash):
        return Finding(
            weight=0.6,
            why=say(
                "It failed in the evaluation's own code, not in the model: {asked}. What it works on "
                "are the predictions of many batches, kept on the device.",
                asked=asked(card(crash)),
            ),
            evidence=(event,),
            stage="eval",
        )
    if evaluating:
        return Finding(
            weight=0.35,
            why=say(
                "It failed during an evaluation: {asked}. Predictions kept on the device add up.",
                asked=asked(card(crash)),
            ),
            evidence=(event,),
            against=(say("no frame joins or keeps predictions"),),
            stage="eval",
        )
    if crash.stage in ("backward", "optimizer_step"):
        return RuledOut(say("it failed in {stage}, not in an evaluation", stage=crash.stage))
    return None


CAUSE = Cause(
    id="eval-accumulation",
    title=mark("The evaluation keeps its predictions on the device"),
    pools=("gpu",),
    knobs=("smaller-buffers", "clear-references", "smaller-microbatch"),
    rule=judge,
)
