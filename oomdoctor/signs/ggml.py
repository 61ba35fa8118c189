"""Buffers that llama.cpp and Ollama could not get: ggml puts what it keeps on a device into few large ones."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.llama_cpp import Buffer, BufferRefused, LoadPlan
from oomdoctor.families.ollama import OffloadPlan, Short
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, say
from oomdoctor.signs import Seen, sign
from oomdoctor.units import show

METALS_COMMAND = "kIOGPU"  # what failed is a computation, of whatever program runs on Metal
LONG: Final = 16_384  # tokens of context: a batch of them needs more than a batch of 512 by itself
BESIDE: Final = 0.5
OF_GGML = r"(?i)ggml|llama|gguf|whisper"


@sign
def compute_buffer_refused(crash: Crash) -> Seen | None:
    """What the largest batch needs, which is reserved at the start, or the pool for conversions, which grows later."""
    root = crash.root
    if not isinstance(root, BufferRefused | Short) or root.what not in ("compute", "pool"):
        return None
    if root.what == "pool":
        refused = say(
            "More memory for the pool of intermediate results was refused, beside weights and KV "
            "cache that had found room."
        )
    elif root.tried_bytes:
        refused = say(
            "The compute buffer of {tried} was refused, beside weights and KV cache that had found room.",
            tried=show(root.tried_bytes),
        )
    else:
        refused = say("The compute buffer was refused, beside weights and KV cache that had found room.")
    grows = say("It grows with the batch of tokens (-ub) and, without flash attention, with the context.")
    return Seen(words=joined((refused, grows)), evidence=(root,))


@sign
def context_fills_the_host(crash: Crash) -> Seen | None:
    """llama.cpp was refused its compute buffer on the host, beside a KV cache half as large at least for a long
    context: both grow with it."""
    root = crash.root
    if not isinstance(root, BufferRefused) or root.what not in ("compute", "kv") or root.pool != "host_ram":
        return None
    context = max((plan.context_len or 0 for plan in crash.every(LoadPlan)), default=0)
    cache = sum(one.held_bytes or 0 for one in crash.every(Buffer) if one.what == "kv" and one.pool == "host_ram")
    tried = _tried(root) or 0
    if context < LONG or not tried or (root.what == "compute" and cache < BESIDE * tried):
        return None
    if root.what == "kv":
        words = say("The KV cache for {tokens} tokens needs {tried} of host memory.", tokens=context, tried=show(tried))
    else:
        words = say(
            "The KV cache for {tokens} tokens holds {cache} of host memory, and the compute buffer of {tried} for the "
            "same context was refused.",
            tokens=context,
            cache=show(cache),
            tried=show(tried),
        )
    return Seen(words=words, evidence=(root,))


@sign
def weights_larger_than_what_was_free(crash: Crash) -> Seen | None:
    """The buffer of the weights is larger than what the loader found free on its card."""
    root = crash.root
    if not isinstance(root, BufferRefused) or root.what != "weights":
        return None
    tried, free = _tried(root), _free_bytes(crash)
    return _weights(crash, root) if tried is not None and free is not None and tried > free else None


@sign
def weights_larger_than_the_loaders_table(crash: Crash) -> Seen | None:
    """The table that the loader makes before it loads: beside what is free there is no room for the weights."""
    plans = (plan for plan in crash.every(LoadPlan) if plan.pool == "gpu" and plan.total_bytes and plan.needed_bytes)
    for plan in plans:
        free, weights = plan.free_bytes or 0, plan.weights_bytes or 0
        # after the load what it holds is no longer free
        if free + (plan.needed_bytes or 0) > (plan.total_bytes or 0) and weights > free:
            words = say(
                "The loader puts {weights} of weights on {device}, which has {free} free of {total}.",
                weights=show(weights),
                device=plan.device or say("the card"),
                free=show(free),
                total=show(plan.total_bytes or 0),
            )
            return Seen(words=words, evidence=(plan, crash.root))
    return None


@sign
def weights_refused(crash: Crash) -> Seen | None:
    """The buffer of the weights was refused."""
    root = crash.root
    return _weights(crash, root) if isinstance(root, BufferRefused) and root.what == "weights" else None


def _weights(crash: Crash, root: BufferRefused) -> Seen:
    tried, free = _tried(root), _free_bytes(crash)
    if tried and free is not None:
        refused = say(
            "The model's weights are put into a buffer of {tried}, which the card refused, with "
            "{free} free when it started.",
            tried=show(tried),
            free=show(free),
        )
    elif tried:
        refused = say(
            "The model's weights are put into a buffer of {tried}, which the card refused.", tried=show(tried)
        )
    elif free is not None:
        refused = say(
            "The model's weights are put into a buffer, which the card refused, with {free} free when it started.",
            free=show(free),
        )
    else:
        refused = say("The model's weights are put into a buffer, which the card refused.")
    return Seen(words=joined((refused, _planned(crash, tried))), evidence=(root,))


@sign
def some_buffer_refused(crash: Crash) -> Seen | None:
    """A buffer was refused, and nothing says what it is for."""
    root = crash.root
    if not isinstance(root, BufferRefused) or root.what is not None:
        return None
    of_another = METALS_COMMAND in root.at.text and crash.mentions(OF_GGML) is None
    return None if of_another else _buffer(crash, root)


@sign
def buffer_beside_the_weights_refused(crash: Crash) -> Seen | None:
    """A buffer was refused that is not the weights': the KV cache's, or the compute buffer."""
    root = crash.root
    if not isinstance(root, BufferRefused) or root.what in (None, "weights"):
        return None
    return _buffer(crash, root, against=(say("the weights themselves were not what was refused"),))


def _buffer(crash: Crash, root: BufferRefused, against: tuple[str, ...] = ()) -> Seen:
    tried, free = _tried(root), _free_bytes(crash)
    if tried and free is not None:
        words = say(
            "A buffer of {tried} was refused, with {free} free when it started: the model and "
            "what it needs beside the weights do not fit.",
            tried=show(tried),
            free=show(free),
        )
    elif tried:
        words = say(
            "A buffer of {tried} was refused: the model and what it needs beside the weights do not fit.",
            tried=show(tried),
        )
    else:
        words = say("A buffer was refused: the model and what it needs beside the weights do not fit.")
    return Seen(words=words, evidence=(root,), against=against)


@sign
def model_refused_by_ollama(crash: Crash) -> Seen | None:
    """Ollama or its runner found no room for the model, and not just for the KV cache or for computing."""
    root = crash.root
    if not isinstance(root, Short) or root.what in ("kv", "compute"):
        return None
    if root.said == "layout":
        words = say("The layers that were asked for do not fit on the cards, in whatever order they are laid out.")
        return Seen(words=words, evidence=(root,))
    refused = (
        say("The runner's allocation of {tried} for the model was refused.", tried=show(root.tried_bytes))
        if root.tried_bytes
        else say("The runner's allocation for the model was refused.")
    )
    return Seen(words=joined((refused, _planned(crash, root.tried_bytes))), evidence=(root,))


def _tried(root: BufferRefused) -> int | None:
    return root.tried_bytes or root.buffer_bytes


def _free_bytes(crash: Crash) -> int | None:
    """What the loader found free on this card."""
    gpu = crash.root.process.gpu
    plans = (plan for plan in crash.every(LoadPlan) if plan.pool == "gpu" and plan.process.gpu == gpu is not None)
    return next((plan.free_bytes for plan in plans if plan.free_bytes is not None), None)


def _planned(crash: Crash, tried: int | None) -> str:
    """Ollama reckons before it starts the runner; the runner may need more than that."""
    plan = crash.first(OffloadPlan)
    if plan is None or plan.offloaded_layers is None or plan.layers is None:
        return ""
    planned, layers = plan.offloaded_layers, plan.layers
    if plan.partial_bytes is None or tried is None or tried <= plan.partial_bytes:
        return say("Ollama had planned {planned} of {layers} layers for the card.", planned=planned, layers=layers)
    return say(
        "Ollama had planned {planned} of {layers} layers for the card and reckoned with "
        "{estimate}: its estimate is too low for this model.",
        planned=planned,
        layers=layers,
        estimate=show(plan.partial_bytes),
    )
