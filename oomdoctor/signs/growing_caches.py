"""What a job holds, a cache or the like, that grows from print to print while its own setting gives it no bound."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from msgspec import Struct

from oomdoctor.families.event import RAM
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import used_bytes
from oomdoctor.incident.prints import A_COUNT, SEVERAL, number, own_lines, shape
from oomdoctor.job.model import Setting
from oomdoctor.job.verbs import words_of
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.first_step import memory_in_all
from oomdoctor.signs.host_growth import MUCH
from oomdoctor.units import percent, show, size

# "cached: 52 keys, 3.1 MB", "memo: 40,000 items (1.2 GB)"; an engine's caches are allocated once
_CACHE: Final = late(
    r"(?i)(?<!kv )(?<!kv-)(?<!kv_)(?<!prefix )(?<!prefix_)(?<!page )(?<!gpu )(?<!cuda )(?<!encoder )(?<!disk )"
    r"\b(?P<what>(?:cache|memo|lru))[sd]?\b(?! (?:hit|miss)| read| writ)[^\d\n%]{0,24}" + A_COUNT
)
_SIZE: Final = late(r"(?i)^[^\d\n]{0,24}(?P<size>\d{1,7}(?:\.\d{1,3})?)\s?(?P<unit>[KMGT]i?B)\b(?!/s)")
_STEP: Final = late(
    r"(?i)\b(?P<step>batch|step|iter(?:ation)?|request|quer(?:y|ie)|epoch|chunk|round|episode)s?\b[ #:=]{1,3}"
    r"(?P<number>\d{1,12})\b"
)
# Names of options that say how much a cache may hold, and values with which it may hold anything
_OF_A_CACHE: Final = frozenset({"cache", "cached", "caching", "lru", "memo", "memoize"})
_BOUNDS: Final = frozenset({"max", "maxsize", "limit", "size", "entries", "items", "capacity", "cap", "keys", "bound"})
_OF_OTHERS: Final = frozenset({"kv", "prefix", "gpu", "dir", "path", "ttl", "seconds", "block"})
# Words beside "cache" that make its number no count of things
_NO_ITEMS: Final = frozenset(
    {
        "every", "freq", "interval", "steps", "level", "version", "port", "threshold", "timeout", "days", "hours",
        "bits", "mb", "mib", "gb", "gib", "kb", "kib", "bytes", "ram", "memory", "mem", "prompt", "token", "tokens",
        "seq", "length", "len", "window", "batch", "dim", "seed", "workers", "threads", "line",
    }
)  # fmt: skip
_SHARES: Final = frozenset({"rate", "share", "fraction", "ratio", "frac"})
_WITH_A_NOUN: Final = 2  # words of a name
_ANY: Final = frozenset({"0", "-1", "none", "null", "inf", "unlimited", "unbounded"})
# What a service holds, as names of counters and of their bounds say: a step or a record that is done is no such thing
_HELD: Final = frozenset({
    "open", "live", "active", "pending", "queued", "buffered", "held", "kept", "retained", "sessions", "connections",
    "keys", "entries", "objects", "handles", "windows", "states", "subscriptions", "backlog", "inflight",
})  # fmt: skip
_WRITER: Final = late(r"\W{0,4}\w{0,40}\[\d{1,9}\]")  # "tiles[8] cached=300"
_KNOBS: Final = ("smaller-buffers", "clear-references", "restart-periodically", "narrow-dtypes", "more-host-memory")


class Cache(Struct, frozen=True):
    """What the first and the last print say of it."""

    what: str
    first: int  # entries
    last: int
    first_bytes: int | None = None
    last_bytes: int | None = None
    step: str = ""  # what the prints count beside it
    steps: int = 0  # of it between the first print and the last

    @property
    def grown_bytes(self) -> int:
        return (self.last_bytes or 0) - (self.first_bytes or 0)

    @property
    def each_bytes(self) -> int:
        """Of an entry."""
        return self.grown_bytes // (self.last - self.first)


class _Print(Struct, frozen=True):
    what: str
    count: int
    bytes: int | None
    step: str
    number: int


@sign
def an_unbounded_cache_fills_much(crash: Crash) -> Seen | None:
    """A cache without a bound grew in each of three prints or more, by a fifth of the memory in use or of all."""
    cache, whole = unbounded_cache(crash), used_bytes(crash) or memory_in_all(crash)
    if cache is None or not whole or cache.grown_bytes < MUCH * whole:
        return None
    share = say(
        "{grown} of the {whole} is this cache's growth: {share}.",
        grown=show(cache.grown_bytes), whole=show(whole), share=percent(cache.grown_bytes / whole),
    )  # fmt: skip
    return _seen(crash, cache, share)


@sign
def an_unbounded_cache_grows(crash: Crash) -> Seen | None:
    """The same, and the prints do not say by how much, or nobody prints how much was in use."""
    cache = unbounded_cache(crash)
    return _seen(crash, cache, "") if cache is not None else None


def _seen(crash: Crash, cache: Cache, share: str) -> Seen:
    bound = bound_of_a_cache(crash)
    growth = (
        say("The {what} grew in every print, from {first:,} entries ({first_size}) to {last:,} ({last_size}).",
            what=cache.what, first=cache.first, last=cache.last, first_size=show(cache.first_bytes or 0),
            last_size=show(cache.last_bytes or 0))
        if cache.grown_bytes
        else say("The {what} grew in every print, from {first:,} entries to {last:,}.", what=cache.what,
                 first=cache.first, last=cache.last)
    )  # fmt: skip
    per_step = cache.grown_bytes // max(cache.steps, 1)
    rate = say("That is {rate} per {step}.", rate=show(per_step), step=cache.step)
    unbounded = say("{name} {value} gives it no bound.", name=bound.flag if bound else "", value=_told(bound))
    words = joined((growth, rate if cache.grown_bytes and cache.steps else "", share, unbounded))
    return Seen(words=words, evidence=(crash.root,), knobs=_KNOBS)


def unbounded_cache(crash: Crash) -> Cache | None:
    """The cache that only grows, where the log states that it has no bound."""
    if crash.pool not in RAM or bound_of_a_cache(crash) is None:
        return None
    prints = list(_prints(crash))
    if len(prints) < SEVERAL or any(later.count <= one.count for one, later in pairwise(prints)):
        return None
    first, last = prints[0], prints[-1]
    sized = first.bytes is not None and last.bytes is not None and last.bytes > first.bytes
    return Cache(
        what=last.what,
        first=first.count,
        last=last.count,
        first_bytes=first.bytes if sized else None,
        last_bytes=last.bytes if sized else None,
        step=last.step,
        steps=max(0, last.number - first.number) if first.step == last.step else 0,
    )


def bound_of_a_cache(crash: Crash) -> Setting | None:
    """The setting of the job's own that says how much a cache may hold, where it says: as much as comes; one that the
    launch line states before one that is only printed."""
    stated = [one for one in crash.context.settings.values() if _is_no_bound(one)]
    stated = stated or [one for one in crash.context.settings.values() if _is_no_bound_of_things(one)]
    return next((one for one in stated if one.written), stated[0] if stated else None)


def cache_of_items(crash: Crash) -> Setting | None:
    """The option that says how many things each process of the job may keep in a cache in host memory, or which share
    of them; a whole cache is one of an engine, of files or of a size in bytes."""
    if crash.pool not in RAM or crash.job.in_engine or crash.job.runs_engine:
        return None
    stated = (one for one in crash.context.settings.values() if one.is_launched)
    return next((one for one in stated if _counts_items(one)), None)


def _counts_items(setting: Setting) -> bool:
    words, value = frozenset(words_of(setting.name)), setting.number
    if not words & _OF_A_CACHE or len(words) < _WITH_A_NOUN or not words.isdisjoint(_OF_OTHERS | _NO_ITEMS):
        return False
    if value is None:
        return False
    return 0 < value <= 1 if words & _SHARES else (setting.whole or 0) > 1


def _is_no_bound(setting: Setting) -> bool:
    words = frozenset(words_of(setting.name))
    named = words & _OF_A_CACHE and words & _BOUNDS and words.isdisjoint(_OF_OTHERS)
    return bool(named) and not isinstance(setting.value, bool) and str(setting.value).lower() in _ANY


def _is_no_bound_of_things(setting: Setting) -> bool:
    words = frozenset(words_of(setting.name))
    named = words & _HELD and words & _BOUNDS - _HELD and words.isdisjoint(_OF_OTHERS)
    return bool(named) and not isinstance(setting.value, bool) and str(setting.value).lower() in _ANY


def _counted_by(bound: Setting) -> re.Pattern[str]:
    """How a job prints what the setting bounds: "open_sessions": 75313, "open sessions: 75,313"."""
    words = [word for word in words_of(bound.name) if word not in _BOUNDS - _HELD]
    if not _OF_A_CACHE.isdisjoint(words):
        return _CACHE
    name = r"[ _-]".join(map(re.escape, words))
    return re.compile(rf"(?i)(?<![\w-])(?P<what>{name})[\"']?\s?[:=]\s?{A_COUNT}")


def _told(bound: Setting | None) -> str:
    return str(bound.value) if bound is not None else ""


def _writer(line: str) -> str:
    """Which of several processes prints it."""
    match = _WRITER.match(line)
    return match[0] if match is not None else ""


def _prints(crash: Crash) -> Iterator[_Print]:
    """The prints of the same words as the last one, the first of them first."""
    bound = bound_of_a_cache(crash)
    if bound is None:
        return
    counted = _counted_by(bound)
    lines = [line for line in dict.fromkeys(own_lines(crash)) if counted.search(line)]
    alike = [line for line in lines if shape(line) == shape(lines[0]) and _writer(line) == _writer(lines[0])]
    for line in reversed(alike):
        match, step = counted.search(line), _STEP.search(line)
        if match is None:
            continue
        sized = _SIZE.search(line[match.end() :])
        yield _Print(
            match["what"].lower().replace("_", " "),
            number(match["count"]),
            size(sized["size"], sized["unit"]) if sized is not None else None,
            step["step"].lower() if step is not None else "",
            int(step["number"]) if step is not None else 0,
        )


__all__ = [
    "Cache",
    "an_unbounded_cache_fills_much",
    "an_unbounded_cache_grows",
    "bound_of_a_cache",
    "cache_of_items",
    "unbounded_cache",
]
