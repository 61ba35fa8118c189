"""The engine's weights, in fewer bits or of a smaller model."""

from __future__ import annotations

from typing import Final

from oomdoctor.arithmetic import training as arithmetic
from oomdoctor.arithmetic import vllm
from oomdoctor.incident.engine_facts import phase
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import some
from oomdoctor.job.model import Setting
from oomdoctor.language import say, semicolons
from oomdoctor.remedies import own_line
from oomdoctor.remedies.engine.known import PRINTED, card_total, weights_bytes
from oomdoctor.remedies.parts import weights_are_little
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal, Skip, already
from oomdoctor.remedies.settings import known_versions, of_knob
from oomdoctor.remedies.sizes import size_of_model, tensor_parallel
from oomdoctor.signs.model_size import trains_adapters
from oomdoctor.spellings import title
from oomdoctor.text import sanitize
from oomdoctor.units import show
from oomdoctor.versions import ALL, versions

_NAMED: Final = 80  # characters of a model's name
# Engines whose option lays all weights out in 16 bits on the GPU and quantizes them there, and the releases that do:
# vllm/model_executor/layers/quantization/fp8.py before #31914; python/sglang/srt/layers/quantization/fp8.py, #17945
_QUANTIZED_AFTER_LOADING: Final = {vllm.NAME: versions("<0.15"), "sglang": ALL}
# vllm/model_executor/quantization_utils came with AWQ in 0.2.0
_READS_QUANTIZED: Final = {vllm.NAME: versions(">=0.2")}
_TRAINING: Final = ("training", "rl")  # tasks
_NOT_QUANTIZED: Final = ("none", "null", "false", "auto", "")


def smaller_weights(case: Case) -> Answer:
    """What the weights take now, in fewer bits or of another model."""
    row, models_named = case.row, case.crash.context.models
    if weights_are_little(case.crash):
        return Skip()
    if case.knob == "quantize-weights" and (release := _too_old(case.crash)) is not None:
        return Refusal(say("{release} reads no weights of 8 or 4 bits", release=release))
    if case.knob == "quantize-weights" and (checkpoint := _of_a_checkpoint(case)) is not None:
        return checkpoint
    if case.knob == "quantize-weights" and case.now is not None and _are_quantized_by(case.now):
        return already(case.now, case.now.value)
    if case.knob == "quantize-weights" and _gets_gradients(case):
        return _beneath_adapters(case)
    formula, assumes = _weights_in_words(case.crash)
    if case.knob == "smaller-model" and models_named:
        name = sanitize(models_named[0], _NAMED)
        return Proposal(
            action=say("Use a smaller model than {name}", name=name), subject=name, derivation=formula, assumes=assumes
        )
    suggested = row.value if row is not None and isinstance(row.value, str) else None
    return Proposal(suggested=suggested, derivation=formula, assumes=assumes)


def _gets_gradients(case: Case) -> bool:
    """The weights themselves are trained, and not adapters beside them."""
    crash = case.crash
    trained = own_line.task_of(crash) in _TRAINING and not crash.job.in_engine and not trains_adapters(crash)
    return trained and case.row is not None and some([case.row.framework], "trains no quantized weights")


def _beneath_adapters(case: Case) -> Answer:
    """Weights in few bits have no gradients: a trainer refuses them without adapters (transformers/trainer.py since
    4.31, "fine-tuning on purely quantized models"), and a loop of one's own finds none."""
    row = case.row
    adapters = next(of_knob("lora", row.framework), None) if row is not None else None
    if row is None or adapters is None:
        return Skip()
    between = " " if adapters.write.startswith("--") else "\n"
    return Proposal(
        action=say("Load the weights in 4 bits and train adapters on them (QLoRA): alone they cannot be trained"),
        snippet=f"{row.snippet(True) or row.write}{between}{adapters.write}",
        cost=say("only the adapters are trained, on weights of lower precision"),
    )


def _are_quantized_by(stated: Setting | None) -> bool:
    return stated is not None and str(stated.value).lower() not in _NOT_QUANTIZED


def _too_old(crash: Crash) -> str | None:
    """The engine's release, where quantized weights came with a later one."""
    engine = crash.job.engine or ""
    reads, known = _READS_QUANTIZED.get(engine), known_versions(engine, crash.context)
    if reads is None or reads.overlaps(known):
        return None
    version = crash.context.frameworks.get(engine)
    return f"{title(engine)} {version or known}"


def _of_a_checkpoint(case: Case) -> Proposal | None:
    """Weights that are in fewer bits before the engine loads them, where its option comes too late or is not there."""
    framework = case.row.framework if case.row is not None else case.crash.job.engine
    if case.row is not None and some([case.row.framework], "quantizes nothing itself"):
        option = case.row.setting
        action = say(
            "Load a checkpoint that is quantized already, to 8 or 4 bits ({option} only names its format)",
            option=option,
        )
        return Proposal(action=action, suggested=case.row.value)
    after_loading = _QUANTIZED_AFTER_LOADING.get(framework or "")
    if framework is None or after_loading is None or _are_quantized_by(case.now):
        return None
    model = next(of_knob("smaller-model", framework), None)
    if model is None:
        return None
    if case.row is None:
        action = say("Load a checkpoint with weights in 8 or 4 bits ({option})", option=model.setting)
    elif phase(case.crash) == "loading" and after_loading.overlaps(known_versions(framework, case.crash.context)):
        action = say(
            "Load a checkpoint with weights in 8 or 4 bits ({option}): {switch} would load all in 16 bits first",
            option=model.setting,
            switch=case.row.snippet(case.row.value) or case.row.setting,
        )
    else:
        return None
    formula, assumes = _weights_in_words(case.crash)
    return Proposal(action=action, setting=model.setting, derivation=formula, assumes=assumes)


def _weights_in_words(crash: Crash) -> tuple[str | None, tuple[str, ...]]:
    size, total, held = size_of_model(crash), card_total(crash), weights_bytes(crash)
    less = say("half in 8 bits, a quarter in 4")
    if held is not None and held[1] == PRINTED:
        taken = (
            say("{weights} of weights of the GPU's {total}", weights=show(held[0]), total=show(total))
            if total
            else say("{weights} of weights per GPU", weights=show(held[0]))
        )
        return semicolons((taken, less)), (say("16-bit KV cache now"),)
    if size is None:
        return None, ()
    ranks, whole = tensor_parallel(crash), arithmetic.weights(size.parameters)
    taken = (
        say(
            "{size} x 2 bytes / {ranks} = {weights}",
            size=size.billions, ranks=ranks, weights=show(arithmetic.weights(size.parameters, ranks)),
        )
        if ranks > 1
        else say("{size} x 2 bytes = {weights}", size=size.billions, weights=show(whole))
    )  # fmt: skip
    if total:
        taken = say("{formula} of the GPU's {total}", formula=taken, total=show(total))
    return semicolons((taken, less)), (size.source,)
