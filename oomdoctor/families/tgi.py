"""Text Generation Inference: a warm-up that finds no memory, and the sizes that it settles on.

The server's error says to lower the prefill tokens, whatever fills the card; its fraction caps the whole process.
"""

from __future__ import annotations

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Role, Usage
from oomdoctor.families.sentences import Sentence, count_of, reader, values


class WarmupShort(Event, frozen=True, kw_only=True):
    """The largest batch that the settings let in did not fit in the warm-up."""

    family = "tgi"
    kind = "warmup-short"
    once_a_log = True  # the router prints the server's error again

    pool: str = "gpu"
    stage: str = "memory_profiling"
    strength: int = 2

    prefill_tokens: Usage[int | None] = None
    total_tokens: Usage[int | None] = None

    @property
    def of_prefill(self) -> int | None:
        """The tokens of the batch that was prefilled. Behind a total they are what the batch still held: of one that
        has been prefilled, a token for each request (flash_causal_lm.py 0.9.0 to 0.9.3, `warmup`)."""
        return None if self.total_tokens else self.prefill_tokens


class CacheSettled(Event, frozen=True, kw_only=True):
    """What the warm-up left for the KV cache."""

    family = "tgi"
    kind = "cache-settled"

    role: Role = "context"
    pool: str = "gpu"
    stage: str = "kv_cache_init"

    kv_blocks: Usage[int | None] = None
    total_tokens: Usage[int | None] = None
    prefill_tokens: Usage[int | None] = None
    block_tokens: int | None = None


_SENTENCES = (
    # the router's own: the cache that the warm-up found holds fewer tokens than the longest request may have
    Sentence(
        "Not enough memory to handle `max_total_tokens",
        WarmupShort,
        fixed={"pool": "kv_cache", "stage": "kv_cache_init"},
        bare=True,
    ),
    # launcher's last word of the same: backends/v3/src/lib.rs, `V3Error`, since 3.0
    Sentence(
        "Error: Backend(NotEnoughMemory(",
        WarmupShort,
        fixed={"pool": "kv_cache", "stage": "kv_cache_init"},
        bare=True,
    ),
    Sentence("Not enough memory to handle", WarmupShort, bare=True, ends="need to decrease"),
    Sentence("KV-cache blocks:", CacheSettled),
    Sentence("Setting max batch total tokens to", CacheSettled),
    Sentence("Default `max_batch_prefill_tokens` to", CacheSettled),
)

_CLAUSES = {
    "prefill": values(prefill_tokens=count_of),
    "total": values(total_tokens=count_of),
    "largest_total": values(total_tokens=count_of),
    "blocks": values(kv_blocks=count_of),
    "block_tokens": values(block_tokens=count_of),
    "prefill_set": values(prefill_tokens=count_of),
    "total_set": values(total_tokens=count_of),
}

FAMILY = Family(
    name="tgi",
    anchors=("Not enough memory to handle",),
    triggers=tuple(sentence.head for sentence in _SENTENCES),
    read=reader("tgi", _SENTENCES, _CLAUSES),
)
