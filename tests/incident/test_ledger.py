"""Where the memory was: every row printed or derived, and the rows add up or the rest is named."""

from __future__ import annotations

from oomdoctor.families.cuda import DeviceOutOfMemory, OtherProcess
from oomdoctor.families.event import Place, Process
from oomdoctor.families.gpu_table import Card, CardProcess, GpuTable
from oomdoctor.families.memory_report import MemoryReport
from oomdoctor.families.memory_summary import MemorySummary
from oomdoctor.families.ray_kill import NodeOutOfMemory, Row
from oomdoctor.families.vllm_error import NotEnoughFree
from oomdoctor.incident.ledger import ledgers
from oomdoctor.incident.model import Ledger
from oomdoctor.units import GIB, MIB

AT = Place("job.log", 12, 12, "the line")


def rows(ledger: Ledger) -> list[tuple[str, int | None, str]]:
    return [(row.what, row.bytes, row.basis) for row in ledger.rows]


def test_without_figures_there_is_no_ledger() -> None:
    assert ledgers([NodeOutOfMemory(at=AT), DeviceOutOfMemory(at=AT, device="CUDA", tried_bytes=GIB)]) == ()


def test_the_pid_of_who_was_refused_stands_above_its_own_memory_alone() -> None:
    process = Process(pid=71)
    refused = NotEnoughFree(
        at=AT, process=process, free_bytes=4 * GIB, total_bytes=40 * GIB, requested_bytes=36 * GIB, utilization=0.9
    )
    names = [
        ledgers([event])[0].device
        for event in (
            refused,
            _beside(process, own=6 * GIB, others=30 * GIB),
            _beside(process, own=30 * GIB, others=6 * GIB),
        )
    ]
    assert names == ["GPU", "GPU", "GPU (PID 71)"]


def _beside(process: Process, own: int, others: int) -> DeviceOutOfMemory:
    return DeviceOutOfMemory(
        at=AT, device="CUDA", process=process, total_bytes=40 * GIB, free_bytes=4 * GIB, in_use_bytes=own,
        allocated_bytes=own - GIB, unallocated_bytes=GIB // 2, others=(OtherProcess(pid=441, bytes=others),),
    )  # fmt: skip


def test_a_card_adds_up_from_printed_and_derived_rows() -> None:
    event = DeviceOutOfMemory(
        at=AT, device="CUDA", process=Process(gpu=0), total_bytes=80 * GIB, free_bytes=1 * GIB, in_use_bytes=59 * GIB,
        allocated_bytes=50 * GIB, private_pools_bytes=2 * GIB, unallocated_bytes=7 * GIB,
        others=(OtherProcess(pid=441, bytes=20 * GIB),),
    )  # fmt: skip
    (ledger,) = ledgers([event])
    assert ledger.device == "GPU 0"
    assert rows(ledger) == [
        ("process 441", 20 * GIB, "printed"),
        ("this process outside PyTorch", 2 * GIB, "derived"),
        ("private pools (CUDA graphs)", 2 * GIB, "printed"),
        ("live tensors", 48 * GIB, "derived"),
        ("reserved but unallocated", 7 * GIB, "printed"),
        ("free", 1 * GIB, "printed"),
    ]
    assert ledger.unexplained_bytes == 0


def test_the_old_sentence_cannot_tell_neighbours_from_what_is_outside_pytorch() -> None:
    event = DeviceOutOfMemory(
        at=AT, device="CUDA", process=Process(gpu=1), total_bytes=24 * GIB, free_bytes=512 * MIB,
        allocated_bytes=12 * GIB, reserved_bytes=13 * GIB,
    )  # fmt: skip
    (ledger,) = ledgers([event])
    assert ("outside PyTorch, and other processes", 24 * GIB - 512 * MIB - 13 * GIB, "derived") in rows(ledger)
    assert ("reserved but unallocated", 1 * GIB, "derived") in rows(ledger)
    assert ledger.unexplained_bytes == 0


def test_a_card_that_pages_to_the_host_is_not_added_up() -> None:
    event = DeviceOutOfMemory(
        at=AT, device="CUDA", total_bytes=32 * GIB, free_bytes=0, allocated_bytes=53 * GIB, unallocated_bytes=GIB
    )
    (ledger,) = ledgers([event])
    assert [row.what for row in ledger.rows] == ["free"]


def test_a_node_groups_processes_by_name_and_names_what_is_in_no_row() -> None:
    event = NodeOutOfMemory(
        at=AT, process=Process(node="10.0.0.1"), used_bytes=100 * GIB, total_bytes=104 * GIB,
        rows=(
            Row(pid=14, bytes=50 * GIB, command="python train/reward_server.py"),
            Row(pid=21, bytes=15 * GIB, command="ray::LLMRayActor"),
            Row(pid=22, bytes=15 * GIB, command="ray::LLMRayActor"),
        ),
    )  # fmt: skip
    (ledger,) = ledgers([event])
    assert ledger.device == "node 10.0.0.1"
    assert [(row.bytes, row.basis) for row in ledger.rows] == [
        (50 * GIB, "printed"),
        (30 * GIB, "derived"),
        (20 * GIB, "derived"),
        (4 * GIB, "derived"),
    ]
    assert ledger.rows[1].what.startswith("2 x ")
    assert ledger.rows[2].what == "in use, in no row of the log"
    assert ledger.unexplained_bytes == 0


def test_a_table_that_counts_shared_pages_twice_says_by_how_much() -> None:
    event = NodeOutOfMemory(
        at=AT, used_bytes=20 * GIB, total_bytes=24 * GIB,
        rows=tuple(Row(pid=pid, bytes=8 * GIB, command=f"job{pid}") for pid in (1, 2, 3)),
    )  # fmt: skip
    (ledger,) = ledgers([event])
    assert ledger.unexplained_bytes == 24 * GIB - (24 + 4) * GIB


def test_a_node_that_is_full_to_the_last_digit_has_nothing_free_and_not_less() -> None:
    (ledger,) = ledgers([NodeOutOfMemory(at=AT, used_bytes=24 * GIB + 5 * MIB, total_bytes=24 * GIB)])
    assert rows(ledger) == [("in use", 24 * GIB + 5 * MIB, "printed"), ("free", 0, "derived")]


def test_an_engine_that_finds_too_little_free_shows_what_was_there_before_it() -> None:
    event = NotEnoughFree(at=AT, free_bytes=31 * GIB, total_bytes=47 * GIB, utilization=0.95, requested_bytes=45 * GIB)
    (ledger,) = ledgers([event])
    assert rows(ledger)[0] == ("in use before the engine started", 16 * GIB, "derived")
    assert ledger.unexplained_bytes == 0


def test_the_fullest_print_of_a_card_stands_for_it() -> None:
    bare = DeviceOutOfMemory(at=AT, device="CUDA", total_bytes=80 * GIB, free_bytes=GIB)
    full = DeviceOutOfMemory(at=AT, device="CUDA", total_bytes=80 * GIB, free_bytes=GIB, allocated_bytes=70 * GIB)
    (ledger,) = ledgers([bare, full])
    assert len(ledger.rows) > 1


def test_the_jobs_last_report_stands_in_where_the_failure_prints_nothing() -> None:
    first = MemoryReport(at=AT, reporter="deepspeed", allocated_bytes=8 * GIB, host_used_bytes=80 * GIB)
    last = MemoryReport(
        at=AT, reporter="deepspeed", allocated_bytes=20 * GIB, reserved_bytes=24 * GIB, host_used_bytes=96 * GIB,
        host_used_fraction=0.75,
    )  # fmt: skip
    card, node = ledgers([first, last])
    assert rows(card) == [
        ("live tensors", 20 * GIB, "printed"),
        ("reserved but unallocated", 4 * GIB, "derived"),
    ]
    assert rows(node) == [("in use by all processes", 96 * GIB, "printed"), ("free", 32 * GIB, "derived")]
    assert node.rows[1].derivation == "96.00 GiB / 75.0% - 96.00 GiB = 32.00 GiB"


def test_not_beside_the_failures_own_figures() -> None:
    summary = MemorySummary(at=AT, process=Process(gpu=0), allocated_bytes=3 * GIB, reserved_bytes=9 * GIB)
    refused = DeviceOutOfMemory(
        at=AT, device="CUDA", process=Process(gpu=0), total_bytes=16 * GIB, free_bytes=GIB, allocated_bytes=14 * GIB
    )
    assert [ledger.device for ledger in ledgers([summary, refused])] == ["GPU 0"]
    assert [ledger.device for ledger in ledgers([summary])] == ["GPU 0, last memory summary"]


def test_a_part_is_not_added_to_its_whole() -> None:
    event = DeviceOutOfMemory(
        at=AT, device="CUDA", process=Process(gpu=0), total_bytes=80 * GIB, free_bytes=1 * GIB, in_use_bytes=79 * GIB,
        unallocated_bytes=3 * GIB,
    )  # fmt: skip
    (ledger,) = ledgers([event])
    assert rows(ledger) == [
        ("the rest of this process", 76 * GIB, "derived"),
        ("reserved but unallocated", 3 * GIB, "printed"),
        ("free", 1 * GIB, "printed"),
    ]
    assert ledger.unexplained_bytes == 0


def test_live_tensors_are_a_part_of_the_process_where_nothing_else_of_it_is_printed() -> None:
    event = DeviceOutOfMemory(
        at=AT, device="CUDA", process=Process(gpu=0), total_bytes=80 * GIB, free_bytes=1 * GIB, in_use_bytes=79 * GIB,
        allocated_bytes=70 * GIB,
    )  # fmt: skip
    (ledger,) = ledgers([event])
    assert rows(ledger)[:2] == [("the rest of this process", 9 * GIB, "derived"), ("live tensors", 70 * GIB, "printed")]


def test_a_process_of_which_no_part_is_printed_is_one_row() -> None:
    event = DeviceOutOfMemory(
        at=AT, device="CUDA", process=Process(gpu=0), total_bytes=80 * GIB, free_bytes=1 * GIB, in_use_bytes=79 * GIB
    )
    (ledger,) = ledgers([event])
    assert rows(ledger) == [("this process", 79 * GIB, "printed"), ("free", 1 * GIB, "printed")]


def test_a_report_of_which_a_part_is_missing_derives_nothing_from_it() -> None:
    report = MemoryReport(at=AT, reporter="deepspeed", allocated_bytes=8 * GIB, host_used_bytes=80 * GIB)
    card, node = ledgers([report])
    assert rows(card) == [("live tensors", 8 * GIB, "printed")]
    assert rows(node) == [("in use by all processes", 80 * GIB, "printed")]


def test_what_a_node_has_free_is_not_told_without_its_total() -> None:
    row = Row(pid=7, bytes=60 * GIB, command="python train.py")
    kill = NodeOutOfMemory(at=AT, rows=(row,), used_bytes=80 * GIB)
    assert [what for what, _, _ in rows(ledgers([kill])[0])] == ["train.py (pid 7)", "in use, in no row of the log"]


def table(held: int | None, mig: str | None = None) -> GpuTable:
    processes = (CardProcess(gpu=0, pid=7, name="python3", used_bytes=held),) if held else ()
    card = Card(gpu=0, used_bytes=60 * GIB, total_bytes=80 * GIB, mig=mig)
    return GpuTable(at=AT, cards=(card,), processes=processes)


def test_a_cards_processes_and_what_no_process_of_the_table_holds() -> None:
    (whole,), (part,), (nobody,) = (ledgers([table(held)]) for held in (60 * GIB, 50 * GIB, None))
    assert rows(whole) == [("python3 (pid 7)", 60 * GIB, "printed"), ("free", 20 * GIB, "derived")]
    assert ("in use, by no process of the table", 10 * GIB, "derived") in rows(part)
    assert rows(nobody) == [("in use", 60 * GIB, "printed"), ("free", 20 * GIB, "derived")]


def test_a_slice_of_a_card_is_not_a_card() -> None:
    assert ledgers([table(50 * GIB, mig="1/0")]) == ()
