"""What an evaluation or a compiled function keeps of its results."""

from __future__ import annotations

import re
from typing import Final

from oomdoctor.families.event import RAM
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import driven
from oomdoctor.language import mark, say, translated
from oomdoctor.remedies import held, mapped
from oomdoctor.remedies.host import databases, heaps
from oomdoctor.remedies.proposal import Answer, Case, Proposal, already
from oomdoctor.remedies.settings import known_versions
from oomdoctor.remedies.training import checkpoints
from oomdoctor.signs import evaluation
from oomdoctor.signs.ggml import copies_of_inputs
from oomdoctor.signs.library import nccl_was_refused
from oomdoctor.units import MIB, show
from oomdoctor.versions import versions

_BUFFSIZE: Final = 4 * MIB
_A_GOOD_PART: Final = 2  # half of what could be replaced
_TRAINER: Final = r"transformers/trainer"
_ANNOUNCES: Final = r"\*{5} Running (?:Evaluation|Prediction) \*{5}"  # transformers/trainer.py, evaluation_loop
_LIBRARY: Final = "transformers"
_WHAT_METRICS_NEED: Final = mark("Keep what the metrics need of each batch: the argmax instead of all logits")
_MOVES_PREDICTIONS: Final = "eval_accumulation_steps"
_KEEPS_THE_ORDER: Final = "preserve_insertion_order"  # docs of DuckDB, guides/performance/how_to_tune_workloads
# transformers/trainer.py before 3.4 kept them under another name, and had no such option
_BEFORE_THE_OPTION: Final = r"\bpreds = logits if preds is None else\b"
_WITH_THE_OPTION: Final = "3.4.0"
_REDUCES: Final = "preprocess_logits_for_metrics"
_REDUCES_SINCE: Final = ">=4.17"  # transformers/trainer.py of 4.16.2 has no such argument
# ... which is handed logits alone: what else evaluation_loop keeps stays as large
_KEEPS_OTHERS: Final = r"\b(?:labels|losses|inputs)_host = |\ball_(?:labels|losses|inputs)\.add\("
_OF_ITS_OWN: Final = (
    databases.smaller_pool, heaps.smaller_heap, held.below_the_limit, held.smaller_histograms, held.smaller_bucket,
    held.smaller_prompt_cache,
    held.smaller_stacks,
    held.bounded_cache, held.smaller_cache, held.smaller_buffer, held.smaller_capacity, mapped.fewer_rows,
    checkpoints.one_save_at_a_time,
)  # fmt: skip


# src/torchmetrics/classification/precision_recall_curve.py of torchmetrics: of size O(n_samples) without thresholds
_CURVES: Final = r"\b(?:Binary|Multiclass|Multilabel)(?:PrecisionRecallCurve|ROC|AUROC|AveragePrecision)\b"


def keeps_predictions(cause: str, crash: Crash) -> bool:
    """An evaluation keeps its predictions in host memory, where Trainer's eval_accumulation_steps puts them as well."""
    return cause == "eval-accumulation" and crash.pool in RAM


def of_a_trainer(crash: Crash) -> bool:
    """Whether the loop that evaluates is transformers' own: it fails there, or says that it begins."""
    return crash.in_trace(_TRAINER) is not None or crash.mentions(_ANNOUNCES) is not None


def _on_the_host(case: Case) -> Answer:
    """transformers' Trainer: training_args.py"""
    if case.now is not None and case.number() == 1:
        return already(case.now, 1)
    if case.crash.in_trace(_BEFORE_THE_OPTION) is not None:
        return Proposal(
            action=say(
                "Upgrade transformers to {release}, the first with --eval_accumulation_steps, and set that to 1: the "
                "line in the traceback is of a release without it",
                release=_WITH_THE_OPTION,
            ),
            snippet=f'pip install "transformers=={_WITH_THE_OPTION}"',
            setting="",
            cost=say("slower evaluation; host RAM for the predictions"),
        )
    return Proposal(
        action=say("Move the predictions to host RAM after every step"),
        suggested=1,
        derivation=say("1 is the minimum"),
        cost=say("slower evaluation; host RAM for the predictions"),
    )


def fewer_predictions(case: Case) -> Answer:
    """On the host nothing is gained by moving predictions there: only what a metric needs of them is smaller."""
    crash, root = case.crash, case.crash.root
    if isinstance(root, ArrayOutOfMemory) and root.outputs_hold_most:
        return _fewer_outputs(root)
    if nccl_was_refused(crash) is not None:
        return _smaller_buffers_of_nccl()
    if (of_its_own := next((found for one in _OF_ITS_OWN if (found := one(case)) is not None), None)) is not None:
        return of_its_own
    if case.cause == "eval-accumulation" and case.row is not None and _MOVES_PREDICTIONS in case.row.setting:
        return _on_the_host(case)
    if (copies := copies_of_inputs(crash)) is not None:
        return Proposal(
            action=say("Build with one copy of the inputs for pipeline parallelism instead of {copies}", copies=copies),
            snippet="cmake -B build -DGGML_SCHED_MAX_COPIES=1",
            setting="",
            cost=say("slower prompts on several GPUs"),
        )
    if case.row is not None and _KEEPS_THE_ORDER in case.row.write:
        return Proposal(
            action=say("Let DuckDB write rows as they come instead of keeping all to put them in order"),
            suggested=case.row.value,
            cost=say("the order of the rows is lost"),
        )
    if not keeps_predictions(case.cause, crash):
        return None
    if (curve := re.search(_CURVES, crash.mentions(_CURVES) or "")) is not None:
        return Proposal(
            action=say("Give torchmetrics' curves a number of thresholds: without one they keep every score"),
            snippet=f"{curve[0]}(..., thresholds=200)",
            setting="thresholds",
            cost=say("the curve is binned"),
        )
    if not of_a_trainer(crash):
        return Proposal(action=translated(_WHAT_METRICS_NEED), snippet="predictions.append(logits.argmax(dim=-1))")
    return _reduced_logits(crash)


def less_of_each_batch(case: Case) -> Proposal:
    """The list that grows is Trainer's own: only an option of it keeps less."""
    crash = case.crash
    if evaluation.keeps_logits_where_it_could_generate(crash) is not None:
        return _token_ids()
    others = crash.in_trace(_KEEPS_OTHERS) is not None or driven(crash.job.frameworks)
    return loss_alone(crash) if others or keeps_predictions(case.cause, crash) else _reduced_logits(crash)


def _reduced_logits(crash: Crash) -> Proposal:
    """Before they are kept, on the GPU or in host memory; without it only the loss is small."""
    known, since = known_versions(_LIBRARY, crash.context), versions(_REDUCES_SINCE)
    if crash.in_trace(_BEFORE_THE_OPTION) is not None or not since.overlaps(known):
        return loss_alone(crash)
    logits = "logits[0]" if crash.in_trace(evaluation.OF_A_TUPLE) is not None else "logits"
    told = () if since.covers(known) else (say("{releases} (version not in the log)", releases=f"{_LIBRARY} {since}"),)
    return Proposal(
        action=translated(_WHAT_METRICS_NEED),
        setting=_REDUCES,
        snippet=f"Trainer(..., {_REDUCES}=lambda logits, labels: {logits}.argmax(dim=-1))",
        assumes=told,
        cost=say("metrics of whole logits (perplexity, AUC) are not possible"),
    )


def _token_ids() -> Proposal:
    """transformers/trainer_seq2seq.py, prediction_step: with it the tokens are all that is kept."""
    option = "--predict_with_generate"
    return Proposal(
        action=say(
            "Let the evaluation generate ({option}): it keeps a token id where it now keeps a value for every word",
            option=option,
        ),
        setting=option,
        snippet=f"{option} True",
        suggested=True,
        cost=say("slower evaluation"),
    )


def _smaller_buffers_of_nccl() -> Proposal:
    """NCCL's user guide, env.html: NCCL_BUFFSIZE, between a pair of GPUs, "if you encounter memory constraint issues";
    the default of 4 MiB is multiplied by connections and channels."""
    return Proposal(
        action=say("Give NCCL smaller buffers (NCCL_BUFFSIZE), or open fewer process groups"),
        setting="NCCL_BUFFSIZE",
        suggested=_BUFFSIZE // 4,
        snippet=f"export NCCL_BUFFSIZE={_BUFFSIZE // 4}",
        derivation=f"{_BUFFSIZE} / 4 = {_BUFFSIZE // 4}",
        assumes=(say("{size} for each connection now (NCCL's default, not in the log)", size=show(_BUFFSIZE)),),
        cost=say("slower collectives"),
    )


def _fewer_outputs(program: ArrayOutOfMemory) -> Proposal:
    """jax/_src/api.py, "donate_argnums": an output takes the place of the argument that it replaces, so that donating
    saves no more than the arguments take."""
    arguments, outputs = program.arguments_bytes, program.outputs_bytes or 0
    if arguments is not None and arguments * _A_GOOD_PART < outputs:
        return Proposal(
            action=say(
                "Return less from the compiled function, or call it on parts and fetch each result ({outputs} of "
                "outputs, {arguments} of arguments)",
                outputs=show(outputs),
                arguments=show(arguments),
            ),
            snippet="results = [jax.device_get(step(part)) for part in parts]",
            cost=say("host RAM for the results"),
        )
    return Proposal(
        action=say(
            "Return less from the compiled function, or donate the arguments that its outputs replace ({outputs})",
            outputs=show(program.outputs_bytes or 0),
        ),
        snippet="step = jax.jit(step, donate_argnums=(0,))",
        cost=say("none"),
    )


def loss_alone(crash: Crash) -> Proposal:
    """The list that grows is Trainer's own: only an option of it keeps less."""
    option = "prediction_loss_only"
    old = crash.in_trace(_BEFORE_THE_OPTION) is not None  # whose parser takes no value for it
    return Proposal(
        action=say(
            "Compute only the loss in the evaluation ({option}), if no metric needs the predictions", option=option
        ),
        snippet=f"TrainingArguments(..., {option}=True)" if old else f"--{option} True",
        setting=option if old else f"--{option}",
        cost=say("no metrics of the predictions"),
    )
