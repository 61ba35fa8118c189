"""A shell that says how a job ended repeats the job's command, and its options are those of the job."""

from __future__ import annotations

from pathlib import Path

import pytest

import oomdoctor
from oomdoctor.job.launch import read_line

COMMAND = "python fit.py --batch-size 4"
REPORTS = (
    f"run.sh: line 12:  4711 Killed                  {COMMAND}",
    f"/bin/bash: line 1:    71 Killed                  {COMMAND}",
    f"run.sh: Zeile 12:  4711 Getötet                 {COMMAND}",
    f"run.sh: line 12:  4711 Aborted                 (core dumped) {COMMAND}",
    f"run.sh: line 12:  4711 Killed                  ( {COMMAND} )",
    f"[1]+  Killed                  {COMMAND}",
    f"[2]-  4711 Killed                  {COMMAND}",
    f"[1]    4711 killed     {COMMAND}",
    f"[1]  + 4711 killed     {COMMAND}",
    f"zsh: killed     {COMMAND}",
)
OTHERS = (
    f"worker: pid 4711 was killed by hand; they ran {COMMAND}",
    "run.sh: line 12: 4711 Killed",
    "app.py: line 7: 99 problems  with --batch-size 4",
)


@pytest.mark.parametrize("text", REPORTS)
def test_the_command_behind_a_report(text: str) -> None:
    assert read_line(text, continued=False) == [("batch_size", 4)]


@pytest.mark.parametrize("text", OTHERS)
def test_no_command_behind_it(text: str) -> None:
    assert read_line(text, continued=False) == []


@pytest.mark.parametrize("program", ["./sift", "target/release/sift", "/opt/tools-1.2/bin/sift", "~/bin/sift"])
@pytest.mark.parametrize("before", ["run.sh: line 12:  4711 Aborted                 ", "+ ", "++ ", "me@box:~/x $ "])
def test_a_program_of_any_language_by_its_path(before: str, program: str) -> None:
    assert read_line(f"{before}{program} --parts 4", continued=False) == [("parts", 4)]


@pytest.mark.parametrize(
    "text",
    [
        "./sift --parts 4",  # told to nobody
        "see ./sift --parts 4",
        "- ./sift --parts 4",
        "+ sift --parts 4",
        "+ they run ./sift --parts 4",
        "1 + ./sift --parts 4",
        "me@box:~/x $ see ./sift --parts 4",
        "[1]+  Killed                  sift --parts 4",
        "[1]+  Killed                  https://x.org/sift --parts 4",
    ],
)
def test_what_only_speaks_of_a_program(text: str) -> None:
    assert read_line(text, continued=False) == []


@pytest.mark.parametrize(
    ("last", "first"),
    [
        (REPORTS[0], "--batch-size 2"),
        ("CalledProcessError: Command '['python', 'fit.py', '--batch-size', '4']' died with <Signals.SIGKILL: 9>.",
         "--batch-size 2"),
        ("run.sh: line 12:  4711 Killed                  python fit.py", None),
    ],
)  # fmt: skip
def test_a_remedy_turns_the_option_of_the_command(tmp_path: Path, last: str, first: str | None) -> None:
    (tmp_path / "job.log").write_text(f"starting\n{last}\n", encoding="utf-8")
    remedies = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]["remedies"]
    turned = [remedy["snippet"].strip() for remedy in remedies if remedy["knob"] == "smaller-microbatch"]
    assert turned == ([first] if first else [])
