"""`oomdoctor redact` and `oomdoctor reduce`, run as people run them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from commands import run
from reports import ROOT
from test_door import OOM

from oomdoctor import diagnose
from oomdoctor.helpers import reduce
from oomdoctor.helpers.reduce import answer

TOKEN = "hf_" + "aB3dEfGhIjKlMnOpQr5tUvWxYzAbCdEfGh"
LOG = f"HF_TOKEN={TOKEN}\nstep 1 on gpu-07 of /home/mireille/run loss 0.25\nMASTER_ADDR=gpu-07\n"
SHARED = "HF_TOKEN=<TOKEN hf>\nstep 1 on <HOST-1> of /home/<USER-1>/run loss 0.25\nMASTER_ADDR=<HOST-1>\n"


def test_a_pipe_and_a_file_come_out_redacted(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(LOG)
    done = run("redact", feed=LOG)
    assert (done.returncode, done.stdout.decode()) == (0, SHARED)
    assert done.stderr == (
        b"oomdoctor: replaced: a host name (2), a Hugging Face token (1), a name of a person or team (1)\n"
    )
    assert run("redact", str(log), "-o", str(tmp_path / "out.log")).stdout == b""
    assert (tmp_path / "out.log").read_text() == SHARED


def test_a_compressed_log_and_one_in_another_encoding_come_out_redacted(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(LOG.encode()))
    (tmp_path / "b.log").write_bytes(LOG.encode("utf-16"))
    for name in ("a.log.gz", "b.log"):
        assert run("redact", str(tmp_path / name)).stdout.decode() == SHARED


def test_several_files_share_their_pseudonyms(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("at gpu-07\n")
    (tmp_path / "b.log").write_text("MASTER_ADDR=gpu-07\n")
    done = run("redact", str(tmp_path / "a.log"), str(tmp_path / "b.log"))
    assert done.stdout == b"at <HOST-1>\nMASTER_ADDR=<HOST-1>\n"


def test_nothing_is_printed_where_a_file_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG)
    done = run("redact", str(tmp_path / "a.log"), str(tmp_path / "gone.log"))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"gone.log: no such file" in done.stderr


def test_a_check_names_file_line_and_kind_and_never_the_secret(tmp_path: Path) -> None:
    (tmp_path / "draft.md").write_text(f"# A crash\n\n{LOG}password=hunter2\n")
    (tmp_path / "clean.md").write_text("step 1 on gpu-07 of /home/mireille/run\nMASTER_ADDR=gpu-07\n")
    draft, clean = str(tmp_path / "draft.md"), str(tmp_path / "clean.md")
    done = run("redact", "--check", draft, clean)
    assert (done.returncode, done.stdout.decode()) == (
        1, f"{draft}, line 3: a Hugging Face token\n{draft}, line 6: a password, key or token\n"
    )  # fmt: skip
    assert run("redact", "--check", clean).returncode == 0
    names = ("1: a host name", "1: a name of a person or team", "2: a host name")
    strict = run("redact", "--check", "--strict", clean)
    assert (strict.returncode, strict.stdout.decode()) == (
        1, "".join(f"{clean}, line {line}\n" for line in names)
    )  # fmt: skip
    chinese = run("redact", "--check", "--lang", "zh", draft).stdout.decode()
    assert f"{draft}，第 3 行：" in chinese
    assert TOKEN[5:12].encode() not in done.stdout + done.stderr
    assert run("redact", "--check", str(tmp_path / "gone")).returncode == 2
    assert run("redact", "--check", feed="").returncode == 0
    assert run("redact", "--strict", clean).returncode == 2


def long(log: str) -> str:
    """The log in the middle of a long one."""
    step = "heartbeat {} of the scheduler, all quiet\n"
    return "".join(step.format(n) for n in range(800)) + log + "".join(step.format(n) for n in range(800, 900))


@pytest.mark.parametrize(
    "name",
    [
        "ray_kill/g2-2.40-four-victims-of-an-actor.log",
        "ray_kill/g5-2.60-raylet.log",
        "vllm_error/auto-fit-not-a-token.log",
        "kernel/arm-64k-pages.log",
    ],
)
def test_the_excerpt_gets_the_same_diagnosis(name: str, tmp_path: Path) -> None:
    fixture = ROOT / "fixtures" / name
    log = tmp_path / "job.log"
    log.write_text(long(fixture.read_text()))
    small = tmp_path / "small.log"
    done = run("reduce", str(log), "-o", str(small))
    before = diagnose(log)
    assert before.incidents
    assert done.returncode == 0, done.stderr
    assert answer(diagnose(small)) == answer(before)
    assert len(small.read_text().splitlines()) <= len(fixture.read_text().splitlines()) + 2
    assert "heartbeat" not in small.read_text()


def test_an_excerpt_holds_the_message_the_marks_and_no_secret(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(long(f"rank 0 on {TOKEN} /home/mireille: {OOM}"))
    done = run("reduce", str(log))
    assert done.returncode == 0
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "~~~ lines cut: 801 ~~~"
    assert lines[-1] == "~~~ lines cut: 100 ~~~"
    assert len(lines) == 3
    assert b"kept 1 of 902 lines; the diagnosis is the same" in done.stderr
    secret = OOM.replace("step 3\n", f"token {TOKEN} ")
    log.write_text(secret)
    assert TOKEN.encode() not in run("reduce", str(log)).stdout
    assert TOKEN.encode() in run("reduce", str(log), "--no-redact").stdout


def test_an_excerpt_of_two_logs_holds_the_job_and_the_failure(tmp_path: Path) -> None:
    (tmp_path / "launch.log").write_text("python train.py --per_device_train_batch_size 8\nstep 1\nstep 2\n")
    refused = (
        'Traceback (most recent call last):\n  File "/w/train.py", line 9, in forward\n    y = m(x)\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
        "79.15 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use.\n"
    )
    (tmp_path / "rank0.log").write_text(long(refused))
    done = run("reduce", str(tmp_path / "launch.log"), str(tmp_path / "rank0.log"))
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[0] == "python train.py --per_device_train_batch_size 8"
    assert any(line.startswith("torch.OutOfMemoryError") for line in lines)
    assert "step 1" not in lines


def test_a_log_without_a_failure_and_a_pipe_have_no_excerpt(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("step 1 loss 0.25\n")
    done = run("reduce", str(log))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"no failure" in done.stderr
    assert run("reduce", feed=OOM).returncode == 2


def test_the_number_of_diagnoses_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from oomdoctor import street
    from oomdoctor.helpers.reduce import Log

    log = tmp_path / "job.log"
    text = long("".join(f"[rank{n}]: {OOM}" for n in range(300)))
    log.write_text(text)
    facts = street.facts_of(*street.gather([str(log)]))
    monkeypatch.setattr(reduce, "MOST", 30)
    lines = text.removesuffix("\n").split("\n")
    told: list[int] = []
    excerpt = reduce.reduce([Log("job.log", lines, lines)], facts, lambda made, left: told.append(made))
    assert len(told) == excerpt.diagnoses <= 30 + 15


def test_redaction_that_would_change_the_diagnosis_is_said(tmp_path: Path) -> None:
    from oomdoctor import street
    from oomdoctor.helpers.reduce import Log, ReduceError

    log = tmp_path / "job.log"
    log.write_text(OOM)
    facts = street.facts_of(*street.gather([str(log)]))
    lines = OOM.removesuffix("\n").split("\n")
    shared = [line.replace("out of memory", "<SECRET>") for line in lines]
    with pytest.raises(ReduceError, match="--no-redact"):
        reduce.reduce([Log("job.log", lines, shared)], facts, lambda made, left: None)
