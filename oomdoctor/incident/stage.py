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
from functools import lru_cache
from typing import Any, Final

from oomdoctor.families.event import Event, Frame
from oomdoctor.incident.roles import class_and_method, role_of

UNKNOWN: Final = "unknown"
CHARACTERS: Final = 400  # of a line that are looked at
# An engine's work is the rollout of a trainer or somebody's service: decided by what else the log shows.
GENERATION: Final = "generation"

# Functions, whole names. The first number says how much they tell: 3 is one step of a stage, 2 the stage's own
# function, 1 something that many stages do.
_FUNCTIONS: Final = (
    # --- inference engines
    (3, "memory_profiling", r"""
        profile_run determine_available_memory determine_num_available_blocks profile_num_available_blocks
        _profile_(?:multimodal|run)\w{0,20} warmup_and_profile
    """),
    (3, "cuda_graph_capture", r"""
        capture_model _?capture(?:_(?:model|graph|one_batch_size|cudagraphs?|cuda_graphs?))?
        capture_(?:begin|end) init_(?:device|cuda)_graphs _capture_\w{0,30}
    """),
    (2, "engine_init", r"""
        _?dummy_run _?dummy_forward
    """),
    (3, "engine_init", r"""
        _dummy_sampler_run compile_or_warm_up_model kernel_warmup _warmup_\w{0,40} warmup_model
    """),
    (3, "kv_cache_init", r"""
        initialize_(?:kv_)?caches? initialize_from_config _?initialize_kv_cache\w{0,20} init_memory_pool
        _?allocate_(?:gpu_cache|kv_cache\w{0,20}) _create_buffers _?init_cache(?:_engine)?
        check_enough_kv_cache_memory raise_if_cache_size_invalid get_kv_cache_configs? _create_kv_\w{0,20}
    """),
    (2, "engine_init", r"""
        init_device request_memory _init_(?:workers|executor|engine)\w{0,20} create_vllm_engines? _build_rollout
        init_torch_distributed from_engine_args run_engine_core _setup_vllm\w{0,10}
    """),
    (2, GENERATION, r"""
        execute_model run_busy_loop _process_engine_step step_with_batch_queue event_loop_\w{1,20} run_batch
        forward_(?:batch_generation|decode|extend) prefill decode_token generate_token model_generate
    """),
    # --- weights between trainer and engine, offload and reload
    (3, "weight_sync", r"""
        _?broadcast_to_vllm update_weights?(?:_\w{1,40})? sync_weights?\w{0,30} _move_model_to_vllm
        refit_policy_generation transfer_and_update_weights sync_model_weights update_params_for_\w{1,20}
        wake_up onload_weights _?backload_\w{1,30} reload_to_gpu reload_states offload_states
        resume_memory_occupation (?:load|offload)_fsdp_(?:model|optimizer|param|grad)\w{0,30} rollout_mode
        trainer_mode
    """),
    # --- states on disk
    (3, "checkpoint_save", r"""
        _?save_checkpoints?(?:_\w{1,30})? _?save_(?:model|pretrained|state_dict|optimizer\w{0,20})
        save_logs_and_checkpoints _?save_to_state_dict _?save _?save_zero_checkpoint dist_save
        _zero3_consolidated_\w{1,30} get_fsdp_full_state_dict zero_to_fp32 convert_zero_checkpoint\w{0,40}
    """),
    # also on the way to an engine, which weighs more
    (2, "checkpoint_save", r"""
        _\w{0,20}state_dict_hook _full_state_dict\w{0,30} state_dict _gather_state_dict full_tensor
    """),
    (3, "checkpoint_load", r"""
        _?load_checkpoint _load_from_checkpoint resume_from_checkpoint _?load_optimizer\w{0,20}
    """),
    (2, "checkpoint_load", r"""
        default_restore_location _cuda_deserialize _legacy_load restore_location _?load_zero_checkpoint
    """),
    # --- one step of training
    (3, "optimizer_step", r"""
        _init_group _multi_tensor_\w{1,20} _single_tensor_\w{1,20} _fused_\w{1,20} _take_model_step
        _?optimizer_step _lazy_init_optimizer\w{0,20} initialize_optimizer_states _foreach_step clip_grad_norm_?
        _clip_grads_with_norm_? unscale_(?:grads_?)? unscale_and_clip_grads _step_supports_\w{1,20}
    """),
    (2, "backward", r"""
        _?backward(?:_(?:step|pass|hook|prologue|epilogue|and_\w{1,20}))? _engine_run_backward run_backward
    """),
    (2, "forward", r"""
        closure _?closure_\w{1,20} optimizer_closure
    """),
    # --- reinforcement learning
    (3, "logprob", r"""
        compute_(?:ref_|old_)?log_probs? _get_per_token_logps\w{0,20} ref_per_token_logps
        policy_and_reference_logprobs fwd_logprobs_values_reward cal_(?:old|ref)_log_probs\w{0,20} get_logprobs
    """),
    (1.5, "logprob", r"""
        logprobs_from_logits\w{0,20} log_probs_from_logits selective_log_softmax entropy_from_logits
    """),
    (2, "reward", r"""
        compute_reward\w{0,20} compute_rm_score _?calculate_rewards? get_rewards? reward_(?:fn|func|calculation)
        remote_rm\w{0,20}
    """),
    (2, "rollout", r"""
        generate_sequences _generate_and_score_completions _generate_single_turn _generate_vllm generate_vllm
        generate_samples\w{0,20} make_experience\w{0,20} add_requests get_responses collect_rollouts
        do_rollouts? rollout _?rollout_\w{1,30} sample_from_env\w{0,20} step_env\w{0,20} env_step
        synchronous_parallel_sample step_generate
    """),
    (2, "forward", r"""
        update_(?:actor|policy|critic) ppo_train\w{0,10} training_step policy_(?:loss|training|train)
        compute_loss train_step
    """),
    # --- evaluation
    (3, "eval", r"""
        _?evaluate(?:_\w{1,20})? evaluation_loop prediction_(?:step|loop) _?validate
        validation_(?:step|loop|epoch) val_step _?run_(?:validation|eval\w{0,20}) nested_concat
        pad_across_processes eval_(?:step|epoch|model|loop) do_eval
    """),
    # --- data
    (2, "data_load", r"""
        _?load_dataset\w{0,30} _map_single _?tokenize\w{0,30} _try_get_(?:data|batch) default_collate
        collate\w{0,20} _?prepare_(?:module_)?(?:dataset|data)\w{0,20} build_dataset\w{0,20} get_dataset
        as_completed_\w{0,10} _worker_loop read_(?:csv|parquet|json|table|pandas)
        preprocess_\w{0,20}dataset\w{0,10}
    """),
    # --- weights into memory
    (2, "model_load", r"""
        _?load_(?:model|weights?|pretrained\w{0,20}|state_dict\w{0,30}|shard\w{0,20}|file) init_model\w{0,30}
        _?from_pretrained create_model_from_path _build_model_optimizer get_model init_weights
        _materialize\w{0,20} _load_pretrained_model\w{0,20} _load_state_dict_into_\w{1,30}
        set_module_tensor_to_device dispatch_model partition_parameters _sync_params_and_buffers
        quantize\w{0,20} convert_\w{0,20}checkpoint\w{0,20}
    """),
    # --- the two ends
    (2, "launch", r"""
        _lazy_init set_device init_process_group _check_placement_group init_distributed
    """),
    (2, "shutdown", r"""
        destroy_(?:process_group|model_parallel) _shutdown_backend _exit_function __del__ atexit_\w{1,20}
        shutdown
    """),
    # --- what every stage does
    (1, "forward", r"""
        forward(?:_\w{1,30})? _?forward_\w{1,30} _forward _call_impl _conv_forward scaled_dot_product_attention
        softmax conversion_helper float_conversion fp\d+_to_float float16_to_fp32 _update_causal_mask attention
        mlp logits? cross_entropy\w{0,20} embedding linear matmul
    """),
)  # fmt: skip

# The same of the frame's file and code, for names that say too little alone.
_PLACES: Final = (
    (3, "optimizer_step", r"""
        /optim/(?!lr_scheduler|optimizer\.py)\w{1,40}\.py (?:step|update|\w*adam\w*|\w*sgd\w*)\b
        state\[.exp_avg
        \bexp_avg(?:_sq)?\b
    """),
    (3, "optimizer_step", r"""
        /(?:stage_1_and_2|stage3|fused_optimizer|unfused_optimizer|bf16_optimizer)\.py (?:_?step|sub_group_\w+)\b
        /bf16_optimizer\.py update_lp_params\b
    """),
    (3, "optimizer_step", r"""
        /(?:bitsandbytes/optim|apex/optimizers|ops/adam|megatron/core/optimizer)/\S{1,60} (?:step|update_step)\b
        /bitsandbytes/optim/\S{1,60} (?:init|prefetch)_state\b
    """),
    (2, "optimizer_step", r"""
        \b(?:optimizer|optim|opt|scaler)\w{0,20}\.step\(
    """),
    (2, "backward", r"""
        \.backward\(
        /torch/autograd/(?:__init__|function|graph)\.py (?:backward|apply|_engine_run_backward|grad)\b
    """),
    (3, "checkpoint_save", r"""
        /torch/serialization\.py (?:save|_save|_legacy_save|__exit__)\b
        \btorch\.save\(
        save_file\(
    """),
    # also on the way to an engine, which weighs more
    (2, "checkpoint_save", r"""
        \.state_dict\(\)
    """),
    (2, "checkpoint_load", r"""
        \btorch\.load\(
        /torch/serialization\.py (?:load|_load|persistent_load)\b
    """),
    (2, "model_load", r"""
        /(?:model_loader|modeling_utils|convert_pytorch|weight_utils)\b\S{0,40}\.py\s
        \.from_pretrained\(
        \bload_checkpoint_and_dispatch\(
    """),
    (1.5, "model_load", r"""
        /torch/nn/modules/module\.py (?:to|cuda|convert|_apply|half|bfloat16)\b
        \bmodel\w{0,20}\.(?:to|cuda|half)\(
    """),
    (1.5, "model_load", r"""
        \s__init__ self\.\w{1,40} ?= ?(?:nn\.)?(?:Parameter|Linear|Embedding|Conv\dd)\w{0,20}\(
    """),
    (1.5, "model_load", r"""
        /model\w{0,40}\.py __init__\b
    """),
    (3, "weight_sync", r"""
        /sharding_manager/\S{1,60} (?:__enter__|__exit__|update_params)\b
    """),
    (2, "engine_init", r"""
        \bdummy_metadata\b
        _dummy_(?:sampler_)?run\(
    """),
    (2, "engine_init", r"""
        /vllm/(?:v1/)?(?:engine|worker|executor|entrypoints)/\S{0,60} __init__\b
        /sglang/\S{0,80} __init__\b
    """),
    (2, "engine_init", r"""
        /deepspeed/__init__\.py initialize\b
        /deepspeed/runtime/(?:engine|zero/\w{1,40})\.py (?:__init__|_(?:configure|create|convert|initialize)_\w+)\b
    """),
    (2, "engine_init", r"""
        /deepspeed/accelerator/\S{1,60} pin_memory\b
    """),
    (2, "launch", r"""
        /torch/cuda/__init__\.py (?:_lazy_init|set_device)\b
        \btorch\.cuda\.set_device\(
    """),
    (2, GENERATION, r"""
        /transformers/generation/\S{1,40}\s
        \.generate\(
        /vllm/(?:v1/)?engine/\S{1,60} step\b
        /text_generation\w{0,20}\.py\s
    """),
    (2, "eval", r"""
        /evaluation/
        /(?:evaluate|validate|eval|test_\w{1,30}|inference_eval)\.py\s
    """),
    (2, "data_load", r"""
        /torch/utils/data/
        /datasets/(?:arrow|builder|load|iterable|table|features|utils|packaged)\w{0,20}\b
        \bDataLoader\(
        /webdataset/
        /pyarrow/
    """),
    (2, "reward", r"""
        /(?:\w{0,30}reward\w{0,30})\.py (?:forward|score|compute|get)\w{0,20}\b
    """),
    (2, "rollout", r"""
        /ray/rllib/(?:evaluation|env|offline)/\S{1,60}\s
        /(?:rollout_worker|env_runner)\.py\s
    """),
    (1.5, "logprob", r"""
        \bper_token_logps\b
        \.log_softmax\(
        \blog_probs? ?=
    """),
    (1, "forward", r"""
        \bF\.\w{1,40}\(
        /torch/nn/(?:functional|modules/(?!module))
    """),
)  # fmt: skip


def _one_of(lines: str) -> re.Pattern[str]:
    """Whichever of the lines' patterns; blanks at a line's ends are not part of it."""
    return re.compile("|".join(line.strip() for line in lines.strip().splitlines()))


_BY_FUNCTION: Final = tuple(
    (weight, stage, re.compile(rf"(?:{'|'.join(names.split())})$")) for weight, stage, names in _FUNCTIONS
)
_BY_PLACE: Final = tuple((weight, stage, _one_of(places)) for weight, stage, places in _PLACES)

# XLA names the operation it could not place.
_OPERATION: Final = (
    (GENERATION, r"op_name=\"p?jit\((?:_?generate|decode|sample)"),
    ("backward", r"op_name=\"[^\"]{1,300}transpose\(jvp"),
    ("forward", r"op_name=\"p?jit\("),
)

# Progress lines, the nearest one above the event; what stands first in this list wins within a line.
# An empty stage closes the search: the job is past what stands above, and this line does not say where.
_PROGRESS: Final = (
    # verl's memory heads
    ("model_load", r"""
        (?:Before|After) init (?:actor|ref|critic|model|rm)? ?\w{0,10} ?from HF AutoModel
        After \w{1,12} (?:FSDP|optimizer)\b
        Before FSDP
        After FSDP
    """),
    ("engine_init", r"""
        Before building \w{1,10} rollout
        After building \w{1,10} rollout
        After building sharding manager
    """),
    ("weight_sync", r"""
        state_dict\(\) in sharding manager
        After sync model weights
        (?:Before|After) resume (?:weights|kv_cache)
        After update_weights
        After switch to rollout mode
    """),
    ("rollout", r"""
        After entering rollout sharding manager
        After rollout generation
    """),
    ("logprob", r"""
        during compute_(?:ref_)?log_prob
    """),
    ("optimizer_step", r"""
        Before optimizer step
        After optimizer step
    """),
    ("checkpoint_load", r"""
        during load_checkpoint
    """),
    # engines
    ("cuda_graph_capture", r"""
        Capturing (?:the model for )?CUDA ?[Gg]raphs?
        Capturing cudagraphs?
        Capture cuda graph (?:begin|failed)
        Capturing batches
    """),
    (GENERATION, r"""
        Graph capturing finished
        init engine \(
        Application startup complete
        Uvicorn running on
        fired up and ready to roll
        Capture cuda graph end
    """),
    (GENERATION, r"""
        Avg prompt throughput
        Processed prompts:
        (?:Prefill|Decode) batch
        Added request
        Received request
        POST /(?:v1/|generate)
    """),
    ("kv_cache_init", r"""
        Memory profiling takes
        GPU KV cache size
        # (?:GPU|cuda) blocks
        Available KV cache memory
        KV Cache is allocated
        Memory pool end
    """),
    ("memory_profiling", r"""
        [Ll]oading model weights took
        Model loading took
        Loading weights took
        Load weight end
        Warming up model
    """),
    ("model_load", r"""
        Starting to load model
        Load weight begin
        Loading (?:\w{1,20} )?checkpoint shards
        Loading \w{1,20} using
        Loading model weights
        Loading weights
    """),
    ("model_load", r"""
        llm_load_tensors
        llama_model_load
        load_tensors:\s
        ^load_model
        Loading pipeline components
        Loading model from
        model weights from
    """),
    ("engine_init", r"""
        Initializing (?:an?|a V\d) LLM engine
        Enabling memory saver
        Init torch distributed
        Creating \w{0,10} ?optimizer stage
        Create vllm engine
    """),
    # reinforcement learning, training
    ("rollout", r"""
        \bEpisode \[
        Generate [Ss]amples
        start generation
        generate local rollout
        generating sequences
        Collecting rollouts
    """),
    ("", r"""
        Train epoch \[
        \bEpoch[ :]
        \bepoch[ :=]
        Training Progress:
        step:\s?\d+ -
        'loss':
        \bloss[\"']?(?: ?[:=]| \d)
        \*{5} Running training
        global_step
        \biteration +\d
    """),
    *_OPERATION,
    # states, data
    ("checkpoint_save", r"""
        returning from state_dict\(\) call
    """),
    ("checkpoint_load", r"""
        (?i)\b(?:loading|resuming|restoring)\b.{0,30}\bcheckpoint\b(?! shards)
    """),
    ("checkpoint_save", r"""
        (?i)\bsav(?:ing|e|ed)\b.{0,60}(?:checkpoint|model|state dict|optimizer|weights|\.pt\b|\.safetensors)
    """),
    ("eval", r"""
        Running [Ee]valuation
        \*{5} Running (?:Evaluation|Prediction)
        ^Evaluating
        ^Validati(?:ng|on)\b
    """),
    ("data_load", r"""
        \b(?:Map|Filter|Tokenizing|Grouping|Packing|Running tokenizer)\b.{0,60}(?:num_proc|%\||examples|dataset)
        Generating \w{1,20} split
    """),
    ("data_load", r"""
        [Cc]aching images
        Saving the dataset
        Loading (?:the )?dataset
        Converting format of dataset
    """),
    ("data_load", r"""
        DataLoader worker
        bus error encountered in worker
    """),
    ("", r"""
        Started a local Ray instance
        Connected to Ray cluster
        Ray runtime started
    """),
)  # fmt: skip
_BY_PROGRESS: Final = tuple((stage, _one_of(lines)) for stage, lines in _PROGRESS)

# What engines print when a failure reaches them, below the event.
_AFTERMATH: Final = (
    (GENERATION, r"""
        output_handler failed
        _log_task_completion
        run_busy_loop
        _process_engine_step
        Dumping input data for
        Background loop
    """),
    (GENERATION, r"""
        Error in chat completion stream
        Exception in ASGI application
        Unhandled error in exec_llm_loop
    """),
    ("memory_profiling", r"""
        Unable to warmup model
        Not enough memory to handle
        determine_(?:available_memory|num_available)
    """),
    ("cuda_graph_capture", r"""
        Capture cuda graph failed
        cuda_graph_runner
        capture_model
    """),
    ("model_load", r"""
        (?:error|failed to|unable to) load(?:ing)? (?:the )?model\b
        load_model\(
    """),
    *_OPERATION,
)  # fmt: skip
_BY_AFTERMATH: Final = tuple((stage, _one_of(lines)) for stage, lines in _AFTERMATH)
_METHOD_FAILED: Final = re.compile(r"while processing method '?(\w{1,80})")
_START_FAILED: Final = re.compile(r"[Ee]ngine core initialization failed|EngineCore failed to start|init engine failed")
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
_SIMULATORS: Final = re.compile(r"PolicyEvaluator|RolloutWorker|(?:Single|Multi)AgentEnvRunner|SelfPlay\b")

# What a model's forward is for, where the worker holds only that model
_FORWARDS: Final = {"reward": "reward", "ref": "logprob", "policy": "logprob", "critic": "forward"}

_LEARNING: Final = re.compile(
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
        stage = _of_titles(event) or stage or _of_aftermath(event) or _of_progress(event) or _of_start(event)
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
    place = f"{frame.file.replace(chr(92), '/')} {function} {frame.code}"
    named = [(weight, stage) for weight, stage, names in _BY_FUNCTION if names.match(function)]
    placed = [(weight, stage) for weight, stage, places in _BY_PLACE if places.search(place)]
    return max((*named, *placed), default=(0, ""), key=lambda one: one[0])


def _of_titles(event: Event) -> str:
    """What most of the memory's holders were running, by the titles in Ray's table."""
    shares: Counter[str] = Counter()
    for title, size in _titles(event):
        stage = _of_call(*class_and_method(title))
        if stage:
            shares[stage] += max(size, 1)
    return shares.most_common(1)[0][0] if shares else ""


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
    for weight, stage, names in _BY_FUNCTION:
        if weight >= _TELLING and (names.match(bare) or names.match(method)):
            return stage
    return ""


def _of_progress(event: Event) -> str:
    for line in (event.at.text, *reversed(event.around.before)):
        if (stage := _progress(line[:CHARACTERS])) is not None:
            return stage
    return ""


@lru_cache(maxsize=4096)  # events stand near one another
def _progress(line: str) -> str | None:
    return next((stage for stage, lines in _BY_PROGRESS if lines.search(line)), None)


def _of_aftermath(event: Event) -> str:
    for line in (event.at.text, *event.around.below[:_NEAR]):
        if (method := _METHOD_FAILED.search(line)) and (stage := _of_method(method[1])):
            return stage
        for stage, pattern in _BY_AFTERMATH:
            if pattern.search(line[:CHARACTERS]):
                return stage
    return ""


def _of_start(event: Event) -> str:
    if any(_START_FAILED.search(line) for line in event.around.below[:_NEAR]):
        return "engine_init"
    return _BY_KIND.get((event.family, event.kind), "")


def _is_learning(event: Event) -> bool:
    around = event.around
    frames = (f"{frame.file} {frame.function}" for frame in around.trace)
    return any(_LEARNING.search(text) for text in (event.process.name or "", *frames, *around.before, *around.after))
