"""Memory that grows with the pieces of a job's work is what it keeps of them; steps of a training are no pieces."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_logs import crash
from reports import body

from oomdoctor.signs.pieces import memory_grew_with_a_size, memory_grew_with_the_work, needed_bytes, work_of

KILLED = ("job.sh: line 3:   812 Killed                  python mosaic.py --out all.npy", "exit code: 137")
TILES = "12:00:0{n} INFO done {done}/400 tiles, rss {rss} MB"


def prints(line: str, counts: tuple[int, ...] = (50, 100, 150, 200, 250), *, rss: int = 300) -> list[str]:
    lines = [line.format(n=n, done=done, rss=rss + 4 * done) for n, done in enumerate(counts)]
    return [*lines, *KILLED]


@pytest.mark.parametrize(
    ("line", "what", "total"),
    [
        (TILES, "tiles", 400),
        ("[{done}/400] pictures read, memory: {rss} MB", "pictures", 400),
        ("page {done} of 400, RAM {rss} MB", "page", 400),
        ("part 1/1: {done} lines, rss {rss} MiB", "lines", None),
    ],
)
def test_what_is_kept_of_each_piece_adds_up(line: str, what: str, total: int | None) -> None:
    work = work_of(crash(*prints(line)))
    assert work is not None
    assert (work.what, work.count, work.total, work.first) == (what, 250, total, 50)


@pytest.mark.parametrize(
    "line",
    [
        "step {done}/400 rss {rss} MB",
        "{done}/400 steps, rss {rss} MB",
        "{done}/400 batches, rss {rss} MB",
        "{done}/400 tiles, loss 0.31, rss {rss} MB",
        "epoch 1: {done}/400 tiles, rss {rss} MB",
        "served {done} requests, rss {rss} MB",
        "tick {n}, rss {rss} MB",
        "{done}/400 tiles, rss 900 MB",  # which does not grow
    ],
)
def test_what_is_no_work_in_pieces(line: str) -> None:
    assert work_of(crash(*prints(line))) is None


def test_other_pieces_at_each_print_are_none() -> None:
    lines = [f"{n}/{n + 9} tiles, rss {300 + 100 * n} MB" for n in range(1, 6)]
    assert work_of(crash(*lines, *KILLED)) is None
    assert work_of(crash(*prints(TILES, (250, 200, 150, 100, 50)))) is None


def test_a_figure_that_no_piece_stands_beside_is_of_something_else() -> None:
    lines = prints(TILES)
    lines.insert(3, "12:00:03 INFO done with the index, rss 1000 MB")
    assert work_of(crash(*lines)) is None


def test_the_sum_of_all_pieces_is_of_printed_figures() -> None:
    found = needed_bytes(crash(*prints(TILES)))
    assert found is not None
    whole, formula = found
    assert whole == pytest.approx(1_900 * 2**20, rel=0.06)  # MB may be either unit
    assert "x (400 - 50) / (250 - 50) =" in formula
    assert needed_bytes(crash(*prints("part 1/1: {done} lines, rss {rss} MiB"))) is None


def test_it_is_no_leak(tmp_path: Path) -> None:
    first = body(tmp_path, "\n".join(prints(TILES)))["diagnoses"][0]
    assert first["cause"] == "dataset-in-ram"
    assert first["headline"].startswith("Memory grew with the work that was done: 250 of 400 tiles")
    assert memory_grew_with_the_work(crash(*prints(TILES))) is not None
    trained = body(tmp_path, "\n".join(prints("step {done}/400 loss 0.31, rss {rss} MB")))["diagnoses"][0]
    assert trained["cause"] == "host-memory-leak"


DOUBLED = (40, 80, 160, 320)


@pytest.mark.parametrize(
    ("line", "counts", "is_larger"),
    [
        ("n={done} took 3 s, rss {rss} MB", DOUBLED, True),
        ("batch_size {done}: loss 0.31, rss {rss} MB", DOUBLED, True),
        ("seq_len={done} rss {rss} MB", (100, 200, 400), True),
        ("step {done} rss {rss} MB", DOUBLED, False),
        ("n={done} took 3 s, rss {rss} MB", (40, 80, 120, 160), False),  # counted in equal steps
        ("n={done} took 3 s, rss {rss} MB", (320, 160, 80, 40), False),
        ("n={done} took 3 s, rss 900 MB", DOUBLED, False),
        ("n={done} took 3 s, rss {rss} MB", (40, 80), False),
        ("n=5 took 3 s, rss {rss} MB", DOUBLED, False),
    ],
)
def test_a_larger_problem_takes_more_and_leaks_nothing(
    tmp_path: Path, line: str, counts: tuple[int, ...], *, is_larger: bool
) -> None:
    lines = prints(line, counts)
    assert (memory_grew_with_a_size(crash(*lines)) is not None) is is_larger
    if is_larger:
        assert body(tmp_path, "\n".join(lines))["diagnoses"][0]["cause"] != "host-memory-leak"
