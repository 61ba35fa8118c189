"""The engine's swap space in host memory."""

from __future__ import annotations

from typing import Final

from oomdoctor.arithmetic import host as ram
from oomdoctor.arithmetic import vllm
from oomdoctor.arithmetic.kv_cache import SWAP_SPACE_BYTES
from oomdoctor.families.vllm_error import SwapSpaceTooLarge
from oomdoctor.families.vllm_figures import KvCacheSize
from oomdoctor.incident.node import total_bytes
from oomdoctor.language import say
from oomdoctor.remedies import models
from oomdoctor.remedies.engine.known import engine_version
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal, Skip
from oomdoctor.remedies.settings import known_versions
from oomdoctor.signs.offload import gpus_per_node
from oomdoctor.units import GIB, show

_SECOND_ENGINE: Final = (0, 8)  # V1, vLLM's default from here on, swaps nothing to the host


def less_swap_space(case: Case) -> Answer:
    crash = case.crash
    refused = crash.first(SwapSpaceTooLarge)
    now = case.number()
    if now == 0:
        return Refusal(say("{name} is already {value}", name=case.name, value=0))
    if refused is not None and refused.swap_bytes and refused.host_total_bytes:
        return Proposal(
            suggested=0,
            derivation=say(
                "{asked} requested / {total} RAM = {share}; rejected from 70 %",
                asked=show(refused.swap_bytes),
                total=show(refused.host_total_bytes),
                share=f"{refused.swap_bytes / refused.host_total_bytes:.0%}",
            ),
        )
    if now is None:
        return _default_swap(case)
    gpus, model, total = gpus_per_node(crash), models.known(crash.context.models), total_bytes(crash)
    assumes = () if gpus is not None else (_one_gpu(),)
    if model is None:
        nominal = f"{now:g} GiB x {gpus or 1} GPUs = {show(now * GIB * (gpus or 1))}"
        derivation = (
            say(
                "{formula} of the node's {total}, and up to twice that by pinned rounding; 0 with 0",
                formula=nominal,
                total=show(total),
            )
            if total
            else say("{formula}, and up to twice that by pinned rounding; 0 with 0", formula=nominal)
        )
        return Proposal(action=_from_swap(now, case), suggested=0, derivation=derivation, assumes=assumes)
    layer = now * GIB / model.layers
    taken = ram.swap_space(now, model.layers, gpus or 1)
    formula = say(
        "{swap} GiB / {layers} layers = {layer}, pinned in {buffer}; x {layers} layers x {gpus} GPUs = {amount}",
        swap=f"{now:g}",
        layers=model.layers,
        layer=show(layer),
        buffer=show(ram.pinned(layer)),
        gpus=gpus or 1,
        amount=show(taken),
    )
    derivation = (
        say("{formula} of the node's {total}; 0 with 0", formula=formula, total=show(total))
        if total
        else say("{formula}; 0 with 0", formula=formula)
    )
    served = say("model {model}, {layers} layers", model=model.name, layers=model.layers)
    return Proposal(
        action=_from_swap(now, case),
        suggested=0,
        derivation=derivation,
        assumes=(served, say("pinned buffers are powers of two"), *assumes),
    )


def _one_gpu() -> str:
    return say("one GPU per node (not printed)")


def _from_swap(now: float, case: Case) -> str:
    return say("Lower {name} from {now} to 0", name=case.now.name if case.now else case.name, now=f"{now:g}")


def _default_swap(case: Case) -> Answer:
    """vLLM's default, up to the version that removed the option; only V0, which had it, counts blocks for the CPU."""
    version = engine_version(case.crash)
    counts_blocks = any(size.cpu_blocks for size in case.crash.every(KvCacheSize))
    told = known_versions(vllm.NAME, case.crash.context).before <= _SECOND_ENGINE
    if (version is None and not counts_blocks and not told) or (version is not None and version >= (0, 18)):
        return Skip()
    known = gpus_per_node(case.crash)
    gpus, by_default = known or 1, say("4 GiB per GPU (vLLM's default, not in the log)")
    return Proposal(
        suggested=0,
        derivation=say(
            "{formula}; 0 with 0", formula=f"{show(SWAP_SPACE_BYTES)} x {gpus} GPUs = {show(SWAP_SPACE_BYTES * gpus)}"
        ),
        assumes=(by_default,) if known is not None else (by_default, _one_gpu()),
    )
