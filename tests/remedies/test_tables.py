from __future__ import annotations

import re

import pytest

from oomdoctor.job.frameworks import text_of
from oomdoctor.job.model import Context, Setting, Value
from oomdoctor.remedies import models
from oomdoctor.remedies.advise import BY_WORLD
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.settings import DATES, NO_OPTION, Spelling, assumptions, current, missing, rows, spelling, typed
from oomdoctor.report.vocabulary import POOLS
from oomdoctor.spellings import COLUMNS, frameworks, title

ROWS = [row for framework in frameworks() for row in rows(framework) if row.knob != DATES]


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
    keys = [(row.knob, row.framework, row.write, row.versions, row.needs) for row in ROWS]
    assert len(keys) == len(set(keys))


TYPES = {"float", "int", "bool", "str", "size", "switch", "line", "command"}
RANGE = r"(?:(?:>=|<=|<|>|==)b?\d+(?:\.\d+){0,3} ?)+"


@pytest.mark.parametrize("framework", frameworks())
def test_a_table_is_well_formed(framework: str) -> None:
    lines = text_of(framework).splitlines()
    head = next(n for n, line in enumerate(lines) if line.startswith("knob "))
    assert not lines[head - 1], "a blank line before the table"
    assert [cell.strip() for cell in lines[head].split("|")] == list(COLUMNS)
    edges = [n for n, sign in enumerate(lines[head]) if sign == "|"]
    for line in lines[head + 1 :]:
        assert [n for n, sign in enumerate(line) if sign == "|"] == edges[: line.count("|")], f"not aligned: {line}"
        assert len(line.split("|")) <= len(COLUMNS), line
        assert line == line.rstrip(" |"), "nothing behind the last cell"


@pytest.mark.parametrize("framework", frameworks())
def test_the_cells_of_a_row_mean_something(framework: str) -> None:
    for row in rows(framework):
        assert row.knob in {*KNOBS, DATES}, row
        assert row.type in TYPES, row
        assert row.takes_value or row.type != "float", row
        assert not (row.type in ("switch", *NO_OPTION) and row.takes_value), row
        assert re.fullmatch(f"(?:{RANGE})?", row.versions.text), row
        assert row.versions.since < row.versions.before, row
        for value, where in row.defaults:
            assert value, row
            assert re.fullmatch(f"(?:{RANGE})?", where.text), row
        assert not row.set or typed(row.set, row.type) is not None, row
        assert {*(row.spends or ())} <= POOLS.keys(), row
        for need in row.needs:
            name = need.removeprefix("!")
            assert "=" in need or rows(name) or name in KNOWN_FRAMEWORKS or QUOTED.fullmatch(need), row
        assert all(re.compile(word) for word in (*row.words, *row.never)), row
        assert all("=" in one for one in row.excludes), row


def test_words_of_the_log_are_no_settings() -> None:
    (row,) = (row for row in rows("ultralytics") if row.words)
    assert (row.words, missing(row, context())) == (("mode=predict",), ())


QUOTED = re.compile(r'"!?[^\s"!]+(?: !?[^\s"!]+)*"')
KNOWN_FRAMEWORKS = {"fsdp", "deepspeed", "peft", "bitsandbytes"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.knob}-{row.framework}")
def test_a_row_names_its_setting_and_fills_its_template(row: Spelling) -> None:
    assert row.knob in BY_WORLD or re.fullmatch(r"[-#:\w.\[\]]+(?: ?[\w.]+)?", row.setting), row.setting
    snippet = row.snippet(row.value if row.value is not None else 7)
    assert snippet is not None
    assert "{}" not in snippet


def test_the_worked_examples_of_settings() -> None:
    named = {row.write: row.setting for row in ROWS}
    assert named["--vllm_gpu_memory_utilization {}"] == "--vllm_gpu_memory_utilization"
    assert (
        named["actor_rollout_ref.rollout.gpu_memory_utilization={}"]
        == "actor_rollout_ref.rollout.gpu_memory_utilization"
    )
    assert named["export PYTORCH_CUDA_ALLOC_CONF={}"] == "PYTORCH_CUDA_ALLOC_CONF"
    assert named["ray start --head --object-store-memory={}"] == "--object-store-memory"
    assert named['"zero_optimization": {"offload_optimizer": {"device": "cpu"}}'] == "offload_optimizer"


@pytest.mark.parametrize("name", ["no-framework", "", "..", "../frameworks/verl", "frameworks", "mlc-llm"])
def test_a_framework_without_a_table_has_no_rows(name: str) -> None:
    assert rows(name) == ()
    assert name not in frameworks()


def test_what_has_no_file_is_called_as_it_is() -> None:
    assert title("no-framework") == "no-framework"
    assert title("verl") == "verl"
    assert title("open-reasoner-zero") == "Open-Reasoner-Zero"


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


def test_a_guess_at_the_version_is_named() -> None:
    for asked, guessed in (
        (context("openrlhf"), True),
        (context("openrlhf==0.9.0"), False),
    ):
        row = spelling("lower-engine-reservation", asked)
        assert row is not None
        assert bool(assumptions(row, asked)) is guessed


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


# models


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
        ("/models/Qwen-7B-mine", "Qwen-7B"),
        ("Qwen/Qwen-1_8B-Chat", "Qwen-1.8B"),
        ("tuned-Qwen-7B", None),  # of any Qwen
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
