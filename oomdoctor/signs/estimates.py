"""What a program itself says that it will need, and was then ended for."""

from __future__ import annotations

from itertools import islice
from typing import Final, NamedTuple

from oomdoctor.families.container import LimitKill
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.kernel import KernelKill
from oomdoctor.incident.model import Crash
from oomdoctor.incident.prints import LAST, own_lines
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.first_step import memory_in_all
from oomdoctor.signs.set_limits import address_limit
from oomdoctor.units import show, size

# "estimated required memory for 949 words and 200 dimensions: 2562300 bytes" (gensim/models/word2vec.py, 0.8 to 4.4);
# "will need about 3.1 GB of RAM"
_NEED: Final = late(
    r"(?i)\b(?:estimat\w{1,4}|expect(?:s|ed)|predict(?:s|ed)|require[sd]?|(?:will|going to) (?:need|use|take)|needs)\b"
    r"(?=[^\n]{0,160}\b(?:memory|ram)\b)[^\n]{0,120}?(?<![\w.])(?P<size>\d[\d,]{0,18}(?:\.\d{1,3})?) ?"
    r"(?P<unit>bytes|[KMGT]i?B)\b"
)
# Another memory, and what a machine has
_ELSEWHERE: Final = late(r"(?i)\b(?:v-?ram|gpu|cuda|device|card|disk|swap|shared|available|free|at least|minimum)\b")
# What it makes next is as large as it says: nothing old is there to be dropped
_KNOBS: Final = (
    "smaller-model", "smaller-buffers", "smaller-partitions", "narrow-dtypes", "smaller-input", "more-host-memory",
)  # fmt: skip


class Estimate(NamedTuple):
    """What a program says that it will need, and what there is."""

    bytes: int
    limit: int


@sign
def an_estimate_beyond_the_limit(crash: Crash) -> Seen | None:
    """One of the last prints says that the program needs more host memory than its limit or its machine has."""
    estimate = estimate_beyond_the_limit(crash)
    if estimate is None:
        return None
    words = say(
        "The program itself said that it needs {needed}, and there are {limit} in all.",
        needed=show(estimate.bytes),
        limit=show(estimate.limit),
    )
    return Seen(words=words, evidence=(crash.root,), shows_memory=True, knobs=_KNOBS)


def estimate_beyond_the_limit(crash: Crash) -> Estimate | None:
    """Of a job that was ended for memory right behind such a print."""
    if not crash.proven or not isinstance(crash.root, KernelKill | LimitKill | HostAllocation):
        return None
    limit = memory_in_all(crash) or address_limit(crash)
    needed = next((found for line in islice(own_lines(crash), LAST) if (found := _needed(line)) is not None), None)
    return Estimate(needed, limit) if needed is not None and limit is not None and needed > limit else None


def _needed(line: str) -> int | None:
    match = _NEED.search(line) if _ELSEWHERE.search(line) is None else None
    if match is None:
        return None
    return size(match["size"].replace(",", ""), "b" if match["unit"].lower() == "bytes" else match["unit"])


__all__ = ["Estimate", "an_estimate_beyond_the_limit", "estimate_beyond_the_limit"]
