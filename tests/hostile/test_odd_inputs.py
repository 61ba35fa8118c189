"""Numbers, brackets and files that nobody reckons with."""

from __future__ import annotations

import os
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from harmless import CHECKS
from payloads import reported
from test_every_form import FIXTURES, every_form
from typer.testing import CliRunner

from oomdoctor import diagnose
from oomdoctor.cli.app import app

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacity of 23.60 GiB "
    "of which 1.25 GiB is free. Of the allocated memory 21.00 GiB is allocated by PyTorch.\n"
)
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")
NUMBERS: dict[str, Callable[[re.Match[str]], str]] = {
    "negative": lambda found: f"-{found[0]}",
    "NaN": lambda found: "nan",
    "infinite": lambda found: "inf",
    "hardly a float": lambda found: "1e308",
    "too large for a float": lambda found: "1e400",
    "of 400 digits": lambda found: "9" * 400 + ".9",
    "of 5000 digits": lambda found: "9" * 5000,
    "zero": lambda found: "0",
    "Arabic": lambda found: "٣٤",
    "raised": lambda found: "²",
}
# Among them those whose figures are divided, shifted and drawn.
LOGS = (
    "cuda/g1-cached.log", "cuda/caught-and-died.log", "vllm_figures/v1-ascend-audio.log",
    "vllm_figures/v0-negative-room.log", "nvidia_smi/lists-of-any-columns.log",
    "stories/open-reasoner-zero-colocated/train.log", "stories/openrlhf-scheduling/log.txt",
)  # fmt: skip


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("name", LOGS)
def test_no_number_breaks_a_report(name: str, kind: str) -> None:
    text = (FIXTURES / name).read_text(errors="replace")
    lot = random.Random(kind)
    some = NUMBER.sub(lambda found: NUMBERS[kind](found) if lot.random() < 0.2 else found[0], text)
    for changed in (NUMBER.sub(NUMBERS[kind], text), some):
        for form, words in every_form(reported(changed)).items():
            CHECKS[form](words)


@pytest.mark.slow
@pytest.mark.parametrize("sign", ["(", "[{(", '{"a":', "\\", "- ", "\x1b["])
def test_a_million_brackets(sign: str) -> None:
    many = sign * (1_000_000 // len(sign))
    for log in (
        f"{many}\n{OOM}",
        f"{{'model': {many}\n{OOM}",
        f"python -m verl.trainer.main_ppo {many}\n{OOM}",
        f'Traceback (most recent call last):\n  File "{many}", line 3, in f\n{OOM}',
    ):
        report = reported(log)
        assert report.verdict == "oom"
        for form, words in every_form(report).items():
            CHECKS[form](words)


@pytest.mark.skipif(sys.platform == "win32", reason="links are others there")
def test_links_that_lead_to_themselves(tmp_path: Path) -> None:
    (tmp_path / "loop.log").symlink_to("loop.log")
    (tmp_path / "there").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "oom.log").write_text(OOM)
    (trouble,) = diagnose(tmp_path / "loop.log").errors
    assert (Path(trouble.file).name, trouble.why) == ("loop.log", "too many levels of symbolic links")
    report = diagnose(tmp_path)
    assert (report.verdict, report.stats.files, report.errors) == ("oom", 1, ())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
@pytest.mark.parametrize(
    ("option", "what", "why"),
    [
        ("--launch", "pipe", None),
        ("--launch", "/dev/zero", "not a file"),
        ("--config", "/dev/zero", "not a file"),
        ("--config", ".", "is a directory"),
    ],
)
def test_a_script_that_is_none_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, what: str, why: str | None
) -> None:
    """Nobody writes to the pipe."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("oom.log").write_text(OOM)
    done = CliRunner().invoke(app, ["diagnose", "oom.log", option, what])
    assert done.exit_code == (1 if why is None else 2)
    assert why is None or why in done.stderr


def test_a_form_that_is_a_device(tmp_path: Path) -> None:
    (tmp_path / "oom.log").write_text(OOM)
    done = CliRunner().invoke(app, ["issue", str(tmp_path / "oom.log"), "--form", "/dev/zero"])
    assert done.exit_code == 2
    assert "/dev/zero: not a file" in done.stderr
