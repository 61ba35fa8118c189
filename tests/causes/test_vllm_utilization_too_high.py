from __future__ import annotations

import pytest
from engine_logs import NO_BLOCKS, RUNNER, grade, judged, not_enough_free, refusal, traceback

from oomdoctor.decision.judgement import Finding, RuledOut
from oomdoctor.signs import Grade

CAUSE = "vllm-utilization-too-high"
FULL = refusal("96.00 MiB", 23.55, 0.05, 23.4, 22.7)


def in_vllm(*functions: str) -> str:
    frames = (("vllm/v1/engine/core.py", "run_engine_core"), *((RUNNER, function) for function in functions))
    return traceback(*frames, end=FULL)


@pytest.mark.parametrize("function", ["load_model", "profile_run", "determine_available_memory"])
def test_before_the_share_is_taken_it_is_ruled_out(function: str) -> None:
    assert isinstance(judged(CAUSE, in_vllm(function, "forward")), RuledOut)


def test_a_trainer_alone_has_no_engine() -> None:
    log = traceback(("transformers/trainer.py", "training_step"), ("torch/autograd/graph.py", "backward"), end=FULL)
    assert judged(CAUSE, log) is None


def test_a_trainer_whose_engine_is_elsewhere() -> None:
    log = "INFO gpu_memory_utilization=0.85\n" + traceback(("openrlhf/trainer/ppo.py", "training_step"), end=FULL)
    assert judged(CAUSE, log) is None


def test_no_room_for_the_cache_is_the_opposite() -> None:
    assert judged(CAUSE, NO_BLOCKS) is None


def test_where_others_fill_the_card_it_comes_behind() -> None:
    for start in (not_enough_free(0.49, 79.32, 0.6), not_enough_free(31.44, 47.38, 0.95)):
        assert grade(CAUSE, start) < grade("gpu-shared", start)


def test_a_share_that_ignores_a_small_neighbour() -> None:
    finding = judged(CAUSE, not_enough_free(3.22, 4.0, 0.9))
    assert isinstance(finding, Finding)
    assert finding.grade == Grade.PROVES
    assert "0.80" in finding.why


def test_the_rank_with_the_least_room_decides() -> None:
    finding = judged(CAUSE, not_enough_free(70.2, 79.2, 0.92) + not_enough_free(60.1, 79.2, 0.92))
    assert isinstance(finding, Finding)
    assert "0.75" in finding.why


@pytest.mark.parametrize(
    ("function", "sure"),
    [
        ("_allocate_kv_cache_tensors", Grade.PROVES),
        ("wake_up", Grade.PROVES),
        ("execute_model", Grade.NAMES),
        ("capture_model", Grade.POINTS),
    ],
)
def test_after_the_share_is_taken(function: str, sure: Grade) -> None:
    assert grade(CAUSE, in_vllm(function, "forward")) == sure


def test_an_engine_that_holds_little_while_serving() -> None:
    half = traceback((RUNNER, "execute_model"), end=refusal("16.00 GiB", 79.15, 9.0, 40.0, 39.0))
    assert 0 < grade(CAUSE, half) < grade(CAUSE, in_vllm("execute_model"))


def test_a_trainer_beside_the_engines_process() -> None:
    refused = refusal("1.50 GiB", 79.15, 0.4, 23.65, 22.0).replace(
        "Including", "Process 811 has 55.10 GiB memory in use. Including"
    )
    log = "INFO gpu_memory_utilization=0.7\n" + traceback(("openrlhf/models/actor.py", "forward"), end=refused)
    finding = judged(CAUSE, log)
    assert isinstance(finding, Finding)
    assert "55.10 GiB" in finding.why


def test_the_sleep_allocator_gets_its_memory_back_no_more() -> None:
    log = traceback(
        ("vllm/entrypoints/llm.py", "wake_up"),
        ("vllm/device_allocator/cumem.py", "create_and_map"),
        end="RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62",
    )
    assert grade(CAUSE, log) == Grade.NAMES


def test_what_the_message_asks_for_the_trainers_first_when_they_share_the_card() -> None:
    alone = judged(CAUSE, in_vllm("_allocate_kv_cache_tensors"))
    shared = judged(CAUSE, "INFO openrlhf/trainer starts\n" + in_vllm("_allocate_kv_cache_tensors"))
    assert isinstance(alone, Finding)
    assert isinstance(shared, Finding)
    assert "smaller-prefill" in alone.knobs
    assert shared.knobs[:2] == ("lower-engine-reservation", "engine-sleep")
    assert "smaller-prefill" not in shared.knobs


def with_graphs(tried: str, total: float, free: float, own: float) -> str:
    return refusal(tried, total, free, own, own - 1).replace(
        "is allocated by PyTorch,",
        "is allocated by PyTorch, with 58.00 MiB allocated in private pools (e.g., CUDA Graphs),",
    )


def test_captured_graphs_are_a_sign_of_an_engine() -> None:
    assert grade(CAUSE, with_graphs("1.20 GiB", 23.55, 0.4, 23.1)) == Grade.HINTS
    assert grade(CAUSE, refusal("1.20 GiB", 23.55, 0.4, 23.1, 22.1)) == 0
    assert grade(CAUSE, with_graphs("1.20 GiB", 23.55, 12.4, 11.1)) == 0


def test_sglangs_fraction_is_of_what_was_free() -> None:
    log = (
        "[2025-09-02 08:00:00] server_args=ServerArgs(model_path='/models/demo', mem_fraction_static=0.9)\n"
        "[2025-09-02 08:00:20 TP0] Load weight begin. avail mem=78.30 GB\n"
        "[2025-09-02 08:00:30 TP0] Load weight end. type=Demo, dtype=torch.bfloat16, avail mem=62.90 GB\n"
        "[2025-09-02 08:00:41 TP0] max_total_num_tokens=451920, max_prefill_tokens=16384, context_len=131072, "
        "available_gpu_mem=2.27 GB\n"
        + traceback(("sglang/srt/managers/tp_worker.py", "forward_batch_generation"), end=FULL)
    )
    finding = judged(CAUSE, log)
    assert isinstance(finding, Finding)
    assert "0.9 of the 78.30 GiB that was free" in finding.why
    assert "2.27 GiB was left" in finding.why


def test_not_while_tensorrt_lays_out_an_engine() -> None:
    log = (
        "[TRT-LLM] [I] Set dtype to bfloat16.\n"
        "[TRT] [E] 2: [virtualMemoryBuffer.cpp::resizePhysical::140] Error Code 2: OutOfMemory (no further "
        "information)\n"
    )
    assert isinstance(judged(CAUSE, log), RuledOut)
    assert isinstance(judged("model-does-not-fit", log), Finding)


def test_a_share_that_is_set_where_no_card_is_printed() -> None:
    bare = traceback((RUNNER, "execute_model"), end="RuntimeError: CUDA error: out of memory")
    finding = judged(CAUSE, "vllm serve m --gpu-memory-utilization 0.85\n" + bare)
    assert isinstance(finding, Finding)
    assert "The engine takes 0.85 of GPU memory" in finding.why


START = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"


def test_an_engine_that_did_not_start_is_who_was_refused() -> None:
    for log in (f"{START}\n{FULL}", f"{FULL}\n{START}"):
        assert grade(CAUSE, log) == Grade.POINTS
    assert judged(CAUSE, FULL) is None
    assert judged(CAUSE, f"ValueError: Engine initialization failed\n{FULL}") is None
    trained = traceback(("openrlhf/trainer/ppo.py", "training_step"), end=FULL)
    assert judged(CAUSE, f"{START}\n{trained}") is None
