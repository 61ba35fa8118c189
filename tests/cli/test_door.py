"""The installed command, run as people run it; in this process, where it needs none of its own."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from array import array
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
import terminal
from commands import COMMAND, ENVIRONMENT, Terminal, run, run_process

from oomdoctor import cli
from oomdoctor.cli.commands import COMMANDS, OLD_NAMES

OOM = (
    "step 3\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacity of "
    "23.60 GiB of which 1.25 GiB is free. Including non-PyTorch memory, this process has 22.30 GiB memory in use. Of "
    "the allocated memory 21.00 GiB is allocated by PyTorch, and 900.00 MiB is reserved by PyTorch but unallocated.\n"
)
HEALTHY = "step 1 loss 0.31\nstep 2 loss 0.29\n"
KILLED = "step 1 loss 0.31\nKilled\n"


def run_redirected(redirection: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    line = f'"$@" {redirection}'
    return subprocess.run(
        ["/bin/sh", "-c", line, "sh", *COMMAND, *arguments],
        check=False,
        capture_output=True,
        env=ENVIRONMENT,
        timeout=60,
    )


def at_a_terminal(*arguments: str, **extra: str) -> tuple[int, str]:
    return terminal.at_a_terminal([*COMMAND, *arguments], ENVIRONMENT | extra)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for name, text in (("oom.log", OOM), ("healthy.log", HEALTHY), ("killed.log", KILLED)):
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["healthy.log"], 0),
        (["oom.log"], 1),
        (["killed.log"], 3),
        (["gone.log"], 2),
        (["healthy.log", "gone.log"], 2),
        (["oom.log", "gone.log"], 1),
        (["killed.log", "gone.log"], 3),
        (["healthy.log", "oom.log"], 1),
        (["--exit-zero", "healthy.log"], 0),
        (["--exit-zero", "oom.log"], 0),
        (["--exit-zero", "killed.log"], 0),
        (["--exit-zero", "gone.log"], 2),
    ],
)
@pytest.mark.parametrize("command", ["diagnose", "events"])
def test_exit_codes(logs: Path, command: str, names: list[str], expected: int) -> None:
    done = run(command, *(name if name.startswith("-") else str(logs / name) for name in names))
    assert done.returncode == expected, done.stderr
    complaints = done.stderr.decode().splitlines()
    assert len(complaints) == names.count("gone.log")
    assert all(line.startswith("oomdoctor: ") and "gone.log" in line for line in complaints)


def test_the_same_report_from_a_file_and_from_every_kind_of_pipe(logs: Path) -> None:
    def bare(done: subprocess.CompletedProcess[bytes]) -> Any:
        return json.loads(done.stdout.replace(b"<stdin>", b"oom.log"))

    expected = json.loads(run("diagnose", str(logs / "oom.log"), "--format", "json").stdout)
    assert expected["verdict"] == "oom"
    assert bare(run_process("diagnose", "--format", "json", feed=OOM)) == expected
    assert bare(run("diagnose", "-", "--format", "json", feed=OOM)) == expected


def test_a_pipe_without_a_command_is_read() -> None:
    done = run_process(feed=OOM)
    assert done.returncode == 1
    assert done.stdout.startswith(b"OUT OF MEMORY: ")


def test_the_library_and_the_command_give_the_same(logs: Path) -> None:
    from oomdoctor import diagnose

    assert (
        json.loads(run("diagnose", str(logs / "oom.log"), "-f", "json").stdout)
        == diagnose(str(logs / "oom.log")).as_json()
    )


def test_json_lines(logs: Path) -> None:
    (line,) = run("diagnose", str(logs / "oom.log"), "--format", "jsonl").stdout.splitlines()
    incident = json.loads(line)
    assert [event["kind"] for event in incident["events"]] == ["out-of-memory"]
    assert incident["context"].keys() >= {"frameworks", "settings"}
    (line,) = run("events", str(logs / "oom.log")).stdout.splitlines()
    assert json.loads(line) == incident["events"][0]
    assert run("diagnose", str(logs / "healthy.log"), "--format", "jsonl").stdout == b""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["diagnose", "--format", "yaml"], "not one of text, json, jsonl"),
        (["diagnose", "--nope"], "--nope"),
        (["explain", "--signs"], "name the cause"),
        (["explain", "alocator-fragmentation"], "did you mean allocator-fragmentation"),
        (["explain", "LOGITS_SPIKE"], "did you mean logits-spike?"),
        (["explain", "killed"], "did you mean killed-without-evidence?"),
        (["explain", "oom"], "spurious-device-oom"),
        (["explain", "xyzzy"], "`oomdoctor explain causes` lists all causes"),
        (["explain", "activations", "--framework", "open_rlhf"], "did you mean openrlhf"),
        (["nope"], "nope"),
        (["n" * 5000], "nnn"),  # longer than a file may be called
    ],
)
def test_wrong_usage_is_2_and_a_sentence(arguments: list[str], says: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == b""
    assert says in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_a_path_where_the_command_should_stand(logs: Path) -> None:
    done = run(str(logs / "oom.log"))
    assert done.returncode == 2
    assert f"oomdoctor diagnose {logs / 'oom.log'}" in " ".join(done.stderr.decode().split())


def test_nothing_at_a_terminal_is_help_and_never_a_hang() -> None:
    code, seen = at_a_terminal()
    assert code == 2
    assert "Usage: oomdoctor" in seen
    code, seen = at_a_terminal("diagnose")
    assert code == 2
    assert "oomdoctor diagnose train.log" in seen


def test_no_standard_input_at_all() -> None:
    done = run_redirected("<&-", "diagnose")
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


def test_no_standard_output_at_all(logs: Path) -> None:
    done = run_redirected(">&-", "diagnose", str(logs / "oom.log"))
    assert (done.returncode, done.stderr) == (1, b"")


def test_colours_at_a_terminal_and_only_where_they_are_wanted(logs: Path) -> None:
    log = str(logs / "oom.log")
    red = "\x1b[1;31mOUT OF MEMORY"
    assert red in at_a_terminal("diagnose", log)[1]
    assert red not in at_a_terminal("diagnose", log, NO_COLOR="1")[1]

    def is_red(*options: str, out: type = TextIOWrapper, **environ: str) -> bool:
        return red.encode() in run("diagnose", log, *options, feed=b"", cwd=None, out=out, **environ).stdout

    assert is_red(out=Terminal)
    assert not is_red(out=Terminal, NO_COLOR="1")
    assert not is_red(out=Terminal, TERM="dumb")
    assert not is_red("--color", "never", out=Terminal)
    assert is_red("--color", "always", out=Terminal, NO_COLOR="1")
    assert not is_red()
    assert is_red(FORCE_COLOR="1")
    assert is_red("--color", "always")


def test_a_pipe_gets_plain_ascii(logs: Path) -> None:
    assert run("diagnose", str(logs / "oom.log"), "-v").stdout.isascii()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16"])
def test_any_encoding_takes_any_log(tmp_path: Path, encoding: str) -> None:
    log = tmp_path / "ошибка.log"
    log.write_text(OOM.replace("Tried", "资源 Tried"), encoding="utf-8")
    done = run_process("diagnose", str(log), "-v", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (1, b"")
    assert "OUT OF MEMORY" in done.stdout.decode(encoding)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_json_is_json_in_any_encoding(tmp_path: Path, form: str, encoding: str) -> None:
    log = tmp_path / "job.log"
    log.write_text(OOM.replace("Tried", "é资源\U0001f9a5 Tried"), encoding="utf-8")
    printed = run("diagnose", str(log), "-f", form, PYTHONIOENCODING=encoding).stdout.decode(encoding)
    report = json.loads(printed.splitlines()[0] if form == "jsonl" else printed)
    assert "é资源\U0001f9a5 Tried" in json.dumps(report, ensure_ascii=False)


def test_what_to_type_for_a_file_can_be_copied(tmp_path: Path) -> None:
    name = tmp_path / "x;id;#.log"
    name.write_text(OOM)
    assert f"oomdoctor diagnose '{name}'" in " ".join(run(str(name)).stderr.decode().split())


@pytest.mark.parametrize(("option", "given"), [("--launch", "run.sh"), ("--config", "conf.yaml")])
def test_what_is_read_beside_a_log_is_not_written_over(logs: Path, option: str, given: str) -> None:
    (logs / given).write_text("batch: 3\n")
    done = run("diagnose", str(logs / "oom.log"), option, str(logs / given), "-o", str(logs / given))
    assert done.returncode == 2
    assert b"one of the files to read" in done.stderr
    assert (logs / given).read_text() == "batch: 3\n"


def test_an_archive_that_nothing_is_read_of_is_not_written_over(logs: Path) -> None:
    (logs / "kept.zip").write_bytes(b"PK\x03\x04 no more")
    done = run("diagnose", str(logs / "kept.zip"), "-o", str(logs / "kept.zip"))
    assert done.returncode == 2
    assert b"one of the files to read" in done.stderr
    assert (logs / "kept.zip").read_bytes() == b"PK\x03\x04 no more"


def test_narrow_terminals(logs: Path) -> None:
    done = run("diagnose", str(logs / "healthy.log"), COLUMNS="20")
    assert done.returncode == 0
    done = run("diagnose", str(logs / "killed.log"), COLUMNS="3")
    lines = done.stdout.decode().splitlines()
    assert max(len(line) for line in lines if " | grep " not in line) < 100  # a command stays whole, to be pasted


@pytest.mark.parametrize("form", ["text", "json", "jsonl"])
def test_output_to_a_file_is_whole_or_not_there(logs: Path, form: str) -> None:
    target = logs / "report"
    target.write_text("old")
    link = logs / "link"
    link.symlink_to(target)
    done = run("diagnose", str(logs / "oom.log"), "--format", form, "-o", str(link))
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
    assert target.read_bytes() == run("diagnose", str(logs / "oom.log"), "--format", form).stdout
    assert link.is_symlink()
    assert not list(logs.glob(".*"))


def test_output_to_what_is_no_regular_file(logs: Path) -> None:
    assert run_process("diagnose", str(logs / "oom.log"), "-f", "json", "-o", "/dev/stdout").stdout.startswith(b"{")
    assert run("diagnose", str(logs / "oom.log"), "-f", "json", "-o", "-").stdout.startswith(b"{")


@pytest.mark.parametrize("target", ["gone/report.json", "."])
def test_output_that_cannot_be_written(logs: Path, target: str) -> None:
    done = run("diagnose", str(logs / "oom.log"), "-o", str(logs / target))
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("oomdoctor: cannot write to ")


@pytest.mark.parametrize(
    ("read", "target"),
    [
        ("oom.log", "oom.log"),
        (".", "oom.log"),
        ("oom.log", "link"),
        ("oom.log", "hard"),
        ("link", "oom.log"),
        ("oom.log", "../LOGS/oom.log"),
    ],
)
@pytest.mark.parametrize("command", ["diagnose", "events"])
def test_no_log_is_written_over(logs: Path, command: str, read: str, target: str) -> None:
    (logs / "link").symlink_to(logs / "oom.log")
    (logs / "hard").hardlink_to(logs / "oom.log")
    done = run(command, str(logs / read), "-o", str(logs / target.replace("LOGS", logs.name)))
    assert (done.returncode, done.stdout) == (2, b"")
    (line,) = done.stderr.decode().splitlines()
    assert "cannot write to" in line
    assert "one of the files to read" in line
    assert (logs / "oom.log").read_text() == OOM


def test_the_log_behind_a_pipe_is_not_written_over(logs: Path) -> None:
    log = logs / "oom.log"
    done = run_redirected(f"<'{log}'", "diagnose", "-o", str(log))
    assert done.returncode == 2
    assert log.read_text() == OOM


def test_another_file_beside_the_logs_is_written(logs: Path) -> None:
    assert run("diagnose", str(logs / "oom.log"), "-o", str(logs / "healthy.log")).returncode == 1
    assert (logs / "healthy.log").read_text().startswith("OUT OF MEMORY")


def test_a_folder_as_output_says_what_to_do(logs: Path) -> None:
    done = run("diagnose", str(logs / "oom.log"), "-o", str(logs))
    said = f"oomdoctor: cannot write to {logs}: it is a folder; name a file in it"
    assert done.stderr.decode().splitlines() == [said]


def test_what_was_never_read_is_not_healthy(logs: Path) -> None:
    from oomdoctor import diagnose

    gone = str(logs / "gone.log")
    assert diagnose(gone).verdict == "inconclusive"
    assert [trouble.why for trouble in diagnose(gone).errors] == ["no such file"]
    assert diagnose(gone, str(logs / "healthy.log")).verdict == "no-oom"
    done = run("diagnose", gone, "--format", "json")
    assert (done.returncode, json.loads(done.stdout)["verdict"]) == (2, "inconclusive")


def test_the_library_takes_paths_one_by_one(logs: Path) -> None:
    import oomdoctor

    assert "diagnose" in dir(oomdoctor)
    assert oomdoctor.diagnose(logs / "oom.log").as_json() == oomdoctor.diagnose(str(logs / "oom.log")).as_json()
    with pytest.raises(TypeError, match=r"not a list; .*diagnose\(\*paths\)"):
        oomdoctor.diagnose([logs / "oom.log"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not a bytes"):
        oomdoctor.diagnose(b"oom.log")  # type: ignore[arg-type]


def test_a_full_disk_under_standard_output(logs: Path) -> None:
    done = run_redirected(">/dev/full", "diagnose", str(logs / "oom.log"))
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == ["oomdoctor: cannot write to standard output: No space left on device"]


def test_a_reader_that_goes_away_is_no_news(logs: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*COMMAND, "diagnose", str(logs / "oom.log")],
        check=False,
        stdout=writing,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        timeout=60,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


def test_ctrl_c_while_waiting_for_a_pipe() -> None:
    with subprocess.Popen(
        [*COMMAND, "diagnose"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        # a shell has its background jobs ignore it, and the tests may be run by one
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        assert process.stdin is not None
        process.stdin.write(HEALTHY.encode())
        process.stdin.flush()
        waiting = array("i", [1])
        while waiting[0]:  # until it has read all there is
            assert process.poll() is None
            time.sleep(0.02)
            fcntl.ioctl(process.stdin, termios.FIONREAD, waiting)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (130, b"")


def test_an_error_of_our_own_is_one_line_without_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], logs: Path
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("a secret out of the log")

    monkeypatch.setattr("oomdoctor.street.facts_of", broken)
    monkeypatch.setattr(sys, "argv", ["oomdoctor", "diagnose", str(logs / "oom.log")])
    monkeypatch.delenv("OOMDOCTOR_DEBUG", raising=False)
    kept = signal.getsignal(signal.SIGPIPE)
    try:
        with pytest.raises(SystemExit) as end:
            cli.main()
    finally:
        signal.signal(signal.SIGPIPE, kept)
    assert end.value.code == 70
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("oomdoctor: a bug in oomdoctor: ValueError at ")
    assert "report it" in line
    assert "secret" not in line


def test_a_hostile_file_name_does_nothing_to_the_terminal(tmp_path: Path) -> None:
    done = run("diagnose", str(tmp_path / "a\x1b[2J\nb.log"))
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert line.isprintable()


def test_a_file_name_that_is_no_unicode(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/log\xff"
    Path(os.fsdecode(name)).write_text(OOM)
    done = subprocess.run(
        [os.fsencode(part) for part in (*COMMAND, "diagnose", "-f", "json")] + [name],
        check=False,
        capture_output=True,
        env=ENVIRONMENT,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout.decode("utf-8"))["events"][0]["file"].startswith("log")


def test_version_causes_schema_explain() -> None:
    import oomdoctor
    from oomdoctor.causes import causes
    from oomdoctor.pages import page

    assert run("--version").stdout == f"oomdoctor {oomdoctor.__version__}\n".encode()
    listed = run("causes").stdout.decode().splitlines()
    assert [line.split()[0] for line in listed] == [cause.id for cause in causes()]
    assert json.loads(run("schema").stdout)["$schema"].endswith("2020-12/schema")
    for cause in causes():
        assert (page(cause.id) or "").startswith("# ")
    done = run("explain", causes()[0].id)
    words = (page(causes()[0].id) or "").split()
    assert done.stdout.decode().split()[: len(words)] == words
    assert max(map(len, done.stdout.decode().splitlines())) <= 100
    done = run("explain", causes()[0].id, out=Terminal)
    assert done.returncode == 0
    assert b"\x1b[" in done.stdout


@pytest.mark.parametrize(
    "command", ["", *(name for _, names in COMMANDS for name in names), "dev", *OLD_NAMES, *OLD_NAMES.values()]
)
def test_every_help_teaches(command: str) -> None:
    done = run(*command.split(), "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(b"Usage: oomdoctor")
    assert max(map(len, done.stdout.decode().splitlines())) <= 80


@pytest.mark.parametrize("command", ["", "diagnose", "events", "watch"])
def test_every_help_that_tells_the_codes_tells_of_requests_that_ray_cannot_place(command: str) -> None:
    told = " ".join(run(*command.split(), "--help").stdout.decode().split())
    assert "a memory failure, or a request that Ray cannot place" in told


HEADINGS = ("Diagnose a crash:\n  diagnose ", "While the job runs:\n  run ", "Report it:\n  issue ")


def test_the_commands_stand_under_headings_with_the_one_that_matters_first() -> None:
    told = run("--help").stdout.decode()
    places = [told.index(words) for words in HEADINGS]
    assert places == sorted(places)
    assert "..." not in told[places[0] :]


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "oomdoctor", "--version"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()[0]) == (0, "oomdoctor")


def test_brief_is_one_line_for_each_crash(logs: Path) -> None:
    done = run("diagnose", str(logs / "oom.log"), "--brief")
    headline = json.loads(run("diagnose", str(logs / "oom.log"), "--format", "json").stdout)["incidents"][0]["headline"]
    (line,) = done.stdout.splitlines()
    assert done.returncode == 1
    assert line.startswith(f"oom.log:2: OUT OF MEMORY: {headline} (likely) [".encode())
    assert b" Fix: " in line


def test_brief_says_that_there_is_none() -> None:
    done = run("diagnose", "-", "--brief", feed="step 1 loss 0.4\n")
    assert (done.returncode, done.stdout) == (0, b"NO MEMORY FAILURE FOUND (1 line read)\n")


@pytest.mark.parametrize("other", [("-f", "json"), ("-v",)])
def test_brief_is_a_form_of_its_own(other: tuple[str, ...]) -> None:
    done = run("diagnose", "-", "--brief", *other, feed=OOM)
    assert done.returncode == 2
    assert b"leave out -f and -v" in b" ".join(done.stderr.split())


def test_brief_of_a_death_asks_first() -> None:
    done = run("diagnose", "-", "--brief", feed="step 1\nprocess 8805 died unexpectedly\n")
    assert done.returncode == 3
    assert b" Find out: " in done.stdout
    assert b" Fix: " not in done.stdout
