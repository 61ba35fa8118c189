"""A failure of memory in words that no family knows: a new version's, or a program's that nobody told us of.

A line that is a known message but for a word is read as that message (`likeness`). Others are read word by word:
something could not be had, that something is memory, and the line is an error's. What it was needed for is left to what
stands around it. A message that is known says more: where one tells of a failure, these are not heard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Final

from msgspec.structs import replace

from oomdoctor.families import Family, families
from oomdoctor.families.amounts import stated
from oomdoctor.families.checks import (
    about_to_take,
    beyond_any_machine,
    compared_by_a_check,
    factors_of_overflow,
    less_than_needed,
    mended_by_a_smaller_share,
    overflowed,
    refused_by_a_call,
    refused_by_a_check,
)
from oomdoctor.families.echoes import ADVICE, echo
from oomdoctor.families.ended import LAST_WORDS, came_up, ends_well
from oomdoctor.families.event import SIDES, Event, Lookalike, Process, Read, Threshold, Usage
from oomdoctor.families.frames import OF_SHARED_MEMORY
from oomdoctor.families.gpu_library import OF_TINYGRAD
from oomdoctor.families.jax_tf import ON_THE_CPU
from oomdoctor.families.likeness import likeness
from oomdoctor.families.lines import DEVICE_FAULT, FAULT_LINES, goes_on, place_of, process_of
from oomdoctor.families.loudness import (
    CHARACTERS,
    is_collected,
    is_exception,
    is_loud,
    is_quiet,
    is_source,
    is_warning,
    message,
    raised,
    says_failed,
    supposes,
)
from oomdoctor.families.refuser import pool_of, refuser_of
from oomdoctor.families.shortage import OF_A_SETTING, Shortfall, listed, shortfall, waits
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page

# Who allocates on a card beside the framework, and the families whose messages are a framework's own
BESIDE_THE_FRAMEWORK: Final = frozenset({"library", "driver"})
OF_A_FRAMEWORK: Final = frozenset({"cuda", "cuda_error", "jax_tf"})
VERY_LAST: Final = 3  # lines: what waits there still waits
AROUND: Final = 400  # lines that a family sees around a line that is read as its message
AT_MOST: Final = 400  # characters of a line beside it

# What is refused to a program of Java's is refused by its heap
_VIRTUAL_MACHINE = late(
    r"(?<![\w.])(?:java|javax|org|com|io)(?:\.[a-z]\w{1,30}){1,6}\.[A-Z]\w{2,60}(?:Error|Exception)\b"
    r"|\bCannot enlarge memory arrays\b|\bINITIAL_MEMORY=|\bALLOW_MEMORY_GROWTH\b"  # emscripten, src/lib/libcore.js
)
# A pool that a program sets aside for itself, and that does not grow: "the context's memory pool", "scratch arena"
_POOL_OF_ITS_OWN = late(
    r"(?i)\b(?:context|scratch|arena|workspace|fixed|static)(?:[-'’]?s?)?[ -](?:memory )?(?:pool|arena|buffer)\b"
    r"|\b(?:arena|pool) (?:is )?(?:OOM|out of memory)\b"
)
# ... and that is said to be exhausted, whatever was asked for
_POOL_EXHAUSTED = late(
    r"(?i)\b(?:static|dynamic|fixed|pre-?allocated|scratch|staging|peer|pinned|buffer)"
    r" (?:[a-z]{1,8} ){0,2}(?:memory )?(?:pool|arena)"
    r" (?:is |was |has been )?(?:exhausted|depleted|full|used up|spent)\b"
    r"|\b(?:output |aux\w{0,8} )?block pool is exhausted\b"
    r"|\b(?:static|fixed|pre-?allocated) (?:\w{1,20} ){0,2}(?:pool|buffer|arena)s? capacity (?:is |was )?exceeded\b"
    r"|\b(?:not enough|insufficient) stack memory\b"  # of NWChem's MA, src/ma.c
    r"|\bout of memory, stack overflow\b"  # MuJoCo's stack, mj_stackAlloc
    r"|\bexceed\w{0,3} (?:\w{1,12} ){0,3}(?:pool|budget|reservation|quota|arena) capacity\b"
    r"|(?-i:\bMEM_CAP_EXCEEDED\b)"  # Velox, velox/common/memory/SharedArbitrator.cpp
)
# A size that is refused whatever is free: "Requested preallocation size is too large" (ggml-vulkan.cpp,
# maxMemoryAllocationSize), "buffer size exceeds the maximum allocation size"
_AT_ONCE = late(
    r"(?i)\b(?:requested|pre-?allocation|allocation|buffer) size (?:(?:is|was) )?"
    r"(?:too (?:large|big)\b"
    r"|(?:exceeds|above|over|(?:larger|greater|bigger) than) (?:the )?(?:\w{1,12} ){0,2}max(?:imum)?\b)"
)
# Metal's, of one array: MPSCore/Types/MPSNDArray.mm
_LARGEST_ARRAY = late(r"\btotal bytes of ND ?Array > ?2 ?\*\* ?\d")
# A limit that somebody gave it
_GIVEN = late(r"(?i)\b(?:user|operator|client)[- ](?:specified|defined|configured|given|set)\b")

_SHARES = late(r"(?<![\w./])(\d{1,9}(?:\.\d{1,9})?)/(\d{1,9}(?:\.\d{1,9})?) ?[A-Za-z]")
_LACKS = late(r"(?i)insufficient|not enough|cannot|could not|unable|fail|lack|exceed|short|unavailable|no available")

_BLANKS = late(r"(?<=\S) {2,8}(?=\S)")

# Between an exception and the one that was raised from it
_CHAIN: Final = 30  # lines
_CHAINED = late(r"The above exception was the direct cause of the following|During handling of the above exception")

# Where an engine hands out what its cache has; a message there that names no other memory is the cache's
_CACHE_FILE = late(
    r"/\w{0,20}(?:scheduler|schedule_batch|mem_manager|req_manager|block_manager|mem_cache|memory_cache|memory_pool|kv_cache|block_pool"
    r"|block_allocator|token_to_kv|cache_engine|radix_cache|kv_manager|evictor|prefix_caching)\w{0,30}\.py\""
    r"|/(?:continuous_batching|kv_?cache|paged_attention)/(?:\w{1,30}/){0,3}\w{1,40}\.[hc]pp:\d"
    r"|/cache/\w{1,30}\.py\"|/mem_cache/(?:\w{1,30}/){0,3}\w{1,40}\.py\"|/inference/contexts/\w{1,30}\.py\"|/continuous_batching/cache\w{0,20}\.py\""
)
_OF_A_MODULE = late(r"((?:[a-z_]\w{0,40}\.){1,8}[a-z_]\w{0,40})\.[A-Z]\w{2,60}: ")  # an exception's
# "[petals.server.memory_cache._schedule_alloc:128]": the module, then the function
_LOGGED_IN = late(r"\[([a-z_]\w{0,40}(?:\.[a-z_]\w{0,40}){1,6})\.\w{1,60}:\d{1,6}\]")
_ENGINE_FILE = late(
    r"/(?:exllamav\d|vllm|sglang(?!/multimodal_gen)|lmdeploy|aphrodite|tensorrt_llm|lightllm|mlx_lm|vllm_\w{1,12})/"
)
# Where it hands out what the host keeps of that cache
_HOST_FILE = late(
    r"/mem_cache/(?:storage|pool_host)/|/kv_offload/|/\w{0,20}(?:pool_host|hicache|mooncake|_store|cpu_offload)\w{0,20}\.py\""
)
# ... or what a card has: tinygrad's, XLA's ("stream_executor/cuda/cuda_fft.cc"); what they pin is the host's
_DEVICE_FILE = late(
    rf"{OF_TINYGRAD}|/(?:cuda|rocm|hip|gpu|sycl|[a-z]{{0,12}}_gpu)/(?!\w{{0,40}}host)\w{{1,60}}\.(?:cc|cpp|cu|cxx)\b"
)
# Pools of page-locked memory: DeepSpeed's for a disk, vLLM's for what a peer sends
_SWAPPING_FILE = late(r"/swap_tensor/|/p2p/tensor_memory_pool\.py\"")
# Where a batch finds no place, its program may try with a smaller one
_OF_A_BATCH = late(r"(?i)\b(?:slots?|cells?) for (?:the |an? |this |new ){0,2}u?batch\b")
# "Device store exhausted, unable to allocate 3221225472 bytes", in the letters of `shortage`
_REFUSES_A_SIZE = late(r"X[^.]{0,6}CA[wa]{0,2}S")
# "DML allocator out of memory!": no more than that, as DirectML's and others warn before a try with less
_ALLOCATOR_OUT = late(r"(?i)\b(?:allocator|arena|heap|memory ?pool):? (?:is |has |ran )?(?:run )?out of memory\b")
_TRIES_AGAIN = late(r"(?i)\b(?:retr(?:y|ies|ied|ying)|try(?:ing)? again|go(?:es|ing) on|fall(?:s|ing) back)\b")
_OF_A_FRAME: Final = frozenset({"none", "host_ram"})
LIST: Final = 8  # lines
# "[askedSpace:   4096 B]", "  free = 1.2 GiB": a name and its size; "Free: 2 MB, Needed: 9 MB": several
_NAMED_SIZE: Final = r"[A-Za-z][\w ./-]{1,40}?\s{0,16}[:=]\s{0,20}\d[\d.,]{0,24} ?(?:[KMGT]i?B|bytes|B)\b"
_FIGURE = late(rf"\W{{0,8}}{_NAMED_SIZE}(?:[,;] {_NAMED_SIZE}){{0,4}}[^\w\n]{{0,4}}$")
# A line of the kernel's log: "amdgpu 0000:03:00.0: ...", "[drm:amdgpu_cs_ioctl [amdgpu]] *ERROR* ..."
_OF_A_DRIVER = late(
    r"(?:\[\s{0,6}\d{1,9}\.\d{1,9}\] )?"
    r"(?:[a-z][\w-]{1,20} [\da-f]{4}:[\da-f]{2}:[\da-f]{2}\.\d: |\[drm(?:[:\]][^\n]{0,80}?)?\] \*ERROR\* "
    r"|[a-z]\w{1,40}_pages_\w{1,20}: )"  # "vfio_pin_pages_remote: ", drivers/vfio/vfio_iommu_type1.c
)
# "NAME=value OTHER=value program ...", as a shell is given it
_A_COMMAND = late(r"[^\w\n]{0,4}(?:\w{1,20} )?(?:[A-Z][A-Z0-9_]{2,60}=\S{0,200} {1,4}){2,20}[\w./-]")
_OF_A_TRACE = late(r"\w\+0x[\da-f]{1,8}/0x[\da-f]{1,8}")
_FRAMES: Final = 3  # lines: a frame and its source
_FAULT: Final = late(rf"(?i){DEVICE_FAULT}")
BESIDE_A_FAULT: Final = mark(
    "a fault of the GPU (such as a bad address) stands beside it: after that every call fails; not a lack of memory"
)
_OF_OPENCL: Final = "CL_OUT_OF_RESOURCES"  # cl.h, -5
_CARD = late(
    r"(?i)cuda|gpu|nvidia|\brocm|\bhip\b|[nxt]pu\b|torch|tensorflow|\bjax|vllm|sglang(?!/multimodal_gen)|transformers|accelerat|\bdevice"
    r"|\bdml ?allocator|directml"
    r"|^:\d:(?!elf)\w{1,40}\.cpp {0,40}: ?\d{1,6} {0,4}: \d{1,20} us:"  # ROCclr's log: rocclr/platform/command.cpp
    r"|\b(?:max[ _])?mem(?:ory)?[ _](?:reserved|allocated)[:= ] ?\d"  # what PyTorch counts of a card
    r"|[/_]metal[/_.]|tensorrt|\bmodel\b|deepspeed/|bitsandbytes|xformers|flash_?attn|\btriton\b|exllama|cutlass|/cu(?:ml|df|py)/|pooled_storage_manager"
)

# "Freeing memory cache and retrying": what an allocation that fails again was of
_OF_MEMORY = late(r"(?i)\b(?:free|clear|releas|empty|flush|purg|evict|trim)\w{0,4} (?:\w{1,8} ){0,2}(?:memory|cache)")
_ABOVE: Final = 3  # lines

# "ERROR: allocation failed", and not a word on what was to be had: no address, port or device
_ALLOCATION_FAILED = late(
    r"(?i)^(?!.*\b(?:ports?|ip|address\w{0,2}|subnets?|gpus?|devices?|nodes?|jobs?|resources?|quotas?|ids?|slots?|licen\w{2,4}"
    r"|seats?|tty|vlans?|volumes?|disks?|channels?|handles?|sockets?|threads?|workers?|dhcp|budget|profiler|inspector|tracer|telemetry|metrics)\b)(?:.{0,80}?(?:[\]:|>-]|\bERROR)\s?)?"
    r"(?:(?:re)?alloc(?:ation)? (?:has )?(?:failed|failure)|(?:failed|unable) to (?:re)?alloc(?:ate)?"
    r"|(?:could not|couldn't|cannot|can't) (?:re)?alloc(?:ate)?)(?: again)?\s?[.!]{0,3}$"
)


# "cannot allocate accVel": a variable of the program's, by its name in the source
_NO_MEMORY: Final = ("port", "addr", "address", "ip", "id", "job", "slot", "lease", "node", "device", "handle",
                     "socket", "channel", "vlan", "tty", "fd", "task", "gpu", "net", "network")  # fmt: skip
_VARIABLE = late(
    r"(?i:\W{0,4}(?:[\w./-]{1,60}: ){0,2}(?:(?:cannot|could not|couldn't|can't|unable to|failed to)"
    r" (?:re|m|c)?alloc(?:ate)?|(?:error|problem|failure) (?:in|while|when|during|with) (?:re)?allocat(?:ing|ion of)) )"
    r"['\"`*&]?"
    rf"(?!\w{{0,40}}(?:_(?:{'|'.join(_NO_MEMORY)})|{'|'.join(map(str.capitalize, _NO_MEMORY))})s?\b)"
    r"[a-z]{1,20}(?:[A-Z][a-z\d]{1,20}|_[a-z\d]{1,20}){1,4}['\"`]?"
    r"(?: in (?:\w{1,12} )?\w{1,60}(?:\(\))?)?\s?[.!]{0,3}$"
)
# What an engine's memory file does not hand out is a place in its cache, whatever it is called: "Cannot alloc mamba for
# load_back", "Logical allocation failed in alloc_extend"
_NOT_HANDED_OUT = late(
    r"(?i)^(?!.{0,400}\b(?:invalid|shape|dtype|unsupported|unknown|must be|negative|expected|missing"
    r"|not (?:supported|initiali[sz]ed|implemented))\b)"
    r".{0,400}?(?:\b(?:can ?not|can't|could not|couldn't|failed to|unable to) (?:re)?alloc(?:ate)? "
    r"(?!(?:with|without|before|after|until|when|while|because|from|in|on|twice)\b)"
    rf"(?!(?:\w{{1,12}} ){{0,2}}(?:{'|'.join(_NO_MEMORY)})s?\b)[a-z]"
    r"|\b(?:re)?alloc(?:ation)? (?:has |have )?failed (?:in|at|for|during) \w)"
)
_KEEPS_A_CACHE = late(r"(?i)kv[_-]?cache|token_to_kv|\bblock_(?:manager|pool)|\bpage_allocator")
# A program in Fortran frames what a routine failed at, with the number that ALLOCATE gave back:
# "Error in routine nlsm2 (5014):", and on the next line "allocating wrk2"
_OF_A_ROUTINE = late(
    r"(?i)\W{0,12}(?:fatal )?(?:error (?:in|from) (?:the )?(?:sub)?(?:routine|function|procedure|module)\b"
    r"|from \w{1,40} {0,4}: {1,4}error # {0,12}(?=\d))"
    r"[^\n]{0,80}?(?P<code>\d{1,6})?\W{0,6}$"
)
_ALLOCATING = late(
    r"(?i)\W{0,12}(?:(?:error|failure) (?:in|while|when) |cannot |could not |unable to |failed )?"
    r"(?:re)?alloc(?:at(?:e|ing|ion of))? (?:(?:[\w%(),]{1,30} )?on (?:the )?(?:gpu|device|card)"
    rf"|(?!.{{0,60}}\b(?:{'|'.join((*_NO_MEMORY, 'unit', 'file', 'stream'))})s?\b)"
    r"[\w%(),/&+ -]{1,60})\W{0,12}$"
)
# What the same file of a program goes on to say of a failure that it has only named: how much, and of how much
_GOES_FURTHER: Final = 4  # lines
_HEADING: Final = 3  # lines: a frame and an empty one may stand between
_OF_THE_HOST = late(r"(?i)cpu|host|sys(?:tem)?_?mem")
_OF_A_DEVICE = late(r"(?i)\b(?:gpu|device)\b|\w_d\b")
# ... and the code that asks for it there: "torch.zeros(n, device='cuda')", "x.to(dev)"
_NAMES_A_DEVICE = late(r"(?i)cuda|gpu|\bhip\b|[nx]pu\b|\bmps\b|\bdevice\b|\.to\(")
_OF_A_STATEMENT: Final = 6  # lines: the innermost frames


class Shortage(Event, frozen=True, kw_only=True):
    """Something could not have the memory that it asked for; in whose words, we do not know."""

    family = "unfamiliar"
    kind = "shortage"

    strength: int = 2

    refuser: str = "unknown"  # "framework", "library", "engine", "driver", "kernel" or "scheduler"
    tried_bytes: Usage[int | None] = None
    free_bytes: Usage[int | None] = None
    used_bytes: Usage[int | None] = None
    missing_bytes: Usage[int | None] = None
    total_bytes: Usage[int | None] = None
    limit_bytes: Threshold[int | None] = None
    limited: bool | None = None  # its words name a limit of the program's own
    unit: str | None = None  # of what is counted: "tokens", "blocks", "devices", ...
    needed: int | None = None
    available: int | None = None
    factors: tuple[int, ...] = ()  # what was multiplied for what is needed, and overflowed
    other_bytes: tuple[int, ...] = ()  # sizes that no word of ours names
    code: int | None = None  # the error's number

    def is_another(self, known: Event) -> bool:
        """What stands before the known message and tells of another memory, or of one that allocates beside the
        framework, is another failure or the reason for this one."""
        if self.at.line >= known.at.line:
            return False
        if SIDES[self.pool] != SIDES[known.pool]:
            return known.pool != "none"
        return self.refuser in BESIDE_THE_FRAMEWORK and known.family in OF_A_FRAMEWORK


def in_other_words(event: Event) -> bool:
    """Whether no family knows the event's own words."""
    return isinstance(event, Shortage) or event.read_as is not None


def read(page: Page, index: int) -> Iterator[Read]:
    text = message(page.lines[index].text[:CHARACTERS])
    is_raised = raised(page, index, text)
    if is_source(page, index, text) or _A_COMMAND.match(text) or not (is_raised or _is_last(page, index)):
        return
    if _is_a_status(text):
        return
    if is_raised and _is_a_headline(page, index, text):
        return
    if _follows_a_fault(page, index, text):
        if _FAULT.search(text) is None and shortfall(text, raised=is_raised) is not None:
            yield Lookalike(place_of(page, page.lines[index]), BESIDE_A_FAULT)
        return
    found = _known(page, index) or tuple(_short(page, index, text, is_raised=is_raised))
    if found and not _went_on(page, index, text):
        yield from found


def _is_a_status(text: str) -> bool:
    """Whether it lists what is in use of what there is, of several things, and nothing is said to lack: Ray Tune's
    "Resources requested: 16.0/64 CPUs, 4.0/8 GPUs"."""
    shares = _SHARES.findall(text)
    return len(shares) > 1 and all(float(used) <= float(whole) for used, whole in shares) and not _LACKS.search(text)


def _went_on(page: Page, index: int, text: str) -> bool:
    """Whether progress below tells that the program went on, or a note of a failure was followed by another try that
    came up. Beside a comparison an engine's end was looked for already."""
    if less_than_needed(text) is None and goes_on(page, index):
        return True
    return is_quiet(page, index, text) and came_up(page, index)


def _follows_a_fault(page: Page, index: int, text: str) -> bool:
    """Whether a kernel had failed: the driver refuses every later call, and OpenCL says of the fault itself no more
    than that resources ran out."""
    first = max(0, index - FAULT_LINES)
    last = index + FAULT_LINES if _OF_OPENCL in text else index
    return any(_FAULT.search(line.text[:AT_MOST]) for line in page.lines[first:last])


def _is_a_headline(page: Page, index: int, text: str) -> bool:
    """Whether the line below says it: "Check 'can_allocate(blocks)' failed at cache.cpp:96:"."""
    below = page.lines[index + 1 : index + 2]
    return (
        text.rstrip().endswith(":") and bool(below) and shortfall(below[0].text[:CHARACTERS], raised=True) is not None
    )


def _is_last(page: Page, index: int) -> bool:
    return page.ends and len(page.lines) - index <= LAST_WORDS


def _known(page: Page, index: int) -> tuple[Read, ...]:
    return tuple(_padded(page, index)) or tuple(_alike(page, index))


def _padded(page: Page, index: int) -> Iterator[Read]:
    """What the line says as a known message, where it was pasted with more blanks than that has."""
    text = page.lines[index].text
    plain = _BLANKS.sub(" ", text)
    if plain != text:
        known = (family for family in families() if not family.last and any(map(plain.__contains__, family.triggers)))
        yield from next((events for each in known if (events := _read_as(page, index, plain, each))), ())


def _alike(page: Page, index: int) -> Iterator[Read]:
    """What the known message says that the line is but for a word."""
    line = page.lines[index]
    found = likeness(line.text)
    if found is None or echo(line.text[:CHARACTERS]):
        return
    family = next(family for family in families() if family.name == found.family)
    for event in _read_as(page, index, found.text, family):
        yield replace(event, read_as=found.known)


def _read_as(page: Page, index: int, text: str, family: Family) -> tuple[Event, ...]:
    """The failures that a family reads of the line, were this its text."""
    first = max(0, index - AROUND)
    window = page.lines[first : index + AROUND]
    window[index - first] = replace(page.lines[index], text=text)
    events = family.read(Page(page.file, window, page.ends), index - first)
    return tuple(event for event in events if isinstance(event, Event) and event.role == "root")


def _short(page: Page, index: int, text: str, *, is_raised: bool) -> Iterator[Read]:
    """What its words and figures say of memory."""
    if not (is_raised or _is_the_very_last(page, index) or says_failed(text)) and is_quiet(page, index, text):
        return  # before its words are parsed: most lines say that they are no error's
    found = _heard(page, index, text, is_raised=is_raised)
    if found is None:
        yield from _unheard(page, index, text, is_raised=is_raised)
        return
    line = page.lines[index]
    pool = pool_of(found, text)
    further = page.lines[index + 1] if pool == "gpu" and is_raised and _tells_of_a_cache(page, index) else line
    if further is not line or _is_of_an_engines_cache(page, index, found):
        pool = "kv_cache"
    elif pool in _OF_A_FRAME:
        pool = _by_its_file(page, index) or pool
    refuser = refuser_of(pool, f"{line.mark.source or ''} {line.mark.name or ''} {text}")
    bare = pool == "none" and refuser == "unknown" and _is_bare(found, text) and not page.once(_names_a_card)
    if pool == "none" and _is_of_its_own_pool(found, text):
        pool = "host_ram"
    if pool == "none" and not bare:
        pool = _unnamed(page, refuser)
    yield Shortage(
        strength=1 if bare else 2,
        at=place_of(page, line, further),
        time=line.mark.time,
        process=_process(line, found),
        pool=pool,
        code=found.code,
        limited=_limited(page, index, text, found) or None,
        refuser=refuser,
        **_figures(page, index, found),
    )


def _unheard(page: Page, index: int, text: str, *, is_raised: bool) -> Iterator[Read]:
    """What a line says of memory in no sentence: by a heading above, its file, a variable's name, both its figures."""
    if (code := _failed_of_a_routine(page, index, text)) is not None:
        yield from _of_a_routine(page, index, text, code)
    elif is_raised and _NOT_HANDED_OUT.match(text) and _by_its_file(page, index) == "kv_cache":
        yield Shortage(**_origin(page, index), pool="kv_cache", refuser="engine")
    elif _VARIABLE.match(text):
        yield from _nameless(page, index, text, of_memory=True)
    elif _ALLOCATION_FAILED.match(text):
        above = page.before(index, _ABOVE)
        yield from _nameless(page, index, text, of_memory=any(_OF_MEMORY.search(line.text) for line in above))
    else:
        yield from _less_than_needed(page, index, text)
        yield from _compared(page, index, text, is_raised=is_raised)
        yield from _looked_up(page, index, text, is_raised=is_raised)
        yield from _beyond_any_machine(page, index, text, is_raised=is_raised)


def _origin(page: Page, index: int) -> dict[str, Any]:
    """Where, when and by which process the line was written."""
    line = page.lines[index]
    return {"at": place_of(page, line), "time": line.mark.time, "process": process_of(line)}


def _process(line: Line, found: Shortfall) -> Process:
    process = process_of(line, found.card)
    return process if process.rank is not None else replace(process, rank=found.rank)


def _figures(page: Page, index: int, found: Shortfall) -> dict[str, Any]:
    """Those of the line; where it has none, those that its file goes on with, or that stand alone right below it."""
    figures = stated(found.sentence.amounts, found.compared, asks=found.asks)
    if any(one.unit for one in found.sentence.amounts):
        return figures
    if (further := _told_further(page, index)) is not None:
        return stated(further.sentence.amounts, further.compared, asks=further.asks)
    below = list(takewhile(_is_a_figure, (line.text[:AT_MOST] for line in page.lines[index + 1 : index + 1 + LIST])))
    return listed("; ".join(text.strip(" []()\t") for text in below)) if below else figures


def _is_a_figure(text: str) -> bool:
    return _FIGURE.match(text) is not None


def _is_loud(page: Page, index: int, text: str, found: Shortfall) -> bool:
    if found.named and says_failed(text) and not is_collected(page, index):
        return True  # of one item, which the program passes over
    kernels = _is_a_kernels(page, index, text) and re.search("[CLV]", found.letters) is not None  # it prints no level
    return is_loud(page, index, text, sure=found.sure or found.opens or kernels, compared=found.compared is not None)


def _is_a_kernels(page: Page, index: int, text: str) -> bool:
    if _OF_A_TRACE.search(text):
        return False
    return page.lines[index].mark.name == "kernel" or _OF_A_DRIVER.match(text) is not None


def _by_its_file(page: Page, index: int) -> str | None:
    """The memory that the innermost frames hand out, or the file that the line was logged in: an engine's cache,
    DeepSpeed's pinned buffers, a card."""
    around = [line.text[:AT_MOST] for line in page.before(index, _FRAMES)]
    if (raised := _OF_A_MODULE.match(page.lines[index].text)) is not None:
        around.append(f'/{raised[1].replace(".", "/")}.py"')
    if (logged := _LOGGED_IN.search(page.lines[index].text[:AT_MOST])) is not None:
        around.append(f'/{logged[1].replace(".", "/")}.py"')
    if (source := page.lines[index].mark.source) is not None:
        around.append(f'/{source.partition(":")[0]}"')
    files = ((_HOST_FILE, "host_ram"), (_SWAPPING_FILE, "pinned"), (_CACHE_FILE, "kv_cache"), (OF_SHARED_MEMORY, "shm"),
             (_DEVICE_FILE, "gpu"))  # fmt: skip
    return next((pool for file, pool in files if any(file.search(text) for text in around)), None)


def _is_of_an_engines_cache(page: Page, index: int, found: Shortfall) -> bool:
    """Whether it speaks of a cache, and the innermost frames are an engine's."""
    words = {part.text.lower() for part in found.sentence.parts[found.start : found.end]}
    if "cache" not in words or re.search("[kpsovdmrD]", found.letters):
        return False
    return any(_ENGINE_FILE.search(line.text[:AT_MOST]) for line in page.before(index, _FRAMES))


def _is_the_very_last(page: Page, index: int) -> bool:
    return page.ends and not any(line.text for line in page.lines[index + VERY_LAST :])


def _heard(page: Page, index: int, text: str, *, is_raised: bool) -> Shortfall | None:
    """What the line says of memory, where it is an error's."""
    found = shortfall(text, raised=is_raised)
    if found is None:
        return waits(text) if _is_the_very_last(page, index) else None
    if is_raised:
        return None if _is_a_guess(page, index, text) else found
    if _OF_A_BATCH.search(text) and _tries_again_below(page, index):
        return None
    loud = _is_loud(page, index, text, found) or _gives_up_at_last(page, index, text, found)
    return found if loud and not ends_well(page, index) else None


def _gives_up_at_last(page: Page, index: int, text: str, found: Shortfall) -> bool:
    """Whether a warning that a pool is exhausted and refused a size, or that an allocator is out of memory, is the last
    word."""
    exhausted = _REFUSES_A_SIZE.search(found.sentence.letters) or _ALLOCATOR_OUT.search(text)
    if exhausted is None or found.kept:
        return False
    return is_warning(page, index, text) and _is_the_very_last(page, index)


def _tries_again_below(page: Page, index: int) -> bool:
    return any(_TRIES_AGAIN.search(line.text[:AT_MOST]) for line in page.after(index, VERY_LAST)[1:])


def _is_a_guess(page: Page, index: int, text: str) -> bool:
    """Whether it only suspects memory, and the exception that it was raised from is another one."""
    if echo(text) != ADVICE and not supposes(text):
        return False
    above = [line.text.strip() for line in page.before(index, _CHAIN) if line.text.strip()]
    chained = next((place for place in reversed(range(len(above))) if _CHAINED.match(above[place])), 0)
    cause = above[chained - 1] if chained else ""
    return is_exception(cause) and shortfall(cause, raised=True) is None and "emory" not in cause


def _nameless(page: Page, index: int, text: str, *, of_memory: bool) -> Iterator[Read]:
    """A failed allocation of which the line does not say what it was of: no memory need have been short, unless it
    was of a variable, or of what was freed above for a second try."""
    if not is_loud(page, index, text, sure=of_memory, compared=False) or ends_well(page, index):
        return
    found = Shortage(**_origin(page, index), strength=1)
    yield replace(found, strength=2, pool=_unnamed(page, "unknown")) if of_memory else found


def _failed_of_a_routine(page: Page, index: int, text: str) -> int | None:
    """The number of the error that a heading above gives a routine, which could not allocate; 0 where it gives none."""
    if _ALLOCATING.match(text) is None:
        return None
    above = (line.text[:AT_MOST] for line in reversed(page.lines[max(0, index - _HEADING) : index]))
    heading = next((found for one in above if (found := _OF_A_ROUTINE.match(one))), None)
    return None if heading is None else int(heading["code"] or 0)


def _of_a_routine(page: Page, index: int, text: str, code: int) -> Iterator[Read]:
    if ends_well(page, index):
        return
    yield Shortage(
        **_origin(page, index),
        pool="gpu" if _OF_A_DEVICE.search(text) else "host_ram",
        code=code or None,
    )


def _less_than_needed(page: Page, index: int, text: str) -> Iterator[Read]:
    """What an engine's cache has and what is to be had of it: it is handed out later, unless the engine ends of it."""
    line, counts = page.lines[index], less_than_needed(text)
    of_a_cache = counts and _KEEPS_A_CACHE.search(f"{line.mark.source or ''} {line.mark.name or ''} {text}")
    if counts is None or of_a_cache is None or ends_well(page, index):
        return
    if not is_loud(page, index, text, sure=False, compared=True):
        return
    yield Shortage(
        **_origin(page, index),
        pool="kv_cache",
        refuser="engine",
        needed=counts[0],
        available=counts[1],
    )


def _compared(page: Page, index: int, text: str, *, is_raised: bool) -> Iterator[Read]:
    """What a failed check on memory prints of both sides; its file is named in the line or below it."""
    amounts = compared_by_a_check(text)
    if amounts is None or echo(text) or ends_well(page, index):
        return
    if not (is_raised or is_loud(page, index, text, sure=True, compared=True)):
        return
    line = page.lines[index]
    near = f"{line.mark.source or ''} {' '.join(one.text[:AT_MOST] for one in page.after(index, _FRAMES))}"
    yield Shortage(
        **_origin(page, index),
        pool=_pool_of_a_check(page, text, near),
        tried_bytes=amounts[0],
        free_bytes=amounts[1],
    )


def _pool_of_a_check(page: Page, text: str, near: str) -> str:
    if _OF_THE_HOST.search(text):
        return "host_ram"
    return "gpu" if _OF_A_DEVICE.search(near) or page.once(_names_a_card) else "host_ram"


def _looked_up(page: Page, index: int, text: str, *, is_raised: bool) -> Iterator[Read]:
    """What the program itself looked at: the result of a call that it quotes, a size that it was about to take."""
    pool, count = refused_by_a_check(text), overflowed(text)
    advised = is_raised and mended_by_a_smaller_share(text)
    called, factors = refused_by_a_call(text) or advised, factors_of_overflow(text)
    if pool is None and count is None and not (called or factors):
        return
    if (echo(text) and not advised) or ends_well(page, index):
        return
    if pool is None and not (is_raised or is_loud(page, index, text, sure=about_to_take(text), compared=False)):
        return
    if called:
        pool = "gpu"
    yield Shortage(
        **_origin(page, index),
        pool=pool or (_place_of_a_size(page, index) if factors else _unnamed(page, "unknown")),
        needed=count,
        factors=factors,
    )


def _place_of_a_size(page: Page, index: int) -> str:
    """Where a size that no machine has was to be: no device is asked for it, and the code above names one or none."""
    near = (message(line.text[:AT_MOST]) for line in page.lines[max(0, index - _OF_A_STATEMENT) : index + 1])
    return "gpu" if any(_NAMES_A_DEVICE.search(text) for text in near) else "host_ram"


def _beyond_any_machine(page: Page, index: int, text: str, *, is_raised: bool) -> Iterator[Read]:
    """A request of a size that no machine has, which was refused as such."""
    tried = beyond_any_machine(text)
    if tried is None or echo(text) or ends_well(page, index):
        return
    if not (is_raised or is_loud(page, index, text, sure=True, compared=False)):
        return
    yield Shortage(
        **_origin(page, index),
        pool=_place_of_a_size(page, index),
        tried_bytes=tried,
    )


def _told_further(page: Page, index: int) -> Shortfall | None:
    """What the same file says of the failure right below, where it compares figures."""
    file = _file_of(page.lines[index])
    below = page.lines[index + 1 : index + 1 + _GOES_FURTHER] if file else ()
    said = (shortfall(message(line.text[:CHARACTERS]), raised=True) for line in below if _file_of(line) == file)
    return next((found for found in said if found is not None and found.compared is not None), None)


def _tells_of_a_cache(page: Page, index: int) -> bool:
    """Whether the exception's second line says that it was an engine's cache that found no room."""
    text = page.lines[index + 1].text[:CHARACTERS] if index + 1 < len(page.lines) else ""
    found = shortfall(text, raised=True)
    return found is not None and pool_of(found, text) == "kv_cache"


def _file_of(line: Line) -> str:
    return (line.mark.source or "").partition(":")[0]


def _limited(page: Page, index: int, text: str, found: Shortfall) -> bool:
    """Whether a limit of the program's own was hit, by the line or by what its file says below."""
    further = None if found.sentence.amounts else _told_further(page, index)
    return found.limited or _is_limited(found, text) or (further is not None and further.limited)


def _is_limited(found: Shortfall, text: str) -> bool:
    """Whether it names a setting of the program's, its virtual machine, or a pool that it has set aside."""
    if found.compared is not None and _GIVEN.search(text):
        return True
    if not found.sentence.amounts and _AT_ONCE.search(text):
        return True
    own = (OF_A_SETTING, _VIRTUAL_MACHINE, _POOL_EXHAUSTED, _LARGEST_ARRAY)
    return _is_of_its_own_pool(found, text) or any(words.search(text) for words in own)


def _is_of_its_own_pool(found: Shortfall, text: str) -> bool:
    return found.compared is not None and _POOL_OF_ITS_OWN.search(text) is not None


def _is_bare(found: Shortfall, text: str) -> bool:
    """Whether it says no more than "OOM", beside one word: not to whom, how much, nor of what."""
    if "emory" in text:
        return False
    letters = found.sentence.letters
    beside = re.sub(r"[:.,()]", "", letters[: found.start] + letters[found.end :])
    if len(beside) > 1 or found.sentence.amounts or found.code is not None or found.limited or found.waits:
        return False
    return not _is_limited(found, text)


def _unnamed(page: Page, refuser: str) -> str:
    """Which memory it was, by what stands around."""
    on_a_card = refuser != "kernel" and page.once(_names_a_card) and not page.once(_computes_on_the_cpu)
    return "gpu" if on_a_card else "host_ram"


def _names_a_card(page: Page) -> bool:
    return any(_CARD.search(message(line.text[:AT_MOST])) for line in page.lines)


def _computes_on_the_cpu(page: Page) -> bool:
    return any(ON_THE_CPU.search(line.text[:AT_MOST]) for line in page.lines)


FAMILY = Family(
    name="unfamiliar",
    anchors=(),
    triggers=(
        "emory", "MEM", " mem ", "RAM", "HBM", "vram", "lloc", "ALLOC", "eserv", "KV cache", "kv_", "kv ", "Kv",
        "blocks", "cells", "slots", "tokens", "bytes", "GiB", "uffer", "heap", "space", "GPUs", "NPUs", "devices",
        "esources", "atal",
        "ccelerator", "cards", "OUT_OF_RES", "OOM", "oom", "rror", "RROR", "ERR", "FATAL", "ail", "ill", "died",
        "efus", "enied", "eject", "annot", "ould not", "an't", "nable to", "xceed", "apacity", "full", "xhaust",
        "verflow", "enough", "no free", "ran out", "short", "ore than", "larger", "must be", "equire", " need",
        " want", " fit ", "aiting for", "unexpectedly", "存", "モリ", "peicher", "mémoire",
    ),
    read=read,
    last=True,
    otherwise=True,
)  # fmt: skip
