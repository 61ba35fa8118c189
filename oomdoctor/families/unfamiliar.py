"""A failure of memory in words that no family knows: a new version's, or a program's that nobody told us of.

A line that is a known message but for a word is read as that message (`likeness`). Others are read word by word:
something could not be had, that something is memory, and the line is an error's. What it was needed for is left to what
stands around it. A message that is known says more: where one tells of a failure, these are not heard.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from oomdoctor.families import Family, families
from oomdoctor.families.echoes import echo
from oomdoctor.families.event import Event, Read
from oomdoctor.families.likeness import likeness
from oomdoctor.families.lines import goes_on, place_of, process_of
from oomdoctor.patterns import late
from oomdoctor.records import dataclass
from oomdoctor.streams import Line, Page
from oomdoctor.units import size

CHARACTERS: Final = 1000
LAST_WORDS: Final = 200  # lines before the end of a log: an error further up, which no exception told, was survived
ABOVE: Final = 12

_FEW = r"(?:[\w'/()-]{1,24} ){0,4}"
# The last words of what ran out
_MEMORY = r"(?:mem\b|(?:\w{0,20}[ _-])?memory|VRAM|RAM|HBM|VMEM|DRAM|heap|KV[ -]?cache|cache blocks|swap)"
_ALLOCATE = r"(?:re-?)?(?:alloc\w{0,7}|malloc|mmap|reserv(?:e|ing))"
_GET = r"(?:map|obtain|acquire|get|grab|pin|grow|expand)"
_SIZE_OR_BUFFER = rf"(?:{_MEMORY}|\d ?[KMGT]i?B|bytes|buffers?)\b"
_ANYTHING = rf"(?:{_MEMORY}|\d ?[KMGT]i?B|bytes|buffers?|tensors?|blocks?|pages?|cache|pool|workspace|arena)\b"
_CANNOT = (
    r"(?:can ?not|can't|could ?n[o']t|could not|unable to|not able to|fail(?:s|ed|ure|ing)? (?:to|in|while)"
    r"|did not manage to|refus\w{2,3} to|'t)"
)
_SHORT = late(
    "(?i)"
    + "|".join(
        (
            # "short of memory", "no more device memory", "too little RAM"
            rf"\b(?:(?:out|short|shy) of|(?:ran|run|running) (?:out of|low on|short of)) {_FEW}{_MEMORY}\b",
            rf"\b(?:not enough|no (?:enough|sufficient|more|free|room|space)) {_FEW}{_MEMORY}\b",
            rf"\b(?:insufficient|too little|lack(?:s|ing)?(?: of)?|depleted|low on) {_FEW}{_MEMORY}\b",
            # "memory is exhausted", "memory limit exceeded", "exceeds the device's memory"
            rf"\b{_MEMORY} {_FEW}(?:exhaust\w{{2,4}}|deplet\w{{2,3}}|used up|overflow\w{{0,4}}|is full|insufficient)",
            rf"\b{_MEMORY} {_FEW}too (?:small|low)\b",
            rf"\b{_MEMORY} {_FEW}(?:limit|budget|capacity) (?:\w{{1,12}} ){{0,3}}(?:exceeded|passed|reached|hit)\b",
            rf"\b(?:exceed(?:s|ed|ing)?|exhaust(?:ed|ing)|passed|is (?:above|over)|goes over) {_FEW}{_MEMORY}\b",
            # "could not reserve 2 GiB", "unable to get pinned buffers", "allocation of 64 MiB refused"
            rf"\b{_CANNOT} {_FEW}(?:{_ALLOCATE} {_FEW}{_ANYTHING}|{_GET} {_FEW}{_SIZE_OR_BUFFER})",
            rf"\b{_ANYTHING} (?:\w{{1,12}} ){{0,3}}(?:can ?not|could not|couldn't) be (?:{_ALLOCATE}|obtained|mapped)",
            rf"\b(?:alloc\w{{0,7}}|reservation|malloc|mmap)\b {_FEW}(?:fail\w{{0,4}}|refused|rejected)",
            rf"\b(?:fail(?:ed|ure)|refused|rejected|denied) {_FEW}(?:alloc\w{{0,7}}|reservation)\b",
            # names of errors
            r"ALLOC(?:ATION)?_FAIL\w{0,3}|OUT_OF_(?:\w{1,20}_)?MEM\w{0,3}|\bENOMEM\b|NO_MEMORY",
            r"(?<![a-z])OOM(?![a-z])|(?<!\()\bOutOfMemory\w{0,20}",
        )
    )
)
_LOUD: Final = ("ERROR", "CRITICAL", "FATAL", "Error")
_QUIET: Final = ("TRACE", "DEBUG", "INFO", "NOTICE", "WARNING", "WARN", "Info", "Warning", "Debug")
_RAISED = late(
    r"(?:\w{1,60}(?:\.|::)){0,8}\w{0,60}(?:Error|Exception|Failure|Fault|Panic|Exit)\w{0,20}(?:: |\b)|panic: "
    r"|terminate called|\s{0,4}what\(\):|fatal(?: error)?: |FATAL: "
)
_ERROR = late(
    r"(?i)\b(?:error|fatal|fail(?:ed|ure)?|abort(?:ed|ing)?|panic|crash(?:ed)?|exception|killed|terminat\w{2,3})\b"
    r"|^[EF]\d{4} |^[EF] "
)
# What may happen or was kept from happening, up to the words of the shortage
_NOT_SAID = late(
    r"(?i)\b(?:if|when(?:ever)?|unless|would|should|may|might|could(?! ?n[o']t)|until|avoid\w{0,3}|prevent\w{0,3}"
    r"|reduc\w{1,3}|retr(?:y|ies|ying)|skip\w{0,4}|fall(?:ing|s)? ?back|ignor\w{1,3}|recover\w{0,3}|continu\w{1,3}"
    r"|warning|handl(?:ed|er|ing)|caught|protect\w{0,4})\b"
)
# What the program goes on with, behind them; who asks for nothing is short of nothing
_SURVIVED = late(
    r"(?i)\b(?:retrying|will retry|handl(?:er|ing)|skipp(?:ed|ing)|falling back|fall back|ignor(?:ed|ing)"
    r"|recover(?:ed|ing)|continuing|instead|using (?:the |a )?(?:default|smaller|CPU|slower)"
    r"|allocat\w{2,3} 0(?![\d.,]{0,20}\d))\b"
)
_FRAME = late(r"\s{0,12}File \"|\s{0,4}at ")
_SOURCE = late(r"\s{0,80}(?:[\w *&:<>.\[\]]{1,80}= ?)?[a-z]?[\"']")
_SIZE = late(r"\b(\d[\d,.]{0,20}) ?(bytes|[KMGT]i?B)\b")

# Which memory the words name, the narrower ones first.
_POOLS = tuple(
    (pool, late("(?i)" + "|".join(words)))
    for pool, *words in (
        ("kv_cache", r"\bKV[ _-]?(?:cache|pool|blocks?)", r"cache blocks", r"paged?[ _-](?:cache|pool)"),
        ("pinned", r"\bpin(?:ned|ning)?\b", r"page-?locked", "HostAlloc", "HostRegister", "hipHostMalloc"),
        ("shm", r"\bshared memory\b", r"\bshm\b"),
        ("object_store", r"\bplasma\b", "object store"),
        ("cgroup", r"\bcgroup", "container", r"\bpod\b", r"\b(?:memory|resource) limit\b"),
        ("gpu", r"\bCUDA", r"\bcu(?-i:[A-Z])\w", r"\bGPU", r"\b(?:VRAM|HBM|HIP|XPU|NPU|TPU|ROCm|MPS|Vulkan)\b"),
        ("gpu", r"\bdevice", r"\b(?:graphics|video|card|accelerator)\b", r"\bXla", "RESOURCE_EXHAUSTED", r"\bNCCL"),
        ("host_ram", r"\bhost", r"\b(?:RAM|CPU|RSS|ENOMEM|node|machine|system|heap)\b", r"\b(?:malloc|mmap|numpy)"),
    )
)  # fmt: skip
_WORK_ON_A_CARD = late(r"(?i)\bcuda|\bgpu|torch/nn/|torch/_|vllm/|sglang/|deepspeed/|jax|accelerate/|transformers/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage(Event):
    """Something could not have the memory that it asked for; in whose words, we do not know."""

    family = "unfamiliar"
    kind = "shortage"

    strength: int = 2

    tried_bytes: int | None = None


def in_other_words(event: Event) -> bool:
    """Whether no family knows the event's own words."""
    return isinstance(event, Shortage) or event.read_as is not None


def read(page: Page, index: int) -> Iterator[Read]:
    if not _ends_a_program(page, index):
        return
    found = tuple(_alike(page, index)) or tuple(_short(page, index))
    if found and not goes_on(page, index):
        yield from found


def _ends_a_program(page: Page, index: int) -> bool:
    """Whether an exception says it, or one of the last lines of the log."""
    line = page.lines[index]
    if _SOURCE.match(line.text) or (index and _FRAME.match(page.lines[index - 1].text)):
        return False
    last = page.ends and len(page.lines) - index <= LAST_WORDS
    return last or _RAISED.match(line.text) is not None


def _alike(page: Page, index: int) -> Iterator[Read]:
    """What the known message says that the line is but for a word."""
    line = page.lines[index]
    found = None if echo(line.text[:CHARACTERS]) else likeness(line.text)
    if found is None:
        return
    corrected = [*page.lines[:index], replace(line, text=found.text), *page.lines[index + 1 :]]
    family = next(family for family in families() if family.name == found.family)
    for event in family.read(Page(page.file, corrected, page.ends), index):
        if isinstance(event, Event) and event.role == "root":
            yield replace(event, read_as=found.known)


def _short(page: Page, index: int) -> Iterator[Read]:
    """What its words say of memory."""
    line = page.lines[index]
    text = line.text[:CHARACTERS]
    short = _SHORT.search(text)
    if short is None or not _loud(line, text):
        return
    if _NOT_SAID.search(text, 0, short.end()) or _SURVIVED.search(text, short.end()) or echo(text[: short.end()]):
        return
    sizes = _SIZE.findall(text)
    yield Shortage(
        at=place_of(page, line),
        time=line.mark.time,
        process=process_of(line),
        pool=_pool(page, index, text),
        tried_bytes=size(sizes[0][0], sizes[0][1]) if len(sizes) == 1 else None,
    )


def _loud(line: Line, text: str) -> bool:
    if line.mark.level in _QUIET:
        return False
    return line.mark.level in _LOUD or _RAISED.match(text) is not None or _ERROR.search(text) is not None


def _pool(page: Page, index: int, text: str) -> str:
    named = next((pool for pool, words in _POOLS if words.search(text)), None)
    if named is not None:
        return named
    above = page.before(index, ABOVE)
    return "gpu" if any(_WORK_ON_A_CARD.search(line.text[:400]) for line in above) else "none"


FAMILY = Family(
    name="unfamiliar",
    anchors=(),
    triggers=("emory", "MEM", " mem ", "RAM", "HBM", "lloc", "ALLOC", "eserv", "KV cache", "OOM", "oom", "rror", "ail",
              "ill", "Kill", "died", "xceed", "apacity", "space", "full", "xhaust", "unexpectedly"),
    read=read,
    last=True,
    otherwise=True,
)  # fmt: skip
