"""Memory that grows with the part of a job's work that is done: what it keeps of each piece adds up, and is no leak."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.incident.model import Crash
from oomdoctor.incident.prints import number
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.host_growth import LEAST_POINTS, host_memory_grew
from oomdoctor.units import show

_CHARACTERS: Final = 400
_NUMBER: Final = r"\d{1,3}(?:[,_]\d{3}){1,4}|\d{1,12}"
_OF_ALL: Final = rf"(?<![\d.\-+])(?P<count>{_NUMBER})\s?(?:/|of|out of)\s?(?P<total>{_NUMBER})(?![\d.]|\s?%)"
# "180/225 tiles", "tile 180 of 225", "[180/225] tiles": whatever the things are, but no passes over the same things
_WORK: Final = late(
    rf"(?i){_OF_ALL}\]?[ ,:]{{1,3}}(?P<what>(?!steps|batches|epochs|iters|iterations|requests|rounds|trials|seconds"
    r"|workers|processes|threads|gpus|ranks|nodes|cores)[a-z]{3,20}s)\b"
)
_PIECE: Final = late(
    r"(?i)\b(?P<what>tile|image|picture|photo|frame|file|document|page|row|line|record|scene|chunk|block|shard|sample"
    r"|sequence|read|contig|chromosome|patient|slice|volume|clip|video|track|recording|article|url|user|item|day|month"
    r"|year|station|region|city|part|partition|table|column|chapter|song|book|case|object|molecule)s?[ #:]{1,3}"
    rf"{_OF_ALL}"
)
# Of an input whose end nobody knows before
_READ: Final = late(
    rf"(?i)(?<![\d.\-+/])(?P<count>{_NUMBER})(?P<total>) (?P<what>lines|rows|records|entries|urls|keys|words|documents"
    r"|files|messages|reads|articles|pages)\b"
)
# What a measurement of several sizes names of each
_SIZE: Final = late(
    r"(?i)(?<![\w.])(?P<what>n|size|batch[_ ]?size|seq(?:uence)?(?:[_ ]?len(?:gth)?)?|length|context|resolution|width"
    r"|rows|points|atoms|nodes|particles|tokens|dims?|order|max_len)\s?[=: ]\s?"
    rf"(?P<count>{_NUMBER})(?P<total>)(?![\d.]|\s?%)"
)
_NEXT: Final = 1.5  # times the size before: steps are counted one by one
_WORDS: Final = (_WORK, _PIECE, _READ)
_KNOBS: Final = (
    "smaller-partitions", "stream-data", "clear-references", "smaller-buffers", "smaller-microbatch", "spill-to-disk",
    "narrow-dtypes", "smaller-input", "more-host-memory",
)  # fmt: skip
_MEMORY: Final = late(r"(?i)(?<![a-z])(?:rss|mem(?:ory)?|ram)\b[^\d\n]{0,30}\d")
_LEARNS: Final = late(r"(?i)\b(?:loss|epochs?|lr|reward|perplexity|accuracy|(?:global )?steps?)\b")


class Work(Struct, frozen=True):
    """What a job has done of its work at its last print, and how much memory it kept of each piece."""

    what: str
    count: int
    total: int | None
    first: int  # the count of the first print
    each_bytes: int | None


def work_of(crash: Crash) -> Work | None:
    """Each line with the figure that grew counts more of the same pieces."""
    figure = crash.trajectory
    if figure is None or crash.job.trains or crash.job.learns or host_memory_grew(crash) is None:
        return None
    prints = _prints(crash)
    if len(prints) < LEAST_POINTS or any(_LEARNS.search(line) for line in prints):
        return None
    counted = next((found for words in _WORDS if (found := _rising(words, prints))), None)
    if counted is None:
        return None
    first, last, total = number(counted[0]["count"]), number(counted[-1]["count"]), counted[-1]["total"]
    # Where all prints are in sight, the growth is that of what was done between the first and the last of them
    each = figure.grown // (last - first) if len(prints) == figure.prints else None
    return Work(counted[-1]["what"].lower(), last, number(total) if total else None, first, each)


@sign
def memory_grew_with_a_size(crash: Crash) -> Seen | None:
    """Each line with the figure that grew is of a larger problem than the one before."""
    if host_memory_grew(crash) is None:
        return None
    prints = _prints(crash)
    counts = [number(match["count"]) for match in _rising(_SIZE, prints)] if len(prints) >= LEAST_POINTS else []
    larger = counts and all(later >= _NEXT * earlier for earlier, later in pairwise(counts))
    return Seen(words="") if larger else None


def _prints(crash: Crash) -> list[str]:
    return [line for text in crash.root.around.before if _MEMORY.search(line := text[:_CHARACTERS])]


def _rising(words: re.Pattern[str], prints: list[str]) -> list[re.Match[str]]:
    """What each print counts, where that is more of the same each time."""
    found = [match for line in prints if (match := words.search(line)) is not None]
    same = len(found) == len(prints) and len({(match["what"].lower(), match["total"]) for match in found}) == 1
    counts = [number(match["count"]) for match in found]
    return found if same and all(earlier < later for earlier, later in pairwise(counts)) else []


@sign
def memory_grew_with_the_work(crash: Crash) -> Seen | None:
    """A figure of host memory grew with the number of pieces that were done, and no line speaks of learning."""
    grew, work = host_memory_grew(crash), work_of(crash)
    if grew is None or work is None:
        return None
    done = (
        say("{count:,} of {total:,} {what} were done.", count=work.count, total=work.total, what=work.what)
        if work.total
        else say("{count:,} {what} were done.", count=work.count, what=work.what)
    )
    kept = say("What is kept of each adds up.")
    if work.each_bytes:
        kept = say("What is kept of each adds up: about {each}.", each=show(work.each_bytes))
    doubt = say("what each piece leaves behind by mistake looks the same")
    return replace(grew, words=joined((grew.words, done, kept)), against=(doubt,), stage="data_load", knobs=_KNOBS)


def needed_bytes(crash: Crash) -> tuple[int, str] | None:
    """What all pieces need where each takes as much as those between the first and the last print, and the sum."""
    work, figure = work_of(crash), crash.trajectory
    if work is None or figure is None or not work.each_bytes or not work.total or work.count >= work.total:
        return None
    first, grown = figure.points[0].bytes, figure.grown
    whole = first + grown * (work.total - work.first) // (work.count - work.first)
    pieces = f"({work.total} - {work.first}) / ({work.count} - {work.first})"
    return whole, f"{show(first)} + {show(grown)} x {pieces} = {show(whole)}"


__all__ = ["memory_grew_with_a_size", "memory_grew_with_the_work", "needed_bytes", "work_of"]
