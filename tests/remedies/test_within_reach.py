"""Remedies of the program, the release and the entry point of the log, which act on the step that failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from remedy_logs import OPENRLHF, advise, crashes_of, cuda

import oomdoctor
from oomdoctor.decision.ranking import closing
from oomdoctor.incident.model import Crash
from oomdoctor.remedies import conditions, reach
from oomdoctor.remedies.engine.known import in_python
from oomdoctor.remedies.engine.requests import cache_beside
from oomdoctor.signs import commands
from oomdoctor.signs.passes import simulates_worlds

REFUSED = "torch.OutOfMemoryError: " + cuda()
TOO_LONG = (
    "ValueError: The model's max seq len (6144) is larger than the maximum number of tokens that can be stored in KV "
    "cache (4800). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`.\n"
)
BATCH, OFFLOAD, BITS, SPLIT = "smaller-microbatch", "less-offload", "quantize-weights", "tensor-parallel"
FRAME = '  File "{file}", line 71, in {function}\n    {code}\n'


def frame(file: str, function: str, code: str) -> str:
    return FRAME.format(file=file, function=function, code=code)


def first_of(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "job.log"
    path.write_text(text, encoding="utf-8")
    first: dict[str, Any] = oomdoctor.diagnose(path).as_json()["incidents"][0]["diagnoses"][0]
    return first


# --- An engine whose trainer hands on what it has options for itself --------------------------------------------------


@pytest.mark.parametrize(
    ("job", "knob", "setting"),
    [
        ("", "quantize-kv-cache", "--kv-cache-dtype"),
        (
            "python -m verl.trainer.main_ppo actor_rollout_ref.rollout.name=vllm\n",
            "quantize-kv-cache",
            "kv_cache_dtype",
        ),
        (OPENRLHF.format(""), "quantize-kv-cache", None),
        (OPENRLHF.format(""), "fewer-sequences", None),
        (OPENRLHF.format("--max_len 6144"), "shorter-context", "--max_len"),
        (
            OPENRLHF.format("--vllm_gpu_memory_utilization 0.6"),
            "raise-engine-reservation",
            "--vllm_gpu_memory_utilization",
        ),
        (OPENRLHF.format("") + "2024-03-04 10:00:01,000 INFO start\n", "raise-engine-reservation", None),
        (OPENRLHF.format("") + "2024-03-04 10:00:01,000 INFO start\n", "shorter-context", None),
    ],
)
def test_what_a_trainer_does_not_hand_on_is_out_of_reach(job: str, knob: str, setting: str | None) -> None:
    engine = "(LLMRayActor pid=71) " if "openrlhf" in job else "INFO vllm/engine/llm_engine.py\n"
    chosen, _ = advise(f"{job}{engine}{TOO_LONG}", knob)
    assert (knob in chosen) is (setting is not None)
    assert setting is None or setting in (chosen[knob].setting or "")


def test_openrlhfs_own_quantization_is_not_of_its_engine() -> None:
    assert BITS not in advise(OPENRLHF.format("") + f"(LLMRayActor pid=71) {TOO_LONG}", BITS)[0]
    trained = OPENRLHF.format("") + f"(PolicyModelActor pid=72) {REFUSED}"
    assert advise(trained, BITS)[0][BITS].setting == "--load_in_4bit"


# --- Batches of the step that failed ----------------------------------------------------------------------------------

VERL = "python -m verl.trainer.main_ppo data.train_batch_size=64\n"
SOFTMAX = frame("/x/torch/nn/functional.py", "softmax", "ret = input.softmax(dim)")


@pytest.mark.parametrize(
    ("frames", "option"),
    [
        (
            frame("/x/verl/workers/fsdp_workers.py", "update_actor", "self.actor.update_policy(data)"),
            "actor.ppo_micro_batch",
        ),
        (
            frame("/x/verl/workers/fsdp_workers.py", "compute_log_prob", "self.actor.compute_log_prob(data)"),
            "rollout.log_prob",
        ),
        (
            frame("/x/verl/workers/fsdp_workers.py", "generate_sequences", "self.rollout.generate()")
            + frame("/x/verl/workers/rollout/hf_rollout.py", "_generate_minibatch", "self.module.generate()"),
            "rollout.micro_batch",
        ),
    ],
)
def test_verls_batch_is_that_of_the_failing_call(frames: str, option: str) -> None:
    chosen, _ = advise(
        f"{VERL}Traceback (most recent call last):\n{frames}{SOFTMAX}{REFUSED}", BATCH, cause="activations"
    )
    assert option in (chosen[BATCH].setting or "")


def test_an_engine_that_generates_has_no_batch_option() -> None:
    frames = frame("/x/verl/workers/fsdp_workers.py", "generate_sequences", "self.rollout.generate()")
    engine = frame("/x/vllm/model_executor/layers/sampler.py", "forward", "logits = self._logits(hidden)")
    chosen, _ = advise(
        f"{VERL}Traceback (most recent call last):\n{frames}{engine}{REFUSED}", BATCH, cause="activations"
    )
    assert BATCH not in chosen or not chosen[BATCH].snippet


@pytest.mark.parametrize(
    ("function", "option"), [("training_step", "micro_train"), ("make_experience", "micro_rollout")]
)
def test_openrlhf_makes_experience_in_batches_of_their_own(function: str, option: str) -> None:
    frames = frame("/x/openrlhf/trainer/ppo_utils/experience_maker.py", function, "out = self.actor(sequences)")
    log = f"{OPENRLHF.format('')}Traceback (most recent call last):\n{frames}{SOFTMAX}{REFUSED}"
    assert option in (advise(log, BATCH, cause="activations")[0][BATCH].setting or "")


def test_experience_that_is_made_is_no_failing_step() -> None:
    frames = frame("/x/openrlhf/trainer/ppo_trainer.py", "training_step", "self.strategy.backward(loss)")
    done = "make_experience: 100%|##########| 16/16 [06:12<00:00, 23.27s/it]\n"
    log = f"{OPENRLHF.format('')}{done}Traceback (most recent call last):\n{frames}{SOFTMAX}{REFUSED}"
    assert "micro_train" in (advise(log, BATCH, cause="activations")[0][BATCH].setting or "")


# --- States in RAM, by the optimizer that DeepSpeed names -------------------------------------------------------------

ON_THE_CPU = "[INFO] [logging.py:96:log_dist] [Rank 0] DeepSpeed Basic Optimizer = {}\n"
KILLED = "Workers (tasks / actors) killed due to memory pressure (OOM)\n"


@pytest.mark.parametrize(
    ("job", "optimizer", "setting"),
    [
        ("", "FusedAdam", None),
        (OPENRLHF.format(""), "FusedAdam", None),
        ("", "DeepSpeedCPUAdam", "offload_optimizer"),
        (OPENRLHF.format(""), "DeepSpeedCPUAdam", "--adam_offload"),
    ],
)
def test_the_optimizer_on_the_cpu_is_taken_back(job: str, optimizer: str, setting: str | None) -> None:
    log = f"{job}[INFO] DeepSpeed info: version=0.14.0\n{ON_THE_CPU.format(optimizer)}{KILLED}"
    chosen, _ = advise(log, OFFLOAD, cause="cpu-offload-overcommit")
    assert (OFFLOAD in chosen) is (setting is not None)
    assert setting is None or chosen[OFFLOAD].setting == setting


def test_no_swap_space_of_an_engine_that_the_trainer_gives_none() -> None:
    log = f"{OPENRLHF.format('')}{ON_THE_CPU.format('DeepSpeedCPUAdam')}{KILLED}"
    assert "less-swap-space" not in advise(log, "less-swap-space", cause="cpu-offload-overcommit")[0]


# --- Limits: raised where they are set, read where they are recorded --------------------------------------------------

SLURM = "slurmstepd: error: Detected 1 oom_kill event in StepId=6021.0. Some of the step tasks have been OOM Killed.\n"
SAVING = "2026-03-01 11:00:09 trainer: Saving checkpoint to /out/step-400\n"


def test_a_larger_node_has_the_same_limit(tmp_path: Path) -> None:
    knobs = [one["knob"] for one in first_of(tmp_path, SAVING + SLURM)["remedies"]]
    assert "raise-container-limit" in knobs
    assert "more-host-memory" not in knobs


def test_the_record_of_a_job_that_is_gone_is_its_managers() -> None:
    assert closing(crashes_of(SAVING + SLURM)[0], ())[-1].startswith("sacct -j 6021 ")
    group = "memory: usage 4194304kB, limit 4194304kB, failcnt 41\n"
    kill = (
        "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
        f"{group}Memory cgroup out of memory: Killed process 8123 (python3) total-vm:9000000kB, anon-rss:4100000kB, "
        "file-rss:1000kB, shmem-rss:0kB, UID:0 pgtables:9000kB oom_score_adj:0\n"
    )
    assert commands.GROUP in closing(crashes_of(kill)[0], ())


@pytest.mark.parametrize(
    ("line", "acts"),
    [
        ("2026-03-01 11:00:10 trainer: Saving model and optim state...\n", True),
        ("2026-03-01 11:00:10 n1:0 olmo.train:967 INFO Saving unsharded checkpoint...\n", True),
        (frame("/x/torch/distributed/checkpoint/state_dict.py", "_gather", "full = gather(state)"), True),
        (frame("/x/torch/distributed/checkpoint/filesystem.py", "write_data", "buffer = copy(tensor)"), False),
        ("2026-03-01 11:00:10 n1:0 olmo.checkpoint:1922 INFO Saving model and optim state...\n", False),
    ],
)
def test_shards_are_not_made_of_what_is_saved_in_shards(line: str, *, acts: bool) -> None:
    crash = crashes_of(f"{SAVING}Traceback (most recent call last):\n{line}{REFUSED}")[0]
    assert reach.acts("sharded-checkpoint", crash) is acts


@pytest.mark.parametrize(("code", "first"), [("-9", commands.JOURNAL), ("-7", commands.SHM)])
def test_a_bus_error_is_no_kill_of_the_kernels(code: str, first: str) -> None:
    log = f"[ERROR] [launch.py:321:sigkill_handler] ['python', 'train.py'] exits with return code = {code}\n"
    asked = commands.settling(crashes_of(log)[0])
    assert asked[0] == first
    assert (commands.BUS_ERRORS in asked) is (code == "-7")


@pytest.mark.parametrize(
    ("name", "of_data"),
    [("train.json", True), ("data/alpaca.jsonl", True), ("deepspeed.json", False), ("conf/ds_config.json", False)],
)
def test_a_file_of_settings_is_no_data(name: str, *, of_data: bool) -> None:
    log = f"[ERROR] [launch.py:321:sigkill_handler] ['python', 'main.py', '{name}'] exits with return code = -7\n"
    assert crashes_of(log)[0].shows(conditions._OF_DATA) is of_data


# --- Weights in fewer bits, or over more devices ----------------------------------------------------------------------

TPU = (
    "XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used "
    "25.10G of 15.48G hbm. Exceeded hbm capacity by 9.62G.\n\nTotal hbm usage >= 25.60G:\n    reserved 530.00M\n"
    "    program 9.10G\n    arguments 16.00G\n"
)


def test_jax_shards_weights_and_quantizes_none() -> None:
    chosen, _ = advise(TPU, BITS, SPLIT, cause="model-does-not-fit")
    assert BITS not in chosen
    assert "NamedSharding" in (chosen[SPLIT].snippet or "")
    assert "attention heads" not in chosen[SPLIT].cost
    with_an_option = "python -m MaxText.train config.yml per_device_batch_size=2\n" + TPU
    assert advise(with_an_option, BITS, cause="model-does-not-fit")[0][BITS].setting == "quantization"


@pytest.mark.parametrize(("release", "reads"), [("0.1.7", False), ("0.2.0", True), ("0.6.1", True)])
def test_a_release_before_quantized_weights_loads_none(release: str, *, reads: bool) -> None:
    file = f"/x/site-packages/vllm-{release}-py3.10-linux-x86_64.egg/vllm/model_executor/models/opt.py"
    load = frame(file, "__init__", "self.fc1 = ColumnParallelLinear(size, 4 * size)")
    log = f"Traceback (most recent call last):\n{load}{REFUSED}"
    chosen, rejected = advise(log, BITS, cause="model-does-not-fit")
    assert (BITS in chosen) is reads
    assert reads or release in rejected[BITS].why


def test_an_option_for_quantized_weights_quantizes_none() -> None:
    npu = (
        "RuntimeError: NPU out of memory. Tried to allocate 64.00 MiB (NPU 2; 60.96 GiB total capacity; 60.10 GiB "
        "already allocated; 60.10 GiB current active; 20.00 MiB free; 60.40 GiB reserved in total by PyTorch)\n"
    )
    own = frame("/x/vllm_ascend/worker/worker.py", "load_model", "self.model_runner.load_model()")
    chosen, _ = advise(f"Traceback (most recent call last):\n{own}{npu}", BITS, cause="model-does-not-fit")
    assert "(--quantization only names its format)" in chosen[BITS].action
    assert chosen[BITS].snippet == "--quantization ascend"


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("", None),
        ("of Worker_TP0", None),
        ("of Worker_TP5", 6),
    ],
)
def test_the_least_number_of_devices_is_told(line: str, seen: int | None) -> None:
    log = f"(VllmWorkerProcess pid=9) ERROR vllm/worker/worker.py {line}\n(VllmWorkerProcess pid=9) {REFUSED}"
    action = advise(log, SPLIT, cause="model-does-not-fit")[0][SPLIT].action
    assert ("at least" in action) is (seen is not None)
    assert seen is None or f"at least {seen} " in action


# --- Releases by what a printed configuration lacks -------------------------------------------------------------------

DUMP = "INFO llm_engine.py:70] Initializing an LLM engine with config: model='/m', max_seq_len=6144, {}seed=0)\n"


@pytest.mark.parametrize(("states", "chosen"), [("kv_cache_dtype=auto, ", True), ("", False)])
def test_an_option_that_the_printed_configuration_lacks_is_not_there(states: str, *, chosen: bool) -> None:
    assert ("quantize-kv-cache" in advise(DUMP.format(states) + TOO_LONG, "quantize-kv-cache")[0]) is chosen


def test_a_step_of_the_share_says_from_which_size_on_it_is_enough() -> None:
    blocks = "INFO llm_engine.py:275] # GPU blocks: 300, # CPU blocks: 512\n"
    knob = "raise-engine-reservation"
    assert "need unknown" in (advise(DUMP.format("") + TOO_LONG, knob)[0][knob].derivation or "")
    known = advise(DUMP.format("") + blocks + TOO_LONG, knob)[0][knob].derivation or ""
    # (6144 - 4800) tokens x 4 GiB / (512 x 16) = 672 MiB; / 0.05 = 13.125 GiB
    assert "672 MiB" in known
    assert "13.1 GiB or more" in known or "13.12 GiB or more" in known


def test_objects_are_listed_by_releases_that_list_them() -> None:
    old = "pyarrow.lib.PlasmaStoreFull: object does not fit in the plasma store\n"
    new = "ray.exceptions.ObjectStoreFullError: Failed to put object ab12 in object store because it is full.\n"
    assert advise(new, "clear-references", cause="object-store-full")[0]["clear-references"].snippet
    assert not advise(old, "clear-references", cause="object-store-full")[0]["clear-references"].snippet
    assert "ray.init" in advise(old, "bigger-object-store", cause="object-store-full")[0]["bigger-object-store"].action


# --- Entry points -----------------------------------------------------------------------------------------------------

MADE = frame("/home/me/serve/app.py", "load", "llm = AsyncLLMEngine.from_engine_args(args)")
ASKED = "ValueError: The number of required GPUs exceeds the total number of available GPUs in the placement group.\n"


def made(*frames: str) -> Crash:
    return crashes_of(f"Traceback (most recent call last):\n{''.join(frames)}{ASKED}")[0]


def test_who_makes_the_engine_in_python_gets_arguments() -> None:
    inner = frame("/x/vllm/executor/ray_utils.py", "initialize_ray_cluster", "raise ValueError(")
    server = frame("/x/vllm/entrypoints/openai/api_server.py", "run", "engine = AsyncLLMEngine.from_engine_args(args)")
    assert in_python(made(MADE, inner))
    assert not in_python(made(server, inner))
    assert not in_python(made(inner))
    log = f"Traceback (most recent call last):\n{MADE}{inner}{ASKED}"
    knob = "fix-resource-request"
    assert "tensor_parallel_size=GPUS" in (advise(log, knob, cause="ray-unschedulable")[0][knob].snippet or "")


def test_a_ray_of_this_machine_alone_is_held_by_nobody_else() -> None:
    inner = frame("/x/vllm/executor/ray_utils.py", "initialize_ray_cluster", "raise ValueError(")
    log = f"Traceback (most recent call last):\n{MADE}{inner}{ASKED}"
    local = "2026-02-02 10:00:01,000 INFO worker.py:1786 -- Started a local Ray instance.\n"
    knob = "fix-environment"
    assert "ray list actors" in (advise(log, knob, cause="ray-unschedulable")[0][knob].snippet or "")
    assert "ray list actors" not in (advise(local + log, knob, cause="ray-unschedulable")[0][knob].snippet or "")


def test_a_program_with_windows_has_no_lines_to_paste() -> None:
    step = frame("/ui/extensions/{}/dreambooth/train.py", "main", "optimizer.step()").format
    states = frame("/x/torch/optim/adamw.py", "step", "state['exp_avg_sq'] = torch.zeros_like(p)")
    knob = "low-memory-optimizer"
    log = "Traceback (most recent call last):\n{}" + states + REFUSED
    own = advise(log.format(step("mine")), knob, cause="optimizer-states")[0][knob]
    assert "AdamW8bit" in (own.snippet or "")
    of_a_window = advise(log.format(step("sd_dreambooth_extension")), knob, cause="optimizer-states")[0][knob]
    assert (of_a_window.snippet or "").startswith("Optimizer: 8bit AdamW")


# --- What holds more than what was refused ----------------------------------------------------------------------------

GGML = (
    "llama_new_context_with_model: KV self size  = {kv} MiB, K (f16): {half} MiB, V (f16): {half} MiB\n"
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 200.00 MiB on device 1: cudaMalloc failed: out of memory\n"
    "ggml_gallocr_reserve_n: failed to allocate CUDA1 buffer of size 209715200\n"
    "llama_new_context_with_model: failed to allocate compute buffers\n"
)


@pytest.mark.parametrize(("kv", "first"), [("399.00", False), ("400.00", True), ("6400.00", True)])
def test_a_large_cache_is_halved_before_a_small_buffer(kv: str, *, first: bool, tmp_path: Path) -> None:
    log = GGML.format(kv=kv, half=f"{float(kv) / 2:.2f}")
    assert (cache_beside(crashes_of(log)[0]) is not None) is first
    knobs = [one["knob"] for one in first_of(tmp_path, log)["remedies"]]
    assert (knobs[0] == "shorter-context") is first


@pytest.mark.parametrize(
    ("code", "worlds"),
    [
        ("state, metrics = step(state, batch)", False),
        ("environment = os.environ.copy()", False),
        ("state, env_state, metrics = epoch(state, env_state, key)", True),
        ("obs = reset(num_envs)", True),
    ],
)
def test_states_of_environments_show_a_simulator(code: str, *, worlds: bool) -> None:
    log = (
        f"Traceback (most recent call last):\n{frame('/home/me/rl/ppo.py', 'train', code)}"
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9663676416 "
        "bytes.\n"
    )
    assert simulates_worlds(crashes_of(log)[0]) is worlds
    chosen, _ = advise(log, "fewer-environments", cause="activations")
    assert ("fewer-environments" in chosen) is worlds


ONE_PAGE = "--per_device_train_batch_size 1 --max_prompt_seq_len 256"
CHAT = "deepspeed main.py --actor_model_name_or_path opt-1.3b --actor_zero_stage 3 {}\n"


@pytest.mark.parametrize(
    ("options", "stands"),
    [
        ("--per_device_train_batch_size 2 --max_prompt_seq_len 256 --actor_gradient_checkpointing", True),
        ("--per_device_train_batch_size 1 --max_prompt_seq_len 1024 --actor_gradient_checkpointing", True),
        (
            f"{ONE_PAGE} --max_answer_seq_len 300 --actor_gradient_checkpointing",
            True,
        ),
        (ONE_PAGE, True),
        (f"{ONE_PAGE} --actor_gradient_checkpointing", False),
    ],
)
def test_a_page_of_tokens_is_not_cut(options: str, *, stands: bool) -> None:
    chosen, _ = advise(CHAT.format(options) + REFUSED, "shorter-sequences", cause="gpu-memory-exhausted")
    assert ("shorter-sequences" in chosen) is stands


PLANNED = (
    "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to fit the "
    "quantized model. If you want to dispatch the model on the CPU or the disk while keeping these modules in 32-bit, "
    "you need to set "
    "`llm_int8_enable_fp32_cpu_offload=True` and pass a custom `device_map` to `from_pretrained`.\n"
)


def test_modules_in_32_bits_take_four_bytes_and_do_not_train_in_unsloth() -> None:
    knob = "offload-parameters"
    loaded = advise("- transformers version: 4.48.2\n" + PLANNED, knob, cause="model-does-not-fit")[0][knob]
    assert "4 bytes" in loaded.cost
    assert "device_map" in (loaded.snippet or "")
    tuned = advise("==((====))==  Unsloth 2025.2.4: Fast Qwen2 patching.\n" + PLANNED, knob)[0]
    assert knob not in tuned or not tuned[knob].snippet


POLARS = "import polars as pl\n{}\nmemory allocation of 4194304 bytes failed\n"


@pytest.mark.parametrize(
    ("code", "streams"),
    [
        ("pl.scan_parquet('a.parquet').sink_parquet('b.parquet')", True),
        ("frame.lazy().sink_csv(out)", True),
        ("pl.scan_parquet('a.parquet').collect()", False),
        ("pl.read_parquet('sink_parquet/a.parquet')", False),
    ],
)
def test_a_query_that_streams_into_a_file_is_not_told_to_stream(code: str, *, streams: bool) -> None:
    chosen, _ = advise(POLARS.format(code), "stream-data", "spill-to-disk", cause="dataset-in-ram")
    assert ("stream-data" not in chosen) is streams
    assert "spill-to-disk" in chosen


LOADS_IT = "{}!!! Exception during processing !!! CUDA error: out of memory\nTraceback (most recent call last):\n"
COMFY = '  File "/srv/ComfyUI/execution.py", line 327, in execute\n    run(node)\n{}'
OF_A_MODEL = '  File "/srv/ComfyUI/nodes.py", line 5, in load_model\n    sd = load_torch_file(path)\n'
OF_AN_IMAGE = (
    '  File "/srv/ComfyUI/comfy/ldm/modules/diffusionmodules/model.py", line 9, in forward\n    h = conv2d(x)\n'
)


@pytest.mark.parametrize(("frames", "pictures"), [(OF_A_MODEL, False), (OF_AN_IMAGE, True)])
def test_a_model_that_is_loaded_sees_no_picture(frames: str, *, pictures: bool) -> None:
    log = LOADS_IT.format("") + COMFY.format(frames) + "RuntimeError: CUDA error: out of memory\n"
    chosen, _ = advise(log, "tiled-processing", "smaller-input", "offload-parameters", cause="gpu-memory-exhausted")
    assert ({"tiled-processing", "smaller-input"} <= chosen.keys()) is pictures
    assert bool({"tiled-processing", "smaller-input"} & chosen.keys()) is pictures


@pytest.mark.parametrize(
    ("script", "adapted"),
    [("pretrain_gpt.py", False), ("tools/pretrain.py", False), ("train.py", True), ("load_pretrained_model.py", True)],
)
def test_weights_that_were_never_trained_take_no_adapters(script: str, adapted: bool) -> None:
    step = frame(script, "main", "optimizer.step()") + frame("/x/torch/optim/adam.py", "step", "torch.zeros_like(p)")
    chosen, _ = advise(f"Traceback (most recent call last):\n{step}{REFUSED}", "lora", cause="optimizer-states")
    assert ("lora" in chosen) == adapted
