"""Not one block of KV cache fits: the share and the context have to change together, or neither can help."""

from __future__ import annotations

from pathlib import Path

import pytest
from remedy_logs import advise, crashes_of, cuda

from oomdoctor import diagnose
from oomdoctor.remedies import Beside, Gap, Remedy
from oomdoctor.remedies.engine.known import token_bytes
from oomdoctor.remedies.gap import gap, shown
from oomdoctor.remedies.printed import rejected_advice

START = (
    "INFO 05-06 11:00:01 llm_engine.py:234] Initializing a V0 LLM engine (v0.7.3) with config: model='acme/long', "
    "dtype=torch.bfloat16, max_seq_len={length}, tensor_parallel_size=1, enforce_eager=False, kv_cache_dtype=auto\n"
    "INFO 05-06 11:00:21 worker.py:267] the current vLLM instance can use total_gpu_memory (40.00GiB) x "
    "gpu_memory_utilization ({share}) = {allowed}GiB\n"
    "INFO 05-06 11:00:21 worker.py:267] model weights take {weights}GiB; non_torch_memory takes 0.40GiB; PyTorch "
    "activation peak memory takes 2.60GiB; the rest of the memory reserved for KV Cache is {room}GiB.\n"
    "INFO 05-06 11:00:21 executor_base.py:111] # cuda blocks: 0, # CPU blocks: 2048\n"
    "Traceback (most recent call last):\n"
    '  File "/opt/env/lib/python3.12/site-packages/vllm/worker/worker.py", line 300, in initialize_cache\n'
    "    raise_if_cache_size_invalid(num_gpu_blocks,\n"
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing "
    "the engine.\n"
)
KNOBS = ("raise-engine-reservation", "shorter-context")


def log(length: int = 65536, share: float = 0.8, weights: float = 29.5) -> str:
    allowed = round(share * 40, 2)
    room = round(allowed - weights - 3.0, 2)
    return START.format(length=length, share=share, allowed=allowed, weights=weights, room=room)


def test_a_larger_share_and_a_shorter_context_together() -> None:
    """0.80 leaves -0.50 GiB; 65536 tokens of 128 KiB take 8 GiB, which would be 1.02 of the card."""
    remedy = advise(log(), *KNOBS, cause="kv-cache-no-room")[0]["raise-engine-reservation"]
    assert (remedy.setting, remedy.current, remedy.suggested) == ("--gpu-memory-utilization", 0.8, 0.95)
    # (0.95 - 0.80) x 40 - 0.50 = 5.50 GiB, at 128 KiB a token
    assert remedy.beside == (Beside("--max-model-len", 45056),)
    assert remedy.snippet == "--gpu-memory-utilization 0.95\n--max-model-len 45056"
    assert remedy.derivation == (
        "(0.95 - 0.80) x 40.00 GiB = 6.00 GiB; - 512 MiB missing before the first block = 5.50 GiB; "
        "/ 131072 bytes per token = 45056 tokens (a multiple of 16)"
    )
    assert "bytes per token: 4 GiB of swap space, vLLM's default, in 2048 blocks of 16 tokens" in remedy.assumes


def test_both_together_close_the_gap() -> None:
    crash = crashes_of(log())[0]
    remedy = advise(log(), *KNOBS, cause="kv-cache-no-room")[0]["raise-engine-reservation"]
    found = gap(crash, [remedy])
    assert found is not None
    assert found.alone == ("raise-engine-reservation",)
    assert found.derivation == ("8.00 GiB for one request of 65536 tokens + 512 MiB below zero = 8.50 GiB")


def test_the_printed_advice_is_a_part_of_it() -> None:
    assert not rejected_advice(crashes_of(log())[0])


def test_what_the_share_alone_mends_keeps_the_context() -> None:
    """8192 tokens take 1 GiB: 0.80 + 1.50 / 40."""
    remedy = advise(log(length=8192), *KNOBS, cause="kv-cache-no-room")[0]["raise-engine-reservation"]
    assert (remedy.suggested, remedy.beside) == (0.84, ())


def test_a_context_too_short_to_be_of_use_is_not_proposed() -> None:
    """0.95 would leave 0.10 GiB: 816 tokens."""
    chosen, rejected = advise(log(weights=34.9), *KNOBS, cause="kv-cache-no-room")
    assert "raise-engine-reservation" not in chosen
    assert "raise-engine-reservation" in rejected


def test_no_share_works_where_the_rest_fills_the_card() -> None:
    text = log(weights=36.6)
    rejected = advise(text, *KNOBS, cause="kv-cache-no-room")[1]
    why = rejected["raise-engine-reservation"].why
    assert why.startswith("no share works with any context")
    assert "0.99 of the 40.00 GiB are needed before the first KV-cache block, at most 0.98 can be given" in why
    assert "weights" in why
    assert rejected_advice(crashes_of(text)[0])


def test_that_no_share_works_is_said_even_where_none_is_proposed(tmp_path: Path) -> None:
    file = tmp_path / "start.log"
    file.write_text(log(weights=36.6))
    rejected = {one["knob"]: one["why"] for one in diagnose(file).as_json()["remedies_rejected"]}
    assert "no share works" in rejected["raise-engine-reservation"]


def test_a_shorter_context_alone_gains_nothing() -> None:
    chosen, rejected = advise(log(), "shorter-context", cause="kv-cache-no-room")
    assert not chosen
    assert "alone does not help" in rejected["shorter-context"].why


def test_it_does_where_the_engine_took_whole_prompts_in_one_step() -> None:
    """V0 without chunked prefill: its activations shrink with the context."""
    remedy = advise(log(length=20000), "shorter-context", cause="kv-cache-no-room")[0]["shorter-context"]
    assert remedy.suggested == 10000


# what closes the gap is among what is shown


def remedies(*knobs: str) -> list[Remedy]:
    return [Remedy(knob=knob, action="") for knob in knobs]


def order(*alone: str, first: str = "smaller-prefill") -> list[str]:
    lacking = Gap(pool="gpu", missing_low_bytes=1, missing_high_bytes=1, derivation="2 - 1 = 1", alone=alone)
    return [one.knob for one in shown(remedies(first, "quantize-weights", "split", "model", "more-gpus"), lacking)]


AS_IT_WAS = ["smaller-prefill", "quantize-weights", "split", "model", "more-gpus"]


def test_the_first_that_is_enough_leads() -> None:
    assert order("split", "model") == ["split", "smaller-prefill", "quantize-weights", "model", "more-gpus"]
    assert order("model", "more-gpus") == ["model", "smaller-prefill", "quantize-weights", "split", "more-gpus"]


def test_what_has_to_be_bought_comes_second() -> None:
    assert order("more-gpus") == ["smaller-prefill", "more-gpus", "quantize-weights", "split", "model"]
    assert order("more-gpus", first="tensor-parallel")[:2] == ["tensor-parallel", "more-gpus"]


def test_nothing_moves_where_the_first_is_enough_or_none_is() -> None:
    assert order("smaller-prefill", "split") == AS_IT_WAS
    assert order() == AS_IT_WAS


def test_what_is_put_first_says_why() -> None:
    lacking = Gap(pool="gpu", missing_low_bytes=1, missing_high_bytes=1, derivation="2 - 1 = 1", alone=("split",))
    moved, *others = shown(remedies("smaller-prefill", "split"), lacking)
    assert moved.derivation == "enough alone: 2 - 1 = 1"
    assert [one.derivation for one in others] == [None]
    assert shown(remedies("split", "smaller-prefill"), lacking)[0].derivation is None


# what the engine reckons with

LEFT = (
    "[2025-11-03 09:14:21 TP{rank}] Load weight end. type=DemoForCausalLM, dtype=torch.bfloat16, avail mem={left} GB, "
    "mem usage={used} GB.\n"
)
NO_POOL = (
    "[2025-11-03 09:14:22 TP0] max_total_tokens=65536 is larger than the profiled value -20480. Use the profiled "
    "value instead.\n"
)
ASKED = ("raise-engine-reservation", "quantize-weights", "tensor-parallel")


def test_what_the_weights_took_and_left_was_free_before() -> None:
    log = LEFT.format(rank=0, left="16.00", used="64.00") + NO_POOL
    raised = advise(log, *ASKED, cause="kv-cache-no-room")[0]["raise-engine-reservation"]
    assert raised.suggested == 0.82
    assert "80.00 GiB before loading" in (raised.derivation or "")


def test_the_least_of_all_ranks_counts() -> None:
    log = LEFT.format(rank=0, left="16.00", used="64.00") + LEFT.format(rank=1, left="13.60", used="64.00") + NO_POOL
    raised = advise(log, *ASKED, cause="kv-cache-no-room")[0]["raise-engine-reservation"]
    assert "1 - 13.60 GiB after / 77.60 GiB before loading" in (raised.derivation or "")


def test_what_is_printed_before_goes_before_a_sum() -> None:
    before = "[2025-11-03 09:13:02 TP0] Load weight begin. avail mem=79.00 GB\n"
    log = before + LEFT.format(rank=0, left="16.00", used="64.00") + NO_POOL
    raised = advise(log, *ASKED, cause="kv-cache-no-room")[0]["raise-engine-reservation"]
    assert "79.00 GiB before loading" in (raised.derivation or "")


def test_without_what_they_took_nothing_is_reckoned() -> None:
    log = LEFT.format(rank=0, left="16.00", used="64.00").partition(", mem")[0] + "\n" + NO_POOL
    assert advise(log, *ASKED, cause="kv-cache-no-room")[0]["raise-engine-reservation"].suggested is None


def test_prefills_are_in_no_account_of_the_pool(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(LEFT.format(rank=0, left="16.00", used="64.00") + NO_POOL)
    best = diagnose(tmp_path / "job.log").incidents[0].diagnoses[0]
    assert best.cause == "kv-cache-no-room"
    assert "smaller-prefill" not in {one.knob for one in best.remedies}


NO_BLOCKS = (
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing "
    "the engine.\n"
)


def test_nobody_calls_a_library_with_an_engines_model() -> None:
    chosen, _ = advise("torch==2.4.0\n" + NO_BLOCKS, "quantize-weights", cause="kv-cache-no-room")
    assert chosen["quantize-weights"].snippet == "--quantization fp8"


@pytest.mark.parametrize("beside", ["", "found on this machine: vllm\n"])
def test_a_program_of_ones_own_calls_the_library(beside: str) -> None:
    trace = 'Traceback (most recent call last):\n  File "/a/torch/nn/modules/module.py", line 3, in to\n    move(t)\n'
    log = f"{beside}{trace}torch.OutOfMemoryError: {cuda()}"
    chosen, _ = advise(log, "quantize-weights", cause="model-does-not-fit")
    assert "torchao" in (chosen["quantize-weights"].snippet or "")


BARE = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.\n"
CONFIG = (
    "INFO 02-03 10:11:12 llm_engine.py:72] Initializing an LLM engine with config: model='{model}', "
    "dtype=torch.float16, max_seq_len=4096, tensor_parallel_size=1, quantization=None\n"
)
BLOCKS = "INFO 02-03 10:11:40 llm_engine.py:322] # GPU blocks: 0, # CPU blocks: 256\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        # 14.38 GiB of weights and 2 GiB of cache, of the model's shape: the swap space is not what vLLM's default is
        (CONFIG.format(model="Qwen/Qwen-7B") + BLOCKS + BARE, "/ 0.95 = 17.24 GiB"),
        (CONFIG.format(model="/models/mine") + BLOCKS + BARE, "need unknown"),
        (BARE, "need unknown"),
        (
            "ValueError: The model's max seq len (4096) is larger than the maximum number of tokens that can be stored "
            "in KV cache (3072). Try increasing `gpu_memory_utilization`.\n" + BLOCKS.replace(": 0", ": 192"),
            "enough on a GPU of 20.00 GiB or more",
        ),
    ],
)
def test_how_far_a_first_step_reaches(text: str, told: str) -> None:
    cause = "max-model-len-too-long" if "max seq len" in text else "kv-cache-no-room"
    remedy = advise(text, *KNOBS, cause=cause)[0]["raise-engine-reservation"]
    assert told in (remedy.derivation or "")
    assert remedy.suggested == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("config", "each"), [(CONFIG, 524288), (CONFIG.replace(", tensor_parallel_size=1", ""), 1048576)]
)
def test_a_models_shape_on_a_known_number_of_gpus_stands_before_a_default(config: str, each: int) -> None:
    per_token = token_bytes(crashes_of(config.format(model="Qwen/Qwen-7B") + BLOCKS + BARE)[0])
    assert per_token is not None
    assert round(per_token[0]) == each
