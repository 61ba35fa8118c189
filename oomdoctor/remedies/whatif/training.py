"""What training's settings change: states that are sharded or offloaded, and what the passes keep, which is a range."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from oomdoctor.arithmetic import host as ram
from oomdoctor.arithmetic import training as arithmetic
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.incident.card import card_of
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import some, trainers
from oomdoctor.language import mark, say, semicolons, translated
from oomdoctor.remedies import models
from oomdoctor.remedies.engine.known import sleeps
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.sizes import ZERO_STAGE, cards_of_trainer, nodes, size_of_model, size_of_trained, trained
from oomdoctor.remedies.whatif.model import A_VERSION, Effect, Pair, Rule, Shift, Unknown
from oomdoctor.remedies.whatif.options import ALLOCATOR, RECOMPUTING
from oomdoctor.remedies.whatif.states import (
    CARDS,
    OPTIMIZER,
    PARAMETERS,
    STARTING,
    is_on,
    states,
    together,
)
from oomdoctor.signs.releases import fitting
from oomdoctor.signs.trace import LOGITS
from oomdoctor.units import show

QUANTIZED: Final = KNOBS["quantize-weights"].settings
CHECKPOINTING: Final = (*RECOMPUTING, "activation_checkpointing")
# Batches and lengths, by the passes that they are of.
OF_UPDATES: Final = (
    "micro_train_batch_size", "ppo_micro_batch_size_per_gpu", "ppo_micro_batch_size", "per_device_train_batch_size",
    "train_micro_batch_size_per_gpu", "micro_batch_size_per_gpu", "micro_batch_size", "ppo_max_token_len_per_gpu",
    "train_max_tokens_per_gpu", "max_tokens_per_gpu",
)  # fmt: skip
OF_PASSES_WITHOUT_GRADIENTS: Final = (
    "micro_rollout_batch_size", "micro_forward_batch_size", "log_prob_micro_batch_size_per_gpu",
    "log_prob_micro_batch_size", "log_prob_max_token_len_per_gpu", "per_device_eval_batch_size",
    "forward_micro_batch_size",
)  # fmt: skip
LENGTHS: Final = (
    "max_response_length", "max_prompt_length", "generate_max_len", "prompt_max_len", "max_completion_length",
    "max_new_tokens", "max_seq_length", "cutoff_len", "sequence_len", "max_length", "max_len", "seq_length",
)  # fmt: skip

# What people call a batch without saying which option of their framework it is.
ANY_BATCH: Final = ("batch_size", "micro_batch", "per_device_batch_size", "bs")

NEAREST: Final = 3  # frames that tell what was asked for
_UPDATES: Final = frozenset({"forward", "backward", "optimizer_step", "unknown"})
_WITHOUT_GRADIENTS: Final = frozenset({"forward", "logprob", "rollout", "reward", "eval", "unknown"})
_IN_UPDATE: Final = frozenset({"forward", "backward", "optimizer_step"})
_GATHERS: Final = r"all_?gather|_all_gather_dtype|partition_parameters|reduce_scatter"
_LENGTHS_TOGETHER: Final = (
    ("prompt_max_len", "generate_max_len"), ("max_prompt_length", "max_response_length"),
    ("max_prompt_length", "max_completion_length"),
)  # fmt: skip


_OFFLOADS: Final = (
    (OPTIMIZER, mark("offloaded optimizer"), ram.ADAM_OFFLOAD_BYTES),
    (PARAMETERS, mark("offloaded parameters"), arithmetic.WEIGHT_BYTES),
)


def sharding(pair: Pair) -> Iterator[Effect]:
    """Weights, gradients and optimizer states on each card, and what of them goes to host memory."""
    crash = pair.now
    if crash.job.in_reserving_engine and not together(crash):
        yield from _beside_a_trainer(crash)
        return
    now, then = states(crash), states(pair.then)
    if now is None or then is None:
        why = say("the log does not say how large the trained model is or over how many GPUs it is sharded")
        yield Unknown(pool="gpu", what=say("model states"), why=why, spends=True)
    else:
        words = say("{formula}, was {now}", formula=then.formula, now=show(now.bytes))
        yield _states_on_the_card(pair, then.bytes - now.bytes, words, now.source)
    yield from _in_host_memory(pair)


def _beside_a_trainer(crash: Crash) -> Iterator[Effect]:
    """An engine asked, and nothing says that a trainer has its cards as well."""
    if trainers() & crash.context.frameworks.keys():
        why = say("the log does not say whether the trainer shares the engine's GPUs")
        yield Unknown(pool="gpu", what=say("model states"), why=why, spends=True)
    else:
        words = say("an engine made the allocation, and the log shows no trainer")
        yield Shift(pool="gpu", what=say("model states"), low=0, high=0, derivation=words)


def _states_on_the_card(pair: Pair, change: int, words: str, source: str) -> Effect:
    crash = pair.now
    offload = pair.touches(*OPTIMIZER, *PARAMETERS)
    if offload and crash.stage in _IN_UPDATE and some(crash.context.frameworks, "brings states back"):
        why = say("this framework moves offloaded states back to the GPU for the update")
        return Unknown(pool="gpu", what=say("model states"), why=why, relieves=False)
    low, high = change, change
    if crash.job.in_reserving_engine or crash.stage in STARTING:
        low, high = min(change, 0), max(change, 0)
        words = say("at most {formula}", formula=words)
    rows = ("live tensors",) if not crash.job.in_reserving_engine else ("outside the engine's share", "process")
    return Shift(
        pool="gpu",
        what=say("model states"),
        low=low,
        high=high,
        derivation=words,
        basis="assumed",
        assumes=(source,),
        rows=rows,
    )


def _in_host_memory(pair: Pair) -> Iterator[Effect]:
    machines = nodes(pair.then)
    for names, what, each in _OFFLOADS:
        size = size_of_trained(pair.now) if names == OPTIMIZER else size_of_model(pair.now)
        sign = is_on(pair.then, *names) - is_on(pair.now, *names)
        if not sign:
            continue
        if size is None:
            why = say("unknown size of the trained model")
            yield Unknown(pool="host_ram", what=translated(what), why=why, relieves=sign < 0, spends=sign > 0)
            continue
        models_ = trained(pair.now)
        amount = models_ * each * size.parameters // machines
        figures = {
            "count": models_,
            "each": each,
            "size": size.billions,
            "machines": machines,
            "amount": show(amount),
        }
        words = (
            say("{count} x {each} bytes x {size} / {machines} nodes = {amount}", **figures)
            if machines > 1
            else say("{count} x {each} bytes x {size} / {machines} node = {amount}", **figures)
        )
        yield Shift(
            pool="host_ram", what=translated(what), low=sign * amount, high=sign * amount, derivation=words,
            basis="assumed", assumes=(size.source,),
        )  # fmt: skip


# what the passes keep


def batches(pair: Pair) -> Iterator[Effect]:
    """Batches and lengths: what grows with them is some part of what is live beside the model's states."""
    crash = pair.now
    if crash.pool == "kv_cache" or (crash.pool == "gpu" and crash.job.in_reserving_engine):
        yield _of_the_engine(pair)
        return
    ratio, idle = _ratio(pair)
    if ratio is None:
        why = say("its current value is not in the log")
        yield Unknown(pool=crash.pool, what=say("activations"), why=why, spends=True)
        return
    for name in idle:
        words = say("{name} does not affect the failed pass ({stage})", name=name, stage=crash.stage)
        yield Shift(pool=crash.pool, what=name, low=0, high=0, derivation=words)
    if ratio != 1:
        yield _scaled(crash, ratio, say("{ratio} of the tokens per pass", ratio=f"{ratio:g}"))


def _of_the_engine(pair: Pair) -> Effect:
    """Batches of training are nothing to an engine; how long a request gets may follow from the lengths."""
    if pair.touches(*LENGTHS):
        why = say("the log does not say whether the engine's context length depends on it")
        return Unknown(pool=pair.now.pool, what=say("the engine's requests"), why=why, spends=True)
    words = say("an engine made the allocation: a smaller training batch does not shrink it")
    return Shift(pool=pair.now.pool, what=say("activations"), low=0, high=0, derivation=words)


def batch_meant(crash: Crash) -> str | None:
    """The log's own option for the batch of the pass that failed: one that counts sequences, not tokens."""
    passes = (OF_PASSES_WITHOUT_GRADIENTS, OF_UPDATES)
    groups = passes if crash.stage in _WITHOUT_GRADIENTS - _UPDATES else passes[::-1]
    names = (name for group in groups for name in group if "token" not in name)
    return next((name for name in names if crash.setting(name) is not None), None)


def _ratio(pair: Pair) -> tuple[float | None, list[str]]:
    """The tokens of a pass against those before, and the settings that are of other passes."""
    ratio = 1.0
    idle: list[str] = []
    whole = next((parts for parts in _LENGTHS_TOGETHER if all(pair.now.setting(one) for one in parts)), ())
    if whole and pair.touches(*whole):
        sums = [sum(pair.numbers(name)[then] or 0 for name in whole) for then in (0, 1)]
        if not sums[0]:
            return None, idle
        ratio *= sums[1] / sums[0]
    for name in (*ANY_BATCH, *OF_UPDATES, *OF_PASSES_WITHOUT_GRADIENTS, *LENGTHS):
        if not pair.touches(name) or name in whole:
            continue
        stages = _UPDATES if name in OF_UPDATES else _WITHOUT_GRADIENTS
        if name not in (*LENGTHS, *ANY_BATCH) and pair.now.stage not in stages:
            idle.append(name)
            continue
        now, then = pair.numbers(name)
        if not now or then is None:
            return None, idle
        ratio *= then / now
    return ratio, idle


def _scaled(crash: Crash, ratio: float, what: str) -> Effect:
    root = crash.root
    if crash.pool != "gpu" or not isinstance(root, DeviceOutOfMemory) or not root.allocated_bytes:
        why = say("the log does not say how much grows with the batch")
        return Unknown(pool=crash.pool, what=say("activations"), why=why, relieves=ratio < 1, spends=ratio > 1)
    held = _states_held(crash)
    live = (card_of(root).live_bytes or root.allocated_bytes) - held + (root.tried_bytes or 0)
    most = round((ratio - 1) * max(live, 0))
    sure = 0
    if ratio < 1 and _is_logits(crash) and root.tried_bytes:
        sure = round((ratio - 1) * root.tried_bytes)
    figures = {
        "what": what,
        "most": show(abs(most)),
        "live": show(root.allocated_bytes),
        "tried": show(root.tried_bytes or 0),
    }
    words = (
        say(
            "{what}: at most {most} of {live} PyTorch tensors - {states} model states + {tried} requested",
            states=show(held),
            **figures,
        )
        if held
        else say("{what}: at most {most} of {live} PyTorch tensors + {tried} requested", **figures)
    )
    if sure:
        words = semicolons((words, say("at least {amount} of the requested logits", amount=show(-sure))))
    return Shift(
        pool="gpu", what=say("activations"), low=min(most, sure), high=max(most, sure), derivation=words,
        basis="assumed", assumes=(say("the log does not say how much grows with the tokens"), *_known_by(crash, held)),
        rows=("live tensors",),
        asked=round((1 - ratio) * root.tried_bytes) if ratio < 1 and root.tried_bytes else 0,
    )  # fmt: skip


def _states_held(crash: Crash) -> int:
    """What is sure to be no activation: the model's states, or its weights where their sharding is not printed."""
    root = crash.root
    if not isinstance(root, DeviceOutOfMemory):
        return 0
    found = states(crash)
    known = [found.bytes] if found is not None else []
    return next((held for held in (*known, _weights(crash)) if held <= (root.allocated_bytes or 0)), 0)


def _known_by(crash: Crash, held: int) -> tuple[str, ...]:
    """How what is no activation is known."""
    found, size = states(crash), size_of_model(crash)
    if found is not None and held == found.bytes:
        return (found.formula, found.source)
    if not held or size is None or held != _weights(crash):
        return ()
    return (size.source, say("weights of 2 bytes, not sharded"))


def _weights(crash: Crash) -> int:
    """In 16 bits and whole on the card, where nothing shows that they are quantized or spread over several."""
    size = size_of_model(crash)
    spread = (cards_of_trainer(crash) or 1) > 1 or crash.job.spread
    if size is None or spread or is_on(crash, *QUANTIZED, *PARAMETERS):
        return 0
    return arithmetic.WEIGHT_BYTES * size.parameters


def _is_logits(crash: Crash) -> bool:
    """Whether it was the logits or their loss that asked: they grow with the tokens, and nothing gathered does."""
    nearest = " ".join(f"{frame.file} {frame.function} {frame.code}" for frame in islice(crash.frames(), NEAREST))
    return re.search(LOGITS, nearest) is not None and re.search(_GATHERS, nearest) is None


def checkpointing(pair: Pair) -> Iterator[Effect]:
    """Without it every layer keeps what its backward pass needs; with it only each layer's input."""
    now, then = (value not in (None, False, "none", "None") for value in pair.values(*CHECKPOINTING))
    if now == then:
        return
    model = models.known(pair.now.context.models)
    if model is None or pair.now.job.in_reserving_engine or pair.now.stage not in _UPDATES:
        why = say("unknown number of layers") if model is None else say("the failed pass has no gradients")
        yield Unknown(pool="gpu", what=say("activations"), why=why, relieves=then, spends=not then)
        return
    with_it = arithmetic.activations_checkpointed(1, model.hidden, model.layers)
    without = arithmetic.activations(1, model.hidden, model.layers)
    ratio = with_it / without if then else without / with_it
    what = say(
        "{with_it} bytes a token with checkpointing, {without} without ({model})",
        with_it=with_it,
        without=without,
        model=model.name,
    )
    yield _scaled(pair.now, ratio, what)


# the allocator, and versions


def allocator(pair: Pair) -> Iterator[Effect]:
    """What is reserved and in no use can be handed out in any size where segments expand."""
    values = [str(value or "").lower().replace(" ", "") for value in pair.values(*ALLOCATOR)]
    now, then = ("expandable_segments:true" in value for value in values)
    root, what = pair.now.root, say("reserved but unallocated")
    if now == then or not isinstance(root, DeviceOutOfMemory):
        yield Unknown(pool="gpu", what=what, why=say("effect of that allocator option unknown"))
        return
    if sleeps(pair.now):
        why = say("expandable segments do not work with an engine's sleep mode")
        yield Unknown(pool="gpu", what=what, why=why, relieves=False, spends=True)
        return
    unused = card_of(root).unallocated_bytes
    if unused is None:
        yield Unknown(
            pool="gpu", what=what, why=say("the log does not say how much is reserved but unused"), spends=now
        )
        return
    sign = -1 if then else 1
    bounds = sorted((sign * unused, sign * unused // 2))
    yield Shift(
        pool="gpu", what=what, low=bounds[0], high=bounds[1], basis="assumed",
        rows=("reserved but unallocated",),
        derivation=say("at least half of {unused} unused", unused=show(unused)),
        assumes=(say("at least half is usable in one piece (a guess)"),),
    )  # fmt: skip


def version(pair: Pair) -> Iterator[Effect]:
    """Whether a known regression is in the other release; what it took is printed nowhere."""
    was, stays = (fitting(crash) is not None for crash in (pair.now, pair.then))
    if was and not stays:
        why = say("that release does not have the known bug; the log does not say how much the bug took")
        yield Unknown(pool=pair.now.pool, what=say("memory taken by the known bug"), why=why)
    elif stays and not was:
        why = say("that release has a known bug")
        yield Unknown(
            pool=pair.now.pool, what=say("memory taken by the known bug"), why=why, relieves=False, spends=True
        )
    elif stays:
        words = say("that release has the same known bug")
        yield Shift(pool=pair.now.pool, what=say("another release"), low=0, high=0, derivation=words)
    else:
        why = say("effect of another release unknown")
        yield Unknown(pool=pair.now.pool, what=say("another release"), why=why, spends=True)


RULES: Final = (
    Rule(frozenset((*ZERO_STAGE, *OPTIMIZER, *PARAMETERS, *CARDS)), sharding),
    Rule(frozenset((*ANY_BATCH, *OF_UPDATES, *OF_PASSES_WITHOUT_GRADIENTS, *LENGTHS)), batches),
    Rule(frozenset(CHECKPOINTING), checkpointing),
    Rule(frozenset(ALLOCATOR), allocator),
    Rule(frozenset({A_VERSION}), version),
)
