"""What training keeps on a card: model states under ZeRO, activations, logits.

The bytes per parameter are those of DeepSpeed's own estimators: 2 weights and 2 gradients in 16 bit,
4 gradients, 4 master weights and 8 Adam states in 32 bit.
"""

from __future__ import annotations

from typing import Final

WEIGHT_BYTES: Final = 2
STATES_BYTES: Final = 18  # weights' gradients, fp32 gradients, master weights, Adam
REPLICATED_BYTES: Final = 16  # the same without fp32 gradients
ADAM_BYTES: Final = 8
# Of one layer, per token and hidden dimension, kept for the backward pass (flash attention, no checkpointing).
LAYER_BYTES: Final = 34
FULL_PRECISION_BYTES: Final = 4
FEWEST_TOKENS: Final = 64


def states_on_gpu(parameters: int, shards: int, stage: int, *, optimizer_offloaded: bool = False) -> int:
    """Weights, gradients and optimizer states of one model on one GPU, under ZeRO's stages (0 to 3)."""
    if optimizer_offloaded:
        return WEIGHT_BYTES * parameters // (shards if stage == 3 else 1)
    if stage == 3:
        return STATES_BYTES * parameters // shards
    if stage == 2:
        return WEIGHT_BYTES * parameters + STATES_BYTES * parameters // shards
    if stage == 1:
        return 4 * parameters + 12 * parameters // shards
    return REPLICATED_BYTES * parameters


def states_in_full_precision(parameters: int) -> int:
    """Weights, gradients and Adam's states in 32 bits, as a program of one's own trains."""
    return (2 * FULL_PRECISION_BYTES + ADAM_BYTES) * parameters


def weights(parameters: int, shards: int = 1) -> int:
    """Weights in 16 bit."""
    return WEIGHT_BYTES * parameters // shards


def activations(tokens: int, hidden: int, layers: int) -> int:
    """Kept for the backward pass without checkpointing, with flash attention."""
    return LAYER_BYTES * tokens * hidden * layers


def activations_checkpointed(tokens: int, hidden: int, layers: int) -> int:
    """The inputs of all layers, and one layer computed again."""
    return (2 * layers + LAYER_BYTES) * tokens * hidden


def logits(tokens: int, vocabulary: int, bytes_each: int) -> int:
    return tokens * vocabulary * bytes_each


def tokens_of_logits(size_bytes: int, vocabulary: int) -> int | None:
    """About how many tokens have logits of this size in 32 bit; None where these are so few that it may be anything."""
    tokens = round(size_bytes / (vocabulary * FULL_PRECISION_BYTES))
    return tokens if tokens >= FEWEST_TOKENS else None
