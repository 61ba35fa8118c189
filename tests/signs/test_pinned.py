from __future__ import annotations

import pytest
from gpu_logs import crash, refused

from oomdoctor.signs import pinned
from oomdoctor.signs.optimizer import paged_states_were_refused

BARE = "RuntimeError: CUDA error: out of memory"


def plan(free: str) -> str:
    """stable-diffusion-webui-forge moves 15000 MB to page-locked memory, and 7700 to the card."""
    return (
        f"[Memory Management] Target: KModel, Free GPU: {free} MB, Model Require: 22700.00 MB, Previously Loaded: "
        "0.00 MB, Inference Require: 1024.00 MB, Remaining: -14224.13 MB, Shared Swap Loaded (blocked method): "
        "15000.00 MB, GPU Loaded: 7700.00 MB"
    )


@pytest.mark.parametrize(("free", "room"), [("7699.00", False), ("7701.00", True)])
def test_what_went_to_the_card_had_room_there(free: str, room: bool) -> None:
    log = crash(plan(free), "[Memory Management] pinned host buffers on", BARE)
    assert (pinned.refused_with_room_on_the_card(log) is not None) == room
    assert pinned.refused_beside_a_line_on_pinning(log) is not None


def test_a_bare_refusal_says_nothing_of_pinned_memory() -> None:
    for question in (
        pinned.refused_in_code_that_pins,
        pinned.refused_beside_a_line_on_pinning,
        pinned.refused_under_wsl,
    ):
        assert question(crash(BARE)) is None


def test_a_refusal_with_the_cards_figures_is_not_bare() -> None:
    assert pinned.refused_beside_a_line_on_pinning(crash("pinned host buffers on", refused())) is None


def test_a_card_whose_figures_nobody_prints_was_not_full_by_them() -> None:
    assert pinned.the_card_was_full_by_its_figures(crash("pinned host buffers on", BARE)) is None


BLOCKS = "INFO 07-02 10:20:31 llm_engine.py:131] # GPU blocks: 5210, # CPU blocks: {}\n"


@pytest.mark.parametrize(
    ("log", "seen"),
    [
        (BLOCKS.format(910) + BARE, True),
        (BLOCKS.format(0) + BARE, False),
        (f"{BARE}\n" + BLOCKS.format(910), False),
        (BARE, False),
        (BLOCKS.format(910) + "Capturing the model for CUDA graphs.\n" + BARE, False),
        (
            BLOCKS.format(910) + "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; "
            "23.65 GiB total capacity; 21.00 GiB already allocated; 1.10 GiB free; 21.50 GiB reserved in total)\n",
            False,
        ),
    ],
)
def test_what_vllm_pins_behind_its_count_of_blocks(log: str, *, seen: bool) -> None:
    found = pinned.refused_behind_its_swap_blocks(crash(*log.splitlines()))
    assert (found is not None) is seen
    assert found is None or "910 blocks" in found.words


def test_what_torch_pins_is_no_managed_memory() -> None:
    frame = '  File "/x/torch/utils/data/_utils/pin_memory.py", line 60, in pin_memory\n    return data.pin_memory()'
    log = crash("Traceback (most recent call last):", frame, BARE)
    assert pinned.page_locked_memory_was_refused(log) is not None
    assert paged_states_were_refused(log) is None


UCX = "[1717001121.1] [n014:7021:0]  ib_md.c:312  UCX  ERROR ibv_reg_mr(address=0x2b, length=264, access=0xf) failed: "
NO_MEMORY = f"{UCX}Cannot allocate memory"


@pytest.mark.parametrize(
    ("line", "names_none"),
    [
        (f"{NO_MEMORY} : Please set max locked memory (ulimit -l) to 'unlimited' (current: 64 kbytes)", False),
        (f"{NO_MEMORY}. Please set max locked memory (ulimit -l) to 'unlimited' (current: 64 kbytes)", False),
        (
            "n17:4:45 [0] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
            False,
        ),
        ("ibv_reg_mr failed: Cannot allocate memory (errno 12)", False),
        (NO_MEMORY, True),
    ],
)
def test_ucx_names_the_limit_on_locked_memory_wherever_there_is_one(line: str, names_none: bool) -> None:
    it = crash(line)
    assert (pinned.registering_was_refused_without_a_limit(it) is not None) is names_none
    assert (pinned.locking_was_refused(it) is None) is names_none
