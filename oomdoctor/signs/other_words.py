"""What a failure in words that no family knows says of its cause: which memory, who refused it, and its figures."""

from __future__ import annotations

import re
from types import UnionType
from typing import Final

from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.families.event import Event
from oomdoctor.families.refuser import BESIDE_AN_ALLOCATOR
from oomdoctor.families.unfamiliar import BESIDE_THE_FRAMEWORK, Shortage
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.units import apart

# Where an engine lays its cache out; later than that it serves from it
_BEFORE_SERVING: Final = (
    "launch",
    "engine_init",
    "memory_profiling",
    "kv_cache_init",
    "model_load",
    "cuda_graph_capture",
)
_LAYING_OUT: Final = late(
    r"(?i)\b(?:alloc|creat|initiali[sz]|reserv)\w{1,4} (?:\w{1,12} ){0,3}(?:kv|key)\b[ _-]?\w{0,6}"
    r"|\b(?:none|no|room|space|memory|vram) (?:left )?for (?:the |its )?(?:\S{1,40} ){0,4}(?:(?:kv)?cache|kv|mamba)\b"
    r"|\bkv[ _-]?cache allocation\b"
    r"|\brequested (?:kv|k v)?[ -]?cache size\b"
    r"|\b(?:fit(?: in)?|serve|hold) (?:one|any|a single) (?:[\w-]{1,12} ){0,2}(?:request|sequence|token)s?\b"
    r"|\b(?:num(?:ber of)?|#|total) (?:\w{1,8} ){0,2}blocks (?:is|are|=|:|==) ?0\b"
    r"|\bmemory footprint \d"
    r"|\b(?:pool|cache) (?:size|budget) (?:\([^()\n]{1,60}\) )?is (?:too|larger)\b"
)
# ... and where it hands out one of its blocks: "failed to allocate block for KV cache"
_HANDING_OUT: Final = late(
    r"(?i)\balloc\w{0,6} (?:(?:an?|another|new|free) ){0,2}(?:block|page|slot)\b|\b(?:pool|cache) (?:is )?exhausted\b"
)
_FAR: Final = 2
_FRAMEWORKS: Final = frozenset({"torch", "jax", "tensorflow"})
_PLACE: Final = late(r"\S{1,200}\.\w{1,4}:\d+")
_LONGEST: Final = late(
    r"(?i)\b(?:context|max(?:imum)?[ _]?(?:model|seq\w*|token\w*|len\w*)|(?:seq\w*|prompt|input)[ _]len\w*)\b"
)
_REQUEST: Final = late(r"(?i)\b(?:prompt|request|sequence|input|context)\b")
_NEEDS: Final = late(r"(?i)\b(?:requires?|required|needs?|needed)\b")
_VISIBLE: Final = late(
    r"(?i)\bvisible|ordinal|device (?:index|id)|world[ _]size|parallel[ _]size|CUDA_VISIBLE|only \d+ (?:gpu|device)s?\b"
)
_OF_THE_WEIGHTS: Final = late(
    r"(?i)\b(?:weights?|models? (?:\S{1,20} ){0,6}(?:fit\b|(?:is |are )?(?:too (?:large|big)|larger than)\b)"
    r"|for (?:the )?model|fit (?:\S{1,12} ){0,3}model"
    r"|(?:load\w*|fit|place|hold) (?:the )?(?:whole |entire )?(?:model|layers?)|parameters"
    r"|(?:serve|load|hold|fit) (?:at least )?(?:one|a single) (?:\w{1,12} )?(?:block|layer)"
    r"|(?:placed|put|dispatched|offloaded) (?:a |some )?parts? of it (?:on|to) (?:the )?(?:cpu|disk))\b"
)
# What is to be done is no evidence: "Lower the batch size or the resolution"
_ADVICE: Final = late(
    r"(?i)(?<=[.!;:] )(?:please |try |then )?(?:lower|reduce|decrease|increase|raise|choose|pick|use|set|add|enable"
    r"|disable|consider|try|free|either)(?:ing)? [^\n]*"
)
_OF_A_PASS: Final = late(
    r"(?i)\b(?:activations?|(?:micro)?batch(?:es)?|images?|frames?|tiles?|resolutions?|forward|backward"
    r"|convolution|attention|working memory|latents?|(?-i:VAE) (?:de|en)cod(?:e|ing))\b"
)
# One value per token and word of the vocabulary
_OF_LOGITS: Final = late(
    r"(?i)\b(?:logits?|log[- _]?soft ?max|(?:fused )?(?:linear )?cross[- _]?entropy(?: loss)?"
    r"|log[- _]?prob(?:abilitie)?s)\b"
)
_ROOM_MEASURED: Final = late(
    r"^determine_(?:num_)?available_(?:memory|blocks)|^_?(?:profile|validate)_num_\w{0,8}blocks"
)
_OF_AN_OPTIMIZER: Final = late(
    r"(?i)\b(?:optimi[sz]er|(?:during|in) (?:the )?optimi[sz]ation|adamw?|momentum|moments)\b"
)
_OF_DATA: Final = late(
    r"(?i)\b(?:dataset|data[ _]?frame|rows|records|partitions?|shuffle|group-?by|joins?|sort(?:ing)?|tokeni[sz]\w*"
    r"|columns|quer(?:y|ies)|parquet|csv|hash ?table|aggregat\w*|samples)\b"
)
_OF_A_STATE: Final = late(
    r"(?i)\b(?:checkpoints?|(?<!allocator )(?<!memory )(?<!heap )snapshots?"
    r"|sav(?:e|ing)(?! restore| allocat\w{2,3} (?:state|snapshot))|seriali[sz]\w+"
    r"|state[ _]?dict)\b"
)
_OF_ADDRESS_SPACE: Final = late(
    r"(?i)\bvirtual memory limit\b|\blimit (?:on|of) (?:the )?(?:virtual memory|(?:virtual )?address space)\b"
    r"|\bulimit -v\b|\bRLIMIT_AS\b|\b(?:virtual )?address space (?:limit|is (?:full|exhausted))"
)
# "re-run STAR with at least --limitBAMsortRAM 41143265264", "increase max_memory (now 2048 MB)": its own option
_RAISES_A_LIMIT: Final = late(
    r"(?i)\b(?:re-?run|rais|increas|enlarg|us|set|add|pass|try|specify|requir|need)\w{0,3}\b[^\n;]{0,80}?(?<![\w/.-])"
    # what leaves a check out is no limit: "Set SKIP_RAM_CHECK=1"
    r"(?!\S{0,40}(?:skip|ignore|disable|allow|check))"
    r"(?:--?)?(?:[a-z]\w{0,24}\.){0,3}(?:(?<=%)(?:mem|maxcore)|(?:heap|mem(?:ory)?|ram)[_-]?(?:size|limit|budget|cap)|[a-z]\w{0,24}?"
    r"(?:[_-](?:limit|mem|memory|ram|heap|budget)|limit[_-]?\w{0,20}(?:mem|ram|heap)|(?-i:Mem|RAM|Heap|Limit)))"
    r"\w{0,20}(?![\w.]*\()[ =:(]{1,3}[^\n;]{0,20}?\d"
)
# A pool that a program sets aside once, which its message asks to enlarge: "Increase SGLANG_EMBEDDING_POOL_SIZE_MB",
# "raise --encoder-buffer-size", "Consider increasing the pool size when calling register_nixl_memory_pool"
_RAISES_A_POOL: Final = late(
    r"(?i)\b(?:increas|rais|enlarg|bump)\w{0,3} (?:the |its |your )?(?:size of (?:the |its )?)?[`'\"]?"
    r"(?:(?:--)?\w{0,40}(?:[_-]|\b)(?:pool|buffer|staging|ring|arena|workspace)s?[_-](?:size|mb|bytes|capacity)\w{0,12}"
    r"|(?:\w{1,20} ){0,2}(?:pool|buffer|ring|arena)(?: size| capacity)?)\b"
)
_ADVICE_LINES: Final = 3
# What an engine keeps in host memory for itself: SGLang's hierarchical cache and what it offloads of requests, vLLM's
# and LMCache's pools
_HOST_CACHE: Final = late(
    r"(?i)\bhi-?cache|\bhierarchical cache|\bhost[- _](?:kv[- _])?(?:cache|pool)s?\b|\bhost mem(?:ory)? pool\b"
    r"|\b(?:cpu|host)[- ]?offload\w{0,3} (?:pool|buffer|cache)|\boffload(?:ed|ing)? (?:\w{1,8} )?(?:kv|key)[- _]?cache"
    r"|\b(?:host|cpu) (?:memory|ram) (?:\w{1,12} )?for (?:\S{1,24} ){0,6}?(?:request|sequence|caches?|kv|pool)\b"
)
# kaldi-asr/kaldi: src/cudamatrix/cu-allocator.cc, "Possibly this is due to sharing the GPU"
_OF_OTHERS: Final = late(
    r"(?i)\b(?:sharing|shares) (?:the|this|a) (?:gpu|device|card)\b"
    r"|\b(?:gpu|device|card) (?:is |may be |might be )?(?:shared|used|in use|occupied) (?:with|by) (?:an)?other"
    # ray/tune/utils/util.py, which waits for what ran before
    r"|\bmemory (?:was|is|has) (?:still )?not (?:been )?(?:freed|released)\b"
    r"|\b(?:an)?other (?:process|program|job|application|user)\w{0,2}\b[^.\n]{0,40}\b(?:gpu|device|card|vram)\b"
)


@sign
def cache_is_short_in_other_words(crash: Crash) -> Seen | None:
    """An unknown message says that the cache of a serving engine has nothing left."""
    root = _of(crash, "kv_cache")
    if root is None or _lays_out(crash, root) or exceeds_the_whole_cache_in_other_words(crash) is not None:
        return None
    return Seen(words=_compared(root, say("The engine's KV cache has no room left.")), evidence=(root,))


@sign
def cache_gets_no_room_in_other_words(crash: Crash) -> Seen | None:
    """An unknown message says that a starting engine cannot allocate its cache."""
    root = _of(crash, "kv_cache") or _measures(crash)
    if root is None or not _lays_out(crash, root):
        return None
    return Seen(words=_compared(root, say("The engine has no room for its KV cache.")), evidence=(root,))


@sign
def cache_is_larger_than_any_share(crash: Crash) -> Seen | None:
    """An unknown message asks for a cache of twice the memory that is there: no share of the card makes up for it."""
    root = crash.root
    if not isinstance(root, Shortage) or cache_gets_no_room_in_other_words(crash) is None:
        return None
    asked = root.tried_bytes
    return Seen(words="") if asked and root.free_bytes and asked >= _FAR * root.free_bytes else None


@sign
def longest_context_does_not_fit_in_other_words(crash: Crash) -> Seen | None:
    """The allowed context is longer than the cache, or than its memory, holds."""
    root = crash.root
    if not isinstance(root, Shortage) or (root.pool != "kv_cache" and root.unit != "tokens"):
        return None
    if _LONGEST.search(_said(root)) is None:
        return None
    words = _compared(root, say("The allowed context is longer than the KV cache."))
    return Seen(words=words, evidence=(root,), pool="kv_cache")


@sign
def one_request_does_not_fit_in_other_words(crash: Crash) -> Seen | None:
    """One request needs more tokens than the cache has."""
    root = _of(crash, "kv_cache")
    if root is None or root.unit != "tokens" or root.needed is None or _REQUEST.search(root.at.text) is None:
        return None
    return Seen(
        words=_compared(root, say("One request is longer than the free part of the KV cache.")), evidence=(root,)
    )


@sign
def exceeds_the_whole_cache_in_other_words(crash: Crash) -> Seen | None:
    """One piece of work needs more bytes than the cache may ever have, whoever else holds some of it."""
    root = _of(crash, "kv_cache")
    if root is None or root.tried_bytes is None or root.limit_bytes is None or root.tried_bytes <= root.limit_bytes:
        return None
    if _NEEDS.search(root.at.text) is None:
        return None
    words = _compared(root, say("One request needs more KV cache than the whole budget for it."))
    return Seen(words=words, evidence=(root,))


@sign
def limit_of_a_group_in_other_words(crash: Crash) -> Seen | None:
    """An unknown message says that a container or job hit its limit."""
    root = _of(crash, "cgroup")
    if root is None:
        return None
    return Seen(words=_compared(root, say("The job or container hit its memory limit.")), evidence=(root,))


@sign
def pinned_memory_short_in_other_words(crash: Crash) -> Seen | None:
    """An unknown message says that pinned memory failed."""
    root = _of(crash, "pinned")
    if root is None or host_cache_in_other_words(crash) is not None:
        return None
    return Seen(words=say("Allocating pinned host memory failed."), evidence=(root,))


@sign
def shared_memory_short_in_other_words(crash: Crash) -> Seen | None:
    """An unknown message says that shared memory had no room."""
    root = _of(crash, "shm")
    return None if root is None else Seen(words=say("Shared memory had no room left."), evidence=(root,))


@sign
def store_short_in_other_words(crash: Crash) -> Seen | None:
    """An unknown message says that the object store had no room."""
    root = _of(crash, "object_store")
    return None if root is None else Seen(words=say("The object store had no room left."), evidence=(root,))


@sign
def devices_missing_in_other_words(crash: Crash) -> Seen | None:
    """More GPUs were requested than the process can see."""
    root = _of(crash, "scheduling")
    if root is None or root.unit != "devices" or _VISIBLE.search(root.at.text) is None:
        return None
    return Seen(words=_compared(root, say("The program requested more GPUs than it can see.")), evidence=(root,))


@sign
def resources_missing_in_other_words(crash: Crash) -> Seen | None:
    """An unknown message says that a cluster does not have the requested resources."""
    root = _of(crash, "scheduling")
    return (
        None
        if root is None
        else Seen(words=say("The cluster does not have the requested resources."), evidence=(root,))
    )


@sign
def own_limit_in_other_words(crash: Crash) -> Seen | None:
    """A program hit its own limit, by its words or its figures, or since it asks for a larger one."""
    root = crash.root
    if not isinstance(root, Shortage) or root.pool not in ("gpu", "host_ram") or root.unit == "tokens":
        return None
    if root.limited:
        return Seen(words=_compared(root, say("The program hit a limit of its own.")), evidence=(root,))
    if _RAISES_A_POOL.search(with_advice(root)) is not None:
        words = _compared(root, say("The program hit a limit of its own: its message asks for a larger one."))
        return Seen(words=words, evidence=(root,))
    if root.pool != "host_ram" or _RAISES_A_LIMIT.search(with_advice(root)) is None:
        return None
    return Seen(words=say("The program hit a limit of its own: its message asks for a larger one."), evidence=(root,))


@sign
def host_cache_in_other_words(crash: Crash) -> Seen | None:
    """An unknown message says that host memory has no room for what an engine keeps there."""
    root = _of(crash, "host_ram") or _of(crash, "pinned")
    if root is None or _HOST_CACHE.search(root.at.text) is None:
        return None
    words = _compared(root, say("Host memory has no room for a cache that the engine keeps there."))
    return Seen(words=words, evidence=(root,), pool="host_ram")


@sign
def library_was_refused_in_other_words(crash: Crash) -> Seen | None:
    """A GPU allocation failed outside the framework that the job runs on."""
    root = _of(crash, "gpu")
    if root is None or root.refuser not in BESIDE_THE_FRAMEWORK or crash.job.world not in _FRAMEWORKS:
        return None
    words = say("A GPU allocation outside the framework's allocator failed.")
    return Seen(words=words, evidence=(root,))


@sign
def library_by_the_message(crash: Crash) -> Seen | None:
    """The message names an allocation of a library's own, outside the framework's allocator."""
    root = _of(crash, "gpu")
    if root is None or BESIDE_AN_ALLOCATOR.search(_said(root)) is None:
        return None
    words = say("A GPU allocation outside the framework's allocator failed.")
    return Seen(words=words, evidence=(root,))


@sign
def others_by_the_message(crash: Crash) -> Seen | None:
    """The message itself suspects other processes on the GPU."""
    root = _of(crash, "gpu")
    if root is None or _OF_OTHERS.search(root.at.text) is None:
        return None
    return Seen(words=say("The message itself suspects other processes on the GPU."), evidence=(root,))


@sign
def weights_by_the_message(crash: Crash) -> Seen | None:
    """The message mentions weights."""
    return _names(crash, _OF_THE_WEIGHTS, Shortage | DeviceRefusal)


@sign
def pass_by_the_message(crash: Crash) -> Seen | None:
    """The message mentions a batch or its activations; a batch of a program for tables is one of rows."""
    return _names(crash, _OF_A_PASS) if crash.job.task != "data" else None


@sign
def logits_by_the_message(crash: Crash) -> Seen | None:
    """The message of a failure on a GPU names the logits, or the loss or the probabilities that are made of them."""
    return _names(crash, _OF_LOGITS) if crash.pool == "gpu" else None


@sign
def optimizer_by_the_message(crash: Crash) -> Seen | None:
    """The message mentions optimizer states."""
    return _names(crash, _OF_AN_OPTIMIZER)


@sign
def data_by_the_message(crash: Crash) -> Seen | None:
    """The message mentions data."""
    return _names(crash, _OF_DATA)


@sign
def address_space_by_the_message(crash: Crash) -> Seen | None:
    """The message mentions a limit on address space, and host memory was refused."""
    root = crash.root
    named = isinstance(root, Shortage) and root.pool == "host_ram" and _OF_ADDRESS_SPACE.search(root.at.text)
    if not named:
        return None
    words = say("A reservation of host memory failed, and the message names a limit on address space.")
    return Seen(words=words, evidence=(root,))


@sign
def state_by_the_message(crash: Crash) -> Seen | None:
    """The message mentions saving or loading a state."""
    return _names(crash, _OF_A_STATE)


def with_advice(root: Event) -> str:
    """The message of a failure with the lines behind it, where a program says what to do."""
    return "\n".join((root.at.text, *root.around.after[:_ADVICE_LINES]))


def _lays_out(crash: Crash, root: Shortage) -> bool:
    if crash.stage in _BEFORE_SERVING:
        return True
    said = "\n".join((root.at.text, *(text for _, text in root.at.below)))
    return _LAYING_OUT.search(said) is not None and _HANDING_OUT.search(said) is None


def _measures(crash: Crash) -> Shortage | None:
    """The refusal of an engine where it looks what is left for its cache."""
    root = crash.root
    trace = root.around.trace
    if not isinstance(root, Shortage) or root.pool not in ("gpu", "host_ram") or not trace:
        return None
    return root if any(_ROOM_MEASURED.search(frame.function) for frame in trace[-2:]) else None


def _of(crash: Crash, pool: str) -> Shortage | None:
    root = crash.root
    return root if isinstance(root, Shortage) and root.pool == pool else None


def _names(crash: Crash, what: re.Pattern[str], kinds: type[Event] | UnionType = Shortage) -> Seen | None:
    root = crash.root
    found = what.search(_said(root)) if isinstance(root, kinds) else None
    if found is None or root is None:
        return None
    return Seen(words=say("The message says what the memory was for: {words}.", words=found[0]), evidence=(root,))


def _said(root: Event) -> str:
    """What happened, without what is to be done."""
    return _ADVICE.sub("", _PLACE.sub("", root.at.text))


def _compared(root: Shortage, words: str) -> str:
    """With the figures that were held against each other, where there are such."""
    there = next((size for size in (root.free_bytes, root.limit_bytes, root.total_bytes) if size is not None), None)
    if root.tried_bytes is not None and there is not None:
        needed, had = apart(root.tried_bytes, there)
    elif root.needed is not None and root.available is not None:
        needed, had = str(root.needed), str(root.available)
    else:
        return words
    return joined((words, say("{needed} requested, {there} available.", needed=needed, there=had)))
