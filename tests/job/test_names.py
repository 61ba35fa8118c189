"""Names of rows and figures: ids in JSON, words where they are shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import copy_context

import pytest
from reports import LOGS, diagnosed

from oomdoctor.job import names
from oomdoctor.language import CHINESE, call_devices, use

OF_THE_LOG = re.compile(r".+ \(pid (?:\d+|None)\)|\d+ x .+")


def in_chinese(name: Callable[[str], str], what: str) -> str:
    def shown() -> str:
        use(CHINESE)
        return name(what)

    return copy_context().run(shown)


@pytest.mark.parametrize(
    ("what", "english", "chinese"),
    [
        ("free", "free", "空闲"),
        ("live tensors", "PyTorch tensors", "PyTorch 张量"),
        ("in use, in no row of the table", "other memory (not in Ray's list)", "其他内存（不在 Ray 的表里）"),
        ("process 4711", "other process (PID 4711)", "其他进程（PID 4711）"),
        ("1 smaller processes of the table", "1 smaller process", "1 个更小的进程"),
        ("7 smaller processes of the table", "7 smaller processes", "7 个更小的进程"),
        ("process 4711 of somebody", "process 4711 of somebody", "process 4711 of somebody"),
        ("train.py (pid 12)", "train.py (PID 12)", "train.py (PID 12)"),
        ("raylet (pid None)", "raylet", "raylet"),
        ("2 x RolloutWorker", "2 x RolloutWorker", "2 x RolloutWorker"),
    ],
)
def test_a_row(what: str, english: str, chinese: str) -> None:
    assert names.row(what) == english
    assert in_chinese(names.row, what) == chinese


def test_a_device_without_cuda_has_no_cuda_context() -> None:
    def shown() -> str:
        call_devices("NPU")
        return names.row("this process outside PyTorch")

    assert names.row("this process outside PyTorch") == "non-PyTorch memory (CUDA context, NCCL)"
    assert copy_context().run(shown) == "non-PyTorch memory of this process"


@pytest.mark.parametrize(
    ("what", "english", "chinese"),
    [
        ("memory used on the node", "node memory in use", "节点已用内存"),
        (
            "memory used on the node 10.0.0.7 at each kill",
            "memory in use on node 10.0.0.7 at each kill",
            "每次杀死进程时节点 10.0.0.7 的已用内存",
        ),
        ("memory used on the card 3", "memory in use on GPU 3", "GPU 3 已用显存"),
        (
            "memory used on the card of somebody",
            "memory used on the card of somebody",
            "memory used on the card of somebody",
        ),
        ("PID 12 (train.py)", "PID 12 (train.py)", "PID 12 (train.py)"),
        ("rss", "rss", "rss"),
    ],
)
def test_a_figure(what: str, english: str, chinese: str) -> None:
    assert names.figure(what) == english
    assert in_chinese(names.figure, what) == chinese


def test_every_row_of_ours_has_a_name_in_chinese() -> None:
    rows = {
        row["what"]
        for log in LOGS
        for one in diagnosed(log)["incidents"]
        for led in one["ledger"]
        for row in led["rows"]
    }
    ours = {what for what in rows if not OF_THE_LOG.fullmatch(what)}
    assert {what for what in ours if in_chinese(names.row, what) == names.row(what)} == set()


@pytest.mark.parametrize(
    "what",
    ["memory", "memory allocated", "memory reserved", "peak memory reserved", "still in use after the engine slept"],
)
def test_every_figure_of_ours_has_a_name_in_chinese(what: str) -> None:
    assert in_chinese(names.figure, what) != what
