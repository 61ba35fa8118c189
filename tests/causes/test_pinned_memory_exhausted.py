from __future__ import annotations

from pathlib import Path

import pytest
from system_logs import crash_of, quiet

from oomdoctor import diagnose
from oomdoctor.causes.pinned_memory_exhausted import CAUSE
from oomdoctor.decision.judgement import Finding, RuledOut, judgement_of
from oomdoctor.signs import Grade

BARE = "RuntimeError: CUDA error: out of memory\n"
IN_PIN_MEMORY = """\
Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/deepspeed/accelerator/cuda_accelerator.py", line 217, in pin_memory
    return tensor.pin_memory()
RuntimeError: CUDA error: out of memory
"""
FULL_CARD = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.14 GiB "
    "of which 1.00 GiB is free. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by "
    "PyTorch but unallocated.\n"
)


def test_a_full_card_is_not_the_hosts_memory() -> None:
    assert judgement_of(CAUSE, crash_of(FULL_CARD)) is None


def test_a_bare_refusal_says_nothing_of_pinning() -> None:
    assert judgement_of(CAUSE, crash_of(BARE)) is None


def test_a_refusal_after_a_full_card_is_the_cards() -> None:
    crash = crash_of("DataLoader: pinned host buffers on\n" + FULL_CARD + BARE)
    assert not isinstance(judgement_of(CAUSE, crash), Finding)


def test_llama_cpp_goes_on_with_pageable_memory() -> None:
    assert quiet("ggml_cuda_host_malloc: failed to allocate 8192.00 MiB of pinned memory: out of memory\n")


def test_the_warning_without_an_accelerator_is_quiet() -> None:
    assert quiet("UserWarning: 'pin_memory' argument is set as true but no accelerator is found\n")


def test_the_traceback_tells() -> None:
    crash = crash_of(IN_PIN_MEMORY)
    judgement = judgement_of(CAUSE, crash)
    assert isinstance(judgement, Finding)
    assert judgement.pool == crash.pool == "pinned"
    assert judgement.grade is Grade.NAMES


def test_pinning_in_the_log_is_a_hint() -> None:
    judgement = judgement_of(CAUSE, crash_of("Environment: {'pin_shared_memory': True}\n" + BARE))
    assert isinstance(judgement, Finding)
    assert judgement.grade is Grade.HINTS
    assert judgement.against


def test_states_kept_on_the_host_are_pinned() -> None:
    judgement = judgement_of(
        CAUSE,
        crash_of(
            "Traceback (most recent call last):\n"
            '  File "/opt/deepspeed/runtime/zero/stage3.py", line 543, in _create_param_groups_fp16_flat_cpu_memory\n'
            "    torch.empty(int(flat_buffer_size),\n" + BARE
        ),
    )
    assert isinstance(judgement, Finding)
    assert judgement.grade is Grade.POINTS


def test_network_cards_need_another_limit() -> None:
    judgement = judgement_of(
        CAUSE, crash_of("n1:7:9 [0] NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\n")
    )
    assert isinstance(judgement, Finding)
    assert judgement.knobs[0] == "raise-memlock"
    assert "unpin-memory" not in judgement.knobs


def test_a_drawn_traceback_without_its_message_only_points_to_it() -> None:
    judgement = judgement_of(CAUSE, crash_of("│ ❱ 217 │   │   return tensor.pin_memory()                     │\n"))
    assert isinstance(judgement, Finding)
    assert judgement.grade is Grade.LEFT
    assert not judgement.shows_memory


@pytest.mark.parametrize(("message", "verdict"), [("", "inconclusive"), (BARE, "oom")])
def test_whether_it_was_memory_is_left_open_by_a_cut_traceback_alone(
    tmp_path: Path, message: str, verdict: str
) -> None:
    log = tmp_path / "job.log"
    log.write_text("│ ❱ 41 │   │   held = tensor.pin_memory()        │\n" + message)
    incident = diagnose(log).incidents[0]
    assert (incident.verdict, incident.diagnoses[0].cause) == (verdict, "pinned-memory-exhausted")
    assert any("locked" in command for command in incident.next_evidence) is False


def test_a_drawn_traceback_with_another_message_is_not_it() -> None:
    assert quiet(
        "│ ❱ 217 │   │   return tensor.pin_memory()                     │\n"
        "╰──────────────────────────────────────────────────╯\n"
        "RuntimeError: Need to provide pin_memory allocator to use pin memory.\n"
    )


def test_the_pool_decides_who_is_asked() -> None:
    judgement = judgement_of(CAUSE, crash_of("Killed\n"))
    assert not isinstance(judgement, Finding | RuledOut)


def test_an_invalid_argument_where_memory_is_pinned() -> None:
    found = judgement_of(
        CAUSE, crash_of(IN_PIN_MEMORY.replace("CUDA error: out of memory", "CUDA error: invalid argument"))
    )
    assert isinstance(found, Finding)
    assert (found.pool, found.grade, bool(found.against)) == ("pinned", Grade.POINTS, True)


def test_a_size_that_is_printed_is_no_wrong_one() -> None:
    log = "CUDA error: invalid argument\ng2:7:9 [0] cudawrap.cc:9 NCCL WARN Failed to CUDA host alloc 4096 bytes\n"
    found = judgement_of(CAUSE, crash_of(log))
    assert isinstance(found, Finding)
    assert found.grade is Grade.PROVES


PROBED = """\
I tensorflow/core/common_runtime/gpu/gpu_device.cc:887] Found device 0 with properties:
Total memory: 22.38GiB
Free memory: 640.19MiB
E tensorflow/stream_executor/cuda/cuda_driver.cc:1002] failed to allocate 640.19M (671287808 bytes) from device: \
CUDA_ERROR_OUT_OF_MEMORY
"""


def test_a_card_that_another_message_shows_full_is_not_the_hosts_memory() -> None:
    pinning = "DataLoader: pinned host buffers on\n"
    assert isinstance(judgement_of(CAUSE, crash_of(pinning + PROBED + BARE)), RuledOut)
    assert isinstance(judgement_of(CAUSE, crash_of(pinning + BARE)), Finding)


def swapping(free: str, flag: str = "Shared") -> str:
    """stable-diffusion-webui-forge: "Shared" where it page-locks what it keeps on the host."""
    return (
        f"[Memory Management] Target: KModel, Free GPU: {free} MB, Model Require: 22700.13 MB, Previously Loaded: "
        f"0.00 MB, Inference Require: 1024.00 MB, Remaining: -14224.13 MB, {flag} Swap Loaded (blocked method): "
        "15000.50 MB, GPU Loaded: 7699.63 MB\n  w.pin_memory()\n" + BARE
    )


def test_a_part_of_the_model_went_to_page_locked_memory_with_room_on_the_card() -> None:
    found = judgement_of(CAUSE, crash_of(swapping("9500.00")))
    assert isinstance(found, Finding)
    assert "14.65 GiB of the model went there; 9.28 GiB was free for the 7.52 GiB" in found.why
    assert found.grade is Grade.POINTS


def test_the_swap_says_nothing_where_the_card_had_no_room_or_nothing_was_page_locked() -> None:
    for log in (swapping("7500.00"), swapping("9500.00", "CPU")):
        found = judgement_of(CAUSE, crash_of(log))
        assert isinstance(found, Finding)
        assert "went there" not in found.why
        assert found.grade is Grade.HINTS


def test_windows_under_linux_alone_is_a_weak_hint_and_no_word_of_pinning() -> None:
    found = judgement_of(CAUSE, crash_of("Linux node7 5.15.167.4-microsoft-standard-WSL2 #1 SMP x86_64\n" + BARE))
    assert isinstance(found, Finding)
    assert found.grade is Grade.LEFT
    assert "WSL" in found.why
    assert "the log speaks of" not in found.why
