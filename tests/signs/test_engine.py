from __future__ import annotations

import pytest
from engine_logs import RUNNER, crash_of, not_enough_free, refusal, traceback

from oomdoctor.signs import Sign, engine, library


def serving(own: float, allocated: float = 1, others: float = 0) -> str:
    """An engine that serves on a card of 80 GiB is refused: what it holds, its live tensors, what others hold."""
    refused = refusal("1.00 GiB", 80, 80 - own - others, own, allocated)
    listed = f"Process 811 has {others:.2f} GiB memory in use. Including" if others else "Including"
    return traceback((RUNNER, "execute_model"), end=refused.replace("Including", listed))


def allocating(own: float) -> str:
    return serving(own).replace("execute_model", "_allocate_kv_cache_tensors")


def training(beside: float, share: str = "colocate_all=True gpu_memory_utilization=0.5") -> str:
    """A trainer on the engine's card of 80 GiB holds so much and asks for a GiB."""
    step = traceback(("openrlhf/models/actor.py", "forward"), end=refusal("1.00 GiB", 80, 0, beside, 1))
    return f"INFO args: Namespace({share.replace(' ', ', ')})\n{step}"


def beside_a_process(of: str, share: float = 0.5) -> str:
    listed = f"Process 811 has {of} memory in use. Including"
    return training(20, f"gpu_memory_utilization={share}").replace("Including", listed)


@pytest.mark.parametrize(
    ("sign", "not_yet", "from_here"),
    [
        (engine.share_beside_a_small_neighbour, not_enough_free(77.9, 80, 0.99), not_enough_free(78.1, 80, 0.99)),
        (engine.share_beside_a_neighbour, not_enough_free(67.9, 80, 0.95), not_enough_free(68.1, 80, 0.95)),
        (engine.no_share_helps, not_enough_free(5.5, 80, 0.9), not_enough_free(4.5, 80, 0.9)),
        (engine.share_fills_the_card, allocating(59.9), allocating(60.1)),
        (engine.share_fills_the_card, serving(60.1), allocating(60.1)),
        (engine.the_engine_holds_too_little, serving(68.1), serving(67.9)),
        (engine.the_engine_holds_too_little, allocating(67.9), serving(67.9)),
        (engine.tensors_beyond_a_share, serving(79.9, allocated=79.1), serving(79.9, allocated=79.3)),
        (engine.others_beside_the_engine, serving(50, others=19.9), serving(50, others=20.1)),
        (engine.a_trainer_beside_the_share, training(38.9), training(39.1)),
        (engine.a_trainer_beside_the_share, training(39.1, "gpu_memory_utilization=0.5"), training(39.1)),
        (engine.a_neighbour_holds_the_share, beside_a_process("35.90 GiB"), beside_a_process("36.10 GiB")),
        (engine.a_neighbour_holds_the_share, beside_a_process("44.10 GiB"), beside_a_process("43.90 GiB")),
    ],
)
def test_how_much_of_the_card(sign: Sign, not_yet: str, from_here: str) -> None:
    assert sign(crash_of(not_yet)) is None
    assert sign(crash_of(from_here)) is not None


def test_weights_that_no_share_holds() -> None:
    loaded = "INFO 05-15 18:23:45 [gpu_model_runner.py:1016] Model loading took {} GiB and 3.1 seconds\n"
    start = not_enough_free(20.2, 80, 0.9)
    assert engine.no_share_helps(crash_of(loaded.format("19.10") + start)) is None
    assert engine.no_share_helps(crash_of(loaded.format("20.10") + start)) is not None


@pytest.mark.parametrize(
    ("line", "doubt"),
    [
        ("(MegatronPolicyWorker pid=907) ", "what MegatronPolicyWorker asked for, nor how much the engine held"),
        ("(DTensorPolicyWorker pid=907) ", "what DTensorPolicyWorker asked for, nor how much the engine held"),
        ("", "whether the weights, the cache or a request asked for it"),
    ],
)
def test_what_is_not_shown_is_of_the_process_that_asked(line: str, doubt: str) -> None:
    there = "(APIServer pid=801) vLLM API server version 0.11.0\n"
    seen = engine.refused_in_an_engine(crash_of(f"{there}{line}torch.AcceleratorError: CUDA error: out of memory\n"))
    assert seen is not None
    assert seen.against == (f"the log does not show {doubt}",)


TURBOMIND = (
    "lmdeploy - INFO - backend_config=TurbomindEngineConfig(tp=1, session_len=4096, max_batch_size=48, {})",
    "Traceback (most recent call last):",
    '  File "/opt/env/lib/python3.10/site-packages/lmdeploy/turbomind/turbomind.py", line 391, in {}',
    "    self.prepared = self.model_comm.prepare(device_id)",
    "RuntimeError: [TM][ERROR] CUDA runtime error: out of memory /lmdeploy/src/turbomind/utils/allocator.h:231",
)


def turbomind(share: str, function: str) -> str:
    return "\n".join(TURBOMIND).format(share, function)


@pytest.mark.parametrize(
    ("share", "function", "is_seen"),
    [
        ("cache_max_entry_count=0.2", "_create_model_instance", True),
        ("cache_max_entry_count=0.05", "_create_engine", True),
        ("cache_max_entry_count=0.21", "_create_model_instance", False),  # the cache may be what is too large
        ("cache_max_entry_count=0.0", "_create_model_instance", False),
        ("cache_max_entry_count=800", "_create_model_instance", False),  # entries
        ("cache_block_seq_len=64", "_create_model_instance", False),  # the default, which is most of it
        ("cache_max_entry_count=0.1", "_create_weight", False),
        ("cache_max_entry_count=0.1", "stream_infer", False),
        ("mem_fraction_static=0.1", "_create_model_instance", False),  # another engine's
    ],
)
def test_a_cache_that_is_a_small_part_of_what_weights_leave(share: str, function: str, is_seen: bool) -> None:
    crash = crash_of(turbomind(share, function))
    assert (engine.cache_is_a_small_part(crash) is not None) is is_seen
    assert (engine.no_room_beside_the_weights(crash) is not None) is is_seen


def test_a_fraction_that_another_engine_states_is_of_something_else() -> None:
    step = traceback(("vllm/v1/worker/gpu_worker.py", "init_device"), end="RuntimeError: CUDA error: out of memory")
    stated = crash_of(f"INFO args: Namespace(free_gpu_memory_fraction=0.1)\n{step}")
    assert stated.stage == "engine_init"
    assert stated.setting("free_gpu_memory_fraction") is not None
    assert engine.no_room_beside_the_weights(stated) is None


def test_an_engine_that_keeps_its_memory_outside_pytorch() -> None:
    """TurboMind's weights and cache are no tensors; of a program that nobody says to run it they are nobody's."""
    refused = refusal("130.00 MiB", 22, 0.1, 21.9, 2.8)
    imported = "from lmdeploy import pipeline\n"
    assert engine.an_engine_outside_pytorch(crash_of(refused)) is None
    assert engine.an_engine_outside_pytorch(crash_of(imported + refusal("130.00 MiB", 22, 0.1, 21.9, 18))) is None
    assert engine.an_engine_outside_pytorch(crash_of(imported + refused)) is not None
    assert library.very_much_outside_pytorch(crash_of(refused)) is not None
    assert library.very_much_outside_pytorch(crash_of(imported + refused)) is None
