from __future__ import annotations

import pytest
from typer.testing import CliRunner

from oomdoctor import spellings
from oomdoctor.causes import Cause, causes
from oomdoctor.cli.app import app
from oomdoctor.remedies import settings


def told(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["explain", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_page_ends_with_how_to_have_it_spelled() -> None:
    """The names of all programs are longer than the page: who asks for a wrong one gets them."""
    end = " ".join(told("activations").rpartition("## In your framework")[2].split())
    assert f"one of {len(spellings.frameworks())} programs" in end
    assert {"vllm", "transformers", "ray"} <= set(spellings.frameworks())
    done = CliRunner().invoke(app, ["explain", "activations", "--framework", "bogus"])
    assert done.exit_code == 2
    assert all(name in done.output for name in spellings.frameworks())


@pytest.mark.parametrize("framework", ["verl", "vllm", "deepspeed"])
@pytest.mark.parametrize("cause", causes(), ids=lambda cause: cause.id)
def test_what_to_change_is_spelled_for_the_framework(cause: Cause, framework: str) -> None:
    section = told(cause.id, "--framework", framework).rpartition(f"## In {spellings.title(framework)}")[2]
    expected = [row.shown for knob in cause.knobs for row in settings.of_knob(knob, framework)]
    flat = " ".join(section.split())
    assert all(" ".join(shown.split()) in flat for shown in expected)
    assert expected or "has no setting for any of these" in flat


def test_its_signs_are_printed_instead_where_they_are_asked_for() -> None:
    page = told("container-limit", "--signs")
    assert "**PROVES** `kernel_hit_the_limit_of_a_group`" in page
    assert "What to change" not in page
