"""Names of rows and figures: English as ids, translated where they are shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import copy_context

import pytest
from reports import LOGS, diagnosed

from oomdoctor.job import names
from oomdoctor.language import CHINESE, use

OF_THE_LOG = re.compile(r".+ \(pid (?:\d+|None)\)|\d+ x .+")


def in_chinese(name: Callable[[str], str], what: str) -> str:
    def shown() -> str:
        use(CHINESE)
        return name(what)

    return copy_context().run(shown)


@pytest.mark.parametrize(
    ("what", "shown"),
    [
        ("free", "空闲"),
        ("live tensors", "存活的张量"),
        ("process 4711", "进程 4711"),
        ("7 smaller processes of the table", "表中 7 个更小的进程"),
        ("process 4711 of somebody", "process 4711 of somebody"),
        ("train.py (pid 12)", "train.py (pid 12)"),
        ("2 x RolloutWorker", "2 x RolloutWorker"),
    ],
)
def test_a_row(what: str, shown: str) -> None:
    assert names.row(what) == what
    assert in_chinese(names.row, what) == shown


@pytest.mark.parametrize(
    ("what", "shown"),
    [
        ("memory used on the node", "节点已用内存"),
        ("memory used on the node 10.0.0.7 at each kill", "每次杀死进程时节点 10.0.0.7 的已用内存"),
        ("memory used on the card 3", "显卡 3 已用显存"),
        ("memory used on the card of somebody", "memory used on the card of somebody"),
        ("PID 12 (train.py)", "PID 12 (train.py)"),
        ("memory used on the node at each kill", "memory used on the node at each kill"),
    ],
)
def test_a_figure(what: str, shown: str) -> None:
    assert names.figure(what) == what
    assert in_chinese(names.figure, what) == shown


def test_every_row_of_ours_has_a_name_in_chinese() -> None:
    rows = {
        row["what"]
        for log in LOGS
        for one in diagnosed(log)["incidents"]
        for led in one["ledger"]
        for row in led["rows"]
    }
    untranslated = {what for what in rows if in_chinese(names.row, what) == what}
    assert {what for what in untranslated if not OF_THE_LOG.fullmatch(what)} == set()


@pytest.mark.parametrize(
    "what",
    ["memory", "memory allocated", "memory reserved", "peak memory reserved", "still in use after the engine slept"],
)
def test_every_figure_of_ours_has_a_name_in_chinese(what: str) -> None:
    assert in_chinese(names.figure, what) != what
