"""Settings that a program prints as pairs on one line."""

from __future__ import annotations

import pytest

from oomdoctor import streams
from oomdoctor.job.context import ContextBuilder


def settings_of(log: str) -> dict[str, object]:
    job = ContextBuilder()
    job.add(streams.page("job.log", 1, log.encode()))
    return {name: setting.value for name, setting in job.build().settings.items()}


TRAINER = (
    "engine/trainer: task=detect, mode=train, model=a.yaml, epochs=100, batch=36, cache=True, device=0,1, workers=8"
)


@pytest.mark.parametrize("head", ["", "\x1b[34m\x1b[1m"])
def test_each_pair_is_a_setting(head: str) -> None:
    told = settings_of(f"{head}{TRAINER}\n")
    assert (told["batch"], told["workers"], told["device"], told["cache"]) == (36, 8, "0,1", True)


def test_a_value_may_be_empty() -> None:
    told = settings_of("train: weights=a.pt, cfg=, data=b.yaml, epochs=3, batch_size=16, imgsz=640\n")
    assert (told["batch_size"], told["cfg"]) == (16, "")


@pytest.mark.parametrize(
    "line",
    ["engine/trainer: batch=36, workers=8", "train: loss=0.3, lr=0.1, step=3, epoch=1", "engine/trainer: see batch=36"],
)
def test_a_few_pairs_are_no_settings(line: str) -> None:
    assert "batch" not in settings_of(f"{line}\n")
    assert "lr" not in settings_of(f"{line}\n")
