"""What a shell's prompt holds before a command is no prose; a per cent is no prompt."""

from __future__ import annotations

import pytest

from oomdoctor.job.launch import read_line

COMMANDS = (
    ("lora % python lora.py --train --iters 100", [("train", True), ("iters", 100)]),
    ("(base) me@box ~/x $ python a.py --bs 4", [("bs", 4)]),
    ("box $ torchrun fit.py --epochs 3", [("epochs", 3)]),
)
PROSE = (
    "about 50 % python users say --no thanks",
    "we use % of python --fast",
    "50 % python --runs 3",
    "they asked python --fast 3",
)


@pytest.mark.parametrize(("text", "found"), COMMANDS)
def test_a_prompt_is_passed_over(text: str, found: list[tuple[str, object]]) -> None:
    assert read_line(text, continued=False) == found


@pytest.mark.parametrize("text", PROSE)
def test_prose_is_no_command(text: str) -> None:
    assert read_line(text, continued=False) == []
