"""A smaller share of the card for the engine, from what was refused or free."""

from __future__ import annotations

import math
from typing import Final

from oomdoctor.arithmetic import shares, vllm
from oomdoctor.arithmetic import training as arithmetic
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.vllm_error import NotEnoughFree
from oomdoctor.incident.engine_facts import cache_that_fits, facts, phase
from oomdoctor.incident.model import Crash
from oomdoctor.language import say, semicolons
from oomdoctor.remedies import fractions
from oomdoctor.remedies.cache_left import spare
from oomdoctor.remedies.engine.known import PRINTED, card_total, engine_version, in_python, weights_bytes
from oomdoctor.remedies.engine.share import as_known, fixed_cache, not_its_share, share, share_stated, shares_begun
from oomdoctor.remedies.initial import default_of
from oomdoctor.remedies.proposal import RACE, Answer, Case, Proposal, Refusal, Skip
from oomdoctor.remedies.settings import of_knob
from oomdoctor.remedies.sizes import cards_of_trainer, size_of_trained, trained, zero_stage
from oomdoctor.signs import logits
from oomdoctor.signs.engine import memory_saver_of_nobody_named
from oomdoctor.signs.neighbours import a_process_of_the_log_was_there_first
from oomdoctor.units import show

_LONG: Final = 32768  # tokens: a guess of a context that may fill the cache
_OF_V0: Final = "not properly cleaned up"  # vllm/worker/worker.py, whose engine measures always
_STATES_ITS_CACHE: Final = (0, 10, 2)
FILLED: Final = 0.98  # of the card in live tensors
_BESIDE_PYTORCH: Final = "non-torch-memory"  # a cause
FIXED_CACHE: Final = "kv_cache_memory_bytes"  # vLLM 0.10.2 and later
_OF_TOKENS_CHOSEN: Final = (logits.sampler_working_on_logits, logits.engine_working_on_logits)


def lower(case: Case) -> Answer:
    crash = case.crash
    if case.cause == RACE:
        return _without_profiling(case)
    refused = crash.first(NotEnoughFree)
    if refused is not None and refused.free_bytes is not None and refused.total_bytes:
        return _from_free(crash, refused, refused.free_bytes, refused.total_bytes)
    fixed = fixed_cache(crash) or _as_the_engine_says(case) or _of_sglang(crash)
    if fixed is not None:
        return fixed
    elsewhere = not_its_share(crash) or _of_tensors(case)
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


def _of_tensors(case: Case) -> str | None:
    """A library beside PyTorch was refused, and tensors take more than an engine does by its share: weights, or what a
    pass computes."""
    refused = case.crash.every(DeviceOutOfMemory) if case.cause == _BESIDE_PYTORCH else ()
    full = (each for each in refused if (each.allocated_bytes or 0) >= FILLED * (each.total_bytes or math.inf))
    taken = next((each.allocated_bytes or 0 for each in full), None)
    if taken is None:
        return None
    return say("tensors of this process alone take {taken}: no cache is what fills the GPU", taken=show(taken))


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
    begun = shares_begun(row, case.crash)
    return bool(begun) and round(max(begun) - min(begun), 3) >= shares.STEP


def _without_profiling(case: Case) -> Answer:
    """vllm/v1/worker/gpu_worker.py since 0.10.2: a cache of a stated size is not measured for."""
    version = engine_version(case.crash)
    if (
        fixed_cache(case.crash) is not None
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


def _from_free(crash: Crash, refused: NotEnoughFree, free: int, total: int) -> Answer:
    now, budget = refused.utilization, refused.requested_bytes
    if now is not None and budget is not None and budget < (now - shares.STEP) * total:
        return _beside_weights_of_another(now, budget, free, total)
    if a_process_of_the_log_was_there_first(crash) is not None:
        return _beside_its_own(now, free, total)
    fits = shares.largest(free, total)
    weights = weights_bytes(crash)
    if fits < shares.LEAST:
        return Refusal(_too_small(fits, free, total))
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


def _beside_its_own(now: float | None, free: int, total: int) -> Answer:
    """Who was there first has only loaded: its work needs room that a share of all that is free would leave it none."""
    fits = shares.floor(free / total - shares.STEP)
    if fits < shares.LEAST:
        return Refusal(_too_small(fits, free, total))
    return Proposal(
        action=_lowered(now, fits),
        current=now,
        suggested=fits,
        derivation=say(
            "{free} free at start / {total} - {step} for the work of the process beside it = {share}",
            free=show(free), total=show(total), step=shares.STEP, share=f"{fits:.2f}",
        ),
        assumes=(say("{step} of the GPU is a guess of what the process beside it still needs", step=shares.STEP),),
    )  # fmt: skip


def _too_small(fits: float, free: int, total: int) -> str:
    """vLLM itself takes any share above 0: a small one passes its check, and then the model does not fit."""
    if not fits:
        return say(
            "no share fits: only {free} of {total} are free. Free the GPU first", free=show(free), total=show(total)
        )
    return say(
        "at most {share} would pass ({size}): too little for most models. Free the GPU first",
        share=f"{fits:.2f}",
        size=show(fits * total),
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
    """What was refused must fit, and what is yet to be allocated: of a colocated trainer its states, where known."""
    free = min(oom.free_bytes or 0, tried)
    states = _trainer_states(crash)
    slack = 0 if states is not None else vllm.CAPTURE_SLACK_BYTES
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
            now=as_known(now, assumed), step=step,
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
    return say("Lower the engine's GPU memory share: {now} -> {then}", now=as_known(now, assumed), then=f"{then:.2f}")
