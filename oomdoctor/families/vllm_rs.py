"""vllm.rs and xInfer, which goes on from it: how full the KV cache is, and a prompt that finds no room in it.

Up to 0.10 the free part is what no sequence and no cached prefix holds; since 0.11 prefixes are evicted before a prompt
is refused, in other words (src/core/engine.rs).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oomdoctor.families import Family
from oomdoctor.families.echoes import echo
from oomdoctor.families.event import Event, Read, Role, Threshold, Usage
from oomdoctor.families.lines import place_of, process_of
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page
from oomdoctor.units import GIB


class CacheUsage(Event, frozen=True, kw_only=True):
    """What is free of the KV cache once a sequence has ended."""

    family = "vllm_rs"
    kind = "cache-usage"

    role: Role = "context"
    pool: str = "kv_cache"
    stage: str = "serving"

    free_tokens: Usage[int | None] = None
    used_fraction: Usage[float | None] = None
    kv_bytes: Threshold[int | None] = None


class PromptRefused(Event, frozen=True, kw_only=True):
    """A prompt needs more tokens of the KV cache than are free."""

    family = "vllm_rs"
    kind = "prompt-refused"

    pool: str = "kv_cache"
    stage: str = "serving"
    strength: int = 3

    tried_tokens: Usage[int | None] = None
    free_tokens: Usage[int | None] = None
    evicts: bool = False  # the prefixes that it keeps of other prompts


_REFUSED: Final = "kvcache tokens, but your "
_USAGE: Final = "GPU Kvcache: "
_PROMPT = late(
    r"Remaining (\d{1,15}) kvcache tokens, but your (prompt requires|request requires at least) (\d{1,15})\b"
)
_FREE = late(
    r"GPU Kvcache: \d{1,15} blocks \((\d{1,15}) tokens\) free, used (\d{1,3}(?:\.\d+)?)% "
    r"\(\d{1,6}(?:\.\d+)?GB/(\d{1,6}(?:\.\d+)?)GB\)"
)
_SINCE_IT_EVICTS: Final = "request requires at least"
CHARACTERS: Final = 2000


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    event = _prompt(page, line) or _usage(page, line)
    if event is not None:
        yield event


def _prompt(page: Page, line: Line) -> Event | None:
    text = line.text[:CHARACTERS]
    match = _PROMPT.search(text)
    if match is None or echo(text) is not None:
        return None
    return PromptRefused(
        at=place_of(page, line),
        time=line.mark.time,
        process=process_of(line),
        free_tokens=int(match[1]),
        tried_tokens=int(match[3]),
        evicts=match[2] == _SINCE_IT_EVICTS,
    )


def _usage(page: Page, line: Line) -> Event | None:
    match = _FREE.search(line.text[:CHARACTERS])
    if match is None:
        return None
    return CacheUsage(
        at=place_of(page, line),
        time=line.mark.time,
        process=process_of(line),
        free_tokens=int(match[1]),
        used_fraction=round(float(match[2]) / 100, 6),
        kv_bytes=round(float(match[3]) * GIB),  # SIZE_IN_GB of src/core/scheduler.rs
    )


FAMILY = Family(name="vllm_rs", anchors=(_REFUSED,), triggers=(_REFUSED, _USAGE), read=read)
