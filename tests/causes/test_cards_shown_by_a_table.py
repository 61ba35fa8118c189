"""nvidia-smi's table beside a refusal: who holds the card, and tables that say nothing of it."""

from __future__ import annotations

from pathlib import Path

from system_logs import crash_of

from oomdoctor.causes.gpu_shared import CAUSE
from oomdoctor.decision.judgement import Finding, judgement_of
from oomdoctor.signs import Grade
from oomdoctor.units import show

FIXTURES = Path(__file__).parents[2] / "fixtures" / "nvidia_smi"
TABLE_AND_REFUSAL = (FIXTURES / "table-550-and-refusal.log").read_text(encoding="utf-8")
BARE = "RuntimeError: CUDA error: out of memory\n"
HIDDEN = (FIXTURES / "hidden-processes.log").read_text(encoding="utf-8")


def test_the_table_names_who_the_message_does_not() -> None:
    crash = crash_of(TABLE_AND_REFUSAL)
    found = judgement_of(CAUSE, crash)
    assert isinstance(found, Finding)
    assert found.grade == Grade.PROVES
    assert "PID 991002" in found.why


def test_a_table_of_the_process_itself_in_a_run_names_nobody() -> None:
    """Beside what PyTorch had reserved there is no room for as much again."""
    own = TABLE_AND_REFUSAL.replace("7.90 GiB is allocated", "67.90 GiB is allocated").replace(
        "Process 991302 has 8.62 GiB memory in use. ", ""
    )
    found = judgement_of(CAUSE, crash_of(own))
    assert not isinstance(found, Finding) or "nvidia-smi" not in found.why


def test_a_table_of_another_card_names_nobody() -> None:
    other = TABLE_AND_REFUSAL.replace("|    0   N/A  N/A    991002", "|    1   N/A  N/A    991002")
    found = judgement_of(CAUSE, crash_of(other))
    assert not isinstance(found, Finding) or "nvidia-smi" not in found.why


def test_a_card_that_is_full_afterwards_of_processes_that_nobody_sees() -> None:
    found = judgement_of(CAUSE, crash_of(BARE + HIDDEN))
    assert isinstance(found, Finding)
    assert found.grade == Grade.POINTS


def test_before_the_refusal_it_may_have_been_the_process_itself() -> None:
    assert judgement_of(CAUSE, crash_of(HIDDEN + BARE)) is None


def test_a_refusal_without_figures_has_the_tables_ledger() -> None:
    crash = crash_of(BARE + TABLE_AND_REFUSAL[: TABLE_AND_REFUSAL.index("Traceback")])
    shown = {ledger.device: ledger for ledger in crash.ledgers}["GPU 0 (nvidia-smi)"]
    assert shown.unexplained_bytes == 0
    assert shown.rows[0].what == "VLLM::EngineCore (pid 991002)"
    derived = [row for row in shown.rows if row.basis == "derived"]
    assert derived
    assert all((row.derivation or "").endswith(f" = {show(row.bytes or 0)}") for row in derived)


def test_a_refusal_with_figures_has_its_own_ledger_only() -> None:
    assert all("nvidia-smi" not in ledger.device for ledger in crash_of(TABLE_AND_REFUSAL).ledgers)
