"""What a release refuses beside something else is not proposed where the log shows the other half."""

from __future__ import annotations

import pytest
from remedy_logs import advise, crashes_of, cuda

from oomdoctor.remedies.allocator import set_by_a_framework
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.printed import rejected_advice
from oomdoctor.remedies.together import refused, table

IN_PIECES = cuda(tried="864.00 MiB", free="366.56 MiB", unused="6.12 GiB")
KNOB = "allocator-config"
NEWER = "INFO [api_server.py:1] vLLM API server version 0.22.0\n"
PROFILING = (
    "Traceback (most recent call last):\n"
    '  File "/w/site-packages/vllm/worker/worker.py", line 90, in determine_num_available_blocks\n'
    "    self.model_runner.profile_run()\n"
    '  File "/w/site-packages/vllm/worker/model_runner.py", line 1300, in profile_run\n'
    "    self.execute_model(model_input, kv_caches)\n"
)


def trace(frame: str, code: str) -> str:
    return f'Traceback (most recent call last):\n  File "/w/site-packages/{frame}", line 9, in step\n    {code}\n'


def is_proposed(before: str, log: str = IN_PIECES) -> bool:
    chosen, rejected = advise(before + log, KNOB)
    assert (KNOB in chosen) is (KNOB not in rejected)
    return KNOB in chosen


@pytest.mark.parametrize(
    "before",
    [
        "vllm serve acme/chat --enable-sleep-mode --gpu-memory-utilization 0.8\n",
        "INFO [utils.py:1] non-default args: {'model': 'a/b', 'enable_sleep_mode': True}\n",
        "python3 -m openrlhf.cli.train_ppo_ray --vllm_enable_sleep --vllm_num_engines 4\n",
        "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.name=vllm\nvllm==0.8.5\nverl==0.4.0\n",
        trace("vllm/device_allocator/cumem.py", "yield data"),
        trace("openrlhf/trainer/ppo_trainer.py", 'batch_vllm_engine_call(self.vllm_engines, "wake_up")'),
        trace("openrlhf/trainer/ppo_trainer.py", 'batch_vllm_engine_call(vllm_engines, "sleep")'),
        trace("acme/rollout.py", "self.llm.wake_up(tags=['weights'])"),
        trace("torch_memory_saver/entrypoint.py", "self._impl.resume(tag)"),
        trace("sglang/srt/entrypoints/engine.py", "self.release_memory_occupation()"),
        "python -m sglang.launch_server --model-path a/b --enable-memory-saver\n",
        trace("lmdeploy/pytorch/engine/model_agent.py", "self.cache_engine = build()"),
    ],
)
def test_expandable_segments_beside_a_memory_pool(before: str) -> None:
    assert not is_proposed(before)
    assert any("does not support it with" in why for _, why in rejected_advice(crashes_of(before + IN_PIECES)[0]))


@pytest.mark.parametrize(
    "before",
    [
        "",
        "vllm serve acme/chat --gpu-memory-utilization 0.8\n",
        "INFO [utils.py:1] non-default args: {'model': 'a/b', 'enable_sleep_mode': False}\n",
        "INFO [api_server.py:1] vLLM API server version 0.22.0\nvllm serve acme/chat --enable-sleep-mode\n",
        "INFO [api_server.py:1] vLLM API server version 0.22.0\n"
        + trace("vllm/device_allocator/cumem.py", "yield data"),
        "python3 -m openrlhf.cli.train_ppo_ray --vllm_num_engines 4\n",
        trace("acme/train.py", "time.sleep(1)"),
        trace("acme/train.py", "self.sleep(seconds)"),
        trace("acme/train.py", "loss.backward()"),
        "python -m sglang.launch_server --model-path a/b\n",
        trace("lmdeploy/turbomind/turbomind.py", "self.create()"),
    ],
)
def test_where_nothing_speaks_against_them(before: str) -> None:
    assert is_proposed(before)


def test_the_reason_names_the_releases_and_where_it_was_read() -> None:
    (crash,) = crashes_of("vllm serve acme/chat --enable-sleep-mode\n" + IN_PIECES)
    why = refused(KNOB, crash)
    assert why is not None
    assert "vLLM >=0.7 <0.21" in why
    assert "vllm-project/vllm#14189" in why


def test_what_a_framework_sets_by_itself_is_set() -> None:
    assert not is_proposed("verl==0.6.1\npython3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.name=hf\n")
    assert is_proposed("python3 -m llamafactory.cli train --stage sft\n")


def test_a_release_that_is_not_printed_may_not_set_it() -> None:
    launch = "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.free_cache_engine=False\n"
    (crash,) = crashes_of(launch + IN_PIECES)
    assert "by itself" not in (refused(KNOB, crash) or "")


WITHOUT_AN_ENGINE = "python3 -m verl.trainer.main_ppo data.train_batch_size=64{}\n"


@pytest.mark.parametrize(
    ("more", "proposed"),
    [
        ("", False),
        (" actor_rollout_ref.rollout.free_cache_engine=True", False),
        (" actor_rollout_ref.rollout.free_cache_engine=False", True),
        (" actor_rollout_ref.rollout.name=hf", True),
    ],
)
def test_an_engine_that_the_log_does_not_name_sleeps_by_default(more: str, proposed: bool) -> None:
    log = WITHOUT_AN_ENGINE.format(more) + trace("verl/workers/actor/dp_actor.py", "loss.backward()")
    assert is_proposed(log) is proposed


def test_the_reason_is_that_of_the_engine_in_the_log() -> None:
    log = WITHOUT_AN_ENGINE.format(" actor_rollout_ref.rollout.name=sglang") + IN_PIECES
    assert "SGLang" in (refused(KNOB, crashes_of(log)[0]) or "")


@pytest.mark.parametrize(
    "before",
    [
        "python3 -m openrlhf.cli.train_ppo_ray --vllm_num_engines 4\n",  # engines on GPUs of their own
        "python3 -m verl.trainer.fsdp_sft_trainer data.micro_batch_size=4\n",
        "python3 -m trl.scripts.grpo --use_vllm False\n",
    ],
)
def test_where_no_engine_shares_the_gpu(before: str) -> None:
    assert is_proposed(before)


def of_the_hint(log: str) -> str:
    return " ".join(why for _, why in rejected_advice(crashes_of(log)[0]))


def test_an_engine_that_the_log_does_not_name_is_an_assumption() -> None:
    why = of_the_hint(WITHOUT_AN_ENGINE.format("") + IN_PIECES)
    assert why.startswith("if the engine is vLLM >=0.7 <0.21 (not in the log)")
    assert "6.12 GiB reserved but unused + 367 MiB free" in why


def test_figures_that_speak_against_the_hint_are_not_said_to_be_enough() -> None:
    assert "may help" not in of_the_hint(WITHOUT_AN_ENGINE.format("") + cuda(tried="9.00 GiB", unused="6.12 GiB"))


@pytest.mark.parametrize(
    "before",
    [
        WITHOUT_AN_ENGINE.format(" actor_rollout_ref.rollout.name=vllm"),
        "vllm serve acme/chat --enable-sleep-mode\n",
        trace("vllm/device_allocator/cumem.py", "yield data"),
    ],
)
def test_an_engine_that_the_log_names_is_none(before: str) -> None:
    why = of_the_hint(before + IN_PIECES)
    assert "does not support it with" in why
    assert "if the engine" not in why


AXOLOTL = '  File "/v/site-packages/axolotl/train.py", line 9, in train\n    trainer.train()\n'


@pytest.mark.parametrize(
    ("release", "by_itself"),
    [("axolotl==0.9.0\n", True), ("axolotl==0.5.0\n", True), ("axolotl==0.4.1\n", False), ("", False)],
)
def test_a_release_that_may_be_older_than_the_default_does_not_set_it(release: str, by_itself: bool) -> None:
    (crash,) = crashes_of(release + AXOLOTL + IN_PIECES)
    assert (set_by_a_framework(crash) is not None) == by_itself


LAUNCH = "llamafactory-cli train --stage sft --deepspeed ds_z2.json --finetuning_type full"


@pytest.mark.parametrize(
    ("options", "proposed"),
    [
        ("--pure_bf16 True", False),
        ("--use_unsloth True", False),
        ("--use_galore True", False),
        ("--quantization_bit 8", False),
        ("--quantization_bit 4", True),
        ("--pure_bf16 False", True),
        ("--bf16 True", True),
    ],
)
def test_what_zero3_does_not_go_with(options: str, proposed: bool) -> None:
    chosen, rejected = advise(f"{LAUNCH} {options}\n[rank1]: " + cuda(), "shard-states")
    assert ("shard-states" in chosen, "shard-states" in rejected) == (proposed, not proposed)


def test_the_table_is_well_formed() -> None:
    assert {pair.knob for pair in table()} <= KNOBS.keys()
    assert all(pair.source and (pair.settings or pair.trace or pair.other == "itself") for pair in table())


# a share that is taken later, weights that are small already


def test_a_share_is_no_answer_while_the_engine_measures_its_need() -> None:
    log = (
        "vllm serve acme/chat --gpu-memory-utilization 0.8\n" + PROFILING + cuda(tried="864.00 MiB", free="366.56 MiB")
    )
    chosen, rejected = advise(log, "lower-engine-reservation")
    assert not chosen
    assert "takes its share later" in rejected["lower-engine-reservation"].why


MAKES_FP8 = "    output = torch.empty(shape, device=input.device, dtype=out_dtype)\n"


@pytest.mark.parametrize(
    ("words", "proposed"),
    [
        ("vllm serve acme/chat-7b-AWQ\n", False),
        ("vllm serve acme/chat-8B-GPTQ-Int4\n", False),
        ("vllm serve acme/chat-8B-bnb-4bit\n", False),
        (trace("bitsandbytes/nn/modules.py", "out = bnb.matmul_4bit(x)"), False),
        ("vllm serve acme/chat-7b\n", True),
        ("vllm serve acme/chat-7b-FP8\n", False),  # the option makes nothing smaller
        ("vllm serve acme/chat-7b-GGUF\n", False),
        ("vllm serve acme/chat-7b-F16-GGUF\n", True),
        ("vllm serve acme/chat-7b-GGUF:Q8_0\n", True),
        ("vllm serve acme/hawq-7b-instruct\n", True),
        ("vllm serve acme/chat-4b-base\n", True),
        (trace("transformers/models/llama/modeling_llama.py", "x = self.mlp(x)"), True),
        (trace("vllm/model_executor/layers/quantization/fp8.py", "weight = pad(weight)"), False),
        (trace("sglang/srt/layers/quantization/awq.py", "out = dequantize(qweight)"), False),
        (trace("vllm/model_executor/layers/quantization/kv_cache.py", "layer.k_scale = scale"), True),
        (trace("vllm/model_executor/layers/quantization/base_config.py", "layer.to(device)"), True),
        (trace("sglang/srt/layers/quantization/unquant.py", "return F.linear(x, layer.weight)"), True),
        (trace("vllm/_custom_ops.py", "output, scale = scaled_fp8_quant(x)"), False),
        (f"vllm serve acme/chat-7b\n{MAKES_FP8}", False),
        (f"vllm serve acme/chat-7b --kv-cache-dtype fp8\n{MAKES_FP8}", True),
        (f"vllm serve acme/chat-7b --kv-cache-dtype auto\n{MAKES_FP8}", False),
        ("vllm serve acme/chat-7b\n    out = torch.empty(shape, device=x.device, dtype=x.dtype)\n", True),
    ],
)
def test_weights_that_are_quantized_already(words: str, proposed: bool) -> None:
    chosen, rejected = advise(words + cuda(), "quantize-weights")
    assert ("quantize-weights" in chosen, "quantize-weights" in rejected) == (proposed, not proposed)
