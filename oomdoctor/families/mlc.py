"""MLC LLM: what it reckons for one card when it starts, and that weights and buffers alone are more than its share."""

from __future__ import annotations

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Role, Usage
from oomdoctor.families.sentences import Sentence, bytes_of, reader, values


class Estimate(Event, frozen=True, kw_only=True):
    """What one card has to hold."""

    family = "mlc"
    kind = "estimate"

    role: Role = "context"
    pool: str = "gpu"
    stage: str = "engine_init"

    needed_bytes: Usage[int | None] = None
    weights_bytes: Usage[int | None] = None
    kv_bytes: Usage[int | None] = None
    buffers_bytes: Usage[int | None] = None


class NoRoom(Event, frozen=True, kw_only=True):
    """Nothing is left of the share for the KV cache."""

    family = "mlc"
    kind = "no-room"

    pool: str = "gpu"
    stage: str = "kv_cache_init"
    strength: int = 3

    available_bytes: Usage[int | None] = None  # the share of the card that it may use
    weights_bytes: Usage[int | None] = None
    buffers_bytes: Usage[int | None] = None

    def identity(self) -> str:
        return f"{self.family} {self.kind} {self.available_bytes} {self.weights_bytes}"


_SENTENCES = (
    Sentence("Estimated total single GPU memory usage", Estimate, needs="needed_bytes"),
    Sentence("Insufficient GPU memory error:", NoRoom, lines=3, needs="available_bytes"),
)

_CLAUSES = {
    "needed": values(needed_bytes=bytes_of),
    "weights": values(weights_bytes=bytes_of),
    "cache": values(kv_bytes=bytes_of),
    "buffers": values(buffers_bytes=bytes_of),
    "available": values(available_bytes=bytes_of),
    "model": values(weights_bytes=bytes_of),
    "temporary": values(buffers_bytes=bytes_of),
}

FAMILY = Family(
    name="mlc",
    anchors=("Insufficient GPU memory error",),
    triggers=tuple(sentence.head for sentence in _SENTENCES),
    read=reader("mlc", _SENTENCES, _CLAUSES),
)
