"""Whatever a log says where a report quotes it, no form of the report makes anything of it but words."""

from __future__ import annotations

from pathlib import Path

import pytest
from harmless import CHECKS
from payloads import MARK, PAYLOADS, poisoned, quoted, reported

from oomdoctor.cli import out
from oomdoctor.cli.reports import rendered
from oomdoctor.report import as_github
from oomdoctor.report.contract import Report
from oomdoctor.sources import shown
from oomdoctor.text import disarm

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"

# Logs that name processes, nodes, actors, paths, models, settings, cgroups and cards, of many writers.
LOGS = tuple(
    min((FIXTURES / folder).rglob("*.log"))
    for folder in (
        "cuda", "kernel", "ray_kill", "container", "nvidia_smi", "stories",
    )
)  # fmt: skip
LOOK = out.Style(width=100, color=False, unicode=False)


def every_form(report: Report) -> dict[str, str]:
    forms = {form: rendered(report, form, LOOK, redacted=False, verbose=True) for form in CHECKS if form != "github"}
    return forms | {"github": as_github.document(report, {})}


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_form_makes_anything_of_it(payload: str) -> None:
    marked = 0
    name = shown(f"{PAYLOADS[payload]}.log".replace("\ud800", ""))  # which no system has in a name
    for log in LOGS:
        text = log.read_text(errors="replace")
        report = reported(poisoned(text, PAYLOADS[payload], quoted(reported(text))), name)
        for form, words in every_form(report).items():
            CHECKS[form](words)
            marked += MARK in words
    assert marked > len(LOGS), "nothing of it was quoted, and nothing was tested"


@pytest.mark.parametrize("payload", ["rich", "format", "shell", "Markdown"])
def test_what_is_only_words_is_shown_as_it_is(payload: str) -> None:
    """No style, no link and no field of a template: the text report has the very characters."""
    words = PAYLOADS[payload]
    log = f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. {words}\n"
    assert disarm(words) in every_form(reported(log))["text"]


def test_colours_are_ours_alone() -> None:
    log = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. {}\n"
    look = out.Style(width=100, color=True, unicode=True)
    tame, wild = (
        rendered(reported(log.format(words)), "text", look, redacted=False, verbose=True)
        for words in (MARK, PAYLOADS["CSI"] + PAYLOADS["OSC 8 (a link)"])
    )
    assert tame.count("\x1b") == wild.count("\x1b") > 0
