"""What Ollama asks its runner for, and the keys of LLaMA-Factory's flat configuration."""

from __future__ import annotations

import pytest

from oomdoctor.job.context import ContextBuilder
from oomdoctor.streams import page

LOAD = (
    'time=2031-02-03T04:05:06Z level=INFO source=runner.go:812 msg=load request="{{Operation:{operation} LoraPath:[] '
    "Parallel:{parallel} BatchSize:{batch} FlashAttention:{attention} KvSize:{cache} KvCacheType:{kind} NumThreads:6 "
    'GPULayers:21[ID:GPU-7 Layers:21(0..20)] MultiUserCache:false}}"'
)


def settings(log: str) -> dict[str, object]:
    builder = ContextBuilder()
    builder.add(page("server.log", 1, log.encode()))
    return {name: each.value for name, each in builder.build().settings.items()}


def load(
    operation: str = "alloc",
    parallel: int = 1,
    batch: int = 384,
    attention: str = "Disabled",
    cache: int = 24576,
    kind: str = "",
) -> str:
    return LOAD.format(
        operation=operation, parallel=parallel, batch=batch, attention=attention, cache=cache, kind=kind
    )  # fmt: skip


def test_a_runner_is_asked_for_a_batch_and_a_context() -> None:
    assert settings(load()) == {"num_batch": 384, "num_ctx": 24576}


def test_the_cache_of_several_requests_is_no_context() -> None:
    assert settings(load(parallel=3)) == {"num_batch": 384, "OLLAMA_NUM_PARALLEL": 3}


@pytest.mark.parametrize("attention", ["Enabled", "true"])
def test_flash_attention_that_is_on(attention: str) -> None:
    assert settings(load(attention=attention))["OLLAMA_FLASH_ATTENTION"] == 1


@pytest.mark.parametrize("attention", ["Disabled", "Auto", "false"])
def test_flash_attention_that_is_not(attention: str) -> None:
    assert "OLLAMA_FLASH_ATTENTION" not in settings(load(attention=attention))


def test_the_type_of_a_cache() -> None:
    assert settings(load(kind="q4_0"))["OLLAMA_KV_CACHE_TYPE"] == "q4_0"


def test_a_runner_that_is_told_to_go_is_asked_for_nothing() -> None:
    assert settings(load("close", parallel=0, batch=0, cache=0)) == {}


def test_keys_of_a_file_without_sections() -> None:
    log = "### method\nfinetuning_type: full  # choices: [full, lora]\nenable_liger_kernel: true\nflash_attn: fa2\n"
    assert settings(log) == {"finetuning_type": "full", "enable_liger_kernel": True, "flash_attn": "fa2"}


@pytest.mark.parametrize(
    "line",
    [
        "finetuning_type: str = Field()",
        "warning: finetuning_type: full",
        "finetuning_type:",
        "my_finetuning_type: full",
        "epochs: 3",
    ],
)
def test_what_is_no_such_key(line: str) -> None:
    assert settings(line) == {}
