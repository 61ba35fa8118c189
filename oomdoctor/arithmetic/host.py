"""What a job takes of a node's RAM: offloaded states, sleeping engines, swap space."""

from __future__ import annotations

import math
from typing import Final

from oomdoctor.arithmetic.training import WEIGHT_BYTES
from oomdoctor.units import GIB

ADAM_OFFLOAD_BYTES: Final = 12  # master weights and Adam's two states


def adam(parameters: int, nodes: int = 1) -> int:
    """What an offloaded Adam takes of one node."""
    return ADAM_OFFLOAD_BYTES * parameters // nodes


def pinned(size_bytes: float) -> int:
    """What a page-locked buffer really takes: PyTorch's host allocator rounds up to a power of two."""
    return 1 << math.ceil(math.log2(size_bytes)) if size_bytes > 1 else 1


def swap_space(gib_per_gpu: float, layers: int, gpus: int) -> int:
    """What vLLM's CPU swap space takes of one node: one pinned tensor per layer and GPU."""
    return pinned(gib_per_gpu * GIB / layers) * layers * gpus


def sleep_copies(parameters: int, engines: int) -> int:
    """The copies of the weights that engines keep while they sleep at level 1, before rounding."""
    return WEIGHT_BYTES * parameters * engines
