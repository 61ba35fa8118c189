"""How full the KV cache is while vLLM serves: pressure slows requests down, it kills nothing."""

from __future__ import annotations

from collections.abc import Iterator

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Lookalike, Read, Role, Usage
from oomdoctor.families.sentences import Sentence, count_of, number_of, reader, values
from oomdoctor.language import mark
from oomdoctor.streams import Page

FULL = 0.99


class Preemption(Event, frozen=True, kw_only=True):
    """A running sequence gave its KV cache up for others; V0 prints the first and every fiftieth."""

    family = "vllm_pressure"
    kind = "preemption"

    role: Role = "context"
    pool: str = "kv_cache"
    stage: str = "serving"

    mode: str | None = None  # "RECOMPUTE", "SWAP"
    preemptions: Usage[int | None] = None  # since the start
    sequence_group: int | None = None


class Statistics(Event, frozen=True, kw_only=True):
    """The periodic line: requests, and the share of the KV cache in use."""

    family = "vllm_pressure"
    kind = "statistics"

    role: Role = "context"
    pool: str = "kv_cache"
    stage: str = "serving"

    running: Usage[int | None] = None
    waiting: Usage[int | None] = None
    kv_usage: Usage[float | None] = None  # 0..1
    preemptions: Usage[int | None] = None


def _share(percent: str) -> float | None:
    number = number_of(percent)
    return None if number is None else round(number / 100, 6)


def _mode(text: str) -> str:
    return text.rpartition(".")[2]


_SENTENCES = (
    Sentence("Sequence group", Preemption, lines=2, needs="mode"),
    Sentence("Avg prompt throughput:", Statistics, lines=2, whole="kv_usage"),
)

_CLAUSES = {
    "group": values(sequence_group=count_of),
    "mode": values(mode=_mode),
    "preempted": values(preemptions=count_of),
    "running": values(running=count_of),
    "waiting": values(waiting=count_of),
    "kv_usage": values(kv_usage=_share),
    "preemptions": values(preemptions=count_of),
}

_read_sentences = reader("vllm_pressure", _SENTENCES, _CLAUSES)


def read(page: Page, index: int) -> Iterator[Read]:
    for found in _read_sentences(page, index):
        yield found
        if isinstance(found, Preemption):
            yield Lookalike(found.at, mark("preemption: the KV cache is shared in turns; requests wait and none fails"))
        elif isinstance(found, Statistics) and (found.kv_usage or 0) >= FULL:
            yield Lookalike(found.at, mark("the KV cache is fully used: further requests wait and none fails"))


FAMILY = Family(
    name="vllm_pressure",
    anchors=(),
    triggers=tuple(sentence.head for sentence in _SENTENCES),
    read=read,
)
