"""The memory errors of LMDeploy and Text Generation Inference, which check before the device refuses."""

from __future__ import annotations

from oomdoctor.families import Family
from oomdoctor.families.event import Event, usage
from oomdoctor.families.sentences import Sentence, count_of, reader, values
from oomdoctor.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineShort(Event):
    """The engine found that what it needs does not fit beside the weights."""

    family = "other_engines"
    kind = "engine-short"

    strength: int = 2

    engine: str  # "lmdeploy", "tgi"
    what: str  # "kv-cache", "state-cache", "runtime", "warm-up"
    prefill_tokens: int | None = usage()
    total_tokens: int | None = usage()

    def identity(self) -> str:
        return f"{self.family} {self.kind} {self.what}"  # the router prints the server's error again


def _short(head: str, engine: str, what: str, pool: str, stage: str) -> Sentence:
    return Sentence(head, EngineShort, {"engine": engine, "what": what, "pool": pool, "stage": stage}, bare=True)


_SENTENCES = (
    _short("No enough gpu memory for kv cache", "lmdeploy", "kv-cache", "kv_cache", "kv_cache_init"),
    _short("No enough gpu memory for state cache", "lmdeploy", "state-cache", "kv_cache", "kv_cache_init"),
    _short("No enough gpu memory for runtime", "lmdeploy", "runtime", "gpu", "memory_profiling"),
    _short("Not enough memory to handle", "tgi", "warm-up", "gpu", "memory_profiling"),
)

_CLAUSES = {
    "prefill": values(prefill_tokens=count_of),
    "total": values(total_tokens=count_of),
}

FAMILY = Family(
    name="other_engines",
    anchors=(),
    triggers=tuple(sentence.head for sentence in _SENTENCES),
    read=reader("other_engines", _SENTENCES, _CLAUSES),
)
