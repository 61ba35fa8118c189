"""Which function computes the value of a knob; a knob that is not here is a switch or a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oomdoctor.remedies.allocator import allocator_config, cap_preallocation
from oomdoctor.remedies.builds import fewer_jobs
from oomdoctor.remedies.caps import raise_cap
from oomdoctor.remedies.cluster.nodes import add_nodes
from oomdoctor.remedies.cluster.requests import fix_request
from oomdoctor.remedies.engine.cache import fewer_graphs, keep_cache, quantize_cache, sleep
from oomdoctor.remedies.engine.larger_share import raise_share
from oomdoctor.remedies.engine.requests import fewer_sequences, limit_multimodal, shorter_context, smaller_prefill
from oomdoctor.remedies.engine.smaller_share import lower
from oomdoctor.remedies.engine.weights import smaller_weights
from oomdoctor.remedies.environment import fix_environment
from oomdoctor.remedies.evidence import collect
from oomdoctor.remedies.host.address_space import more_address_space
from oomdoctor.remedies.host.limits import raise_limit
from oomdoctor.remedies.host.node import files_to_disk, free_disk, more_host_memory
from oomdoctor.remedies.host.object_store import bigger_store, smaller_store
from oomdoctor.remedies.host.offload import less_offload
from oomdoctor.remedies.host.processes import fewer_workers, move_process, restart, smaller_parts
from oomdoctor.remedies.host.shm import bigger_shm
from oomdoctor.remedies.host.swap import less_swap_space
from oomdoctor.remedies.host.thresholds import tune_monitor
from oomdoctor.remedies.placement import fix_placement, free_the_gpu, start_in_sequence
from oomdoctor.remedies.proposal import Compute
from oomdoctor.remedies.split import split
from oomdoctor.remedies.training.attention import fused_attention
from oomdoctor.remedies.training.batches import smaller_microbatch
from oomdoctor.remedies.training.checkpoints import load_in_parts, shard_checkpoint
from oomdoctor.remedies.training.inputs import assign_on_the_host, fewer, smaller_tiles, stream_data
from oomdoctor.remedies.training.precision import lower_precision
from oomdoctor.remedies.training.predictions import fewer_predictions
from oomdoctor.remedies.training.references import clear_references
from oomdoctor.remedies.training.sequences import chunk_logits, shorter_sequences, split_sequences
from oomdoctor.remedies.training.states import (
    low_memory_optimizer,
    more_gpus,
    offload_optimizer,
    offload_parameters,
    shard_states,
)
from oomdoctor.remedies.upgrades import pin_version
from oomdoctor.remedies.wrong_axis import fix_shape

OF_THE_ENGINE: Final[Mapping[str, Compute]] = {
    "lower-engine-reservation": lower,
    "raise-engine-reservation": raise_share,
    "shorter-context": shorter_context,
    "fewer-sequences": fewer_sequences,
    "smaller-prefill": smaller_prefill,
    "eager-mode": fewer_graphs,
    "quantize-kv-cache": quantize_cache,
    "keep-engine-cache": keep_cache,
    "engine-sleep": sleep,
    "limit-multimodal": limit_multimodal,
    "quantize-weights": smaller_weights,
    "smaller-model": smaller_weights,
}

COMPUTE: Final[Mapping[str, Compute]] = {
    **OF_THE_ENGINE,
    "smaller-input": fewer,
    "cap-primitives": fewer,
    "fewer-environments": fewer,
    "resize-sim-buffers": fewer,
    "offload-parameters": offload_parameters,
    "offload-activations": assign_on_the_host,
    "smaller-microbatch": smaller_microbatch,
    "shorter-sequences": shorter_sequences,
    "shard-states": shard_states,
    "offload-optimizer": offload_optimizer,
    "chunked-logits": chunk_logits,
    "mixed-precision": lower_precision,
    "sharded-checkpoint": shard_checkpoint,
    "tiled-processing": smaller_tiles,
    "low-memory-loading": load_in_parts,
    "low-memory-optimizer": low_memory_optimizer,
    "smaller-buffers": fewer_predictions,
    "smaller-partitions": smaller_parts,
    "clear-references": clear_references,
    "memory-efficient-attention": fused_attention,
    "sequence-parallel": split_sequences,
    "move-process": move_process,
    "fewer-workers": fewer_workers,
    "less-offload": less_offload,
    "less-swap-space": less_swap_space,
    "smaller-object-store": smaller_store,
    "bigger-object-store": bigger_store,
    "bigger-shm": bigger_shm,
    "more-address-space": more_address_space,
    "raise-container-limit": raise_limit,
    "more-host-memory": more_host_memory,
    "restart-periodically": restart,
    "tune-ray-monitor": tune_monitor,
    "free-disk": free_disk,
    "spill-to-disk": files_to_disk,
    "stream-data": stream_data,
    "allocator-config": allocator_config,
    "cap-preallocation": cap_preallocation,
    "raise-allocator-cap": raise_cap,
    "more-gpus": more_gpus,
    "pin-version": pin_version,
    "fix-resource-request": fix_request,
    "add-nodes": add_nodes,
    "collect-evidence": collect,
    "fix-environment": fix_environment,
    "fewer-build-jobs": fewer_jobs,
    "fix-shape": fix_shape,
    "free-the-gpu": free_the_gpu,
    "fix-placement": fix_placement,
    "start-in-sequence": start_in_sequence,
    "tensor-parallel": split,
}
