"""The knobs of the inference engine, computed with the arithmetic of its version."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from oomdoctor.arithmetic import kv_cache, shares, vllm
from oomdoctor.arithmetic import training as arithmetic
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.gpu_table import GpuTable
from oomdoctor.families.llama_cpp import BufferRefused
from oomdoctor.families.sglang import PoolExhausted
from oomdoctor.families.tgi import WarmupShort
from oomdoctor.families.vllm_error import (
    ContextDoesNotFit,
    NoCacheBlocks,
    NotEnoughFree,
    SequencesExceedState,
    WarmupOutOfMemory,
)
from oomdoctor.families.vllm_figures import (
    EncoderProfile,
    GraphCapture,
    KvCacheSize,
    MemoryProfile,
    Sleep,
    WeightsLoaded,
)
from oomdoctor.incident.engine_facts import FRACTION_SETTINGS, SHARE_SETTINGS, cache_that_fits, facts, loading, phase
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import among, some
from oomdoctor.job.model import Setting
from oomdoctor.language import say, semicolons, translated
from oomdoctor.patterns import late
from oomdoctor.remedies import Beside, fractions, models
from oomdoctor.remedies.cache_left import spare
from oomdoctor.remedies.floors import Floor, floor
from oomdoctor.remedies.initial import as_default, begin, default_of, may_be_none
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.proposal import Answer, Case, Compute, Proposal, Refusal, Skip, already
from oomdoctor.remedies.settings import Spelling, known_versions, of_knob, pin_of, spelling
from oomdoctor.remedies.sizes import has_few_bits, size_of_model, size_of_trained, tensor_parallel, zero_stage
from oomdoctor.signs import logits
from oomdoctor.signs.engine import memory_saver_of_nobody_named
from oomdoctor.signs.kv_cache import WHOLE_PROMPTS, a_step_takes_a_whole_prompt
from oomdoctor.signs.kv_pool import evictable_tokens_stayed
from oomdoctor.signs.logits import OF_PROMPTS
from oomdoctor.signs.machine import is_in_a_notebook
from oomdoctor.text import sanitize
from oomdoctor.units import show
from oomdoctor.versions import ALL, Version, version_of, versions

_SEEING: Final = late(r"(?i)(?:^|[-_/])(?:vl|vision|omni|llava|internvl)")
_OF_QUANTIZED: Final = late(r"(?i)\bthe quantized model\b")  # Accelerate's and Transformers' words
# Layers of few bits: of vLLM and SGLang those that are not for the cache alone or for whole weights
_QUANTIZING: Final = (
    r"bitsandbytes/nn|quantizers/quantizer_|auto_?gptq/|gptqmodel/|awq/(?:modules|models)/"
    r"|\blayers/quantization/(?!base_|kv_cache|unquant|utils/|__init__)"
)
# scaled_fp8_quant in vllm/_custom_ops.py since 0.5.4 makes what takes the values in 8 bits
_INTO_8_BITS: Final = r"\bscaled_fp8_quant\b|torch\.empty\(shape, device=input\.device, dtype=out_dtype\)"
_OF_8_BITS: Final = "fp8"
_LENGTHS: Final = ("max_model_len", "max_seq_len")
_PARTS: Final = (2, 4, 8, 16)  # of a prefill batch: whole pages, as long as it is
_LONG: Final = 32768  # tokens: a guess of a context that may fill the cache
LEAST_CONTEXT: Final = 1024  # tokens: a guess of the shortest context that is worth a start
# The largest batch that graphs are captured for.
_CAPTURED: Final = (
    "cuda_graph_max_bs_decode",
    "cuda_graph_max_bs",
    "max_cudagraph_capture_size",
    "max_capture_size",
    "cuda_graph_sizes",
)
_RACE: Final = "profiling-race"
_OF_V0: Final = "not properly cleaned up"  # vllm/worker/worker.py, whose engine measures always
_STATES_ITS_CACHE: Final = (0, 10, 2)
FIXED_CACHE: Final = "kv_cache_memory_bytes"  # vLLM 0.10.2 and later
_BUILT: Final = r"/vllm/entrypoints/llm\.py|\bLLM\(|/lmdeploy/api\.py|\bsgl\.Engine\("
# Who puts the engine to sleep and wakes it up is a trainer that built it, unless a server's routes do
_SERVER: Final = r"api_server|/entrypoints/(?:openai|launcher)|async_llm|(?i:uvicorn|vllm serve)"
_SPECULATION: Final = "speculative_algorithm"
_POOL_OF_SGLANG: Final = "max_total_tokens"
_FLASH_ATTENTION: Final = r"Flash Attention was auto, set to enabled|\bflash_attn\s{1,4}= (?:1|on|enabled)\b"
PRINTED: Final = "printed"
_NAMED: Final = 80  # characters of a model's name
# Engines whose option lays all weights out in 16 bits on the GPU and quantizes them there, and the releases that do:
# vllm/model_executor/layers/quantization/fp8.py before #31914; python/sglang/srt/layers/quantization/fp8.py, #17945
_QUANTIZED_AFTER_LOADING: Final = {vllm.NAME: versions("<0.15"), "sglang": ALL}
_NOT_QUANTIZED: Final = ("none", "null", "false", "auto", "")
BEFORE_THE_CACHE: Final = ("loading", "profiling")
_OF_TOKENS_CHOSEN: Final = (logits.sampler_working_on_logits, logits.engine_working_on_logits)
TRAINING: Final = frozenset({"forward", "backward", "optimizer_step", "logprob", "reward", "eval"})


def engine_version(crash: Crash) -> Version | None:
    return version_of(crash.context.frameworks.get(vllm.NAME))


def share(crash: Crash) -> tuple[float, tuple[str, ...]] | None:
    """The engine's share of the card, and what had to be assumed for it."""
    stated = share_stated(crash)
    return (stated, ()) if stated is not None else _default_share(crash)


def share_stated(crash: Crash) -> float | None:
    """The engine's share by a setting or a message."""
    stated = crash.setting(*SHARE_SETTINGS, *FRACTION_SETTINGS)
    if stated is not None and isinstance(stated.value, float | int) and 0 < stated.value <= 1:
        return float(stated.value)
    for event in crash.events:
        printed = getattr(event, "utilization", None)
        if isinstance(event, NotEnoughFree | MemoryProfile | GraphCapture) and printed:
            return float(printed)
    return None


def _default_share(crash: Crash) -> tuple[float, tuple[str, ...]] | None:
    for trainer in (each for each in among(crash.context.frameworks) if each.engine != "never"):
        default, source = _begun_with(trainer.name, crash) or trainer.share, translated(trainer.share_by)
        told = say("share {share} ({source}, not in the log)", share=default, source=source)
        return (default, (told,)) if default else None
    version = engine_version(crash)
    default = vllm.default_share(version)
    if default is None:
        return None
    number = crash.context.frameworks[vllm.NAME]
    told = say("share {share} (default of vLLM {version}, not in the log)", share=default, version=number)
    return default, (told,)


def _begun_with(trainer: str, crash: Crash) -> float | None:
    """The share that all releases of a trainer begin with which the job may have."""
    row = spelling("lower-engine-reservation", crash.context, trainer)
    shares_begun = _shares_begun(row, crash) if row is not None else set()
    return min(shares_begun) if len(shares_begun) == 1 else None


def _shares_begun(row: Spelling, crash: Crash) -> set[float]:
    known = known_versions(row.framework, crash.context)
    return {float(value) for value, where in row.defaults if where.overlaps(known)}


def card_total(crash: Crash) -> int | None:
    """The size of the card, from whatever line prints it."""
    for event in crash.events:
        if isinstance(event, DeviceOutOfMemory | NotEnoughFree | MemoryProfile) and event.total_bytes:
            return event.total_bytes
    sizes = {card.total_bytes for table in crash.every(GpuTable) for card in table.cards if card.total_bytes}
    return sizes.pop() if len(sizes) == 1 else None  # of several kinds it may be any


def free_at_start(crash: Crash) -> int | None:
    for event in crash.events:
        if isinstance(event, NotEnoughFree | MemoryProfile) and event.free_bytes:
            return event.free_bytes
    return None


def weights_bytes(crash: Crash) -> tuple[int, str] | None:
    """The weights on one card: printed, else from the model's size."""
    for event in crash.events:
        if isinstance(event, WeightsLoaded | MemoryProfile) and event.weights_bytes:
            return event.weights_bytes, PRINTED
    loaded = loading(crash)
    if loaded is not None:
        return loaded.weights_bytes, PRINTED
    size = size_of_model(crash)
    return None if size is None else (arithmetic.weights(size.parameters, tensor_parallel(crash)), size.source)


def token_bytes(crash: Crash) -> tuple[float, str] | None:
    """KV-cache bytes per token on one card, and where they come from."""
    for error in crash.every(ContextDoesNotFit):
        if error.needed_bytes and error.max_model_len:
            return kv_cache.of_need(error.needed_bytes, error.max_model_len), say("needed / length")
    for cache in crash.every(KvCacheSize):
        if cache.cpu_blocks:
            return kv_cache.of_cpu_blocks(cache.cpu_blocks), say("4 GiB of swap space / CPU blocks")
    model = models.known(crash.context.models)
    if model is not None:
        return model.kv_bytes_per_token(tensor_parallel(crash)), say("{model}'s layers and heads", model=model.name)
    return None


def sleeps(crash: Crash) -> bool:
    """Whether the engine's sleep mode is in use; what wakes up has slept."""
    stated = crash.setting("vllm_enable_sleep", "vllm.enable_sleep", "enable_sleep_mode", "vllm_enable_sleep_mode")
    return bool(stated and stated.value is True) or crash.first(Sleep) is not None or phase(crash) == "waking"


def not_its_share(crash: Crash) -> str | None:
    """Why an engine's share says nothing of what was refused; None where it does."""
    if crash.first(NotEnoughFree) is not None:
        return None
    step = phase(crash)
    if crash.job.in_reserving_engine and step in BEFORE_THE_CACHE:
        return (
            say("the engine was still loading: it takes its share later")
            if step == "loading"
            else say("the engine was still profiling: it takes its share later")
        )
    if not crash.job.in_reserving_engine and sleeps(crash) and crash.stage in TRAINING:
        return say("the engine slept: its GPU memory was free for the trainer")
    return None


# lower


def lower(case: Case) -> Answer:
    crash = case.crash
    if case.cause == _RACE:
        return _without_profiling(case)
    refused = crash.first(NotEnoughFree)
    if refused is not None and refused.free_bytes is not None and refused.total_bytes:
        return _from_free(crash, refused, refused.free_bytes, refused.total_bytes)
    fixed = _fixed_cache(crash) or _as_the_engine_says(case) or _of_sglang(crash)
    if fixed is not None:
        return fixed
    elsewhere = not_its_share(crash)
    if elsewhere is not None:
        return Refusal(elsewhere)
    oom = next((e for e in (crash.root, *crash.every(DeviceOutOfMemory)) if isinstance(e, DeviceOutOfMemory)), None)
    if fractions.reckons_otherwise(crash):
        return fractions.lowered(case, oom)
    known = share(crash) or default_of(case)
    if oom is not None and known is not None and _contradicts(oom, *known):
        known = None
    if oom is None or not oom.total_bytes or oom.tried_bytes is None:
        return _step_down(crash, None if _hangs_on_the_release(case) else known)
    if known is None:
        return _by_so_much(
            oom.total_bytes, oom.tried_bytes, oom.free_bytes or 0, may_be_measured=_may_be_measured(crash)
        )
    now, assumed = known
    if oom.tried_bytes <= (oom.free_bytes or 0):
        return _in_pieces(crash, oom.tried_bytes, oom.total_bytes, known)
    return _from_refusal(crash, oom, oom.total_bytes, oom.tried_bytes, now, assumed)


def _of_sglang(crash: Crash) -> Proposal | None:
    """No other engine sleeps with torch_memory_saver: python/sglang/srt/utils/torch_memory_saver_adapter.py."""
    if memory_saver_of_nobody_named(crash) is None:
        return None
    row = next(of_knob("lower-engine-reservation", "sglang"))
    return Proposal(
        action=say("Lower the engine's GPU memory share in steps of {step} until the rest fits", step=shares.STEP),
        setting=row.setting,
        assumes=(say("the engine is SGLang (not in the log)"),),
    )


def _hangs_on_the_release(case: Case) -> bool:
    """Nobody states the share, and the releases that the job may have begin a step or more apart."""
    row = case.row
    if row is None or share_stated(case.crash) is not None:
        return False
    begun = _shares_begun(row, case.crash)
    return bool(begun) and round(max(begun) - min(begun), 3) >= shares.STEP


def _without_profiling(case: Case) -> Answer:
    """vllm/v1/worker/gpu_worker.py since 0.10.2: a cache of a stated size is not measured for."""
    version = engine_version(case.crash)
    if (
        _fixed_cache(case.crash) is not None
        or _OF_V0 in case.crash.root.at.text
        or (version is not None and version < _STATES_ITS_CACHE)
    ):
        return Skip()
    return Proposal(
        action=say("State the KV cache's size: the engine then skips the measurement that failed"),
        setting=FIXED_CACHE if in_python(case.crash) else f"--{FIXED_CACHE.replace('_', '-')}",
        assumes=() if version is not None else (say("vLLM >= 0.10.2 (not printed)"),),
        cost=say("a size that is too large fails later"),
    )


def in_python(crash: Crash) -> bool:
    """Whether a program or a notebook builds the engine itself, by arguments of the options' names."""
    if crash.in_trace(_BUILT) is not None or is_in_a_notebook(crash):
        return True
    return phase(crash) == "waking" and not crash.shows(_SERVER)


def _as_the_engine_says(case: Case) -> Proposal | None:
    event, row = cache_that_fits(case.crash), case.row
    if event is None:
        return None
    fits, now = event.kv_to_fit_bytes or 0, event.kv_bytes or 0
    if row is not None and row.framework != vllm.NAME:
        return _share_for(fits, now, event.total_bytes, case)
    in_code = in_python(case.crash)
    return Proposal(
        action=say("Limit the KV cache to what fits by the log: {now} -> {then}", now=show(now), then=show(fits)),
        current=now,
        suggested=fits,
        setting=FIXED_CACHE if in_code else f"--{FIXED_CACHE.replace('_', '-')}",
        snippet=f"{FIXED_CACHE}={fits}" if in_code else f"--{FIXED_CACHE.replace('_', '-')} {fits}",
        derivation=say("{size} is the engine's own suggestion in line {line}", size=show(fits), line=event.at.line),
    )


def _share_for(fits: int, cache: int, total: int | None, case: Case) -> Proposal | None:
    """The engine's suggestion as a share, where the framework that starts it does not hand on a size in bytes."""
    known = share(case.crash)
    if known is None or known[1] or not total:
        return None
    now, _ = known
    then = shares.lowered(now, cache - fits, total)
    if then < shares.LEAST:
        return None
    return Proposal(
        action=_lowered(round(now, 2), then),
        current=now,
        suggested=then,
        derivation=say(
            "{now} - ({cache} of KV cache - {fits} that fit by the log) / {total} = {share}",
            now=f"{now:.2f}", cache=show(cache), fits=show(fits), total=show(total), share=f"{then:.2f}",
        ),
    )  # fmt: skip


def _contradicts(oom: DeviceOutOfMemory, now: float, assumed: tuple[str, ...]) -> bool:
    """PyTorch's tensors alone take more of the GPU than the share that was assumed."""
    return bool(assumed) and (oom.allocated_bytes or 0) > (now + shares.STEP) * (oom.total_bytes or math.inf)


def _fixed_cache(crash: Crash) -> Refusal | None:
    """vLLM 0.10.2 and later: a cache whose size is stated in bytes does not hang on the share, which has to be free at
    start all the same."""
    stated = crash.setting("kv_cache_memory_bytes", "kv_cache_memory")
    if stated is None or not stated.value:
        return None
    return Refusal(say("{name} is set ({place}) and overrides the share", name=stated.name, place=stated.place))


def _raised_pool(crash: Crash) -> Proposal | None:
    """SGLang takes the smaller of what it measured and what is stated (model_runner.py, `init_memory_pool`)."""
    stated = crash.setting(_POOL_OF_SGLANG) if isinstance(crash.root, PoolExhausted) else None
    if stated is None or stated.whole is None:
        return None
    return Proposal(
        action=say(
            "Raise {name} (now {now}) or leave it out: the KV pool has no more tokens, whatever the share",
            name=stated.name, now=stated.whole,
        ),
        setting=f"--{_POOL_OF_SGLANG.replace('_', '-')}",
        current=stated.whole,
        cost=say("less memory on the device for all else"),
    )  # fmt: skip


def _from_free(crash: Crash, refused: NotEnoughFree, free: int, total: int) -> Answer:
    now, budget = refused.utilization, refused.requested_bytes
    if now is not None and budget is not None and budget < (now - shares.STEP) * total:
        return _beside_weights_of_another(now, budget, free, total)
    fits = shares.largest(free, total)
    weights = weights_bytes(crash)
    if fits < shares.LEAST:
        return Refusal(
            say(
                "no share fits: only {free} of {total} are free. Free the GPU first",
                free=show(free), total=show(total),
            )
        )  # fmt: skip
    if weights is not None and weights[0] > fits * total:
        taken = show(weights[0])
        return Refusal(
            say(
                "the weights take {weights}, but only {free} ({share} of the GPU) are free. Free the GPU first",
                weights=taken if weights[1] == PRINTED else say("{name} ({why})", name=taken, why=weights[1]),
                share=f"{fits:.2f}", free=show(fits * total),
            )
        )  # fmt: skip
    reckoning = facts(crash).era
    assumes: tuple[str, ...] = ()
    if reckoning is None or not reckoning.graphs_inside:
        assumes = (
            say("before vLLM 0.20, CUDA graphs need 0.1 to 3 GiB beside the share: go lower if capturing fails"),
        )
    return Proposal(
        action=_lowered(now, fits),
        current=now,
        suggested=fits,
        derivation=say(
            "{free} free at start / {total} = {share}",
            free=show(free),
            total=show(total),
            share=f"{fits:.2f}",
        ),
        assumes=assumes,
    )


def _beside_weights_of_another(now: float, budget: int, free: int, total: int) -> Answer:
    """vLLM 0.33: the weights that another process holds for the engine come off its share, so less has to be free."""
    fits = shares.lowered(now, budget - free, total)
    derivation = say(
        "{now} - ({budget} needed beside another process's weights - {free} free at start) / {total} = "
        "{share}",
        now=f"{now:g}", budget=show(budget), free=show(free), total=show(total), share=f"{fits:.2f}",
    )  # fmt: skip
    if fits < shares.LEAST:
        return Refusal(say("no lower share makes enough room ({formula})", formula=derivation))
    return Proposal(action=_lowered(now, fits), current=now, suggested=fits, derivation=derivation)


def _from_refusal(
    crash: Crash, oom: DeviceOutOfMemory, total: int, tried: int, now: float, assumed: tuple[str, ...]
) -> Answer:
    """What was refused must fit, and with a colocated trainer what it has yet to allocate as well."""
    free = min(oom.free_bytes or 0, tried)
    slack = 0 if crash.job.may_share else vllm.CAPTURE_SLACK_BYTES
    fits = shares.lowered(now, tried - free + slack, total)
    figures = {
        "now": f"{now:.2f}", "tried": show(tried), "free": show(free), "total": show(total), "share": f"{fits:.2f}",
    }  # fmt: skip
    derivation = (
        say(
            "{now} - ({tried} requested - {free} free + {spare} spare) / {total} = {share} at most",
            spare=show(slack), **figures,
        )
        if slack
        else say("{now} - ({tried} requested - {free} free) / {total} = {share} at most", **figures)
    )  # fmt: skip
    assumes = [*assumed, *([fractions.spare_assumed()] if slack else [])]
    states = _trainer_states(crash)
    if states is not None:
        amount, source = states
        with_trainer = shares.lowered(fits, amount, total)
        if with_trainer >= shares.LEAST:
            to_come = say(
                "- {states} of model states to come / {total} = {share}",
                states=show(amount), total=show(total), share=f"{with_trainer:.2f}",
            )  # fmt: skip
            derivation = semicolons((derivation, to_come))
            assumes += [source, say("no trainer states on the GPU yet")]
            fits = with_trainer
    if not shares.LEAST <= fits < now:
        return Refusal(
            say(
                "no lower share makes enough room: {tried} requested ({formula})",
                tried=show(tried), formula=derivation,
            )
        )  # fmt: skip
    return Proposal(
        action=_lowered(now, fits, assumed),
        current=None if assumed else now,
        suggested=fits,
        derivation=derivation,
        assumes=tuple(assumes),
        cost=_cost_of_a_long_context(crash),
    )


def _in_pieces(crash: Crash, tried: int, total: int, known: tuple[float, tuple[str, ...]]) -> Answer:
    """There was room enough, though not in one piece: nothing of what was free counts, and a large allocation may need
    more than its own size."""
    now, assumed = known
    slack = vllm.CAPTURE_SLACK_BYTES
    if tried + slack >= shares.STEP * total or spare(crash) is not None or crash.job.may_share:
        return _step_down(crash, known)
    fits = shares.lowered(now, tried + slack, total)
    derivation = say(
        "{now} - ({tried} requested + {spare} spare) / {total} = {share} at most",
        now=f"{now:.2f}", tried=show(tried), spare=show(slack), total=show(total), share=f"{fits:.2f}",
    )  # fmt: skip
    if fits < shares.LEAST:
        return Refusal(say("no lower share makes enough room ({formula})", formula=derivation))
    return Proposal(
        action=_lowered(now, fits, assumed),
        current=None if assumed else now,
        suggested=fits,
        derivation=derivation,
        assumes=(*assumed, fractions.spare_assumed()),
        cost=_cost_of_a_long_context(crash),
    )


def _cost_of_a_long_context(crash: Crash) -> str | None:
    """vllm/v1/core/kv_cache_utils.py, `check_enough_kv_cache_memory`: one request of the longest context has to fit
    at start. None, for the knob's own cost, where the context is short or the log tells what may go."""
    length = facts(crash).max_model_len
    if length is None or length < _LONG or spare(crash) is not None:
        return None
    return say("slower generation; no start if {length} tokens no longer fit: then shorten the context", length=length)


def _trainer_states(crash: Crash) -> tuple[int, str] | None:
    """What the colocated trainer puts on each card: weights, gradients and optimizer states of what it trains."""
    size, cards = size_of_trained(crash), cards_of_trainer(crash)
    if not crash.job.may_share or is_update(crash) or size is None or cards is None:
        return None
    level, assumed = zero_stage(crash) or (3, ())
    offload = crash.setting("adam_offload", "optimizer_offload")
    offloaded = offload is not None and offload.value is True
    count = trained(crash)
    amount = count * arithmetic.states_on_gpu(size.parameters, cards, level, optimizer_offloaded=offloaded)
    rate = arithmetic.WEIGHT_BYTES if offloaded else arithmetic.STATES_BYTES
    figures = {"count": count, "size": size.billions, "bytes": rate, "cards": cards, "level": level}
    told = (
        say("{count} trained models of {size} x {bytes} bytes on {cards} GPUs (ZeRO-{level})", **figures)
        if count > 1
        else say("{count} trained model of {size} x {bytes} bytes on {cards} GPUs (ZeRO-{level})", **figures)
    )
    return amount, semicolons((told, size.source, *assumed))


def trained(crash: Crash) -> int:
    """How many models: the actor, and the critic where there is one."""
    critic = crash.setting("critic_pretrain", "critic.model.path", "critic_num_nodes")
    return 2 if (critic is not None and critic.value) or crash.mentions(r"CriticRayActor|CriticModel") else 1


def cards_of_trainer(crash: Crash) -> int | None:
    for names in (("actor_num_gpus_per_node", "actor.num_gpus_per_node"), ("n_gpus_per_node",), ("nproc_per_node",)):
        per_node = crash.setting(*names)
        if per_node is not None and isinstance(per_node.value, int) and per_node.value > 0:
            nodes = crash.setting("actor_num_nodes", "actor.num_nodes", "trainer.nnodes", "nnodes")
            return per_node.value * (nodes.value if nodes is not None and isinstance(nodes.value, int) else 1)
    for name in ("total_num_nodes", "actor_num_nodes", "num_gpus", "world_size"):  # ORZ's nodes are one-card bundles
        stated = crash.setting(name)
        if stated is not None and isinstance(stated.value, int) and stated.value > 0:
            return stated.value
    count = crash.context.hardware.get("gpu_count")
    return count if isinstance(count, int) and count > 0 else None


def is_update(crash: Crash) -> bool:
    """Whether training had begun, so that the states were there already."""
    return crash.stage in ("forward", "backward", "optimizer_step", "weight_sync", "logprob", "rollout", "eval")


def _may_be_measured(crash: Crash) -> bool:
    """The profile at startup samples too (vllm/v1/worker/gpu_model_runner.py, `_dummy_sampler_run`), and before the
    engine takes its share; the frames that would tell are not in the log."""
    return phase(crash) is None and any(sign(crash) is not None for sign in _OF_TOKENS_CHOSEN)


def _by_so_much(total: int, tried: int, free: int, *, may_be_measured: bool) -> Answer:
    step = shares.ceil(max(tried - free + vllm.CAPTURE_SLACK_BYTES, 0) / total)
    told = f"{step:.2f}"
    return Proposal(
        action=say(
            "If it failed while serving, lower the engine's GPU memory share (not in the log) by at least {step}",
            step=told,
        )
        if may_be_measured
        else say("Lower the engine's GPU memory share (not in the log) by at least {step}", step=told),
        derivation=say(
            "({tried} requested - {free} free + {spare} spare) / {total} = {step}",
            tried=show(tried), free=show(free), spare=show(vllm.CAPTURE_SLACK_BYTES), total=show(total),
            step=f"{step:.2f}",
        ),
        assumes=(fractions.spare_assumed(),),
    )  # fmt: skip


def sleep(case: Case) -> Answer:
    """An engine that does not sleep yet."""
    crash = case.crash
    own = next((each for each in among(crash.context.frameworks) if "sleeps by itself" in each.traits), None)
    if own is not None:
        told = say("colocated engines of {framework} free their memory by themselves", framework=own.title)
        return Refusal(told)
    if sleeps(crash):
        return Refusal(say("the engine already uses sleep mode"))
    return None


def _step_down(crash: Crash, known: tuple[float, tuple[str, ...]] | None) -> Answer:
    """In small steps where a large one may leave the cache too small for the longest request."""
    if known is None:
        return None
    now, assumed = known
    left = spare(crash)
    small = left is not None and left.bytes < shares.STEP * (card_total(crash) or math.inf)
    step = shares.SMALL_STEP if small else shares.STEP
    first = round(now - step, 3)
    return Proposal(
        action=say(
            "Lower the engine's GPU memory share from {now} in steps of {step} until the rest fits",
            now=_as_known(now, assumed), step=step,
        ),
        current=None if assumed else now,
        suggested=first if first >= shares.LEAST else None,
        derivation=fractions.first_step(f"{now:g} - {step} = {first:g}"),
        assumes=(*assumed, *((left.told,) if left is not None and small else ())),
        cost=_cost_of_a_long_context(crash),
    )  # fmt: skip


def _lowered(now: float | None, then: float, assumed: tuple[str, ...] = ()) -> str:
    if now is None:
        return say("Lower the engine's GPU memory share to {then}", then=f"{then:.2f}")
    return say("Lower the engine's GPU memory share: {now} -> {then}", now=_as_known(now, assumed), then=f"{then:.2f}")


def _as_known(now: float, assumed: tuple[str, ...]) -> str:
    return as_default(f"{now:.2f}") if assumed else f"{now:.2f}"


# raise


def raise_share(case: Case) -> Answer:
    crash = case.crash
    fixed = _fixed_cache(crash) or _raised_pool(crash)
    if fixed is not None:
        return fixed
    if fractions.reckons_otherwise(crash):
        return fractions.raised(case)
    held = next((e for e in crash.every(NotEnoughFree) if e.external_bytes and e.requested_bytes), None)
    if held is not None:
        return _above_weights_of_another(held.utilization, held.external_bytes or 0, held.requested_bytes or 0)
    known = share(crash) or default_of(case)
    total = card_total(crash)
    missing = _missing_cache(crash)
    if known is None:
        return None
    now, assumed = known
    at_the_limit = (
        Refusal(
            say(
                "already {now}: a larger share leaves no room for the driver, CUDA graphs and the sampler",
                now=f"{now:g}",
            )
        )
        if now >= shares.AT_THE_LIMIT
        else None
    )
    if total is None or missing is None:
        return at_the_limit or _step_up(now, assumed)
    amount, why = missing
    wanted = shares.raised(now, amount, total)
    most = _most(crash, total)
    if wanted > most:
        return _without_a_block(case, known, total) or Refusal(
            say(
                "{amount} more would need {wanted} of the GPU; at most {most} can be given",
                amount=show(amount), wanted=f"{wanted:.2f}", most=f"{most:.2f}",
            )
        )  # fmt: skip
    if at_the_limit is not None or wanted <= now:
        return at_the_limit
    return Proposal(
        action=say(
            "Raise the engine's GPU memory share: {now} -> {then}",
            now=_as_known(now, assumed), then=f"{wanted:.2f}",
        ),
        current=None if assumed else now,
        suggested=wanted,
        derivation=say(
            "{now} + {missing} / {total} = {share}",
            now=f"{now:.2f}", missing=why, total=show(total), share=f"{wanted:.2f}",
        ),
        assumes=(*assumed, say("nothing else on the GPU needs this memory")),
    )  # fmt: skip


def _step_up(now: float, assumed: tuple[str, ...]) -> Answer:
    then = min(round(now + shares.STEP, 3), shares.AT_THE_LIMIT)
    return Proposal(
        action=say(
            "Raise the engine's GPU memory share: {now} -> {then}", now=_as_known(now, assumed), then=f"{then:.2f}"
        ),
        current=None if assumed else now,
        suggested=then,
        derivation=fractions.first_step(f"{now:g} + {round(then - now, 3):g} = {then:g}"),
        assumes=assumed,
    )


def _above_weights_of_another(now: float | None, held: int, budget: int) -> Answer:
    """vLLM 0.33: the weights that another process holds for the engine have to fit into its share."""
    if now is None:
        return None
    then = shares.ceil(now * held / budget + fractions.FOR_THE_CACHE)
    formula = say(
        "{now} x {held} held / {budget} + {cache} for the KV cache = {share}",
        now=f"{now:g}", held=show(held), budget=show(budget), cache=fractions.FOR_THE_CACHE, share=f"{then:.2f}",
    )  # fmt: skip
    if then > shares.LARGEST:
        return Refusal(say("no share of the GPU fits another process's weights ({formula})", formula=formula))
    return Proposal(
        action=say("Raise the engine's GPU memory share: {now} -> {then}", now=f"{now:.2f}", then=f"{then:.2f}"),
        current=now,
        suggested=then,
        derivation=formula,
        assumes=(fractions.cache_guessed(), say("nothing else on the GPU needs this memory")),
    )


def _most(crash: Crash, total: int) -> float:
    """The largest share that the card can give."""
    free = free_at_start(crash)
    return min(shares.LARGEST, shares.largest(free, total) if free else shares.LARGEST)


def _without_a_block(case: Case, known: tuple[float, tuple[str, ...]], total: int) -> Answer:
    """Where the room for the cache is below zero: what a larger share could do; None where it is above."""
    room, most = facts(case.crash).kv_bytes, _most(case.crash, total)
    if room is None or room > 0:
        return None
    least = shares.raised(known[0], -room, total)
    if least <= most:
        return _with_shorter_context(case, known, room, total)
    figures = {"least": f"{least:.2f}", "total": show(total), "most": f"{most:.2f}"}
    return Refusal(
        say(
            "no share works with any context: {least} of the {total} are needed before the first KV-cache "
            "block, at most {most} can be given. Shrink the weights (8 or 4 bits, more GPUs) or the tokens "
            "per step, or free the GPU",
            **figures,
        )
        if most < shares.LARGEST
        else say(
            "no share works with any context: {least} of the {total} are needed before the first KV-cache "
            "block, at most {most} can be given. Shrink the weights (8 or 4 bits, more GPUs) or the tokens "
            "per step",
            **figures,
        )
    )


def _with_shorter_context(case: Case, known: tuple[float, tuple[str, ...]], room: int, total: int) -> Proposal | None:
    """Where neither is enough alone: the largest share that leaves something beside it, and what then fits."""
    crash, per_token, (now, assumed) = case.crash, token_bytes(case.crash), known
    then = min(shares.AT_THE_LIMIT, _most(crash, total))
    length = facts(crash).max_model_len
    if per_token is None or then <= now or length is None:
        return None
    gained = round((then - now) * total)
    tokens = kv_cache.fitting(room + gained, per_token[0])
    if tokens < LEAST_CONTEXT:
        return None
    spelled = _as_the_engine_spells("shorter-context", crash)
    name = spelled.setting if spelled is not None else "max_model_len"
    lines = [row.snippet(value) for row, value in ((case.row, then), (spelled, tokens)) if row is not None]
    copied = [line for line in lines if line is not None]
    inner = case.row is not None and some([case.row.framework], "runs inside trainers") and crash.job.may_share
    return Proposal(
        action=say(
            "Raise the GPU memory share ({now} -> {then}) and lower the context length ({length} -> "
            "{tokens} tokens)",
            now=_as_known(now, assumed), then=f"{then:.2f}", length=length, tokens=tokens,
        ),
        current=None if assumed else now,
        suggested=then,
        beside=(Beside(name, tokens),),
        snippet="\n".join(copied) if len(copied) == 2 and not inner else None,
        derivation=say(
            "({then} - {now}) x {total} = {gained}; - {lacking} missing before the first block = {room}; / "
            "{each} bytes per token = {tokens} tokens (a multiple of 16)",
            then=f"{then:.2f}", now=f"{now:.2f}", total=show(total), gained=show(gained), lacking=show(-room),
            room=show(room + gained), each=f"{per_token[0]:.0f}", tokens=tokens,
        ),
        assumes=(
            *assumed,
            say("bytes per token: {source}", source=per_token[1]),
            say("nothing else on the GPU needs this memory"),
        ),
        cost=say("longer requests are rejected or truncated; less GPU memory for CUDA graphs, NCCL and colocated "
                 "training"),
    )  # fmt: skip


def _as_the_engine_spells(knob: str, crash: Crash) -> Spelling | None:
    return spelling(knob, crash.context) or spelling(knob, crash.context, vllm.NAME)


def _missing_cache(crash: Crash) -> tuple[int, str] | None:
    """The KV cache that is missing, and how that was reckoned."""
    for error in crash.every(ContextDoesNotFit):
        if error.needed_bytes and error.kv_bytes is not None:
            return error.needed_bytes - error.kv_bytes, f"({show(error.needed_bytes)} - {show(error.kv_bytes)})"
        per_token = token_bytes(crash)
        if error.kv_tokens and error.max_model_len and per_token:
            tokens = error.max_model_len - error.kv_tokens
            return round(tokens * per_token[0]), say(
                "{tokens} tokens x {each} bytes ({source})",
                tokens=tokens, each=f"{per_token[0]:.0f}", source=per_token[1],
            )  # fmt: skip
    for event in crash.events:
        if isinstance(event, KvCacheSize | MemoryProfile) and event.kv_bytes is not None and event.kv_bytes < 0:
            need = one_request(crash)
            if need is None:
                return -event.kv_bytes, say("{amount} missing before the first block", amount=show(-event.kv_bytes))
            short = show(-event.kv_bytes)
            return need[0] - event.kv_bytes, say("({amount} short + {request})", amount=short, request=need[1])
    return None


def one_request(crash: Crash) -> tuple[int, str] | None:
    """What the cache of one request of the longest context takes, and how that is known."""
    per_token = token_bytes(crash)
    length = crash.setting(*_LENGTHS)
    if per_token is None or length is None or not isinstance(length.value, int) or length.value <= 0:
        return None
    need = kv_cache.need(per_token[0], length.value)
    told = say("{amount} for {tokens} tokens ({source})", amount=show(need), tokens=length.value, source=per_token[1])
    return need, told


# the rest


def shorter_context(case: Case) -> Answer:
    for error in case.crash.every(ContextDoesNotFit):
        if error.kv_tokens:
            return _context(
                error, error.kv_tokens, say("the KV cache holds {tokens} tokens", tokens=error.kv_tokens), ()
            )
        if error.max_model_len and error.needed_bytes and error.kv_bytes is not None:
            longest = vllm.longest_context(
                error.max_model_len, error.needed_bytes, error.kv_bytes, error.estimated_tokens
            )
            if longest is None:
                return Refusal(say("no context fits: no room for a single KV-cache block"))
            if error.estimated_tokens:
                own = say("the engine's own estimate: {tokens}", tokens=longest)
                return _context(error, longest, own, _pipeline(case.crash))
            derivation = say(
                "{length} tokens x {room} / {needed} = {tokens} (a multiple of 16)",
                length=error.max_model_len, room=show(error.kv_bytes), needed=show(error.needed_bytes), tokens=longest,
            )  # fmt: skip
            return _context(error, longest, derivation, (say("every layer attends to the whole context"),))
    if _gains_nothing(case.crash):
        return Refusal(say("not one KV-cache block fits: a shorter context alone does not help"))
    return half(case)


def _gains_nothing(crash: Crash) -> bool:
    """Without a single block of cache a shorter context helps only where the engine's steps shrink with it."""
    known = facts(crash)
    if crash.first(NoCacheBlocks) is None and (known.kv_bytes is None or known.kv_bytes > 0):
        return False
    steps = crash.setting("max_num_batched_tokens")
    return known.engine == "V1" or steps is not None or (known.max_model_len or 0) > WHOLE_PROMPTS


def _context(error: ContextDoesNotFit, longest: int, derivation: str, assumes: tuple[str, ...]) -> Proposal:
    was = error.max_model_len
    return Proposal(
        action=say("Lower the engine's context length: {was} -> {tokens} tokens", was=was, tokens=longest)
        if was
        else say("Lower the engine's context length to {tokens} tokens", tokens=longest),
        current=error.max_model_len,
        suggested=longest,
        derivation=derivation,
        assumes=assumes,
    )


def _pipeline(crash: Crash) -> tuple[str, ...]:
    stages = crash.setting("pipeline_parallel_size")
    version = engine_version(crash)
    if stages is None or not isinstance(stages.value, int) or stages.value < 2:
        return ()
    if version is not None and not (0, 14) <= version < (0, 17):
        return ()
    return (say("vLLM 0.14 to 0.16 compares all layers with one pipeline stage's cache: more may fit"),)


def half(case: Case) -> Answer:
    """Half of what it is now."""
    now = case.number()
    if now is None or case.now is None:
        return begin(case)
    if now <= 1:
        return _to_none(case, case.now) if now == 1 and may_be_none(case) else already(case.now, f"{now:g}")
    then = int(now) // 2
    least = floor(case)
    if least is not None and then < least.value + (not least.equal):
        return _down_to(case.now, least)
    own = case.own_name()
    name = case.name if case.is_printed_by_a_bar else case.now.name
    return Proposal(
        action=say("Halve {name}: {now} -> {then}", name=name, now=f"{now:g}", then=then),
        current=case.now.value,
        suggested=then,
        derivation=f"{now:g} / 2 = {then}",
        setting=own,
        snippet=case.own_spelling(then) if own is not None else None,
    )


def _to_none(case: Case, now: Setting) -> Proposal:
    own = case.own_name()
    return Proposal(
        action=say("Lower {name} from {now} to 0", name=now.name, now=now.value),
        current=now.value,
        suggested=0,
        derivation=say("0 is the minimum"),
        setting=own,
        snippet=case.own_spelling(0) if own is not None else None,
    )


def _down_to(now: Setting, least: Floor) -> Answer:
    """The least that the program starts with, in the place of a half that it refuses."""
    if not least.equal or (now.whole or 0) <= least.value:
        return Refusal(
            say(
                "half of {name} is too little: {least} is {value}, and the program does not start with less",
                name=now.name, least=least.name, value=least.value,
            )
        )  # fmt: skip
    return Proposal(
        action=say(
            "Lower {name} to {least}, with less the program does not start: {now} -> {then}",
            name=now.name, least=least.name, now=now.whole, then=least.value,
        ),
        current=now.value,
        suggested=least.value,
        derivation=f"{least.name} = {least.value}",
    )  # fmt: skip


def fewer_sequences(case: Case) -> Answer:
    if case.row is not None and case.row.type == "float":
        return None  # a factor of what the framework counts itself
    state = case.crash.first(SequencesExceedState)
    if state is not None and state.state_blocks:
        return Proposal(
            action=say("Serve at most {count} sequences concurrently", count=state.state_blocks),
            current=state.max_num_seqs,
            suggested=state.state_blocks,
            derivation=say("{count} blocks for sequence states", count=state.state_blocks),
        )
    warmup = case.crash.first(WarmupOutOfMemory)
    if warmup is not None and warmup.requests and case.number() is None:
        then = warmup.requests // 2
        return Proposal(
            action=say("Halve the concurrent sequences to {count}", count=then),
            current=warmup.requests,
            suggested=then,
            derivation=say("{count} dummy requests of the warm-up / 2", count=warmup.requests),
        )
    decoded = _decoded_at_once(case.crash)
    if decoded is not None and case.now is not None and 1 < decoded < (case.now.whole or 0):
        return Proposal(
            action=say("Halve the concurrent sequences to {count}", count=decoded // 2),
            current=case.now.value,
            suggested=decoded // 2,
            derivation=say("{count} requests in the batch that failed / 2", count=decoded),
        )
    short = case.crash.root
    if isinstance(short, WarmupShort) and short.total_tokens and case.now is None and case.row is not None:
        return _half_of_the_warm_up(case.row, short.total_tokens)
    return half(case)


def _decoded_at_once(crash: Crash) -> int | None:
    """The requests of SGLang's batch that found no room: each decodes one token, without speculation."""
    root = crash.root
    if not isinstance(root, PoolExhausted) or root.batch != "decode" or crash.setting(_SPECULATION) is not None:
        return None
    return root.tried_tokens


def _half_of_the_warm_up(row: Spelling, now: int) -> Proposal:
    """Of a batch whose size TGI prints and no option states."""
    return Proposal(
        action=say("Halve {name}: {now} -> {then}", name=row.setting, now=now, then=now // 2),
        current=now,
        suggested=now // 2,
        derivation=f"{now} / 2 = {now // 2}",
    )


def smaller_prefill(case: Case) -> Answer:
    """Half of the batch; of a compute buffer that has to be smaller, what that comes to."""
    if _is_smaller_than_a_prompt(case):
        return Refusal(say("prompts are not prefilled in chunks: the engine refuses a batch smaller than its context"))
    answer, root = half(case), case.crash.root
    if isinstance(root, PoolExhausted) and root.batch == "decode":
        return Skip()
    if isinstance(root, PoolExhausted) and case.row is not None and evictable_tokens_stayed(case.crash) is not None:
        return _within_the_free_tokens(root, case.row.setting)
    if isinstance(root, WarmupShort) and root.of_prefill and case.now is None and case.row is not None:
        return _half_of_the_warm_up(case.row, root.of_prefill)
    if isinstance(answer, Proposal) and case.crash.in_trace(OF_PROMPTS) is not None:
        halved = answer.action or translated(KNOBS[case.knob].action)
        return replace(answer, action=say("{halved}, or request no log-probabilities of the prompt", halved=halved))
    if not isinstance(answer, Proposal) or not isinstance(root, BufferRefused) or root.what != "compute":
        return answer
    if not root.tried_bytes:
        return answer
    return replace(
        answer,
        derivation=say(
            "at best {tried} / 2 = {half} of compute buffer",
            tried=show(root.tried_bytes),
            half=show(root.tried_bytes / 2),
        ),
    )


def _is_smaller_than_a_prompt(case: Case) -> bool:
    """Half of the batch, where a whole prompt has to fit into it."""
    length, now = facts(case.crash).max_model_len, case.number()
    if a_step_takes_a_whole_prompt(case.crash) is None:
        return False
    return now is None or length is None or now // 2 < length


def _within_the_free_tokens(pool: PoolExhausted, option: str) -> Answer:
    """A prefill batch that fits in what is free before anything is evicted."""
    tried, free = pool.tried_tokens or 0, pool.available_tokens or 0
    parts = next((count for count in _PARTS if tried // count <= free), None)
    if pool.batch is None or parts is None:
        return None
    then = tried // parts
    return Proposal(
        action=say("Let a prefill batch take {then} tokens at most ({option})", then=then, option=option),
        suggested=then,
        derivation=say(
            "{tried} requested / {parts} = {then} <= {free} free without eviction",
            tried=tried,
            parts=parts,
            then=then,
            free=free,
        ),
    )


def _of_the_values_too(case: Case) -> Proposal | None:
    """llama.cpp has an option for the keys and one for the values, which needs flash attention."""
    row = case.row
    if row is None or row.setting != "-ctk" or case.crash.mentions(_FLASH_ATTENTION) is None:
        return None
    return Proposal(suggested=row.value, snippet=f"-ctk {row.value} -ctv {row.value}")


def quantize_cache(case: Case) -> Answer:
    if case.now is not None and str(case.now.value).startswith(("fp8", "int8", "q8", "q4")):
        return Refusal(say("the KV cache is already {value} ({place})", value=case.now.value, place=case.now.place))
    error = case.crash.first(ContextDoesNotFit)
    row = case.row
    if error is not None and row is not None and error.kv_tokens:
        longest = 2 * error.kv_tokens
        return Proposal(
            suggested=row.value,
            action=say("Store the KV cache in {type}: about {tokens} tokens would fit", type=row.value, tokens=longest),
            derivation=say("2 x {tokens} tokens = {longest}", tokens=error.kv_tokens, longest=longest),
        )
    if error is None or row is None or not error.needed_bytes:
        return _of_the_values_too(case) or _fixed(case)
    halved = error.needed_bytes // 2
    if error.kv_bytes is not None and halved > error.kv_bytes:
        longest = 2 * (error.estimated_tokens or 0)
        figures = {"type": row.value, "halved": show(halved), "needed": show(error.needed_bytes)}
        return Proposal(
            suggested=row.value,
            action=say(
                "Store the KV cache in {type}: {halved} instead of {needed}; about {tokens} tokens would fit",
                tokens=longest, **figures,
            )
            if longest
            else say("Store the KV cache in {type}: {halved} instead of {needed}", **figures),
            derivation=say(
                "{needed} / 2 = {halved}; {room} available",
                needed=show(error.needed_bytes), halved=show(halved), room=show(error.kv_bytes),
            ),
        )  # fmt: skip
    return Proposal(
        suggested=row.value,
        derivation=f"{show(error.needed_bytes)} / 2 = {show(halved)}",
    )


def fewer_graphs(case: Case) -> Answer:
    """Graphs that did not fit, up to a printed size: up to half of it. Without graphs altogether as the other way."""
    crash, row = case.crash, case.row
    if case.cause != "cuda-graph-capture" or row is None or crash.job.may_share:
        return None
    stated = crash.setting(*_CAPTURED)
    now = stated.whole if stated is not None else None
    if stated is None or now is None or now < 2:
        return None
    known = known_versions(row.framework, crash.context)
    rows = [one for one in of_knob(case.knob, row.framework) if one.versions.overlaps(known)]
    sizes = [one for one in rows if one.key in _CAPTURED]
    own = next((one for one in sizes if one.key == stated.name.rsplit(".", 1)[-1].replace("-", "_")), None)
    size = own or next(iter(sizes), None)
    if size is None:
        return None
    switch = next((one.setting for one in rows if one.is_switch), None)
    return Proposal(
        action=say(
            "Capture CUDA graphs for batch sizes up to {half} instead of {now}, or none ({switch})",
            half=now // 2, now=now, switch=switch,
        )
        if switch is not None
        else say(
            "Capture CUDA graphs for batch sizes up to {half} instead of {now}, or none",
            half=now // 2, now=now,
        ),
        current=now,
        suggested=now // 2,
        derivation=f"{now} / 2 = {now // 2}",
        assumes=(say("half is a first step: the graphs' sizes are not printed"),),
        setting=size.setting,
        snippet=size.snippet(now // 2),
        cost=say("slower decoding for the other batch sizes"),
    )  # fmt: skip


def _fixed(case: Case) -> Answer:
    return Proposal(suggested=case.row.value if case.row and not isinstance(case.row.value, int | float) else None)


def keep_cache(case: Case) -> Answer:
    """Only the first generation of verl, with vLLM 0.6.3, builds its caches again at every rollout."""
    version = engine_version(case.crash) or version_of(pin_of(vllm.NAME, case.crash.context))
    if version is None or version >= (0, 7):
        return Refusal(
            say("free_cache_engine is sleep mode in this verl: without it the engine never frees its GPU memory")
        )
    if case.now is not None and case.now.value is False:
        return already(case.now, False)
    return Proposal(
        action=say("Keep the engine's caches between rollouts: free_cache_engine=False"),
        suggested=False,
        assumes=(say("this fork (vLLM 0.6.3) rebuilds its caches and swap space in each rollout"),),
    )


def quantized(crash: Crash) -> str | None:
    """What shows that the weights are of few bits already: the model's name, or the loader that failed with it."""
    name = next((each for each in crash.context.models if has_few_bits(each)), None)
    if name is not None:
        return name
    said = _OF_QUANTIZED.search(crash.root.at.text)
    if said is not None:
        return said[0]
    frame = crash.in_trace(_QUANTIZING)
    return frame.file.rsplit("/", 1)[-1] if frame is not None else _in_8_bits(crash)


def _in_8_bits(crash: Crash) -> str | None:
    """vLLM was making FP8 values: of weights or for layers of such weights, if not for a cache of FP8."""
    cache = crash.setting("kv_cache_dtype")
    if cache is not None and _OF_8_BITS in str(cache.value):
        return None
    return _OF_8_BITS if crash.shows(_INTO_8_BITS) else None


def smaller_weights(case: Case) -> Answer:
    """What the weights take now, in fewer bits or of another model."""
    shown = quantized(case.crash) if case.knob == "quantize-weights" else None
    if shown is not None:
        return Refusal(say("weights already quantized ({shown})", shown=shown))
    row, models_named = case.row, case.crash.context.models
    if case.knob == "quantize-weights" and (checkpoint := _of_a_checkpoint(case)) is not None:
        return checkpoint
    if case.knob == "quantize-weights" and case.now is not None and _are_quantized_by(case.now):
        return already(case.now, case.now.value)
    formula, assumes = _weights_in_words(case.crash)
    if case.knob == "smaller-model" and models_named:
        name = sanitize(models_named[0], _NAMED)
        return Proposal(
            action=say("Use a smaller model than {name}", name=name), subject=name, derivation=formula, assumes=assumes
        )
    suggested = row.value if row is not None and isinstance(row.value, str) else None
    return Proposal(suggested=suggested, derivation=formula, assumes=assumes)


def _are_quantized_by(stated: Setting | None) -> bool:
    return stated is not None and str(stated.value).lower() not in _NOT_QUANTIZED


def _of_a_checkpoint(case: Case) -> Proposal | None:
    """Weights that are in fewer bits before the engine loads them, where its option comes too late or is not there."""
    framework = case.row.framework if case.row is not None else case.crash.job.engine
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


def sees(crash: Crash) -> bool:
    return any(_SEEING.search(name) for name in crash.context.models)


def limit_multimodal(case: Case) -> Answer:
    """By the engine's own profile, where it prints one."""
    profiled = case.crash.first(EncoderProfile)
    if profiled is not None and profiled.items and profiled.items > 1 and profiled.modality:
        return Proposal(
            action=say(
                "Allow one {modality} per prompt: the engine profiles {count} of the largest size",
                modality=profiled.modality, count=profiled.items,
            ),
            current=profiled.items,
            suggested=1,
            derivation=say("1 is the minimum that still serves a {modality}", modality=profiled.modality),
            snippet=f"--limit-mm-per-prompt '{{\"{profiled.modality}\": 1}}'" if profiled.modality.isalpha() else None,
        )  # fmt: skip
    return Proposal()


FUNCTIONS: Final[Mapping[str, Compute]] = {
    "lower-engine-reservation": lower,
    "raise-engine-reservation": raise_share,
    "shorter-context": shorter_context,
    "fewer-sequences": fewer_sequences,
    "smaller-prefill": smaller_prefill,
    "eager-mode": fewer_graphs,
    "quantize-kv-cache": quantize_cache,
    "keep-engine-cache": keep_cache,
    "engine-sleep": sleep,
    "limit-multimodal": limit_multimodal,
    "quantize-weights": smaller_weights,
    "smaller-model": smaller_weights,
}
