"""What the engine's share leaves for its KV cache at the start: no block, or less than one sequence needs."""

from __future__ import annotations

from typing import Final

from oomdoctor.arithmetic import shares, vllm
from oomdoctor.families.llama_cpp import BufferRefused, LoadPlan
from oomdoctor.families.lmdeploy import EngineShort
from oomdoctor.families.mlc import NoRoom
from oomdoctor.families.ollama import Short
from oomdoctor.families.sglang import NoPool
from oomdoctor.families.tensorrt_llm import CacheTooSmall
from oomdoctor.families.vllm_cut import CutCheck
from oomdoctor.families.vllm_error import ContextDoesNotFit, NoCacheBlocks, NotEnoughFree, SequencesExceedState
from oomdoctor.families.vllm_figures import KvCacheSize, MemoryProfile
from oomdoctor.incident.engine_facts import EngineFacts, facts, loading, static_fraction
from oomdoctor.incident.model import Crash, E
from oomdoctor.job.frameworks import some
from oomdoctor.language import joined, mark, say, translated
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import FIGURES_OF_MLC, OF_AN_ENGINES_START
from oomdoctor.signs.trace import asked, card, refusal
from oomdoctor.units import apart, show

# V0 of vLLM took a whole prompt in one step up to this length, and fixed steps above it: vllm/engine/arg_utils.py 0.5.5
# to 0.8; vllm/config.py, SchedulerConfig, refuses steps that are smaller than a prompt
WHOLE_PROMPTS: Final = 32768
HEAVY_ACTIVATIONS: Final = 0.2  # of the card: then the profiled batch is the first thing to make smaller

_CACHES: Final = {"kv-cache": mark("kv cache"), "state-cache": mark("state cache")}


@sign
def buffer_of_the_cache_was_refused(crash: Crash) -> Seen | None:
    """llama.cpp and Ollama allocate the KV cache for the whole context at once, after the weights."""
    refused = crash.root
    if not isinstance(refused, BufferRefused | Short) or refused.what not in ("kv", "state"):
        return None
    lengths = [plan.context_len for plan in crash.every(LoadPlan) if plan.context_len]
    tried = refused.tried_bytes or (refused.buffer_bytes if isinstance(refused, BufferRefused) else None)
    words = _refusal_by(refused.pool, tried, lengths[-1] if lengths else None)
    return Seen(words=words, evidence=(refused,))


@sign
def weights_fill_sglangs_fraction(crash: Crash) -> Seen | None:
    """SGLang's fraction applies to the memory that was free before loading the weights, and leaves nothing for its
    pool."""
    pool = _no_pool(crash)
    if pool is None:
        return None
    words = (_fraction_taken(sglangs_fraction(crash, pool)), *_fraction_needed(crash, pool))
    return Seen(words=joined(words), evidence=(pool,))


@sign
def sglangs_fraction_should_do(crash: Crash) -> Seen | None:
    """By the free memory before and after loading the weights, SGLang's fraction leaves room for its pool."""
    pool, loaded = _no_pool(crash), loading(crash)
    fraction = sglangs_fraction(crash, pool) if pool is not None else None
    if pool is None or pool.smallest_fraction is not None or fraction is None or loaded is None:
        return None
    return Seen(words="") if fraction > loaded.smallest_fraction else None


@sign
def weights_leave_lmdeploy_too_little(crash: Crash) -> Seen | None:
    """LMDeploy's share is a fraction of the memory that is free after loading the weights, and holds no cache."""
    short = crash.first(EngineShort)
    if short is None or short.pool != "kv_cache" or crash.pool == "host_ram":
        return None
    words = say(
        "The weights leave too little GPU memory for the engine's {cache}: its share is a fraction of the "
        "memory that is free after loading.",
        cache=translated(_CACHES[short.what]),
    )
    return Seen(words=words, evidence=(short,))


@sign
def buffers_fill_mlcs_share(crash: Crash) -> Seen | None:
    """MLC's share of the GPU holds its weights, but not the temporary buffers beside them."""
    short = crash.root
    if not isinstance(short, NoRoom) or short.available_bytes is None or short.weights_bytes is None:
        return None
    return _mlcs_account(short) if short.weights_bytes <= short.available_bytes else None


@sign
def weights_fill_mlcs_share(crash: Crash) -> Seen | None:
    """MLC's weights and temporary buffers are larger than its share of the GPU."""
    return _mlcs_account(crash.root) if isinstance(crash.root, NoRoom) else None


@sign
def no_sequence_fits_what_is_free(crash: Crash) -> Seen | None:
    """TensorRT-LLM's fraction of the free memory cannot hold one sequence."""
    small = _no_sequence(crash)
    if small is None:
        return None
    words = say(
        "The memory that is free after loading, times the engine's fraction for the cache, cannot hold one sequence."
    )
    return Seen(words=words, evidence=(small,))


@sign
def no_sequence_fits_the_cache(crash: Crash) -> Seen | None:
    """TensorRT-LLM's cache has fewer blocks than a sequence of the engine's length needs."""
    small = _no_sequence(crash)
    if small is None:
        return None
    words = say("The KV cache has fewer blocks than one sequence of the engine's maximum length needs.")
    return Seen(words=words, evidence=(small,))


@sign
def no_block_fits(crash: Crash) -> Seen | None:
    """vLLM has no memory for one block of its cache."""
    blocks = on_the_card(crash, NoCacheBlocks)
    if blocks is None:
        return None
    none, it = say("Not one block of KV cache fits."), facts(crash)
    if it.kv_bytes is not None or (it.reserved_bytes is not None and it.weights_bytes is not None):
        return Seen(words=joined((_budget(it), none)), evidence=(blocks,))
    if (full := _used_before_the_profile(crash)) is not None:
        return Seen(words=joined((none, full)), evidence=(blocks, *crash.every(MemoryProfile)[:1]))
    unseen = say(
        "The log does not show what fills the engine's share of the GPU: weights and activations, a share that is "
        "set low, or other processes."
    )
    return Seen(words=joined((none, unseen)), evidence=(blocks,), unsure=True, next_evidence=(OF_AN_ENGINES_START,))


def _used_before_the_profile(crash: Crash) -> str | None:
    """vLLM 0.6.4 counts all that is in use on the GPU inside the share: worker.py, determine_num_available_blocks."""
    it = facts(crash)
    profile = next((each for each in crash.every(MemoryProfile) if each.used_before_bytes and each.total_bytes), None)
    share = it.share
    if profile is None or share is None or share * (profile.total_bytes or 0) > (profile.used_before_bytes or 0):
        return None
    return say(
        "{used} of {total} were in use before the profiling run, by all processes: more than the share of {share}.",
        used=show(profile.used_before_bytes or 0), total=show(profile.total_bytes or 0), share=f"{share:g}",
    )  # fmt: skip


@sign
def the_look_at_the_cache_failed(crash: Crash) -> Seen | None:
    """The log ends in vLLM's own look at the size of its cache, before its words."""
    cut = crash.root
    if not isinstance(cut, CutCheck):
        return None
    words = say("{step} raises where the KV cache has no room for a block, or not for one request.", step=cut.step)
    return Seen(words=words, evidence=(cut,), unsure=True, next_evidence=(OF_AN_ENGINES_START,))


@sign
def no_length_fits(crash: Crash) -> Seen | None:
    """Not one block of vLLM's cache fits, and the log does not say what a context needs."""
    if not crash.first(NoCacheBlocks) or crash.first(ContextDoesNotFit) or _no_sequence(crash):
        return None
    return Seen(words=say("not one block of KV cache fits, so a shorter context alone does not help"))


@sign
def budget_of_no_block(crash: Crash) -> Seen | None:
    """The last figure of the log is vLLM's room for its cache, and no block fits in it."""
    root = crash.root
    if not isinstance(root, KvCacheSize | MemoryProfile) or crash.pool == "host_ram":
        return None
    words = joined((_budget(facts(crash)), say("No version of this engine can start without room for one block.")))
    return Seen(words=words, evidence=(root,), against=(say("the log ends before the engine's own error"),))


@sign
def weights_that_another_process_holds(crash: Crash) -> Seen | None:
    """Weights that another process holds for vLLM count inside its share, and exceed it."""
    refused = on_the_card(crash, NotEnoughFree)
    if refused is None or refused.external_bytes is None:
        return None
    held, room = show(refused.external_bytes), refused.requested_bytes
    share = f"{refused.utilization:g}" if refused.utilization is not None else say("the GPU")
    words = (
        say(
            "Another process holds {held} of weights for the engine, more than the engine's share of {share}.",
            held=held,
            share=share,
        )
        if room is None
        else say(
            "Another process holds {held} of weights for the engine, more than the engine's share of {share} ({room}).",
            held=held,
            share=share,
            room=show(room),
        )
    )
    return Seen(words=words, evidence=(refused,), pool="kv_cache")


@sign
def more_sequences_than_states(crash: Crash) -> Seen | None:
    """vLLM has fewer blocks for layer states than sequences that may run."""
    state = on_the_card(crash, SequencesExceedState)
    if state is None:
        return None
    words = say(
        "Each sequence needs one block of layer state: {state_blocks} blocks fit, and max_num_seqs is {max_num_seqs}.",
        state_blocks=state.state_blocks,
        max_num_seqs=state.max_num_seqs,
    )
    return Seen(words=words, evidence=(state,))


@sign
def room_below_nothing(crash: Crash) -> Seen | None:
    """vLLM compares a context with a cache that has no room at all."""
    context = on_the_card(crash, ContextDoesNotFit)
    if context is None or context.kv_bytes is None or context.kv_bytes > 0:
        return None
    none = say("No context, however short, fits in {kv}.", kv=show(context.kv_bytes))
    return Seen(words=joined((_budget(facts(crash)), none)), evidence=(context,))


@sign
def no_context_is_short_enough(crash: Crash) -> Seen | None:
    """vLLM compares a context with its cache, and no length fits."""
    tightest = _tightest(crash)
    if tightest is None or longest(tightest) is not None:
        return None
    return Seen(words=say("the engine has no KV cache at all, so no context is short enough"))


@sign
def context_longer_than_the_cache(crash: Crash) -> Seen | None:
    """One request of the configured length needs more than vLLM's cache holds, and a shorter one fits."""
    tightest = too_long(crash)
    if tightest is None:
        return None
    fits = (
        say("A context of up to {longest:,} tokens fits.", longest=longest(tightest))
        if tightest.kv_tokens is None or a_step_takes_a_whole_prompt(crash) is None
        else say(
            "A context of at least {longest:,} tokens fits: the profiling run took a whole context at once from the "
            "room for the KV cache.",
            longest=longest(tightest),
        )
    )
    return Seen(words=joined((_comparison(tightest), fits)), evidence=(tightest,))


@sign
def others_count_inside_the_share(crash: Crash) -> Seen | None:
    """This version of vLLM counts what other processes hold as its own."""
    era = facts(crash).era
    if era is None or not era.others_counted:
        return None
    words = say("this version counts memory of other processes inside its share; they may fill it")
    return Seen(words=words)


@sign
def activations_are_heavy(crash: Crash) -> Seen | None:
    """The activations of the engine's profiling run take more than a fifth of the GPU."""
    activations, total = facts(crash).activation_bytes, facts(crash).total_bytes
    if activations is None or total is None or activations <= HEAVY_ACTIVATIONS * total:
        return None
    return Seen(words="")


@sign
def a_step_takes_a_whole_prompt(crash: Crash) -> Seen | None:
    """Prompts are not prefilled in chunks: an engine then refuses a batch of fewer tokens than its context. The older
    engine of vLLM (V0) does so up to a context of 32768 tokens, where neither its user nor a trainer says otherwise."""
    if (switched_off := crash.setting("no_enable_chunked_prefill")) is not None and switched_off.value is True:
        return Seen(words="")
    stated, known = crash.setting("enable_chunked_prefill", "chunked_prefill_enabled"), facts(crash)
    if stated is not None:
        return Seen(words="") if stated.value is False else None
    if crash.job.trains or known.engine != "V0" or (known.max_model_len or 0) > WHOLE_PROMPTS:
        return None
    return Seen(words="")


@sign
def no_larger_share_would_do(crash: Crash) -> Seen | None:
    """The engine needs more than the largest possible share, or its share is at that limit."""
    it = facts(crash)
    if it.reserved_bytes is not None and it.total_bytes is not None and it.kv_bytes is not None:
        needed = it.reserved_bytes - it.kv_bytes
        if needed > shares.LARGEST * it.total_bytes:
            return Seen(words="")
    return Seen(words="") if it.share is not None and it.share >= shares.AT_THE_LIMIT else None


def on_the_card(crash: Crash, kind: type[E]) -> E | None:
    """The first of its kind, where it was not the host's memory that ran out."""
    return crash.first(kind) if crash.pool != "host_ram" else None


def _no_pool(crash: Crash) -> NoPool | None:
    return on_the_card(crash, NoPool)


def _no_sequence(crash: Crash) -> CacheTooSmall | None:
    small = on_the_card(crash, CacheTooSmall)
    return small if small is not None and small.said == "one-sequence" else None


def _refusal_by(pool: str | None, tried: int | None, length: int | None) -> str:
    memory = say("host memory") if pool == "host_ram" else say("GPU memory")
    if tried and length is not None:
        return say(
            "The weights fit, but {memory} had no room for {tried} of KV cache for a context of {length:,} tokens.",
            tried=show(tried),
            length=length,
            memory=memory,
        )
    if tried:
        return say(
            "The weights fit, but {memory} had no room for {tried} of KV cache.",
            tried=show(tried),
            memory=memory,
        )
    if length is not None:
        return say(
            "The weights fit, but {memory} had no room for the KV cache of a context of {length:,} tokens.",
            length=length,
            memory=memory,
        )
    return say("The weights fit, but {memory} had no room for the KV cache.", memory=memory)


def sglangs_fraction(crash: Crash, pool: NoPool) -> float | None:
    """As its refusal prints it, else as it is set."""
    return pool.fraction if pool.fraction is not None else static_fraction(crash)


def _fraction_taken(fraction: float | None) -> str:
    if fraction is None:
        return say("The weights take more than the engine's fraction of the memory that was free before loading.")
    return say(
        "The weights take more than the engine's fraction ({fraction:g}) of the memory that was free before loading.",
        fraction=fraction,
    )


def _fraction_needed(crash: Crash, pool: NoPool) -> tuple[str, ...]:
    """What SGLang says that it needs, or what follows from what was free."""
    loaded, printed = loading(crash), pool.smallest_fraction
    needed = say("The fraction must be above {fraction:g}.", fraction=printed) if printed is not None else ""
    if loaded is None:
        return (needed,)
    before, after = show(loaded.free_before_bytes), show(loaded.free_after_bytes)
    if printed is not None:
        return say("{before} was free before loading and {after} after loading.", before=before, after=after), needed
    computed = say(
        "{before} was free before loading and {after} after loading: the fraction must be above 1 - {after} / "
        "{before} = {fraction}.",
        before=before,
        after=after,
        fraction=f"{loaded.smallest_fraction:.3f}",
    )
    return (computed,)


def _mlcs_account(short: NoRoom) -> Seen | None:
    """Its share is one of the card, and weights and temporary buffers come off it."""
    room, weights, buffers = short.available_bytes, short.weights_bytes, short.buffers_bytes
    if room is None or weights is None or buffers is None:
        return None
    words = say(
        "Of the engine's {room}, weights take {weights} and temporary buffers {buffers}: {left} is left for "
        "the KV cache.",
        room=show(room),
        weights=show(weights),
        buffers=show(buffers),
        left=show(room - weights - buffers),
    )
    if room <= weights + buffers:
        return Seen(words=words, evidence=(short,))
    doubt = say(
        "by these figures there is room, and the check failed all the same: the model's own figures may be wrong"
    )
    knobs = ("collect-evidence", "smaller-prefill")  # what is free is not short
    return Seen(
        words=words, evidence=(short,), against=(doubt,), unsure=True, knobs=knobs, next_evidence=(FIGURES_OF_MLC,)
    )


def _tightest(crash: Crash) -> ContextDoesNotFit | None:
    """The refusal of the rank with the least room."""
    return min(crash.every(ContextDoesNotFit), key=_room, default=None)


def _room(refused: ContextDoesNotFit) -> int:
    return refused.kv_bytes if refused.kv_bytes is not None else refused.kv_tokens or 0


def longest(refused: ContextDoesNotFit) -> int | None:
    """V0 says how many tokens fit; V1 estimates it, or it follows from what is needed and what there is."""
    if refused.kv_tokens is not None:
        return refused.kv_tokens or None
    if refused.max_model_len is None or refused.needed_bytes is None or refused.kv_bytes is None:
        return refused.estimated_tokens
    return vllm.longest_context(refused.max_model_len, refused.needed_bytes, refused.kv_bytes, refused.estimated_tokens)


def _comparison(refused: ContextDoesNotFit) -> str:
    length = (
        say("{max_model_len:,} tokens", max_model_len=refused.max_model_len)
        if refused.max_model_len is not None
        else say("the maximum length")
    )
    if refused.kv_tokens is not None:
        return say(
            "The KV cache holds {kv_tokens:,} tokens; one request may need {length}.",
            kv_tokens=refused.kv_tokens,
            length=length,
        )
    if refused.needed_bytes is None or refused.kv_bytes is None:
        return say("One request of {length} does not fit in the KV cache.", length=length)
    needed, kv = apart(refused.needed_bytes, refused.kv_bytes)
    return say(
        "One request of {length} needs {needed} of KV cache; {kv} is available.", length=length, needed=needed, kv=kv
    )


def _budget(it: EngineFacts) -> str:
    reserved, weights = it.reserved_bytes, it.weights_bytes
    if reserved is not None and weights is not None and it.kv_bytes is not None:
        return _account(show(reserved), show(weights), show(it.kv_bytes), it)
    if it.kv_bytes is not None:
        return say("{left} of the engine's share is left for the KV cache.", left=show(it.kv_bytes))
    if it.share is not None:
        return say("Weights and activations fill the engine's share of the GPU ({share:g}).", share=it.share)
    return say("Weights and activations fill the engine's share of the GPU.")


def _account(reserved: str, weights: str, left: str, it: EngineFacts) -> str:
    peak = show(it.activation_bytes) if it.activation_bytes is not None else None
    outside = show(it.non_torch_bytes) if it.non_torch_bytes is not None else None
    if peak is not None and outside is not None:
        return say(
            "Of the engine's {reserved}, weights take {weights}, activations of the profiling run {peak}, "
            "non-PyTorch memory {outside}: {left} is left.",
            reserved=reserved,
            weights=weights,
            peak=peak,
            outside=outside,
            left=left,
        )
    if peak is not None:
        return say(
            "Of the engine's {reserved}, weights take {weights} and activations of the profiling run {peak}: "
            "{left} is left.",
            reserved=reserved,
            weights=weights,
            peak=peak,
            left=left,
        )
    if outside is not None:
        return say(
            "Of the engine's {reserved}, weights take {weights} and non-PyTorch memory {outside}: {left} is left.",
            reserved=reserved,
            weights=weights,
            outside=outside,
            left=left,
        )
    return say(
        "Of the engine's {reserved}, weights take {weights}: {left} is left.",
        reserved=reserved,
        weights=weights,
        left=left,
    )


def too_long(crash: Crash) -> ContextDoesNotFit | None:
    """The refusal of the rank with the least room, where a shorter context fits."""
    tightest = _tightest(crash)
    return tightest if tightest is not None and longest(tightest) is not None else None


@sign
def cache_beside_all_weights_was_refused(crash: Crash) -> Seen | None:
    """A program that takes what it needs, and no share, was refused its KV cache, which it makes for the context."""
    event = refusal(crash)
    if event is None or crash.stage != "kv_cache_init" or not some(crash.job.frameworks, "takes what it needs"):
        return None
    words = say(
        "While the KV cache for the context was allocated beside the weights, {asked}.", asked=asked(card(crash))
    )
    return Seen(words=words, evidence=(event,))
