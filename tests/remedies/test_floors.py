"""What an option may not fall below, because its program refuses to start."""

from __future__ import annotations

import pytest
from remedy_logs import advise, crashes_of

from oomdoctor.remedies import floors
from oomdoctor.remedies.settings import of_knob, rows
from oomdoctor.spellings import frameworks

ARGS = (
    'Args {{ model_id: "/models/m", num_shard: Some(4), max_concurrent_requests: 64, max_input_length: {input}, '
    "max_total_tokens: {total}, max_batch_prefill_tokens: {prefill}, max_batch_total_tokens: {batch} }}\n"
)
SHORT = (
    "RuntimeError: Not enough memory to handle {batch} total tokens with 3 prefill tokens. You need to decrease "
    "`--max-batch-total-tokens` or `--max-batch-prefill-tokens`\n"
)
KNOBS = ("fewer-sequences", "smaller-prefill", "shorter-context", "tensor-parallel")


def launched(input: int = 1000, total: int = 6000, prefill: int = 6400, batch: int = 24000) -> str:  # noqa: A002
    return ARGS.format(input=input, total=total, prefill=prefill, batch=batch) + SHORT.format(batch=batch)


def suggested(log: str) -> dict[str, object]:
    return {knob: one.suggested for knob, one in advise(log, *KNOBS, cause="activations")[0].items()}


def test_options_are_halved_where_their_floors_are_low() -> None:
    assert suggested(launched()) == {
        "fewer-sequences": 12000,
        "smaller-prefill": 3200,
        "shorter-context": 3000,
        "tensor-parallel": 8,
    }


@pytest.mark.parametrize(
    ("log", "knob", "then"),
    [
        (launched(input=3200), "smaller-prefill", 3200),
        (launched(input=3201), "smaller-prefill", 3201),
        (launched(input=6399, total=6500), "smaller-prefill", 6399),
        (launched(total=12001), "fewer-sequences", 12001),
        (launched(prefill=12001), "fewer-sequences", 12001),
        (launched(prefill=13000, total=12001), "fewer-sequences", 13000),
        (launched(input=2999), "shorter-context", 3000),
    ],
)
def test_a_half_below_the_floor_becomes_the_floor(log: str, knob: str, then: int) -> None:
    assert suggested(log)[knob] == then


@pytest.mark.parametrize(
    ("log", "knob"),
    [
        (launched(input=6400, total=6500), "smaller-prefill"),
        (launched(batch=6400), "fewer-sequences"),
        (launched(input=3000), "shorter-context"),
        (launched(input=3001), "shorter-context"),
    ],
)
def test_what_is_at_its_floor_is_no_remedy(log: str, knob: str) -> None:
    chosen, rejected = advise(log, knob, cause="activations")
    assert knob not in chosen
    assert knob in rejected


def test_another_programs_option_has_no_floor_of_this_one() -> None:
    log = (
        "INFO 11-02 config.py:9] vLLM API server version 0.8.4\nmax_input_length: 7000\n"
        "vllm serve m --max-num-batched-tokens 8192 --max-num-seqs 256\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    )
    assert advise(log, "smaller-prefill")[0]["smaller-prefill"].suggested == 4096
    few = log.replace("8192", "400")
    assert advise(few, "smaller-prefill")[0]["smaller-prefill"].suggested == 256


def test_a_trainers_engine_has_the_engines_floors() -> None:
    log = (
        "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.name=vllm "
        "actor_rollout_ref.rollout.max_num_batched_tokens=1536 actor_rollout_ref.rollout.max_num_seqs=1024\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    )
    assert advise(log, "smaller-prefill")[0]["smaller-prefill"].suggested == 1024
    low = log.replace("max_num_seqs=1024", "max_num_seqs=768")
    assert advise(low, "smaller-prefill")[0]["smaller-prefill"].suggested == 768


def test_the_requests_left_of_a_prefilled_batch_are_no_option() -> None:
    log = SHORT.format(batch=24000)
    assert suggested(log)["fewer-sequences"] == 12000
    remedy = advise(log, "smaller-prefill", cause="activations")[0]["smaller-prefill"]
    assert remedy.current != 3
    assert remedy.suggested != 1


def test_an_option_that_is_none_is_not_stated() -> None:
    log = launched().replace("Some(4)", "None")
    assert crashes_of(launched())[0].context.settings["num_shard"].value == 4
    assert advise(log, "tensor-parallel")[0]["tensor-parallel"].suggested == 2


def test_each_row_is_about_an_option_that_a_remedy_turns() -> None:
    for row in floors.table():
        assert any(row.option == one.key for name in frameworks() for one in rows(name)), row
    (spelling,) = of_knob("fewer-sequences", "text-generation-inference")
    assert spelling.key == "max_batch_total_tokens"
