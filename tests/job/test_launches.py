"""How each framework is launched and what it prints of its configuration: both are settings."""

from __future__ import annotations

import pytest
from test_context import settings

STATED = (
    ("MAX_PIXELS=401408 NPROC_PER_NODE=2 swift sft \\\n  --sft_type lora", "MAX_PIXELS", 401408),
    ("CUDA_VISIBLE_DEVICES=0,1,2 python fit.py \\\n  --lr 1e-4", "CUDA_VISIBLE_DEVICES", "0,1,2"),
    ("set CUDA_VISIBLE_DEVICES=10,11 before", "CUDA_VISIBLE_DEVICES", "10,11"),
    ("CUDA_VISIBLE_DEVICES=3, and nothing else", "CUDA_VISIBLE_DEVICES", 3),
    ("image_max_pixels: 131072", "image_max_pixels", 131072),
    ("python3 -m openrlhf.cli.train_ppo_ray --zero_stage 3 --colocate_all_models", "zero_stage", 3),
    (
        "ray job submit --address=http://127.0.0.1:8265 -- python3 -m openrlhf.cli.train_ppo_ray --vllm_num_engines 2",
        "vllm_num_engines",
        2,
    ),
    ("deepspeed --module openrlhf.cli.train_sft --max_len 2048", "max_len", 2048),
    ("python -m openrlhf.cli.serve_rm --port 5000 --max_len 4096", "max_len", 4096),
    ("Namespace(zero_stage=3, adam_offload=True, vllm_gpu_memory_utilization=0.6)", "adam_offload", True),
    (
        "Namespace(ds=Namespace(zero_stage=3), vllm=Namespace(gpu_memory_utilization=0.7, num_engines=4))",
        "vllm.gpu_memory_utilization",
        0.7,
    ),
    ("Set args.vllm_gpu_memory_utilization to 0.4 for colocate_all_models!", "vllm_gpu_memory_utilization", 0.4),
    (
        (
            "--------- config key ---------        ------ value ------\n"
            "gpu_memory_utilization                 0.7\n"
            "zero_stage                             3"
        ),
        "zero_stage",
        3,
    ),
    ("python -m playground.orz_7b_ppo exp.gpu_memory_utilization=0.5", "exp.gpu_memory_utilization", 0.5),
    ("Override gpu_memory_utilization from 0.7 to 0.5", "gpu_memory_utilization", 0.5),
    (
        "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=8",
        "actor_rollout_ref.rollout.n",
        8,
    ),
    (
        "torchrun --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer data.micro_batch_size_per_gpu=4",
        "data.micro_batch_size_per_gpu",
        4,
    ),
    (
        (
            "(TaskRunner pid=3) {'actor_rollout_ref': {'actor': {'ppo_micro_batch_size_per_gpu': 4,\n"
            "(TaskRunner pid=3)    'strategy': 'fsdp'}}}"
        ),
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
        4,
    ),
    ("Error executing job with overrides: ['data.train_batch_size=256', 'trainer.nnodes=2']", "trainer.nnodes", 2),
    (
        "accelerate launch --config_file zero3.yaml grpo.py --per_device_train_batch_size 4",
        "per_device_train_batch_size",
        4,
    ),
    ("trl grpo --model_name_or_path m --max_completion_length 2048", "max_completion_length", 2048),
    ("trl vllm-serve --model m --gpu_memory_utilization 0.8", "gpu_memory_utilization", 0.8),
    (
        "uv run python examples/run_grpo.py --config c.yaml policy.train_micro_batch_size=2",
        "policy.train_micro_batch_size",
        2,
    ),
    (
        "uv run examples/run_grpo_math.py policy.generation.vllm_cfg.gpu_memory_utilization=0.6",
        "policy.generation.vllm_cfg.gpu_memory_utilization",
        0.6,
    ),
    (
        "python examples/nlp/gpt/train_gpt_ppo_actor.py ++model.micro_batch_size=1 trainer.ppo.max_steps=9",
        "model.micro_batch_size",
        1,
    ),
    (
        "ray job submit --address=x -- python3 train.py --rollout-batch-size 32 --sglang-mem-fraction-static 0.7",
        "sglang_mem_fraction_static",
        0.7,
    ),
    ("python examples/start_rlvr_pipeline.py --config_path p --config_name c", "config_name", "c"),
    (
        "python3 examples/math/gsm8k_rl.py --config x.yaml scheduler.type=local gconfig.max_new_tokens=1024",
        "gconfig.max_new_tokens",
        1024,
    ),
    (
        "python3 -m areal.launcher.ray s.py --config x.yaml actor.mb_spec.max_tokens_per_mb=10240",
        "actor.mb_spec.max_tokens_per_mb",
        10240,
    ),
    (
        "uv run -m skyrl.train.entrypoints.main_base generator.inference_engine.gpu_memory_utilization=0.8",
        "generator.inference_engine.gpu_memory_utilization",
        0.8,
    ),
    ("FORCE_TORCHRUN=1 llamafactory-cli train x.yaml per_device_train_batch_size=1", "per_device_train_batch_size", 1),
    (
        "NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --vllm_gpu_memory_utilization 0.4",
        "vllm_gpu_memory_utilization",
        0.4,
    ),
    ("NPROC_PER_NODE=8 swift sft --model m", "NPROC_PER_NODE", 8),
    ("NPROC_PER_NODE=2 OMP_NUM_THREADS=4 \\\nMASTER_PORT=29611 \\\nswift sft \\\n  --model m", "NPROC_PER_NODE", 2),
    ("megatron sft --load m --micro_batch_size 1", "micro_batch_size", 1),
    ("args: SftArguments(model='m', per_device_train_batch_size=2, max_length=4096)", "max_length", 4096),
    ("args: RLHFArguments(rlhf_type='grpo', vllm_gpu_memory_utilization=0.5)", "vllm_gpu_memory_utilization", 0.5),
    ("axolotl train x.yml --micro-batch-size 2", "micro_batch_size", 2),
    ("accelerate launch -m axolotl.cli.train x.yml --sequence-len 4096", "sequence_len", 4096),
    (
        "GRPOConfig(\n_n_gpu=1,\nper_device_train_batch_size=4,\nvllm_mode=colocate,\n)",
        "per_device_train_batch_size",
        4,
    ),
    ("tune run --nproc_per_node 8 full_finetune_distributed --config c batch_size=2", "batch_size", 2),
    (
        (
            "------------------------ arguments ------------------------\n"
            "  micro_batch_size ................................ 2\n"
            "  seq_length ...................................... 8192"
        ),
        "seq_length",
        8192,
    ),
    ("  zero_optimization_stage ...... 3", "zero_optimization_stage", 3),
    (
        "actor_train:\n  training_args:\n    per_device_train_batch_size: 1\n    gradient_accumulation_steps: 32",
        "actor_train.training_args.per_device_train_batch_size",
        1,
    ),
    ("vllm:\n  gpu_memory_utilization: 0.85\n  max_model_len: 4096", "vllm.gpu_memory_utilization", 0.85),
    ("lmdeploy serve api_server org/Model-72B-AWQ --tp 2", "model", "org/Model-72B-AWQ"),
)


@pytest.mark.parametrize(("log", "name", "value"), STATED)
def test_a_launch_or_a_dump_states_its_settings(log: str, name: str, value: object) -> None:
    assert settings(log).get(name) == value


@pytest.mark.parametrize(
    "log",
    [
        "use python -m playground.orz_7b_ppo to start",
        "you may start it with uv run and set the batch later",
        "config of the reward: weight=3 shape=4",
        "GRPOConfig is deprecated, per device batches count",
        "To do without graphs, set 'enforce_eager=True' or use '--enforce-eager' in the CLI.",
    ],
)
def test_prose_about_a_launch_states_nothing(log: str) -> None:
    assert settings(log) == {}


@pytest.mark.parametrize(
    ("log", "name", "value"),
    [
        ("./llama-cli --model m.gguf -c 32768 -np 2", "ctx_size", 32768),
        ("./llama-cli --model m.gguf -c 32768 -np 2", "parallel", 2),
        ("spark-submit --conf spark.executor.memoryOverhead=2g --conf spark.executor.cores=2 etl.py",
         "spark.executor.memoryOverhead", "2g"),
        ("python train.py --conf configs/base.yaml", "conf", "configs/base.yaml"),
    ],
)  # fmt: skip
def test_flags_that_one_program_means_so(log: str, name: str, value: object) -> None:
    assert settings(log)[name] == value


@pytest.mark.parametrize(
    "log", ["bash -c 4096 --login", "python -c 4096 --x 1", "python infer.py -c 4096 --x llama-cli"]
)
def test_the_same_flags_of_others_are_no_context(log: str) -> None:
    assert "ctx_size" not in settings(log)


@pytest.mark.parametrize(
    ("log", "workers"),
    [
        ("$ cd run && python fit.py --workers 8", 8),
        ("$ ulimit -v 4000000; python fit.py --workers 8", 8),
        ("+ source env/bin/activate && cd run; ./fit --workers 8", 8),
        ("(ulimit -v 4000000; python fit.py --workers 8)", 8),
        ("bash -c 'ulimit -v 4000000; exec python fit.py --workers 8'", 8),
        ("ulimit -v 4000000 && python fit.py --workers 8", 8),
        # a script's own options, a command that prepares and nothing more, prose
        ("bash run.sh -c 'python fit.py --workers 8'", None),
        ("$ cd run --workers 8", None),
        ("first cd run; the rest is python fit.py --workers 8", None),
    ],
)
def test_what_only_prepares_stands_before_the_program(log: str, workers: int | None) -> None:
    assert settings(log).get("workers") == workers


@pytest.mark.parametrize(
    ("log", "name", "value"),
    [
        ("python fit.py --patch-size 96 96 96 --lr 0.1", "patch_size", "96 96 96"),
        ("python fit.py --patch-size 96", "patch_size", 96),
        ("python fit.py --patch-size=96 96", "patch_size", 96),
        ("python fit.py --patch-size 96 in.nii 4", "patch_size", 96),
        ("python fit.py 12 --patch-size 96", "patch_size", 96),
    ],
)
def test_several_numbers_behind_a_flag_are_one_value(log: str, name: str, value: object) -> None:
    assert settings(log)[name] == value
