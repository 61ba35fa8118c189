"""A loss over two tensors of different shapes: PyTorch spreads both to a shape that has a value for every pair."""

from __future__ import annotations

import re
from itertools import zip_longest
from math import prod
from typing import Final

from msgspec import Struct

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.signs import Seen, sign
from oomdoctor.units import show

# torch/nn/functional.py, mse_loss, l1_loss, smooth_l1_loss and huber_loss: a warning
_DIFFERENT: Final = (
    r"Using a target size \(torch\.Size\(\[(?P<target>[\d, ]{1,60})\]\)\) that is different to the input size "
    r"\(torch\.Size\(\[(?P<input>[\d, ]{1,60})\]\)\)"
)
_BYTES: Final = (4, 8, 2)  # of a number
_AS_PRINTED: Final = 0.005  # of a size with two decimals


class Broadcast(Struct, frozen=True):
    """The shapes that a loss was given, and the one that both were spread to."""

    target: tuple[int, ...]
    input: tuple[int, ...]
    bytes: int

    @property
    def shape(self) -> tuple[int, ...]:
        pairs = zip_longest(reversed(self.target), reversed(self.input), fillvalue=1)
        return tuple(max(pair) for pair in reversed(list(pairs)))

    @property
    def is_of_one_length(self) -> bool:
        """Whether both hold as many values: the same ones, with an axis more."""
        return prod(self.target) == prod(self.input)


def broadcast(crash: Crash) -> Broadcast | None:
    """The last warning of that kind, where what was refused is as large as the shape that it leads to."""
    root = crash.root
    tried = root.tried_bytes if isinstance(root, HostAllocation | DeviceOutOfMemory) else None
    said = re.search(_DIFFERENT, crash.mentions(_DIFFERENT) or "")
    if said is None or not tried:
        return None
    target, given = (tuple(int(one) for one in said[name].split(",") if one.strip()) for name in ("target", "input"))
    for size in _BYTES:
        found = Broadcast(target, given, size)
        if abs(prod(found.shape) * size - tried) <= _AS_PRINTED * tried:
            return found
    return None


@sign
def loss_over_every_pair(crash: Crash) -> Seen | None:
    """PyTorch warned of a loss over two sizes, and what was refused has a value for every pair."""
    found = broadcast(crash)
    if found is None:
        return None
    words = say(
        "The loss was given an input of shape {input} and a target of shape {target}: both are spread to {shape}. "
        "{values} x {bytes} bytes = {size}.",
        input=in_words(found.input), target=in_words(found.target), shape=in_words(found.shape),
        values=" x ".join(f"{one:,}" for one in found.shape), bytes=found.bytes,
        size=show(prod(found.shape) * found.bytes),
    )  # fmt: skip
    return Seen(words=words, evidence=(crash.root,))


def in_words(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))})"


__all__ = ["Broadcast", "broadcast", "in_words", "loss_over_every_pair"]
