"""One output, one set of pseudonyms; nothing of a secret in any form in which a report leaves the machine."""

from __future__ import annotations

import json
import random
import re
import string
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from healthy_logs import LOGS
from msgspec.structs import replace
from planted_secrets import ALL, PEM, PEM_BODY
from reports import LOGS as FIXTURES
from reports import of_each
from sample_reports import OOM as SAMPLE
from test_kinds import RAY, left

from oomdoctor import diagnose
from oomdoctor.redaction import Redactor, find
from oomdoctor.report.contract import Report
from oomdoctor.streams import LONGEST_QUOTE

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacity of 23.60 GiB "
    "of which 1.25 GiB is free. Including non-PyTorch memory, this process has 22.30 GiB memory in use. Of the "
    "allocated memory 21.00 GiB is allocated by PyTorch, and 900.00 MiB is reserved by PyTorch but unallocated."
)


def as_json(report: Report) -> str:
    return json.dumps(report.as_json())


def test_the_same_name_is_the_same_all_over_an_output() -> None:
    redactor = Redactor()
    first = redactor.text("MASTER_ADDR=gpu-07 /home/mireille/x\n")
    second = redactor.text("gpu-08:1:2 [0] NCCL INFO to gpu-07\n")
    third = redactor.text("from gpu-07.hpc.lab.edu: /scratch/mireille/y\n")
    assert (first, second) == ("MASTER_ADDR=<HOST-1> /home/<USER-1>/x\n", "<HOST-2>:1:2 [0] NCCL INFO to <HOST-1>\n")
    assert third == "from <HOST-3>: /scratch/<USER-1>/y\n"


def test_a_name_is_known_before_the_line_that_tells_it() -> None:
    assert Redactor().text("/data/mireille/x\nUSER=mireille\n") == "/data/<USER-1>/x\nUSER=<USER-1>\n"


def test_pseudonyms_that_stand_in_the_text_already_are_somebodys() -> None:
    assert Redactor().text("host=<HOST-3> MASTER_ADDR=gpu-07") == "host=<HOST-3> MASTER_ADDR=<HOST-4>"


def test_the_second_half_of_a_split_secret_is_known_where_it_stands_alone() -> None:
    token = "hf_" + "aB3dEfGhIjKlMnOpQr" + "5tUvWxYzAbCdEfGh"
    redactor = Redactor()
    redactor.learn(f"loading with {token[:20]}\n{token[20:]} now\n")
    assert left(token, redactor.text(f"{token[20:]} now")) == set()
    assert left(token, redactor.text(f"loading with {token[:20]}…")) == set()


def test_the_beginning_of_a_secret_where_a_text_was_cut_is_one() -> None:
    assert Redactor().text("with hf_aB3dEfGh…") == "with <SECRET>…"
    assert Redactor().text("with hf_transfer…") == "with hf_transfer…"


def test_of_a_cut_line_in_a_longer_text_the_last_word_goes() -> None:
    cut = "step 1 ".ljust(LONGEST_QUOTE - 12, ".") + " S3cretHalfX"
    whole = replace(SAMPLE, notes=(f"first\n{cut}\n{cut[1:]}",))
    (note,) = Redactor().report(whole).notes
    assert [line.split()[-1] for line in note.split("\n")] == ["first", "…", "S3cretHalfX"]


def test_a_secret_setting_of_a_report_is_known_by_its_name(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(f"--wandb_key 0123456789abcdef0123456789abcdef01234567 --lr 1e-6\n{OOM}\n")
    redacted = as_json(Redactor().report(diagnose(log)))
    assert "0123456789abcdef" not in redacted


def test_a_secret_of_digits_beside_the_failure_is_known_by_its_name(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(f"db login password=918273645 timeout=300\n{OOM}\n")
    plain = diagnose(log)
    assert "918273645" in as_json(plain)
    redacted = as_json(Redactor().report(plain))
    assert "918273645" not in redacted
    assert "300" in redacted


@pytest.mark.parametrize("planted", ALL, ids=lambda p: f"{p.kind}-{p.secret[:6]}")
def test_nothing_of_a_secret_is_left_in_a_report(planted: object, tmp_path: Path) -> None:
    text, secret = planted.text, planted.secret  # type: ignore[attr-defined]
    log = tmp_path / "job.log"
    log.write_text(f"Namespace(lr=1e-6)\n{text}\n{RAY}{text} {OOM} {text}\n{json.dumps({'e': f'{text} {OOM}'})}\n")
    plain = diagnose(log)
    redactor = Redactor()
    redactor.learn(log.read_text())
    alone = [Redactor().report(plain)] if "\n" not in text else []  # a name on the line before tells the log only
    for redacted in (*alone, redactor.report(plain)):
        assert not left(secret, as_json(redacted), 6)
        assert redacted.verdict == plain.verdict == "oom"
        assert [event.usage for event in redacted.events] == [event.usage for event in plain.events]


def test_nothing_of_a_planted_set_is_left_in_a_text() -> None:
    lot = random.Random(3)
    lines = [planted.text for planted in ALL] + ["\n".join(f"{RAY}{line}" for line in PEM)]
    lot.shuffle(lines)
    text = "\n".join(f"step {n} loss 0.25\n{RAY}{line}" for n, line in enumerate(lines))
    out = Redactor().text(text)
    assert {p.secret: pieces for p in ALL if (pieces := left(p.secret, out, 8))} == {}
    assert not any(left(line, out) for line in PEM_BODY)
    assert out.count("loss 0.25") == len(lines)


@pytest.mark.parametrize("lines", LOGS, ids=lambda lines: lines.__name__)
def test_ordinary_logs_stay_as_they_are(lines: Callable[[], Iterator[str]]) -> None:
    text = "\n".join(lines())
    assert text.count("\n") > 1000
    pods = set(re.findall('pod="([^"]+)"', text))  # a monitor's label is the name of somebody's pod
    assert {text[found.start : found.end] for found in find(text)} == pods


def outcome(report: Report) -> object:
    return report.verdict, [
        (
            incident.verdict,
            incident.fingerprint,
            [
                (
                    d.cause,
                    d.pool,
                    d.stage,
                    d.confidence >= 0.9,
                    [(r.knob, r.current, r.suggested) for r in d.remedies],
                )
                for d in incident.diagnoses
            ],
        )
        for incident in report.incidents
    ]


@of_each(FIXTURES)
def test_a_redacted_log_is_diagnosed_as_it_was(log: Path, tmp_path: Path) -> None:
    text = log.read_bytes().decode("utf-8", "surrogateescape")
    redacted = Redactor().text(text)
    found = find(text)
    assert not [one for one in found if one.secret]  # of fixtures, nothing is
    if found:
        shared = tmp_path / log.name
        shared.write_bytes(redacted.encode("utf-8", "surrogateescape"))
        assert outcome(diagnose(shared)) == outcome(diagnose(log))
        assert Redactor().text(redacted) == redacted


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    (
        *("token=", "hf_", "eyJaaaaaaaa.", "sk-", "%25", "\\n", "a\n", "://a:b@", "a.com ", "/home/a", "ip-1-", "..."),
        *(
            "2001:",
            "-----BEGIN RSA PRIVATE KEY-----\n",
            "\n(a pid=1) x",
            'host="h1-x" ',
            "Authorization: ",
            " ",
            "\x1b[",
        ),
    ),
)
def test_the_time_grows_as_the_text_does(piece: str) -> None:
    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        return min(_seconds_for(text) for _ in range(3))  # the machine has other work, too

    seconds(1000)
    short, long = seconds(15_000), seconds(120_000)
    assert long < 0.3 or long / short < 20


def _seconds_for(text: str) -> float:
    started = time.process_time()
    Redactor().text(text)
    return time.process_time() - started


@pytest.mark.slow
def test_one_huge_line_is_read() -> None:
    lot = random.Random(5)
    words = ["".join(lot.choices(string.ascii_lowercase, k=7)) for _ in range(999)]
    line = " ".join(lot.choice(words) for _ in range(1_250_000))
    assert len(line) > 9_900_000
    token = "hf_" + "aB3dEfGhIjKlMnOpQr5tUvWxYzAbCdEfGh"
    half = len(line) // 2
    out = Redactor().text(f"{line[:half]} {token} {line[half:]}")
    assert out == f"{line[:half]} <TOKEN hf> {line[half:]}"


def test_an_error_in_it_stops_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("oomdoctor.redaction.redactor.look", fails)
    with pytest.raises(RuntimeError):
        Redactor().text("password=hunter2")


HEX40 = "3f785e2a1c9d4b7e8f60718293a4b5c6d7e8f901"
HF = "hf_aB3dEfGhIjKlMnOpQr5tUvWxYzAbCdEfGh"


@pytest.mark.parametrize(
    "message",
    [
        "MemoryError",
        "torch.OutOfMemoryError: CUDA out of memory.",
        "RuntimeError: x",
        "Traceback (most recent call last):",
        "step 4 loss 0.25",
        "Killed",
    ],
)
@pytest.mark.parametrize("line", [f"WANDB_API_KEY={HEX40}", f"HF_TOKEN={HF}", f"--hf_token {HF}", f"api_key={HEX40}"])
def test_a_secret_that_ends_its_line_takes_nothing_of_the_next(line: str, message: str) -> None:
    for width in (len(line), 80, 99):
        text = f"{'step 1'.ljust(width, '.')}\n{line.rjust(width, '.')}\n{message}\nend\n"
        out = Redactor().text(text)
        assert out.endswith(f"\n{message}\nend\n"), out
        assert not left(HEX40, out) | left(HF, out)


@pytest.mark.parametrize("keep", [8, 20, 30, 36])
def test_of_a_token_that_is_cut_no_message_is_taken_for_its_rest(keep: int) -> None:
    text = f"{'x'.ljust(60, '.')}\n{HF[:keep].rjust(60, '.')}\ntorch.OutOfMemoryError: CUDA out of memory.\n"
    assert Redactor().text(text).endswith("\ntorch.OutOfMemoryError: CUDA out of memory.\n")


def test_a_name_in_capitals_is_the_same_name() -> None:
    assert Redactor().text("MASTER_ADDR=larch-1\nSLURMD_NODENAME=LARCH-1\n") == (
        "MASTER_ADDR=<HOST-1>\nSLURMD_NODENAME=<HOST-1>\n"
    )


def test_a_host_whose_name_is_a_word_is_one_where_it_is_told_alone() -> None:
    assert Redactor().text("MASTER_ADDR=train\nthe train of the log\n") == (
        "MASTER_ADDR=<HOST-1>\nthe train of the log\n"
    )


def test_a_secret_is_known_in_the_text_that_tells_it() -> None:
    assert Redactor().text("got Hunter2x9q\npassword=Hunter2x9q\nnot Hunter2\n") == (
        "got <SECRET>\npassword=<SECRET>\nnot Hunter2\n"
    )
