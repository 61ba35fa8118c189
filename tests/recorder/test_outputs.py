"""What a terminal, a pipe, a file and a signal are to a job under the recorder: what they are without it."""

from __future__ import annotations

import os
import pty
import select
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest
from commands import ENVIRONMENT
from deaths import PYTHON, recorded, run

SCRIPT = "echo ready; read x; echo got $x; test -t 0 && test -t 1 && test -t 2 && echo tty; exit {status}"


def at_a_terminal(words: list[str], typed: bytes) -> tuple[bytes, int]:
    """What a terminal shows of the command, to which this is typed once it is ready; and how it ended."""
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # who starts the tests in the background may have it ignored
        os.execvpe(words[0], words, ENVIRONMENT)
    shown, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        if not select.select([terminal], [], [], 0.1)[0]:
            continue
        try:
            block = os.read(terminal, 4096)
        except OSError:
            break
        if typed and b"ready\r\n" in shown + block:
            os.write(terminal, typed)
            typed = b""
        shown += block
    os.close(terminal)
    return shown, os.waitpid(pid, 0)[1]


def wait_for(path: Path) -> None:
    for _ in range(200):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path.name} never came")


def test_a_terminal_stays_a_terminal() -> None:
    words = ["bash", "-c", SCRIPT.format(status=0)]
    assert at_a_terminal(recorded(words), b"hello\n") == at_a_terminal(words, b"hello\n")


@pytest.mark.slow
def test_what_fails_at_a_terminal_is_told_behind_its_output() -> None:
    words = ["bash", "-c", SCRIPT.format(status=4)]
    alone, status = at_a_terminal(words, b"hello\n")
    shown, ended = at_a_terminal(recorded(words), b"hello\n")
    assert (shown[: len(alone)], ended) == (alone, status)
    assert b"exit code 4" in shown[len(alone) :]


def test_ctrl_c_is_for_the_job_which_may_go_on() -> None:
    program = (
        "import time\ntry:\n print('ready', flush=True)\n time.sleep(30)\nexcept KeyboardInterrupt:\n print('saved')"
    )
    words = [PYTHON, "-c", program]
    shown, status = at_a_terminal(recorded(words), b"\x03")
    assert (b"saved" in shown, status) == (True, 0)


@pytest.mark.slow
def test_ctrl_c_ends_the_recorder_as_it_ends_the_job() -> None:
    words = ["bash", "-c", "echo ready; sleep 30; echo not reached"]
    _, alone = at_a_terminal(words, b"\x03")
    shown, status = at_a_terminal(recorded(words), b"\x03")
    assert status == alone == signal.SIGINT
    assert b"SIGINT" in shown


@pytest.mark.slow
def test_ctrl_z_stops_job_and_recorder_and_both_go_on(tmp_path: Path) -> None:
    """In a shell that has job control."""
    job = f"touch {tmp_path}/ready; for n in 1 2 3; do sleep 0.4; echo tick $n; done; exit 7"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe("bash", ["bash", "--norc", "-i"], ENVIRONMENT)
    try:
        typed = shlex.join(recorded(["bash", "-c", job]))
        assert b"bash" in shown_within(terminal, 5, b"bash")
        os.write(terminal, typed.encode() + b"\n")
        wait_for(tmp_path / "ready")
        os.write(terminal, b"\x1a")
        assert b"Stopped" in shown_within(terminal, 2)
        os.write(terminal, b"fg; echo ended with $?\n")
        told = shown_within(terminal, 12, b"ended with 7")
        assert b"tick 3" in told
        assert b"ended with 7" in told
    finally:
        os.kill(pid, signal.SIGKILL)
        os.close(terminal)
        os.waitpid(pid, 0)


def shown_within(terminal: int, seconds: float, until: bytes | None = None) -> bytes:
    shown, end = b"", time.monotonic() + seconds
    while time.monotonic() < end and not (until and until in shown):
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 4096)
    return shown


def test_both_streams_keep_their_bytes_and_stay_apart() -> None:
    script = "printf 'a\\0b\\r\\n'; printf '\\377err' >&2; printf tail"
    alone, beside = run(["bash", "-c", script]), run(recorded(["bash", "-c", script]))
    assert (beside.out, beside.err, beside.status) == (alone.out, alone.err, alone.status)


def test_much_output_arrives_whole_and_in_order() -> None:
    words = ["seq", "300000"]
    assert run(recorded(words)).out == run(words).out


def test_one_pipe_for_both_streams_keeps_their_order() -> None:
    script = "for n in $(seq 50); do echo out $n; echo err $n >&2; done"
    told = subprocess.run(
        recorded(["bash", "-c", script]), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENVIRONMENT, check=True
    )
    assert told.stdout.decode().split("\n")[:100] == [f"{name} {n}" for n in range(1, 51) for name in ("out", "err")]


@pytest.mark.slow
def test_a_reader_that_leaves_ends_the_job_as_it_does_without_us() -> None:
    for words in (["yes"], recorded(["yes"])):
        job = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
        assert job.stdout is not None
        assert job.stdout.read(2) == b"y\n"
        job.stdout.close()
        assert job.wait(30) == -signal.SIGPIPE


@pytest.mark.slow
def test_a_file_is_written_by_the_job_itself_and_read_back(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("an older run\n")
    program = "print('step 1'); raise MemoryError('Unable to allocate 37.3 GiB for an array with shape (5, 10**9)')"
    with log.open("ab") as file:
        done = subprocess.run(
            recorded([PYTHON, "-c", program]), stdout=file, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False
        )
    assert (done.returncode, log.read_text()) == (1, "an older run\nstep 1\n")
    assert b"OUT OF MEMORY" in done.stderr


@pytest.mark.slow
def test_who_outlives_the_job_is_neither_waited_for_nor_cut_off(tmp_path: Path) -> None:
    """Its output still arrives, after the recorder has ended."""
    script = f"(sleep 1.5; echo late; touch {tmp_path}/done) & echo early"
    with subprocess.Popen(recorded(["bash", "-c", script]), stdout=subprocess.PIPE, env=ENVIRONMENT) as job:
        assert job.wait(30) == 0
        assert not (tmp_path / "done").exists()
        assert job.stdout is not None
        assert job.stdout.read() == b"early\nlate\n"
    wait_for(tmp_path / "done")


@pytest.mark.parametrize(
    "name", ["SIGTERM", pytest.param("SIGUSR1", marks=pytest.mark.slow), pytest.param("SIGHUP", marks=pytest.mark.slow)]
)
def test_a_signal_to_the_recorder_is_one_to_the_job(name: str, tmp_path: Path) -> None:
    """Also under nohup, whose hangup that is ignored nobody below could trap."""
    script = f"trap 'touch {tmp_path}/saved; exit 0' {name}; touch {tmp_path}/ready; while :; do sleep 0.05; done"
    words = ["env", f"--default-signal={name.removeprefix('SIG')}", *recorded(["bash", "-c", script])]
    with subprocess.Popen(words, env=ENVIRONMENT) as job:
        wait_for(tmp_path / "ready")
        job.send_signal(getattr(signal, name))
        try:
            assert job.wait(30) == 0
        finally:
            job.kill()
    assert (tmp_path / "saved").exists()


@pytest.mark.slow
def test_a_hangup_that_was_to_be_ignored_is_ignored(tmp_path: Path) -> None:
    script = f"touch {tmp_path}/ready; sleep 1"
    words = ["bash", "-c", 'trap "" HUP; exec "$@"', "nohup", *recorded(["bash", "-c", script])]
    with subprocess.Popen(words, env=ENVIRONMENT) as job:
        wait_for(tmp_path / "ready")
        job.send_signal(signal.SIGHUP)
        assert job.wait(30) == 0


def test_the_job_inherits_descriptors_and_masks_as_without_us(tmp_path: Path) -> None:
    script = "grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status; ls /proc/self/fd | wc -l; cat <&5; ulimit -a | md5sum"
    (tmp_path / "five").write_text("five\n")
    words = ["bash", "-c", f'exec 5< {tmp_path}/five; exec "$@"', "with"]
    alone, beside = run([*words, "bash", "-c", script]), run([*words, *recorded(["bash", "-c", script])])
    # glibc's posix_spawn leaves its own two signals ignored, which it sets anew where it needs them
    assert beside.out.replace(b"SigIgn:\t00000001800000", b"SigIgn:\t00000000000000") == alone.out
    assert beside.status == alone.status == 0


@pytest.mark.parametrize(("words", "status"), [(["no-such-program-here"], 127), (["/etc/passwd"], 126)])
def test_what_cannot_be_started_ends_as_in_a_shell(words: list[str], status: int) -> None:
    done = run(recorded(words))
    assert (done.status, done.out) == (status, b"")
    assert words[0].encode() in done.err


@pytest.mark.slow
def test_a_script_without_an_interpreter_is_one_for_the_shell(tmp_path: Path) -> None:
    script = tmp_path / "job"
    script.write_text("echo $1; exit 3\n")
    script.chmod(0o755)
    done = run(recorded([str(script), "--lr=1"], every="60m"))
    assert (done.out, done.status) == (b"--lr=1\n", 3)


def test_options_behind_the_command_are_the_jobs() -> None:
    words = recorded(["echo", "--record", "x", "-h"])
    words.remove("--")
    assert run(words).out == b"--record x -h\n"


@pytest.mark.parametrize("every", ["0", "never", "-1s", "2h"])
def test_a_time_that_is_none_is_refused(every: str) -> None:
    assert run(recorded(["true"], every=every)).status == 2


def test_a_record_that_cannot_be_written_is_said_before_the_job_starts(tmp_path: Path) -> None:
    done = run(recorded(["touch", str(tmp_path / "started")], tmp_path / "nowhere" / "flight.jsonl"))
    assert done.status == 2
    assert not (tmp_path / "started").exists()
