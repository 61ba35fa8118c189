"""A failure of memory in words that no family knows: a new version's, or a program's that nobody told us of.

A line that is a known message but for a word is read as that message (`likeness`). Others are read word by word:
something could not be had, that something is memory, and the line is an error's. What it was needed for is left to what
stands around it. A message that is known says more: where one tells of a failure, these are not heard.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from oomdoctor.families import Family, families, frames
from oomdoctor.families.echoes import echo
from oomdoctor.families.event import Event, Read
from oomdoctor.families.likeness import likeness
from oomdoctor.families.lines import goes_on, place_of, process_of
from oomdoctor.families.shortage import is_error, raised, says_so
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page
from oomdoctor.units import size

CHARACTERS: Final = 1000
LAST_WORDS: Final = 200  # lines before the end of a log: an error further up, which no exception told, was survived
ABOVE: Final = 12
AROUND: Final = 400  # lines that a family sees around a line that is read as its message
AT_MOST: Final = 400  # characters of a line beside it

_LOUD: Final = ("ERROR", "CRITICAL", "FATAL", "Error")
_QUIET: Final = ("TRACE", "DEBUG", "INFO", "NOTICE", "WARNING", "WARN", "Info", "Warning", "Debug")
_DONE = late(r"(?i)\b(?:finished|completed|done)\b(?!.{0,80}\b(?:fail|error))|exit(?:ed)?(?: with)?(?: code)? 0\b")
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
        ("cgroup", r"\bcgroup", "container", r"\boom[-_ ]kill", r"\bpod\b", r"\b(?:memory|resource) limit\b"),
        ("gpu", r"\bCUDA", r"\bcu(?-i:[A-Z])\w", r"\bGPU", r"\b(?:VRAM|HBM|HIP|XPU|NPU|TPU|ROCm|MPS|Vulkan)\b"),
        ("gpu", r"\bdevice", r"\b(?:graphics|video|card|accelerator)\b", r"\bXla", "RESOURCE_EXHAUSTED", r"\bNCCL"),
        ("host_ram", r"\bhost", r"\b(?:RAM|CPU|RSS|ENOMEM|node|machine|system|heap)\b", r"\b(?:malloc|mmap|numpy)"),
    )
)  # fmt: skip
_WORK_ON_A_CARD = late(r"(?i)\bcuda|\bgpu|torch/nn/|torch/_|vllm/|sglang/|deepspeed/|jax|accelerate/|transformers/")


class Shortage(Event, frozen=True, kw_only=True):
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
    of_frame = index and _FRAME.match(page.lines[index - 1].text) and not frames.is_exception(line.text)
    if _SOURCE.match(line.text) or of_frame:
        return False
    return raised(line.text) or (page.ends and len(page.lines) - index <= LAST_WORDS)


def _alike(page: Page, index: int) -> Iterator[Read]:
    """What the known message says that the line is but for a word."""
    line = page.lines[index]
    found = likeness(line.text)
    if found is None or echo(line.text[:CHARACTERS]):
        return
    first = max(0, index - AROUND)
    window = page.lines[first : index + AROUND]
    window[index - first] = replace(line, text=found.text)
    family = next(family for family in families() if family.name == found.family)
    for event in family.read(Page(page.file, window, page.ends), index - first):
        if isinstance(event, Event) and event.role == "root":
            yield replace(event, read_as=found.known)


def _short(page: Page, index: int) -> Iterator[Read]:
    """What its words say of memory."""
    line = page.lines[index]
    text = line.text[:CHARACTERS]
    if not _loud(line, text) or not says_so(text) or (not raised(text) and _ends_well(page, index)):
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
    return line.mark.level in _LOUD or raised(text) or is_error(text)


def _ends_well(page: Page, index: int) -> bool:
    """Whether something behind the line says that the job was done all the same."""
    behind = page.lines[index + 1 : index + 1 + LAST_WORDS]
    return any(_DONE.search(line.text[:AT_MOST]) for line in behind)


def _pool(page: Page, index: int, text: str) -> str:
    named = next((pool for pool, words in _POOLS if words.search(text)), None)
    if named is not None:
        return named
    above = page.before(index, ABOVE)
    return "gpu" if any(_WORK_ON_A_CARD.search(line.text[:AT_MOST]) for line in above) else "none"


FAMILY = Family(
    name="unfamiliar",
    anchors=(),
    triggers=("emory", "MEM", " mem ", "RAM", "HBM", "lloc", "ALLOC", "eserv", "KV cache", "OOM", "oom", "rror", "ail",
              "ill", "Kill", "died", "xceed", "apacity", "space", "full", "xhaust", "unexpectedly",
              "存", "モリ", "peicher", "mémoire", "blocks", " fit "),
    read=read,
    last=True,
    otherwise=True,
)  # fmt: skip
