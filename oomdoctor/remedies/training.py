"""The knobs of training: halved batches, sharded states, logits in chunks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.remedies import arithmetic, engine, models
from oomdoctor.remedies.proposal import Answer, Case, Compute, Proposal, Refusal, Skip
from oomdoctor.remedies.sizes import size_of_model
from oomdoctor.units import show

SMALLER_BATCHES: Final = (
    "the engine is starting, its reservation is a share of the card: smaller batches of training do not shrink it"
)
NO_ACTIVATIONS: Final = (
    "launch",
    "engine_init",
    "memory_profiling",
    "kv_cache_init",
    "cuda_graph_capture",
    "model_load",
)


def halved(case: Case) -> Answer:
    """Batches and lengths of training matter once it trains."""
    if case.crash.stage in NO_ACTIVATIONS and engine.share(case.crash) is not None:
        return Refusal(SMALLER_BATCHES)
    return engine.half(case)


def in_training(case: Case) -> Answer:
    """A switch of training, once it trains."""
    return Skip() if case.crash.stage in NO_ACTIVATIONS and engine.share(case.crash) is not None else None


def shard_states(case: Case) -> Answer:
    crash = case.crash
    now = case.number()
    if now is not None and now >= 3:
        return Refusal(f"{case.name} is {now:g} already{_line(case)}")
    model, cards = size_of_model(crash), engine.cards_of_trainer(crash)
    if model is None or cards is None:
        return None
    stage = int(now) if now is not None else 0
    before = arithmetic.states_on_gpu(model.parameters, cards, stage)
    after = arithmetic.states_on_gpu(model.parameters, cards, 3)
    if after >= before:
        return None
    return Proposal(
        suggested=case.row.value if case.row is not None else None,
        derivation=f"18 bytes x {model.billions} / {cards} cards = {show(after)} a card instead of {show(before)} "
        f"(ZeRO-{stage})",
        assumes=(model.source,),
    )


def offload_optimizer(case: Case) -> Answer:
    if _set_already(case):
        return None
    model = size_of_model(case.crash)
    if model is None:
        return None
    freed = arithmetic.ADAM_OFFLOAD_BYTES * model.parameters
    return Proposal(
        suggested=(True if case.row.is_switch else case.row.value) if case.row is not None else None,
        derivation=f"12 bytes x {model.billions} = {show(freed)} leave the cards for host RAM",
        assumes=(model.source,),
    )


def _set_already(case: Case) -> bool:
    return case.now is not None and case.now.value not in (False, None, "none", "None")


def chunk_logits(case: Case) -> Answer:
    """Whether what was refused is the logits of a whole number of tokens."""
    if _set_already(case):
        return None
    root = case.crash.root
    model = models.known(case.crash.context.models)
    tried = root.tried_bytes if isinstance(root, DeviceOutOfMemory) else None
    if model is None or not tried:
        return None
    found = arithmetic.tokens_of_logits(tried, model.vocabulary)
    if found is None:
        return None
    tokens, each = found
    return Proposal(
        suggested=case.row.value if case.row is not None and isinstance(case.row.value, bool | str) else None,
        derivation=f"{show(tried)} asked for = {tokens} tokens x {model.vocabulary} (vocabulary) x {each} bytes",
        assumes=(f"the vocabulary is that of {model.name}",),
    )


def split_sequences(case: Case) -> Answer:
    if case.row is None:
        return Skip()  # no framework that could
    now = case.number()
    then = 2 * int(now) if now else 2
    return Proposal(
        action=f"Split each sequence over {then} cards",
        suggested=then,
        derivation=f"2 x {now:g} = {then}" if now else "2 is the least that splits",
        assumes=() if now else ("it is not split now (no size is printed)",),
    )


def _line(case: Case) -> str:
    return f" (line {case.now.line})" if case.now is not None else ""


FUNCTIONS: Final[Mapping[str, Compute]] = {
    "smaller-microbatch": halved,
    "shorter-sequences": halved,
    "token-budget-batching": in_training,
    "gradient-checkpointing": in_training,
    "packing": in_training,
    "shard-states": shard_states,
    "offload-optimizer": offload_optimizer,
    "chunked-logits": chunk_logits,
    "sequence-parallel": split_sequences,
}
