"""What sounds like GPU memory running out and is something else: on-chip limits, faults, caught requests."""

from __future__ import annotations

from collections.abc import Iterator

from oomdoctor.families import Family
from oomdoctor.families.echoes import echo
from oomdoctor.families.event import Lookalike, Read
from oomdoctor.families.lines import place_of
from oomdoctor.patterns import late
from oomdoctor.streams import Page

ON_CHIP = "on-chip memory of one kernel, not the card's memory: the kernel's blocks are too large for this card"
FAULT = "a fault of the program or the card (a bad address, a failed check), not a lack of memory"
HARDWARE = "the driver's report of a fault of the card or of the program, not a lack of memory"

# The first that fits says why. "out of memory" sentences with figures are other families'.
_LOOKALIKES = tuple(
    (late(pattern), why)
    for pattern, why in (
        (r"out of resource: ", ON_CHIP),
        (r"(?:in|of) memory space (?:vmem|smem|cmem|sflag)\b", ON_CHIP),
        (r"too many resources requested for launch", "a kernel wants more registers than a block has"),
        (r"NVRM: Xid\b", HARDWARE),
        (r"uncorrectable (?:NVLink )?(?:ECC )?error", HARDWARE),
        (r"illegal memory access|misaligned address|unspecified launch failure|device-side assert triggered", FAULT),
        (r"caller indicates that this is not a failure", "the allocator's caller has another way (autotuning)"),
        (r"due to CUDA OOM\b", "caught: the work moves to the CPU and goes on"),
        (r"OutOfMemoryError in \w{1,60}, using CPU", "caught: the work moves to the CPU and goes on"),
        (r"OOM in all workers, skipping", "caught: the batch is skipped and training goes on"),
        (r"Batch size \d{1,9} failed, trying batch size \d", "a search for the largest batch that fits"),
        (r"CUDA OOMs: {1,20}0\b", "a counter that stands at zero"),
    )
)
_GPU_WORDS = late(r"(?i)\b(?:cuda|hip|gpu|torch|vram|nccl|device)\b")
_MEMORY_WORDS = late(r"OutOfMemoryError|out of memory|\bOOMs?\b")
# A printed exception and the allocator's own figures are never echoes.
_FAILURE = late(r"(?:Error|Exception): |[Tt]ried to allocate|failed|\bERROR\b")


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    text = line.text[:1200]
    why = next((why for pattern, why in _LOOKALIKES if pattern.search(text)), None)
    if why is None and _MEMORY_WORDS.search(text) and _GPU_WORDS.search(text) and not _FAILURE.search(text):
        why = echo(text)
    if why is not None:
        yield Lookalike(place_of(page, line), why)


FAMILY = Family(
    name="gpu_lookalike",
    anchors=("OutOfMemory",),
    triggers=(
        "out of resource: ",
        "memory space ",
        "resources requested for launch",
        "NVRM: Xid",
        "uncorrectable ",
        "illegal memory access",
        "misaligned address",
        "unspecified launch failure",
        "device-side assert triggered",
        "this is not a failure",
        "due to CUDA OOM",
        "OOM in all workers",
        "failed, trying batch size",
        "CUDA OOMs: ",
        "OutOfMemoryError",
        "CUDA OOM",
        "GPU OOM",
        "GPU out of memory",
        "VRAM",
    ),
    read=read,
)
