"""What a job takes of a node's RAM: offloaded states, sleeping engines, swap space, checkpoints, copies at loading."""

from __future__ import annotations

import math
from typing import Final

from oomdoctor.arithmetic.training import WEIGHT_BYTES
from oomdoctor.units import GIB

ADAM_OFFLOAD_BYTES: Final = 12  # master weights and Adam's two states
CHECKPOINT_BYTES: Final = 16  # weights, master weights, Adam, in what is gathered for a full checkpoint
FP32_BYTES: Final = 4


def adam(parameters: int, nodes: int = 1) -> int:
    """What an offloaded Adam takes of one node."""
    return ADAM_OFFLOAD_BYTES * parameters // nodes


def offloaded_by_deepspeed(parameters: int, nodes: int, *, with_parameters: bool) -> int:
    """ZeRO-3's offload by DeepSpeed's own estimator, without its safety factor of 1.5."""
    return (18 if with_parameters else 16) * parameters // nodes


def pinned(size_bytes: float) -> int:
    """What a page-locked buffer really takes: PyTorch's host allocator rounds up to a power of two."""
    return 1 << math.ceil(math.log2(size_bytes)) if size_bytes > 1 else 1


def swap_space(gib_per_gpu: float, layers: int, gpus: int) -> int:
    """What vLLM's CPU swap space takes of one node: one pinned tensor per layer and GPU."""
    return pinned(gib_per_gpu * GIB / layers) * layers * gpus


def sleep_copies(parameters: int, engines: int) -> int:
    """The copies of the weights that engines keep while they sleep at level 1, before rounding."""
    return WEIGHT_BYTES * parameters * engines


def full_checkpoint(parameters: int) -> int:
    """The whole state gathered on one rank."""
    return CHECKPOINT_BYTES * parameters


def copies_at_load(parameters: int, ranks: int, bytes_each: int = FP32_BYTES) -> int:
    """One copy of the weights per rank while loading; fp32 where nobody says otherwise."""
    return bytes_each * parameters * ranks
