"""Every function, progress line and title that the frameworks' own code tells a stage by; near misses below."""

from __future__ import annotations

import pytest
from test_doing import event, stage_of

MEMORY = ", memory allocated (GB): 12.3, memory reserved (GB): 14.0, device memory used/total (GB): 60.1/79.3"
# fmt: off
FUNCTIONS = (
    ("model_load", "openrlhf/cli/train_ppo_ray.py init_model_from_pretrained"),
    ("model_load", "verl/workers/fsdp_workers.py init_model"),
    ("model_load", "verl/workers/fsdp_workers.py _build_model_optimizer"),
    ("model_load", "trl/trainer/grpo_trainer.py create_model_from_path"),
    ("model_load", "transformers/modeling_utils.py from_pretrained"),
    ("model_load", "nemo_rl/algorithms/grpo.py setup"),
    ("model_load", "roll/distributed/strategy/megatron_strategy.py initialize"),
    ("model_load", "slime/backends/megatron_utils/actor.py init"),
    ("model_load", "deepspeed/runtime/zero/partition_parameters.py _partition_parameters zero.Init"),
    ("model_load", "torch/distributed/utils.py _sync_params_and_buffers"),
    ("engine_init", "openrlhf/trainer/ray/vllm_engine.py create_vllm_engines"),
    ("engine_init", "verl/workers/fsdp_workers.py _build_rollout"),
    ("engine_init", "vllm/entrypoints/llm.py __init__"),
    ("engine_init", "lmdeploy/turbomind/turbomind.py _create_model_instance"),
    ("engine_init", "lmdeploy/turbomind/turbomind.py _create_engine"),
    ("memory_profiling", "vllm/worker/worker.py determine_num_available_blocks"),
    ("memory_profiling", "vllm/v1/worker/gpu_model_runner.py profile_run"),
    ("cuda_graph_capture", "vllm/v1/worker/gpu_model_runner.py capture_model"),
    ("kv_cache_init", "vllm/engine/llm_engine.py _initialize_kv_caches"),
    ("kv_cache_init", "sglang/srt/model_executor/model_runner.py init_memory_pool"),
    ("rollout", "openrlhf/x.py generate_samples"),
    ("rollout", "openrlhf/x.py _generate_vllm"),
    ("rollout", "openrlhf/x.py add_requests"),
    ("rollout", "openrlhf/x.py get_responses"),
    ("rollout", "verl/x.py generate_sequences"),
    ("rollout", "trl/trainer/grpo_trainer.py _generate_and_score_completions"),
    ("rollout", "trl/trainer/grpo_trainer.py _generate_single_turn"),
    ("rollout", "trl/trainer/grpo_trainer.py _generate"),
    ("rollout", "nemo_rl/models/generation/vllm.py generate"),
    ("rollout", "roll/pipeline/x.py step_generate"),
    ("rollout", "openrlhf/x.py make_experience_list"),
    ("rollout", "orz/ppo/t.py make_experience"),
    ("rollout", "orz/ppo/t.py generate_vllm"),
    ("weight_sync", "openrlhf/x.py _broadcast_to_vllm"),
    ("weight_sync", "skyrl/x.py broadcast_to_inference_engines"),
    ("weight_sync", "openrlhf/x.py broadcast_to_vllm"),
    ("weight_sync", "openrlhf/x.py update_weight"),
    ("weight_sync", "openrlhf/x.py update_weight_cuda_ipc"),
    ("weight_sync", "openrlhf/x.py wake_up"),
    ("weight_sync", "verl/workers/sharding_manager/fsdp_vllm.py __enter__"),
    ("weight_sync", "verl/x.py rollout_mode"),
    ("weight_sync", "verl/x.py trainer_mode"),
    ("weight_sync", "verl/x.py update_weights"),
    ("weight_sync", "trl/x.py _move_model_to_vllm"),
    ("weight_sync", "trl/x.py sync_weights"),
    ("weight_sync", "nemo_rl/x.py prepare_for_generation"),
    ("weight_sync", "nemo_rl/x.py transfer_and_update_weights"),
    ("weight_sync", "nemo_rl/x.py refit_policy_generation"),
    ("weight_sync", "slime/x.py update_weights"),
    ("weight_sync", "roll/x.py step_model_update"),
    ("weight_sync", "areal/x.py update_weights"),
    ("weight_sync", "openrlhf/x.py offload_states"),
    ("weight_sync", "openrlhf/x.py reload_states"),
    ("weight_sync", "verl/x.py load_fsdp_model_to_gpu"),
    ("weight_sync", "verl/x.py offload_fsdp_optimizer"),
    ("weight_sync", "nemo_rl/x.py offload_before_refit"),
    ("weight_sync", "orz/x.py backload_to_gpu"),
    ("weight_sync", "orz/x.py offload_to_cpu"),
    ("logprob", "verl/x.py compute_log_prob"),
    ("logprob", "trl/x.py _get_per_token_logps"),
    ("logprob", "trl/x.py _get_per_token_logps_and_entropies"),
    ("logprob", "nemo_rl/x.py policy_and_reference_logprobs"),
    ("logprob", "skyrl/x.py fwd_logprobs_values_reward"),
    ("logprob", "roll/x.py cal_old_log_probs_values"),
    ("logprob", "verl/x.py compute_ref_log_prob"),
    ("logprob", "roll/x.py cal_ref_log_probs"),
    ("logprob", "openrlhf/x.py logprobs_from_logits"),
    ("logprob", "trl/x.py selective_log_softmax"),
    ("logprob", "slime/x.py compute_log_prob"),
    ("logprob", "slime/x.py log_probs"),
    ("logprob", "slime/x.py ref_log_probs"),
    ("logprob", "orz/x.py inference_and_calculates"),
    ("reward", "openrlhf/x.py remote_rm_fn"),
    ("reward", "openrlhf/x.py get_reward"),
    ("reward", "verl/x.py compute_rm_score"),
    ("reward", "verl/x.py compute_reward"),
    ("reward", "trl/x.py _calculate_rewards"),
    ("reward", "nemo_rl/x.py reward_calculation"),
    ("forward", "verl/x.py compute_values"),
    ("forward", "openrlhf/x.py ppo_train"),
    ("forward", "openrlhf/x.py training_step"),
    ("forward", "verl/x.py update_actor"),
    ("forward", "verl/x.py update_critic"),
    ("forward", "trl/x.py _compute_loss"),
    ("forward", "nemo_rl/x.py policy_training"),
    ("forward", "skyrl/x.py train_critic_and_policy"),
    ("forward", "skyrl/x.py policy_train"),
    ("forward", "slime/x.py actor_train"),
    ("forward", "roll/x.py step_train"),
    ("forward", "slime/x.py train_actor"),
    ("forward", "orz/x.py ppo_local_train_policy"),
    ("forward", "orz/x.py ppo_local_train_critic"),
    ("backward", "app/t.py main loss.backward()"),
    ("backward", "torch/autograd/graph.py _engine_run_backward"),
    ("backward", "torch/utils/checkpoint.py backward"),
    ("optimizer_step", "openrlhf/x.py optimizer_step"),
    ("optimizer_step", "verl/x.py _optimizer_step"),
    ("optimizer_step", "torch/optim/adamw.py _init_group"),
    ("optimizer_step", "torch/optim/adam.py _multi_tensor_adamw"),
    ("optimizer_step", "tensorflow/python/keras/optimizer_v2/adam.py _resource_apply_sparse"),
    ("optimizer_step", "tensorflow/python/training/slot_creator.py create_zeros_slot"),
    ("optimizer_step", "keras/src/optimizers/base_optimizer.py _backend_update_step"),
    ("optimizer_step", "keras/src/optimizers/base_optimizer.py add_variable_from_reference"),
    ("optimizer_step", "optax/_src/transform.py init_fn"),
    ("optimizer_step", "deepspeed/runtime/zero/stage3.py step"),
    ("optimizer_step", "deepspeed/runtime/zero/stage3.py partition_all_parameters"),
    ("checkpoint_save", "openrlhf/x.py save_checkpoint"),
    ("checkpoint_save", "openrlhf/x.py save_logs_and_checkpoints"),
    ("checkpoint_save", "openrlhf/x.py save_model"),
    ("checkpoint_save", "verl/x.py get_fsdp_full_state_dict"),
    ("checkpoint_save", "trl/x.py _save_checkpoint"),
    ("checkpoint_save", "skyrl/x.py save_checkpoints"),
    ("checkpoint_save", "nemo_rl/x.py checkpointing"),
    ("checkpoint_save", "deepspeed/x.py _zero3_consolidated_16bit_state_dict"),
    ("checkpoint_save", "torch/x.py _gather_state_dict"),
    ("checkpoint_save", "deepspeed/utils/zero_to_fp32.py x"),
    ("checkpoint_load", "openrlhf/x.py load_checkpoint"),
    ("checkpoint_load", "transformers/trainer.py _load_from_checkpoint"),
    ("checkpoint_load", "app/x.py main torch.load(p)"),
    ("eval", "openrlhf/x.py evaluate"),
    ("eval", "verl/trainer/ppo/ray_trainer.py _validate"),
    ("eval", "transformers/trainer.py evaluation_loop"),
    ("eval", "transformers/trainer.py prediction_step"),
    ("eval", "nemo_rl/x.py val_step"),
    ("eval", "nemo_rl/x.py validate"),
    ("eval", "transformers/trainer_pt_utils.py nested_concat"),
    ("eval", "transformers/trainer_pt_utils.py pad_across_processes"),
    ("backward", "tensorflow/python/ops/nn_grad.py _Conv2DGrad data_format=data_format),"),
    ("backward", "tensorflow/python/eager/backprop.py _gradient_function return grad_fn(mock_op, *out_grads)"),
    ("forward", "tensorflow/python/ops/nn_ops.py conv2d data_format=data_format),"),
    ("model_load", "deepspeed/module_inject/replace_module.py replace_fn new.to(device)"),
    ("forward", "deepspeed/module_inject/layers.py forward return torch.matmul(input, self.weight)"),
    ("model_load", "deepspeed/inference/engine.py __init__ self._apply_injection_policy(config)"),
    ("forward", "deepspeed/inference/engine.py forward outputs = self.module(*inputs)"),
)
LINES = (
    ("model_load", "Loading checkpoint shards:  50%|"),
    ("model_load", f"(WorkerDict pid=3) Before init actor from HF AutoModel{MEMORY}"),
    ("model_load", f"After init actor from HF AutoModel{MEMORY}"),
    ("model_load", f"After actor FSDP init{MEMORY}"),
    ("model_load", f"After ref FSDP init{MEMORY}"),
    ("model_load", f"After actor optimizer init{MEMORY}"),
    ("model_load", f"After critic FSDP{MEMORY}"),
    ("model_load", f"After offload actor model during init{MEMORY}"),
    ("model_load", f"Before FSDP{MEMORY}"),
    ("model_load", f"After FSDP{MEMORY}"),
    ("model_load", f"After init model from HF AutoModel{MEMORY}"),
    ("model_load", f"After offload optimizer during init{MEMORY}"),
    ("model_load", f"After offload grad during init{MEMORY}"),
    ("engine_init", f"Before building vllm rollout{MEMORY}"),
    ("engine_init", f"After building vllm rollout{MEMORY}"),
    ("engine_init", f"After building sharding manager{MEMORY}"),
    ("engine_init", "Create vllm engine gourps done."),
    ("cuda_graph_capture", "Capturing CUDA graph shapes:  10%|"),
    ("rollout", "Generate samples [1/2]"),
    ("rollout", "Episode [2/30]:  12%|█▏        | 3/24 [10:00<1:10:00, 200.00s/it]"),
    ("rollout", f"After entering rollout sharding manager{MEMORY}"),
    ("rollout", f"After rollout generation{MEMORY}"),
    ("rollout", "start generation"),
    ("rollout", "▶ Generating responses for batch of size 64..."),
    ("weight_sync", f"Before state_dict() in sharding manager memory{MEMORY}"),
    ("weight_sync", f"After state_dict() in sharding manager memory{MEMORY}"),
    ("weight_sync", f"After sync model weights in sharding manager{MEMORY}"),
    ("weight_sync", f"After del state_dict and empty_cache in sharding manager{MEMORY}"),
    ("weight_sync", f"After switch to rollout mode{MEMORY}"),
    ("weight_sync", f"After resume weights{MEMORY}"),
    ("weight_sync", f"After update_weights{MEMORY}"),
    ("weight_sync", f"After resume kv_cache{MEMORY}"),
    ("weight_sync", f"Before resume weights{MEMORY}"),
    ("weight_sync", f"Before load_fsdp_model_to_gpu{MEMORY}"),
    ("weight_sync", f"After load_fsdp_model_to_gpu{MEMORY}"),
    ("weight_sync", f"Before offload_fsdp_model_to_cpu{MEMORY}"),
    ("weight_sync", f"After offload_fsdp_model_to_cpu{MEMORY}"),
    ("weight_sync", "Timer update_weights start"),
    ("weight_sync", "Timer wake_up start"),
    ("weight_sync", "▶ Preparing for training..."),
    ("model_load", "Requested to load HiDreamImage"),
    ("forward", "Requested to load AutoencoderKL"),
    ("checkpoint_load", "[INFO|deepspeed.py:449] >> Attempting to resume from out/checkpoint-22"),
    ("checkpoint_load", "[INFO] loading zero_pp_rank_0_mp_rank_00_optim_states.pt (61 MB)"),
    ("checkpoint_load", "[engine.py:2754:f] successfully read 2 ZeRO state_dicts for rank 0"),
    ("forward", "Requested to load WanVAE"),
    ("model_load", "Processing pytorch_model-00003-of-00007.bin"),
    ("model_load", "Processing model-00003-of-00007.safetensors"),
    ("model_load", "ERROR lora diffusion_model.double_blocks.3.img_mlp.0.weight Allocation on device"),
    ("model_load", "ERROR diffusion_model.input_blocks.4.0.emb_layers.1.weight MPS backend out of memory"),
    ("logprob", f"After load actor params and grad during compute_log_prob{MEMORY}"),
    ("logprob", f"After load ref params and grad during compute_ref_log_prob{MEMORY}"),
    ("logprob", "▶ Computing logprobs..."),
    ("logprob", "generate local rollout batch done"),
    ("logprob", "Timer ref_log_probs start"),
    ("logprob", "Started: 'fwd_logprobs_values_reward'"),
    ("forward", "▶ Training policy..."),
    ("forward", f"After load actor optimizer during update_actor{MEMORY}"),
    ("forward", "Timer actor_train start"),
    ("forward", "experiences size: 512"),
    ("forward", "Started: 'policy_train'"),
    ("optimizer_step", f"Before optimizer step{MEMORY}"),
    ("optimizer_step", f"After optimizer step{MEMORY}"),
    ("checkpoint_load", f"After offload actor params and optimizer during load_checkpoint{MEMORY}"),
)
TITLES = (
    ("logprob", "ray::ActorModelRayActor.forward"),
    ("logprob", "ray::ReferenceModelRayActor.forward"),
    ("logprob", "ray::ReferenceModelActor.forward"),
    ("logprob", "ray::WorkerDict.actor_rollout_compute_log_prob"),
    ("logprob", "ray::WorkerDict.ref_compute_ref_log_prob"),
    ("reward", "ray::RewardModelRayActor.forward"),
    ("reward", "ray::WorkerDict.rm_compute_rm_score"),
    ("forward", "ray::CriticModelRayActor.forward"),
    ("forward", "ray::WorkerDict.critic_compute_values"),
    ("forward", "ray::WorkerDict.actor_rollout_update_actor"),
    ("checkpoint_save", "ray::WorkerDict.actor_rollout_save_checkpoint"),
    ("checkpoint_load", "ray::WorkerDict.actor_rollout_load_checkpoint"),
)
# fmt: on


@pytest.mark.parametrize(("stage", "function"), FUNCTIONS)
def test_a_frameworks_function_has_its_stage(stage: str, function: str) -> None:
    assert stage_of(event(function)) == stage


@pytest.mark.parametrize(
    ("function", "code", "stage"),
    [
        ("app.py infer", "pipe.to(device)", "model_load"),
        ("app.py generate", "self.pipeline.to('cuda')", "model_load"),
        ("swap.py weights_to", "block.weight.data = block.weight.data.to(device)", "model_load"),
        ("app.py infer", "image = pipe(prompt)", "serving"),
        ("app.py infer", "latents = latents.to(device)", "serving"),
        ("swap.py weights_to", "scale = weight.to(device)", "unknown"),
    ],
)
def test_who_moves_a_whole_pipeline_computes_nothing_yet(function: str, code: str, stage: str) -> None:
    assert stage_of(event(f"{function} {code}")) == stage


@pytest.mark.parametrize(("stage", "line"), LINES)
def test_the_last_progress_line_tells_the_stage(stage: str, line: str) -> None:
    assert stage_of(event(before=("python -m openrlhf.cli.train_ppo_ray", line))) == stage


@pytest.mark.parametrize(("stage", "title"), TITLES)
def test_a_workers_title_tells_its_stage(stage: str, title: str) -> None:
    assert stage_of(event(name=title)) == stage


@pytest.mark.parametrize(
    "line",
    [
        # the job is past what stood before, and these do not say where
        f"After offload actor model during update_actor{MEMORY}",
        "Successfully save model weights, training continue.",
        "Successfully update ref model with policy model, training continue.",
        "init policy/ref/critic/reward models done",
        "loaded completely 9012.51 6144.25 True",
        "loaded partially; 5120.00 MB usable, 5002.11 MB loaded, 1811.40 MB offloaded",
        "Model HiDreamImage prepared for dynamic VRAM loading. 8192MB Staged.",
    ],
)
def test_a_line_that_ends_a_stage_hides_what_stands_above(line: str) -> None:
    assert stage_of(event(before=(f"Before optimizer step{MEMORY}", line))) == "unknown"


@pytest.mark.parametrize(
    "line",
    ["Requested to loan a book", "ERROR lora not found: portrait.safetensors", "ERROR diffusion_model is no node"],
)
def test_a_line_that_sounds_like_a_load_of_comfyui_is_none(line: str) -> None:
    assert stage_of(event(before=("starting the server", line))) == "unknown"


@pytest.mark.parametrize(
    "function",
    [
        # the same names in other people's files
        "app/tool.py setup", "app/tool.py initialize", "app/tool.py init",
        "app/tool.py checkpointing", "app/tool.py offload_to_cpu", "app/tool.py partition_all_parameters",
    ],
)  # fmt: skip
def test_a_name_that_anybody_may_use_tells_nothing_elsewhere(function: str) -> None:
    assert stage_of(event(function)) == "unknown"


def test_a_timer_that_ended_is_no_stage() -> None:
    assert stage_of(event(before=("Timer actor_train end (elapsed: 12.3s)",))) == "unknown"
