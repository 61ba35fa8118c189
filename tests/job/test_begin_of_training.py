"""A line that says that training begins, and nothing else."""

from __future__ import annotations

import pytest

from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.families.event import Place, Surroundings
from oomdoctor.job.doing import doing_of

REFUSED = Place("a.log", 9, 9, "CUDA error: out of memory")


def stage(*before: str) -> str:
    return doing_of(DeviceRefusal(at=REFUSED, around=Surroundings(before=before), device="CUDA", layer="runtime")).stage


@pytest.mark.parametrize(
    "line",
    ["Training data: 12 files", "training.csv", "No training", "pre-training", "Trainings", "Training the tokenizer"],
)
def test_not_a_line_that_speaks_of_training(line: str) -> None:
    assert stage("Loading datasets", line) != "forward"


@pytest.mark.parametrize(
    "line",
    [
        "Training",
        "Starting training..., iters: 40",
        "Start training",
        "Begin training!",
        "INFO: Starting training loop",
    ],
)
def test_training_begins_behind_the_data(line: str) -> None:
    assert stage("Loading datasets", line) == "forward"
    assert stage(line, "Loading datasets") == "data_load"
