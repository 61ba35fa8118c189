"""Buffers that llama.cpp and Ollama could not get: ggml puts what it keeps on a device into few large ones."""

from __future__ import annotations

import re
from typing import Final, TypeGuard

from oomdoctor.families.event import Event
from oomdoctor.families.llama_cpp import CONTEXT, METALS_COMMAND, PLAN, Buffer, BufferRefused, LoadPlan
from oomdoctor.families.ollama import MemoryThere, OffloadPlan, Short
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import some
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.address_space import SMALL
from oomdoctor.signs.commands import LIMIT_OR_FULL
from oomdoctor.units import show

_LITTLE: Final = 0.1  # of the weights
LONG: Final = 16_384  # tokens of context: a batch of them needs more than a batch of 512 by itself
BESIDE: Final = 0.5
OF_AN_EMPTY_CARD: Final = 0.95  # the driver and the loader's own context keep the rest
_BESIDE_OTHERS: Final = ("offload-parameters", "free-the-gpu", "quantize-weights", "smaller-model", "shorter-context")
SCORES: Final = 4  # times the KV cache
_COPIES_KNOBS: Final = ("smaller-buffers", "memory-efficient-attention", "smaller-prefill", "shorter-context")
_COPIES: Final = r"pipeline parallelism enabled \(n_copies=([2-9]|\d{2})\)"
# tools/mtmd/clip.cpp, `warmup`: "warmup: warmup with image size = 1024 x 1024", and what follows once it is done
_WARMS_UP: Final = late(r"\bwarmup with image size = (\d{1,6} x \d{1,6})")
_WARMED_UP: Final = late(
    r"compute buffer size =|\bwarmup: flash attention is|\bloaded multimodal model\b|\bllama_context: "
)


@sign
def scores_fill_the_compute_buffer(crash: Crash) -> Seen | None:
    """The compute buffer that failed is four times the KV cache or more: without flash attention it holds the attention
    scores, which half of the batch halves at best."""
    root, cache = crash.root, sum(one.held_bytes or 0 for one in _held(crash, "kv"))
    if not isinstance(root, BufferRefused) or root.what != "compute" or not cache:
        return None
    return compute_buffer_refused(crash) if (root.tried_bytes or 0) >= SCORES * cache else None


@sign
def several_copies_in_a_fork(crash: Crash) -> Seen | None:
    """ik_llama.cpp reserved its compute buffer for several copies of the inputs. It builds with one since 2025-09-02
    (ikawrakow/ik_llama.cpp#751), because of such buffers."""
    refused, copies = compute_buffer_refused(crash), copies_of_inputs(crash)
    if refused is None or copies is None or not some(crash.context.frameworks, "grows with its copies"):
        return None
    words = say("This build keeps {copies} copies of the inputs for pipeline parallelism.", copies=copies)
    return Seen(words=joined((refused.words, words)), evidence=refused.evidence, knobs=_COPIES_KNOBS)


def copies_of_inputs(crash: Crash) -> int | None:
    """How many of each the scheduler keeps, where they are several."""
    line = crash.mentions(_COPIES)
    told = re.search(_COPIES, line) if line is not None else None
    return int(told[1]) if told is not None else None


@sign
def compute_buffer_refused(crash: Crash) -> Seen | None:
    """The failed buffer is the compute buffer for the largest batch, reserved at startup, or the pool for conversions,
    which grows later."""
    root = crash.root
    if not isinstance(root, BufferRefused | Short) or root.what not in ("compute", "pool"):
        return None
    if small_piece_of_the_host_refused(crash) is not None:
        return None
    if root.what == "pool":
        refused = say("Weights and KV cache fit, but the pool of intermediate results could not grow.")
    elif root.tried_bytes:
        refused = say(
            "Weights and KV cache fit, but the compute buffer of {tried} could not be allocated.",
            tried=show(root.tried_bytes),
        )
    else:
        refused = say("Weights and KV cache fit, but the compute buffer could not be allocated.")
    grows = say("It grows with the batch of tokens (-ub) and, without flash attention, with the context length.")
    return Seen(words=joined((refused, grows)), evidence=(root,))


@sign
def vision_encoder_warming_up(crash: Crash) -> Seen | None:
    """llama.cpp was refused the compute buffer of its vision encoder, which it warms up with one image."""
    root, size = crash.root, size_of_the_warm_up(crash)
    if size is None:
        return None
    words = say(
        "llama.cpp warms its vision encoder up with an image of {size}, and the encoder's compute buffer found no room "
        "beside the model.",
        size=size,
    )
    return Seen(words=words, evidence=(root,), stage="memory_profiling")


def size_of_the_warm_up(crash: Crash) -> str | None:
    """The image with which the encoder was being warmed up when its buffer was refused, "1024 x 1024"."""
    root = crash.root
    if not isinstance(root, BufferRefused) or root.what != "compute":
        return None
    for line in reversed(root.around.before):
        if (match := _WARMS_UP.search(line)) is not None:
            return match[1]
        if _WARMED_UP.search(line) is not None:
            return None
    return None


@sign
def compute_buffer_of_some_size_refused(crash: Crash) -> Seen | None:
    """The failed buffer is the compute buffer or the pool, and the message prints how large it is."""
    root = crash.root
    if little_was_refused_beside_the_weights(crash) is not None:
        return None
    sized = root.tried_bytes if isinstance(root, Short) else isinstance(root, BufferRefused) and _tried(root)
    return compute_buffer_refused(crash) if sized else None


@sign
def little_was_refused_beside_the_weights(crash: Crash) -> Seen | None:
    """The failed buffer of the GPU is less than a tenth of the weights that were put there before it."""
    root = crash.root
    tried = _tried(root) if isinstance(root, BufferRefused) and root.what == "compute" and root.pool == "gpu" else None
    weights = sum(one.held_bytes or 0 for one in _held(crash, "weights"))
    if tried is None or tried >= _LITTLE * weights:
        return None
    words = say(
        "The weights hold {weights} of the GPU; the compute buffer of {tried} was only the last that found no room.",
        weights=show(weights),
        tried=show(tried),
    )
    return Seen(words=words, evidence=(root,))


@sign
def small_piece_of_the_host_refused(crash: Crash) -> Seen | None:
    """ggml was refused less than 1 GiB of host memory: whatever the buffer is for, it does not fill a machine."""
    root = crash.root
    tried = _tried(root) if isinstance(root, BufferRefused) and root.pool == "host_ram" else None
    if tried is None or tried >= SMALL:
        return None
    words = say(
        "A buffer of only {tried} of host memory could not be allocated: this buffer does not fill the RAM. The RAM "
        "was full already, or a limit was hit (ulimit -v, vm.overcommit_memory=2, on Windows the commit limit).",
        tried=show(tried),
    )
    against = (say("the log does not show how much RAM was in use"),)
    return Seen(words=words, evidence=(root,), against=against, next_evidence=(LIMIT_OR_FULL,))


@sign
def planned_cache_exceeds_all_that_is_free(crash: Crash) -> Seen | None:
    """Ollama's runner could not create the model's context, and the KV cache of the plan is larger than what the GPUs
    and the RAM have free together."""
    root, plan = crash.root, next(reversed(crash.every(OffloadPlan)), None)
    if not isinstance(root, Short) or root.said != "context" or plan is None or plan.kv_bytes is None:
        return None
    free = [there.free_bytes for there in crash.every(MemoryThere) if there.pool == "host_ram" and there.free_bytes]
    cards = sum(plan.available_bytes)
    if not free or plan.kv_bytes <= cards + free[-1]:
        return None
    words = say(
        "The runner could not create the context of the model. Its KV cache needs {cache}; {cards} of GPU memory and "
        "{ram} of RAM were free.",
        cache=show(plan.kv_bytes),
        cards=show(cards),
        ram=show(free[-1]),
    )
    pool = None if plan.offloaded_layers else "host_ram"
    return Seen(words=words, evidence=(root, plan), shows_memory=True, pool=pool)


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
    """The buffer of the weights is larger than the free memory that the loader found on its GPU."""
    root = crash.root
    if not isinstance(root, BufferRefused) or root.what != "weights":
        return None
    tried, free = _tried(root), _free_bytes(crash)
    return _weights(crash, root) if tried is not None and free is not None and tried > free else None


@sign
def plan_larger_than_what_is_free(crash: Crash) -> Seen | None:
    """The loader's own plan needs more of a GPU than was free, and the loader was not allowed to change it."""
    root = crash.root
    if not isinstance(root, BufferRefused) or root.what != PLAN:
        return None
    words = say(
        "The loader planned {planned} on {device}, where {free} was free, and kept the plan because the number of "
        "layers was set by hand.",
        planned=show(root.tried_bytes or 0),
        device=root.device or say("the GPU"),
        free=show(root.free_bytes or 0),
    )
    knobs = _BESIDE_OTHERS if _fits_an_empty_card(crash, root) else ()
    return Seen(words=words, evidence=(root,), knobs=knobs)


def _fits_an_empty_card(crash: Crash, root: BufferRefused) -> bool:
    """Whether what others had taken before is all that is in the plan's way."""
    plans = [one for one in crash.every(LoadPlan) if one.device == root.device and one.total_bytes]
    tried = root.tried_bytes or 0
    return bool(plans) and all(tried <= OF_AN_EMPTY_CARD * (one.total_bytes or 0) for one in plans)


@sign
def weights_larger_than_the_loaders_table(crash: Crash) -> Seen | None:
    """The loader's table before loading shows less free memory than the weights need."""
    plans = (plan for plan in crash.every(LoadPlan) if plan.pool == "gpu" and plan.total_bytes and plan.needed_bytes)
    for plan in plans:
        free, weights = plan.free_bytes or 0, plan.weights_bytes or 0
        # after the load what it holds is no longer free
        if free + (plan.needed_bytes or 0) > (plan.total_bytes or 0) and weights > free:
            words = say(
                "The loader puts {weights} of weights on {device}, which has {free} of {total} free.",
                weights=show(weights),
                device=plan.device or say("the GPU"),
                free=show(free),
                total=show(plan.total_bytes or 0),
            )
            return Seen(words=words, evidence=(plan, crash.root))
    return None


@sign
def weights_refused(crash: Crash) -> Seen | None:
    """The buffer of the weights could not be allocated."""
    root = crash.root
    return _weights(crash, root) if isinstance(root, BufferRefused) and root.what == "weights" else None


def _weights(crash: Crash, root: BufferRefused) -> Seen:
    tried, free = _tried(root), _free_bytes(crash)
    if tried and free is not None:
        refused = say(
            "The buffer for the model's weights ({tried}) could not be allocated on the GPU; {free} was free "
            "at startup.",
            tried=show(tried),
            free=show(free),
        )
    elif tried:
        refused = say(
            "The buffer for the model's weights ({tried}) could not be allocated on the GPU.", tried=show(tried)
        )
    elif free is not None:
        refused = say(
            "The buffer for the model's weights could not be allocated on the GPU; {free} was free at startup.",
            free=show(free),
        )
    else:
        refused = say("The buffer for the model's weights could not be allocated on the GPU.")
    return Seen(words=joined((refused, _planned(crash, tried))), evidence=(root,))


@sign
def some_buffer_refused(crash: Crash) -> Seen | None:
    """A buffer could not be allocated, and nothing says its purpose."""
    root = crash.root
    if _is_for_the_model(root) and _without_figures(crash, root):
        return _of_the_runner(crash, root)
    if not isinstance(root, BufferRefused) or root.what is not None:
        return None
    return _buffer(crash, root)


@sign
def command_beside_a_cache(crash: Crash) -> Seen | None:
    """A computation on Metal ran out of memory after the KV cache and the compute buffers were allocated."""
    root = crash.root
    return _buffer(crash, root) if computed_after(crash) and isinstance(root, BufferRefused) else None


@sign
def buffer_beside_the_weights_refused(crash: Crash) -> Seen | None:
    """The failed buffer is not for the weights: it is the KV cache or the compute buffer."""
    root = crash.root
    if not isinstance(root, BufferRefused) or root.what in (None, "weights", CONTEXT, PLAN):
        return None
    return _buffer(crash, root, against=(say("the failed allocation was not for the weights"),))


def computed_after(crash: Crash) -> int | None:
    """The KV cache that was there before Metal ran out of memory in a computation."""
    root = crash.root
    if not isinstance(root, BufferRefused) or root.what is not None or METALS_COMMAND not in root.at.text:
        return None
    return sum(one.held_bytes or 0 for one in _held(crash, "kv")) or None


def _held(crash: Crash, what: str) -> list[Buffer]:
    """The buffers of this kind before the failure: each once, though lines tell of it twice."""
    root = crash.root.at
    told = [one for one in crash.every(Buffer) if one.what == what and one.pool == "gpu" and one.at.file == root.file]
    return [one for one in told if one.device is not None] or told[:1]


def _buffer(crash: Crash, root: BufferRefused, against: tuple[str, ...] = ()) -> Seen:
    cache = computed_after(crash)
    if cache is not None:
        words = say(
            "A computation on Metal ran out of memory after the KV cache ({cache}) and the compute buffers had been "
            "allocated: weights and buffers together are too large for the GPU.",
            cache=show(cache),
        )
        return Seen(words=words, evidence=(root,), against=against)
    tried, free = _tried(root), _free_bytes(crash)
    if tried and free is not None:
        words = say(
            "A buffer of {tried} could not be allocated; {free} was free at startup. The model and its other "
            "buffers do not fit.",
            tried=show(tried),
            free=show(free),
        )
    elif tried:
        words = say(
            "A buffer of {tried} could not be allocated. The model and its other buffers do not fit.",
            tried=show(tried),
        )
    else:
        words = say("A buffer could not be allocated. The model and its other buffers do not fit.")
    return Seen(words=words, evidence=(root,), against=against)


@sign
def a_program_of_ggml(crash: Crash) -> Seen | None:
    """llama.cpp, Ollama or another program of ggml computes: what it puts on the GPU is set when it loads."""
    return Seen(words="") if crash.job.world == "ggml" else None


@sign
def model_refused_by_ollama(crash: Crash) -> Seen | None:
    """Ollama or its runner had no room for the model, not just for the KV cache or the compute buffer: figures say how
    much was asked for or planned, or no layout of the layers fits."""
    root = crash.root
    if not _is_for_the_model(root) or _without_figures(crash, root):
        return None
    if root.said == "layout":
        words = say("The requested layers do not fit on the GPUs in any layout.")
        return Seen(words=words, evidence=(root,))
    return _of_the_runner(crash, root)


def _is_for_the_model(root: Event) -> TypeGuard[Short]:
    return isinstance(root, Short) and root.what not in ("kv", "compute", CONTEXT) and root.stage != "serving"


def _without_figures(crash: Crash, root: Short) -> bool:
    """Whether nothing but the runner's last words stand there: they may be about any buffer."""
    sized = root.tried_bytes or root.needed_bytes or crash.first(OffloadPlan) is not None
    return root.said in ("runner", "context") and not sized


def _of_the_runner(crash: Crash, root: Short) -> Seen:
    refused = (
        say("The runner could not allocate {tried} for the model.", tried=show(root.tried_bytes))
        if root.tried_bytes
        else say("The runner could not allocate memory for the model.")
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
        return say("Ollama had planned {planned} of {layers} layers for the GPU.", planned=planned, layers=layers)
    return say(
        "Ollama had planned {planned} of {layers} layers for the GPU and estimated {estimate}. This estimate "
        "is too low for this model.",
        planned=planned,
        layers=layers,
        estimate=show(plan.partial_bytes),
    )
