from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from oomdoctor import diagnose
from oomdoctor.causes import causes
from oomdoctor.training.generator import NOT_OOM, Labelled, logs, recipes

ROUND = len(recipes())


def answer(log: Labelled, folder: Path) -> str:
    path = folder / f"{log.name}.log"
    path.write_text(log.text, encoding="utf-8")
    report = diagnose(path)
    if not report.incidents:
        return NOT_OOM
    return next((d.cause for d in report.incidents[0].diagnoses), "inconclusive")


def test_the_same_seed_gives_the_same_logs_and_another_one_others() -> None:
    assert list(logs(ROUND, 3)) == list(logs(ROUND, 3))
    assert [log.text for log in logs(ROUND, 3)] != [log.text for log in logs(ROUND, 4)]


def test_more_logs_begin_with_the_same_ones() -> None:
    assert list(logs(2 * ROUND, 3))[:ROUND] == list(logs(ROUND, 3))


def test_every_cause_is_covered_and_so_is_none() -> None:
    told = Counter(log.cause for log in logs(4 * ROUND, 1))
    assert set(told) == {cause.id for cause in causes()} | {NOT_OOM}
    assert set().union(*(log.also for log in logs(ROUND, 1))) <= {cause.id for cause in causes()} | {NOT_OOM}


@cache
def drawn() -> list[Labelled]:
    return list(logs(15 * ROUND, 11))


@pytest.mark.parametrize("cause", sorted({cause for cause, _ in recipes()}))
def test_the_rules_read_what_a_cause_renders(cause: str, tmp_path: Path) -> None:
    """Most of them: some are cut on purpose, and some no rule decides."""
    of_it = [log for log in drawn() if log.cause == cause]
    right = sum(answer(log, tmp_path) in (cause, *log.also) for log in of_it)
    assert len(of_it) >= 3
    assert right >= 0.5 * len(of_it)


def test_logs_come_wrapped_and_prefixed_and_with_traps() -> None:
    texts = [log.text for log in logs(4 * ROUND, 1)]
    for sign in (r"(?m)^\(\w+ pid=\d+", r"(?m)^\[rank\d\]: ", r"CUDA OOMs: 0", r"heartbeat", r"closing signal SIGTERM"):
        assert any(re.search(sign, text) for text in texts), sign


def test_the_figures_of_a_card_add_up() -> None:
    full = re.compile(
        r"capacity of ([\d.]+) GiB of which ([\d.]+) MiB is free\. Including non-PyTorch memory, this process "
        r"has ([\d.]+) GiB"
    )
    seen = [full.search(log.text) for log in logs(2 * ROUND, 1)]
    sums = [(float(m[1]), float(m[2]) / 1024 + float(m[3])) for m in seen if m]
    assert len(sums) > 5
    assert all(abs(total - used) < 0.02 for total, used in sums)
