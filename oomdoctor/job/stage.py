"""What the job was doing when an event happened.

The innermost frame that tells most wins: an optimizer's first state inside DeepSpeed's `backward` is the optimizer
step, a forward that checkpointing runs again inside `backward` is backward. Then come the titles of Ray's workers,
then the last progress line, then what this kind of message can only come from. Method names are those of OpenRLHF,
verl, TRL, NeMo-RL, SkyRL, slime, ROLL, Open-Reasoner-Zero, transformers, DeepSpeed, FSDP, Megatron, vLLM and SGLang.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, Final

import ahocorasick_rs

from oomdoctor.families.event import Event, Frame
from oomdoctor.job.building import places_a_model
from oomdoctor.job.roles import class_and_method, role_of
from oomdoctor.patterns import late

UNKNOWN: Final = "unknown"
CHARACTERS: Final = 400  # of a line that are looked at
# An engine's work is the rollout of a trainer or somebody's service: decided by what else the log shows.
GENERATION: Final = "generation"

# Functions by name, underscores in front left out; "*" stands for any ending. The number says how much they tell:
# 3 is one step of a stage, 2 the stage's own function, 1 something that many stages do.
_FUNCTIONS: Final = (
    # inference engines
    (3, "memory_profiling", """
        profile_run determine_available_memory determine_num_available_blocks profile_num_available_blocks
        profile_multimodal* warmup_and_profile
    """),
    (3, "cuda_graph_capture", """
        capture capture_model capture_graph* capture_cudagraph* capture_cuda_graph* capture_one_batch_size
        capture_begin capture_end init_device_graphs init_cuda_graphs
    """),
    (3, "engine_init", """
        dummy_sampler_run compile_or_warm_up_model kernel_warmup warmup_model
    """),
    (3, "kv_cache_init", """
        initialize_cache initialize_kv_cache* initialize_from_config init_memory_pool init_cache init_cache_engine
        allocate_gpu_cache allocate_kv_cache* create_kv_* get_kv_cache_config*
        check_enough_kv_cache_memory raise_if_cache_size_invalid
    """),
    (2, "engine_init", """
        init_device request_memory init_workers* init_executor* init_engine* create_vllm_engine* build_rollout
        init_torch_distributed from_engine_args run_engine_core setup_vllm* dummy_run dummy_forward
    """),
    (2, GENERATION, """
        execute_model run_busy_loop process_engine_step step_with_batch_queue event_loop_* run_batch prefill
        forward_batch_generation forward_decode forward_extend decode_token generate_token model_generate
        run_engine_loop engine_step
    """),
    # weights between trainer and engine, offload and reload
    (3, "weight_sync", """
        broadcast_to_vllm update_weight update_weight_* update_weights update_weights_* sync_weight* sync_model_*
        move_model_to_vllm refit_policy_generation transfer_and_update_weights update_params_for_*
        wake_up onload_weights resume_memory_occupation backload_* reload_to_gpu reload_states offload_states
        load_fsdp_* offload_fsdp_* rollout_mode trainer_mode step_model_update prepare_for_generation
        offload_before_refit
    """),
    # states on disk
    (3, "checkpoint_save", """
        save save_checkpoint save_checkpoints save_checkpoint_* save_model save_pretrained save_state_dict
        save_optimizer* save_logs_and_checkpoints save_to_state_dict save_zero_checkpoint dist_save
        zero3_consolidated_* get_fsdp_full_state_dict zero_to_fp32 convert_zero_checkpoint*
    """),
    # also on the way to an engine, which weighs more
    (2, "checkpoint_save", """
        state_dict full_state_dict* gather_state_dict full_tensor post_state_dict_hook pre_state_dict_hook
        full_post_state_dict_hook unshard_params_for_state_dict*
    """),
    (3, "checkpoint_load", """
        load_checkpoint load_from_checkpoint resume_from_checkpoint load_optimizer* restore_checkpoint
    """),
    (2, "checkpoint_load", """
        default_restore_location cuda_deserialize legacy_load restore_location load_zero_checkpoint
    """),
    # one step of training
    (3, "optimizer_step", """
        init_group multi_tensor_* single_tensor_* fused_adam* fused_sgd* take_model_step optimizer_step
        lazy_init_optimizer* initialize_optimizer_states foreach_step step_supports_amp_scaling
        clip_grad_norm clip_grad_norm_ clip_grads_with_norm_ unscale_ unscale_grads_ unscale_and_clip_grads
    """),
    (2, "backward", """
        backward backward_step backward_pass backward_hook backward_prologue backward_epilogue
        engine_run_backward run_backward
    """),
    (2, "forward", """
        closure optimizer_closure update_actor update_policy update_critic ppo_train* training_step train_step
        policy_loss policy_train policy_training compute_loss compute_values train_critic_and_policy step_train
        actor_train train_actor ppo_local_train_*
    """),
    # reinforcement learning
    (3, "logprob", """
        compute_log_prob compute_log_probs compute_ref_log_prob compute_old_log_prob get_per_token_logps*
        ref_per_token_logps policy_and_reference_logprobs fwd_logprobs_values_reward
        cal_old_log_probs* cal_ref_log_probs* get_logprobs inference_and_calculates
    """),
    (1.5, "logprob", """
        logprobs_from_logits* log_probs_from_logits selective_log_softmax entropy_from_logits
    """),
    (2, "reward", """
        compute_reward* compute_rm_score calculate_reward calculate_rewards get_reward get_rewards
        reward_fn reward_func reward_calculation remote_rm*
    """),
    (2, "rollout", """
        generate_sequences generate_and_score_completions generate_single_turn generate_vllm generate_samples*
        make_experience* add_requests get_responses collect_rollouts do_rollout* rollout rollout_* sample_from_env*
        step_env* env_step synchronous_parallel_sample step_generate
    """),
    (3, "eval", """
        evaluate evaluate_* evaluation_loop prediction_step prediction_loop validate validation_step validation_loop
        validation_epoch val_step run_validation run_eval* eval_step eval_epoch eval_model eval_loop do_eval
        nested_concat pad_across_processes
    """),
    # data, weights into memory, the two ends
    (2, "data_load", """
        load_dataset* map_single tokenize tokenize_* try_get_data try_get_batch default_collate collate collate_*
        prepare_dataset* prepare_data prepare_module_dataset build_dataset* get_dataset worker_loop
        read_csv read_parquet read_json read_table preprocess_dataset*
    """),
    (2, "model_load", """
        load_model load_weights load_pretrained* load_state_dict* load_shard* load_file init_model* init_weights
        from_pretrained create_model_from_path build_model_optimizer get_model materialize* set_module_tensor_to_device
        dispatch_model partition_parameters sync_params_and_buffers
    """),
    (2, "launch", """
        lazy_init set_device init_process_group init_distributed check_placement_group
    """),
    (2, "shutdown", """
        destroy_process_group destroy_model_parallel shutdown shutdown_backend exit_function del__
    """),
    # what every stage does
    (1, "forward", """
        forward forward_* call_impl conv_forward scaled_dot_product_attention softmax update_causal_mask attention mlp
        logits cross_entropy* embedding linear matmul
        logsumexp log_sum_exp conversion_helper float_conversion fp16_to_fp32 float16_to_fp32
    """),
)  # fmt: skip

# Functions that say too little without the file they stand in.
_FILES: Final = (
    (3, "kv_cache_init", "/sglang/", "create_buffers"),
    (3, "cuda_graph_capture", "cuda_graph_runner.py", "__init__"),
    (3, "checkpoint_load", "/torch/optim/optimizer.py", "load_state_dict"),
    (3, "optimizer_step", "/optim/adam /optim/adamw /optim/sgd /optim/rmsprop /optim/adafactor", "step adam adamw sgd"),
    (3, "optimizer_step", "/zero/stage_1_and_2 /zero/stage3 /fused_optimizer /bf16_optimizer", "step sub_group_*"),
    (3, "optimizer_step", "/zero/stage3", "partition_all_parameters"),
    (3, "optimizer_step", "/bitsandbytes/optim /apex/optimizers /ops/adam /core/optimizer", "step update_step *_state"),
    (3, "weight_sync", "/sharding_manager/", "__enter__ __exit__ update_params"),
    (3, "weight_sync", "/orz/", "offload_to_cpu"),
    (3, "logprob", "/slime/", "log_probs ref_log_probs"),
    (2, "rollout", "/trl/trainer/", "generate"),
    (2, "rollout", "/nemo_rl/models/generation/", "generate generate_async generate_text"),
    (3, "checkpoint_save", "/nemo_rl/", "checkpointing"),
    (3, "checkpoint_save", "/zero_to_fp32.py", "*"),
    (2, "model_load", "/nemo_rl/", "setup"),
    (2, "model_load", "/roll/distributed/ /roll/pipeline/", "initialize"),
    (2, "model_load", "/slime/ray/ /slime/backends/", "init"),
    (2, "backward", "/torch/autograd/", "backward apply grad"),
    (3, "checkpoint_save", "/torch/serialization.py", "save legacy_save __exit__"),
    (2, "checkpoint_load", "/torch/serialization.py", "load persistent_load"),
    (2, "model_load", "/model_loader/ /modeling_utils.py /weight_utils.py", "*"),
    (1.5, "model_load", "/torch/nn/modules/module.py", "to cuda convert apply half bfloat16"),
    (1.5, "model_load", "/model.py /modeling_ /models/ /vllm/model_executor/", "__init__"),
    (2, "engine_init", "/vllm/engine/ /vllm/v1/engine/ /vllm/worker/ /vllm/v1/worker/ /vllm/entrypoints/", "__init__"),
    (2, "engine_init", "/vllm/executor/ /vllm/v1/executor/ /sglang/srt/managers/", "__init__"),
    (2, "engine_init", "/deepspeed/__init__.py", "initialize"),
    (2, "engine_init", "/deepspeed/runtime/", "__init__ configure_* create_* convert_* initialize_*"),
    (2, "engine_init", "/deepspeed/accelerator/", "pin_memory"),
    (2, GENERATION, "/vllm/engine/ /vllm/v1/engine/", "step"),
    (2, GENERATION, "/transformers/generation/ /text_generation", "*"),
    (2, "eval", "/evaluation/ /evaluate.py /validate.py /eval.py", "*"),
    (2, "data_load", "/torch/utils/data/ /datasets/arrow /datasets/builder /datasets/load /datasets/iterable", "*"),
    (2, "data_load", "/datasets/table /datasets/features /webdataset/ /pyarrow/", "*"),
    (2, "reward", "reward.py reward_model.py reward_fn.py", "forward score compute_score"),
    (2, "rollout", "/ray/rllib/evaluation/ /ray/rllib/env/ /rollout_worker.py /env_runner.py", "*"),
    (0.9, "model_load", "/torch/utils/_device.py", "__torch_function__"),  # tensors that are made on a stated device
    (1, "launch", "/multiprocessing/spawn.py", "spawn_main prepare"),
    (1, "forward", "/torch/nn/functional.py", "*"),
)

# Source that tells, one piece a line.
_CODE: Final = (
    (3, "optimizer_step", """
        state["exp_avg
        state['exp_avg
    """),
    (2, "optimizer_step", """
        optimizer.step(
        optim.step(
        opt.step(
        scaler.step(
    """),
    (2, "backward", """
        .backward(
        _engine.run_backward(
    """),
    (3, "checkpoint_save", """
        torch.save(
        save_file(
    """),
    (2, "checkpoint_save", ".state_dict()"),
    (2, "checkpoint_load", "torch.load("),
    (2, "model_load", """
        .from_pretrained(
        load_checkpoint_and_dispatch(
    """),
    (1.5, "model_load", """
        model.to(
        model.cuda(
        model.half(
        Parameter(torch.empty(
    """),
    (2, "engine_init", """
        dummy_metadata
        dummy_run(
        dummy_sampler_run(
    """),
    (2, "launch", "torch.cuda.set_device("),
    (2, GENERATION, ".generate("),
    (2, "data_load", "DataLoader("),
    (1.5, "logprob", """
        per_token_logps
        .log_softmax(
        log_probs =
        log_prob =
    """),
    (1, "forward", """
        .softmax(
        torch.baddbmm(
        torch.bmm(
        F.linear(
        F.conv
        F.embedding(
        F.layer_norm(
        F.cross_entropy(
        scaled_dot_product_attention(
    """),
)  # fmt: skip

# XLA names the operation it could not place.
_OPERATION: Final = (
    (GENERATION, """
        op_name="pjit(generate)
        op_name="jit(generate)
        op_name="jit(_generate)
        op_name="jit(decode
        op_name="jit(sample
    """),
    ("backward", 'op_name="*transpose(jvp'),
    ("forward", """
        op_name="jit(
        op_name="pjit(
    """),
)  # fmt: skip

# Progress lines, the nearest one above the event; what stands first in this list wins within a line. One
# text a row, in small letters; "*" stands for anything between. An empty stage closes the search: the job is past
# what stands above, and this line does not say where.
_PROGRESS: Final = (
    # verl's memory heads
    ("model_load", """
        before init *from hf automodel
        after init *from hf automodel
        after actor fsdp init
        after ref fsdp init
        after critic fsdp
        after actor optimizer init
        before fsdp, memory
        after fsdp, memory
        after offload * during init
    """),
    ("engine_init", """
        before building vllm rollout
        before building sglang rollout
        after building vllm rollout
        after building sglang rollout
        after building sharding manager
    """),
    ("weight_sync", """
        state_dict() in sharding manager
        after del state_dict and empty_cache in sharding manager
        after sync model weights
        load_fsdp_model_to_gpu, memory
        offload_fsdp_model_to_cpu, memory
        before resume weights
        after resume weights
        after resume kv_cache
        after update_weights
        after switch to rollout mode
    """),
    ("rollout", """
        after entering rollout sharding manager
        after rollout generation
    """),
    ("logprob", """
        during compute_log_prob
        during compute_ref_log_prob
    """),
    ("forward", "after load actor optimizer during update_actor"),
    ("", "after offload * during update_"),
    # slime's and SkyRL's timers, NeMo-RL's and Open-Reasoner-Zero's lines
    ("logprob", """
        timer log_probs start
        timer ref_log_probs start
        started: 'fwd_logprobs_values_reward
        ▶ computing logprobs
        generate local rollout batch done
    """),
    ("forward", """
        timer actor_train start
        started: 'train_critic_and_policy
        started: 'policy_train
        ▶ training policy
        experiences size:
    """),
    ("weight_sync", """
        timer update_weights start
        timer wake_up start
        timer sleep start
        started: 'sync_weights
        ▶ preparing for training
    """),
    ("rollout", """
        started: 'generate
        ▶ generating responses
    """),
    ("", """
        ref/critic/reward models done
        , training continue.
    """),
    ("optimizer_step", """
        before optimizer step
        after optimizer step
    """),
    ("checkpoint_load", "during load_checkpoint"),
    # engines
    ("cuda_graph_capture", """
        capturing cuda graph
        capturing cudagraph
        capturing the model for cuda graphs
        cuda graph begin
        capture cuda graph failed
        capturing batches
    """),
    (GENERATION, """
        graph capturing finished
        cuda graph end.
        init engine (
        application startup complete
        uvicorn running on
        fired up and ready to roll
        avg prompt throughput
        dumping input data for
        dumping scheduler
        processed prompts:
        prefill batch
        decode batch
        added request
        received request
        "post /v1/
        "post /generate
        output generated in
    """),
    ("kv_cache_init", """
        memory profiling takes
        gpu kv cache size
        # gpu blocks
        # cuda blocks
        available kv cache memory
        kv cache is allocated
        memory pool end
    """),
    ("memory_profiling", """
        loading model weights took
        model loading took
        loading weights took
        load weight end
        warming up model
    """),
    ("model_load", """
        starting to load model
        load weight begin
        loading checkpoint shards
        loading * checkpoint shards
        loading model weights
        loading weights
        loading pipeline components
        loading model from
        initializing pipeline with size
        llm_load_tensors
        llama_model_load
        load_tensors:
    """),
    ("engine_init", """
        initializing an llm engine
        initializing a v0 llm engine
        initializing a v1 llm engine
        init torch distributed
        optimizer stage
        create vllm engine
    """),
    # DeepSpeed's see_memory_usage
    ("forward", """
        engine before forward
        engine after forward
    """),
    ("backward", """
        engine before backward
        engine after backward
    """),
    ("optimizer_step", """
        engine before step
        engine after step
        in step before checking overflow
        overflow before norm calculation
        norm before optimizer
        optimizer before all-gather
        after zero_optimizer step
    """),
    ("engine_init", """
        deepspeedzerooffload initialize
        stage 3 initialize
        before creating fp16 partitions
        after creating fp16 partitions
        before creating fp32 partitions
        after creating fp32 partitions
        before initializing optimizer states
        after initializing optimizer states
        after initializing zero optimizer
        before creating optimizer
        after creating optimizer
        before initializing zero
    """),
    ("model_load", """
        before building model
        after building model
    """),
    # reinforcement learning, training
    ("rollout", """
        episode [
        generate samples
        start generation
        generate local rollout
        generating sequences
        collecting rollouts
    """),
    ("", """
        epoch [
        epoch:
        epoch=
        epoch =
        'epoch':
        training progress:
        step:* -
        'loss':
        "loss":
        loss:
        loss=
        loss =
        running training
        global_step
        iteration *loss
        started a local ray instance
        connected to ray cluster
        ray runtime started
    """),
    *_OPERATION,
    ("backward", "_engine_run_backward"),
    # states, data
    ("checkpoint_save", """
        returning from state_dict() call
        saving model
        saving the model
        saving * checkpoint
        saving checkpoint
        saving latest
        saving state dict
        saving optimizer
        saved model
        saved checkpoint
        [torch] saving
    """),
    ("checkpoint_load", """
        loading * from checkpoint
        loading checkpoint
        loading * checkpoint from
        resuming * checkpoint
        resuming from
        restoring * checkpoint
    """),
    ("eval", """
        running prediction
        running evaluation
        evaluating:
        validating:
        validation:
    """),
    ("data_load", """
        dataloader worker
        bus error encountered in worker
        map (num_proc
        map: *%|
        filter (num_proc
        filter: *%|
        tokenizing *%|
        running tokenizer on
        grouping texts
        generating * split
        caching images
        saving the dataset
        loading dataset
        converting format of dataset
    """),
)  # fmt: skip

# What engines print when a failure reaches them, below the event.
_AFTERMATH: Final = (
    (GENERATION, """
        error in model execution (input dumped
        output_handler failed
        _log_task_completion
        run_busy_loop
        _process_engine_step
        dumping input data for
        background loop
        engine loop is not running
        [serving_chat.py
        [serving_completion.py
        error in chat completion stream
        exception in asgi application
        unhandled error in exec_llm_loop
    """),
    ("memory_profiling", """
        unable to warmup model
        not enough memory to handle
        determine_available_memory
        determine_num_available
    """),
    ("cuda_graph_capture", """
        capture cuda graph failed
        cuda_graph_runner
        capture_model
    """),
    ("weight_sync", "engine.wake_up()"),
    ("backward", "_engine_run_backward"),
    ("model_load", """
        error loading model
        failed to load model
        unable to load model
        failed to load the model
        model failed to load
        (load_model)
        load_model(
    """),
    # Triton's back ends
    ("engine_init", "error when creating modelinstancestate"),
    # fairseq and its heirs catch it around one step
    ("forward", "ran out of memory with exception"),
    *_OPERATION,
)  # fmt: skip

_LOSS: Final = late(r"(?i)\b(?:train(?:ing)?_)?loss(?:_\w{1,20})?[\"']? ?[:=] ?-?\d")
OF_A_TRACEBACK: Final = late(r"\s|File \"|Traceback \(|During handling|The above exception")
_METHOD_FAILED: Final = late(r"(?:while processing method|occurred while running \w{1,80}'s function) '?(\w{1,80})")
_START_FAILED: Final = late(r"[Ee]ngine core initialization failed|EngineCore failed to start|init engine failed")
# How far below an event its aftermath is looked for
_NEAR: Final = 25

# What a kind of message can only come from, where nothing around it tells more.
_BY_KIND: Final = {
    ("ray_schedule", "unschedulable"): "launch",
    ("ray_store", "store-too-large"): "cluster_start",
    ("gpu_visibility", "gpu-visibility"): "launch",
    ("data_loader", "worker-death"): "data_load",
}

# Workers that step through environments, whatever their method
_SIMULATORS: Final = late(r"PolicyEvaluator|RolloutWorker|(?:Single|Multi)AgentEnvRunner|SelfPlay\b")

# What a model's forward is for, where the worker holds only that model
_FORWARDS: Final = {"reward": "reward", "ref": "logprob", "policy": "logprob", "critic": "forward"}

_LEARNING: Final = late(
    r"(?i)openrlhf|\bverl\b|/verl/|/trl/|grpo|\bppo\b|_ppo|skyrl|nemo_rl|/orz/|\bslime/|/roll/|areal|WorkerDict|LLMRayActor"
    r"|RolloutRayActor|generate_sequences|RayActor\b|rlhf|reinforce"
)
_TELLING: Final = 2


def stage_of(event: Event) -> str:
    """The stage of the event, "unknown" where nothing tells."""
    if event.stage != UNKNOWN:
        return event.stage
    weight, stage = _of_frames(event.around.trace)
    if weight < _TELLING:
        told = _of_titles(event) or stage or _of_aftermath(event) or _of_building(event) or _of_progress(event)
        stage = told or _of_loss(event) or _of_start(event)
    elif event.around.cut:  # its innermost frames, which would tell more, are missing
        stage = _of_aftermath(event) or stage
    if stage == GENERATION:
        return "rollout" if _is_learning(event) else "serving"
    return stage or UNKNOWN


def _of_frames(trace: Sequence[Frame]) -> tuple[float, str]:
    """How much the most telling frame tells, and its stage; the innermost of equals."""
    best: tuple[float, str] = (0, "")
    for frame in trace:
        found = _of_frame(frame)
        if found[1] and found[0] >= best[0]:
            best = found
    return best


@lru_cache(maxsize=4096)  # the ranks of a job fail at the same frames
def _of_frame(frame: Frame) -> tuple[float, str]:
    if frame.file == "ray":
        return _of_remote_call(frame.function)
    function = frame.function.rpartition(".")[2]
    told = [_of_function(function), (0.0, "")]
    file = "/" + frame.file.replace("\\", "/")
    for weight, stage, places, names in _FILES:
        if any(place in file for place in places.split()) and _Names(names).hold(function):
            told.append((weight, stage))
    for weight, stage, texts in _CODE:
        if any(text in frame.code for text in _texts(texts)):
            told.append((weight, stage))
    return max(told, key=lambda one: one[0])


class _Names:
    """Names of functions, "*" at a name's end or beginning standing for anything."""

    def __init__(self, names: str) -> None:
        words = [word if word.startswith("__") else word.lstrip("_") for word in names.split()]
        self.whole = frozenset(word for word in words if "*" not in word)
        self.beginnings = tuple(word[:-1] for word in words if word.endswith("*"))
        self.endings = tuple(word[1:] for word in words if word.startswith("*") and len(word) > 1)

    def hold(self, function: str) -> bool:
        bare = function.lstrip("_")
        return (
            function in self.whole
            or bare in self.whole
            or bare.startswith(self.beginnings)
            or bare.endswith(self.endings)
        )


@cache
def _functions() -> tuple[tuple[float, str, _Names], ...]:
    """By how much they tell, most first."""
    return tuple((weight, stage, _Names(names)) for weight, stage, names in sorted(_FUNCTIONS, key=lambda row: -row[0]))


def _of_function(function: str) -> tuple[float, str]:
    return next(((weight, stage) for weight, stage, names in _functions() if names.hold(function)), (0.0, ""))


def _of_titles(event: Event) -> str:
    """What most of the memory's holders were running, by the titles in Ray's table."""
    shares: Counter[str] = Counter()
    for title, size in _titles(event):
        stage = _of_title(title)
        if stage:
            shares[stage] += max(size, 1)
    return shares.most_common(1)[0][0] if shares else ""


@lru_cache(maxsize=1024)  # workers have few names
def _of_title(title: str) -> str:
    return _of_call(*class_and_method(title))


def _titles(event: Event) -> Iterator[tuple[str, int]]:
    rows: Iterable[Any] = getattr(event, "rows", ())
    for row in rows:
        yield row.command, row.bytes or 0
    if event.process.name:
        yield event.process.name, 0


def _of_remote_call(call: str) -> tuple[float, str]:
    """Ray's line about the call that failed: here `__init__` is what it says, other than in a kill's line."""
    name, _, method = call.rpartition(".")
    if method == "__init__" and role_of(name) == "engine":
        return 1.5, "engine_init"
    stage = _of_call(name, method)
    return (_TELLING, stage) if stage else (0, "")


def _of_call(name: str, method: str) -> str:
    if _SIMULATORS.match(name):
        return "rollout"
    if method == "forward":
        return _FORWARDS.get(role_of(name) or "", "")
    return _of_method(method)


def _of_method(method: str) -> str:
    # verl puts the model's role before the method of a worker that holds several
    bare = re.sub(r"^(?:actor_rollout_ref_|actor_rollout_|actor_|critic_|ref_|rm_)", "", method)
    told = max(_of_function(bare), _of_function(method))
    return told[1] if told[0] >= _TELLING else ""


def _of_progress(event: Event) -> str:
    for line in (event.at.text, *reversed(event.around.before)):
        if (stage := _progress(line[:CHARACTERS])) is not None:
            return stage
    return ""


@lru_cache(maxsize=4096)  # events stand near one another
def _progress(line: str) -> str | None:
    return _progress_table().first(line)


@lru_cache(maxsize=4096)
def _aftermath(line: str) -> str | None:
    return _aftermath_table().first(line)


@cache
def _progress_table() -> _Table:
    return _Table(_PROGRESS)


@cache
def _aftermath_table() -> _Table:
    return _Table(_AFTERMATH)


class _Table:
    """Stages with the texts that tell them, cut at the stars; all of them are looked for at once."""

    def __init__(self, rows: Sequence[tuple[str, str]]) -> None:
        self._rows = [(stage, text.split("*")) for stage, texts in rows for text in _texts(texts)]
        # Each text by its longest piece
        self._automaton = ahocorasick_rs.AhoCorasick([max(pieces, key=len) for _, pieces in self._rows])

    def first(self, line: str) -> str | None:
        text = line[:CHARACTERS].lower()
        hits = self._automaton.find_matches_as_indexes(text, overlapping=True)
        held = sorted({hit[0] for hit in hits})
        return next((stage for stage, pieces in (self._rows[row] for row in held) if _holds(text, pieces)), None)


def _texts(block: str) -> list[str]:
    """The texts of a table's row, one a line."""
    return [line.strip() for line in block.strip().splitlines()]


def _holds(text: str, pieces: Sequence[str]) -> bool:
    """Whether the text holds the pieces, one behind the other."""
    position = 0
    for piece in pieces:
        position = text.find(piece, position)
        if position < 0:
            return False
        position += len(piece)
    return True


def _of_aftermath(event: Event) -> str:
    for line in (event.at.text, *event.around.below[:_NEAR]):
        if stage := _of_failed_method(line):
            return stage
        if told := _aftermath(line[:CHARACTERS]):
            return told
    return ""


@lru_cache(maxsize=4096)
def _of_failed_method(line: str) -> str:
    method = _METHOD_FAILED.search(line)
    return _of_method(method[1]) if method else ""


@lru_cache(maxsize=4096)
def _tells_of_a_failed_start(line: str) -> bool:
    return _START_FAILED.search(line) is not None


def _of_building(event: Event) -> str:
    """A traceback in which nothing tells and that ends in a constructor: it put a model on the card."""
    return "model_load" if event.pool == "gpu" and places_a_model(event.around.trace) else ""


def _of_loss(event: Event) -> str:
    """A traceback right under a training loop's line, in which nothing tells of another part of the step."""
    if event.pool != "gpu" or not event.around.trace:
        return ""
    above = (line for line in reversed(event.around.before) if line.strip() and not OF_A_TRACEBACK.match(line))
    return "forward" if _LOSS.search(next(above, "")[:CHARACTERS]) else ""


def _of_start(event: Event) -> str:
    if any(_tells_of_a_failed_start(line) for line in event.around.below[:_NEAR]):
        return "engine_init"
    return _BY_KIND.get((event.family, event.kind), "")


def _is_learning(event: Event) -> bool:
    around = event.around
    frames = (f"{frame.file} {frame.function}" for frame in around.trace)
    return any(_LEARNING.search(text) for text in (event.process.name or "", *frames, *around.before, *around.after))
