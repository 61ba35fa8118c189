"""Which function computes the value of a knob; a knob that is not here is a switch or a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from oomdoctor.remedies.proposal import Compute

# A module of this package and its function, which is loaded when a cause of a log has the knob.
OF_THE_ENGINE: Final[Mapping[str, str]] = {
    "lower-engine-reservation": "engine.smaller_share.lower",
    "raise-engine-reservation": "engine.larger_share.raise_share",
    "shorter-context": "engine.requests.shorter_context",
    "fewer-sequences": "engine.requests.fewer_sequences",
    "smaller-prefill": "engine.requests.smaller_prefill",
    "eager-mode": "engine.cache.fewer_graphs",
    "quantize-kv-cache": "engine.cache.quantize_cache",
    "keep-engine-cache": "engine.cache.keep_cache",
    "engine-sleep": "engine.cache.sleep",
    "limit-multimodal": "engine.requests.limit_multimodal",
    "quantize-weights": "engine.weights.smaller_weights",
    "smaller-model": "engine.weights.smaller_weights",
}

COMPUTE: Final[Mapping[str, str]] = {
    **OF_THE_ENGINE,
    "smaller-input": "training.inputs.fewer",
    "cap-primitives": "training.inputs.fewer",
    "fewer-environments": "training.inputs.fewer",
    "resize-sim-buffers": "training.inputs.fewer",
    "offload-parameters": "training.states.offload_parameters",
    "offload-activations": "training.inputs.assign_on_the_host",
    "smaller-microbatch": "training.batches.smaller_microbatch",
    "shorter-sequences": "training.sequences.shorter_sequences",
    "shard-states": "training.states.shard_states",
    "offload-optimizer": "training.states.offload_optimizer",
    "chunked-logits": "training.sequences.chunk_logits",
    "mixed-precision": "training.precision.lower_precision",
    "sharded-checkpoint": "training.checkpoints.shard_checkpoint",
    "tiled-processing": "training.inputs.smaller_tiles",
    "low-memory-loading": "training.checkpoints.load_in_parts",
    "low-memory-optimizer": "training.states.low_memory_optimizer",
    "smaller-buffers": "training.predictions.fewer_predictions",
    "smaller-partitions": "host.processes.smaller_parts",
    "clear-references": "training.references.clear_references",
    "memory-efficient-attention": "training.attention.fused_attention",
    "sequence-parallel": "training.sequences.split_sequences",
    "move-process": "host.processes.move_process",
    "fewer-workers": "host.processes.fewer_workers",
    "less-offload": "host.offload.less_offload",
    "unpin-memory": "host.offload.unpin",
    "less-swap-space": "host.swap.less_swap_space",
    "smaller-object-store": "host.object_store.smaller_store",
    "bigger-object-store": "host.object_store.bigger_store",
    "bigger-shm": "host.shm.bigger_shm",
    "more-address-space": "host.address_space.more_address_space",
    "raise-container-limit": "host.limits.raise_limit",
    "more-host-memory": "host.node.more_host_memory",
    "restart-periodically": "host.processes.restart",
    "tune-ray-monitor": "host.thresholds.tune_monitor",
    "free-disk": "host.node.free_disk",
    "spill-to-disk": "host.node.files_to_disk",
    "stream-data": "training.inputs.stream_data",
    "allocator-config": "allocator.allocator_config",
    "cap-preallocation": "allocator.cap_preallocation",
    "raise-allocator-cap": "caps.raise_cap",
    "more-gpus": "training.states.more_gpus",
    "pin-version": "upgrades.pin_version",
    "fix-resource-request": "cluster.requests.fix_request",
    "add-nodes": "cluster.nodes.add_nodes",
    "collect-evidence": "evidence.collect",
    "fix-environment": "environment.fix_environment",
    "fewer-build-jobs": "builds.fewer_jobs",
    "fix-shape": "wrong_axis.fix_shape",
    "free-the-gpu": "placement.free_the_gpu",
    "fix-placement": "placement.fix_placement",
    "start-in-sequence": "placement.start_in_sequence",
    "tensor-parallel": "split.split",
}


def compute(knob: str) -> Compute | None:
    """The function of a knob; None where it has none."""
    room, _, function = COMPUTE.get(knob, "").rpartition(".")
    if not room:
        return None
    found: Compute = getattr(import_module(f"oomdoctor.remedies.{room}"), function)
    return found
