"""Options that a program prints below its launch line, with those that it was given."""

from __future__ import annotations

import pytest
from test_context import settings

from oomdoctor.job.context import MOST_LAUNCHES
from oomdoctor.job.printed_back import WITHIN, spelled

LAUNCH = "+ python -u fit.py --batch_size 64 --epochs 2 --lr 0.1"
REPEATED = ("  batch_size: 64", "  epochs: 2")


def names(*lines: str, launch: str = LAUNCH) -> set[str]:
    return settings("\n".join([launch, *lines, ""])).keys() - {"batch_size", "epochs", "lr"}


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ((*REPEATED, "  use_generator: False"), {"use_generator"}),
        (("use_generator: False", "batch_size: 64", "epochs: 2"), {"use_generator"}),
        (("fit 1.2", *REPEATED, "  cache_items = 4000"), {"cache_items"}),
        (("batch_size ........... 64", "epochs ............... 2", "keep_last ............ 12"), {"keep_last"}),
        (("batch_size     64", "epochs         2", "keep_last      12"), {"keep_last"}),
        (("  --batch_size: 64", "  --epochs: 2", "  --keep-last: 12"), {"keep_last"}),
        (("  batch_size: 64", "  keep_last: 12"), set()),  # one may be the same by chance
        (("  batch_size: 32", "  epochs: 4", "  keep_last: 12"), set()),  # of another run
        ((*REPEATED, "it begins now", "  loss_scale: 12"), set()),  # of another block
        ((*REPEATED, "Shuffled: yes"), set()),
        (("it reads", *["."] * WITHIN, *REPEATED, "  keep_last: 12"), set()),
    ],
)  # fmt: skip
def test_the_others_of_a_block_are_options_too(lines: tuple[str, ...], found: set[str]) -> None:
    assert names(*lines) == found


def test_a_launch_over_several_lines_is_one() -> None:
    launch = "+ python -u fit.py \\\n    --batch_size 64 \\\n    --epochs 2"
    assert names(*REPEATED, "  keep_last: 12", launch=launch) == {"keep_last"}


def test_what_the_launch_line_says_counts() -> None:
    assert settings("\n".join([LAUNCH, *REPEATED, "  lr: 0.2", ""]))["lr"] == 0.1


def test_a_launch_of_one_option_has_no_list() -> None:
    assert names("  batch_size: 64", "  keep_last: 12", launch="+ python fit.py --batch_size 64") == set()


def test_the_lists_of_few_launches_are_looked_for() -> None:
    launches = [LAUNCH] * MOST_LAUNCHES
    assert names(*["."] * WITHIN, LAUNCH, *REPEATED, "  keep_last: 12", launch="\n".join(launches[1:])) == {"keep_last"}
    assert names(*["."] * WITHIN, LAUNCH, *REPEATED, "  keep_last: 12", launch="\n".join(launches)) == set()


@pytest.mark.parametrize(
    ("name", "value", "launched", "written"),
    [
        ("keep_last", 12, "--batch_size ", "--keep_last "),
        ("keep_last", 12, "--epochs ", "--keep-last "),
        ("use_generator", False, "--batch_size ", "use_generator="),  # its flag may be another
        ("cap", None, "--batch_size ", "cap="),
    ],
)
def test_an_option_is_spelled_as_the_launch_line_spells_its_own(
    name: str, value: object, launched: str, written: str
) -> None:
    assert spelled(name, value, launched) == written  # type: ignore[arg-type]
