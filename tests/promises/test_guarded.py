"""No network, no process, nothing of a log opened, imported or executed, nothing written but what was named."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hostile_logs import OOM, planted

from oomdoctor.cli.app import app

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
FORMS = ("text", "json", "jsonl", "markdown", "html", "github")
Guarded = Callable[..., dict[str, Any]]
# The one asks a cluster through Ray, the other fits a model with scikit-learn, and both start what they like.
# A recorder starts the job, and who gathers evidence the programs that tell it.
UNTESTED = {"cluster", "train", "dev train", "run", "collect"}


@pytest.fixture(scope="session")
def guarded() -> Guarded:
    def run(
        commands: Sequence[dict[str, Any]] = (),
        *,
        readable: Sequence[object] = (),
        writable: Sequence[object] = (),
        folder: Path | None = None,
        env: dict[str, str] | None = None,
        **others: Any,
    ) -> dict[str, Any]:
        """What the program beside this told of these commands."""
        told = {"commands": list(commands), "readable": [*map(str, readable)], "writable": [*map(str, writable)]}
        done = subprocess.run(
            [sys.executable, "-B", Path(__file__).with_name("guarded.py")],
            input=json.dumps(told | others),
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env=env,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return run


def command(*arguments: object, stdin: object = None) -> dict[str, Any]:
    return {"arguments": [*map(str, arguments)], "stdin": str(stdin) if stdin is not None else None}


def every_command(folder: Path, log: Path, bait: Path) -> list[dict[str, Any]]:
    case = folder / "cases" / "one"
    case.mkdir(parents=True)
    shutil.copy(log, case / "log.txt")
    (case / "case.json").write_text('{"root_cause": "gpu-memory-exhausted"}')
    (folder / "draft.md").write_text(f"# A crash\n\n```text\n{OOM}```\n")
    (folder / "launch.sh").write_text(
        f"source {bait}/run.sh\npython -m vllm.entrypoints.openai.api_server --model {bait}\n"
    )
    (folder / "config.yaml").write_text(f"trainer:\n  default_local_dir: {bait}\n  include: {bait}/config.json\n")
    beside = ("--launch", folder / "launch.sh", "--config", folder / "config.yaml", "--assume", "vllm=0.8.3")
    return [
        *(command("diagnose", log, "-f", form) for form in FORMS),
        *(command("diagnose", log, "-v", "-f", form, "-o", folder / f"report.{form}") for form in FORMS),
        command("diagnose", log, *beside),
        command("diagnose", "-", stdin=log),
        command("events", log),
        command("watch", "-", stdin=log),
        command("watch", "-f", "markdown", "-", "-o", folder / "watched.md", stdin=log),
        command("compare", log, log),
        command("compare", log, log, "-f", "json"),
        command("whatif", log, "--set", "zero_stage=2"),
        command("whatif", log, "--set", "zero_stage=2", "-f", "json"),
        command("issue", log, *beside),
        command("issue", log, "--repo", "a/b", "--url"),
        command("issue-form"),
        command("issue-form", "--keep", folder / "oom.yml"),
        command("draft", folder / "draft.md"),
        command("reduce", log),
        command("redact", log),
        command("redact", "--check", log, folder / "launch.sh"),
        command("issue", "form"),
        command("issue", "draft", folder / "draft.md"),
        command("issue", "reduce", log),
        command("issue", "redact", log),
        command("explain", "causes"),
        command("explain", "knobs"),
        command("dev"),
        command("dev", "events", log),
        command("dev", "schema"),
        command("dev", "bench", folder / "cases"),
        command("explain", "activations"),
        command("explain", "activations", "--framework", "verl"),
        command("causes"),
        command("knobs"),
        command("schema"),
        command("bench", folder / "cases"),
        command("diagnose", "--help"),
        command("--version"),
    ]


@pytest.fixture(scope="module", params=["some", pytest.param("all", marks=pytest.mark.slow)])
def told(request: pytest.FixtureRequest, guarded: Guarded, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the diagnosis did with hostile files in every form; or every command, and the diagnosis with every folder of
    fixtures."""
    folder = tmp_path_factory.mktemp("promises")
    log, bait = planted(folder)
    commands = every_command(folder, log, bait)[: None if request.param == "all" else len(FORMS)]
    fixtures = [
        command("diagnose", path, "-f", FORMS[number % 3])  # the others take their time
        for number, path in enumerate(sorted(FIXTURES.iterdir()))
        if request.param == "all" and path.is_dir() and any(path.glob("*.log"))
    ]
    written = [*(folder / f"report.{form}" for form in FORMS), *(folder / name for name in (
        "watched.md", "oom.yml", "draft.md", "summary"))]  # fmt: skip
    read = [log, FIXTURES, *(folder / name for name in ("launch.sh", "config.yaml", "cases"))]
    env = {**os.environ, "GITHUB_STEP_SUMMARY": str(folder / "summary"), "GITHUB_WORKSPACE": str(folder)}
    found = guarded([*commands, *fixtures], readable=read, writable=written, folder=folder, env=env)
    left = {str(path.relative_to(folder)) for path in folder.rglob("*")} - {"cases/one"}
    return found | {"left": left, "commands": commands, "all": request.param == "all"}


def offences(told: dict[str, Any], *events: str) -> list[dict[str, str]]:
    return [one for one in told["offences"] if one["event"].startswith(events)]


def test_nothing_is_sent_or_fetched(told: dict[str, Any]) -> None:
    assert offences(told, "socket.", "urllib.", "http.", "ftplib.", "smtplib.") == []


def test_no_process_is_started(told: dict[str, Any]) -> None:
    assert offences(told, "subprocess.", "os.", "pty.") == []


def test_nothing_is_executed_imported_compiled_or_unpickled(told: dict[str, Any]) -> None:
    assert offences(told, "exec", "compile", "pickle.", "marshal.", "ctypes.", "code.") == []


def test_nothing_is_opened_or_written_but_what_was_named(told: dict[str, Any]) -> None:
    """A path that stands in a log leads nowhere."""
    assert offences(told, "open") == []
    assert not {name for name in told["left"] if "owned" in name or name.endswith(".part")}


def test_nothing_else_is_done_either_and_every_command_did_its_work(told: dict[str, Any]) -> None:
    assert told["offences"] == []
    assert {name for name, code in told["codes"].items() if code not in (0, 1, 3)} == set()
    done = {" ".join(one["arguments"][:words]) for one in told["commands"] for words in (1, 2)}
    commands = {one.name or one.callback.__name__.replace("_", "-") for one in app.registered_commands if one.callback}
    assert commands - done == UNTESTED or not told["all"]


def test_large_logs_are_read_by_copies_of_the_process_and_by_nothing_else(guarded: Guarded, tmp_path: Path) -> None:
    """What comes back from them is made of classes of ours: no other class is unpickled."""
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text("step 1\n" * 1000 + OOM)
    found = guarded([command("diagnose", tmp_path)], readable=[tmp_path], forks=True, large=True)
    assert found == {"offences": [], "codes": {f"diagnose {tmp_path}": 1}}
    found = guarded([command("diagnose", tmp_path)], readable=[tmp_path], large=True)
    assert [one["event"] for one in found["offences"]] == ["os.fork"]


OFFENDERS = (
    ("import socket; socket.socket()", "socket.__new__"),
    ("import socket; socket.getaddrinfo('localhost', 80)", "socket.getaddrinfo"),
    ("import urllib.request; urllib.request.urlopen('http://127.0.0.1:9')", "urllib.Request"),
    ("import subprocess; subprocess.run(['true'])", "subprocess.Popen"),
    ("import os; os.system('true')", "os.system"),
    ("import os; os.execv('/bin/true', ['true'])", "os.exec"),
    ("import os; os.posix_spawn('/bin/true', ['true'], {})", "os.posix_spawn"),
    ("import os; os.fork() or os._exit(0)", "os.fork"),
    ("import pickle; pickle.loads(b'cos\\nsystem\\n.')", "pickle.find_class"),
    ("import marshal; marshal.loads(marshal.dumps(1))", "marshal.loads"),
    ("eval('1 + 1')", "compile"),
    ("exec('x = 1')", "compile"),
    ("import ctypes; ctypes.CDLL(None)", "ctypes.dlopen"),
    ("open('/etc/hostname')", "open"),
    ("import os; os.open('/etc/hostname', os.O_RDONLY)", "open"),
    ("open('owned', 'w')", "open"),
    ("from pathlib import Path; Path('owned').touch()", "os.utime"),
    ("import os; os.mkdir('owned')", "os.mkdir"),
    ("import os; os.remove('owned')", "os.remove"),
    ("import os; os.rename('hostile.log', 'owned')", "os.rename"),
    ("import os; os.symlink('a', 'owned')", "os.symlink"),
    ("import os; os.kill(os.getpid(), 0)", "os.kill"),
    ("import os; os.listdir('/')", "os.listdir"),
)


def test_the_guard_sees_what_it_is_there_for(guarded: Guarded, tmp_path: Path) -> None:
    found = guarded(snippets=[code for code, _ in OFFENDERS], folder=tmp_path)
    seen = {(one["command"], one["event"]) for one in found["offences"]}
    assert [offender for offender in OFFENDERS if offender not in seen] == []
    assert list(tmp_path.iterdir()) == []
