from __future__ import annotations

import time

import pytest

from oomdoctor import streams
from oomdoctor.job.context import ANCHORS, ContextBuilder
from oomdoctor.job.model import Context


def context(*logs: str) -> Context:
    builder = ContextBuilder()
    for log in logs:
        builder.add(streams.page("job.log", 1, log.encode()))
    return builder.build()


def settings(log: str) -> dict[str, object]:
    return {name: s.value for name, s in context(log).settings.items()}


# near misses: nothing of these is a setting


@pytest.mark.parametrize(
    "line",
    [
        "Try lowering --gpu-memory-utilization to free memory for weights, increasing --tensor-parallel-size",
        "Consider setting --max-model-len to a smaller value.",
        "try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
        "Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations.",
        "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)",
        "is equivalent to --gpu-memory-utilization=0.8840 without CUDA graph memory profiling",
        "usage: train.py [-h] [--model MODEL] [--zero_stage ZERO_STAGE]",
        "{'loss': 0.53, 'grad_norm': 1.2, 'learning_rate': 1e-06, 'epoch': 0.1}",
        '{"event_id": "ab", "label": "RAY_WORKER_FAILURE", "message": "worker died"}',
        '{"severity": "ERROR", "label": "OOM", "source": {"a": 1},\n "pid": 3, "worker": "raylet"}',
        "{GPU: 80000, CPU: 10000, object_store_memory: 74910842880000}",
        "4711\t88.25\tpython serve_rm.py --reward_pretrain /models/rm --batch_size 64",
        "        gpu_memory_utilization=gpu_memory_utilization,",
        "    self.model=build(config)",
        "Warning: something happened: 12",
        "RuntimeError: shape mismatch: value tensor of shape [3]",
    ],
)
def test_no_setting(line: str) -> None:
    assert settings(line) == {}


# hits


def test_a_launch_over_continuation_lines() -> None:
    log = (
        "ray start --head --num-gpus 8 --num-cpus=64\n"
        "export RAY_memory_usage_threshold=0.97\n"
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python3 -m openrlhf.cli.train_ppo_ray \\\n"
        "   --actor_num_nodes 1 \\\n"
        "   --actor_num_gpus_per_node 8 \\\n"
        "   --vllm_num_engines 4\\\n"
        "   --vllm_gpu_memory_utilization=0.6 \\\n"
        "   --adam_offload \\\n"
        '   --runtime-env-json=\'{"env_vars": {"NCCL_DEBUG": "WARN"}}\' \\\n'
        "   --actor_learning_rate 5e-7\n"
        "Traceback (most recent call last):\n"
    )
    found = context(log)
    assert {name: s.value for name, s in found.settings.items()} == {
        "head": True,
        "num_gpus": 8,
        "num_cpus": 64,
        "RAY_memory_usage_threshold": 0.97,
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "actor_num_nodes": 1,
        "actor_num_gpus_per_node": 8,
        "vllm_num_engines": 4,
        "vllm_gpu_memory_utilization": 0.6,
        "adam_offload": True,
        "runtime_env_json.env_vars.NCCL_DEBUG": "WARN",
        "actor_learning_rate": 5e-7,
    }
    assert found.settings["vllm_gpu_memory_utilization"].line == 7
    assert list(found.frameworks) == ["openrlhf", "ray", "torch"]


def test_dashes_and_underscores_are_one_name() -> None:
    log = "vllm serve org/some-7B --gpu-memory-utilization 0.8\nNamespace(gpu_memory_utilization=0.8, swap_space=4.0)"
    assert settings(log) == {"model": "org/some-7B", "gpu_memory_utilization": 0.8, "swap_space": 4.0}


def test_a_hydra_dump_with_and_without_its_writer() -> None:
    lines = [
        "{'actor_rollout_ref': {'actor': {'fsdp_config': {'optimizer_offload': True,",
        "                                               'param_offload': False}},",
        "                       'rollout': {'free_cache_engine': True,",
        "                                   'gpu_memory_utilization': 0.6,",
        "                                   'swap_space': 40}},",
        " 'trainer': {'n_gpus_per_node': 8, 'nnodes': 1}}",
    ]
    expected = {
        "actor_rollout_ref.actor.fsdp_config.optimizer_offload": True,
        "actor_rollout_ref.actor.fsdp_config.param_offload": False,
        "actor_rollout_ref.rollout.free_cache_engine": True,
        "actor_rollout_ref.rollout.gpu_memory_utilization": 0.6,
        "actor_rollout_ref.rollout.swap_space": 40,
        "trainer.n_gpus_per_node": 8,
        "trainer.nnodes": 1,
    }
    plain = settings("\n".join(lines))
    assert {k: v for k, v in plain.items() if "." in k} == expected
    written = context("\n".join(f"(main_task pid=312) {line}" for line in lines))
    assert {k: s.value for k, s in written.settings.items() if "." in k} == expected
    assert written.settings["actor_rollout_ref.rollout.swap_space"].line == 5
    assert "verl" in written.frameworks


def test_hydra_overrides_as_launch_line_and_as_printed_list() -> None:
    launch = (
        "python3 -m verl.trainer.main_ppo \\\n"
        "  data.max_response_length=4096 \\\n"
        "  +actor_rollout_ref.rollout.swap_space=0"
    )
    expected = {"data.max_response_length": 4096, "actor_rollout_ref.rollout.swap_space": 0}
    assert settings(launch) == expected
    printed = (
        "Error executing job with overrides: "
        "['data.max_response_length=4096', '+actor_rollout_ref.rollout.swap_space=0']"
    )
    assert settings(printed) == expected


def test_what_vllm_prints_of_its_configuration() -> None:
    log = (
        "INFO 06-01 10:00:00 [api_server.py:1034] vLLM API server version 0.8.3\n"
        "INFO 06-01 10:00:00 [utils.py:233] non-default args: {'model': 'org/Tiny-1B', 'max_num_seqs': 64}\n"
        "INFO 06-01 10:00:09 [core.py:61] Initializing a V1 LLM engine (v0.8.3) with config: model='org/Tiny-1B', "
        "speculative_config=None, max_seq_len=8192, tensor_parallel_size=2, enforce_eager=False, "
        'compilation_config={"level":3,"cudagraph_capture_sizes":[512,504]}\n'
    )
    found = context(log)
    assert found.frameworks["vllm"] == "0.8.3"
    assert found.models == ("org/Tiny-1B",)
    values = {name: s.value for name, s in found.settings.items()}
    assert values["max_seq_len"] == 8192
    assert values["tensor_parallel_size"] == 2
    assert values["max_num_seqs"] == 64
    assert values["compilation_config.cudagraph_capture_sizes"] == "[512,504]"


def test_reprs_over_many_lines() -> None:
    log = (
        "TrainingArguments(\n_n_gpu=1,\nbf16=True,\nper_device_train_batch_size=4,\n"
        "optim=OptimizerNames.ADAMW_TORCH,\n)\n"
    )
    assert settings(log) == {
        "_n_gpu": 1,
        "bf16": True,
        "per_device_train_batch_size": 4,
        "optim": "OptimizerNames.ADAMW_TORCH",
    }


def test_sglang_arguments() -> None:
    log = "[2025-07-02 07:41:58] server_args=ServerArgs(model_path='/m/Tiny-1B', mem_fraction_static=0.7, tp_size=8)"
    found = context(log)
    assert {n: s.value for n, s in found.settings.items()} == {
        "model_path": "/m/Tiny-1B",
        "mem_fraction_static": 0.7,
        "tp_size": 8,
    }
    assert "sglang" in found.frameworks


def test_two_columns_and_dotted_tables() -> None:
    orz = (
        "--------- config key ---------        ------ value ------\n"
        "gpu_memory_utilization                0.7\n"
        "colocate_all                          True\n"
        "total_num_nodes                       4\n"
        "----------------------------------------------------------\n"
        "done loading\n"
    )
    assert settings(orz) == {"gpu_memory_utilization": 0.7, "colocate_all": True, "total_num_nodes": 4}
    deepspeed = (
        "[2025-01-01 10:00:00,813] [INFO] [config.py:1003:print]   zero_optimization_stage ...... 3\n"
        "  micro_batch_size ............................... 2\n"
        "Loading checkpoint ... please wait\n"
    )
    assert settings(deepspeed) == {"zero_optimization_stage": 3, "micro_batch_size": 2}


def test_a_ruled_table_whose_head_says_what_its_rows_are() -> None:
    plain = (
        "|     name      |   value    |\n"
        "|---------------|------------|\n"
        "| max_memory    | 476.8 MiB  |\n"
        "| threads       | 1          |\n"
        "SELECT 1;\n"
        "| later         | 3          |\n"
    )
    assert settings(plain) == {"max_memory": "476.8 MiB", "threads": 1}
    rich = (
        "┏━━━━━━━━━━━━━━━━┳━━━━━━━┓\n┃ Hyperparameter ┃ Value ┃\n┡━━━━━━━━━━━━━━━━╇━━━━━━━┩\n"
        "│ hidden         │ 32    │\n└────────────────┴───────┘\ndone\n│ later          │ 3     │\n"
    )
    assert settings(rich) == {"hidden": 32}
    assert settings("| metric | value |\n|----|----|\n| loss | 3 |\n") == {}
    assert settings("| name | value | unit |\n|----|----|----|\n| loss | 3 | nat |\n") == {}


def test_the_json_that_deepspeed_prints() -> None:
    log = 'json = {\n    "steps_per_print": 100, \n    "zero_optimization": {\n        "stage": 3\n    }\n}\n'
    assert settings(log * 2) == {"steps_per_print": 100, "zero_optimization.stage": 3}


def test_a_framework_that_changes_a_setting_by_itself_has_the_last_word() -> None:
    log = (
        "python -m openrlhf.cli.train_ppo_ray --vllm_gpu_memory_utilization 0.95\n"
        "Set args.vllm_gpu_memory_utilization to 0.4 for colocate_all_models!\n"
    )
    assert settings(log) == {"vllm_gpu_memory_utilization": 0.4}
    assert settings("Override gpu_memory_utilization from 0.7 to 0.5\n") == {"gpu_memory_utilization": 0.5}


def test_a_mention_does_not_overrule_a_flag() -> None:
    log = "vllm serve m-7B --max-num-seqs 64\nscheduler says max_num_seqs=1024\n"
    assert settings(log)["max_num_seqs"] == 64


def test_containers_schedulers_and_limits() -> None:
    assert settings("docker run --gpus all --shm-size 8g --memory=100G image python train.py")["shm_size"] == "8g"
    assert settings("#SBATCH --mem=64G\n#SBATCH --gres=gpu:8\n") == {"mem": "64G", "gres": "gpu:8"}
    yaml = "resources:\n  limits:\n    memory: 64Gi\n    nvidia.com/gpu: 8\n"
    assert settings(yaml)["resources.limits.memory"] == "64Gi"


def test_a_failed_command_printed_as_a_list() -> None:
    log = "CalledProcessError: Command '['/usr/bin/python', '-u', 'train.py', '--bf16', '--max_len', '512']' died"
    assert settings(log) == {"bf16": True, "max_len": 512}


def test_what_trainers_print_in_their_banners() -> None:
    transformers = (
        "***** Running training *****\n  Num examples = 12,345\n  Num Epochs = 3\n"
        "  Instantaneous batch size per device = 8\n  Gradient Accumulation steps = 4\n"
        "  Total optimization steps = 302\n  Number of trainable parameters = 6,738,415,616\n"
    )
    assert settings(transformers) == {
        "num_examples": 12345,
        "num_epochs": 3,
        "batch size per device": 8,
        "gradient_accumulation_steps": 4,
        "total_optimization_steps": 302,
        "number_of_trainable_parameters": 6_738_415_616,
    }
    assert settings("Total steps: 302") == {"total_steps": 302}


def test_a_rounded_number_in_a_banner_is_none() -> None:
    assert settings("Total parameters: 7.2 B\nNumber of trainable parameters = 13 M\nTotal Parameters: 6.7B") == {}


def test_a_banner_does_not_overrule_a_flag() -> None:
    length = "INFO 03-02 [config.py:1] Using max model len {}"
    assert settings(length.format(4096)) == {"max_model_len": 4096}
    assert settings(f"vllm serve m-7B --max-model-len 512\n{length.format(4096)}")["max_model_len"] == 512


def test_an_input_that_is_longer_than_the_model_was_made_for() -> None:
    warned = (
        "Token indices sequence length is longer than the specified maximum sequence length for this model "
        "(9000 > 4096). Running this sequence through the model will result in indexing errors"
    )
    assert settings(warned) == {"longest_input": 9000, "model_max_length": 4096}


def test_advice_to_offload_switches_nothing_on() -> None:
    assert settings("Consider offload_optimizer with device: cpu to save memory") == {}
    assert settings("offload_optimizer={'device': 'cpu'}") == {"offload_optimizer.device": "cpu"}


def test_a_list_of_what_to_try_states_no_setting() -> None:
    listed = "  2. Lower gpu_memory_utilization: load(..., gpu_memory_utilization=0.55)"
    assert settings(f"The card has 22.2 GB with gpu_memory_utilization=0.85.\n{listed}") == {
        "gpu_memory_utilization": 0.85
    }
    assert settings("2. gpu_memory_utilization=0.55") == {"gpu_memory_utilization": 0.55}


def test_a_dump_or_a_list_that_is_cut_keeps_what_is_whole() -> None:
    assert settings("non-default args: {'max_model_len': 4096, 'dtype': 'bflo") == {"max_model_len": 4096}
    assert settings("non-default args: {") == {}
    assert settings("overrides: ['trainer.nnodes=2', 'trainer.n_gpus_per_node=") == {"trainer.nnodes": 2}


def test_the_environment_of_a_container() -> None:
    found = settings("docker run --env VLLM_USE_V1=0 -e CUDA_VISIBLE_DEVICES=3 image vllm serve x --max-model-len 3")
    assert (found["VLLM_USE_V1"], found["CUDA_VISIBLE_DEVICES"], found["max_model_len"]) == (0, 3, 3)
    assert "env" not in found


# versions, models, hardware


@pytest.mark.parametrize(
    ("line", "name", "version"),
    [
        ("vllm==0.8.3", "vllm", "0.8.3"),
        ("[pip3] torch==2.6.0", "torch", "2.6.0"),
        ("deepspeed                 0.16.3", "deepspeed", "0.16.3"),
        ("| vllm | 0.8.3 |", "vllm", "0.8.3"),
        ("- `transformers` version: 4.50.0", "transformers", "4.50.0"),
        ("torch: 2.6.0+cu124", "torch", "2.6.0+cu124"),
        ("PyTorch version: 2.6.0+cu124", "torch", "2.6.0+cu124"),
        ("DeepSpeed info: version=0.16.3, git-hash=unknown, git-branch=unknown", "deepspeed", "0.16.3"),
        ("torch version .................... 2.6.0+cu124", "torch", "2.6.0+cu124"),
        ("ray, version 2.40.0", "ray", "2.40.0"),
        ("a V1 LLM engine (v0.11.1rc7.dev145+gb39a5026e) with config: x=1", "vllm", "0.11.1rc7.dev145+gb39a5026e"),
        ("adding /env/lib/python3.11/site-packages/vllm-0.9.2.dist-info/METADATA", "vllm", "0.9.2"),
        ('File "/env/lib/python3.9/site-packages/vllm-0.1.2-py3.9-linux.egg/vllm/a.py", line 4', "vllm", "0.1.2"),
        ("Python version: 3.10.12 (main)", "python", "3.10.12"),
        ("torch 2.14.1+cu130 transformers 5.24.0", "transformers", "5.24.0"),
        ("torch 2.9.0, transformers 4.57.1 and datasets 4.4.0", "datasets", "4.4.0"),
    ],
)  # fmt: skip
def test_versions(line: str, name: str, version: str) -> None:
    assert context(line).frameworks.get(name) == version


@pytest.mark.parametrize(
    "line",
    [
        "vllm 0.8.3 requires torch==2.6.0, but you have torch 2.5.1 which is incompatible.",
        "torch 32.50 GiB is allocated",
        "ray 4 workers",
        "please upgrade to vllm 0.9.1",
        "Installing vllm>=0.8",
        "24829\t0.09\tpython -m pip install -q ray==1.2.0",
    ],
)
def test_no_version(line: str) -> None:
    assert not any(context(line).frameworks.values())


def test_several_layers_at_once() -> None:
    log = (
        '  File "/w/simpleRL-reason/verl/trainer/main_ppo.py", line 10, in main\n'
        '  File "/env/lib/python3.9/site-packages/vllm/worker/worker.py", line 1, in x\n'
        '  File "/env/lib/python3.9/site-packages/torch/distributed/fsdp/api.py", line 1, in x\n'
    )
    assert list(context(log).frameworks) == ["simplerl-reason", "verl", "fsdp", "vllm", "ray", "torch", "python"]


def test_borrowed_class_names_are_no_sign_of_their_first_owner() -> None:
    found = context("(PolicyRayActorBase pid=1) x\nray::LLMRayActor.update_weight\npython -m playground.orz_7b_ppo\n")
    assert "open-reasoner-zero" in found.frameworks
    assert "openrlhf" not in found.frameworks


def test_models_from_settings_before_those_that_are_only_mentioned() -> None:
    assert context("loading Qwen/Qwen2.5-7B-Instruct now").models == ("Qwen/Qwen2.5-7B-Instruct",)
    log = "python -m openrlhf.cli.x --pretrain /m/Llama-3-8B-sft --save_path /out/Llama-3-8B-rl\n"
    assert context(log).models == ("/m/Llama-3-8B-sft",)
    assert context("modeling_qwen2.py Qwen2ForCausalLM Qwen").models == ()


def test_cards_and_memory() -> None:
    smi = "".join(f"|   {i}  NVIDIA A100-SXM4-80GB          On  | 0000 |\n" for i in range(4))
    assert context(smi).hardware == {"gpu_name": "A100-SXM4-80GB", "gpu_count": 4}
    assert context("Running on 8 x A800 with NCCL version 2.21.5+cuda12.4").hardware == {
        "gpu_name": "A800",
        "gpu_count": 8,
    } | ({"nccl_version": "2.21.5"})
    free = "              total        used\nMem:          1007Gi       101Gi       3Gi\n"
    stated = {"ram_bytes": 1007 * 1024**3, "ram_used_bytes": 101 * 1024**3, "ram_stated": "1007Gi"}
    assert context(free).hardware == stated
    whole = "Mem:            62G        3.5G         57G         25M        1.5G         58G\n"
    assert context(whole).hardware == {
        "ram_bytes": 62 * 1024**3,
        "ram_used_bytes": 3.5 * 1024**3,
        "ram_stated": "62G",
        "ram_available_bytes": 58 * 1024**3,
        "ram_available_stated": "58G",
    }
    assert context("Mem:   257088   130872   1   2\n").hardware["ram_bytes"] == 257088 * 1024**2
    assert context("Mem:   263853512   130872   1   2\n").hardware["ram_bytes"] == 263853512 * 1024
    assert context("tmpfs   24G   41M   24G   1% /dev/shm").hardware == {"shm_bytes": 24 * 1024**3}


# what must never happen


def test_secrets_stay_out() -> None:
    log = (
        "python3 -m openrlhf.cli.x --use_wandb 0123456789abcdef0123456789abcdef01234567 --wandb_key abc --input_key q "
        "--hf_token hf_abcdefghijklmnopqrstuvwx --max_new_tokens 512\n"
        "export WANDB_API_KEY=abc\n"
    )
    assert settings(log) == {"input_key": "q", "max_new_tokens": 512}


def test_what_is_kept_is_bounded() -> None:
    builder = ContextBuilder()
    for part in range(20):
        flags = " ".join(f"--flag_{part}_{i} {i}" for i in range(500))
        builder.add(streams.page("job.log", 1, f"python train.py {flags}\n".encode()))
    assert len(builder.build().settings) == 3000


@pytest.mark.parametrize(
    "line",
    ["--a=" * 20_000, "gpu_memory_utilization=" * 4000, "Qwen" * 5000, "{'a':" * 9000, "A100 " * 9000, "x ..." * 9000],
)
def test_hostile_lines_take_linear_time(line: str) -> None:
    begin = time.process_time()
    context("\n".join([line] * 5))
    assert time.process_time() - begin < 2.0


def test_few_and_rare_anchors() -> None:
    assert len(ANCHORS) <= 8


def test_who_writes() -> None:
    found = context("(WorkerDict pid=31) x\n(WorkerDict pid=32) x\n(main_task pid=30) x\nplain\n").processes
    assert found == {"WorkerDict": (31, 32), "main_task": (30,)}
    error = (
        "ray.exceptions.RayTaskError(X): ray::LLMActor.backload_to_gpu() (pid=119, ip=10.0.0.2, actor_id=ab, repr=<y>)"
    )
    assert context(error).processes == {"LLMActor.backload_to_gpu": (119,)}


def test_what_monitors_print_of_the_machine() -> None:
    assert context("CPU Virtual Memory:  used = 5.17 GB, percent = 10.3%").hardware == {"ram_used_fraction": 0.103}
    assert context("Memory usage on this node: 45.2/62.8 GiB").hardware == {
        "ram_used_bytes": round(45.2 * 1024**3),
        "ram_bytes": round(62.8 * 1024**3),
    }
    webui = context("ram: free:16.00 used:15.50 total:31.50\ngpu: free:1.00 used:2.00 total:3.00\n").hardware
    assert webui["ram_bytes"] == round(31.5 * 1024**3)
    assert webui["gpu_free_bytes"] == 1024**3


@pytest.mark.parametrize(
    ("log", "progress"),
    [
        ("  4%|▍ | 2211/50000 [2:51:14<50:45:10,  3.84s/it]", {"done": 2211, "total": 50000}),
        ("4100it [22:44,  3.92it/s]", {"done": 4100}),
        ("step 10 loss 2.1\nglobal step: 20 loss 2.0", {"step": 20}),
        ("iter 31: time 1.2", {"step": 31}),
        ("paths:  91%|9| 91/100 [00:18<00:02,  3.18it/", {"done": 91, "total": 100}),
        ("disk:  91%| full", {}),
        ("step 1/5: collecting", {}),
        ("Detected 1 oom-kill event(s) in StepId=4711.0", {}),
    ],
)
def test_how_far_the_job_came(log: str, progress: dict[str, int]) -> None:
    assert context(log).progress == progress


@pytest.mark.parametrize(
    ("log", "codes"),
    [
        ("failed (exitcode: -9) local_rank: 0 (pid: 7)", (-9,)),
        ("main.py exits with return code = -9\nexit code: 137\nexit code: 137", (-9, 137)),
        ("terminated with exit code (137)", (137,)),
        ("Aborted (core dumped)\nrc=134", (134,)),
        ("src=12 arc=7", ()),
        ("exit code 0", ()),
        ("return codes are documented in section 12", ()),
    ],
)
def test_how_it_ended(log: str, codes: tuple[int, ...]) -> None:
    assert context(log).exit_codes == codes


@pytest.mark.parametrize(
    "line",
    [
        "['python', '-u', 'train.py', '--save_steps', '100', '--per_device_train_batch_size=4']",
        'cmd = ["accelerate", "launch", "sft.py", "--save_steps", "100", "--per_device_train_batch_size", "4"]',
        "['/opt/bin/python3.10', 't.py', '--save_steps', '100', '--per_device_train_batch_size', '4'] exits with 1",
        "argv: ['train.py', '--save_steps', '100', '--per_device_train_batch_size', '4']",
    ],
)
def test_the_words_of_a_command_are_settings(line: str) -> None:
    stated = settings(line)
    assert stated["save_steps"] == 100
    assert stated["per_device_train_batch_size"] == 4


@pytest.mark.parametrize(
    "line",
    [
        "choose one of ['adam', '--save_steps', '100']",
        "tokens: ['a', '--save_steps', '100']",
        "x = '--a', '--save_steps'",
    ],
)
def test_other_lists_are_no_command(line: str) -> None:
    assert settings(line) == {}
