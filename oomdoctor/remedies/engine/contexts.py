"""A context for which the KV cache that llama.cpp asked for in one piece has room."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.llama_cpp import BufferRefused, LoadPlan
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.remedies import models
from oomdoctor.remedies.proposal import Case, Proposal
from oomdoctor.signs.allocator import at_once
from oomdoctor.units import GIB, show

FAR: Final = 32 * GIB  # of a cache: its half is still more than most machines and GPUs have left
START: Final = 8192  # tokens
LEAST: Final = 512  # a shorter context serves nobody
_LENGTHS: Final = ("ctx_size", "n_ctx")


def within_room(case: Case) -> Proposal | None:
    """The longest context of a power of two whose cache the device gives in one piece; of a cache that no half of it
    brings into reach, a usual one."""
    found = _cache(case.crash)
    if found is None or case.row is None:
        return None
    tokens, size, assumes = found
    each = size / tokens
    sizes = at_once(case.crash)
    if sizes is not None:
        then = 1 << max(0, int(sizes[1] / each).bit_length() - 1)
        usual = ""
    elif size >= FAR:
        then, usual = START, say("{value} is a usual start value", value=START)
    else:
        return None
    if not LEAST <= then < tokens:
        return None
    return Proposal(
        action=say("Lower the context from {tokens} to {then} tokens", tokens=tokens, then=then),
        current=tokens,
        suggested=then,
        derivation=", ".join(
            part for part in (f"{show(size)} / {tokens} x {then} = {show(round(each * then))}", usual) if part
        ),
        assumes=assumes,
    )


def _cache(crash: Crash) -> tuple[int, int, tuple[str, ...]] | None:
    """The context, what its KV cache takes that was refused, and what shows that it is one."""
    tokens = context(crash)
    if not tokens:
        return None
    root = crash.root
    if isinstance(root, BufferRefused) and root.what == "kv" and (size := root.buffer_bytes or root.tried_bytes):
        return tokens, size, ()
    model, sizes = models.known(crash.context.models), at_once(crash)
    if crash.job.world != "ggml" or model is None or sizes is None or sizes[0] != tokens * model.kv_bytes_per_token():
        return None
    shown = say(
        "the request is the KV cache: {tokens} tokens x {each} bytes ({model}: 2 x {layers} layers x {heads} heads x "
        "{width} x 2 bytes)",
        tokens=tokens,
        each=model.kv_bytes_per_token(),
        model=model.name,
        layers=model.layers,
        heads=model.kv_heads,
        width=model.head_dim,
    )
    return tokens, sizes[0], (shown,)


def context(crash: Crash) -> int | None:
    """How long it is, as llama.cpp prints it or as an option states it."""
    planned = [plan.context_len for plan in crash.every(LoadPlan) if plan.context_len]
    stated = (crash.setting(name) for name in _LENGTHS)
    asked = [one.value for one in stated if one is not None and isinstance(one.value, int)]
    return next(iter((*reversed(planned), *asked)), None)
