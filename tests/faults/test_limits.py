"""Little memory, few files, no home, no UTF-8, a narrow terminal: the same answer as elsewhere."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from started import COMMAND, ENVIRONMENT, HEADLINE, HEALTHY, OOM, run, said, with_logs
from terminal import at_a_terminal

MIB = 1024**2
ADDRESSES = "ulimit -v 300000"  # KiB


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return with_logs(tmp_path)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 MB, with the failure at its end."""
    path = tmp_path_factory.mktemp("large") / "train.log"
    block = (b"INFO trainer.py:7 -- step 12 loss 0.125 grad_norm 0.71\n" * (MIB // 50))[:MIB]
    with path.open("wb") as file:
        for _ in range(300):
            file.write(block)
        file.write(OOM.encode())
    return path


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="no limit on memory there")
def test_a_log_as_large_as_the_memory(large: Path) -> None:
    done = run("diagnose", large, line=f'{ADDRESSES}; "$@"')
    assert (done.returncode, done.stderr) == (1, b"")
    assert done.stdout.startswith(HEADLINE)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="no limit on memory there")
def test_what_needs_the_whole_text_says_that_there_is_no_room_for_it(large: Path) -> None:
    done = run("redact", large, "-o", large.with_name("public.log"), line=f'{ADDRESSES}; "$@"')
    assert done.returncode == 2
    assert said(done).startswith("oomdoctor: not enough memory to read these logs: ")
    assert [path.name for path in large.parent.iterdir()] == ["train.log"]


@pytest.mark.slow
def test_more_logs_than_files_may_be_open(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for number in range(60):
        (logs / f"worker-{number}.out").write_text(HEALTHY)
    with tarfile.open(tmp_path / "more.tar", "w") as archive:
        archive.add(logs, "more")
    (logs / "driver.log").write_text(OOM)
    done = run("diagnose", logs, tmp_path / "more.tar", "-f", "json", line='ulimit -n 12; "$@"')
    assert (done.returncode, done.stderr) == (1, b"")
    report = json.loads(done.stdout)
    assert (report["errors"], report["stats"]["files"]) == ([], 121)


ASCII = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize(
    ("form", "encoding"), [("text", ASCII), ("json", ASCII | {"PYTHONIOENCODING": "latin-1"})], ids=["text", "json"]
)
def test_a_locale_without_utf_8(tmp_path: Path, form: str, encoding: dict[str, str]) -> None:
    """Names and logs in another script, and a report in Chinese."""
    (tmp_path / "журнал 内存.log").write_text(OOM.replace("step 3", "шаг 3 \U0001f9a5"), encoding="utf-8")
    env = {name: value for name, value in ENVIRONMENT.items() if not name.startswith("LC_")} | encoding
    done = run("diagnose", "журнал 内存.log", "нет.log", "-f", form, "--lang", "zh", cwd=tmp_path, env=env)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    done.stdout.decode(encoding.get("PYTHONIOENCODING", "ascii"))
    if form == "json":
        assert json.loads(done.stdout)["verdict"] == "oom"


@pytest.mark.parametrize("arguments", [("diagnose", "--nope")], ids=" ".join)
def test_help_and_errors_in_a_locale_without_utf_8(arguments: tuple[str, ...]) -> None:
    done = run(*arguments, "--lang", "zh", env=ENVIRONMENT | ASCII)
    assert done.returncode == (2 if "--nope" in arguments else 0)
    (done.stdout + done.stderr).decode("ascii")


def without_home() -> dict[str, str]:
    return {name: value for name, value in ENVIRONMENT.items() if name not in ("HOME", "USER", "LOGNAME")}


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="homes are others there")
def test_no_home_and_no_name() -> None:
    """A user that no table of users knows, as in a container that was started with --user 54321."""
    script = (
        "import oomdoctor.street, oomdoctor.cli.app, oomdoctor.cli.issue, oomdoctor.helpers.forms, os, sys\n"
        "import oomdoctor.report.as_markdown, oomdoctor.redaction.learned, oomdoctor.helpers.our_form\n"
        "if os.geteuid() == 0: os.setgid(54321); os.setuid(54321)\n"  # what was imported from root's home is there
        "from pathlib import Path\n"
        "try: Path.home(); sys.exit('there is a home')\n"
        "except RuntimeError: pass\n"
        "from oomdoctor.cli import main\n"
        "main()"
    )
    if os.geteuid() != 0:
        pytest.skip("only root can become a user that nobody knows")
    if not all(folder.stat().st_mode & stat.S_IXOTH for folder in (Path(sys.prefix), *Path(sys.prefix).parents)):
        pytest.skip("others may not read the environment that the tests run in")
    told = subprocess.run(
        [sys.executable, "-c", script, "issue", "-", "--form", "~/form.yml"],
        input=OOM.encode(),
        check=False,
        capture_output=True,
        env=without_home(),
        timeout=60,
    )
    assert told.returncode == 2
    assert told.stderr.decode().splitlines()[-1].endswith("~/form.yml: no such file; name a form with --form")


@pytest.mark.slow
def test_a_home_that_cannot_be_written_to_is_not_missed(logs: Path) -> None:
    env = {**without_home(), "HOME": "/proc/self", "XDG_CACHE_HOME": "/proc/self", "XDG_CONFIG_HOME": "/proc/self"}
    done = run("issue", "oom.log", cwd=logs, env=env)
    assert done.returncode == 0
    assert sorted(path.name for path in logs.iterdir()) == ["healthy.log", "oom.log"]


_STYLE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("extra", [{}, {"TERM": "dumb"}], ids=str)
def test_a_terminal_of_twenty_columns(logs: Path, extra: dict[str, str]) -> None:
    code, seen = at_a_terminal([*COMMAND, "diagnose", str(logs / "oom.log")], ENVIRONMENT | extra, columns=20)
    assert code == 1
    lines = _STYLE.sub("", seen).split("\n")
    assert "\x1b" not in _STYLE.sub("", seen)
    assert ("\x1b" in seen) == (not extra)
    to_copy = [line for line in lines if len(line) > 20]
    assert all(line.startswith("  ") and " " in line.strip() for line in to_copy), to_copy  # lines to copy stay whole
    assert len(to_copy) < len(lines) / 4
