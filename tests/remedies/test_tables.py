from __future__ import annotations

import re

import pytest

from oomdoctor.incident.model import Context, Setting, Value
from oomdoctor.remedies import arithmetic, models
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.spellings import ROWS, current, dotted_openrlhf, spelling, spelling_assumptions
from oomdoctor.report.vocabulary import POOLS
from oomdoctor.units import GIB


def context(*frameworks: str, **settings: Value) -> Context:
    names = {name: version or None for name, _, version in (part.partition("==") for part in frameworks)}
    return Context(
        frameworks=names, settings={n: Setting(n, v, "job.log", i) for i, (n, v) in enumerate(settings.items(), 1)}
    )


# the tables


def test_every_knob_says_what_it_does_and_moves_known_pools() -> None:
    for knob in KNOBS.values():
        assert knob.action, knob.id
        assert knob.cost, knob.id
        assert not set(knob.relieves) & set(knob.spends), knob.id
        assert {*knob.relieves, *knob.spends} <= POOLS.keys(), knob.id


@pytest.mark.parametrize(
    "knob",
    [
        "offload-optimizer",
        "offload-parameters",
        "offload-activations",
        "engine-sleep",
        "bigger-shm",
        "bigger-object-store",
    ],
)
def test_what_moves_memory_to_the_host_spends_host_memory(knob: str) -> None:
    assert "host_ram" in KNOBS[knob].spends


def test_every_row_is_of_a_known_knob_and_stands_once() -> None:
    assert {row.knob for row in ROWS} <= KNOBS.keys()
    keys = [(row.knob, row.framework, row.template) for row in ROWS]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.knob}-{row.framework}")
def test_a_row_names_its_setting_and_fills_its_template(row: object) -> None:
    from oomdoctor.remedies.spellings import Spelling

    assert isinstance(row, Spelling)
    assert re.fullmatch(r"[-#\w.\[\]]+(?: ?[\w.]+)?", row.setting), row.setting
    snippet = row.snippet(row.value if row.value is not None else 7)
    assert snippet is not None
    assert "{}" not in snippet


def test_the_worked_examples_of_settings() -> None:
    named = {row.template: row.setting for row in ROWS}
    assert named["--vllm_gpu_memory_utilization {}"] == "--vllm_gpu_memory_utilization"
    assert (
        named["actor_rollout_ref.rollout.gpu_memory_utilization={}"]
        == "actor_rollout_ref.rollout.gpu_memory_utilization"
    )
    assert named["export PYTORCH_CUDA_ALLOC_CONF={}"] == "PYTORCH_CUDA_ALLOC_CONF"
    assert named["ray start --head --object-store-memory={}"] == "--object-store-memory"
    assert named['"offload_optimizer": {"device": "cpu"}'] == "offload_optimizer"


# which spelling


def test_no_framework_no_spelling() -> None:
    assert spelling("lower-engine-reservation", context()) is None
    assert spelling("lower-engine-reservation", context("torch")) is None


def test_the_outermost_framework_spells_it() -> None:
    row = spelling("lower-engine-reservation", context("verl", "vllm", "torch"))
    assert row is not None
    assert row.setting == "actor_rollout_ref.rollout.gpu_memory_utilization"
    inner = spelling("smaller-prefill", context("openrlhf", "vllm"))
    assert inner is not None
    assert inner.framework == "vllm"


def test_openrlhf_in_both_spellings() -> None:
    for spelled, asked in (
        ("--vllm_gpu_memory_utilization", context("openrlhf==0.8.5", "vllm")),
        ("--vllm.gpu_memory_utilization", context("openrlhf==0.10.2", "vllm")),
        ("--vllm.gpu_memory_utilization", context("openrlhf", **{"vllm.num_engines": 2})),
        ("--vllm_gpu_memory_utilization", context("openrlhf", vllm_num_engines=2)),
    ):
        row = spelling("lower-engine-reservation", asked)
        assert row is not None
        assert row.setting == spelled
    assert not dotted_openrlhf(context("openrlhf"))


def test_a_guess_at_the_version_is_named() -> None:
    unknown, known = context("openrlhf"), context("openrlhf", vllm_num_engines=2)
    row = spelling("lower-engine-reservation", unknown)
    assert row is not None
    assert spelling_assumptions(row, unknown)
    assert not spelling_assumptions(row, known)


def test_verl_keys_are_those_of_the_dump() -> None:
    first = "actor_rollout_ref.rollout.engine_kwargs.vllm.swap_space"
    row = spelling("less-swap-space", context("verl", "vllm"))
    assert row is not None
    assert row.setting == first
    assert row.snippet(0) == f"+{first}=0"
    dumped = context("verl", "vllm", **{"actor_rollout_ref.rollout.swap_space": 40})
    row = spelling("less-swap-space", dumped)
    assert row is not None
    assert row.snippet(0) == "actor_rollout_ref.rollout.swap_space=0"
    stated = current("less-swap-space", row, dumped)
    assert stated is not None
    assert stated.value == 40


def test_text_from_the_log_is_quoted() -> None:
    row = spelling("quantize-kv-cache", context("vllm"))
    assert row is not None
    assert row.snippet("fp8; rm -rf ~") == "--kv-cache-dtype 'fp8; rm -rf ~'"


# arithmetic, against worked examples


def test_swap_space_in_page_locked_powers_of_two() -> None:
    assert arithmetic.swap_space(40, 28, 8) == 448 * GIB
    assert arithmetic.swap_space(4, 28, 1) == 7 * GIB
    assert arithmetic.pinned(GIB) == GIB
    assert arithmetic.pinned(GIB + 1) == 2 * GIB


def test_adam_in_host_memory() -> None:
    assert arithmetic.adam_in_host(70_000_000_000) == 840_000_000_000
    assert arithmetic.adam_in_host(70_000_000_000, nodes=4) == 210_000_000_000


def test_model_states_by_stage() -> None:
    parameters = 70_553_706_496
    assert arithmetic.states_on_gpu(parameters, 32, 3) / 1e9 == pytest.approx(39.7, abs=0.05)
    assert arithmetic.states_on_gpu(parameters, 32, 3, optimizer_offloaded=True) / 1e9 == pytest.approx(4.4, abs=0.05)
    stages = [arithmetic.states_on_gpu(parameters, 8, stage) for stage in (0, 1, 2, 3)]
    assert stages == sorted(stages, reverse=True)


def test_logits_are_recognised_by_their_size() -> None:
    assert arithmetic.tokens_of_logits(16384 * 152064 * 4, 152064) == (16384, 4)
    assert arithmetic.tokens_of_logits(2 * 1024**2, 152064) is None


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen2.5-7B"),
        ("/mnt/llama3_70b", "Llama-3-70B"),
        ("Qwen_Qwen2.5-Math-1.5B", "Qwen2.5-1.5B"),
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama-3-8B"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "Qwen2.5-7B"),
        ("Qwen3-30B-A3B-FP8", "Qwen3-30B-A3B"),
        ("google/gemma-3-12b-it", "Gemma-3-12b"),
        ("DeepSeek-R1-Distill-Qwen-1.5B", None),  # its embedding is untied: other parameters than Qwen2.5-1.5B
        ("Qwen1.5-7B-Chat", None),
        ("my-7b-model", None),
        ("llama-7b", None),
    ],
)
def test_models_by_name(name: str, model: str | None) -> None:
    found = models.known([name])
    assert (found.name if found else None) == model


def test_kv_bytes_per_token() -> None:
    seven = models.known(["Qwen2.5-7B"])
    fourteen = models.known(["Qwen2.5-14B"])
    assert seven is not None
    assert fourteen is not None
    assert seven.kv_bytes_per_token() == 57_344
    assert fourteen.kv_bytes_per_token(tensor_parallel=2) == 98_304
    assert seven.kv_bytes_per_token(tensor_parallel=8) == 14_336  # heads are copied where ranks outnumber them
