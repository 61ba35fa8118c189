"""What training keeps on a card: model states under each way of sharding, activations, logits.

The bytes per parameter are those of DeepSpeed's own estimators and of Megatron's: 2 weights and 2 gradients in 16 bit,
4 gradients, 4 master weights and 8 Adam states in 32 bit.
"""

from __future__ import annotations

from typing import Final

WEIGHT_BYTES: Final = 2
STATES_BYTES: Final = 18  # weights' gradients, fp32 gradients, master weights, Adam
REPLICATED_BYTES: Final = 16  # the same without fp32 gradients
ADAM_BYTES: Final = 8
PURE_BF16_BYTES: Final = 8  # weights, gradients and both of Adam's states in 16 bit
# Of one layer, per token and hidden dimension, kept for the backward pass (flash attention, no checkpointing).
LAYER_BYTES: Final = 34


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


def gathered_layer(largest_layer: int) -> int:
    """What ZeRO-3 puts together for the layer at work, beside its shards: weights and gradients of it."""
    return 4 * largest_layer


def states_under_fsdp(parameters: int, shards: int, *, offloaded: bool = False) -> int:
    """FSDP with fp32 master weights: weights, gradients and Adam in shards; nothing but the block at work where
    parameters are offloaded."""
    return 0 if offloaded else REPLICATED_BYTES * parameters // shards


def states_under_megatron(parameters: int, model_parallel: int, data_parallel: int, *, distributed: bool) -> int:
    """Megatron's states on one GPU, with and without the distributed optimizer."""
    own = parameters // model_parallel
    return 6 * own + 12 * own // data_parallel if distributed else STATES_BYTES * own


def adapter_states(parameters: int, trainable: int, weight_bytes: float = WEIGHT_BYTES) -> int:
    """LoRA: frozen weights, and the whole states of the adapters only."""
    return round(weight_bytes * parameters) + REPLICATED_BYTES * trainable


def weights(parameters: int, shards: int = 1) -> int:
    """Weights in 16 bit."""
    return WEIGHT_BYTES * parameters // shards


def activations(tokens: int, hidden: int, layers: int, parallel: int = 1) -> int:
    """Kept for the backward pass without checkpointing, with flash attention."""
    return LAYER_BYTES * tokens * hidden * layers // parallel


def activations_checkpointed(tokens: int, hidden: int, layers: int, parallel: int = 1) -> int:
    """The inputs of all layers, and one layer computed again."""
    return (2 * layers + LAYER_BYTES) * tokens * hidden // parallel


def attention_scores(batch: int, heads: int, length: int, layers: int = 1) -> int:
    """What attention keeps beyond that without flash attention."""
    return 5 * batch * heads * length * length * layers


def logits(tokens: int, vocabulary: int, bytes_each: int) -> int:
    return tokens * vocabulary * bytes_each


def tokens_of_logits(size_bytes: int, vocabulary: int) -> tuple[int, int] | None:
    """The tokens and the bytes per element whose logits have this size, where they come out whole.

    Sizes are printed with two decimals of a GiB, so a small remainder is allowed.
    """
    for bytes_each in (4, 2):
        tokens = round(size_bytes / (vocabulary * bytes_each))
        if tokens >= 64 and abs(logits(tokens, vocabulary, bytes_each) - size_bytes) <= vocabulary * bytes_each:
            return tokens, bytes_each
    return None
