"""Arrays whose shape a job prints, beside the memory that there was: what they take is a product."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Final

from msgspec import Struct

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
from oomdoctor.signs.first_step import HALF, memory_in_all
from oomdoctor.signs.set_limits import address_limit
from oomdoctor.units import percent, show

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
_A_LITTLE_MORE: Final = 1.2  # a count goes on after its last print
_SHOWN: Final = 3
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
    """Either is seen."""
    arrays = arrays_are_printed_that_fill_it(crash)
    return arrays if arrays is not None else results_of_one_shape_pile_up(crash)


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


def large_arrays(crash: Crash) -> list[Array]:
    """Those that the job prints, the largest first, where together they are much of the memory there is."""
    if not isinstance(crash.root, KernelKill | Kill | HostAllocation) or crash.pool not in (
        "host_ram",
        "cgroup",
        "none",
    ):
        return []
    whole = _whole(crash)
    found = {(one.what, one.shape): one for line in own_lines(crash) for one in _arrays(line)}
    arrays = sorted(found.values(), key=lambda one: one.bytes, reverse=True)
    size = sum(one.bytes for one in arrays)
    return arrays if size >= (HALF * whole if whole is not None else LARGE) else []


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
    "Array",
    "arrays_are_printed_that_fill_it",
    "arrays_by_its_prints_fill_it",
    "large_arrays",
    "results_of_one_shape",
    "results_of_one_shape_pile_up",
]
