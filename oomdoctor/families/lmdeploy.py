"""LMDeploy, both engines: no room for the cache or the run, a cache that is full, and the size it settles on.

Its share (`cache_max_entry_count`) is one of the memory that is free once the weights are loaded, for the cache alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Lookalike, Read, Role, Threshold, Usage
from oomdoctor.families.lines import place_of
from oomdoctor.families.sentences import Sentence, bytes_of, count_of, number_of, reader, values
from oomdoctor.language import mark
from oomdoctor.streams import Page


class EngineShort(Event, frozen=True, kw_only=True):
    """The PyTorch engine found that what it needs does not fit beside the weights."""

    family = "lmdeploy"
    kind = "engine-short"

    strength: int = 2

    what: str  # "kv-cache", "state-cache", "runtime", "host-kv-cache"

    def identity(self) -> str:
        return f"{self.family} {self.kind} {self.what}"


class CacheFull(Event, frozen=True, kw_only=True):
    """TurboMind fails a request: the cache is full and nothing in it can be given up."""

    family = "lmdeploy"
    kind = "cache-full"
    once_a_log = True

    pool: str = "kv_cache"
    stage: str = "serving"
    strength: int = 2


class CacheSettled(Event, frozen=True, kw_only=True):
    """How large TurboMind's cache is: blocks up to 0.14, a budget since; and the session length that it allows."""

    family = "lmdeploy"
    kind = "cache-settled"

    role: Role = "context"
    pool: str = "gpu"
    stage: str = "kv_cache_init"

    block_bytes: Usage[int | None] = None
    kv_blocks: Usage[int | None] = None
    kv_bytes: Usage[int | None] = None
    free_bytes: Usage[int | None] = None  # once the weights are loaded
    asked_tokens: Usage[int | None] = None
    session_tokens: Usage[int | None] = None
    fraction: Threshold[float | None] = None


def _short(head: str, what: str, pool: str, stage: str) -> Sentence:
    return Sentence(head, EngineShort, {"what": what, "pool": pool, "stage": stage}, bare=True)


_SENTENCES = (
    _short("No enough gpu memory for kv cache", "kv-cache", "kv_cache", "kv_cache_init"),
    _short("No enough gpu memory for state cache", "state-cache", "kv_cache", "kv_cache_init"),
    _short("No enough gpu memory for runtime", "runtime", "gpu", "memory_profiling"),
    _short("No enough host memory for kv cache", "host-kv-cache", "host_ram", "kv_cache_init"),
    Sentence("cache out of memory, no request can be admitted", CacheFull, bare=True),
    Sentence("[BlockManager] ", CacheSettled),
    Sentence("Object cache budget:", CacheSettled),
    Sentence("No enough blocks for `session_len`", CacheSettled),
)

_CLAUSES = {
    "block_size": values(block_bytes=bytes_of),
    "blocks": values(kv_blocks=count_of),
    "budget": values(kv_bytes=bytes_of),
    "free": values(free_bytes=bytes_of),
    "ratio": values(fraction=number_of),
    "asked_len": values(asked_tokens=count_of),
    "length": values(session_tokens=count_of),
}

_LESS = "No enough memory. Update max_prefill_token_num="

_read_sentences = reader("lmdeploy", _SENTENCES, _CLAUSES)


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    if _LESS in line.text:
        yield Lookalike(place_of(page, line), mark("the engine continues with fewer tokens per step"))
    else:
        yield from _read_sentences(page, index)


FAMILY = Family(
    name="lmdeploy",
    anchors=("cache out of memory",),
    triggers=(_LESS, *(sentence.head for sentence in _SENTENCES)),
    read=read,
)
