from __future__ import annotations

import pytest
from gpu_logs import LOADING, crash, refused, trace

from oomdoctor.incident.model import Crash
from oomdoctor.signs import placement

RESTORING = trace(
    ("torch/serialization.py", "default_restore_location", "result = fn(storage, location)"),
    ("torch/serialization.py", "_cuda_deserialize", "return storage_type(obj.size())"),
)
SMI = (
    "| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15    CUDA Version: 12.4     |",
    "| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |",
    "|=========================================+======================+======================|",
)
CARD = (
    "|   {0}  NVIDIA RTX A4000            Off  | 00000000:0{0}:00.0 Off |                  N/A |",
    "| 41%   35C    P8              12W / 140W |    310MiB / 16376MiB |      0%      Default |",
)
WAVES = "CUDA error !!!!! <out of memory> !!!!!"
BARE = "RuntimeError: CUDA error: out of memory"


@pytest.mark.parametrize(("others", "are_there"), [("20.00 GiB", True), ("19.90 GiB", False)])
def test_a_quarter_of_the_card_is_in_other_hands(others: str, are_there: bool) -> None:
    line = refused(total="80.00 GiB", free="59.00 MiB", own="2.00 GiB", allocated="1.00 GiB", others=((31, others),))
    assert (placement.restored_beside_others(crash("[rank1]: world_size 8", *RESTORING, line)) is not None) is are_there
    assert placement.restored_beside_others(crash(*RESTORING, line)) is None  # of no rank
    assert placement.restored_beside_others(crash(*trace(LOADING), line)) is None


def test_a_bare_refusal_is_a_ranks_where_the_log_names_ranks() -> None:
    assert placement.restored_by_a_rank(crash(*RESTORING, BARE)) is None
    assert placement.restored(crash(*RESTORING, BARE)) is not None
    assert placement.restored_by_a_rank(crash("torchrun --nproc_per_node 4 train.py", *RESTORING, BARE)) is not None
    assert placement.restored(crash(*trace(LOADING), BARE)) is None


@pytest.mark.parametrize(
    ("sizes", "are_alike"),
    [
        (("17.00 GiB", "20.00 GiB"), True),
        (("16.90 GiB", "20.00 GiB"), False),
        (("20.00 GiB",), False),
        (("255.00 MiB", "256.00 MiB"), False),
    ],
)
def test_two_others_that_differ_by_15_percent_at_most(sizes: tuple[str, ...], are_alike: bool) -> None:
    others = tuple((21 + place, size) for place, size in enumerate(sizes))
    line = refused(own=None, allocated=None, free="1.00 GiB", others=others)
    assert (placement.others_of_its_size(crash(line)) is not None) is are_alike


def ranks(size: str, pid: int) -> Crash:
    return crash(
        "(Worker pid=501) " + refused(own="39.00 GiB", allocated="37.00 GiB", others=((pid, size),)),
        "(Worker pid=502) " + refused(own="39.70 GiB", allocated="38.00 GiB", others=((501, "39.00 GiB"),)),
    )


def test_a_rank_of_the_job_that_holds_more_than_a_context() -> None:
    assert placement.own_ranks_on_the_card(ranks("39.70 GiB", 502)) is not None
    assert placement.own_ranks_on_the_card(ranks("255.00 MiB", 502)) is None
    assert placement.own_ranks_on_the_card(ranks("39.70 GiB", 777)) is None


def test_a_process_on_several_cards_beside_others() -> None:
    row = "|    {}     {}      C   python                                      4917MiB |"
    alone = [row.format(0, 61877), row.format(1, 61877)]
    assert placement.process_on_several_cards(crash(*alone, BARE)) is None
    assert placement.process_on_several_cards(crash(*alone, row.format(1, 61878), BARE)) is not None


@pytest.mark.parametrize(
    ("others", "in_a_row"),
    [
        (((31, "6.00 GiB"), (32, "6.10 GiB"), (33, "5.90 GiB")), True),
        (((33, "6.00 GiB"), (31, "6.10 GiB"), (39, "5.90 GiB"), (900, "20.00 GiB")), True),
        (((31, "6.00 GiB"), (32, "6.10 GiB")), False),  # two may be chance
        (((31, "6.00 GiB"), (400, "6.00 GiB"), (9000, "6.00 GiB")), False),
        (((31, "6.00 GiB"), (32, "9.00 GiB"), (33, "16.00 GiB")), False),
        (((31, "0.24 GiB"), (32, "0.24 GiB"), (33, "0.24 GiB")), False),
        (((31, "3.90 GiB"), (32, "3.90 GiB"), (33, "3.90 GiB")), False),  # less than 15 % of the card
    ],
)
def test_processes_that_one_launcher_started(others: tuple[tuple[int, str], ...], in_a_row: bool) -> None:
    line = refused(total="80.00 GiB", free="1.00 GiB", own="20.00 GiB", allocated="19.00 GiB", others=others)
    assert (placement.ranks_in_a_row(crash(line)) is not None) is in_a_row


def test_two_beside_this_process_are_three() -> None:
    line = refused(total="80.00 GiB", own="20.00 GiB", others=((31, "20.00 GiB"), (32, "20.00 GiB")))
    assert placement.ranks_in_a_row(crash(f"(Worker pid=30) {line}")) is not None
    assert placement.ranks_in_a_row(crash(f"(Worker pid=3000) {line}")) is None


def listed(*rows: tuple[int, int, int]) -> list[str]:
    cards = (line for card in range(2) for line in (f"|   {card}  A100    On  | 0{card}:00.0 Off |  0 |",
             "| N/A   34C    P0    66W / 400W |  30000MiB / 40000MiB |      0%      Default |"))  # fmt: skip
    processes = (f"|    {gpu}   N/A  N/A   {pid}      C   python        {mib}MiB |" for gpu, pid, mib in rows)
    return ["| NVIDIA-SMI 535.54  Driver Version: 535.54 |", *cards, "| Processes:  |", *processes]


@pytest.mark.parametrize(
    ("rows", "in_a_row"),
    [
        (((0, 71, 9000), (0, 72, 9100), (0, 74, 8900)), True),
        (((0, 71, 9000), (1, 72, 9100), (0, 74, 8900)), False),  # on two cards
        (((0, 71, 9000), (0, 372, 9100), (0, 1074, 8900)), False),
        (((0, 71, 1500), (0, 72, 1500), (0, 74, 1500)), False),
    ],
)
def test_a_table_lists_what_one_launcher_started(rows: tuple[tuple[int, int, int], ...], in_a_row: bool) -> None:
    assert (placement.ranks_in_a_row(crash(*listed(*rows), BARE)) is not None) is in_a_row


def table(*cards: int) -> tuple[str, ...]:
    return (*SMI, *(row.format(card) for card in cards for row in CARD))


def abort(rank: int) -> str:
    return f"Abort(1) on node {rank} (rank {rank} in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 1)"


def test_not_one_rank_that_aborts_for_all() -> None:
    assert placement.several_ranks_and_one_card(crash(WAVES, abort(2), abort(2), *table(0))) is None


def test_not_ranks_that_have_a_card_each_nor_without_a_table() -> None:
    assert placement.several_ranks_and_one_card(crash(WAVES, abort(0), abort(1), *table(0, 1))) is None
    assert placement.several_ranks_and_one_card(crash(WAVES, abort(0), abort(1))) is None


def test_not_ranks_that_only_say_who_they_are() -> None:
    assert placement.several_ranks_and_one_card(crash("rank 0 of 2", "rank 1 of 2", WAVES, *table(0))) is None


@pytest.mark.parametrize(
    "lines",
    [
        (WAVES, abort(3), abort(0)),
        ("amrex::Abort::0::Out of gpu memory. Free: 1048576 Asked: 4194304 !!!", "amrex::Abort::3::Out of gpu memory."),
        (
            WAVES,
            "MPI_ABORT was invoked on rank 0 in communicator X",
            "MPI_ABORT was invoked on rank 3 in communicator X",
        ),
    ],
)
def test_ranks_that_abort_together_are_on_the_only_card(lines: tuple[str, ...]) -> None:
    found = placement.several_ranks_and_one_card(crash(*lines, *table(0)))
    assert found is not None
    assert "MPI ranks 0, 3 aborted" in found.words


OF_RANKS = (
    "[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB. GPU 5 has a total capacity of "
    "79.19 GiB of which 2.06 MiB is free. Including non-PyTorch memory, this process has 75.45 GiB memory in use. {}Of "
    "the allocated memory 73.58 GiB is allocated by PyTorch, and 279.13 MiB is reserved by PyTorch but unallocated."
)


@pytest.mark.parametrize(
    ("pids", "prefix", "own"),
    [
        ((810, 811, 812), "[rank5]: ", 3),
        ((810, 4811, 9812), "[rank5]: ", 0),
        ((810, 811), "[rank5]: ", 0),
        ((810, 811, 812), "", 0),
    ],
)
def test_contexts_in_a_row_are_those_of_the_other_ranks(pids: tuple[int, ...], prefix: str, own: int) -> None:
    others = "".join(f"Process {pid} has 540.00 MiB memory in use. " for pid in pids)
    refused = crash(prefix + OF_RANKS.format(others).removeprefix("[rank5]: "))
    assert len(placement.own_processes(refused)) == own


@pytest.mark.parametrize(
    ("pids", "allocated", "are_ranks"),
    [
        ((3423, 3424, 3425), "10.47 GiB", True),
        ((3423, 3431, 3439), "10.47 GiB", True),
        ((3423, 3424), "10.47 GiB", False),
        ((3423, 3424, 3900), "10.47 GiB", False),
        ((3423, 3424, 3425), "60.10 GiB", False),  # the process itself has most of the GPU
    ],
)
def test_ranks_whose_size_the_driver_does_not_say(pids: tuple[int, ...], allocated: str, *, are_ranks: bool) -> None:
    others = tuple((pid, "0 bytes") for pid in pids)
    told = refused(own="0 bytes", allocated=allocated, unallocated="93.52 MiB", free="12.81 MiB", others=others)
    assert (placement.unsized_ranks_in_a_row(crash(told)) is not None) is are_ranks


def test_ranks_with_sizes_are_told_by_them() -> None:
    others = tuple((pid, "9.80 GiB") for pid in (3423, 3424, 3425))
    told = refused(own="10.60 GiB", allocated="10.47 GiB", free="12.81 MiB", others=others)
    assert placement.unsized_ranks_in_a_row(crash(told)) is None
    assert placement.ranks_in_a_row(crash(told)) is not None
