"""Evaluations, and the predictions that they keep."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from oomdoctor.families.container import LimitKill
from oomdoctor.families.event import RAM, Event, Frame
from oomdoctor.families.kernel import KernelKill
from oomdoctor.incident.model import Crash
from oomdoctor.incident.prints import ONE_OF_SEVERAL, SEVERAL, own_lines
from oomdoctor.job.frameworks import driven
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.first_step import evaluates_its_first_batch, killed_bare
from oomdoctor.signs.host_growth import LEAST_POINTS, host_memory_grew
from oomdoctor.signs.trace import asked, card, checked, innermost, phase, refusal, where

_LEARNS: Final = ("training", "rl")  # tasks
_WITHOUT_EVALUATION = ("inference", "serving")  # tasks
_GATHERING = (
    r"nested_concat|pad_and_concatenate|\bnested_gather\b|numpy_pad_and_concatenate"
    r"|\b(?:torch|np|xp|tf)\.(?:cat|concat\w*|[vh]?stack)\("
    r"|\.(?:append|extend)\((?:preds?|logits|outputs?)\b|gather_for_metrics"
)
# transformers/trainer_seq2seq.py: what `generate` is called with; without predict_with_generate nothing is generated
_WOULD_GENERATE: Final = r"\bevaluate\([^\n]{0,200}\b(?:num_beams|max_length|max_new_tokens) ?=|\btrainer_seq2seq\b"
# transformers/trainer_pt_utils.py, nested_concat of several outputs of a model: tokens are one tensor
OF_A_TUPLE: Final = r"\bnested_concat\(t, n,[^\n]{0,80}\bzip\(tensors, new_tensors"
# What no layer hands on to the next one
_FINAL: Final = (
    r"(?:(?:\w{1,30}_)?(?:preds|predictions?|results?|estimates?|answers|heatmaps)(?:_(?:all|list|sum|total))?"
    r"|all_\w{1,30}|\w{1,30}_(?:all|total))"
)
_RESULTS: Final = (
    rf"(?:{_FINAL}|(?:\w{{1,30}}_)?(?:outputs|outs|scores|logits|probs|probabilities|embeddings|embs|feats|features)"
    r"(?:_(?:list|sum))?)"
)
# "estimates += out", "preds = torch.cat([preds, p])", "results.append(r)"; not a layer's sum, a loss or a bias
_KEPT: Final = late(
    rf"^(?P<sum>(?:self\.)?{_FINAL}|self\.{_RESULTS})(?:\[[^\]\n]{{0,60}}\])? ?(?:\+= ?|= ?(?P=sum) ?\+ ?)"
    r"(?!.{0,60}(?:loss|grad|identity|residual|shortcut|skip|bias|mask|noise|pos(?:ition)?_|weights?\b))"
    rf"|^(?P<joined>(?:self\.)?{_FINAL}|self\.{_RESULTS}) ?= ?\w{{1,12}}\.(?:cat|concat|concatenate|[hv]stack)\([(\[] ?"
    rf"(?P=joined)\b"
    rf"|^(?:self\.)?(?P<name>{_RESULTS})\.(?:append|extend)\((?=.)"
)
_CALLED: Final = late(r"\b(\w{1,60})\(")
# What a result passes on its way to the others; another call may have failed itself, and C++ shows no frame
_MOVES: Final = ("detach", "cpu", "clone", "numpy", "item", "to", "float", "half", "squeeze", "unsqueeze")
_IN_A_MODEL: Final = r"torch/nn/modules/|keras/(?:src/)?(?:layers|engine)|flax/|\bforward\b|\b_?generate\b|beam_search"
_NOT_OF_RESULTS: Final = (
    "forward", "backward", "optimizer_step", "data_load", "model_load", "checkpoint_load", "checkpoint_save", "rollout",
)  # fmt: skip
_EVALUATING = r"\b(?:evaluate|evaluation_loop|prediction_loop|validate|validation_step|predict|test_epoch|run_eval)\b"
# "validation batch 20/50", "eval: 20/50"; a count without its end may be of training steps
_BATCH_OF_AN_EVALUATION: Final = late(
    r"(?i)\b(?:val(?:id(?:ation)?)?|eval(?:uat(?:ion|ing))?|test(?:ing)?|predict(?:ion|ing)?|inference)\b[^/\d]{0,30}"
    r"(\d{1,9}) ?(?:/|of(?! \d{1,9} [a-z])) ?(\d{1,9})\b"
)
# torch/utils/_contextlib.py and torch/autograd/grad_mode.py: `decorate_context` is what a decorator of these leaves
WITHOUT_GRADIENTS: Final = r"\bno_grad\b|\binference_mode\b|\bdecorate_context\b|transformers/trainer|/trl/"
# transformers/generation/configuration_utils.py: with return_dict_in_generate they come with the answer
_OUTPUTS: Final = late(r"\boutput_(?:scores|logits|hidden_states|attentions)[\"']?\s?[:=]\s?(?i:true)\b")
_CHARACTERS: Final = 300  # of a line
_RANKS: Final = ("nproc_per_node", "num_processes", "world_size")
_FEW_RANKS: Final = 8
# JAX and TensorFlow run the whole pass as one program, whose frames are not the model's
_COMPILED = (
    r"\b_?execute_compiled\b|\bcompiled\.execute\(|pxla\.py|\bquick_execute\b|jax/_src/(?:dispatch|interpreters)"
)


@sign
def evaluation_joining_predictions(crash: Crash) -> Seen | None:
    """The innermost stack frames of an evaluation join its predictions."""
    gathering = innermost(crash, _GATHERING)
    if gathering is None or not _evaluating(crash):
        return None
    figures = {"gathering": gathering, "asked": asked(card(crash))}
    words = (
        say(
            "While the evaluation joined its predictions ({gathering}), {asked}. All predictions stay in GPU "
            "memory until the end.",
            **figures,
        )
        if crash.pool == "gpu"
        else say(
            "While the evaluation joined its predictions ({gathering}), {asked}. All predictions stay in host "
            "memory until the end.",
            **figures,
        )
    )
    return Seen(words=words, evidence=(refusal(crash) or crash.root,), stage="eval")


@sign
def keeps_logits_where_it_could_generate(crash: Crash) -> Seen | None:
    """Trainer for sequences is told how to generate, and joins several outputs of the model: it generates nothing."""
    joins = evaluation_joining_predictions(crash) is not None and crash.in_trace(OF_A_TUPLE) is not None
    return Seen(words="") if joins and crash.in_trace(_WOULD_GENERATE) is not None else None


@sign
def results_pile_up(crash: Crash) -> Seen | None:
    """Outside of a training and of a model's pass, the innermost line adds a result to those that are kept, or joins
    them."""
    name = kept_results(crash)
    if name is None:
        return None
    figures = {"name": name, "asked": asked(card(crash))}
    words = (
        say("While a result was added to {name}, {asked}: what is kept there stays in GPU memory.", **figures)
        if crash.pool == "gpu"
        else say("While a result was added to {name}, {asked}: what is kept there stays in host memory.", **figures)
    )
    return Seen(words=words, evidence=(refusal(crash) or crash.root,), stage=crash.stage)


def kept_results(crash: Crash) -> str | None:
    """What the innermost line calls the results that it adds to."""
    frame = next(crash.frames(), None)
    kept = _KEPT.search(frame.code) if frame is not None else None
    if kept is None or any(called not in _MOVES for called in _CALLED.findall(kept.string, kept.end())):
        return None
    if crash.job.trains or crash.job.task in _LEARNS or crash.job.in_engine or not crash.proven:
        return None
    if crash.stage in _NOT_OF_RESULTS or crash.in_trace(_IN_A_MODEL) is not None or crash.pool not in ("gpu", *RAM):
        return None
    return (kept["name"] or kept["sum"] or kept["joined"]).removeprefix("self.")


@sign
def evaluation_outside_the_model(crash: Crash) -> Seen | None:
    """The traceback of an evaluation shows no stack frame of the model, and its innermost one."""
    if (
        not crash.root.around.trace
        or _breaks_off(crash.root.around.trace)
        or phase(crash)
        or crash.job.in_engine
        or not _evaluating(crash)
    ):
        return None
    if innermost(crash, _COMPILED) or _larger_than_the_card(crash):
        return None
    words = say(
        "In the evaluation's own code, not in the model, {asked}. This code works on the predictions of many "
        "batches, kept in GPU memory.",
        asked=asked(card(crash)),
    )
    return Seen(words=words, evidence=(refusal(crash) or crash.root,), stage="eval")


def _larger_than_the_card(crash: Crash) -> bool:
    """What is kept of each batch fills a GPU bit by bit; one piece beyond it is made at once."""
    it = card(crash)
    return it.tried_bytes is not None and it.total_bytes is not None and it.tried_bytes > it.total_bytes


def _breaks_off(trace: Sequence[Frame]) -> bool:
    """Whether the source lines end before the last frame: what it called stood below."""
    return not trace[-1].code and any(frame.code for frame in trace)


@sign
def may_keep_a_graph(crash: Crash) -> Seen | None:
    """An evaluation in PyTorch code of the job's own, of which nothing shows that it computes without gradients."""
    evaluates = crash.stage == "eval" and crash.pool == "gpu" and crash.job.world == "torch"
    if not evaluates or driven(crash.job.frameworks) or crash.shows(WITHOUT_GRADIENTS):
        return None
    return Seen(words="")


@sign
def during_an_evaluation(crash: Crash) -> Seen | None:
    """The stage is an evaluation, or the traceback goes through one."""
    if not _evaluating(crash):
        return None
    return Seen(
        words=say(
            "During an evaluation, {asked}. Predictions that stay in GPU memory add up.", asked=asked(card(crash))
        ),
        evidence=(refusal(crash) or crash.root,),
        against=(say("no stack frame joins or keeps predictions"),),
        stage="eval",
    )


@sign
def killed_during_an_evaluation(crash: Crash) -> Seen | None:
    """The kernel or a manager killed a job for host memory while it evaluated."""
    root = crash.root
    if crash.pool not in RAM or not isinstance(root, KernelKill | LimitKill) or crash.stage != "eval":
        return None
    if evaluates_its_first_batch(crash):
        return None
    words = say("The job was killed during an evaluation, which keeps its predictions in host memory until the end.")
    unseen = say("no frame joins or keeps predictions")
    return Seen(words=words, evidence=(root,), against=(unseen,), stage="eval")


@sign
def ranks_evaluate(crash: Crash) -> Seen | None:
    """The same, of a job whose launcher starts a few ranks and that starts no workers of its own: each keeps the
    predictions of its part."""
    ranks, workers = crash.setting(*_RANKS), crash.setting("num_workers", "dataloader_num_workers")
    if ranks is None or not 1 < (ranks.whole or 0) <= _FEW_RANKS or (workers is not None and workers.whole):
        return None
    return killed_during_an_evaluation(crash)


@sign
def killed_bare_during_an_evaluation(crash: Crash) -> Seen | None:
    """A SIGKILL for no printed reason, of a job whose training went well before its evaluation."""
    root = crash.root
    if not killed_bare(crash) or not (crash.stage == "eval" or _was_counting(root) or _keeps_outputs(crash)):
        return None
    if evaluates_its_first_batch(crash):
        return None
    if crash.pool not in (*RAM, "none") or root.process.rank is not None or crash.job.task in _WITHOUT_EVALUATION:
        return None
    words = say(
        "The job was killed during an evaluation. What that keeps of each batch until its end (predictions, pictures, "
        "states of metrics) adds up in host memory."
    )
    return Seen(words=words, evidence=(root,), against=(say("no line shows how much memory was in use"),), stage="eval")


def _keeps_outputs(crash: Crash) -> bool:
    """Whether the job asks for a value per word or layer of all that it generates, and several batches went by."""
    lines = set(own_lines(crash))
    batches = sum(ONE_OF_SEVERAL.search(line) is not None for line in lines)
    return batches >= SEVERAL and any(_OUTPUTS.search(line) for line in lines)


def _was_counting(event: Event) -> bool:
    """Whether the last line before it counts a batch of an evaluation that was not its last."""
    last = next((line for line in reversed(event.around.before) if line.strip()), "")
    found = _BATCH_OF_AN_EVALUATION.search(last[:_CHARACTERS])
    return found is not None and int(found[1]) < int(found[2])


@sign
def host_memory_grew_within_an_evaluation(crash: Crash) -> Seen | None:
    """A figure of host memory grew from batch to batch of one evaluation, whose lines are all that print it."""
    grew, figure = host_memory_grew(crash), crash.trajectory
    if grew is None or figure is None or not _counts_one_evaluation(figure.what, crash.root.around.before):
        return None
    kept = say(
        "All prints are of one evaluation: what it keeps of each batch, predictions or states of metrics, adds up."
    )
    return replace(grew, words=joined((grew.words, kept)), unsure=True, stage="eval")


def _counts_one_evaluation(what: str, before: Sequence[str]) -> bool:
    """Whether each line with the figure counts a further batch of the same evaluation."""
    prints = [line[:_CHARACTERS] for line in before if re.search(rf"(?i)\b{re.escape(what)}\b", line[:_CHARACTERS])]
    counts = [(int(m[1]), m[2]) for line in prints if (m := _BATCH_OF_AN_EVALUATION.search(line)) is not None]
    if len(counts) < LEAST_POINTS or len(counts) < len(prints):
        return False
    return all(a < b and of == of_next for (a, of), (b, of_next) in pairwise(counts))


@sign
def host_memory_of_no_predictions(crash: Crash) -> Seen | None:
    """Host memory ran out, and neither did the evaluation join its predictions nor was it killed."""
    if crash.pool not in RAM or killed_during_an_evaluation(crash) is not None:
        return None
    if killed_bare_during_an_evaluation(crash) is not None:
        return None
    if host_memory_grew_within_an_evaluation(crash) is not None:
        return None
    if results_pile_up(crash) is not None:
        return None
    return Seen(words="") if evaluation_joining_predictions(crash) is None else None


@sign
def in_a_training_step(crash: Crash) -> Seen | None:
    """The stage is a backward pass or the optimizer step, and no stack frame evaluates."""
    if crash.stage not in ("backward", "optimizer_step") or not crash.proven or _evaluating(crash):
        return None
    return Seen(words=say("the job failed {where}, not in an evaluation", where=where(crash)))


def _evaluating(crash: Crash) -> bool:
    """Not what a program for inference calls so: it predicts, and keeps nothing for a metric."""
    return (
        crash.job.task not in _WITHOUT_EVALUATION
        and not checked(crash)
        and crash.stage not in ("serving", "launch")
        and crash.proven
        and (crash.stage == "eval" or crash.in_trace(_EVALUATING) is not None)
    )
