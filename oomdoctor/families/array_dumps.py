"""The accounts that XLA and TensorFlow print around a refusal: pools, programs, the largest buffers and chunks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from oomdoctor.patterns import late, remembered
from oomdoctor.units import BINARY, size

MOST: Final = 5  # of the largest: they decide, the rest is many small ones


class ProgramBuffer(Struct, frozen=True, kw_only=True):
    """One of the largest tensors of a compiled program."""

    bytes: int | None = None
    shape: str | None = None  # "f32[1,64,1088,1920]"
    tile: str | None = None  # what the last axes are filled up to in the device's memory: "8,128"
    unpadded_bytes: int | None = None
    source: str | None = None  # the line of the program that computes it: "linear.py:449"

    @property
    def padding_bytes(self) -> int:
        """What it takes beyond its own numbers."""
        return (self.bytes or 0) - self.unpadded_bytes if self.unpadded_bytes else 0

    @property
    def lengths(self) -> list[int]:
        """Of its axes."""
        return [int(length) for length in (self.shape or "").partition("[")[2].rstrip("]").split(",") if length]


class Chunks(Struct, frozen=True, kw_only=True):
    """Pieces of one size that TensorFlow's pool holds."""

    count: int
    bytes: int
    total_bytes: int | None


AMOUNT: Final = r"[\d.]{1,20}\s?[KMGT](?:iB|B)?|\d{1,20}\s?(?:bytes|B)"  # "16.00GiB", TPU's bare "21.95G"; binary
_BARE: Final = r"[\d.]{1,20}[KMGTB]?"
_OF_BUFFERS: Final = r"[\d.]{1,20}\s?[KMGT]?i?B"
# One figure per line.
_FIGURES = tuple(
    (name, late(pattern))
    for name, pattern in (
        ("limit", r"(?:^|Stats: )\s{0,8}Limit:\s{1,60}(\d{1,20})\b"),
        ("in_use", r"^\s{0,8}InUse:\s{1,60}(\d{1,20})\b"),
        ("chunks", rf"Sum Total of in-use chunks: ({AMOUNT})"),
        ("max_in_use", r"^\s{0,8}MaxInUse:\s{1,60}(\d{1,20})\b"),
        ("largest", r"^\s{0,8}MaxAllocSize:\s{1,60}(\d{1,20})\b"),
        ("largest_free", r"^\s{0,8}LargestFreeBlock:\s{1,60}(\d{1,20})\b"),
        ("free", r"Free memory/Total memory: (\d{1,20})/\d"),
        ("total", r"Free memory/Total memory: \d{1,20}/(\d{1,20})\b"),
        ("reserved", rf"^\s{{1,12}}reserved\s{{1,30}}({_BARE})\s{{0,4}}$"),
        ("program", rf"^\s{{1,12}}program\s{{1,30}}({_BARE})\s{{0,4}}$"),
        ("arguments", rf"^\s{{1,24}}parameter allocation:\s{{1,12}}({_OF_BUFFERS})\s{{0,4}}$"),
        ("arguments", rf"^\s{{1,12}}arguments\s{{1,30}}({_BARE})\s{{0,4}}$"),
        ("constants", rf"^\s{{1,24}}constant allocation:\s{{1,12}}({_OF_BUFFERS})\s{{0,4}}$"),
        ("temporary", rf"^\s{{1,24}}preallocated temp allocation:\s{{1,12}}({_OF_BUFFERS})\s{{0,4}}$"),
        ("temporary", rf"^\s{{1,12}}HLO temp\s{{1,30}}({_BARE})(?:\s|$)"),
        ("outputs", rf"^\s{{1,24}}maybe_live_out allocation:\s{{1,12}}({_OF_BUFFERS})\s{{0,4}}$"),
        ("needed", rf"^\s{{1,24}}total allocation:\s{{1,12}}({_OF_BUFFERS})\s{{0,4}}$"),
        ("fragmentation", rf"^\s{{1,24}}total fragmentation:\s{{1,12}}({_OF_BUFFERS})\s"),
        ("region", r"(?:total_region_allocated_bytes_|Total bytes in pool): (\d{1,20})\b"),
        ("limit", r"\bmemory_limit_: (\d{1,20})\b"),
        ("tried", rf"\bBin for ({AMOUNT}) was\b"),
        ("available", r"\bavailable bytes: (\d{1,20})\b"),
    )
)
_BUFFER_SIZE = late(rf"^\s{{1,24}}(?:\d{{1,3}}\. )?Size: ({AMOUNT})")
_BUFFER_SHAPE = late(r"^\s{1,24}Shape: (\w{1,20}\[[\d,]{0,200}\])(?:\{[\d,]{1,40}:T\((\d{1,5},\d{1,5})\))?")
_BUFFER_UNPADDED = late(rf"^\s{{1,24}}Unpadded size: ({_BARE})\s{{0,4}}$")
_BUFFER_SOURCE = late(r'source_file="[^"]{0,300}?([\w.+-]{1,80})" source_line=(\d{1,7})\b')
_BUFFER_END = late(r"^\s{1,24}={6,40}\s{0,4}$")
_CHUNKS = late(rf"\b(\d{{1,9}}) Chunks of size (\d{{1,20}}) totalling ({AMOUNT})")
_SIZE = late(r"([\d.]{1,40})\s?(\w{0,5})")


def bytes_of(text: str) -> int | None:
    match = _SIZE.match(text)
    return size(match[1], match[2], BINARY) if match else None


def account(texts: Sequence[str]) -> dict[str, Any]:
    """The figures of the lines, by the names of the event's fields; a limit of 0 is none."""
    found: dict[str, Any] = {}
    for text in texts:
        for name, size_bytes in _figures(text):
            found.setdefault(name, size_bytes)
    summed = found.pop("chunks_bytes", None)
    if summed is not None:
        found.setdefault("in_use_bytes", summed)
    if buffers := tuple(islice(_buffers(texts), MOST)):
        found["buffers"] = buffers
    if chunks := sorted(_chunks(texts), key=lambda one: -one.count * one.bytes)[:MOST]:
        found["chunks"] = tuple(chunks)
    return found


@remembered
def _figures(text: str) -> tuple[tuple[str, int], ...]:
    found = ((name, bytes_of(match[1])) for name, pattern in _FIGURES if (match := pattern.search(text)))
    return tuple((f"{name}_bytes", size) for name, size in found if size or (size == 0 and name != "limit"))


def _buffers(texts: Iterable[str]) -> Iterable[ProgramBuffer]:
    """The compiler lists them by size, the largest first, each with a rule below it."""
    said: dict[str, Any] = {}
    for text in texts:
        if match := _BUFFER_SIZE.search(text):
            said = {"bytes": bytes_of(match[1])}
        elif match := _BUFFER_SHAPE.search(text):
            said |= {"shape": match[1], "tile": match[2]}
        elif match := _BUFFER_UNPADDED.search(text):
            said["unpadded_bytes"] = bytes_of(match[1])
        elif match := _BUFFER_SOURCE.search(text):
            said["source"] = f"{match[1]}:{match[2]}"
        elif said and _BUFFER_END.search(text):
            yield ProgramBuffer(**said)
            said = {}
    if "shape" in said:
        yield ProgramBuffer(**said)


def _chunks(texts: Iterable[str]) -> Iterable[Chunks]:
    for text in texts:
        if match := _CHUNKS.search(text):
            yield Chunks(count=int(match[1]), bytes=int(match[2]), total_bytes=bytes_of(match[3]))
