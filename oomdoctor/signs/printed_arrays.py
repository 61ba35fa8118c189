"""Arrays whose shape a job prints, beside the memory that there was: what they take is a product."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Final

from msgspec import Struct

from oomdoctor.arithmetic.training import states_in_full_precision
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import Kill
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import LARGE, held_by
from oomdoctor.incident.prints import A_COUNT, number, own_lines, type_of_numbers, type_stated
from oomdoctor.job.verbs import words_of
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.first_step import HALF, memory_in_all, parameters_of
from oomdoctor.signs.kept_ready import more_is_kept_ready_than_there_is
from oomdoctor.signs.set_limits import address_limit
from oomdoctor.units import percent, show

LEAST_TYPE: Final = (4, "float32")  # that libraries compute with
_LENGTHS: Final = r"(?:\w{1,12}\.)?(?:Size)?[(\[]{1,2}(?P<shape>\d{1,12}(?:, ?\d{1,12}){0,5}),?[)\]]{1,2}"
_TYPE: Final = (
    r"(?:torch\.|np\.|numpy\.|jnp\.)?(?:b?float(?:16|32|64)|u?int(?:8|16|32|64)|complex(?:64|128)|bool|bf16|fp16"
    r"|fp32)\b"
)
# "y (30000, 500) float64", "obs: torch.Size([64, 3, 84, 84]), dtype=torch.float32"
_ARRAY: Final = late(
    rf"(?P<what>[A-Za-z][\w .-]{{0,40}}?)(?:[\s:=]|shape){{0,8}}{_LENGTHS}(?:[\s,:;]|of|dtype|=|x){{0,10}}"
    rf"(?P<type>{_TYPE})"
)
_SHAPE: Final = late(_LENGTHS)
_LENGTH: Final = late(r"\d{1,12}")
# What a pass makes of a batch, and what is of the model
_OF_A_PASS: Final = frozenset({
    "logits", "logit", "attn", "attention", "activations", "activation", "grad", "grads", "weight", "weights", "kernel",
    "params", "param", "layer", "batch", "output", "outputs", "hidden", "lora", "bias", "buffer",
})  # fmt: skip
_BUFFERS: Final = frozenset({"rollout", "replay", "storage", "memory", "queue", "history", "trajectory", "experience"})
_OF_A_BUFFER: Final = ("smaller-buffers", "narrow-dtypes", "fewer-environments", "smaller-input", "more-host-memory")
_OF_ARRAYS: Final = ("narrow-dtypes", "stream-data", "smaller-partitions", "smaller-input", "smaller-buffers",
                     "more-host-memory")  # fmt: skip
_OF_RESULTS: Final = ("smaller-buffers", "narrow-dtypes", "stream-data", "smaller-input", "smaller-partitions",
                      "more-host-memory")  # fmt: skip
# What is made of all pairs, by the words of options and prints: "kernel" alone is anything's, "gp" a gradient penalty
_OVER_PAIRS: Final = late(
    r"(?i)(?<![a-z])(?:pairwise|(?:distance|similarity|affinity|gram|kernel|covariance|adjacency|laplacian|linkage"
    r"|co-?occurrence)[ _-]matrix|k-?nn[ _-]graph|(?:k-?nn|method)[ _-]brute|brute-force k-?nn|gaussian process"
    r"|agglomerative|hierarchical clustering|isomap|rbf|matern|dense (?:graph|adjacency))(?![a-z])"
)
_IN_BLOCKS: Final = late(r"(?i)(?<![a-z])(?:blocks?|chunks?|sparse|kd_?tree|ball_?tree|hnsw|ivf|approx\w*)(?![a-z])")
_COUNTED: Final = frozenset({
    "points", "nodes", "samples", "train", "rows", "atoms", "particles", "items", "users", "documents", "docs",
    "sequences", "vertices", "cells", "n",
})  # fmt: skip
_THINGS: Final = late(
    r"(?i)(?<![\d.,])(?P<count>\d{1,3}(?:[,_]\d{3}){1,3}|\d{4,9}) "
    r"(?:points|nodes|samples|rows|atoms|particles|items|users|documents|sequences|vertices|cells)\b"
)
_OF_PAIRS: Final = ("smaller-partitions", "smaller-input", "narrow-dtypes", "spill-to-disk", "more-host-memory")
_ON_THE_HOST: Final = ("host_ram", "cgroup", "none")
_A_LITTLE_MORE: Final = 1.2  # a count goes on after its last print
_SHOWN: Final = 3
_TIMES: Final = 8
_COUNT: Final = late(A_COUNT)


class Array(Struct, frozen=True):
    """An array by its print."""

    what: str
    shape: tuple[int, ...]
    width: int
    dtype: str
    of_a_buffer: bool = False

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.width

    @property
    def formula(self) -> str:
        return f"{' x '.join(map(str, self.shape))} x {self.width} = {show(self.bytes)}"


class Results(Struct, frozen=True):
    """As many arrays of one shape as the last print counts."""

    count: int
    each: Array

    @property
    def bytes(self) -> int:
        return self.count * self.each.bytes

    @property
    def formula(self) -> str:
        return f"{self.count} x {' x '.join(map(str, self.each.shape))} x {self.each.width} = {show(self.bytes)}"


@sign
def arrays_by_its_prints_fill_it(crash: Crash) -> Seen | None:
    """Any of them is seen."""
    signs = (more_is_kept_ready_than_there_is, arrays_are_printed_that_fill_it, results_of_one_shape_pile_up,
             pairs_of_what_is_counted_fill_it)  # fmt: skip
    return next((seen for one in signs if (seen := one(crash)) is not None), None)


@sign
def arrays_are_printed_that_fill_it(crash: Crash) -> Seen | None:
    """The job was killed or refused memory, and the arrays whose shapes and types it prints take half of what there is,
    or 1 GiB where nobody knows how much that is."""
    arrays, whole = large_arrays(crash), _whole(crash)
    if not arrays:
        return None
    size = sum(one.bytes for one in arrays)
    told = "; ".join(f"{one.what} {one.formula} ({one.dtype})" for one in arrays[:_SHOWN])
    words = say("The job prints the arrays that it works on: {arrays}.", arrays=told)
    beside = say("That is {share} of the {whole} there are, and whatever is made of them comes on top.",
                 share=percent(size / whole), whole=show(whole)) if whole is not None else ""  # fmt: skip
    of_a_buffer = arrays[0].of_a_buffer
    return Seen(
        words=joined((words, beside)),
        evidence=(crash.root,),
        against=() if crash.proven else (say("no line shows how much memory was in use"),),
        stage=crash.stage if crash.stage != "unknown" else ("rollout" if of_a_buffer else "data_load"),
        knobs=_OF_A_BUFFER if of_a_buffer else _OF_ARRAYS,
    )


@sign
def results_of_one_shape_pile_up(crash: Crash) -> Seen | None:
    """As many results as the last print counts, of the shape that it prints, are what the killed process held."""
    results = results_of_one_shape(crash)
    if results is None or not isinstance(crash.root, KernelKill):
        return None
    words = say(
        "By its last print the job had made {count:,} results of {shape}: {formula}, and the killed process "
        "held {held}: it keeps them.",
        count=results.count, shape=results.each.shape, formula=results.formula, held=show(held_by(crash.root) or 0),
    )  # fmt: skip
    return Seen(words=words, evidence=(crash.root,), stage=crash.stage, knobs=_OF_RESULTS)


@sign
def pairs_of_what_is_counted_fill_it(crash: Crash) -> Seen | None:
    """The job was killed, its options or prints name a matrix over all pairs, and the square of the number of things
    that they name takes half of what there is, or 1 GiB where nobody knows how much that is."""
    pairs, whole = pairs_counted(crash), _whole(crash)
    if pairs is None or pairs.bytes < (HALF * whole if whole is not None else LARGE):
        return None
    words = say(
        "The job names a matrix over all pairs ({what}): {formula} ({dtype}). Twice as many take four times as much.",
        what=pairs.what, formula=pairs.formula, dtype=pairs.dtype,
    )  # fmt: skip
    beside = say("There are {limit} in all.", limit=show(whole)) if whole is not None else ""
    unseen = say("no line shows that the whole matrix was made")
    stage = crash.stage if crash.stage != "unknown" else "data_load"
    return Seen(words=joined((words, beside)), evidence=(crash.root,), against=(unseen,), unsure=True, stage=stage,
                knobs=_OF_PAIRS)  # fmt: skip


def pairs_counted(crash: Crash) -> Array | None:
    """The matrix over all pairs of the most things that an option or a print counts, where the job speaks of one."""
    if not isinstance(crash.root, KernelKill | Kill) or crash.pool not in _ON_THE_HOST:
        return None
    settings = crash.context.settings.values()
    lines = [*own_lines(crash), *(f"{one.name} {one.value}" for one in settings)]
    speaks = next((match for line in lines if (match := _OVER_PAIRS.search(line)) is not None), None)
    if speaks is None or any(_IN_BLOCKS.search(line) for line in lines):
        return None
    stated = [one.whole or 0 for one in settings if not _COUNTED.isdisjoint(words_of(one.name))]
    printed = [number(match["count"]) for line in own_lines(crash) for match in _THINGS.finditer(line)]
    count = max((*stated, *printed), default=0)
    width, dtype = next((found for line in lines if (found := type_of_numbers(line)) is not None), LEAST_TYPE)
    return Array(speaks[0].lower(), (count, count), width, dtype)


def large_arrays(crash: Crash) -> list[Array]:
    """Those that the job prints, the largest first, where together they are much of the memory there is."""
    if not isinstance(crash.root, KernelKill | Kill | HostAllocation) or crash.pool not in _ON_THE_HOST:
        return []
    whole = _whole(crash)
    found = {(one.what, one.shape): one for line in own_lines(crash) for one in _arrays(line)}
    arrays = sorted(found.values(), key=lambda one: one.bytes, reverse=True)
    size = sum(one.bytes for one in arrays)
    return arrays if size >= (HALF * whole if whole is not None else _without_a_limit(crash)) else []


def _without_a_limit(crash: Crash) -> int:
    """1 GiB; a quarter where the model that the job prints is small beside that, with all its states."""
    parameters = parameters_of(crash)
    small = 0 < _TIMES * states_in_full_precision(parameters) <= LARGE // 4
    return LARGE // 4 if small else LARGE


def _whole(crash: Crash) -> int | None:
    return address_limit(crash) if isinstance(crash.root, HostAllocation) else memory_in_all(crash)


def _arrays(line: str) -> Iterator[Array]:
    of_a_buffer = not _BUFFERS.isdisjoint(words_of(line))
    for match in _ARRAY.finditer(line):
        words = words_of(match["what"])
        found = type_of_numbers(match["type"])
        if found is not None and (of_a_buffer or _OF_A_PASS.isdisjoint(words)):
            yield Array(words[-1] if words else "", _lengths(match), *found, of_a_buffer)


def _lengths(match: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(length) for length in _LENGTH.findall(match["shape"]))


def results_of_one_shape(crash: Crash) -> Results | None:
    """Of the last print that has a number and a shape, where their product is about what the killed process held."""
    held = held_by(crash.root) if isinstance(crash.root, KernelKill) else None
    if held is None or held < LARGE // 2:
        return None
    for line in own_lines(crash):
        shape = _SHAPE.search(line)
        count = _COUNT.search(line, 0, shape.start()) if shape is not None else None
        if shape is None or count is None or "," not in shape["shape"]:
            continue
        width = type_stated(line, crash)
        if width is None:
            return None
        results = Results(number(count["count"]), Array("", _lengths(shape), *width))
        return results if HALF * held <= results.bytes <= _A_LITTLE_MORE * held else None
    return None


__all__ = [
    "LEAST_TYPE",
    "Array",
    "arrays_are_printed_that_fill_it",
    "arrays_by_its_prints_fill_it",
    "large_arrays",
    "pairs_counted",
    "pairs_of_what_is_counted_fill_it",
    "results_of_one_shape",
    "results_of_one_shape_pile_up",
]
