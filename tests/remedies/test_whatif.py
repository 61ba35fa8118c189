"""What other settings would have changed: the value that a remedy computes must fit, a worse one must not."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace
from remedy_logs import HOG, OPENRLHF, crashes_of, cuda, kill

from oomdoctor import street
from oomdoctor.cli.whatif import whatif as command
from oomdoctor.incident.model import Crash
from oomdoctor.job.literals import typed
from oomdoctor.job.model import Setting, Value
from oomdoctor.remedies.whatif import compare as package
from oomdoctor.remedies.whatif.compare import whatif
from oomdoctor.remedies.whatif.model import Comparison, Verdict
from oomdoctor.units import GIB, MIB

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
START = (
    "ValueError: Free memory on device (34.2/79.1 GiB) on startup is less than desired GPU memory utilization "
    "(0.9, 71.19 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
)
CONTEXT = (
    "ValueError: To serve at least one request with the models's max seq len (40960), (5.62 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (3.76 GiB). Based on the available memory, the estimated "
    "maximum model length is 27392. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when "
    "initializing the engine.\n"
)


@cache
def story(name: str) -> Crash:
    (log,) = (FIXTURES / "stories" / name).iterdir()
    return street.facts_of(*street.gather([str(log)])).crashes[0]


def asked(crash: Crash, *settings: str) -> Comparison:
    pairs = (one.split("=", 1) for one in settings)
    return whatif(crash, {name: typed(value) for name, value in pairs})


def of(text: str, *settings: str) -> Comparison:
    return asked(crashes_of(text)[0], *settings)


def with_script(crash: Crash, **settings: Value) -> Crash:
    """The crash with what a launch script says beside the log."""
    said = {name: Setting(name, value, "run.sh", 2, outside="run.sh line 2") for name, value in settings.items()}
    return replace(crash, context=replace(crash.context, settings={**crash.context.settings, **said}))


def verdict(found: Comparison, pool: str) -> Verdict:
    return next(one for one in found.verdicts if one.pool == pool)


# the stories


@pytest.mark.parametrize(
    ("name", "settings", "answer"),
    [
        # what the remedies compute
        ("open-reasoner-zero-colocated", ["gpu_memory_utilization=0.68"], "fits"),
        ("openrlhf-reward-server", ["remote_rm_url=http://10.30.4.99:5000/get_reward"], "fits"),
        ("simplerl-third-rollout", ["actor_rollout_ref.rollout.swap_space=0"], "fits"),
        ("openrlhf-vllm-start-fragmented", ["PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"], "fits"),
        ("openrlhf-scheduling", ["num_gpus=6", "num_cpus=7"], "fits"),
        ("openrlhf-scheduling", ["vllm_num_engines=1", "colocate_actor_ref=true", "num_cpus=5"], "fits"),
        # a little worse
        ("open-reasoner-zero-colocated", ["gpu_memory_utilization=0.69"], "cannot tell"),
        ("open-reasoner-zero-colocated", ["gpu_memory_utilization=0.86"], "does not fit"),
        ("openrlhf-reward-server", ["remote_rm_url=http://10.30.4.21:5005/get_reward"], "does not fit"),
        ("openrlhf-reward-server", ["remote_rm_url=http://localhost:5005/get_reward"], "does not fit"),
        ("simplerl-third-rollout", ["swap_space=39"], "does not fit"),
        ("openrlhf-vllm-start-fragmented", ["PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128"], "cannot tell"),
        ("openrlhf-scheduling", ["num_gpus=6", "num_cpus=6"], "does not fit"),
        ("openrlhf-scheduling", ["num_gpus=5", "num_cpus=8"], "does not fit"),
        ("openrlhf-scheduling", ["vllm_num_engines=1"], "does not fit"),
        # an affected release, and one with the fix: what the regression kept is printed nowhere
        ("openrlhf-llama3-70b-zero3", ["deepspeed=0.16.4"], "does not fit"),
        ("openrlhf-llama3-70b-zero3", ["deepspeed=0.16.8"], "cannot tell"),
        # the share that the engine has not taken yet
        ("openrlhf-vllm-start-fragmented", ["vllm_gpu_memory_utilization=0.5"], "does not fit"),
    ],
)
def test_the_stories_otherwise(name: str, settings: list[str], answer: str) -> None:
    assert asked(story(name), *settings).answer == answer


def test_the_ledger_beside_itself() -> None:
    found = asked(story("open-reasoner-zero-colocated"), "gpu_memory_utilization=0.68")
    planned, card = found.sides
    cells = {cell.what: cell for cell in planned.cells}
    change = round((0.68 - 0.88) * 79.15 * GIB)
    for what, sign in (("KV cache", 1), ("outside the engine's share", -1)):
        cell = cells[what]
        assert cell.now_bytes is not None
        assert cell.low_bytes == pytest.approx(cell.now_bytes + sign * change, abs=2 * MIB)
    assert cells["weights"].low_bytes == cells["weights"].now_bytes
    free = next(cell for cell in card.cells if cell.what == "free")
    assert free.now_bytes is not None
    assert free.low_bytes == pytest.approx(free.now_bytes - change, abs=2 * MIB)
    assert sum(cell.now_bytes or 0 for cell in card.cells) == pytest.approx(
        sum(cell.low_bytes or 0 for cell in card.cells), abs=2 * MIB
    )


def test_a_leak_goes_on() -> None:
    found = asked(story("simplerl-third-rollout"), "swap_space=0")
    assert any("grew by 238.62 GiB per step" in note for note in found.notes)


# worked examples


def test_at_start_the_share_must_be_free() -> None:
    fits = of(START, "gpu_memory_utilization=0.43")
    assert fits.answer == "fits"
    assert fits.needs[0].derivation == "71.19 GiB wanted at start - 34.20 GiB free = 36.99 GiB"
    assert fits.verdicts[0].margin_low == pytest.approx((0.47 * 79.1 - 36.99) * GIB, abs=10 * MIB)
    assert of(START, "gpu_memory_utilization=0.44").answer == "does not fit"
    assert of(START, "max_model_len=1024").answer != "fits"


@pytest.mark.parametrize(
    ("settings", "answer"),
    [
        (["max_model_len=27392"], "fits"),
        (["max_model_len=27408"], "does not fit"),
        (["kv_cache_dtype=fp8"], "fits"),
        (["kv_cache_dtype=nvfp4"], "cannot tell"),
        (["kv_cache_dtype=auto"], "does not fit"),
        (["enforce_eager=false"], "does not fit"),
    ],
)
def test_one_request_in_the_cache(settings: list[str], answer: str) -> None:
    assert of(CONTEXT, *settings).answer == answer


def test_a_larger_share_makes_room_for_the_cache() -> None:
    log = "vllm serve m --gpu-memory-utilization 0.80\n" + CONTEXT
    card = (
        "INFO 02-23 06:41:52 worker.py:267] the current vLLM instance can use total_gpu_memory (24.00GiB) x "
        "gpu_memory_utilization (0.80) = 19.20GiB\n"
    )
    known = of(card + log, "gpu_memory_utilization=0.88")
    assert verdict(known, "kv_cache").answer == "fits"
    assert verdict(of(card + log, "gpu_memory_utilization=0.87"), "kv_cache").answer == "does not fit"
    unknown = of(log, "gpu_memory_utilization=0.88")
    assert verdict(unknown, "kv_cache").answer == "cannot tell"


def test_training_is_a_range_and_the_rest_of_the_card_bounds_it() -> None:
    log = (
        "python3 -m openrlhf.cli.train_sft --micro_train_batch_size 8 --gradient_checkpointing --max_len 4096\n"
        + cuda(tried="2.00 GiB", free="1.00 GiB")
    )
    half = of(log, "micro_train_batch_size=4")
    (shift,) = half.shifts
    assert (half.answer, shift.high) == ("cannot tell", 0)
    assert shift.low < -20 * GIB
    more = of(log, "micro_train_batch_size=16")
    assert more.answer == "does not fit"
    assert of(log, "micro_train_batch_size=8").answer == "does not fit"
    assert of(log, "micro_rollout_batch_size=1").answer == "cannot tell"  # nothing says what it is now


@pytest.mark.parametrize(
    ("code", "answer"), [("loss = F.cross_entropy(a, b)", "fits"), ("x = a.mul(b)", "cannot tell")]
)
def test_logits_shrink_with_the_batch_for_sure(code: str, answer: str) -> None:
    log = (
        "python3 -m openrlhf.cli.train_sft --micro_train_batch_size 8\nTraceback (most recent call last):\n"
        f'  File "/opt/train.py", line 9, in forward\n    {code}\n' + cuda(tried="4.00 GiB", free="3.00 GiB")
    )
    assert of(log, "micro_train_batch_size=4").answer == answer


def test_another_release_is_unknown() -> None:
    assert of("vllm==0.8.3\n" + cuda(), "vllm=0.9.1").answer == "cannot tell"


def test_states_are_sharded_and_offloaded() -> None:
    log = (
        "deepspeed --module openrlhf.cli.train_sft --pretrain Qwen/Qwen2.5-7B --zero_stage 2 --nproc_per_node 8\n"
        "torch/optim/adamw.py\n" + cuda(tried="2.00 GiB", free="1.00 GiB")
    )
    parameters = 7_615_616_512
    stage3 = of(log, "zero_stage=3")
    (shift,) = stage3.shifts
    assert shift.low == 18 * parameters // 8 - (2 * parameters + 18 * parameters // 8)
    assert stage3.answer == "fits"
    assert of(log, "zero_stage=1").answer == "does not fit"
    offloaded = of(log, "adam_offload=true")
    assert verdict(offloaded, "host_ram").answer == "cannot tell"
    assert [s.low for s in offloaded.shifts if s.pool == "host_ram"] == [12 * parameters]
    assert any("Qwen2.5-7B" in one for s in offloaded.shifts for one in s.assumes)


def test_an_engine_and_training_do_not_change_each_other() -> None:
    crash = story("open-reasoner-zero-colocated")
    assert asked(crash, "micro_train_batch_size=2").answer == "does not fit"
    assert asked(crash, "gradient_checkpointing=false").answer == "does not fit"
    assert asked(crash, "generate_max_len=512").answer == "cannot tell"


def test_host_memory_may_hang_on_batches() -> None:
    found = asked(story("simplerl-third-rollout"), "data.max_response_length=4096")
    assert (found.answer, found.shifts) == ("cannot tell", ())


@pytest.mark.parametrize(
    ("model", "cards", "answer"),
    [
        ("Qwen/Qwen2.5-72B", 1, "does not fit"),
        ("Qwen/Qwen2.5-72B", 2, "fits"),
        ("meta-llama/Llama-3.1-405B", 8, "does not fit"),
        ("meta-llama/Llama-3.1-405B", 16, "fits"),
    ],
)
def test_the_weights_on_more_cards_while_they_are_loaded(model: str, cards: int, answer: str) -> None:
    """What was there was a part of them: the whole, divided, must fit."""
    log = (
        f"vllm serve {model}\nTraceback (most recent call last):\n"
        '  File "/opt/vllm/v1/worker/gpu_model_runner.py", line 1, in load_model\n    self.model = get_model()\n'
        + cuda(tried="0.50 GiB", free="0.30 GiB", total="79.15 GiB", own="78.00 GiB", unused="0.10 GiB")
    )
    assert of(log, f"tensor_parallel_size={cards}").answer == answer


def test_swap_space_that_was_refused() -> None:
    log = (
        "ValueError: Too large swap space. 32.00 GiB out of the 31.35 GiB total CPU memory is allocated for the swap "
        "space.\n"
    )
    assert of(log, "swap_space=0").answer == "fits"
    assert of(log, "swap_space=8").answer == "cannot tell"
    told = "vllm serve m --swap-space 16\n" + log
    assert of(told, "swap_space=10").answer == "fits"  # 20 GiB of 21.9
    assert of(told, "swap_space=11").answer == "does not fit"


def test_v0_counts_tokens() -> None:
    log = (
        "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored "
        "in KV cache (13360). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing "
        "the engine.\n"
    )
    assert of(log, "max_model_len=13360").answer == "fits"
    assert of(log, "max_model_len=13361").answer == "does not fit"
    assert of(log, "gpu_memory_utilization=0.95").answer == "cannot tell"


def test_what_was_free_may_not_be_printed() -> None:
    log = "vllm serve m --gpu-memory-utilization 0.9\nRuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB\n"
    need = of(log, "max_num_seqs=8").needs
    assert [(one.low, one.high) for one in need if one.pool == "gpu"] == [(1, 20 * MIB)]


# honesty


def test_a_setting_without_a_known_effect_is_said_so_and_not_guessed() -> None:
    found = of(START, "learning_rate=1")
    assert (found.answer, found.ignored, found.shifts) == ("cannot tell", ("learning_rate",), ())
    both = of(START, "gpu_memory_utilization=0.43", "learning_rate=1")
    assert (both.answer, both.ignored) == ("fits", ("learning_rate",))


def test_an_option_of_the_table_has_a_direction_and_no_amount() -> None:
    found = of(cuda(), "lora_rank=16")
    assert (found.answer, found.ignored) == ("cannot tell", ())
    assert "effect of lora_rank unknown" in found.verdicts[0].why


def test_turning_off_what_nobody_knows_to_be_on() -> None:
    assert of(cuda(), "adam_offload=false").answer == "cannot tell"
    assert of("python t.py --adam_offload false\n" + cuda(), "adam_offload=false").answer != "fits"


def test_a_slip_of_the_name_is_answered_with_what_is_meant() -> None:
    assert "did you mean gpu_memory_utilization?" in of(START, "gpu_memory_utilisation=0.43").verdicts[0].why


@pytest.mark.parametrize(
    "name", ["--gpu-memory-utilization", "vllm_gpu_memory_utilization", "a.gpu_memory_utilization"]
)
def test_however_it_is_spelled(name: str) -> None:
    assert of(START, f"{name}=0.43").answer == "fits"


@pytest.mark.parametrize("family", ["stories", "cuda", "vllm_error", "vllm_figures", "sglang", "ray_kill", "ray_store",
                                    "container", "kernel", "data_loader", "host_alloc", "ray_schedule"])  # fmt: skip
@pytest.mark.parametrize("most", [1, pytest.param(6, marks=pytest.mark.slow)])
def test_no_crash_and_no_setting_breaks_it_and_no_range_is_upside_down(family: str, most: int) -> None:
    values = ("0.5", "0", "-1", "true", "64G")
    logs = [str(log) for log in sorted((FIXTURES / family).rglob("*")) if log.suffix in (".log", ".txt")]
    for log in logs[:most]:
        for crash in street.facts_of(*street.gather([log])).crashes:
            for name in sorted(package.known()):
                for value in values:
                    try:
                        found = asked(crash, f"{name}={value}")
                    except ValueError as error:
                        assert name in str(error)
                        continue
                    assert all(shift.low <= shift.high for shift in found.shifts)
                    assert all((v.margin_low or 0) <= (v.margin_high or 0) for v in found.verdicts)
                    assert all(shift.derivation for shift in found.shifts)
                    assert found.verdicts[0].pool == crash.pool


# what a launch script says

SLURM_KILL = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=71.0. Some of the step tasks have been OOM Killed.\n"
)


def test_a_limit_that_only_the_script_says_is_an_assumption() -> None:
    crash = with_script(crashes_of(SLURM_KILL)[0], mem="40G")
    more = asked(crash, "mem=64G")
    assert "24.00 GiB more than the limit of run.sh line 2 (assumed)" in more.verdicts[0].why
    (less,) = asked(crash, "mem=32G").shifts
    assert (less.high, less.basis) == (8 * GIB, "assumed")
    assert less.assumes == ("the job hit the limit of run.sh line 2",)


def test_what_is_set_instead_is_not_the_scripts() -> None:
    notes = asked(with_script(crashes_of(SLURM_KILL)[0], mem="40G"), "mem=64G").notes
    assert "mem=40G from run.sh line 2, not from the log" in notes
    assert not any("64G" in note for note in notes)


# over more cards

NO_BLOCKS = (
    "INFO 05-06 11:00:01 llm_engine.py:234] Initializing a V0 LLM engine (v0.7.3) with config: model='{model}', "
    "dtype=torch.bfloat16, max_seq_len=65536, tensor_parallel_size={cards}, enforce_eager=False, kv_cache_dtype=auto\n"
    "INFO 05-06 11:00:20 model_runner.py:1115] Loading model weights took {weights} GB\n"
    "INFO 05-06 11:00:21 worker.py:267] the current vLLM instance can use total_gpu_memory (40.00GiB) x "
    "gpu_memory_utilization (0.80) = 32.00GiB\n"
    "{room}INFO 05-06 11:00:21 executor_base.py:111] # cuda blocks: 0, # CPU blocks: 2048\n"
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing "
    "the engine.\n"
)
ROOM = (
    "INFO 05-06 11:00:21 worker.py:267] model weights take 29.50GiB; non_torch_memory takes 0.40GiB; PyTorch "
    "activation peak memory takes 2.60GiB; the rest of the memory reserved for KV Cache is -0.50GiB.\n"
)


def over(model: str, cards: int, then: int, room: str = ROOM, weights: float = 29.5) -> Comparison:
    log = NO_BLOCKS.format(model=model, cards=cards, room=room, weights=weights)
    return of(log, f"tensor_parallel_size={then}")


def of_a_request(found: Comparison) -> tuple[int, int]:
    (shift,) = (one for one in found.shifts if one.what == "KV cache for one request")
    return shift.low, shift.high


def test_more_cards_split_the_heads_of_the_cache_too() -> None:
    """65536 tokens of 128 KiB take 8 GiB; 8 heads on one card, 4 on each of two."""
    assert of_a_request(over("meta-llama/Llama-3.1-8B", 1, 2)) == (-4 * GIB, -4 * GIB)


def test_but_not_below_one_head_on_each() -> None:
    """4 heads: one on each of four cards, and one on each of eight. A head of the 28 layers takes 14 KiB a token."""
    assert of_a_request(over("Qwen/Qwen2.5-7B", 4, 8)) == (0, 0)
    assert of_a_request(over("Qwen/Qwen2.5-7B", 2, 8)) == (-65536 * 14336, -65536 * 14336)


def test_of_an_unknown_model_the_heads_may_not_divide() -> None:
    assert of_a_request(over("acme/chat", 1, 4)) == (-6 * GIB, 0)


def test_without_a_block_and_a_figure_the_card_bounds_what_is_missing() -> None:
    """8 GiB for a request, and up to 8 GiB that the profiling run took beyond the share."""
    found = over("acme/chat", 1, 4, room="")
    (need,) = (one for one in found.needs if one.pool == "kv_cache")
    assert (need.low, need.high) == (8 * GIB, 16 * GIB)
    assert found.answer == "fits"  # 22.1 GiB of weights less on each card
    assert over("acme/chat", 1, 2, room="", weights=20.0).answer == "cannot tell"  # 10 GiB less
    assert over("acme/chat", 1, 2, room="", weights=3.0).answer == "does not fit"  # 1.5 and at most 4


def test_the_ledger_shows_the_room_that_the_weights_leave() -> None:
    (side,) = over("meta-llama/Llama-3.1-8B", 1, 2).sides
    would_be = {cell.what: cell.high_bytes for cell in side.cells}
    assert would_be["weights"] == round(14.75 * GIB)
    assert would_be["KV cache"] == round(14.25 * GIB)  # -0.50 and 14.75 more


def test_the_ledger_shows_what_the_plan_lacks() -> None:
    log = NO_BLOCKS.format(model="acme/chat", cards=1, room=ROOM, weights=29.5)
    (side,) = of(log, "gpu_memory_utilization=0.75").sides
    assert {cell.what: cell.high_bytes for cell in side.cells}["KV cache"] == round(-2.5 * GIB)  # 0.05 x 40 GiB less


def test_the_ledger_keeps_what_nothing_changes() -> None:
    (side,) = of(NO_BLOCKS.format(model="acme/chat", cards=1, room=ROOM, weights=29.5), "max_model_len=4096").sides
    assert all(cell.now_bytes == cell.low_bytes == cell.high_bytes for cell in side.cells)


# a formula and its result have one sign

AT_START = (
    "INFO 02-23 06:41:52 worker.py:267] the current vLLM instance can use total_gpu_memory (24.00GiB) x "
    "gpu_memory_utilization (0.80) = 19.20GiB\nvllm serve m --gpu-memory-utilization 0.80\n"
)


@pytest.mark.parametrize("share", ["0.70", "0.90"])
def test_a_formulas_result_is_what_changes(share: str) -> None:
    found = of(AT_START + CONTEXT, f"gpu_memory_utilization={share}")
    assert {shift.pool for shift in found.shifts} == {"gpu", "kv_cache"}
    for shift in found.shifts:
        sign = "-" if shift.low < 0 else ""
        assert shift.derivation.endswith(f" = {sign}2.40 GiB")


def test_room_below_zero_is_added() -> None:
    found = of(NO_BLOCKS.format(model="acme/chat", cards=1, room=ROOM, weights=29.5), "max_model_len=4096")
    assert [need.derivation for need in found.needs] == [
        "8.00 GiB for one request of 65536 tokens + 512 MiB below zero = 8.50 GiB"
    ]


# what a newcomer asks


def test_no_default_of_an_engine_that_is_not_in_the_log() -> None:
    found = of(cuda(), "swap_space=0")
    assert found.answer == "does not fit"
    assert all(shift.pool != "host_ram" for shift in found.shifts)
    assert verdict(of("INFO vLLM API server version 0.8.3\n" + cuda(), "swap_space=0"), "host_ram").margin_low is None
    assert any(
        one.what == "swap space" for one in of("INFO vLLM API server version 0.8.3\n" + cuda(), "swap_space=0").shifts
    )


def test_a_batch_by_no_framework_s_name_is_the_one_of_the_log() -> None:
    found = of("python t.py --per_device_train_batch_size 16\n" + cuda(), "batch_size=8")
    assert [(one.name, one.now.value if one.now else None) for one in found.changes] == [
        ("per_device_train_batch_size", 16)
    ]
    assert "0.5 of the tokens" in found.shifts[0].derivation


def test_a_batch_that_the_log_states_by_that_name_is_that_one() -> None:
    found = of("python t.py --batch_size 16 --per_device_train_batch_size 4\n" + cuda(), "batch_size=8")
    assert [one.name for one in found.changes] == ["batch_size"]
    assert "0.5 of the tokens" in found.shifts[0].derivation


def test_a_batch_that_is_stated_nowhere_is_said_to_be() -> None:
    found = of(cuda(), "batch_size=8")
    assert [one.why for one in found.unknown] == ["its current value is not in the log"]


def test_weights_that_are_known_are_no_activations() -> None:
    crash = crashes_of("python t.py --model_name_or_path meta-llama/Llama-3.1-8B\n" + cuda())[0]
    crash = replace(crash, stage="backward")
    (shift,) = asked(crash, "gradient_checkpointing=true").shifts
    assert "14.96 GiB" in shift.derivation
    assert any("weights of 2 bytes" in text for text in shift.assumes)
    spread = with_script(crash, nproc_per_node=4)
    assert "14.96 GiB" not in asked(spread, "gradient_checkpointing=true").shifts[0].derivation


def test_quantized_weights_are_not_known() -> None:
    crash = crashes_of("python t.py --model_name_or_path meta-llama/Llama-3.1-8B --load_in_4bit True\n" + cuda())[0]
    (shift,) = asked(replace(crash, stage="backward"), "gradient_checkpointing=true").shifts
    assert "model states" not in shift.derivation


def test_the_help_names_settings_whose_effect_is_known() -> None:
    listed = (command.__doc__ or "").partition("among others: ")[2].partition(".\n")[0]
    names = {name.strip() for name in listed.split(",")}
    assert len(names) > 10
    assert names <= package.known()


# an engine and a trainer on one card


IN_TRAINING = (
    "python3 -m openrlhf.cli.train_ppo_ray --colocate_all_models --vllm_num_engines 2 --vllm_gpu_memory_utilization "
    '0.5 {}\nTraceback (most recent call last):\n  File "/opt/openrlhf/trainer/actor.py", line 9, in training_step\n'
    "    loss.backward()\n" + cuda(own="38.00 GiB")
)


def changed(found: Comparison, pool: str) -> list[tuple[float, float]]:
    return [(round(one.low / GIB, 2), round(one.high / GIB, 2)) for one in found.shifts if one.pool == pool]


def test_the_share_of_an_engine_that_sleeps_is_given_back() -> None:
    asleep = of(IN_TRAINING.format("--vllm_enable_sleep"), "vllm_gpu_memory_utilization=0.3")
    assert (asleep.answer, changed(asleep, "gpu")) == ("does not fit", [(0, 0)])
    awake = of(IN_TRAINING.format(""), "vllm_gpu_memory_utilization=0.3")
    assert (awake.answer, changed(awake, "gpu")) == ("fits", [(-15.83, -15.83)])


def test_an_engine_that_sleeps_gives_its_share_back_but_for_a_guess() -> None:
    """0.5 x 79.15 GiB, and 2 GiB of that may stay."""
    on = of(IN_TRAINING.format(""), "vllm_enable_sleep=true")
    assert (on.answer, changed(on, "gpu")) == ("fits", [(-39.58, -37.58)])
    assert "up to 2.00 GiB stays allocated in sleep (a guess)" in on.shifts[0].assumes
    off = of(IN_TRAINING.format("--vllm_enable_sleep"), "vllm_enable_sleep=false")
    assert (off.answer, changed(off, "gpu")) == ("does not fit", [(37.58, 39.58)])


def test_no_engine_on_the_card_has_no_share_of_it() -> None:
    log = (
        "python train.py --gpu_memory_utilization 0.5\nTraceback (most recent call last):\n"
        '  File "/v/site-packages/transformers/trainer.py", line 7, in training_step\n' + cuda()
    )
    found = of(log, "gpu_memory_utilization=0.3")
    assert changed(found, "gpu") == []
    assert "the log shows no engine on that GPU" in found.verdicts[0].why


IN_ENGINE = (
    "vllm serve {} {}\nTraceback (most recent call last):\n"
    '  File "/opt/vllm/v1/worker/gpu_model_runner.py", line 1, in {}\n    self._dummy_run()\n' + cuda()
)


def test_a_smaller_cache_per_token_fills_the_same_share() -> None:
    log = IN_ENGINE.format("Qwen/Qwen2.5-7B-Instruct", "--max-model-len 8192 --kv-cache-dtype auto", "capture_model")
    found = of(log, "kv_cache_dtype=fp8")
    assert (found.answer, changed(found, "gpu")) == ("does not fit", [(0, 0)])
    assert changed(found, "kv_cache") == [(-0.22, -0.22)]  # half of 8192 tokens of 56 KiB


@pytest.mark.parametrize(
    ("model", "peak", "assumed"),
    [
        ("acme/own", "(70.00 GiB allocated + 2.00 GiB requested)", False),
        ("Qwen/Qwen2.5-7B", "(70.00 GiB allocated - 14.19 GiB of weights + 2.00 GiB requested)", True),
    ],
)
def test_what_the_passes_took_is_known_but_for_the_weights(model: str, peak: str, assumed: bool) -> None:
    (shift,) = of(IN_ENGINE.format(model, "--max-num-seqs 256", "profile_run"), "max_num_seqs=128").shifts
    assert f"at most (0.5 - 1) x {peak}" in shift.derivation
    assert any("Qwen2.5-7B: 7.62 B" in one for one in shift.assumes) is assumed


def test_an_estimate_that_is_the_length_itself_gives_no_line() -> None:
    (shift,) = of(CONTEXT.replace("27392", "40960"), "max_model_len=20480").shifts
    assert shift.derivation == "(20480 - 40960) tokens x 147325 bytes (needed / length) = -2.81 GiB"


@pytest.mark.parametrize(("engines", "copies", "guessed"), [(2, (28.37, 56.74), False), (None, (14.19, 28.37), True)])
def test_engines_that_sleep_keep_copies_of_the_weights(
    engines: int | None, copies: tuple[float, float], guessed: bool
) -> None:
    log = OPENRLHF.format(f"--vllm_num_engines {engines}" if engines else "") + HOG
    found = of(log, "vllm_enable_sleep=true")
    assert (found.answer, changed(found, "host_ram")) == ("does not fit", [copies])
    assert ("one engine: the log does not say how many" in found.shifts[0].assumes) is guessed


# adapters


ADAPTERS = (
    "deepspeed --module openrlhf.cli.train_sft --pretrain Qwen/Qwen2.5-7B --nproc_per_node 8 --lora_rank {}\n"
    "torch/optim/adamw.py\n" + cuda()
)


def test_the_states_of_adapters_are_not_known() -> None:
    found = of(ADAPTERS.format(16), "adam_offload=true")
    assert (found.answer, found.shifts) == ("cannot tell", ())
    whole = of(ADAPTERS.format(0), "adam_offload=true")
    assert changed(whole, "host_ram") == [(85.11, 85.11)]
    (on_the_card,) = (one for one in whole.shifts if one.pool == "gpu")
    assert "ZeRO-2 (not in the log)" in on_the_card.assumes[0]
    weights = of(ADAPTERS.format(16), "param_offload=true")
    assert changed(weights, "host_ram") == [(14.19, 14.19)]  # which the adapters' base has like any other


# the node


ROWS = "".join(f"{100 + number}\t5.00\tray::SimEnv.step\n" for number in range(10))


@pytest.mark.parametrize(
    ("workers", "low", "high", "answer"),
    [(8, -10, 0, "cannot tell"), (12, 0, 10, "does not fit"), (5, -25, 0, "cannot tell")],
)
def test_fewer_processes_of_the_tables_size(workers: int, low: float, high: float, answer: str) -> None:
    """10 of 5 GiB each, if it is they that are counted."""
    found = of("python collect.py --num_workers 10\n" + kill(60.0, 62.0, ROWS), f"num_workers={workers}")
    assert (found.answer, changed(found, "host_ram")) == (answer, [(low, high)])
    assert found.shifts[0].assumes == ("num_workers counts the 10 SimEnv processes",)


@pytest.mark.parametrize(("store", "answer"), [(300 * MIB, "fits"), (301 * MIB, "does not fit")])
def test_a_store_that_shared_memory_has_room_for(store: int, answer: str) -> None:
    log = (FIXTURES / "ray_store" / "shm-refused-2.40.log").read_text()
    assert of(log, f"object_store_memory={store}").answer == answer


@pytest.mark.parametrize(("shm", "answer"), [("18g", "fits"), ("17g", "does not fit")])
def test_shared_memory_with_room_for_what_was_refused(shm: str, answer: str) -> None:
    log = (
        "tmpfs            16G  4.1G   12G  26% /dev/shm\nNCCL WARN Error while creating shared memory segment "
        "/dev/shm/nccl-Xq2r (size 15032385536), error: No space left on device (28)\n"
    )
    found = of(log, f"shm_size={shm}")
    assert (found.answer, found.needs[0].derivation) == (answer, "14.00 GiB requested - 12.00 GiB free = 2.00 GiB")


def test_an_address_that_is_none_is_no_other_node() -> None:
    found = asked(story("openrlhf-reward-server"), "remote_rm_url=http://[10.30.4.99/get_reward")
    assert found.answer != "fits"


# the allocator, and other releases


EXPANDABLE = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"


@pytest.mark.parametrize(
    ("before", "refusal", "answer"),
    [
        ("", cuda(unused="6.12 GiB"), "fits"),
        ("vllm serve m --enable-sleep-mode\n", cuda(unused="6.12 GiB"), "does not fit"),
        ("", cuda().partition(" Of the allocated")[0] + "\n", "cannot tell"),
    ],
)
def test_segments_that_expand(before: str, refusal: str, answer: str) -> None:
    assert of(before + refusal, EXPANDABLE).answer == answer


def test_a_release_with_a_known_regression_is_no_way_out() -> None:
    log = (
        "DeepSpeed info: version=0.15.4, git-hash=unknown\npython -m openrlhf.cli.train_ppo_ray --zero_stage 3 "
        "--gradient_checkpointing --pretrain /m/llama3_70b\n"
        '  File "/x/torch/autograd/graph.py", line 1, in _engine_run_backward\n' + cuda()
    )
    for release, spends in (("0.16.3", True), ("0.16.8", False)):
        found = of(log, f"deepspeed={release}")
        assert found.answer != "fits"
        assert any(one.spends and "known bug" in one.why for one in found.unknown) is spends
