from __future__ import annotations

from pathlib import Path

from system_logs import crash_of, quiet

from oomdoctor.causes.address_space_limit import CAUSE
from oomdoctor.decision.judgement import Finding, RuledOut, judgement_of
from oomdoctor.signs import Grade

FIXTURES = Path(__file__).parent.parent.parent / "fixtures" / "host_alloc"

REFUSED = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate {} bytes. Error code 12 (Cannot allocate memory)\n"
)


def test_a_kill_is_no_refusal() -> None:
    assert judgement_of(CAUSE, crash_of("run.sh: line 3:  71 Killed                  python train.py\n")) is None


def test_a_size_no_machine_has_is_no_limit() -> None:
    assert isinstance(judgement_of(CAUSE, crash_of(REFUSED.format(40_000_000_000_000))), RuledOut)


def test_threads_are_no_memory() -> None:
    assert quiet("RuntimeError: can't start new thread\n")


def test_the_cards_memory_error_is_not_the_hosts() -> None:
    crash = crash_of("MemoryError: std::bad_alloc: out_of_memory: CUDA error at: x.hpp:70: cudaErrorMemoryAllocation\n")
    assert judgement_of(CAUSE, crash) is None


def test_a_caught_refusal_is_quiet() -> None:
    assert quiet("WARNING: MemoryError while caching, skipping the cache\n")


def test_a_large_size_may_really_be_missing() -> None:
    judgement = judgement_of(CAUSE, crash_of(REFUSED.format(131 * 1024**3)))
    assert isinstance(judgement, Finding)
    assert judgement.grade is Grade.LEFT
    assert judgement.against


def test_a_refusal_under_ulimit() -> None:
    judgement = judgement_of(CAUSE, crash_of((FIXTURES / "torch-under-ulimit.log").read_text()))
    assert isinstance(judgement, Finding)
    assert judgement.grade is Grade.LEFT, "PyTorch prints its errno whatever was short"
    assert "4.47 GiB" in judgement.why
    assert any("ulimit -a" in command for command in judgement.next_evidence)


def test_free_memory_printed_beside_it_decides() -> None:
    judgement = judgement_of(
        CAUSE,
        crash_of(
            REFUSED.format(8 * 1024**3) + "\n              total        used        free      shared\n"
            "Mem:            94G        2.5G         89G         25M\n"
        ),
    )
    assert isinstance(judgement, Finding)
    assert "An allocation of 8.00 GiB failed with 91.50 GiB of RAM unused" in judgement.why


def test_windows_says_it_by_number_in_any_language() -> None:
    judgement = judgement_of(CAUSE, crash_of("OSError: [WinError 1455] 页面文件太小，无法完成操作。\n"))
    assert isinstance(judgement, Finding)
    assert judgement.grade is Grade.PROVES


def test_a_scheduler_that_counts_address_space() -> None:
    judgement = judgement_of(CAUSE, crash_of("=>> PBS: job killed: vmem 67209216kb exceeded limit 67108864kb\n"))
    assert isinstance(judgement, Finding)
    assert "64.10 GiB, limit 64.00 GiB" in judgement.why
