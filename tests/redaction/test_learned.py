"""What a log tells far from its crash is known in all that is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_kinds import left
from test_redactor import HEX40, HF, OOM
from typer.testing import CliRunner

from oomdoctor import diagnose
from oomdoctor.cli.app import app
from oomdoctor.helpers import block
from oomdoctor.redaction import learned
from oomdoctor.redaction.learned import knowing
from oomdoctor.streams import LONGEST_QUOTE

FAR = "".join(f"step {n} loss 0.1\n" for n in range(120))
FRAMES = 'Traceback (most recent call last):\n  File "/data/mireille/train.py", line 3, in main\n    loss.backward()\n'
LOG = (
    f"USER=mireille\nMASTER_ADDR=larch-1\nWANDB_API_KEY={HEX40}\npassword=Hunter2x9q\n{FAR}{FRAMES}"
    f"got Hunter2x9q and {HEX40} on larch-1 {OOM}\n"
)
TOLD = ("mireille", "larch-1", HEX40, "Hunter2x9q")


def shown(*arguments: str) -> str:
    return CliRunner().invoke(app, list(arguments)).stdout


def test_what_the_log_tells_is_known_in_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, summary = tmp_path / "mireille.log", tmp_path / "summary"
    log.write_text(LOG)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    outputs = [shown("diagnose", str(log), "-f", form) for form in ("markdown", "html", "github")]
    outputs += [shown("diagnose", str(log), "-f", form, "--redact") for form in ("json", "text")]
    outputs += [shown("issue", str(log)), shown("reduce", str(log)), summary.read_text()]
    outputs.append(block.refreshed(f"```\n{LOG}```\n").partition(block.BEGIN)[2])
    for output in outputs:
        assert "GPU" in output
        assert not [one for one in TOLD if one in output], output


def test_what_a_script_tells_is_known(tmp_path: Path) -> None:
    log, script = tmp_path / "job.log", tmp_path / "run-mireille.sh"
    log.write_text(LOG.partition(FAR)[2])
    script.write_text(
        f"export USER=mireille DB_PASSWORD=Hunter2x9q\nexport WANDB_API_KEY={HEX40}\nsrun -w larch-1 vllm serve x/y\n"
    )
    output = shown("diagnose", str(log), "-f", "markdown", "--launch", str(script))
    assert not [one for one in ("mireille", HEX40, "Hunter2x9q") if one in output], output


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mireille.log", "<USER-1>.log"),
        ("run_mireille.log", "run_<USER-1>.log"),
        ("slurm-88-larch-1.out", "slurm-88-<HOST-2>.out"),
        ("mireillefer.log", "mireillefer.log"),
        ("job.log", "job.log"),
    ],
)
def test_a_file_called_after_its_user_or_its_host(name: str, expected: str, tmp_path: Path) -> None:
    log = tmp_path / name
    log.write_text("USER=mireille\nMASTER_ADDR=larch-1\n")
    redactor = knowing([str(log)])
    assert redactor.text("USER=mireille MASTER_ADDR=larch-1") == "USER=<USER-1> MASTER_ADDR=<HOST-2>".replace("2", "1")
    assert redactor.text(f"in {name}: x") == f"in {expected.replace('HOST-2', 'HOST-1')}: x"


def test_of_a_long_log_both_ends_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned, "MOST", 4096)
    log = tmp_path / "job.log"
    log.write_text("USER=mireille\n" + "\n" * 5000 + "USER=annegret\n")
    assert knowing([str(log)]).text("/data/mireille/annegret/x") == "/data/<USER-1>/<USER-2>/x"


def test_a_log_that_tells_after_another_is_known_in_its_excerpt(tmp_path: Path) -> None:
    first, second = tmp_path / "1.log", tmp_path / "2.log"
    first.write_text(LOG.partition(FAR)[2])
    second.write_text(LOG.partition(FAR)[0])
    output = shown("reduce", str(first), str(second))
    assert "CUDA out of memory" in output
    assert not [one for one in TOLD if one in output], output


@pytest.mark.parametrize(
    "last", [f"WANDB_API_KEY={HEX40}", HF, "mireille.kessler@lab.ac.uk", "postgres://u:S3cretPw9long@10.0.0.9/x"]
)
@pytest.mark.parametrize("keep", [9, 18, 30])
def test_nothing_is_left_of_a_secret_that_a_cut_halves(last: str, keep: int, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    beginning = last.partition("=")[0]
    line = "y" * (1500 - keep - len(beginning) - 1) + f" {last} tail"
    quoted = OOM + " " + "y" * (LONGEST_QUOTE - len(OOM) - 2 - keep - len(beginning)) + f" {last} tail"
    log.write_text(f"{FRAMES}{line}\n{quoted}\n")
    secret = "S3cretPw9long" if "://" in last else last.rpartition("=")[2]
    assert diagnose(log).verdict == "oom"
    for output in (shown("issue", str(log)), shown("diagnose", str(log), "-f", "json", "--redact")):
        assert not left(secret, output, 9), output
