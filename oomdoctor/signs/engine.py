"""An inference engine's share of the card: what it is a share of, what it meets, and what was refused beside it."""

from __future__ import annotations

import math
from typing import Final

from oomdoctor.arithmetic import shares
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.sglang import UnbalancedCards
from oomdoctor.families.tensorrt_llm import CreationFailed, EngineFigures
from oomdoctor.families.tgi import WarmupShort
from oomdoctor.families.vllm_error import NotEnoughFree
from oomdoctor.families.vllm_figures import KvCacheSize, Sleep
from oomdoctor.incident.card import Card, card_of
from oomdoctor.incident.engine_facts import (
    EngineFacts,
    facts,
    loading,
    phase,
    ready_bytes,
    share_of_the_rest,
    static_fraction,
    takes_its_pool,
)
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import among, engines, outside_pytorch, trainers
from oomdoctor.language import joined, mark, say, translated
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.library import SUSPICIOUS, VERY, buffers_between_cards_were_refused
from oomdoctor.signs.logits import in_a_sampler
from oomdoctor.signs.trace import beyond_share, card
from oomdoctor.units import GIB, show

# What a desktop, a driver or a forgotten notebook takes: a share that ignores it is simply too large.
SMALL_NEIGHBOUR: Final = 2 * GIB
NEIGHBOUR: Final = 0.15  # of the card: a share can be made to fit beside so much
LARGE_NEIGHBOUR: Final = 0.25  # of the card: from here on it is the neighbour that has to go
NO_SHARE: Final = 0.05  # of the card: no engine starts in so little
FULL: Final = 0.85  # of the card in the asking process: nothing but a reservation fills it like this
MOST: Final = 0.75  # of the card in the engine's process, while it takes its share: the share fills it
SMALL_PART: Final = 0.2  # of what the weights leave free, to which docs/en/faq.md of LMDeploy comes down
SAME: Final = 0.1  # of the share: a neighbour that holds as much is the engine

_DOING: Final = {
    "allocating": mark("while the engine allocated its KV cache"),
    "waking": mark("while the engine woke up and took its memory back"),
    "serving": mark("while the engine served requests, beyond its share"),
    "capturing": mark("while the engine captured CUDA graphs, beyond its share"),
    "warming": mark("in the sampler's warm-up, after the engine had taken its share"),
    "syncing": mark("while the engine received new weights"),
}
# Where the share is no share of the card.
_MEANINGS: Final = {
    "lmdeploy": mark(
        "LMDeploy gives its KV cache a share (cache_max_entry_count) of the memory that is free "
        "after the weights are loaded."
    ),
    "tensorrt-llm": mark(
        "TensorRT-LLM gives its KV cache a share (free_gpu_memory_fraction) of the memory that is free after "
        "the engine is loaded."
    ),
    "text-generation-inference": mark(
        "TGI limits the whole process to a share of GPU memory (cuda-memory-fraction) and fills the rest "
        "after the warm-up with KV cache."
    ),
}
_ENGINE: Final = "engine"  # a role
_OF_A_RUNTIME: Final = "tensorrt-llm"
_MEMORY_SAVER: Final = "[torch_memory_saver.cpp]"
TAKING: Final = ("allocating", "waking")
_SECOND: Final = 2  # step: some print its number where it begins
# What OpenRLHF's bar, verl's console logger and TRL's dict of metrics print behind an update: "act_loss=0.04",
# "actor/pg_loss:0.01", "'loss': 0.3"
_TRAINED: Final = r"(?i)(?<![a-z])(?:[a-z]{1,20}[_/]){0,3}loss['\"]?\s?[:=]\s?-?\d"
_STARTING: Final = ("model_load", "engine_init", "launch", "unknown")


@sign
def beside_a_trainer(crash: Crash) -> Seen | None:
    """A trainer runs in the same job: settings for the engine's requests do not help the trainer."""
    return Seen(words="") if crash.context.frameworks.keys() & trainers() else None


@sign
def waking_up(crash: Crash) -> Seen | None:
    """The engine was waking up and taking its memory back."""
    return Seen(words="") if phase(crash) == "waking" else None


@sign
def woke_up_behind_a_training(crash: Crash) -> Seen | None:
    """The engine was waking up, and the log shows losses of a training before, or counts its second step."""
    trained = crash.mentions(_TRAINED) is not None or crash.context.progress.get("step", 0) >= _SECOND
    return Seen(words="") if waking_up(crash) is not None and trained else None


@sign
def its_pool_was_refused(crash: Crash) -> Seen | None:
    """The allocator that refused holds what sleeps, weights and KV cache, however much is computed at once:
    vllm/device_allocator/cumem.py, torch_memory_saver."""
    root = crash.root
    return Seen(words="") if isinstance(root, DeviceRefusal) and root.layer == "cumem" else None


@sign
def still_loading(crash: Crash) -> Seen | None:
    """The engine was loading its weights."""
    if _step(crash) != "loading":
        return None
    return Seen(words=say("the engine was still loading its weights; it takes its share only afterwards"))


@sign
def still_measuring(crash: Crash) -> Seen | None:
    """The engine was in its profiling run, or TGI in its warm-up."""
    if crash.first(WarmupShort) is not None:
        words = say("the engine was still warming up; it allocates its KV cache only afterwards")
    elif _step(crash) == "profiling":
        words = say("the engine was still in its profiling run; it takes its share only afterwards")
    else:
        return None
    return Seen(words=words)


@sign
def still_laying_out(crash: Crash) -> Seen | None:
    """An allocation of TensorRT itself failed, or of a part of TensorRT-LLM's engine other than its cache."""
    root = crash.root
    if (failed := crash.first(CreationFailed)) is not None and failed.stage != "kv_cache_init":
        component = failed.component or say("another part of the engine")
        return Seen(
            words=say("the failed allocation was not for the KV cache but for {component}", component=component)
        )
    if isinstance(root, LibraryOutOfMemory) and root.library == "TensorRT":
        return Seen(words=say("TensorRT was still setting up the engine; it allocates the KV cache only afterwards"))
    return None


@sign
def cache_is_a_small_part(crash: Crash) -> Seen | None:
    """The engine had its weights on the GPU, and its cache is a small part of what they leave free."""
    part = _small_part(crash)
    if part is None:
        return None
    return Seen(words=say("the KV cache takes only {share:g} of what the weights leave free", share=part))


@sign
def no_room_beside_the_weights(crash: Crash) -> Seen | None:
    """Such an engine found no room while it was set up: neither did the rest do for its buffers."""
    part = _small_part(crash)
    if part is None:
        return None
    words = say(
        "The engine was set up, with its weights on the GPU. Its KV cache takes only {share:g} of what they leave "
        "free, and the rest was too little for its buffers, which grow with the batch size and the context length.",
        share=part,
    )
    doubt = say("the log does not say how much the weights left free")
    return Seen(words=words, evidence=(crash.root,), against=(doubt,))


def _small_part(crash: Crash) -> float | None:
    part = share_of_the_rest(crash)
    if part is None or part > SMALL_PART or crash.stage != "engine_init":
        return None
    return part if isinstance(crash.root, DeviceRefusal) and crash.pool == "gpu" else None


@sign
def share_beside_a_small_neighbour(crash: Crash) -> Seen | None:
    """vLLM's share does not fit, and others hold less than 2 GiB."""
    start = _start(crash)
    return _more_than_is_free(start) if start is not None and _others(start) < SMALL_NEIGHBOUR else None


@sign
def share_beside_a_neighbour(crash: Crash) -> Seen | None:
    """vLLM's share does not fit, and others hold less than 15 % of the GPU."""
    start = _start(crash)
    return _more_than_is_free(start) if start and _others(start) < NEIGHBOUR * (start.total_bytes or 0) else None


@sign
def share_larger_than_what_is_free(crash: Crash) -> Seen | None:
    """vLLM's share does not fit, however much others hold."""
    start = _start(crash)
    return _more_than_is_free(start) if start is not None else None


@sign
def no_share_helps(crash: Crash) -> Seen | None:
    """At startup, the free memory is 5 % of the GPU or less, or too small for the weights."""
    start = _start(crash)
    if start is None:
        return None
    free, total, weights = start.free_bytes or 0, start.total_bytes or 0, facts(crash).weights_bytes
    fits = shares.largest(free, total)
    if fits > NO_SHARE and (weights is None or fits * total >= weights):
        return None
    words = (
        mark("the free {free} is too little for most models; {others} is already in use")
        if weights is None
        else mark("no share helps: the model does not fit into the free {free}; {others} is already in use")
    )
    return Seen(words=translated(words).format(free=show(free), others=show(_others(start))))


@sign
def cache_of_what_is_free_was_refused(crash: Crash) -> Seen | None:
    """TensorRT-LLM takes a fraction of the memory that is free after loading the model, and its KV cache did not
    fit."""
    failed = crash.first(CreationFailed)
    if failed is None or failed.stage != "kv_cache_init":
        return None
    fractions = [event.fraction for event in crash.every(EngineFigures) if event.fraction is not None]
    fraction = f"{fractions[-1]:g}" if fractions else say("a fraction")
    words = (
        say(
            "The engine allocates {fraction} of the memory that is free after loading the model ({free}) as "
            "KV cache, and this allocation failed. The measured free memory leaves out buffers that come with"
            " the cache.",
            fraction=fraction,
            free=show(failed.free_bytes),
        )
        if failed.free_bytes is not None
        else say(
            "The engine allocates {fraction} of the memory that is free after loading the model as KV cache, "
            "and this allocation failed. The measured free memory leaves out buffers that come with the "
            "cache.",
            fraction=fraction,
        )
    )
    return Seen(words=words, evidence=(failed,))


@sign
def share_fills_the_card(crash: Crash) -> Seen | None:
    """The engine was taking the memory of its share and holds at least 75 % of the GPU itself."""
    return _beside_its_share(crash) if _is_filling(crash) else None


@sign
def refused_while_taking_its_share(crash: Crash) -> Seen | None:
    """The engine was allocating its KV cache, or was waking up and taking its memory back."""
    return _beside_its_share(crash) if _step(crash) in TAKING else None


@sign
def memory_saver_of_nobody_named(crash: Crash) -> Seen | None:
    """torch_memory_saver was refused at wake-up, which SGLang sleeps with and trainers too (slime's actor, AReaL's
    enable_offload); no engine is in the log."""
    root = crash.root
    if not isinstance(root, DeviceRefusal) or _MEMORY_SAVER not in root.at.text or phase(crash) != "waking":
        return None
    if root.process.role is not None or any(name in engines() for name in crash.context.frameworks):
        return None
    return Seen(words=say("trainers use torch_memory_saver too, and the log does not name its process"))


@sign
def refused_while_serving(crash: Crash) -> Seen | None:
    """The engine was serving requests outside its share."""
    return _beside_its_share(crash) if _step(crash) == "serving" else None


@sign
def refused_while_preparing(crash: Crash) -> Seen | None:
    """The engine was capturing CUDA graphs or warming up its sampler, outside its share."""
    return _beside_its_share(crash) if _step(crash) in ("capturing", "warming") else None


@sign
def refused_behind_its_cache(crash: Crash) -> Seen | None:
    """An engine's allocation failed after it had printed the size of its KV cache: it had taken its share by then."""
    root = crash.root.at
    cache = next((e for e in crash.every(KvCacheSize) if e.at.file == root.file and e.at.line < root.line), None)
    return _beside_its_share(crash) if cache is not None and _step(crash) == "" else None


@sign
def refused_with_figures(crash: Crash) -> Seen | None:
    """An engine's allocation failed and nothing shows what the engine was doing; the message prints figures of the
    GPU, or comes from the allocator that holds the share."""
    figures = its_pool_was_refused(crash) is not None or _engines_card(crash) is not None
    return _beside_its_share(crash) if _step(crash) == "" and figures else None


@sign
def an_engine_outside_pytorch(crash: Crash) -> Seen | None:
    """An engine that allocates outside PyTorch runs in this process, which holds at least 3 GiB and a fifth of the GPU
    there."""
    engine = outside_pytorch(crash.context.frameworks)
    it = card(crash)
    outside = it.non_torch_bytes or 0
    if engine is None or outside < SUSPICIOUS or (it.share(outside) or 0) < VERY:
        return None
    words = say(
        "{outside} of this process is outside PyTorch: {engine} allocates its weights and its KV cache itself, and "
        "left too little for what PyTorch computes beside it.",
        outside=show(outside),
        engine=engine.title,
    )
    return Seen(words=words, evidence=(crash.root,))


@sign
def refused_in_an_engine(crash: Crash) -> Seen | None:
    """An engine's allocation failed, and nothing shows that its share left too little room."""
    if buffers_between_cards_were_refused(crash) is not None or _is_the_drivers_alone(crash):
        return None
    return _beside_its_share(crash) if _step(crash) is not None else None


def _is_the_drivers_alone(crash: Crash) -> bool:
    """Whether a call of TensorRT-LLM's runtime is all there is: no launch, no cache, nor what it was doing. It lays out
    the plan's weights and its buffers by the same call (runtime/tllmBuffers.h), before any cache."""
    if _OF_A_RUNTIME not in crash.context.frameworks or crash.context.settings:
        return False
    if not isinstance(crash.root, DeviceRefusal) or not _tells_nothing(crash):
        return False
    caches = any(one.kv_bytes or one.fraction for one in crash.every(EngineFigures))
    return not caches and not crash.root.around.trace


@sign
def the_engine_holds_too_little(crash: Crash) -> Seen | None:
    """The process of a serving engine holds less than 85 % of the GPU."""
    it = _engines_card(crash)
    if it is None or _step(crash) not in ("", "serving"):
        return None
    held, total = it.own_bytes or it.allocated_bytes, it.total_bytes or 0
    if held is None or held >= FULL * total:
        return None
    return Seen(words=say("the engine's process holds {held} of {total}", held=show(held), total=show(total)))


@sign
def tensors_beyond_a_share(crash: Crash) -> Seen | None:
    """PyTorch tensors of the engine alone take more of the GPU than its share and the usual memory beside it."""
    it = _engines_card(crash)
    if it is None or _is_filling(crash):
        return None
    allocated, total = it.allocated_bytes or 0, it.total_bytes or 0
    if allocated <= beyond_share(facts(crash).share) * total:
        return None
    words = say(
        "tensors of this process alone take {allocated}, more than the engine's share allows",
        allocated=show(allocated),
    )
    return Seen(words=words)


@sign
def others_beside_the_engine(crash: Crash) -> Seen | None:
    """An engine's allocation failed, and others hold more than 25 % of the GPU."""
    it = _engines_card(crash)
    others = (it.others_bytes or 0) + (it.unaccounted_bytes or 0) if it is not None else 0
    if it is None or _is_filling(crash) or others <= LARGE_NEIGHBOUR * (it.total_bytes or 0):
        return None
    return Seen(words=say("others hold {others} of GPU memory", others=show(others)))


@sign
def a_neighbour_holds_the_share(crash: Crash) -> Seen | None:
    """A trainer's allocation failed, and another process on the GPU holds the engine's share, within 10 %."""
    it, reserved = _trainers_card(crash), facts(crash).reserved_bytes
    neighbour = max((other.bytes or 0 for other in it.others), default=0) if it is not None else 0
    if reserved is None or not neighbour or abs(neighbour - reserved) >= SAME * reserved:
        return None
    held = say(
        "another process on the GPU holds {neighbour}, the size of the engine's share", neighbour=show(neighbour)
    )
    return _on_one_card(crash, held)


@sign
def a_trainer_starts_beside_the_share(crash: Crash) -> Seen | None:
    """The engine shares its GPU with a trainer that is starting, and the trainer's memory does not fit beside the
    share."""
    need = _need_beside_the_share(crash)
    if need is None or crash.stage not in _STARTING or crash.every(Sleep):
        return None
    return _on_one_card(crash, say("the trainer on the same GPU holds or requests {wanted}", wanted=show(need)))


@sign
def a_trainer_beside_the_share(crash: Crash) -> Seen | None:
    """The engine shares its GPU with a trainer, and the trainer's memory does not fit beside the share of an engine
    that is awake."""
    need = _need_beside_the_share(crash)
    if need is None:
        return None
    held = say(
        "the trainer on the same GPU holds or requests {wanted}, and the engine may be asleep by then",
        wanted=show(need),
    )
    return _on_one_card(crash, held)


@sign
def graphs_on_a_full_card(crash: Crash) -> Seen | None:
    """PyTorch reports memory in private pools of CUDA graphs, which engines capture after taking their share. The
    process holds 85 % of the GPU, and neither a traceback nor a trainer contradicts an engine."""
    root = crash.root
    if not isinstance(root, DeviceOutOfMemory) or not root.private_pools_bytes or root.around.trace:
        return None
    if (card_of(root).own_bytes or 0) < FULL * (root.total_bytes or math.inf) or beside_a_trainer(crash):
        return None
    if crash.job.in_reserving_engine or crash.job.runs_engine:
        return None
    words = say(
        "CUDA graphs hold {private_pools} in private pools. Inference engines capture them after the KV cache"
        " has taken its share of GPU memory and then request more on top.",
        private_pools=show(root.private_pools_bytes),
    )
    doubt = say("nothing else shows an inference engine; compiled training also captures CUDA graphs")
    return Seen(words=words, evidence=(root,), against=(doubt,))


def _start(crash: Crash) -> NotEnoughFree | None:
    """vLLM's refusal to start, of the rank with the least room, where it prints the card's figures."""
    tightest = min(crash.every(NotEnoughFree), key=lambda start: start.free_bytes or 0, default=None)
    if tightest is None or tightest.free_bytes is None or not tightest.total_bytes:
        return None
    return tightest if tightest.requested_bytes is not None else None


def _others(start: NotEnoughFree) -> int:
    return (start.total_bytes or 0) - (start.free_bytes or 0)


def _more_than_is_free(start: NotEnoughFree) -> Seen:
    free, total = start.free_bytes or 0, start.total_bytes or 0
    words = say(
        "The engine's share of {utilization} is {wanted} of {total}, but only {free} was free at startup. The"
        " largest share that fits is {share}.",
        utilization=start.utilization,
        wanted=show(start.requested_bytes or 0),
        total=show(total),
        free=show(free),
        share=f"{shares.largest(free, total):.2f}",
    )
    return Seen(words=words, evidence=(start,))


def _step(crash: Crash) -> str | None:
    """What the engine that was refused was doing; empty where nothing tells. None where no engine was refused, or it
    says itself what its share met."""
    if crash.first(NotEnoughFree) or crash.first(CreationFailed) or not crash.job.in_reserving_engine:
        return None
    if isinstance(crash.root, UnbalancedCards):
        return None  # nothing was taken yet
    return phase(crash) or ""


def _engines_card(crash: Crash) -> Card | None:
    """The card's figures in the refusal of an engine."""
    root = crash.root
    refused = isinstance(root, DeviceOutOfMemory) and root.total_bytes and _step(crash) is not None
    return card_of(root) if refused and isinstance(root, DeviceOutOfMemory) else None


def _is_filling(crash: Crash) -> bool:
    it = _engines_card(crash)
    held = it.own_bytes or it.allocated_bytes if it is not None else None
    if it is None or held is None or _step(crash) not in TAKING:
        return False
    return held > MOST * (it.total_bytes or held)


def _beside_its_share(crash: Crash) -> Seen:
    words = joined(
        (
            _fraction(crash) or _meaning(crash) or _share(facts(crash)),
            _request(crash.root, _when(crash)),
            _what_is_new(crash)
            or (say("A smaller batch size does not shrink the share.") if crash.job.may_share else ""),
        )
    )
    if not _tells_nothing(crash):
        return Seen(words=words, evidence=(crash.root,))
    return Seen(words=words, evidence=(crash.root,), against=(_doubt(crash),), unsure=True)


def _what_is_new(crash: Crash) -> str:
    if woke_up_behind_a_training(crash) is None:
        return ""
    return say("It had as much before it fell asleep: what the trainer has put on the GPU since then is in its way.")


def _doubt(crash: Crash) -> str:
    """What is not shown: of an engine's own request, or of one beside it."""
    process = crash.root.process
    if process.name is None or process.role in (None, _ENGINE):
        return say("the log does not show whether the weights, the cache or a request asked for it")
    return say("the log does not show what {process} asked for, nor how much the engine held", process=process.name)


def _tells_nothing(crash: Crash) -> bool:
    """One line without figures, and none beside it says what the engine was doing."""
    figures = isinstance(crash.root, DeviceOutOfMemory) and crash.root.tried_bytes is not None
    return not figures and crash.stage == "unknown" and phase(crash) is None


def _when(crash: Crash) -> str:
    step = phase(crash) or ""
    if step == "serving" and in_a_sampler(crash):
        return say("in the engine's sampler, beyond its share")  # warm-up runs go through it as well
    if takes_its_pool(crash):
        return say("in the pool of the engine's sleep mode: while it loaded, or while it woke up")
    return translated(_DOING.get(step, ""))


def _share(it: EngineFacts) -> str:
    reserved, total = it.reserved_bytes, it.total_bytes
    if it.share is None:
        return say("An inference engine fills its share of GPU memory with KV cache, whatever the requests need.")
    if reserved is None or total is None:
        return say("The engine takes {share:g} of GPU memory and fills it with KV cache.", share=it.share)
    return say(
        "The engine takes {share:g} of GPU memory ({reserved} of {total}) and fills it with KV cache; {rest} "
        "is left for everything else.",
        share=it.share,
        reserved=show(reserved),
        total=show(total),
        rest=show(total - reserved),
    )


def _meaning(crash: Crash) -> str | None:
    """What the share is one of, where it is not vLLM's."""
    return next((translated(words) for name, words in _MEANINGS.items() if name in crash.context.frameworks), None)


def _fraction(crash: Crash) -> str | None:
    """SGLang's share is one of what was free before it loaded its weights, and holds them."""
    fraction, loaded = static_fraction(crash), loading(crash)
    if fraction is None or loaded is None:
        return None
    left = ready_bytes(crash)
    rest = say("{left} was left when the engine was ready.", left=show(left)) if left is not None else ""
    taken = say(
        "The engine takes {fraction:g} of the {free} that was free before it loaded its weights, and fills it"
        " with KV cache.",
        fraction=fraction,
        free=show(loaded.free_before_bytes),
    )
    return joined((taken, rest))


def _request(root: object, when: str) -> str:
    """What it asked for, and when, as a clause of time that every language puts where it likes."""
    if not isinstance(root, DeviceOutOfMemory) or root.tried_bytes is None:
        return say("An allocation failed {when}.", when=when) if when else say("An allocation failed.")
    tried, free = show(root.tried_bytes), root.free_bytes
    if free is None:
        return (
            say("An allocation of {tried} failed {when}.", tried=tried, when=when)
            if when
            else say("An allocation of {tried} failed.", tried=tried)
        )
    if when and free >= root.tried_bytes:
        # c10/cuda/CUDACachingAllocator.cpp: `cudaMemGetInfo` is asked after the last attempt
        return say(
            "An allocation of {tried} failed {when}; {free} was free after it, and may be in smaller pieces or freed "
            "since.",
            tried=tried, free=show(free), when=when,
        )  # fmt: skip
    if when:
        return say("An allocation of {tried} failed {when}; {free} was free.", tried=tried, free=show(free), when=when)
    return say("An allocation of {tried} failed with {free} free.", tried=tried, free=show(free))


def _trainers_card(crash: Crash) -> Card | None:
    """The card's figures in the refusal of a program beside an engine."""
    root = crash.root
    if not isinstance(root, DeviceOutOfMemory) or not root.total_bytes:
        return None
    if crash.first(NotEnoughFree) or crash.job.in_reserving_engine or not crash.job.runs_engine:
        return None
    return card_of(root)


def _need_beside_the_share(crash: Crash) -> int | None:
    """What a program on the engine's card holds and asks for, where it does not fit beside the share."""
    it, reserved = _trainers_card(crash), facts(crash).reserved_bytes
    if it is None or reserved is None or not _shares_cards(crash):
        return None
    need = (it.own_bytes or it.allocated_bytes or 0) + (it.tried_bytes or 0)
    return need if need + reserved > (it.total_bytes or 0) else None


def _shares_cards(crash: Crash) -> bool:
    setting = crash.setting("colocate_all", "colocate_all_models", "colocate", "vllm_mode")
    if setting is not None:
        return setting.value in (True, "colocate")
    return any(each.engine == "shared cards" for each in among(crash.context.frameworks))


def _on_one_card(crash: Crash, held: str) -> Seen:
    shared = say(
        "The models of this job share their GPUs: {seen}. Together they need more than the GPU has.", seen=held
    )
    return Seen(words=joined((_share(facts(crash)), shared)), evidence=(crash.root,))
