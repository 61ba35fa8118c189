"""The catalogue of messages that upstream programs print: each is read as an expert reads it, alone."""

from __future__ import annotations

import json
import re
import sys
from itertools import groupby
from pathlib import Path

import pytest

from benchmarks import catalogue
from benchmarks.catalogue import Answer, CatalogueError, Message, Program
from benchmarks.upstream.text import PERCENT

FEWEST = 80  # programs of the catalogue
WHOLE = 6  # letters of a template that are no accident
VALUE = re.compile(rf"\{{[^{{}}]*\}}|\.{{3}}|…|{PERCENT.pattern}")
BLANKS = re.compile(r"\s+|\\n")

PROGRAMS = catalogue.programs()
REFUSED = "CUDA out of memory. Tried to allocate 2.00 GiB."

ROW = """\
program = "Kiln"
repository = "kiln/kiln"
kind = "training"

[[message]]
file = "kiln/fire.py"
template = "the kiln is cold"
rendered = "the kiln is cold"
expect = "no-oom"
"""


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.program)
def test_each_message_is_read_as_an_expert_reads_it(program: Program) -> None:
    differences = {message: catalogue.wrong(message, catalogue.answer(message.rendered)) for message in program.message}
    assert "\n".join(it for message, it in differences.items() if it and not message.gap) == ""
    closed = [message.template for message, it in differences.items() if message.gap and not it]
    assert closed == [], "is right nowadays: its gap has gone"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.program)
def test_what_is_rendered_has_the_words_of_its_template(program: Program) -> None:
    assert [piece for message in program.message for piece in lost(message.template, message.rendered)] == []


def lost(template: str, rendered: str) -> list[str]:
    """The literal pieces of a template, or of that of its wordings that is nearest, that a text does not have."""
    text = BLANKS.sub("", rendered)
    wordings = ([BLANKS.sub("", piece) for piece in VALUE.split(wording)] for wording in template.split(" / "))
    return min(([piece for piece in one if len(piece) >= WHOLE and piece not in text] for one in wordings), key=len)


def test_no_message_stands_there_twice() -> None:
    texts = sorted(BLANKS.sub(" ", message.rendered).strip() for program in PROGRAMS for message in program.message)
    assert [text for text, same in groupby(texts) if len(list(same)) > 1] == []


def test_there_are_enough_programs_each_in_one_file() -> None:
    assert len({program.program for program in PROGRAMS}) == len(PROGRAMS) >= FEWEST


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (ROW.replace('kind = "training"', 'kind = "pottery"'), "no kind is called 'pottery'"),
        (ROW.replace("template", "templet"), "unknown field `templet`"),
        (ROW + 'colour = "red"\n', "unknown field `colour`"),
        (ROW.replace('file = "kiln/fire.py"\n', ""), "missing required field `file`"),
        (ROW.replace('"no-oom"', '"quiet"'), "Invalid enum value 'quiet'"),
        (ROW + 'causes = ["activations"]\n', "'no-oom' with causes"),
        (ROW.replace('"no-oom"', '"oom"'), "'oom' with causes"),
        (ROW.replace('"no-oom"', '"oom"\ncauses = ["cold"]\npool = "gpu"'), "no cause is called 'cold'"),
        (
            ROW.replace('"no-oom"', '"oom"\ncauses = ["activations"]\npool = ["gpu", "clay"]'),
            "no pool is called 'clay'",
        ),
        (
            ROW.replace('"no-oom"', '"oom"\ncauses = ["activations"]\npool = "gpu"\ninconclusive = true'),
            "a memory failure is not inconclusive",
        ),
        (ROW.replace("[[message]]", "[[message]"), "kiln.toml"),
    ],
)
def test_a_row_that_is_not_as_it_should_be_is_refused(row: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "kiln.toml"
    path.write_text(row, encoding="utf-8")
    with pytest.raises(CatalogueError, match=re.escape(fault)) as error:
        catalogue.program_in(path)
    assert "kiln.toml" in str(error.value)


def test_a_file_is_read_with_its_defaults(tmp_path: Path) -> None:
    (tmp_path / "kiln.toml").write_text(ROW, encoding="utf-8")
    (program,) = catalogue.programs(tmp_path)
    assert (program.program, program.kind) == ("Kiln", "training")
    (message,) = program.message
    assert (message.first, message.last, message.causes, message.gap, message.inconclusive) == ("", "", (), "", False)


def oom(causes: tuple[str, ...] = ("activations",), pool: str | tuple[str, ...] = "gpu") -> Message:
    return Message(file="f", template="t", rendered="r", expect="oom", causes=causes, pool=pool)


def test_an_answer_is_right_in_parts() -> None:
    said = Answer("oom", "activations", "gpu")
    assert catalogue.judged(oom(), said) == {"detected": True, "cause": True, "pool": True}
    assert catalogue.judged(oom(pool=("host_ram", "gpu")), said)["pool"]
    assert catalogue.judged(oom(("logits-spike",), "host_ram"), said) == {
        "detected": True,
        "cause": False,
        "pool": False,
    }
    unsure = Answer("inconclusive", "activations", "gpu")
    assert catalogue.judged(oom(), unsure) == {"detected": False, "cause": False, "pool": False}


def test_quiet_is_stricter_than_pressure() -> None:
    quiet = Message(file="f", template="t", rendered="r", expect="no-oom")
    pressure = Message(file="f", template="t", rendered="r", expect="pressure")
    either = Message(file="f", template="t", rendered="r", expect="no-oom", inconclusive=True)
    unsure, silent, loud = Answer("inconclusive"), Answer("no-oom"), Answer("oom", "activations", "gpu")
    assert [catalogue.judged(quiet, said)["quiet"] for said in (silent, unsure, loud)] == [True, False, False]
    assert [catalogue.judged(either, said)["quiet"] for said in (silent, unsure, loud)] == [True, True, False]
    assert [catalogue.judged(pressure, said)["pressure"] for said in (silent, unsure, loud)] == [True, True, False]


def test_what_is_wrong_is_said_with_what_was_wanted() -> None:
    said = Answer("oom", "activations", "gpu")
    assert catalogue.wrong(oom(), said) == ""
    assert catalogue.wrong(oom(("logits-spike",)), said) == (
        "cause: oom activations gpu (want oom logits-spike gpu): 't'"
    )


def test_a_template_of_other_words_is_seen() -> None:
    assert lost("Tried to allocate {} of memory", "tried.\nTried to\nallocate 3 of  memory") == []
    assert lost("a {size!r} b", "c") == []  # too short to tell
    assert lost("Tried to allocate {} of memory", "Tried to allocate 3 of RAM") == ["ofmemory"]
    assert lost("The cache is full ... try again", "The cache is full (3 of 3), try again") == []
    assert lost("The cache of %d tokens is full / The cache is gone", "The cache of 3 tokens is full") == []
    assert lost("The cache is full / The cache is gone", "The cache is here") == ["Thecacheisfull"]


def test_another_catalogue_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[dict[str, object]] = [
        {"expect": "oom", "causes": ["activations"], "pool": "gpu", "rendered": f"RuntimeError: {REFUSED}"},
        {"expect": "oom", "causes": ["shm-too-small"], "pool": "shm", "rendered": f"RuntimeError: {REFUSED}"},
        {"expect": "no-oom", "rendered": "loss 0.3", "inconclusive_ok": True, "causes": [], "pool": "none"},
        {"expect": "pressure", "rendered": "loss 0.3"},
    ]
    others = {"project": "kiln", "file": "f", "ref": "v1", "template": "t", "id": "1", "provenance": "source"}
    path = tmp_path / "messages.jsonl"
    path.write_text("".join(json.dumps(row | others) + "\n" for row in rows), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["catalogue", "--list", "--file", str(path), "Kiln"])
    assert catalogue.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("kiln: cause, pool: oom activations gpu (want oom shm-too-small shm): 't'")
    assert lines[1] == "kiln  detected 2/2  cause 1/2  pool 1/2  quiet 1/1  pressure 1/1"
    assert [line.split() for line in lines[2:5]] == [
        ["detected:", "2/2", "100.0%"], ["cause:", "1/2", "50.0%"], ["pool:", "1/2", "50.0%"]
    ]  # fmt: skip


def test_a_program_that_is_not_there_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["catalogue", "no-such-program"])
    with pytest.raises(SystemExit):
        catalogue.main()
    assert "no such program: no-such-program" in capsys.readouterr().err
