"""An engine that takes a whole prompt in one step refuses a batch of fewer tokens than its context."""

from __future__ import annotations

from pathlib import Path

import pytest
from remedy_logs import advise, cuda
from reports import body

PREFILL = "smaller-prefill"
NO_BLOCKS = (
    "ERROR 03-09 07:11:20 engine.py:301] ValueError: No available memory for the cache blocks. Try increasing "
    "`gpu_memory_utilization` when initializing the engine.\n"
)
OLDER = 'ERROR 03-09 07:11:20 engine.py:301]   File "/srv/vllm/worker/worker.py", line 312, in check\n'
NEWER = 'ERROR 03-09 07:11:20 core.py:301]   File "/srv/vllm/v1/engine/core.py", line 88, in check\n'
REFUSED = "ERROR 03-09 07:11:20 engine.py:135] "
DUMPED = "INFO 03-09 07:11:20 model_runner_base.py:118] Writing to /tmp/err_execute_model_input_2.pkl...\n" + REFUSED
SERVE = "vllm serve some/model --max-model-len {length} {flags}\n"


def serve(flags: str = "", length: int = 6000) -> str:
    return SERVE.format(flags=flags, length=length)


@pytest.mark.parametrize(
    "log",
    [
        OLDER + NO_BLOCKS,
        "CRITICAL 03-09 07:11:21 launcher.py:88] MQLLMEngine is already dead, terminating\n" + REFUSED + cuda(),
        serve(length=2048) + OLDER + NO_BLOCKS,
        serve("--no-enable-chunked-prefill") + OLDER + NO_BLOCKS,
        serve("--enable-chunked-prefill false") + OLDER + NO_BLOCKS,
        serve().replace("some/model", "Qwen/Qwen2-VL-2B") + OLDER + NO_BLOCKS,
        serve("--no-enable-chunked-prefill") + cuda(),
        serve("--no-enable-chunked-prefill --max-num-batched-tokens 11998") + cuda(),
        serve("--enable-chunked-prefill false") + cuda(),
        serve("--no-enable-chunked-prefill") + NEWER + NO_BLOCKS,
    ],
)
def test_less_than_a_prompt_is_no_remedy(log: str) -> None:
    chosen, rejected = advise(log, PREFILL)
    assert PREFILL not in chosen
    assert "not prefilled in chunks" in rejected[PREFILL].why


@pytest.mark.parametrize(
    ("log", "was"),
    [
        (serve() + DUMPED + cuda(), "max(6000, 2048)"),
        (serve() + OLDER + NO_BLOCKS, "max(6000, 2048)"),
        (serve(length=2049) + OLDER + NO_BLOCKS, "max(2049, 2048)"),
        (serve(length=32768) + OLDER + NO_BLOCKS, "max(32768, 2048)"),
        (serve("--max-num-batched-tokens 7000") + OLDER + NO_BLOCKS, "7000"),
    ],
)
def test_a_prompt_that_is_taken_whole_is_taken_in_chunks(log: str, was: str) -> None:
    remedy = advise(log, PREFILL)[0][PREFILL]
    assert remedy.snippet == "--enable-chunked-prefill --max-num-batched-tokens 2048"
    assert remedy.derivation == f"max_num_batched_tokens: {was} -> 2048"


LENGTH_OF_CACHE = (
    "ValueError: The model's max seq len ({length}) is larger than the maximum number of tokens that can be stored in "
    "KV cache ({cache}). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`.\n"
)


@pytest.mark.parametrize(
    ("length", "cache", "first", "words"),
    [
        (24000, 5984, [PREFILL, "shorter-context"], "at least"),
        (24000, 6000, ["shorter-context", PREFILL], "at least"),
        (24000, 15984, ["shorter-context", PREFILL], "at least"),
        (24000, 16000, ["raise-engine-reservation", "shorter-context"], "at least"),
        (33000, 5984, ["shorter-context", "raise-engine-reservation"], "up to"),
    ],
)
def test_what_the_cache_of_whole_prompts_holds_is_the_least(
    tmp_path: Path, length: int, cache: int, first: list[str], words: str
) -> None:
    best = body(tmp_path, LENGTH_OF_CACHE.format(length=length, cache=cache))["diagnoses"][0]
    assert [one["knob"] for one in best["remedies"]][:2] == first
    assert f"A context of {words} {cache:,} tokens fits" in best["explanation"]
    shorter = next(one for one in best["remedies"] if one["knob"] == "shorter-context")
    assert ("and more once" in shorter["derivation"]) is (words == "at least")


@pytest.mark.parametrize(
    "log",
    [
        NEWER + NO_BLOCKS,
        NEWER + DUMPED + cuda(),
        serve() + REFUSED + cuda(),
        serve() + "INFO 03-09 07:11:20 gpu_model_runner.py:90] Writing\n" + REFUSED + cuda(),
        serve() + NEWER + NO_BLOCKS,
        serve(length=32769) + OLDER + NO_BLOCKS,
        serve("--enable-chunked-prefill") + OLDER + NO_BLOCKS,
        serve("--enable-chunked-prefill true") + OLDER + NO_BLOCKS,
        serve("--no-enable-chunked-prefill --max-num-batched-tokens 12000") + cuda(),
        serve("--no-enable-prefix-caching") + cuda(),
        serve() + cuda(),
        "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.name=vllm\n" + OLDER + NO_BLOCKS,
    ],
)
def test_chunks_may_be_smaller(log: str) -> None:
    assert PREFILL in advise(log, PREFILL)[0]


LOADING = (
    "Traceback (most recent call last):\n"
    '  File "/srv/vllm/model_executor/model_loader/loader.py", line 61, in load_model\n'
    "    model = initialize_model(config)\n"
    '  File "/srv/vllm/model_executor/layers/linear.py", line 177, in create_weights\n'
    "    weight = Parameter(torch.empty(rows, columns))\n"
)
SERVING = (
    "Traceback (most recent call last):\n"
    '  File "/srv/vllm/v1/worker/gpu_model_runner.py", line 900, in execute_model\n'
    "    hidden = self.model(tokens)\n"
)
QUANTIZE = "quantize-weights"


@pytest.mark.parametrize(
    ("log", "words", "snippet"),
    [
        (
            serve() + LOADING + cuda(),
            "(--model): --quantization fp8 would load all in 16 bits first",
            None,
        ),
        (
            "vLLM API server version 0.14.2\n" + serve() + LOADING + cuda(),
            "(--model): --quantization fp8 would load all in 16 bits first",
            None,
        ),
        (
            "vLLM API server version 0.3.1\n" + serve() + SERVING + cuda(),
            "Load a checkpoint with weights in 8 or 4 bits (--model)",
            None,
        ),
        (
            "llm_engine.py:9] Initializing an LLM engine with config: model='m', quantization=None, seed=0)\n"
            + NO_BLOCKS,
            "Load a checkpoint with weights in 8 or 4 bits (--model)",
            None,
        ),
        ("vLLM API server version 0.15.0\n" + serve() + LOADING + cuda(), "quantization at load", "--quantization fp8"),
        (serve() + SERVING + cuda(), "quantization at load", "--quantization fp8"),
        (serve() + NEWER + NO_BLOCKS, "quantization at load", "--quantization fp8"),
        (
            "llm_engine.py:9] Initializing an LLM engine (v0.5.1) with config: model='m', seed=0)\n" + NO_BLOCKS,
            "quantization at load",
            "--quantization fp8",
        ),
    ],
)
def test_what_an_engine_quantizes_itself_is_whole_before(log: str, words: str, snippet: str | None) -> None:
    remedy = advise(log, QUANTIZE)[0][QUANTIZE]
    assert words in remedy.action
    assert remedy.action.endswith((words, words + ")"))
    assert remedy.snippet == snippet


def test_quantized_weights_are_quantized_whatever_the_release() -> None:
    log = "vLLM API server version 0.3.1\n" + serve("--quantization awq") + LOADING + cuda()
    assert QUANTIZE not in advise(log, QUANTIZE)[0]
    assert QUANTIZE in advise(log.replace("awq", "None"), QUANTIZE)[0]
