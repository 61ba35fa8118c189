"""Options that a program prints below its launch line, with those that it was given."""

from __future__ import annotations

import pytest
from test_context import context, settings

from oomdoctor import streams
from oomdoctor.job.context import MOST_LAUNCHES
from oomdoctor.job.printed_back import WITHIN, Printed, spelled

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


DICTS = "+ python -u fit.py --rows 64 --passes 2 --lr 0.1"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("[fit.py:84] {'rows': 64, 'passes': 2, 'keep_last': 12}", True),
        ("[fit.py:84] {'rows': 32, 'passes': 2, 'keep_last': 12}", False),
        ("[fit.py:84] {'rows': 64, 'passes': 2, " + ", ".join(f"'k{n}': 1" for n in range(199)) + "}", False),
    ],
)
def test_a_dict_is_such_a_list(line: str, found: bool) -> None:
    assert ("keep_last" in names(line, launch=DICTS) or "k1" in names(line, launch=DICTS)) is found


@pytest.mark.parametrize(
    ("launch", "found"),
    [
        ("+ python run.py -d 200 -lr 0.5", {"hidden_dim": "-d ", "learning_rate": "-lr ", "seed": "--seed "}),
        ("+ python run.py -d 100 -lr 0.5", {}),
        ("+ python run.py -w 200 -lr 0.5", {}),  # no word of hidden_dim begins so
    ],
)
def test_options_of_one_letter_have_names_in_the_list(launch: str, found: dict[str, str]) -> None:
    rows = "hidden_dim = 200\nlearning_rate = 0.500\nseed = 51"
    told = context(f"{launch}\n{rows}\n").settings
    assert {name: one.written for name, one in told.items() if name in ("hidden_dim", "learning_rate", "seed")} == found


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
    line = streams.page("job.log", 1, b"keep_last 12").lines[0]
    assert spelled(Printed(name, value, line), launched) == written  # type: ignore[arg-type]
