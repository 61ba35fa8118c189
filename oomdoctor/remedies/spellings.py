"""How a knob is spelled for a framework. One row is one line; `{}` stands where the value goes.

OpenRLHF's options are `--snake_case` up to 0.10.1.post2 and dotted from 0.10.2, without aliases: two columns of rows.
verl's hydra keys moved between releases: the row whose key stands in the log's own dump wins.
"""
# ruff: noqa: E501 - one row is one line to read

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Final

from oomdoctor.incident.engine_budget import version_of
from oomdoctor.incident.model import Context, Setting, Value
from oomdoctor.records import dataclass
from oomdoctor.remedies.knobs import KNOBS


@dataclass(frozen=True, slots=True)
class Spelling:
    knob: str
    framework: str
    template: str  # "--zero_stage {}", "trainer.nnodes={}", "export X={}", "--enforce_eager"
    value: Value = None  # what to set, where the knob has one right value
    beside: str | None = None  # the layer below, whose option it is: accelerate's launcher passes both kinds on

    @property
    def setting(self) -> str:
        """The option's name as it is written: "--zero_stage", "trainer.nnodes"."""
        before = self.template.split("{")[0].split()
        flags = [word for word in before if word.startswith("-")]
        name = (flags[-1] if self.takes_value else flags[0]) if flags else before[-1 if self.is_export else 0]
        return name.split("=")[0].strip("+:'\"")

    @property
    def key(self) -> str:
        """The name under which the log's settings hold it."""
        return self.setting.lstrip("-+").replace("-", "_")

    @property
    def is_export(self) -> bool:
        return self.template.startswith("export ")

    @property
    def is_switch(self) -> bool:
        """A flag that is there or is not."""
        return self.template.startswith("--") and not self.takes_value

    @property
    def takes_value(self) -> bool:
        return "{}" in self.template

    def snippet(self, value: Value) -> str | None:
        """What to copy; None where there is no value to put in."""
        if not self.takes_value:
            return self.template
        if value is None:
            return None
        return self.template.replace("{}", _written(value))


def _written(value: Value) -> str:
    return shlex.quote(value) if isinstance(value, str) else str(value)


_R: Final = "actor_rollout_ref."
_V: Final = "actor_rollout_ref.rollout."
_A: Final = "actor_rollout_ref.actor."

ROWS: Final = (
    # the engine's share of the card
    Spelling("lower-engine-reservation", "openrlhf", "--vllm_gpu_memory_utilization {}"),
    Spelling("lower-engine-reservation", "openrlhf-dotted", "--vllm.gpu_memory_utilization {}"),
    Spelling("lower-engine-reservation", "verl", _V + "gpu_memory_utilization={}"),
    Spelling("lower-engine-reservation", "open-reasoner-zero", "exp.gpu_memory_utilization={}"),
    Spelling("lower-engine-reservation", "trl", "--vllm_gpu_memory_utilization {}"),
    Spelling("lower-engine-reservation", "ms-swift", "--vllm_gpu_memory_utilization {}"),
    Spelling("lower-engine-reservation", "llamafactory", "vllm_gpu_util: {}"),
    Spelling("lower-engine-reservation", "axolotl", "gpu_memory_utilization: {}"),
    Spelling("lower-engine-reservation", "unsloth", "gpu_memory_utilization={}"),
    Spelling("lower-engine-reservation", "nemo-rl", "policy.generation.vllm_cfg.gpu_memory_utilization={}"),
    Spelling("lower-engine-reservation", "slime", "--sglang-mem-fraction-static {}"),
    Spelling("lower-engine-reservation", "roll", "actor_infer.strategy_args.strategy_config.gpu_memory_utilization: {}"),
    Spelling("lower-engine-reservation", "areal", "vllm.gpu_memory_utilization={}"),
    Spelling("lower-engine-reservation", "areal", "sglang.mem_fraction_static={}"),
    Spelling("lower-engine-reservation", "skyrl", "generator.inference_engine.gpu_memory_utilization={}"),
    Spelling("lower-engine-reservation", "skyrl", "generator.gpu_memory_utilization={}"),
    Spelling("lower-engine-reservation", "vllm", "--gpu-memory-utilization {}"),
    Spelling("lower-engine-reservation", "sglang", "--mem-fraction-static {}"),
    Spelling("lower-engine-reservation", "lmdeploy", "--cache-max-entry-count {}"),
    Spelling("lower-engine-reservation", "tensorrt-llm", "--kv_cache_free_gpu_memory_fraction {}"),
    Spelling("lower-engine-reservation", "text-generation-inference", "--cuda-memory-fraction {}"),
    # the context
    Spelling("shorter-context", "openrlhf-dotted", "--data.max_len {}"),
    Spelling("shorter-context", "verl", _V + "max_model_len={}"),
    Spelling("shorter-context", "trl", "--vllm_max_model_length {}"),
    Spelling("shorter-context", "ms-swift", "--vllm_max_model_len {}"),
    Spelling("shorter-context", "nemo-rl", "policy.generation.vllm_cfg.max_model_len={}"),
    Spelling("shorter-context", "slime", "--sglang-context-length {}"),
    Spelling("shorter-context", "roll", "actor_infer.strategy_args.strategy_config.max_model_len: {}"),
    Spelling("shorter-context", "areal", "sglang.context_length={}"),
    Spelling("shorter-context", "vllm", "--max-model-len {}"),
    Spelling("shorter-context", "sglang", "--context-length {}"),
    Spelling("shorter-context", "lmdeploy", "--session-len {}"),
    Spelling("shorter-context", "text-generation-inference", "--max-total-tokens {}"),
    Spelling("shorter-context", "llama.cpp", "-c {}"),
    # how much the engine does at once
    Spelling("fewer-sequences", "verl", _V + "max_num_seqs={}"),
    Spelling("fewer-sequences", "ms-swift", "--vllm_max_num_seqs {}"),
    Spelling("fewer-sequences", "skyrl", "generator.inference_engine.max_num_seqs={}"),
    Spelling("fewer-sequences", "areal", "vllm.max_num_seqs={}"),
    Spelling("fewer-sequences", "areal", "sglang.max_running_requests={}"),
    Spelling("fewer-sequences", "vllm", "--max-num-seqs {}"),
    Spelling("fewer-sequences", "sglang", "--max-running-requests {}"),
    Spelling("fewer-sequences", "lmdeploy", "--max-batch-size {}"),
    Spelling("smaller-prefill", "verl", _V + "max_num_batched_tokens={}"),
    Spelling("smaller-prefill", "skyrl", "generator.inference_engine.max_num_batched_tokens={}"),
    Spelling("smaller-prefill", "vllm", "--max-num-batched-tokens {}"),
    Spelling("smaller-prefill", "sglang", "--chunked-prefill-size {}"),
    Spelling("smaller-prefill", "lmdeploy", "--max-prefill-token-num {}"),
    Spelling("smaller-prefill", "text-generation-inference", "--max-batch-prefill-tokens {}"),
    Spelling("eager-mode", "openrlhf", "--enforce_eager"),
    Spelling("eager-mode", "openrlhf-dotted", "--vllm.enforce_eager"),
    Spelling("eager-mode", "verl", _V + "enforce_eager={}", True),
    Spelling("eager-mode", "open-reasoner-zero", "exp.enforce_eager={}", True),
    Spelling("eager-mode", "ms-swift", "--vllm_enforce_eager {}", True),
    Spelling("eager-mode", "nemo-rl", "policy.generation.vllm_cfg.enforce_eager={}", True),
    Spelling("eager-mode", "skyrl", "generator.inference_engine.enforce_eager={}", True),
    Spelling("eager-mode", "vllm", "--enforce-eager"),
    Spelling("eager-mode", "sglang", "--disable-cuda-graph"),
    Spelling("eager-mode", "text-generation-inference", "--cuda-graphs {}", 0),
    Spelling("quantize-kv-cache", "vllm", "--kv-cache-dtype {}", "fp8"),
    Spelling("quantize-kv-cache", "sglang", "--kv-cache-dtype {}", "fp8_e5m2"),
    Spelling("quantize-kv-cache", "lmdeploy", "--quant-policy {}", 8),
    Spelling("quantize-kv-cache", "llama.cpp", "-ctk {}", "q8_0"),
    Spelling("limit-multimodal", "vllm", "--limit-mm-per-prompt {}"),
    Spelling("tensor-parallel", "openrlhf", "--vllm_tensor_parallel_size {}"),
    Spelling("tensor-parallel", "openrlhf-dotted", "--vllm.tensor_parallel_size {}"),
    Spelling("tensor-parallel", "verl", _V + "tensor_model_parallel_size={}"),
    Spelling("tensor-parallel", "trl", "--vllm_tensor_parallel_size {}"),
    Spelling("tensor-parallel", "ms-swift", "--vllm_tensor_parallel_size {}"),
    Spelling("tensor-parallel", "nemo-rl", "policy.generation.vllm_cfg.tensor_parallel_size={}"),
    Spelling("tensor-parallel", "skyrl", "generator.inference_engine.tensor_parallel_size={}"),
    Spelling("tensor-parallel", "slime", "--rollout-num-gpus-per-engine {}"),
    Spelling("tensor-parallel", "roll", "strategy_config.tensor_parallel_size: {}"),
    Spelling("tensor-parallel", "vllm", "--tensor-parallel-size {}"),
    Spelling("tensor-parallel", "sglang", "--tp-size {}"),
    Spelling("tensor-parallel", "megatron", "--tensor-model-parallel-size {}"),
    Spelling("tensor-parallel", "text-generation-inference", "--num-shard {}"),
    Spelling("engine-sleep", "openrlhf", "--vllm_enable_sleep"),
    Spelling("engine-sleep", "openrlhf-dotted", "--vllm.enable_sleep"),
    Spelling("engine-sleep", "verl", _V + "free_cache_engine={}", True),
    Spelling("engine-sleep", "trl", "--vllm_enable_sleep_mode"),
    Spelling("engine-sleep", "ms-swift", "--sleep_level {}", 1),
    Spelling("engine-sleep", "axolotl", "vllm_enable_sleep_mode: {}", True),
    Spelling("engine-sleep", "unsloth", "export UNSLOTH_VLLM_STANDBY={}", 1),
    Spelling("engine-sleep", "slime", "--offload-rollout"),
    Spelling("engine-sleep", "skyrl", "trainer.placement.colocate_all={}", True),
    Spelling("engine-sleep", "areal", "enable_offload={}", True),
    Spelling("engine-sleep", "vllm", "--enable-sleep-mode"),
    Spelling("engine-sleep", "sglang", "--enable-memory-saver"),
    Spelling("keep-engine-cache", "simplerl-reason", _V + "free_cache_engine={}", False),
    Spelling("quantize-weights", "vllm", "--quantization {}", "fp8"),
    Spelling("quantize-weights", "openrlhf", "--load_in_4bit"),
    Spelling("quantize-weights", "openrlhf-dotted", "--ds.load_in_4bit"),
    Spelling("quantize-weights", "llamafactory", "quantization_bit: {}", 4),
    Spelling("quantize-weights", "axolotl", "load_in_4bit: {}", True),
    Spelling("quantize-weights", "ms-swift", "--quant_bits {}", 4),
    # sharding and offload
    Spelling("shard-states", "openrlhf", "--zero_stage {}", 3),
    Spelling("shard-states", "openrlhf-dotted", "--ds.zero_stage {}", 3),
    Spelling("shard-states", "open-reasoner-zero", "exp.zero_stage={}", 3),
    Spelling("shard-states", "verl", _A + "fsdp_config.fsdp_size={}", -1),
    Spelling("shard-states", "ms-swift", "--deepspeed {}", "zero3"),
    Spelling("shard-states", "llamafactory", "deepspeed: {}", "examples/deepspeed/ds_z3_config.json"),
    Spelling("shard-states", "axolotl", "deepspeed: {}", "deepspeed_configs/zero3_bf16.json"),
    Spelling("shard-states", "deepspeed", '"zero_optimization": {"stage": 3}', 3),
    Spelling("shard-states", "accelerate", "--zero_stage {}", 3, beside="deepspeed"),
    Spelling("shard-states", "fsdp", "ShardingStrategy.FULL_SHARD"),
    Spelling("shard-states", "megatron", "--use-distributed-optimizer"),
    Spelling("shard-states", "trl", "--fsdp {}", "full_shard auto_wrap"),
    Spelling("shard-states", "transformers", "--fsdp {}", "full_shard auto_wrap"),
    Spelling("offload-optimizer", "openrlhf", "--adam_offload"),
    Spelling("offload-optimizer", "openrlhf-dotted", "--ds.adam_offload"),
    Spelling("offload-optimizer", "open-reasoner-zero", "exp.adam_offload={}", True),
    Spelling("offload-optimizer", "verl", _A + "fsdp_config.optimizer_offload={}", True),
    Spelling("offload-optimizer", "ms-swift", "--offload_optimizer {}", True),
    Spelling("offload-optimizer", "llamafactory", "deepspeed: {}", "examples/deepspeed/ds_z3_offload_config.json"),
    Spelling("offload-optimizer", "deepspeed", '"offload_optimizer": {"device": "cpu"}', "cpu"),
    Spelling("offload-optimizer", "accelerate", "--offload_optimizer_device {}", "cpu", beside="deepspeed"),
    Spelling("offload-optimizer", "slime", "--optimizer-cpu-offload"),
    Spelling("offload-optimizer", "megatron", "--optimizer-cpu-offload"),
    Spelling("offload-optimizer", "nemo-rl", "policy.dtensor_cfg.cpu_offload={}", True),
    Spelling("offload-optimizer", "skyrl", "trainer.policy.fsdp_config.cpu_offload={}", True),
    Spelling("offload-optimizer", "transformers", "--optim {}", "paged_adamw_8bit"),
    Spelling("offload-parameters", "openrlhf", "--ref_reward_offload"),
    Spelling("offload-parameters", "openrlhf-dotted", "--ref.offload"),
    Spelling("offload-parameters", "verl", _R + "ref.fsdp_config.param_offload={}", True),
    Spelling("offload-parameters", "open-reasoner-zero", "exp.ref_reward_offload={}", True),
    Spelling("offload-parameters", "ms-swift", "--offload_model {}", True),
    Spelling("offload-parameters", "slime", "--offload-train"),
    Spelling("offload-parameters", "nemo-rl", "policy.dtensor_cfg.cpu_offload={}", True),
    Spelling("offload-parameters", "areal", "actor.fsdp.offload_params={}", True),
    Spelling("offload-parameters", "axolotl", "offload_params: {}", True),
    Spelling("offload-parameters", "deepspeed", '"offload_param": {"device": "cpu"}', "cpu"),
    Spelling("offload-parameters", "accelerate", "--fsdp_offload_params {}", "true", beside="fsdp"),
    Spelling("offload-activations", "verl", _R + "model.enable_activation_offload={}", True),
    Spelling("offload-activations", "trl", "--activation_offloading {}", True),
    Spelling("offload-activations", "axolotl", "activation_offloading: {}", True),
    # activations and logits
    Spelling("gradient-checkpointing", "openrlhf", "--gradient_checkpointing"),
    Spelling("gradient-checkpointing", "openrlhf-dotted", "--actor.gradient_checkpointing_enable"),
    Spelling("gradient-checkpointing", "verl", _R + "model.enable_gradient_checkpointing={}", True),
    Spelling("gradient-checkpointing", "open-reasoner-zero", "exp.gradient_checkpointing={}", True),
    Spelling("gradient-checkpointing", "ms-swift", "--gradient_checkpointing {}", "true"),
    Spelling("gradient-checkpointing", "axolotl", "gradient_checkpointing: {}", True),
    Spelling("gradient-checkpointing", "unsloth", "use_gradient_checkpointing={}", "unsloth"),
    Spelling("gradient-checkpointing", "nemo-rl", "policy.dtensor_cfg.activation_checkpointing={}", True),
    Spelling("gradient-checkpointing", "skyrl", "trainer.gradient_checkpointing={}", True),
    Spelling("gradient-checkpointing", "areal", "actor.gradient_checkpointing={}", True),
    Spelling("gradient-checkpointing", "slime", "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"),
    Spelling("gradient-checkpointing", "megatron", "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"),
    Spelling("gradient-checkpointing", "accelerate", "--fsdp_activation_checkpointing {}", "true", beside="fsdp"),
    Spelling("gradient-checkpointing", "trl", "--gradient_checkpointing {}", True),
    Spelling("gradient-checkpointing", "transformers", "--gradient_checkpointing {}", True),
    Spelling("smaller-microbatch", "openrlhf", "--micro_train_batch_size {}"),
    Spelling("smaller-microbatch", "openrlhf-dotted", "--train.micro_batch_size {}"),
    Spelling("smaller-microbatch", "verl", _A + "ppo_micro_batch_size_per_gpu={}"),
    Spelling("smaller-microbatch", "open-reasoner-zero", "exp.micro_train_batch_size={}"),
    Spelling("smaller-microbatch", "axolotl", "micro_batch_size: {}"),
    Spelling("smaller-microbatch", "nemo-rl", "policy.train_micro_batch_size={}"),
    Spelling("smaller-microbatch", "skyrl", "trainer.micro_train_batch_size_per_gpu={}"),
    Spelling("smaller-microbatch", "slime", "--micro-batch-size {}"),
    Spelling("smaller-microbatch", "megatron", "--micro-batch-size {}"),
    Spelling("smaller-microbatch", "llamafactory", "per_device_train_batch_size: {}"),
    Spelling("smaller-microbatch", "trl", "--per_device_train_batch_size {}"),
    Spelling("smaller-microbatch", "ms-swift", "--per_device_train_batch_size {}"),
    Spelling("smaller-microbatch", "transformers", "--per_device_train_batch_size {}"),
    Spelling("smaller-microbatch", "deepspeed", '"train_micro_batch_size_per_gpu": {}'),
    Spelling("token-budget-batching", "openrlhf", "--use_dynamic_batch"),
    Spelling("token-budget-batching", "openrlhf-dotted", "--train.dynamic_batch_enable"),
    Spelling("token-budget-batching", "verl", _A + "use_dynamic_bsz={}", True),
    Spelling("token-budget-batching", "slime", "--use-dynamic-batch-size"),
    Spelling("token-budget-batching", "nemo-rl", "policy.dynamic_batching.enabled={}", True),
    Spelling("shorter-sequences", "openrlhf", "--generate_max_len {}"),
    Spelling("shorter-sequences", "openrlhf-dotted", "--rollout.max_new_tokens {}"),
    Spelling("shorter-sequences", "verl", "data.max_response_length={}"),
    Spelling("shorter-sequences", "open-reasoner-zero", "exp.generate_max_len={}"),
    Spelling("shorter-sequences", "ms-swift", "--max_length {}"),
    Spelling("shorter-sequences", "llamafactory", "cutoff_len: {}"),
    Spelling("shorter-sequences", "axolotl", "sequence_len: {}"),
    Spelling("shorter-sequences", "unsloth", "max_seq_length={}"),
    Spelling("shorter-sequences", "slime", "--rollout-max-response-len {}"),
    Spelling("shorter-sequences", "nemo-rl", "policy.max_total_sequence_length={}"),
    Spelling("shorter-sequences", "skyrl", "generator.sampling_params.max_generate_length={}"),
    Spelling("shorter-sequences", "trl", "--max_completion_length {}"),
    Spelling("shorter-sequences", "trl", "--max_length {}"),
    Spelling("shorter-sequences", "megatron", "--seq-length {}"),
    Spelling("sequence-parallel", "openrlhf", "--ring_attn_size {}"),
    Spelling("sequence-parallel", "openrlhf-dotted", "--ds.ring_attn_size {}"),
    Spelling("sequence-parallel", "verl", _A + "ulysses_sequence_parallel_size={}"),
    Spelling("sequence-parallel", "ms-swift", "--sequence_parallel_size {}"),
    Spelling("sequence-parallel", "axolotl", "context_parallel_size: {}"),
    Spelling("sequence-parallel", "skyrl", "trainer.policy.sequence_parallel_size={}"),
    Spelling("sequence-parallel", "slime", "--context-parallel-size {}"),
    Spelling("sequence-parallel", "megatron", "--context-parallel-size {}"),
    Spelling("packing", "openrlhf", "--packing_samples"),
    Spelling("packing", "openrlhf-dotted", "--ds.packing_samples"),
    Spelling("packing", "verl", _R + "model.use_remove_padding={}", True),
    Spelling("packing", "trl", "--packing {}", True),
    Spelling("packing", "ms-swift", "--packing {}", "true"),
    Spelling("packing", "llamafactory", "packing: {}", True),
    Spelling("packing", "axolotl", "sample_packing: {}", True),
    Spelling("packing", "nemo-rl", "policy.sequence_packing.enabled={}", True),
    Spelling("chunked-logits", "verl", _R + "model.use_fused_kernels={}", True),
    Spelling("chunked-logits", "openrlhf", "--use_liger_kernel"),
    Spelling("chunked-logits", "openrlhf-dotted", "--ds.use_liger_kernel"),
    Spelling("chunked-logits", "ms-swift", "--use_liger_kernel {}", "true"),
    Spelling("chunked-logits", "llamafactory", "enable_liger_kernel: {}", True),
    Spelling("chunked-logits", "axolotl", "cut_cross_entropy: {}", True),
    Spelling("chunked-logits", "nemo-rl", "policy.logprob_chunk_size={}", 1024),
    Spelling("chunked-logits", "skyrl", "trainer.logprobs_chunk_size={}", 1024),
    Spelling("chunked-logits", "slime", "--log-probs-chunk-size {}", 1024),
    Spelling("chunked-logits", "trl", "--use_liger_kernel {}", True),
    Spelling("chunked-logits", "transformers", "--use_liger_kernel {}", True),
    Spelling("chunked-logits", "megatron", "--cross-entropy-loss-fusion"),
    Spelling("memory-efficient-attention", "openrlhf", "--flash_attn"),
    Spelling("memory-efficient-attention", "transformers", "attn_implementation={}", "flash_attention_2"),
    Spelling("lora", "openrlhf", "--lora_rank {}", 16),
    Spelling("lora", "openrlhf-dotted", "--ds.lora.rank {}", 16),
    Spelling("lora", "verl", _R + "model.lora_rank={}", 32),
    Spelling("lora", "llamafactory", "finetuning_type: {}", "lora"),
    Spelling("lora", "ms-swift", "--tuner_type {}", "lora"),
    Spelling("lora", "axolotl", "adapter: {}", "lora"),
    Spelling("lora", "skyrl", "trainer.policy.model.lora.rank={}", 32),
    Spelling("lora", "trl", "--use_peft"),
    Spelling("low-memory-optimizer", "verl", f"{_A}optim.optimizer_impl=bitsandbytes.optim {_A}optim.optimizer=AdamW8bit"),
    Spelling("low-memory-optimizer", "trl", "--optim {}", "adamw_bnb_8bit"),
    Spelling("low-memory-optimizer", "ms-swift", "--optim {}", "adamw_bnb_8bit"),
    Spelling("low-memory-optimizer", "llamafactory", "optim: {}", "adamw_bnb_8bit"),
    Spelling("low-memory-optimizer", "axolotl", "optimizer: {}", "adamw_bnb_8bit"),
    Spelling("low-memory-optimizer", "transformers", "--optim {}", "adamw_bnb_8bit"),
    Spelling("low-memory-optimizer", "areal", "actor.optimizer.type={}", "adam_bf16"),
    Spelling("low-memory-optimizer", "megatron", "--use-precision-aware-optimizer"),
    Spelling("mixed-precision", "openrlhf", "--bf16"),
    Spelling("mixed-precision", "llamafactory", "bf16: {}", True),
    Spelling("mixed-precision", "trl", "--bf16 {}", True),
    Spelling("mixed-precision", "transformers", "--bf16 {}", True),
    Spelling("smaller-buffers", "transformers", "--eval_accumulation_steps {}", 1),
    Spelling("smaller-buffers", "trl", "--eval_accumulation_steps {}", 1),
    # placement and synchronisation
    Spelling("separate-placement", "trl", "--vllm_mode {}", "server"),
    Spelling("separate-placement", "ms-swift", "--vllm_mode {}", "server"),
    Spelling("separate-placement", "open-reasoner-zero", "exp.colocate_all={}", False),
    Spelling("separate-placement", "skyrl", "trainer.placement.colocate_all={}", False),
    Spelling("separate-placement", "nemo-rl", "policy.generation.colocated.enabled={}", False),
    Spelling("sync-in-parts", "verl", _V + "checkpoint_engine.update_weights_bucket_megabytes={}", 512),
    Spelling("sync-in-parts", "verl", _V + "update_weights_bucket_megabytes={}", 256),
    Spelling("sync-in-parts", "slime", "--update-weight-buffer-size {}", 268435456),
    Spelling("sync-in-parts", "nemo-rl", "export NRL_REFIT_BUFFER_MEMORY_RATIO={}", 0.1),
    # host memory
    Spelling("move-process", "openrlhf", "--remote_rm_url {}", "http://OTHER_NODE:5000/get_reward"),
    Spelling("move-process", "openrlhf-dotted", "--reward.remote_url {}", "http://OTHER_NODE:5000/get_reward"),
    Spelling("move-process", "verl", "reward.reward_model.enable_resource_pool={}", True),
    Spelling("less-swap-space", "simplerl-reason", _V + "swap_space={}", 0),
    Spelling("less-swap-space", "verl", "+" + _V + "engine_kwargs.vllm.swap_space={}", 0),
    Spelling("less-swap-space", "verl", _V + "swap_space={}", 0),
    Spelling("less-swap-space", "vllm", "--swap-space {}", 0),
    Spelling("less-offload", "verl", _A + "fsdp_config.optimizer_offload={}", False),
    Spelling("less-offload", "open-reasoner-zero", "exp.adam_offload={}", False),
    Spelling("less-offload", "deepspeed", '"offload_optimizer": {"device": "none"}', "none"),
    Spelling("less-offload", "accelerate", "--offload_optimizer_device {}", "none", beside="deepspeed"),
    Spelling("less-offload", "ms-swift", "--offload_optimizer {}", "false"),
    Spelling("less-offload", "vllm", "--cpu-offload-gb {}", 0),
    Spelling("unpin-memory", "deepspeed", '"offload_optimizer": {"pin_memory": false}', False),
    Spelling("unpin-memory", "axolotl", "dataloader_pin_memory: {}", False),
    Spelling("unpin-memory", "trl", "--dataloader_pin_memory {}", False),
    Spelling("unpin-memory", "transformers", "--dataloader_pin_memory {}", False),
    Spelling("unpin-memory", "torch", "pin_memory={}", False),
    Spelling("smaller-object-store", "verl", "+ray_kwargs.ray_init.object_store_memory={}"),
    Spelling("smaller-object-store", "ray", "ray start --head --object-store-memory={}"),
    Spelling("bigger-object-store", "verl", "+ray_kwargs.ray_init.object_store_memory={}"),
    Spelling("bigger-object-store", "ray", "ray start --head --object-store-memory={}"),
    Spelling("fewer-workers", "verl", "data.dataloader_num_workers={}"),
    Spelling("fewer-workers", "openrlhf-dotted", "--data.dataloader_num_workers {}"),
    Spelling("fewer-workers", "rllm", "rllm.workflow.n_parallel_tasks={}"),
    Spelling("fewer-workers", "llamafactory", "preprocessing_num_workers: {}"),
    Spelling("fewer-workers", "axolotl", "dataset_num_proc: {}"),
    Spelling("fewer-workers", "ms-swift", "--dataloader_num_workers {}"),
    Spelling("fewer-workers", "transformers", "--dataloader_num_workers {}"),
    Spelling("fewer-workers", "ray", "ray start --head --num-cpus={}"),
    Spelling("fewer-workers", "torch", "num_workers={}"),
    Spelling("stream-data", "llamafactory", "streaming: {}", True),
    Spelling("stream-data", "ms-swift", "--streaming {}", "true"),
    Spelling("sharded-checkpoint", "verl", _A + "checkpoint.save_contents={}", "['model']"),
    Spelling("sharded-checkpoint", "openrlhf", "--disable_ds_ckpt"),
    Spelling("sharded-checkpoint", "openrlhf-dotted", "--ckpt.disable_ds"),
    Spelling("sharded-checkpoint", "accelerate", "--fsdp_state_dict_type {}", "SHARDED_STATE_DICT", beside="fsdp"),
    Spelling("sharded-checkpoint", "fsdp", "StateDictType.SHARDED_STATE_DICT"),
    Spelling("sharded-checkpoint", "deepspeed", '"stage3_gather_16bit_weights_on_model_save": {}', False),
    Spelling("low-memory-loading", "accelerate", "--fsdp_cpu_ram_efficient_loading {}", "true", beside="fsdp"),
    Spelling("low-memory-loading", "llamafactory", "low_cpu_mem_usage: {}", True),
    Spelling("low-memory-loading", "areal", "actor.fsdp.memory_efficient_load={}", True),
    Spelling("low-memory-loading", "transformers", "low_cpu_mem_usage={}", True),
    Spelling("restart-periodically", "verl", "trainer.save_freq={}"),
    Spelling("restart-periodically", "openrlhf", "--save_steps {}"),
    Spelling("restart-periodically", "transformers", "--save_steps {}"),
    Spelling("tune-ray-monitor", "ray", "export RAY_memory_usage_threshold={}"),
    Spelling("fewer-build-jobs", "torch", "export MAX_JOBS={}"),
    Spelling("bigger-shm", "docker", "docker run --shm-size={}"),
    Spelling("raise-container-limit", "docker", "docker run --memory={}"),
    Spelling("raise-container-limit", "slurm", "#SBATCH --mem={}"),
    Spelling("raise-container-limit", "kubernetes", "resources.limits.memory: {}"),
    # devices
    Spelling("allocator-config", "torch", "export PYTORCH_CUDA_ALLOC_CONF={}", "expandable_segments:True"),
    Spelling("cap-preallocation", "jax", "export XLA_PYTHON_CLIENT_PREALLOCATE={}", "false"),
    Spelling("cap-preallocation", "tensorflow", "export TF_FORCE_GPU_ALLOW_GROWTH={}", "true"),
    Spelling("fix-resource-request", "ray", "ray start --head --num-gpus={}"),
)  # fmt: skip

# The same option serves both directions.
_SAME_AS: Final = {"raise-engine-reservation": "lower-engine-reservation"}

_DOTTED_OPENRLHF: Final = ("vllm.", "ds.", "train.", "rollout.", "actor.", "ref.", "reward.", "algo.", "ckpt.")
_SNAKE_OPENRLHF: Final = (
    "actor_num_nodes", "actor_num_gpus_per_node", "vllm_num_engines", "micro_train_batch_size", "micro_rollout_batch_size",
    "zero_stage", "remote_rm_url", "adam_offload", "colocate_all_models", "vllm_gpu_memory_utilization",
)  # fmt: skip
DOTTED_SINCE: Final = (0, 10, 2)


def spelling(knob: str, context: Context, layer: str | None = None) -> Spelling | None:
    """How the outermost framework of the log that owns the knob spells it."""
    rows = [row for row in ROWS if row.knob == _SAME_AS.get(knob, knob)]
    for framework in [layer] if layer else _layers(context):
        of_framework = [row for row in rows if row.framework == framework and _is_there(row, context)]
        if of_framework:
            return next((row for row in of_framework if row.key in context.settings), of_framework[0])
    return None


def _is_there(row: Spelling, context: Context) -> bool:
    return row.beside is None or row.beside in context.frameworks


def _layers(context: Context) -> Iterable[str]:
    for name in context.frameworks:
        yield "openrlhf-dotted" if name == "openrlhf" and dotted_openrlhf(context) else name


def dotted_openrlhf(context: Context) -> bool:
    """Whether this OpenRLHF spells its options with dots."""
    version = version_of(context.frameworks.get("openrlhf"))
    if version is not None:
        return version >= DOTTED_SINCE
    return any(name.startswith(_DOTTED_OPENRLHF) for name in context.settings)


def spelling_assumptions(row: Spelling, context: Context) -> tuple[str, ...]:
    """What was taken for granted about the version when the row was picked."""
    snake = any(name in context.settings for name in _SNAKE_OPENRLHF)
    if row.framework == "openrlhf" and context.frameworks.get("openrlhf") is None and not snake:
        return ("OpenRLHF before 0.10.2 (its version is not printed); later ones spell options with dots",)
    return ()


def current(knob: str, row: Spelling | None, context: Context) -> Setting | None:
    """What the log says the knob is set to now."""
    if row is not None:
        exact = context.settings.get(row.key)
        if exact is not None:
            return exact
    names = (*([row.key] if row is not None else []), *KNOBS[knob].settings)
    stated = (context.setting(name) for name in names)
    return next((one for one in stated if one is not None and KNOBS[knob].is_meant(one.value)), None)
