"""The knobs: what each one is in words, which pools it relieves and which it spends, and what it costs.

One row is one knob. How it is spelled for a framework stands in spellings.py.
"""
# ruff: noqa: E501 - one row is one line to read

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oomdoctor.records import dataclass

HOST: Final = ("host_ram", "cgroup")
GPU: Final = ("gpu",)
CACHE: Final = ("kv_cache",)
BOTH: Final = ("gpu", "kv_cache")
STORE: Final = ("object_store",)
SHM: Final = ("shm",)
PINNED: Final = ("host_ram", "cgroup", "pinned")
QUEUE: Final = ("scheduling",)
NOTHING: Final = ()
EVERY: Final = ("gpu", "kv_cache", "host_ram", "cgroup", "pinned", "object_store", "shm")


@dataclass(frozen=True, slots=True)
class Knob:
    """One way to change where memory goes."""

    id: str
    action: str  # what to do, where nothing can be computed
    relieves: tuple[str, ...]
    spends: tuple[str, ...]
    cost: str
    # The names under which configurations of any framework state it.
    settings: tuple[str, ...] = ()
    # A smaller value is an option of another meaning: the block of a KV cache, a default of generate().
    least: int = 0

    def is_meant(self, value: object) -> bool:
        """Whether an option of one of these names, with this value, is the knob's."""
        return not isinstance(value, int | float) or isinstance(value, bool) or value >= self.least


_TABLE: Final = (
    # engine
    Knob("lower-engine-reservation", "Lower the share of the card that the inference engine reserves, in steps of 0.05, until the rest of the job fits beside it", GPU, CACHE, "fewer KV-cache blocks: slower generation, and below a point none at all", ("gpu_memory_utilization", "vllm_gpu_memory_utilization", "mem_fraction_static", "vllm_gpu_util")),
    Knob("raise-engine-reservation", "Raise the share of the card that the inference engine may use, as far as what else is on the card allows", CACHE, GPU, "less room on the card for graphs, NCCL and colocated training", ("gpu_memory_utilization", "vllm_gpu_memory_utilization", "mem_fraction_static", "vllm_gpu_util")),
    Knob("shorter-context", "Set the engine's longest context to what your prompts and answers really need", BOTH, NOTHING, "longer requests are refused or cut", ("max_model_len", "vllm_max_model_len", "context_length", "max_seq_len")),
    Knob("fewer-sequences", "Halve the number of sequences that the engine serves at once", BOTH, NOTHING, "less throughput", ("max_num_seqs", "vllm_max_num_seqs", "max_running_requests")),
    Knob("smaller-prefill", "Halve the number of tokens that the engine takes in one step", GPU, NOTHING, "slower first tokens", ("max_num_batched_tokens", "chunked_prefill_size")),
    Knob("eager-mode", "Run the engine without CUDA graphs", BOTH, NOTHING, "slower decoding, most of all for small batches", ("enforce_eager", "vllm_enforce_eager", "disable_cuda_graph")),
    Knob("quantize-kv-cache", "Keep the KV cache in fp8", BOTH, NOTHING, "a little accuracy; needs a card and a model that support it", ("kv_cache_dtype",)),
    Knob("engine-sleep", "Let the engine give its memory back while the trainer works", GPU, HOST, "sleep level 1 keeps a pinned copy of the weights per engine in host RAM; waking takes time", ("vllm_enable_sleep", "enable_sleep_mode", "vllm_enable_sleep_mode", "sleep_level")),
    Knob("keep-engine-cache", "Keep the engine's caches between rollouts instead of building them again each time", HOST, GPU, "the KV cache stays on the card while training: less room for the update", ("free_cache_engine",)),
    Knob("limit-multimodal", "Limit the images and videos per prompt (0 switches a modality off), or their size", GPU, NOTHING, "prompts with more or larger media are refused", ("limit_mm_per_prompt",)),
    Knob("tensor-parallel", "Split the model over more cards (tensor parallel)", BOTH, NOTHING, "more communication, fewer engines; must divide the attention heads", ("tensor_parallel_size", "tensor_model_parallel_size", "vllm_tensor_parallel_size", "tp_size", "tp")),
    Knob("quantize-weights", "Load the weights in 8 or 4 bits (a quantized checkpoint, or quantization at load)", EVERY, NOTHING, "some quality, and speed on some cards", ("quantization", "load_in_4bit", "load_in_8bit")),
    Knob("smaller-model", "Use a smaller model", EVERY, NOTHING, "quality", ()),
    # training
    Knob("shard-states", "Shard parameters, gradients and optimizer states over all ranks (ZeRO-3, FSDP full shard)", GPU, NOTHING, "more communication in every step", ("zero_stage", "zero_optimization.stage", "zero_optimization_stage")),
    Knob("offload-optimizer", "Keep the optimizer's states in host RAM", GPU, HOST, "12 to 16 bytes of host RAM per parameter, and slower steps", ("adam_offload", "optimizer_offload", "offload_optimizer.device", "offload_optimizer")),
    Knob("offload-parameters", "Keep parameters that are not used just now in host RAM", GPU, HOST, "2 bytes of host RAM per parameter, and slow gathers", ("param_offload", "ref_reward_offload", "offload_param.device", "offload_params", "fsdp_offload_params")),
    Knob("offload-activations", "Keep saved activations in host RAM", GPU, HOST, "host RAM for the activations, and PCIe time", ("enable_activation_offload", "activation_offloading", "cpu_checkpointing")),
    Knob("gradient-checkpointing", "Compute activations again in the backward pass instead of keeping them", GPU, NOTHING, "a quarter to a third more compute", ("gradient_checkpointing", "enable_gradient_checkpointing", "gradient_checkpointing_enable", "recompute_granularity", "activation_checkpointing")),
    Knob("smaller-microbatch", "Halve the micro batch and accumulate over twice as many", (*GPU, *HOST), NOTHING, "more, smaller steps for the same global batch", ("micro_train_batch_size", "ppo_micro_batch_size_per_gpu", "per_device_train_batch_size", "train_micro_batch_size_per_gpu", "micro_batch_size_per_gpu", "micro_batch_size", "train.micro_batch_size", "micro_rollout_batch_size", "batch_size")),
    Knob("token-budget-batching", "Fill micro batches up to a number of tokens instead of a number of sequences", GPU, NOTHING, "uneven batches; the budget must exceed the longest sequence", ("use_dynamic_bsz", "use_dynamic_batch", "use_dynamic_batch_size")),
    Knob("shorter-sequences", "Shorten prompts and answers", (*GPU, *HOST), NOTHING, "truncated answers bias the reward", ("max_response_length", "generate_max_len", "max_completion_length", "max_new_tokens", "max_seq_length", "cutoff_len", "sequence_len", "max_length", "max_len", "seq_length", "block_size", "model_max_length"), least=128),
    Knob("sequence-parallel", "Split sequences over several cards (sequence or context parallel)", GPU, NOTHING, "communication; the size must divide the attention heads", ("ulysses_sequence_parallel_size", "ring_attn_size", "sequence_parallel_size", "context_parallel_size")),
    Knob("packing", "Train without padding tokens", GPU, NOTHING, "a packed batch is longer than a single sequence", ("packing_samples", "use_remove_padding", "packing", "sample_packing")),
    Knob("smaller-buffers", "Make what is collected smaller: replay buffers, caches, predictions kept until the end", (*GPU, *HOST), NOTHING, "more frequent writing out, less history", ("buffer_size", "replay_buffer_size", "eval_accumulation_steps")),
    Knob("chunked-logits", "Compute logits and loss in chunks or fused, never the whole tokens x vocabulary tensor", GPU, NOTHING, "little", ("use_fused_kernels", "use_liger_kernel", "use_liger_loss", "entropy_from_logits_with_chunking", "enable_liger_kernel", "log_probs_chunk_size")),
    Knob("memory-efficient-attention", "Use flash attention (or SDPA): its memory does not grow with the square of the length", GPU, NOTHING, "needs a supported card and dtype", ("flash_attn", "attn_implementation")),
    Knob("lora", "Train adapters instead of all weights", (*GPU, *HOST), NOTHING, "quality on some tasks; merging before serving", ("lora_rank", "lora_r", "peft_config", "use_peft")),
    Knob("low-memory-optimizer", "Use an optimizer with smaller states (8-bit Adam, Adafactor)", (*GPU, *HOST), NOTHING, "a little stability", ("optim", "optimizer")),
    Knob("mixed-precision", "Load and train in bf16 instead of fp32", (*GPU, *HOST), NOTHING, "precision", ("bf16", "torch_dtype", "dtype")),
    Knob("separate-placement", "Place the engine and the trainer on different cards", (*GPU, *HOST), QUEUE, "more cards", ("colocate_all_models", "colocate_all", "train.colocate_all", "vllm_mode")),
    Knob("sync-in-parts", "Send weights to the engine in smaller parts", (*GPU, *HOST), NOTHING, "a slower weight update", ("update_weights_bucket_megabytes", "update_weight_buffer_size", "layered_summon", "multi_stage_wake_up")),
    Knob("clear-references", "Drop references to tensors and results that are no longer needed (detach losses, no lists of tensors, del before the next allocation)", (*BOTH, *HOST), NOTHING, "a look at the code", ()),
    # host
    Knob("move-process", "Move the process that holds the memory to another node, or cap it", HOST, NOTHING, "another machine, and network between", ("remote_rm_url", "reward.remote_url")),
    Knob("fewer-workers", "Run fewer worker processes at once", (*HOST, *SHM, *STORE), NOTHING, "less parallel work", ("num_workers", "dataloader_num_workers", "preprocessing_num_workers", "num_proc", "dataset_num_proc", "num_envs", "n_parallel_tasks", "max_concurrent_trials")),
    Knob("less-offload", "Take optimizer or parameter offload (or engine sleep at level 1) back", PINNED, GPU, "the states return to the card", ("adam_offload", "optimizer_offload", "param_offload", "offload_optimizer.device", "offload_param.device", "cpu_offload_gb", "ref_reward_offload", "vllm_enable_sleep", "enable_sleep_mode")),
    Knob("less-swap-space", "Set the engine's CPU swap space to 0", PINNED, NOTHING, "preempted sequences are computed again instead of swapped", ("swap_space", "vllm_swap_space")),
    Knob("smaller-object-store", "Give Ray's object store less memory", (*HOST, *SHM), STORE, "spilling to disk begins earlier", ("object_store_memory", "object_store_memory_gb")),
    Knob("bigger-object-store", "Give Ray's object store more memory", STORE, (*HOST, *SHM), "less memory for the workers", ("object_store_memory",)),
    Knob("stream-data", "Stream or memory-map the data instead of holding it in every process", (*HOST, *STORE, *SHM), NOTHING, "slower random access", ("streaming", "keep_in_memory", "lazy_tokenize", "cache")),
    Knob("low-memory-loading", "Load the weights shard by shard and once per node, not a full copy per rank", (*HOST, *GPU), NOTHING, "a slower start", ("low_cpu_mem_usage", "cpu_ram_efficient_loading", "zero3_init_flag", "fsdp_cpu_ram_efficient_loading")),
    Knob("sharded-checkpoint", "Save shards from every rank instead of gathering the whole state on one", (*HOST, *GPU), NOTHING, "a consolidation step before others can load it", ("state_dict_type", "fsdp_state_dict_type", "save_contents", "stage3_gather_16bit_weights_on_model_save")),
    Knob("unpin-memory", "Use pageable instead of page-locked host memory", PINNED, NOTHING, "slower copies to the card", ("pin_memory", "dataloader_pin_memory")),
    Knob("raise-memlock", "Raise the limit on locked memory", ("pinned",), NOTHING, "needs the administrator of the node", ()),
    Knob("bigger-shm", "Give the container a larger /dev/shm", SHM, HOST, "counts as host memory once it is filled", ("shm_size",)),
    Knob("raise-container-limit", "Ask the container, pod or job for more memory", ("cgroup", "host_ram"), NOTHING, "fewer jobs fit on the node", ("memory", "mem", "mem_per_cpu", "mem_per_gpu", "resources.limits.memory", "limits.memory")),
    Knob("more-host-memory", "Use a node with more memory", PINNED, NOTHING, "a larger machine", ()),
    Knob("more-address-space", "Lift the limit on address space (ulimit -v, overcommit, the page file)", (*HOST, "pinned"), NOTHING, "the machine may then run out for real", ()),
    Knob("restart-periodically", "Save often and restart before the memory is full, until the leak is found", (*HOST, *GPU), NOTHING, "the time of the restarts", ("save_freq", "save_steps")),
    Knob("tune-ray-monitor", "Raise Ray's memory threshold only to see more; it delays the kill, or leaves it to the kernel", (), NOTHING, "a delay, no cure: the kernel kills next, and not only workers", ("RAY_memory_usage_threshold",)),
    Knob("fewer-build-jobs", "Compile with fewer parallel jobs", HOST, NOTHING, "a longer build", ("MAX_JOBS",)),
    Knob("free-disk", "Free the disk that Ray spills to, or point Ray at a larger one", STORE, NOTHING, "disk space", ()),
    # device
    Knob("free-the-gpu", "See which processes hold the card and end those that are yours and left over", BOTH, NOTHING, "other people's jobs may be among them: look before you end any", ()),
    Knob("fix-placement", "Give every rank its own card", GPU, NOTHING, "none", ("CUDA_VISIBLE_DEVICES",)),
    Knob("allocator-config", "Let PyTorch's allocator grow its segments (expandable_segments)", GPU, NOTHING, "not together with an engine's sleep mode (memory pools)", ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")),
    Knob("cap-preallocation", "Keep JAX or TensorFlow from reserving the whole card", GPU, NOTHING, "slower allocation, more fragmentation", ("XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION", "TF_FORCE_GPU_ALLOW_GROWTH")),
    Knob("raise-allocator-cap", "Lift the allocator's own limit (memory fraction, watermark)", GPU, HOST, "the system may run out instead", ("PYTORCH_MPS_HIGH_WATERMARK_RATIO",)),
    Knob("more-gpus", "Spread the job over more cards", BOTH, QUEUE, "more cards", ()),
    # other
    Knob("pin-version", "Use a version that does not need the extra memory", EVERY, NOTHING, "an upgrade of one package", ()),
    Knob("fix-resource-request", "Ask Ray for what the cluster has", QUEUE, NOTHING, "none", ("num_gpus", "num_cpus")),
    Knob("add-nodes", "Add nodes to the cluster", (*QUEUE, *HOST), NOTHING, "more machines", ("nnodes",)),
    Knob("start-in-sequence", "Start the engines one after the other, each when the one before is ready", BOTH, NOTHING, "a longer start", ()),
    Knob("fix-shape", "Look at the shape that was asked for: a dimension is wrong", (*BOTH, *HOST), NOTHING, "a look at the code", ()),
    Knob("fix-environment", "Set the environment right", EVERY, NOTHING, "none", ()),
    Knob("collect-evidence", "Collect what the log does not hold", NOTHING, NOTHING, "a few commands", ()),
)  # fmt: skip

KNOBS: Final[Mapping[str, Knob]] = {knob.id: knob for knob in _TABLE}
