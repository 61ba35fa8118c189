"""Predictions of the whole evaluation set are kept on the device."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, evaluation, made

# What is kept in the end is the same in smaller batches
OF_RESULTS = ("smaller-buffers", "clear-references", "narrow-dtypes", "smaller-input", "more-host-memory")
OF_LOGITS = ("clear-references", *OF_RESULTS[:1], *OF_RESULTS[2:])
OF_SUMS = ("smaller-buffers", "tiled-processing", "smaller-input", "clear-references", "more-host-memory")

CAUSE = Cause(
    id="eval-accumulation",
    title=mark("Evaluation keeps all predictions until its end"),
    headlines=(
        mark("{killed_process} was killed ({kill_code}) {in_an_evaluation}"),
        mark("An evaluation keeps its results in host memory: {growing} grows by about {growth}, {growth_course}"),
        mark("Results that are kept fill {gpu} ({kept_results})[: {requested} requested][, {free} free]"),
        mark("Results that are kept fill {ram} ({kept_results})[: {requested} requested]"),
        mark("Evaluation keeps its predictions on {gpu}: {requested} requested, {free}[ of {total}] free"),
        mark("Evaluation keeps its predictions on {gpu}[: {requested} requested][ ({place})]"),
    ),
    stage="eval",
    pools=("gpu", "host_ram", "cgroup"),
    silent=(evaluation.host_memory_of_no_predictions, made.of_one_input),
    excluded=(evaluation.in_a_training_step,),
    signs=(
        Row(evaluation.evaluation_joining_predictions, Grade.NAMES),
        Row(evaluation.results_pile_up, Grade.POINTS, OF_SUMS),
        Row(evaluation.host_memory_grew_within_an_evaluation, Grade.NAMES, OF_RESULTS),
        Row(evaluation.killed_during_an_evaluation, Grade.NAMES),
        Row(evaluation.evaluation_outside_the_model, Grade.POINTS),
        Row(evaluation.killed_bare_during_an_evaluation, Grade.HINTS, OF_RESULTS),
        Row(evaluation.during_an_evaluation, Grade.HINTS),
    ),
    knobs=("smaller-buffers", "clear-references", "smaller-microbatch"),
    knobs_where=((evaluation.keeps_logits_where_it_could_generate, OF_LOGITS),),
    before=("activations", "killed-without-evidence", "process-ram-hog"),
)
