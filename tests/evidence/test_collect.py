"""`oomdoctor collect`: what is asked, what is said of what is not there, and that `diagnose` takes the archive."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from oomdoctor.evidence import answers
from oomdoctor.evidence.questions import questions

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
KILLED = "step 41 loss 0.52\nstep 42 loss 0.51\nKilled\n"


def program(folder: Path, name: str, script: str) -> None:
    target = folder / name
    target.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    target.chmod(0o755)


def collect(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "oomdoctor", "collect", *options],
        cwd=folder,
        env={**os.environ, "PATH": f"{folder}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def texts(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as packed:
        return {
            Path(member.name).stem: (packed.extractfile(member) or pytest.fail("no file")).read().decode()
            for member in packed.getmembers()
        }


def test_it_gathers_what_there_is_and_lists_the_rest(tmp_path: Path) -> None:
    program(tmp_path, "npu-smi", "echo no driver >&2; exit 1")
    done = collect(tmp_path)
    found = texts(tmp_path / "evidence.tar.gz")
    assert done.returncode == 0
    assert found["processes"].startswith("$ ps -eo pid,ppid,user,rss,args --sort=-rss\n")
    assert "MemAvailable:" in found["proc-meminfo"]
    assert "npu-smi info: no driver\n" in found["not-available"]
    assert "not available: npu-smi info (no driver)" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(("option", "name"), [("--job", "slurm-job"), ("--container", "container"), ("--pod", "pod")])
def test_only_what_is_named_is_asked_for(tmp_path: Path, option: str, name: str) -> None:
    for each in ("sacct", "scontrol", "docker", "kubectl"):
        program(tmp_path, each, 'echo "of $*"')
    collect(tmp_path)
    assert name not in texts(tmp_path / "evidence.tar.gz")
    collect(tmp_path, option, "4711")
    assert "4711" in texts(tmp_path / "evidence.tar.gz")[name].splitlines()[1]


def test_a_name_is_a_word_and_no_script(tmp_path: Path) -> None:
    program(tmp_path, "docker", 'for word in "$@"; do echo "<$word>"; done')
    collect(tmp_path, "--container", "a b; touch owned {POD}")
    assert "<a b; touch owned {POD}>" in texts(tmp_path / "evidence.tar.gz")["container"]
    assert not (tmp_path / "owned").exists()


def test_a_command_that_hangs_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "free", "sleep 60")
    monkeypatch.setattr(answers, "LONGEST_S", 0.2)
    asked = next(
        question for question in questions({"JOB": None, "CONTAINER": None, "POD": None}) if "free" in question.words
    )
    said = answers.answer(asked, {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert (said.text, said.missing) == ("", "no answer in 0.2 seconds")


def test_of_a_long_answer_the_newest_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(
        tmp_path,
        "dmesg",
        'echo first; i=0; while [ $i -lt 400 ]; do echo "line $i of the log"; i=$((i+1)); done; echo last',
    )
    monkeypatch.setattr(answers, "LARGEST", 2000)
    asked = next(
        question for question in questions({"JOB": None, "CONTAINER": None, "POD": None}) if question.name == "kernel"
    )
    said = answers.answer(asked, {"PATH": f"{tmp_path}:/usr/bin:/bin"}).text
    assert said.endswith("last\n")
    assert "first" not in said


def test_secrets_and_names_stay_here_where_asked(tmp_path: Path) -> None:
    secret = "hf_" + "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3b"
    program(tmp_path, "ps", f"echo '4711 1 root 4096 python train.py --token {secret}'")
    collect(tmp_path)
    assert secret in texts(tmp_path / "evidence.tar.gz")["processes"]
    collect(tmp_path, "--redact")
    assert secret not in texts(tmp_path / "evidence.tar.gz")["processes"]


def test_an_archive_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    done = collect(tmp_path, "-o", "nowhere/evidence.tar.gz")
    assert done.returncode == 2
    assert "nowhere" in done.stderr
