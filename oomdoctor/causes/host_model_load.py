"""Weights, or one copy of them per process, do not fit into RAM while they are loaded."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, other_words
from oomdoctor.signs.host_loading import (
    a_buffer_for_weights_was_refused,
    a_buffer_on_the_host_was_refused,
    a_part_of_the_model_was_refused,
    a_unit_was_killed_while_loading_weights,
    killed_behind_the_loading,
    killed_in_the_middle_of_loading,
    little_more_of_the_model_than_the_host_has,
    more_of_the_model_than_the_host_has,
    refused_at_the_time_of_loading,
    refused_while_loading_weights,
    several_models_were_loaded,
    the_kernel_killed_while_loading_weights,
    twice_as_much_of_the_model_as_the_host_has,
)
from oomdoctor.signs.own_work import each_process_loads_the_weights, weights_in_full_precision

# Where one process serves one model, there are no workers to take away.
OF_AN_ENGINE = (
    "smaller-model", "quantize-weights", "shorter-context", "fewer-sequences", "more-host-memory", "low-memory-loading",
)  # fmt: skip
# The context and its cache make a small shortage up, and not a large one
OF_LITTLE = ("shorter-context", "fewer-sequences", "quantize-kv-cache", "smaller-model", "quantize-weights",
              "more-host-memory")  # fmt: skip
OF_TWICE = ("smaller-model", "quantize-weights", "more-host-memory", "low-memory-loading")
# One after the other, or from the page cache instead of copies
OF_SEVERAL = ("low-memory-loading", "clear-references", "mixed-precision", "more-host-memory")
OF_EACH_PROCESS = ("low-memory-loading", "mixed-precision", "fewer-workers", "quantize-weights", "smaller-model",
                   "more-host-memory")  # fmt: skip
OF_FULL_PRECISION = ("mixed-precision", "low-memory-loading", "fewer-workers", "quantize-weights", "smaller-model",
                     "more-host-memory")  # fmt: skip

CAUSE = Cause(
    id="host-model-load",
    title=mark("Model weights do not fit into RAM while they are loaded"),
    headlines=(
        mark("The model needs {load_needed} of RAM[: {load_free} available]"),
        mark("{killer} killed {killed_sized} while loading the model"),
        mark("{killer} killed {killed} while loading the model"),
        mark("An allocation of {ram_requested} of RAM failed while loading the model"),
        mark("{killed_process} was killed ({kill_code}) while loading the model[: {loaded}]"),
        mark("Windows refused memory ({windows_error}) while loading the model"),
    ),
    stage="model_load",
    pools=("host_ram", "cgroup"),
    signs=(
        Row(little_more_of_the_model_than_the_host_has, Grade.PROVES, OF_LITTLE),
        Row(twice_as_much_of_the_model_as_the_host_has, Grade.PROVES, OF_TWICE),
        Row(more_of_the_model_than_the_host_has, Grade.PROVES, OF_AN_ENGINE),
        Row(a_part_of_the_model_was_refused, Grade.PROVES, OF_AN_ENGINE),
        Row(a_buffer_for_weights_was_refused, Grade.PROVES, OF_AN_ENGINE),
        Row(a_buffer_on_the_host_was_refused, Grade.POINTS, OF_AN_ENGINE),
        Row(each_process_loads_the_weights, Grade.PROVES, OF_EACH_PROCESS),
        Row(several_models_were_loaded, Grade.NAMES, OF_SEVERAL),
        Row(the_kernel_killed_while_loading_weights, Grade.PROVES),
        Row(a_unit_was_killed_while_loading_weights, Grade.NAMES),
        Row(refused_while_loading_weights, Grade.NAMES),
        Row(refused_at_the_time_of_loading, Grade.HINTS),
        Row(killed_in_the_middle_of_loading, Grade.POINTS),
        Row(killed_behind_the_loading, Grade.HINTS),
        Row(other_words.weights_by_the_message, Grade.POINTS),
    ),
    knobs=("low-memory-loading", "fewer-workers", "quantize-weights", "smaller-model", "more-host-memory"),
    knobs_where=((weights_in_full_precision, OF_FULL_PRECISION),),
    before=("killed-without-evidence", "process-ram-hog"),
)
