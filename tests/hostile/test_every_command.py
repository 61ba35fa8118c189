"""Every command with hostile logs, file names, settings, scripts and options: what it prints, where, is only words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import Terminal, run
from harmless import CHECKS, OBEYED
from payloads import MARK, PAYLOADS
from typer.testing import CliRunner

from oomdoctor.cli.app import app

# Each of them, in a row, without what no file's name and no argument may hold.
WORDS = "".join(words for name, words in PAYLOADS.items() if name not in ("a surrogate", "numbers")).replace("/", "∕")
NAME = re.sub(r"[^\x20-\x7e\x1b\x9b\u202e\n\r]|[|<>{}]", "", WORDS)[:90] + "\n::error::EVIL\n\udcff.log"

OOM = (
    f"(Actor{WORDS} pid=7, ip=10.0.0.7) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 "
    "has a total capacity of 23.60 GiB of which 1.25 GiB is free. Including non-PyTorch memory, this process has 22.30 "
    "GiB memory in use. Of the allocated memory 21.00 GiB is allocated by PyTorch, and 900.00 MiB is reserved by "
    f"PyTorch but unallocated. {WORDS}\n"
).replace("\n", " ")
LOG = (
    f"vllm serve {WORDS} --max-num-seqs 256 --max-model-len 8192 --kv-cache-dtype={WORDS}\n"
    f"USER=mireille{WORDS}\n"
    f"python -m openrlhf.cli.train_ppo_ray --micro_train_batch_size 8 --pretrain {WORDS} --zero_stage 2\n"
    f'Traceback (most recent call last):\n  File "{WORDS}", line 3, in {WORDS}\n    {WORDS}\n{OOM}\n'
).replace("\r", " ")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    for name in (NAME, "plain.log"):
        (tmp_path / name).write_text(LOG, encoding="utf-8", errors="replace")
    (tmp_path / "good.log").write_text("vllm serve m --max-num-seqs 8\nstep 1\n")
    (tmp_path / "draft.md").write_text(f"# x\n\n```\n{LOG}```\n", encoding="utf-8", errors="replace")
    (tmp_path / f"run{NAME}").write_text(f"export A='{WORDS}'\npython x.py --zero_stage 3 --model {WORDS}\n", "utf-8")
    (tmp_path / f"conf{NAME}").write_text(f"trainer:\n  zero_stage: 3\n  name: '{WORDS}'\n  {WORDS}: 3\n", "utf-8")
    return tmp_path


def printed(*arguments: str) -> tuple[str, str]:
    """What stands on standard output and on standard error."""
    done = CliRunner().invoke(app, list(arguments))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.stdout, done.stderr


def check(form: str, told: tuple[str, str]) -> None:
    CHECKS[form](told[0].replace("\t", " "))
    assert OBEYED.search(told[1]) is None, repr(told[1])
    assert not [line for line in told[1].splitlines() if line.lstrip().startswith("::") or "##[" in line], told[1]


@pytest.mark.parametrize("form", CHECKS)
def test_diagnose(folder: Path, form: str) -> None:
    for redacted in ("--redact", "--no-redact"):
        told = printed("diagnose", NAME, "gone" + NAME, "-f", form, redacted, "-v")
        check(form, told)
        assert "3.50 GiB" in told[0]
        assert "no such file" in told[1]


def test_what_is_told_beside_the_log(folder: Path) -> None:
    told = printed("diagnose", NAME, "--launch", f"run{NAME}", "--assume", f"zero_stage={WORDS}", "-v")
    check("text", told)
    check("text", printed("diagnose", NAME, "--config", f"conf{NAME}", "-v"))


@pytest.mark.parametrize(
    ("form", "arguments"),
    [
        ("jsonl", ("events", NAME)),
        ("text", ("whatif", NAME, "--set", "max_num_seqs=8", "--set", "zero_stage=3")),
        ("json", ("whatif", NAME, "--set", "max_num_seqs=8", "-f", "json")),
        ("text", ("compare", "good.log", NAME)),
        ("json", ("compare", "good.log", NAME, "-f", "json")),
        ("markdown", ("issue", NAME)),
        ("text", ("issue", NAME, "--repo", "a/b", "--url")),
        ("text", ("redact", "--check", "--strict", NAME)),
        ("text", ("issue-form",)),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else value,
)
def test_the_other_commands(folder: Path, form: str, arguments: tuple[str, ...]) -> None:
    told = printed(*arguments)
    check(form, told)
    assert told[0]


@pytest.mark.parametrize("form", ["jsonl", "markdown"])
def test_watch(folder: Path, form: str) -> None:
    done = run("watch", "-", "-f", form, feed=(folder / "plain.log").read_bytes())
    assert done.returncode == 1
    check(form, (done.stdout.decode(), done.stderr.decode()))


def test_a_draft_is_brought_up_to_date(folder: Path) -> None:
    before = (folder / "draft.md").read_text()
    check("text", printed("draft", "draft.md", "gone" + NAME))
    after = (folder / "draft.md").read_text()
    CHECKS["markdown"](after.replace(before.rstrip("\n"), ""))


@pytest.mark.parametrize(
    "arguments",
    [
        ("diagnose", "--" + NAME),
        ("diagnose", "-f", NAME),
        ("diagnose", "plain.log", "-o", f"gone/{NAME}"),
        ("diagnose", "plain.log", "--launch", "gone" + NAME),
        ("diagnose", "plain.log", "--config", "gone" + NAME),
        ("diagnose", "plain.log", "--assume", NAME),
        ("whatif", "plain.log", "--set", NAME),
        ("whatif", "plain.log", "--set", f"max_num_seqs={WORDS}"),
        ("issue", "plain.log", "--form", NAME),
        ("issue", "plain.log", "--url", "--repo", NAME),
        ("explain", NAME),
        ("knobs", NAME),
        ("watch", "gone/" + NAME),
        ("bench", NAME),
        ("diagnose", "--lang", NAME),
        (NAME,),
        ("nope" + NAME,),
    ],
    ids=lambda arguments: " ".join(arguments)[:20].encode("ascii", "replace").decode(),
)
def test_wrong_usage_is_said_in_plain_words(folder: Path, arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, list(arguments))
    told = done.stderr or f"{done.exception}"
    assert done.exit_code != 0
    assert MARK in told
    if done.stderr:
        check("text", (done.stdout, told))


@pytest.mark.parametrize("command", ["redact", "reduce"])
def test_a_terminal_gets_no_escapes_of_a_log_that_is_passed_on(folder: Path, command: str) -> None:
    """`redact` and `reduce` keep a log as it is in a file, and obeyed by nobody at a terminal."""
    seen = run(command, str(folder / "plain.log"), out=Terminal).stdout.decode()
    assert seen
    assert OBEYED.search(seen) is None
    assert printed(command, "plain.log")[0].count("\x1b") > 0
