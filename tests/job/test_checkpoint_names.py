"""What a checkpoint's name says of its weights."""

from __future__ import annotations

import pytest

from oomdoctor.job.checkpoint_names import billions, has_few_bits


@pytest.mark.parametrize(
    ("names", "count"),
    [
        (["org/Model-7B"], 7.0),
        (["org/model2_5-7b-chat"], 7.0),
        (["org/Model-1.5B-Instruct"], 1.5),
        (["org/plain", "org/Model-13b"], 13.0),
        (["org-7B/plain"], None),
        (["org/Model-v7Beta"], None),
        ([], None),
    ],
)
def test_how_many_parameters(names: list[str], count: float | None) -> None:
    assert billions(names) == count


@pytest.mark.parametrize(
    ("name", "few"),
    [("org/M-7B-AWQ", True), ("org/M-7B-GGUF", True), ("M-7B.Q8_0.gguf", False), ("org/M-7B", False)],
)
def test_how_many_bits(name: str, few: bool) -> None:
    assert has_few_bits(name) is few
