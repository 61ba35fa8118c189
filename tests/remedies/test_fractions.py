"""SGLang's fraction is of what was free at start: up where the cache finds no room, down elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from remedy_logs import advise, cuda

from oomdoctor import diagnose

START = (
    "[2026-03-01 10:00:01 TP0] Load weight begin. avail mem=77.90 GB\n"
    "[2026-03-01 10:00:40 TP0] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=10.20 GB, "
    "mem usage=67.70 GB.\n"
)
NO_POOL = (
    "[2026-03-01 10:00:41 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "/opt/env/lib/python3.11/site-packages/sglang/srt/model_executor/model_runner.py", line 812, in '
    "init_memory_pool\n"
    "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
)
REFUSED = (
    "[2026-03-01 10:01:41 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "/opt/env/lib/python3.11/site-packages/sglang/srt/managers/scheduler.py", line 1212, in run_batch\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 79.11 GiB "
    "of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.10 GiB memory in use. Of the "
    "allocated memory 75.90 GiB is allocated by PyTorch, and 300.00 MiB is reserved by PyTorch but unallocated.\n"
)
ARGUMENTS = "[2026-03-01 09:59:50] server_args=ServerArgs(model_path='acme/chat', mem_fraction_static={}, tp_size=1)\n"


def share(text: str, tmp_path: Path, knob: str) -> dict[str, Any] | None:
    log = tmp_path / "sglang.log"
    log.write_text(text)
    report = diagnose(log).as_json()
    found = [r for d in report["diagnoses"] for r in d["remedies"] if r["knob"] == knob]
    return found[0] if found else None


def refusal(text: str, tmp_path: Path, knob: str) -> str:
    log = tmp_path / "sglang.log"
    log.write_text(text)
    rejected = {one["knob"]: one["why"] for one in diagnose(log).as_json()["remedies_rejected"]}
    return str(rejected.get(knob, ""))


def test_the_smallest_fraction_from_what_was_free_before_and_after_loading(tmp_path: Path) -> None:
    found = share(ARGUMENTS.format(0.8) + START + NO_POOL + "\n", tmp_path, "raise-engine-reservation")
    assert found is not None
    assert found["current"] == 0.8
    assert found["suggested"] == 0.89  # 1 - 10.20 / 77.90 = 0.8691, up to 0.870, and 0.02 more
    assert found["snippet"] == "--mem-fraction-static 0.89"
    assert found["derivation"] == ("1 - 10.20 GiB after / 77.90 GiB before loading + 0.02 for the KV cache = 0.89")


def test_weights_that_leave_nothing_beside_them(tmp_path: Path) -> None:
    full = START.replace("avail mem=10.20", "avail mem=4.10").replace("mem usage=67.70", "mem usage=73.80")
    text = ARGUMENTS.format(0.9) + full + NO_POOL + "\n"
    assert share(text, tmp_path, "raise-engine-reservation") is None
    assert "73.80 GiB of weights would need a share of 0.97" in refusal(text, tmp_path, "raise-engine-reservation")


def test_where_only_the_fraction_stands_it_goes_up_in_steps(tmp_path: Path) -> None:
    found = share(
        NO_POOL + " Current value: self.server_args.mem_fraction_static=0.78\n", tmp_path, "raise-engine-reservation"
    )
    assert found is not None
    assert (found["current"], found["suggested"]) == (0.78, 0.83)
    assert "first step" in found["derivation"]


def test_a_refusal_while_serving_goes_the_other_way(tmp_path: Path) -> None:
    found = share(ARGUMENTS.format(0.9) + START + REFUSED, tmp_path, "lower-engine-reservation")
    assert found is not None
    assert found["suggested"] == 0.867  # 0.9 - (3.00 - 1.00 + 0.5) / 77.90
    assert found["setting"] == "--mem-fraction-static"
    assert "77.90 GiB free before loading" in found["derivation"]
    assert not any("empty" in assumption for assumption in found["assumes"])


def test_without_the_figures_of_loading_the_card_is_taken_and_that_is_said(tmp_path: Path) -> None:
    found = share(ARGUMENTS.format(0.9) + REFUSED, tmp_path, "lower-engine-reservation")
    assert found is not None
    assert found["suggested"] == 0.868
    assert "the GPU was empty when the engine started" in found["assumes"]


def test_a_fraction_that_is_large_enough_is_not_raised(tmp_path: Path) -> None:
    """0.89 holds the weights and a little cache: what is missing is something else."""
    found = share(ARGUMENTS.format(0.9) + START + NO_POOL + "\n", tmp_path, "raise-engine-reservation")
    assert found is None or found["suggested"] is None


def test_a_fraction_that_nobody_says_is_raised_to_what_the_loading_shows() -> None:
    remedy = advise(START + NO_POOL + "\n", "raise-engine-reservation")[0]["raise-engine-reservation"]
    assert (remedy.action, remedy.current) == ("Raise the engine's GPU memory share to 0.89", None)


@pytest.mark.parametrize(("now", "then"), [(0.26, 0.112), (0.24, None)])
def test_no_fraction_is_low_enough(now: float, then: float | None) -> None:
    """(12.00 - 1.00 + 0.50) / 77.90 = 0.148, and below 0.1 no engine starts."""
    log = ARGUMENTS.format(now) + START + REFUSED.replace("3.00 GiB", "12.00 GiB")
    chosen, rejected = advise(log, "lower-engine-reservation")
    assert [one.suggested for one in chosen.values()] == ([then] if then else [])
    assert [one.why[:39] for one in rejected.values()] == ([] if then else ["no lower share makes enough room (0.24 "])


@pytest.mark.parametrize(("now", "then"), [(0.8, 0.75), (0.15, 0.1), (0.14, None), (None, 0.2)])
def test_a_share_of_what_is_free_after_the_weights_goes_down_in_steps(now: float | None, then: float | None) -> None:
    """LMDeploy's: how much was free is not printed, so that no refusal tells how far. Its default hangs on the
    release, so that of an unknown one there is a value to begin with."""
    option = f"--cache-max-entry-count {now}" if now else ""
    trace = '  File "/v/lmdeploy/pytorch/engine/engine.py", line 3, in step\n'
    log = f"lmdeploy serve api_server m {option}\n{trace}" + cuda()
    remedy = advise(log, "lower-engine-reservation")[0]["lower-engine-reservation"]
    assert (remedy.setting, remedy.current, remedy.suggested) == ("--cache-max-entry-count", now, then)
    assert "79.15 GiB" not in (remedy.derivation or "")


TURBOMIND = "[TM][ERROR] CUDA runtime error: out of memory /lmdeploy/src/turbomind/utils/allocator.h:233\n"


@pytest.mark.parametrize(
    ("start", "flag"),
    [
        ("lmdeploy serve api_server /m/chat", "--max-prefill-token-num"),
        ("python /opt/swift/swift/cli/deploy.py --model_type chat --infer_backend lmdeploy", None),
        ("swift deploy --model_type chat --infer_backend lmdeploy", None),
    ],
)
def test_a_launcher_takes_no_more_than_its_own_options(start: str, flag: str | None) -> None:
    chosen, _ = advise(f"{start}\n{TURBOMIND}", "smaller-prefill", "tensor-parallel", "lower-engine-reservation")
    assert chosen["smaller-prefill"].setting == flag
    assert (chosen["tensor-parallel"].snippet or "").startswith("--tp ")
    assert chosen["lower-engine-reservation"].setting == "--cache-max-entry-count"


def test_ms_swift_spells_lmdeploys_options_its_own_way() -> None:
    frame = '  File "/opt/env/swift/llm/infer/infer_engine/lmdeploy_engine.py", line 88, in __init__\n'
    log = f"ms-swift=={{}}\nTraceback (most recent call last):\n{frame}{TURBOMIND}"
    for release, option in (("3.6.4", "--quant_policy"), ("3.7.0", "--lmdeploy_quant_policy")):
        assert advise(log.format(release), "quantize-kv-cache")[0]["quantize-kv-cache"].setting == option


PREFILL = (
    "RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`\n"
)


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("RuntimeError: No enough gpu memory for kv cache.\n", "--quant-policy"),
        (PREFILL, "--max-batch-prefill-tokens"),
    ],
)
def test_an_engine_that_only_its_message_names_spells_its_own_options(text: str, option: str, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("Traceback (most recent call last):\n" + text)
    report = diagnose(log).as_json()
    assert option in {r["setting"] for d in report["diagnoses"] for r in d["remedies"]}


# the weights: as printed, else from the model's name


def test_the_weights_are_what_loading_took(tmp_path: Path) -> None:
    """67.70 GiB by the log, whatever a model of the name's size would take."""
    text = ARGUMENTS.replace("acme/chat", "acme/chat-30B").format(0.8) + START + REFUSED
    found = share(text, tmp_path, "tensor-parallel")
    assert found is not None
    assert found["derivation"] == "2 x 1 = 2; weights per GPU 67.70 GiB -> 33.85 GiB"
    assert found["assumes"] == []


def test_weights_from_a_name_are_an_assumption(tmp_path: Path) -> None:
    text = ARGUMENTS.replace("acme/chat", "acme/chat-30B").format(0.8) + REFUSED
    found = share(text, tmp_path, "tensor-parallel")
    assert found is not None
    assert "weights per GPU 55.88 GiB -> " in found["derivation"]
    assert found["assumes"] == ["30 B parameters (from the model's name)"]


def test_fewer_bits_of_the_weights_that_were_loaded() -> None:
    """On each of two cards: not the model's whole size, which no card holds."""
    log = (
        ARGUMENTS.replace("acme/chat", "acme/chat-70B").replace("tp_size=1", "tp_size=2").format(0.8) + START + NO_POOL
    )
    remedy = advise(log, "quantize-weights", cause="kv-cache-no-room")[0]["quantize-weights"]
    assert remedy.derivation == "67.70 GiB of weights per GPU; half in 8 bits, a quarter in 4"
    assert remedy.assumes == ("16-bit KV cache now",)


WORKER = "(RayWorkerWrapper pid=77) ERROR 02-03 11:00:01 worker_base.py:467] "
SAMPLED = "    logits_sort, logits_idx = logits.sort(dim=-1, descending=False)"
NAMED = (
    f'Traceback (most recent call last):\n{WORKER}  File "/vllm/worker/model_runner.py", line 169, in execute_model\n'
    f"{WORKER}    logits = self.model.compute_logits(hidden_states)"
)
PROFILED = NAMED.replace("model_runner.py", "worker.py").replace("execute_model", "determine_num_available_blocks")


@pytest.mark.parametrize(
    ("above", "is_tied"),
    [(SAMPLED, True), (NAMED, False), (PROFILED, None), (SAMPLED.replace("logits", "experts"), False)],
)
def test_a_share_helps_a_sampler_only_while_it_serves(above: str, is_tied: bool | None) -> None:
    log = f"{WORKER}{above}\n{WORKER}" + cuda(tried="402.00 MiB", free="9.00 MiB", own="78.90 GiB")
    chosen, _ = advise(log, "lower-engine-reservation", cause="logits-spike")
    if is_tied is None:
        assert not chosen
        return
    action = chosen["lower-engine-reservation"].action
    assert action.startswith("If it failed while serving, lower") is is_tied
    assert action.startswith("Lower the engine's GPU memory share (not in the log) by") is not is_tied


@pytest.mark.parametrize(("free", "suggested"), [("1.00", 0.867), ("2.99", 0.893), ("3.00", 0.85), ("6.00", 0.85)])
def test_what_found_as_much_free_as_it_asked_for_says_nothing_of_what_is_missing(
    free: str, suggested: float, tmp_path: Path
) -> None:
    text = ARGUMENTS.format(0.9) + START + REFUSED.replace("which 1.00 GiB", f"which {free} GiB")
    found = share(text, tmp_path, "lower-engine-reservation")
    assert found is not None
    assert found["suggested"] == suggested


@pytest.mark.parametrize(("own", "told"), [("73.00", False), ("70.00", False), ("68.00", True), ("50.00", True)])
def test_a_share_that_the_figures_contradict_is_no_default(own: str, told: bool) -> None:
    engine = (
        "(WorkerDict pid=17) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total "
        f"capacity of 92.00 GiB of which 1.00 GiB is free. Process 17 has 12.00 GiB memory in use. Including "
        f"non-PyTorch memory, this process has {own} GiB memory in use. Of the allocated memory 48.00 GiB is allocated "
        "by PyTorch, and 300.00 MiB is reserved by PyTorch but unallocated.\n"
        "(WorkerDict pid=17) [2026-03-01 10:00:41] Received sigquit from a child process. It usually means the child "
        'failed.\n(WorkerDict pid=17) File "/x/sglang/srt/entrypoints/verl_engine.py", line 9, in wake\n'
    )
    remedy = advise(engine, "lower-engine-reservation", cause="gpu-shared")[0]["lower-engine-reservation"]
    assert ("0.5 (default)" in remedy.action) == told


# weights of a known size, and a share that they do not fit into

SHORT = NO_POOL + " Current value: self.server_args.mem_fraction_static={}\n"
MODEL = (
    "[2026-03-01 09:59:50] server_args=ServerArgs(model_path='{model}', mem_fraction_static={share}, tp_size={cards})\n"
)
CARD = (
    "|   0  NVIDIA X   On  | 00000000:07:00.0 Off |   0 |\n"
    "| N/A   33C    P0   60W / 400W |    4MiB / {size}MiB |  0%  Default |\n"
)
INSTANCE = "2026-03-01 09:59 - gpustack.worker.serve_manager - INFO - Provisioning model instance {}\n"


@pytest.mark.parametrize(
    ("share_now", "model", "cards", "then", "least"),
    [
        (
            0.2,
            "acme/chat-7B",
            1,
            0.85,
            "13.04 GiB of weights: with 0.2 they need a GPU of more than 65.19 GiB, with 0.85",
        ),
        (
            0.5,
            "acme/chat-70B",
            4,
            0.85,
            "32.60 GiB of weights: with 0.5 they need a GPU of more than 65.19 GiB, with 0.85",
        ),
        (0.84, "acme/chat-7B", 1, 0.89, "13.04 GiB of weights"),  # a step is more
        (0.2, "acme/chat", 1, 0.25, "first step"),  # of no known size
        (0.2, "acme/chat-7B-AWQ", 1, 0.25, "first step"),  # of four bits
        (0.2, "acme/chat-7B-FP8", 1, 0.25, "first step"),  # of eight
        (0.2, "acme/chat-7B-w8a8", 1, 0.25, "first step"),
    ],
)
def test_a_share_that_weights_of_a_known_size_fit_into(
    share_now: float, model: str, cards: int, then: float, least: str
) -> None:
    log = MODEL.format(model=model, share=share_now, cards=cards) + SHORT.format(share_now)
    remedy = advise(log, "raise-engine-reservation", cause="kv-cache-no-room")[0]["raise-engine-reservation"]
    assert (remedy.current, remedy.suggested) == (share_now, then)
    assert least in (remedy.derivation or "")
    assert ("nothing else on the GPU needs this memory" in remedy.assumes) == ("weights" in least)


def test_beside_a_trainer_the_card_is_not_the_engines() -> None:
    log = (
        "python -m verl.trainer.main_ppo\n" + MODEL.format(model="acme/chat-7B", share=0.3, cards=1) + SHORT.format(0.3)
    )
    remedy = advise(log, "raise-engine-reservation", cause="kv-cache-no-room")[0]["raise-engine-reservation"]
    assert remedy.suggested == 0.35
    assert "with 0.35 one of more than 37.25 GiB" in (remedy.derivation or "")


@pytest.mark.parametrize(("size", "then"), [(81920, 0.19), (24576, 0.57), (15360, 0.89), (14336, None)])
def test_of_a_card_whose_size_is_printed_the_share_is_computed(size: int, then: float | None) -> None:
    log = CARD.format(size=size) + MODEL.format(model="acme/chat-7B", share=0.1, cards=1) + SHORT.format(0.1)
    chosen, rejected = advise(log, "raise-engine-reservation", cause="kv-cache-no-room")
    assert [one.suggested for one in chosen.values()] == ([then] if then else [])
    assert [one.why[:26] for one in rejected.values()] == ([] if then else ["13.04 GiB of weights would"])


@pytest.mark.parametrize(
    ("name", "size"),
    [("qwen3-8b-aB3xY", "15.26 GiB of weights"), ("qwen3-8b-awq-aB3xY", "first step"), ("chat-aB3xY", "first step")],
)
def test_gpustack_names_the_model_before_the_instance(name: str, size: str) -> None:
    log = INSTANCE.format(name) + "Traceback (most recent call last):\n" + SHORT.format(0.2)
    remedy = advise(log, "raise-engine-reservation", cause="kv-cache-no-room")[0]["raise-engine-reservation"]
    assert size in (remedy.derivation or "")
