"""Over how many devices a model is split: over more of them, as far as the job sees them, or over those that it has."""

from __future__ import annotations

import math
from typing import Final

from oomdoctor.arithmetic import shares
from oomdoctor.arithmetic import training as arithmetic
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.incident.card import Card, card_of
from oomdoctor.incident.engine_facts import SHARE_SETTINGS
from oomdoctor.incident.model import Crash
from oomdoctor.job.model import Setting
from oomdoctor.language import all_of, say
from oomdoctor.patterns import late
from oomdoctor.remedies.engine.known import PRINTED, card_total, weights_bytes
from oomdoctor.remedies.initial import default_of
from oomdoctor.remedies.placement import VISIBLE
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal
from oomdoctor.remedies.sizes import size_of_model, tensor_parallel
from oomdoctor.units import show

_NEARLY_ALL: Final = 0.9  # of the weights: a rank of two that are split holds half of them, and its buffers
_LOADING: Final = "model_load"
_JAX: Final = "jax"  # a world
_MAY_BE_LOADING: Final = ("unknown", "engine_init")
_FULL_PRECISION: Final = ("float32", "float", "fp32")
# Workers that vLLM starts beside its first one, or through Ray: vllm/executor/multiproc_gpu_executor.py, ray_utils.py
_OF_SEVERAL: Final = late(
    r"^\W{0,4}(?:RayWorkerWrapper|RayWorkerVllm|VllmWorkerProcess|VllmWorker-\d|VllmWorker(?= rank=)|Worker_TP\d)\b"
)
# Executors of vLLM before V1 for more than one worker: vllm/executor of 0.4 to 0.9; V1's multiproc_executor.py may have
# one
_OF_SEVERALS_EXECUTOR: Final = late(
    r"\b(?:distributed_gpu_executor|multiproc_gpu_executor|ray_gpu_executor|ray_distributed_executor"
    r"|mp_distributed_executor)\.py\b"
)
# vLLM and SGLang name their processes by their rank; a card of a worker that is not the first has a number above 0
_RANK: Final = late(r"\bTP(\d{1,3})\b|\bWorker_TP(\d{1,3})\b|\b[GN]PU (\d{1,2})(?: has|;)")
_SEVERAL: Final = 2
_PIPELINE: Final = ("pipeline_parallel_size", "pp_size")
# vllm/config/parallel.py, ParallelConfig.__post_init__: they stand for --data-parallel-size where that is 1
_COPIES: Final = ("VLLM_DP_SIZE", "VLLM_DP_RANK")


def split(case: Case) -> Answer:
    """Over twice as many cards, or as many as the weights need."""
    crash = case.crash
    if case.row is None and case.now is None:
        return _over_all_devices() if crash.job.world == _JAX and not crash.job.in_engine else None
    if (whole := _not_in_effect(crash)) is not None:
        return whole
    if case.now is None and _is_spread(crash):
        return _over_more(case)
    now, stated = _now(case)
    count = crash.context.hardware.get("gpu_count")
    if isinstance(count, int) and now >= count:
        return Refusal(say("already split over {now} of {count} GPUs", now=now, count=count))
    then, derivation = _more(crash, now)
    weights = weights_bytes(crash)
    by_name = () if weights is None or weights[1] == PRINTED else (weights[1],)
    return Proposal(
        action=_over(crash, now, then),
        suggested=then,
        derivation=derivation,
        assumes=(*stated, *by_name),
    )


def _is_spread(crash: Crash) -> bool:
    """Whether the engine has several workers: its job's ranks, which a trainer has for itself; stages of a pipeline; or
    what the process that failed says of itself, or its executor."""
    stages = crash.setting(*_PIPELINE)
    if (crash.job.spread and not crash.job.trains) or (stages is not None and (stages.whole or 0) >= _SEVERAL):
        return True
    of_several = _OF_SEVERAL.search(crash.root.at.text) is not None and not crash.job.trains
    return of_several or any(_OF_SEVERALS_EXECUTOR.search(event.at.text) for event in crash.events)


def _now(case: Case) -> tuple[int, tuple[str, ...]]:
    """Over how many it is split, with what was taken for granted: a framework's own default may be more than one."""
    if case.now is None and (usual := default_of(case)) is not None and usual[0] >= _SEVERAL:
        return int(usual[0]), usual[1]
    stated = () if case.now is not None else (say("one GPU now (no tensor parallel size in the log)"),)
    return tensor_parallel(case.crash), stated


def _over_more(case: Case) -> Proposal:
    """Over more than the log shows, where it does not print how many there are."""
    seen = _ranks_in_sight(case.crash)
    if seen < _SEVERAL:
        return Proposal(
            action=say("Split the model over more GPUs: raise {name} (value not in the log)", name=case.name)
        )
    return Proposal(
        action=say(
            "Split the model over more GPUs than now: raise {name} (value not in the log, which shows at least {seen} "
            "GPUs)",
            name=case.name, seen=seen,
        )
    )  # fmt: skip


def _ranks_in_sight(crash: Crash) -> int:
    """As many as the highest number of a rank or card near the failure says, counted from 0."""
    around = crash.root.around
    lines = (crash.root.at.text, *around.before, *around.after)
    written = (int(number) for line in lines for found in _RANK.finditer(line) for number in found.groups() if number)
    return max((*written, *(event.process.rank or 0 for event in crash.events)), default=0) + 1


def _over_all_devices() -> Proposal:
    """docs/notebooks/Distributed_arrays_and_automatic_parallelization of JAX: Mesh, NamedSharding (since 0.4.1)."""
    return Proposal(
        action=say("Shard the weights over all devices that JAX sees"),
        snippet="import numpy as np; from jax.sharding import Mesh, NamedSharding, PartitionSpec\n"
        'params = jax.device_put(params, NamedSharding(Mesh(np.array(jax.devices()), ("x",)), PartitionSpec("x")))',
        assumes=(say("several devices; the first axis of each array is divisible by their number"),),
        cost=say("more communication"),
    )


def _more(crash: Crash, now: int) -> tuple[int, str]:
    then, derivation = 2 * now, f"2 x {now} = {2 * now}"
    total, weights = card_total(crash), weights_bytes(crash)
    if weights is None:
        return then, derivation
    derivation = say(
        "{formula}; weights per GPU {now} -> {then}",
        formula=derivation, now=show(weights[0]), then=show(weights[0] * now / then),
    )  # fmt: skip
    if total is None or total <= 0 or weights[0] * now <= shares.LARGEST * total * then:
        return then, derivation
    then = 1 << math.ceil(math.log2(weights[0] * now / (shares.LARGEST * total)))
    return then, say(
        "{weights} of weights / {total} per GPU -> {then} (a power of two)",
        weights=show(weights[0] * now), total=show(total), then=then,
    )  # fmt: skip


def _over(crash: Crash, now: int, then: int) -> str:
    mask = crash.setting(*VISIBLE.values())
    seen = _devices(mask) if mask is not None else 0
    if mask is None or not now <= seen < then:
        return say("Split the model over {then} GPUs instead of {now}", then=then, now=now)
    return say(
        "Split the model over {then} GPUs instead of {now}, if the machine has them: {mask} shows {seen}",
        then=then, now=now, mask=mask.name, seen=seen,
    )  # fmt: skip


def _devices(mask: Setting) -> int:
    """How many a list of numbers shows: of identifiers with commas of their own nobody knows."""
    listed = [one.strip() for one in str(mask.value).strip("\"'").split(",")]
    return len(listed) if all(one.isdigit() for one in listed) else 0


def whole_on_one(crash: Crash) -> int | None:
    """What all weights take, where one rank of several holds nearly as much while it loads its own part."""
    if not isinstance(crash.root, DeviceOutOfMemory) or tensor_parallel(crash) < 2:
        return None
    it, dtype = card_of(crash.root), crash.setting("dtype")
    size, held = size_of_model(crash), it.allocated_bytes if _holds_no_cache(crash, it) else None
    if size is None or held is None or (dtype is not None and dtype.value in _FULL_PRECISION):
        return None
    whole = arithmetic.weights(size.parameters)
    return whole if held >= _NEARLY_ALL * whole else None


def _holds_no_cache(crash: Crash, it: Card) -> bool:
    """It was loading, or holds more than the share that a cache is cut to."""
    if crash.stage == _LOADING:
        return True
    share = crash.setting(*SHARE_SETTINGS)
    if crash.stage not in _MAY_BE_LOADING or share is None or share.number is None:
        return False
    return (it.allocated_bytes or 0) > share.number * (it.total_bytes or math.inf)


def _not_in_effect(crash: Crash) -> Proposal | None:
    whole, size = whole_on_one(crash), size_of_model(crash)
    stated = [name for name in _COPIES if crash.setting(name) is not None]
    if whole is None or size is None or not isinstance(crash.root, DeviceOutOfMemory):
        return None
    now, held = tensor_parallel(crash), show(card_of(crash.root).allocated_bytes or 0)
    action = (
        say(
            "Check in the start-up log that the model is split over {now} GPUs: one GPU holds {held}, about the whole "
            "model. {names} start copies of the model: unset them",
            now=now, held=held, names=all_of(stated),
        )
        if stated
        else say(
            "Check in the start-up log that the model is split over {now} GPUs: one GPU holds {held}, about the whole "
            "model",
            now=now, held=held,
        )
    )  # fmt: skip
    return Proposal(
        action=action,
        current=now,
        setting="",
        snippet=f"unset {' '.join(stated)}" if stated else None,
        derivation=say(
            "{size} x 2 bytes = {whole}; / {now} = {part} per GPU",
            size=size.billions, whole=show(whole), now=now, part=show(whole / now),
        ),
        assumes=(size.source,),
        cost="",
    )  # fmt: skip
