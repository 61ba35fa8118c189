"""Refusals whose meaning stands in the line beside them, at the end of a traceback, or in their repetition."""

from __future__ import annotations

import pytest

from oomdoctor import families
from oomdoctor.families import Event, Lookalike
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.ollama import Short
from oomdoctor.families.ray_schedule import Unschedulable
from oomdoctor.families.vllm_cut import CutCheck, CutTraceback
from oomdoctor.streams import page

REASON = "ggml_vulkan: Requested buffer size exceeds device memory allocation limit: ErrorOutOfDeviceMemory"


def read(*lines: str) -> tuple[list[Event], list[str]]:
    """The failures, and the reasons of lookalikes."""
    found = list(families.read(page("job.log", 1, "\n".join(lines).encode() + b"\n")))
    roots = [one for one in found if isinstance(one, Event) and one.role == "root"]
    return roots, [one.why for one in found if isinstance(one, Lookalike)]


def test_what_could_not_be_pinned_went_into_ordinary_memory() -> None:
    roots, whys = read("ggml_vulkan: Failed to allocate pinned memory.", REASON, "llama_context: graph nodes  = 914")
    assert not roots
    assert any("ordinary memory" in why for why in whys)


@pytest.mark.parametrize("above", ["ggml_vulkan: Device memory allocation of size 5368709120 failed.", "step 3"])
def test_the_same_reason_of_a_buffer_is_a_failure(above: str) -> None:
    assert [root.kind for root in read(above, REASON)[0]] == ["buffer-refused"]


SERVER = '  File "/opt/env/sglang/srt/managers/scheduler.py", line 914, in event_loop_normal'
OTHER = '  File "/opt/env/server/scheduler.py", line 914, in event_loop_normal'
ENDED = "ValueError: token_to_kv_pool_allocator memory leak detected! available_size=12, evictable_size=60"
KILLED = "./serve.sh: line 9: 4471 Killed                  python -m sglang.launch_server"
TITLE = "Traceback (most recent call last):"


@pytest.mark.parametrize(
    ("lines", "killed"),
    [
        ([TITLE, SERVER, "    self.check()", ENDED, KILLED], False),
        ([TITLE, OTHER, "    self.check()", ENDED, KILLED], True),  # others do not kill themselves
        ([TITLE, SERVER, "    self.check()", "EOFError", KILLED], True),  # whose other end may have been killed
        ([TITLE, SERVER, "    self.check()", "torch.OutOfMemoryError: CUDA out of memory.", KILLED], True),
        ([TITLE, SERVER, "    self.check()", ENDED, KILLED.replace("sglang.launch_server", "fit")], True),
        ([TITLE, SERVER, "    self.check()", ENDED, "[2025-06-01 10:00:00] served 12 requests", KILLED], True),
        (["/opt/env/sglang/srt/utils.py:91: FutureWarning: old", "ConnectionError: no answer", KILLED], True),
        ([SERVER, KILLED, ENDED], True),  # below the kill it is its consequence
    ],
)
def test_a_server_that_kills_itself_after_an_error(lines: list[str], *, killed: bool) -> None:
    roots, whys = read(*lines)
    assert ("kill" in [root.kind for root in roots]) is killed
    assert any("SGLang kills all" in why for why in whys) is not killed


ENGINE = '  File "/opt/env/vllm/worker/worker.py", line 335, in initialize_cache'


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        ("    raise_if_cache_size_invalid(num_gpu_blocks,", [CutCheck]),
        ("    _check_enough_kv_cache_memory(available_memory, get_needed_memory)", [CutCheck]),
        ("    self.model_runner.profile_run()", [CutTraceback]),
        (
            (
                "    check_enough_kv_cache_memory(\n"
                '  File "/opt/env/vllm/v1/kv_cache_interface.py", line 96, in max_memory_usage_bytes\n'
                "    blocks = cdiv(length, size)"
            ),
            [CutTraceback],
        ),
    ],
)
def test_a_look_at_the_cache_raises_for_nothing_else(code: str, kinds: list[type]) -> None:
    roots, _ = read("Traceback (most recent call last):", ENGINE, *code.splitlines())
    assert [type(root) for root in roots if isinstance(root, CutCheck | CutTraceback)] == kinds


def test_a_look_at_the_cache_whose_words_are_there_is_no_cut_one() -> None:
    code = "    raise_if_cache_size_invalid(num_gpu_blocks, self.block_size)"
    error = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`."
    roots, _ = read("Traceback (most recent call last):", ENGINE, code, error)
    assert not any(isinstance(root, CutCheck) for root in roots)


HEAD = "2024-02-11 08:20:00.1: I tensorflow/core/common_runtime/bfc_allocator.cc:780] "
BIN = f"{HEAD}Bin for 512.00MiB was 256.00MiB, Chunk State: "
SUM = f"{HEAD}Sum Total of in-use chunks: 1.20GiB"


@pytest.mark.parametrize("below", [[], [SUM]])
def test_a_dump_without_its_sentence_is_of_a_refusal(below: list[str]) -> None:
    [root] = read(BIN, f"{HEAD}Next region of size 72080128", *below)[0]
    assert isinstance(root, ArrayOutOfMemory)
    assert root.tried_bytes == 512 * 2**20


@pytest.mark.parametrize(
    "line", [f"{HEAD}Bin for 0B was 256B, Chunk State: ", BIN.replace("bfc_", "pool_"), f"{BIN}ok"]
)
def test_a_bin_of_nothing_and_of_another_program_is_none(line: str) -> None:
    assert not any(isinstance(root, ArrayOutOfMemory) for root in read(line, "done")[0])


def table(trials: str) -> list[str]:
    return [
        "== Status ==",
        "Resources requested: 0/8 CPUs, 0/2 GPUs, 0.0/12.5 GiB heap, 0.0/4.0 GiB objects",
        f"Number of trials: {trials}",
        "| PPO_7f21_00000 | PENDING  |",
        "",
    ]


def test_trials_that_all_wait_to_the_end_are_not_placed() -> None:
    [root] = read(*table("2/2 (2 PENDING)"), *table("2/2 (2 PENDING)"))[0]
    assert isinstance(root, Unschedulable)
    assert root.pending == 2
    assert root.available == {"CPU": 8, "GPU": 2, "memory": 12.5 * 2**30, "object_store_memory": 4 * 2**30}
    assert root.idle
    busy_table = [line.replace(" 0/8 ", " 5/8 ") for line in table("2/2 (2 PENDING)")]
    [busy] = read(*busy_table, *busy_table)[0]
    assert isinstance(busy, Unschedulable)
    assert busy.idle is None


@pytest.mark.parametrize(
    "lines",
    [
        table("2/2 (2 PENDING)"),  # just begun
        [*table("2/2 (2 PENDING)"), *table("2/2 (1 PENDING, 1 RUNNING)")],
        [*table("2/2 (2 PENDING)"), *table("2/2 (1 PENDING, 1 RUNNING)"), *table("2/2 (2 PENDING)")],
        [*table("2/2 (2 PENDING)"), *table("2/2 (2 PENDING)"), "Traceback (most recent call last):", "KeyError: 'lr'"],
        [*table("2/2 (2 PENDING)"), *table("2/2 (2 PENDING)"), *[f"worker line {n}" for n in range(120)]],
        [*table("2/2 (2 PENDING)"), *table("2/2 (2 PENDING)"), "Training complete."],
        [*table("2/2 (2 PENDING)"), *table("2/2 (2 PENDING)"), "ValueError: no such environment"],
        [line.replace("0/8", "0/0").replace("0/2", "0/0") for line in table("2/2 (2 PENDING)")[:3]] * 2,
    ],
)
def test_trials_that_wait_a_while_are_no_failure(lines: list[str]) -> None:
    assert not any(isinstance(root, Unschedulable) for root in read(*lines)[0])


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("INFO:megatron.training.utils:[OOM] rank 3 saved memory snapshot to /out/rank_3.pickle", "device-refusal"),
        ("GPU ran out of VRAM during training.", "shortage"),
        ("The indexer ran out of RAM while merging", "shortage"),
    ],
)
def test_short_reports_of_a_failure(line: str, kind: str) -> None:
    assert kind in [root.kind for root in read(line)[0]]


@pytest.mark.parametrize(
    "line",
    [
        "INFO:megatron.training.utils:rank 3 saved memory snapshot to /out/rank_3.pickle",
        "lower the batch if you ever ran out of VRAM",
        "the job that ran out of RAM was restarted by hand",
        "Note: this model requires at least 16 GB of memory",
        "INFO model requires at least 16 GB of memory; 512 GB found",
        "0 of 8 jobs ran out of VRAM",
        "no process ran out of VRAM.",
        "fixed: earlier runs ran out of VRAM at batch 8",
    ],
)
def test_words_of_no_failure(line: str) -> None:
    assert not read(line)[0]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Error: Backend(NotEnoughMemory(40960))", "warmup-short"),
        (
            "polygraphy.exception.exception.PolygraphyException: CUDA Error: 2. To figure out what it means",
            "device-refusal",
        ),
        ("polygraphy.exception.exception.PolygraphyException: CUDA Error: 222. To figure out what it means", None),
        ("RESOURCE_EXHAUSTED: Allocation (size=900) would exceed memory (size=800) :: #allocation1 [space=vmem]", None),
    ],
)
def test_codes_and_places_instead_of_words(line: str, kind: str | None) -> None:
    assert [root.kind for root in read(line)[0]] == ([kind] if kind else [])


@pytest.mark.parametrize("total", ["total ", ""])
def test_ollama_says_how_much_the_machine_must_have(total: str) -> None:
    [root] = read(f"Error: model requires at least 16 GB of {total}memory")[0]
    assert isinstance(root, Short)
    assert (root.pool, root.needed_bytes) == ("host_ram", 16 * 10**9)
