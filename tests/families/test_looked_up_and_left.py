"""Counts that a program holds against each other, pools and devices by their names, and deaths that the text tells of.

Beside each stand its near misses: the same words where nothing was short, or where the log shows that it went on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

ENGINE = "(EngineCore_DP0 pid=771) "
SHORT = (
    ENGINE + "[kvcached][WARNING][2025-11-02 08:11:40][kv_cache_manager.py:164] available_size()={} < need_size={}\n"
)
FATAL = (
    ENGINE + "ERROR 11-02 08:11:40 [core.py:720] EngineCore encountered a fatal error.\n"
    + ENGINE + "ERROR 11-02 08:11:40 [core.py:720] Traceback (most recent call last):\n"
    + ENGINE + 'ERROR 11-02 08:11:40 [core.py:720]   File "/opt/vllm/engine/core.py", line 711, in run_engine_core\n'
    + ENGINE + "ERROR 11-02 08:11:40 [core.py:720]     engine_core.run_busy_loop()\n"
)  # fmt: skip
SERVED = "Processed prompts: 100%|##########| 128/128 [00:41<00:00,  3.19it/s]\n"
ASKED = "MemoryError: Allocation of 612.00 MB failed on {}. Used: 21.37 GB"
LEFT = "Failed to allocate additional {} for HashJoinInput[2] with {} already allocated"
CUDA = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 31.20 GiB. GPU 0 has a total capacity of 95.00 GiB "
    "of which 30.10 GiB is free. Including non-PyTorch memory, this process has 64.89 GiB memory in use. Of the "
    "allocated memory 62.11 GiB is allocated by PyTorch, and 88.50 MiB is reserved by PyTorch but unallocated."
)
DIED = "RuntimeError: One of the subprocesses has abruptly died during map operation.To debug the error, disable it.\n"
BAR = "Running tokenizer on dataset: 100%|##########| 800/800 [00:02<00:00, 911.57 examples/s]"
PLAN = (
    'time=2024-09-02T10:11:12.142+03:00 level=INFO source=memory.go:309 msg="offload to cuda" layers.requested=-1 '
    'layers.model=33 layers.offload=0 layers.split="" memory.available="[5.6 GiB]" memory.required.full="{full}" '
    'memory.required.partial="0 B" memory.required.kv="{kv}" memory.required.allocations="[0 B]" '
    'memory.weights.total="{weights}"\n'
)
RAM = (
    'time=2024-09-02T10:11:12.092+03:00 level=DEBUG source=gpu.go:359 msg="updating system memory data" '
    'before.total="31.9 GiB" before.free="15.0 GiB" now.total="31.9 GiB" now.free="15.0 GiB" now.free_swap="9.5 GiB"\n'
)
NO_CONTEXT = (
    "Error: llama runner process has terminated: error:failed to create context with model '/srv/blobs/sha256-0a'\n"
)
PREPARED = (
    "[2025-01-07 22:55:16,883] [INFO] [logging.py:128:log_dist] [Rank 0] DeepSpeed Basic Optimizer = DeepSpeedCPUAdam\n"
    "[2025-01-07 22:55:16,883] [INFO] [stage_1_and_2.py:149:__init__] Reduce bucket size 400000000\n"
)
STATES = (
    "[INFO 2020-03-06 21:08:23] Creating fp16 ZeRO stage 2 optimizer\n"
    "Traceback (most recent call last):\n"
    '  File "pretrain.py", line 512, in main\n'
    "    model, optimizer = setup(args)\n"
    '  File "/opt/v/deepspeed/pt/deepspeed_light.py", line 591, in _configure_zero_optimizer\n'
    "    mpu=self.mpu)\n"
    '  File "/opt/v/deepspeed/pt/deepspeed_zero_optimizer.py", line 333, in __init__\n'
    "    self.{}()\n"
)


def said(folder: Path, text: str) -> tuple[str, list[str]]:
    """The verdict and the causes, the first in front."""
    report = body(folder, text)
    return report["verdict"], [one["cause"] for one in report["diagnoses"]]


def root(folder: Path, text: str) -> dict[str, Any]:
    return next(event for event in body(folder, text)["events"] if event["role"] == "root")


def test_an_engine_ends_of_a_cache_that_has_less_than_it_needs(tmp_path: Path) -> None:
    verdict, causes = said(tmp_path, SHORT.format("4.0", 21) + FATAL)
    assert (verdict, causes[0]) == ("oom", "kv-pool-exhausted")
    event = root(tmp_path, SHORT.format("4.0", 21) + FATAL)
    assert (event["fields"] | event["usage"]).items() >= {"needed": 21, "available": 4}.items()


@pytest.mark.parametrize(
    "log",
    [
        SHORT.format("4.0", 21) + SERVED,  # the scheduler frees others and asks again
        SHORT.format("40.0", 21) + FATAL,
        SHORT.format("4.0", 21).replace("kv_cache_manager", "web_pool").replace("kvcached", "web") + FATAL,
    ],
    ids=["served", "enough", "another-pool"],
)
def test_a_count_that_is_compared_is_no_shortage_by_itself(tmp_path: Path, log: str) -> None:
    assert said(tmp_path, log)[0] == "no-oom"


@pytest.mark.parametrize(("device", "pool"), [("NV", "gpu"), ("CUDA:1", "gpu"), ("METAL", "gpu"), ("CPU", "host_ram")])
def test_tinygrads_devices_are_cards_but_for_the_cpu(tmp_path: Path, device: str, pool: str) -> None:
    assert body(tmp_path, ASKED.format(device))["diagnoses"][0]["pool"] == pool


def test_what_tinygrad_held_is_a_figure(tmp_path: Path) -> None:
    usage = root(tmp_path, ASKED.format("AMD:2"))["usage"]
    assert usage == {"tried_bytes": 612 * 1024**2, "allocated_bytes": round(21.37 * 1024**3)}


@pytest.mark.parametrize(
    ("words", "free"),
    [
        (LEFT.format("700 bytes", "900 bytes") + " - maximum available is 300", 300),
        (
            LEFT.format("700 bytes", "900 bytes") + " for this reservation - 300 bytes remain available for the total "
            "pool",
            300,
        ),
        (
            LEFT.format("96.0 MB", "1.5 GB") + " for this reservation - 57.0 MB remain available for the total memory "
            "pool: fair(pool_size: 2.0 GB)",
            57 * 1024**2,
        ),
    ],
)  # fmt: skip
def test_the_pool_of_datafusion_is_a_limit_of_its_own(tmp_path: Path, words: str, free: int) -> None:
    assert said(tmp_path, f"Error: Resources exhausted: {words}")[1][0] == "allocator-cap"
    assert root(tmp_path, f"Error: Resources exhausted: {words}")["usage"]["free_bytes"] == free


def test_no_block_at_the_start_is_no_cache_that_was_full_while_serving(tmp_path: Path) -> None:
    none = "Error: Num GPU blocks is 0. This means there is not enough memory. Reduce the context size."
    assert said(tmp_path, none)[1][0] == "kv-cache-no-room"
    some = "Error: engine: no free KV blocks left, num GPU blocks is 2048"
    assert said(tmp_path, some)[1][0] == "kv-pool-exhausted"


@pytest.mark.parametrize("code", ["-9", "137"])
def test_a_return_code_in_prose_is_a_kill(tmp_path: Path, code: str) -> None:
    verdict, causes = said(tmp_path, f"the process exits with return code {code}\n{PREPARED}")
    assert (verdict, causes[0]) == ("inconclusive", "cpu-offload-overcommit")


@pytest.mark.parametrize("code", ["0", "1", "-9.5"])
def test_another_return_code_is_none(tmp_path: Path, code: str) -> None:
    assert said(tmp_path, f"the process exits with return code {code}\n{PREPARED}")[0] == "no-oom"


def test_the_checkpoint_that_a_chat_script_begins_with_are_its_weights(tmp_path: Path) -> None:
    killed = "Loading a checkpoint (shards=4, current-mp-size=1)\nSignal 9 (SIGKILL) received by PID 3117\n"
    verdict, causes = said(tmp_path, killed)
    assert (verdict, causes[0]) == ("inconclusive", "host-model-load")
    resumed = "Loading a checkpoint from /ckpt/step_900\nSignal 9 (SIGKILL) received by PID 3117\n"
    assert said(tmp_path, resumed)[1][0] == "checkpoint-spike"


def test_a_bus_error_of_a_process_that_reads_data_is_shared_memory(tmp_path: Path) -> None:
    assert said(tmp_path, f"{DIED}{BAR}Fatal Python error: Bus error\n")[1][0] == "shm-too-small"


def test_a_worker_that_reads_data_and_is_gone_is_none(tmp_path: Path) -> None:
    assert said(tmp_path, f"{DIED}{BAR}\n")[1][0] == "dataset-in-ram"
    killed = "srun: error: n17: task 12: Killed\nsrun: error: n18: task 13: Bus error\n"
    assert said(tmp_path, f"{killed}{DIED}")[0] == "inconclusive"


def test_a_cut_traceback_that_makes_states(tmp_path: Path) -> None:
    shown = "ZeRO2 out of memory for a model of 20B\n"
    assert said(tmp_path, shown + STATES.format("initialize_optimizer_states")) == ("oom", ["optimizer-states"])
    verdict, causes = said(tmp_path, STATES.format("initialize_optimizer_states"))
    assert (verdict, causes) == ("inconclusive", ["optimizer-states"])
    assert "optimizer-states" not in said(tmp_path, shown + STATES.format("read_options"))[1]


def test_what_was_done_against_memory_is_no_death_of_it(tmp_path: Path) -> None:
    guarded = "INFO OOM guard is on\n" + STATES.format("initialize_optimizer_states")
    assert said(tmp_path, guarded)[0] == "inconclusive"


def test_a_cache_that_no_memory_of_the_machine_holds(tmp_path: Path) -> None:
    large = NO_CONTEXT + RAM + PLAN.format(full="35.3 GiB", kv="31.2 GiB", weights="34.9 GiB")
    verdict, causes = said(tmp_path, large)
    assert (verdict, causes[0]) == ("oom", "max-model-len-too-long")
    rows = {row["what"]: row["bytes"] for ledger in body(tmp_path, large)["ledger"] for row in ledger["rows"]}
    assert rows["weights"] == pytest.approx(3.7 * 1024**3, abs=9)


def test_a_context_is_not_created_for_other_reasons_too(tmp_path: Path) -> None:
    small = NO_CONTEXT + RAM + PLAN.format(full="9.1 GiB", kv="4.0 GiB", weights="4.9 GiB")
    assert "max-model-len-too-long" not in said(tmp_path, small)[1]
    assert said(tmp_path, NO_CONTEXT)[0] == "inconclusive"


@pytest.mark.parametrize("words", ["memory accumulates with each step,", "GPU memory usage keeps growing every epoch"])
def test_who_says_that_memory_grows_says_a_cause(tmp_path: Path, words: str) -> None:
    assert said(tmp_path, f"{words}\n{CUDA}\n")[1][0] == "gpu-memory-leak"


@pytest.mark.parametrize(
    "words",
    [
        "memory does not grow with each step,",
        "memory grows with the sequence length",
        "if memory accumulates with each step, detach the loss",
        "the memory of every step",
    ],
)
def test_others_say_none(tmp_path: Path, words: str) -> None:
    assert "gpu-memory-leak" not in said(tmp_path, f"{words}\n{CUDA}\n")[1]


def test_pairs_of_boxes_are_made_in_a_forward_pass(tmp_path: Path) -> None:
    message = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.40 GiB. GPU 0 has a total capacity of 5.80 "
        "GiB of which 602.50 MiB is free. Including non-PyTorch memory, this process has 4.31 GiB memory in use. Of "
        "the allocated memory 4.11 GiB is allocated by PyTorch, and 39.50 MiB is reserved by PyTorch but unallocated."
    )
    frame = '  File "/opt/v/mmdet/structures/bbox/bbox_overlaps.py", line 176, in {}\n    wh = clamp(rb - lt, min=0)\n'
    assert said(tmp_path, frame.format("bbox_overlaps") + message)[1][0] == "activations"
    assert said(tmp_path, message)[1][0] == "gpu-shared"
