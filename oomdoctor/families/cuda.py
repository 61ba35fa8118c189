"""The GPU allocator's "out of memory" sentence, from PyTorch 1.0 to 2.13, on every kind of device it knows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from oomdoctor import grammars
from oomdoctor.families import Family
from oomdoctor.families.echoes import echo
from oomdoctor.families.event import Event, Lookalike, Place, Read, Role, Usage
from oomdoctor.families.lines import PROGRESS, place_of, process_of
from oomdoctor.families.loudness import is_warning
from oomdoctor.language import mark
from oomdoctor.patterns import late, remembered
from oomdoctor.streams import Line, Page
from oomdoctor.units import BINARY, size

# Long enough for the longest generation with a dozen "Process ... has" clauses, wrapped at 80 columns.
SENTENCE_LINES = 24
SENTENCE_CHARACTERS = 4000
# A chain of exceptions on one line repeats the sentence a few times; a hostile line repeats its head for ever.
HEADS_OF_A_LINE = 8
LINES_TO_DEATH = 200
BEFORE_CHARACTERS = 600
TITLE_LINES = 3
TITLE_GAP = 6


class OtherProcess(Struct, frozen=True, kw_only=True):
    """One "Process 12504 has 14.34 GiB memory in use": in containers this may be the process itself."""

    pid: int
    bytes: int | None


class DeviceOutOfMemory(Event, frozen=True, kw_only=True):
    """One refused allocation, with what the allocator printed about the card."""

    family = "cuda"
    kind = "out-of-memory"

    pool: str = "gpu"
    strength: int = 3

    device: str  # CUDA, HIP, XPU, DPCPP, NPU, MPS, MUSA, MLU, HPU
    tried_bytes: Usage[int | None] = None
    beyond_bytes: Usage[int | None] = None  # "more than 1EB": the size itself is not printed
    free_bytes: Usage[int | None] = None
    total_bytes: Usage[int | None] = None
    in_use_bytes: Usage[int | None] = None  # this process, with what is not PyTorch's
    allocated_bytes: Usage[int | None] = None
    reserved_bytes: Usage[int | None] = None
    unallocated_bytes: Usage[int | None] = None
    private_pools_bytes: Usage[int | None] = None
    allowed_bytes: Usage[int | None] = None
    cached_bytes: Usage[int | None] = None
    active_bytes: Usage[int | None] = None
    other_allocations_bytes: Usage[int | None] = None  # MPS: what the Mac holds outside PyTorch
    # What was hit where it is not the card: "fraction", "per-allocation", "watermark"
    limit: str | None = None
    backend: str | None = None  # "cudaMallocAsync", "workspace": where the sentence is not the caching allocator's
    others: tuple[OtherProcess, ...] = ()


class AllocatorAdvice(Event, frozen=True, kw_only=True):
    """The hint at the end of the sentence. It is printed always, so it is evidence of nothing."""

    family = "cuda"
    kind = "allocator-advice"

    role: Role = "advice"
    pool: str = "gpu"

    advises: str  # "max_split_size_mb", "expandable_segments:True", "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0", ...


# The tree's node names under which a figure stands, by the field that holds it.
_FIELDS = {
    "tried": "tried_bytes", "requested": "tried_bytes",
    "total": "total_bytes", "capacity": "total_bytes", "limit": "total_bytes",
    "free": "free_bytes", "available": "free_bytes", "according_to_cuda": "free_bytes",
    "own": "in_use_bytes",
    "allocated": "allocated_bytes", "already": "allocated_bytes", "already_async": "allocated_bytes",
    "mps_allocated": "allocated_bytes",
    "reserved": "reserved_bytes",
    "cached": "cached_bytes",
    "active": "active_bytes",
    "unallocated": "unallocated_bytes",
    "private": "private_pools_bytes",
    "allowed": "allowed_bytes", "fraction": "allowed_bytes", "mps_allowed": "allowed_bytes",
    "mps_other": "other_allocations_bytes",
}  # fmt: skip

_HEAD = late(
    r"\b(?P<device>(?i:CUDA)|HIP|XPU|NPU|MUSA|MLU|DPCPP|HPU|MPS) (?:backend )?[Oo]ut of memory\b"
    r"|(?P<async>\bAllocation on device(?: \d{1,4})? would exceed allowed memory"
    r"|(?:(?<=Error: )|(?<=processing !!! ))Allocation on device\b)"
    r"|(?P<block>Current platform can NOT allocate memory block with size larger than)"
    r"|(?P<metal>\bInvalid buffer size: )"
    r"|(?P<gaudi>\bAllocation failed for size::)"
    # the sentence without its head, which stood on a line that is not there
    # ... and where whoever shortened it left the exception's name alone
    r"|(?P<named>(?<=OutOfMemoryError: )Tried to allocate (?=[\d.]{1,12} [KMG]iB(?:\.| \(GPU)))"
    r"|(?P<cut>^\W{0,20}(?:Runtime ?Error ?: {0,2})?Tried to allocate (?=[\d.]{1,12} [KMG]iB(?:\.| \(GPU)))"
)
_IN_HEADS = (
    "ut of memory",
    "Allocation on device",
    "memory block with size",
    "Invalid buffer",
    "Allocation failed for",
)
_LIMITS = (
    (late(r"memory block with size larger than"), "per-allocation"),
    (late(r"^Invalid buffer size"), "per-allocation"),
    (late(r"would exceed per_process_memory_fraction limit"), "fraction"),
    (late(r"max allowed:"), "watermark"),
)
_ADVICE = late(
    r"(?P<split>max_split_size_mb)|(?P<segments>expandable_segments(?::True)?)|(?P<empty>empty_cache)"
    r"|(?P<watermark>PYTORCH_MPS_HIGH_WATERMARK_RATIO=0\.0)"
)
_ADVISES = {
    "split": "max_split_size_mb",
    "segments": "expandable_segments:True",
    "empty": "empty_cache",
    "watermark": "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0",
}

_SIZE = late(r"(-?[\d,.]{1,40})\s{0,4}(\w+)")
_BYTES = late(r"size::(\d{1,20})\b(?!\.\d)")
# MLU glues "GiBis free"; NPU glues "MiB(NPU 0"; a repr keeps "\n" as two characters.
_GLUED = late(r"(?<=[KMGT]iB)(?=is\b|\()|\\n")

# "12.44 GiB free of 79.19", as people shorten it: the unit is that of its neighbour.
_SAME_UNIT = late(r"(?P<unit> [KMG]iB) free of \d[\d.]{0,12}(?![\d.]| ?[KMGT]i?B)")

# What the sentence consists of: a line that is mostly made of these words goes on with it.
_WORDS = """
tried to allocate gpu has a total capacity capacty of which is free process memory in use including non pytorch this
allowed the allocated by with private pools e g cuda hip graphs and reserved but unallocated if large try setting
pytorch_cuda_alloc_conf pytorch_alloc_conf pytorch_hip_alloc_conf pytorch_musa_alloc_conf expandable_segments true
max_split_size_mb avoid fragmentation see documentation for management https pytorch org docs stable notes html
environment variables optimizing usage already current active cached npu currently requested device limit according
set user supplied fraction mib gib kib bytes please empty_cache release all unoccupied system failure disable upper
pytorch_mps_high_watermark_ratio may cause allocations pool on
"""
_VOCABULARY = frozenset(_WORDS.split())
_LETTERS = late(r"[A-Za-z_]{1,60}")
_RECORD = late(r"^\s*(?:Traceback \(|File \"|During handling|The above exception)")

# An exception's or a logger's own words stand directly before the sentence, or nothing does.
_SAID = late(
    r"(?:^[\s|>!\[\]()\"'*-]*|(?:Error|Exception)['\"]?\s?[:(]\s?\(?['\"]?\s?|!!!\s|\bERROR\b.{0,120}[:\]]\s?)$"
)

# 'If you see "RuntimeError: CUDA out of memory", ...': quoted, for the case that it is met
_CITED = late(r"(?i)\b(?:if|when(?:ever)?|unless|in case)\b[^\n]{0,80}[\"'`“][\w.: ]{0,60}$")
_SAID_SO_FAR = late(r"\s{0,4}(?:[.,:;!)\]}'\"(\\]|$|at\b|on\b|while\b|(?i:tried)\b|device\b|would\b)")

_TAKEN_ANOTHER_WAY = (
    (late(r"Plan failed with an? \w{0,20}OutOfMemoryError"), mark("cuDNN tried a plan and takes another one")),
    (
        late(r"for benchmark choice|Ignoring this choice|(?i:error during auto-?tuning: ?$)"),
        mark("autotuning: the compiler tried a kernel and takes another one"),
    ),
    (
        late(
            r"(?i)\b(?:skipping|skipped|retrying|will retry|falling back|using CPU|switching to"
            r"|chang(?:es?|ing|ed) to (?:the )?(?:DRAM|RAM|CPU|host|disk)|capp(?:ed|ing) (?:at|below|to)"
            r"|(?:uses|takes) the (?:\w{1,16}[- ]){1,2}(?:loop|path|kernel|backend))\b"
        ),
        mark("caught: the program says that it continues in another way"),
    ),
)
# fairseq's and metaseq's, which says no more: whether the training went on, the lines behind it show.
_CAUGHT = late(r"(?i)ran out of memory with exception")
# The warning of FSDP's state_dict: it goes on with a broken state, and the job may die of that.
_GOES_ON_BROKEN = late(r"Failed to clone\(\) tensor|Please check clone implementation")
# optuna/study/_optimize.py, where the study catches the error
_TRIAL_FAILED = late(r"\b[Tt]rial \d{1,9} failed\b")
_TRIAL_DONE = late(r"\b[Tt]rial \d{1,9} (?:finished|completed)\b")
# What a program makes ready and can do without, where it only warns of it: "Failed to warm up: CUDA out of memory"
_PREPARES = late(
    r"(?i)\b(?:fail(?:s|ed|ure)?|could not|cannot|unable|error)\b[^:\n]{0,40}"
    r"\b(?:warm(?:ing)?[- ]?up|prefetch\w{0,3}|pre-?compil\w{1,4}|auto-?tun\w{1,3}|captur\w{1,3})\b[^:\n]{0,40}: ?$"
)
_ERROR = late(r"^\s{0,8}(?:\w{1,60}\.){0,6}\w{0,60}(?:Error|Exception)\b: \S")
_FRAME = late(r'\s{0,8}(?:Traceback \(most recent|File ")')
_CLASS = late(r"\w(?:Error|Exception)\b")
# torch/distributed/distributed_c10d.py, 1.8 to 2.9: how long an object is, the ranks tell each other before the object
_SIZE_OF_OBJECTS = late(
    r"\bobject_sizes?_(?:tensor|list)\b|\bmax_object_size\b|\b(?:gather|broadcast|recv|scatter)_object"
)
# Whose sizes come from elsewhere: another rank, a file, what a kernel left on the card. A broken one is no shape's.
_SIZE_FROM_ELSEWHERE = late(
    r"(?i)c10d|torch/distributed|process_?group|watchdog|tim(?:ed?|ing) ?out|collective|[nhr]ccl\b|gloo\b|horovod"
    r"|mpi4py|gather|broadcast|scatter|all_?reduce|across_processes|\bi?(?:recv|send)(?:_\w{1,20})?\b|\brpc\b"
    r"|pickle|serial|_object\b|object_|\.item\(|\.tolist\(|from_?buffer|frombytes|\bheader|\bmeta(?:data)?_"
    r"|illegal memory access|device-side assert"
)
_EXABYTE: Final = 1 << 60  # c10/cuda/CUDACachingAllocator.cpp: one_exa_bytes
_OF_A_FRAME: Final = 3  # lines: a frame, its source and the marks below it
_AROUND_A_SIZE: Final = 60  # lines
_DEATH = late(r"^\s*Traceback \(most recent|\b[Ee]xit ?code\b.{0,8}[1-9-]|\b(?:Killed|Aborted)\b")


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    heads = _heads(line.text)
    told: set[tuple[tuple[str, Any], ...]] = set()
    for position, head in enumerate(heads):
        last = position + 1 == len(heads)
        end = len(line.text) if last else heads[position + 1].start()
        text, lines = _sentence(page, index, line.text[head.start() : end], go_on=last)
        found = _refusal(page, index, head, text, lines)
        key = tuple(found.figures("usage").items()) if isinstance(found, DeviceOutOfMemory) else ()
        if found is None or (key and key in told):
            continue
        told.add(key)
        yield found
        if isinstance(found, DeviceOutOfMemory):
            yield from _advice(page.file, text, lines, found)


def _heads(text: str) -> list[re.Match[str]]:
    first = _HEAD.search(text)
    if first is None or not any(text.find(word, first.end()) >= 0 for word in _IN_HEADS):
        return [first] if first else []
    return list(islice(_HEAD.finditer(text), HEADS_OF_A_LINE))


def _sentence(page: Page, index: int, text: str, *, go_on: bool) -> tuple[str, list[Line]]:
    """The whole sentence with the lines it stands on."""
    lines = [page.lines[index]]
    parts = [text]
    if go_on:
        for line in page.after(index, SENTENCE_LINES)[1:]:
            if not _goes_on(line.text):
                break
            lines.append(line)
            parts.append(line.text.strip())
    whole = _apart(" ".join(parts)[:SENTENCE_CHARACTERS])
    return _SAME_UNIT.sub(lambda match: match[0] + match["unit"], whole), lines


def _apart(text: str) -> str:
    return _GLUED.sub(" ", text) if any(sign in text for sign in ("iBis", "iB(", "\\n")) else text


def _goes_on(text: str) -> bool:
    words = [word.lower() for word in _LETTERS.findall(text[:300])]
    known = sum([word in _VOCABULARY for word in words])
    if not words or known * 3 < len(words) * 2:
        return False
    head = _HEAD.search(text)
    return not ((head and not head["cut"]) or _RECORD.match(text))


def _refusal(page: Page, index: int, head: re.Match[str], text: str, lines: list[Line]) -> Read | None:
    first = lines[0]
    figures, others, gpu = _figures(text)
    place = place_of(page, first, lines[-1])
    if "beyond_bytes" in figures and not _is_of_a_shape(page, index):
        return Lookalike(place, _of_a_corrupt_size(page, index))
    before = first.text[max(0, head.start() - BEFORE_CHARACTERS) : head.start()]
    if head["cut"] and not {"total_bytes", "free_bytes"} & figures.keys():
        return None
    device = (head["device"] or "").upper() or next(_DEVICES[name] for name in _DEVICES if head[name])
    said = _SAID.search(before[-200:]) and _SAID_SO_FAR.match(first.text[head.end() :]) and not _CITED.search(before)
    if not figures and not said and not _titles_a_traceback(page, index, before):
        why = echo(first.text)
        return Lookalike(place, why) if why else None
    if _TRIAL_FAILED.search(before) and any(_TRIAL_DONE.search(line.text[:400]) for line in page.lines[index + 1 :]):
        return Lookalike(place, mark("a search lost one of its trials to it and went on with the next"))
    if warned := _warned_of(page, index, before, lines):
        return Lookalike(place, warned)
    rest = text if device != "MPS" else ""
    announced = before[-400:] if _LETTERS.search(before) else _title(page, index)
    for pattern, why in _TAKEN_ANOTHER_WAY:
        if (pattern.search(announced) or pattern.search(rest)) and not _dies_of_it(page, index, lines[-1]):
            return Lookalike(place, why)
    if _CAUGHT.search(before[-400:]) and not (_ends(page, lines[-1]) or _dies_of_it(page, index, lines[-1])):
        return Lookalike(place, mark("caught: the batch is skipped and training continues"))
    if not _raised(page, index, before) and _lives_on(page, index):
        return Lookalike(place, mark("caught: the program prints the error and continues"))
    return DeviceOutOfMemory(
        at=place,
        time=first.mark.time,
        process=process_of(first, gpu),
        strength=3 if figures else 2,
        device=device,
        limit=next((name for pattern, name in _LIMITS if pattern.search(text)), None),
        backend="cudaMallocAsync" if head["async"] else "workspace" if "WorkspaceAllocator" in text else None,
        others=tuple(others),
        **figures,
    )


def _title(page: Page, index: int) -> str:
    """The line above that ends with a colon: "Runtime error during autotuning:"."""
    above = "".join(line.text.rstrip()[-400:] for line in page.before(index, 1))
    return above if above.endswith(":") else ""


def _is_of_a_shape(page: Page, index: int) -> bool:
    """Whether the program's own line asked for more than 1 EB, and nothing around speaks of a size from elsewhere."""
    above = [line.text[:400] for line in page.before(index, _AROUND_A_SIZE)]
    if not any(_FRAME.match(text) for text in above[-_OF_A_FRAME:]):
        return False
    return not any(_SIZE_FROM_ELSEWHERE.search(text) for text in above)


def _of_a_corrupt_size(page: Page, index: int) -> str:
    """Where the size came from, as far as the lines above say."""
    if any(_SIZE_OF_OBJECTS.search(line.text[:400]) for line in page.before(index, _AROUND_A_SIZE)):
        return mark(
            "more than 1EB is a corrupt size that another rank sent, not a lack of memory: the ranks are not in the "
            "same call, or torch.cuda.set_device() was not called on each before"
        )
    return mark("more than 1EB is a corrupt size, not a lack of memory")


def _warned_of(page: Page, index: int, before: str, lines: list[Line]) -> str | None:
    """What the program can do without, and only warns of."""
    if _GOES_ON_BROKEN.search(before) and _lives_on(page, index):
        return mark("a warning: a copy could not be made, and the job continues")
    if _PREPARES.search(before) and is_warning(page, index, lines[0].text) and not _dies_of_it(page, index, lines[-1]):
        return mark("a warning: a warm-up failed, and the program continues without")
    return None


def _titles_a_traceback(page: Page, index: int, before: str) -> bool:
    """Whether a log begins with these words and goes on with a traceback that does not say why it was printed."""
    if before.strip() or not page.ends or page.lines[0].number != 1 or index >= TITLE_LINES:
        return False
    below = [line.text[:400] for line in page.after(index, LINES_TO_DEATH)[1:]]
    begins = any(_FRAME.match(text) for text in below[:TITLE_GAP])
    return begins and not any(_ERROR.match(text) for text in below)


_DEVICES = {"cut": "CUDA", "named": "CUDA", "async": "CUDA", "block": "DPCPP", "metal": "MPS", "gaudi": "HPU"}


def _figures(text: str) -> tuple[dict[str, Any], list[OtherProcess], int | None]:
    """What the sentence states, without what it leaves out."""
    figures: dict[str, Any] = {}
    others: list[OtherProcess] = []
    gpu = None
    if gaudi := _BYTES.search(text):
        return {"tried_bytes": int(gaudi[1])}, others, gpu
    if text.startswith("Invalid buffer size: "):
        return _known(tried_bytes=_tried(text.removeprefix("Invalid buffer size: "))), others, gpu
    for name, values in grammars.said("cuda", text):
        if name in ("tried", "requested") and values:
            figures.setdefault("tried_bytes", _tried(values[0]))
            figures["beyond_bytes"] = _EXABYTE if values[0].startswith("more than") else None
        elif name in _FIELDS and values:
            figures.setdefault(_FIELDS[name], _bytes(values[-1]))
        elif name == "process":
            others.append(OtherProcess(pid=int(values[0]), bytes=_bytes(values[1]) if len(values) > 1 else None))
        elif name == "gpu" and values and gpu is None:
            gpu = int(values[0])
    return _known(**figures), others, gpu


def _known(**figures: Any) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if value is not None and value is not False}


def _raised(page: Page, index: int, before: str) -> bool:
    """Whether an exception ends here: its class stands before the sentence, or a traceback above it."""
    above = page.before(index, LINES_TO_DEATH)
    return bool(_CLASS.search(before)) or any("Traceback (most recent" in line.text for line in above)


def _lives_on(page: Page, index: int) -> bool:
    return page.once(_last_progress) > index >= page.once(_last_death)


def _last_progress(page: Page) -> int:
    return _last(page, PROGRESS)


def _last_death(page: Page) -> int:
    return _last(page, _DEATH)


def _last(page: Page, pattern: re.Pattern[str]) -> int:
    """The index of the last line that holds the pattern; -1 where none does."""
    backwards = range(len(page.lines) - 1, -1, -1)
    return next((index for index in backwards if pattern.search(page.lines[index].text[:400])), -1)


def _ends(page: Page, last: Line) -> bool:
    """Whether the log ends with the line, but for a table of the allocator's."""
    behind = (line.text for line in reversed(page.lines) if line.number > last.number)
    return page.ends and all(text.startswith("|") or not text.strip() for text in behind)


@remembered
def _speaks_of_death(text: str) -> bool:
    return _DEATH.search(text) is not None


def _dies_of_it(page: Page, index: int, last: Line) -> bool:
    """Whether the process ends right after it said that it goes on, of this or of nothing that is printed."""
    below = page.lines[index + 1 : index + 1 + LINES_TO_DEATH]
    after = [line.text[:400] for line in below if line.number > last.number]
    death = next((position for position, text in enumerate(after) if _speaks_of_death(text)), None)
    if death is None or any(PROGRESS.search(text) for text in after[:death]):
        return False
    named = next((text for text in after[death:] if _ERROR.search(text)), "")
    return not named or "out of memory" in named


def _advice(file: str, text: str, lines: list[Line], refusal: DeviceOutOfMemory) -> Iterator[Read]:
    match = _ADVICE.search(text)
    if match is None or match.lastgroup is None:
        return
    line = next((line for line in lines if match[0] in line.text), lines[0])
    yield AllocatorAdvice(
        at=Place(file, line.number, line.end, line.raw),
        time=refusal.time,
        process=refusal.process,
        advises=_ADVISES[match.lastgroup],
    )


def _bytes(text: str) -> int | None:
    match = _SIZE.match(text if text[-1:].isalpha() else f"{text} GiB")
    return size(match[1], match[2], BINARY) if match else None


def _tried(text: str) -> int | None:
    """What was asked for is no driver's figure: a shape bug asks for more than any machine has, and means it."""
    match = _SIZE.match(text)
    if match is None or (factor := BINARY.get(match[2].lower())) is None:
        return None
    try:
        return round(float(match[1].replace(",", "")) * factor)
    except (ValueError, OverflowError):
        return None


FAMILY = Family(
    name="cuda",
    anchors=("out of memory", "OutOfMemory", "Tried to allocate "),
    triggers=(
        "out of memory",
        "CUDA Out of memory",
        "Allocation on device",
        "memory block with size larger than",
        "Invalid buffer size: ",
        "Allocation failed for size::",
        "Tried to allocate ",
    ),
    read=read,
)
