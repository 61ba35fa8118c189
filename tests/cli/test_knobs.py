from __future__ import annotations

import pytest
from typer.testing import CliRunner

from oomdoctor import spellings
from oomdoctor.cli.app import app
from oomdoctor.remedies import settings
from oomdoctor.remedies.knobs import KNOBS


def told(*arguments: str) -> list[str]:
    done = CliRunner(env={"COLUMNS": ""}).invoke(app, ["knobs", *arguments])  # a program reads it
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_all_knobs_with_what_they_relieve() -> None:
    lines = told()
    assert [line.split()[0] for line in lines[1:]] == list(KNOBS)
    assert next(line for line in lines if line.startswith("engine-sleep")).split()[1:4] == [
        "gpu",
        "host_ram,",
        "cgroup",
    ]


def test_one_knob_in_every_framework() -> None:
    lines = told("engine-sleep")
    assert lines[0].startswith("engine-sleep: ")
    assert "Spends: host_ram, cgroup." in lines[1]
    named = {line.split()[0] for line in lines[4:]}
    assert named == {name for name in spellings.frameworks() if any(settings.of_knob("engine-sleep", name))}


def test_the_share_is_one_option_for_both_directions() -> None:
    assert (
        told("raise-engine-reservation", "--framework", "vllm")[4:]
        == told("lower-engine-reservation", "--framework", "vllm")[4:]
    )


@pytest.mark.parametrize("framework", spellings.frameworks())
def test_a_framework_shows_each_of_its_rows(framework: str) -> None:
    text = "\n".join(told("--framework", framework))
    for row in settings.rows(framework):
        if row.knob in KNOBS:
            assert row.write.partition("{}")[0] in text


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("engine-slep",), "did you mean engine-sleep"),
        (("gpu-memory-utilization",), "a setting of lower-engine-reservation and raise-engine-reservation"),
        (("xyzzy",), "`oomdoctor explain knobs` lists all knobs"),
        (("--framework", "vlm"), "did you mean vllm"),
        (("--framework", "???"), "known: "),
    ],
)
def test_what_does_not_exist_is_said_with_what_does(arguments: tuple[str, ...], hint: str) -> None:
    done = CliRunner(env={"COLUMNS": ""}).invoke(app, ["knobs", *arguments])  # a program reads it
    assert done.exit_code == 2
    assert hint in " ".join(done.output.split())
