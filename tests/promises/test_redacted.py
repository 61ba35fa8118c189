"""What every command gives out for others holds no secret and no name that the log tells."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import run
from planted_secrets import HEX, drawn
from typer.testing import CliRunner

from oomdoctor.cli.app import app

TOKEN, KEY = "hf_" + drawn(34), drawn(40, HEX)
USER, HOST, MAIL = "mireille", "larch-17", "mireille@lab.example.org"
SECRETS = (TOKEN, KEY, USER, HOST, MAIL)

LOG = (
    f"USER={USER}\nSLURMD_NODENAME={HOST}\nHF_TOKEN={TOKEN}\nmailing {MAIL}\n"
    f"python -m openrlhf.cli.train_ppo_ray --micro_train_batch_size 8 --zero_stage 2 --use_wandb {KEY} "
    f"--pretrain /data/{USER}/model --save_path /scratch/{USER}/out\n"
    f'Traceback (most recent call last):\n  File "/home/{USER}/train.py", line 3, in f\n    loss.backward()\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacity of 23.60 GiB "
    "of which 1.25 GiB is free. Including non-PyTorch memory, this process has 22.30 GiB memory in use. Of the "
    f"allocated memory 21.00 GiB is allocated by PyTorch. token={TOKEN} on {HOST} for {MAIL}\n"
)
SHARED = (
    ("diagnose", "train.log", "-f", "markdown"),
    ("diagnose", "train.log", "-f", "html"),
    ("diagnose", "train.log", "-f", "github"),
    ("issue", "train.log"),
    ("issue", "train.log", "--launch", "run.sh"),
    ("issue", "train.log", "--repo", "a/b", "--url"),
    ("reduce", "train.log"),
    ("redact", "train.log"),
    ("redact", "--check", "train.log"),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.log").write_text(LOG)
    (tmp_path / "run.sh").write_text(
        f"#SBATCH --mail-user={MAIL}\nexport HF_TOKEN={TOKEN}\npython x.py --zero_stage 2\n"
    )
    (tmp_path / "draft.md").write_text(f"# A crash\n\n```\n{LOG}```\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    return tmp_path


def told(text: str) -> set[str]:
    return {secret for secret in SECRETS if secret in text}


@pytest.mark.parametrize("arguments", SHARED, ids=" ".join)
def test_no_secret_in_what_is_for_others(folder: Path, arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code in (0, 1)
    assert told(done.stdout) == set()
    assert told(done.stderr) == set()
    summary = folder / "summary.md"
    assert not summary.exists() or told(summary.read_text()) == set()


@pytest.mark.parametrize(
    "arguments", [("diagnose", "train.log", "-f", "markdown"), ("reduce", "train.log")], ids=" ".join
)
def test_unless_it_is_asked_for(folder: Path, arguments: tuple[str, ...]) -> None:
    """Or the test above would test nothing."""
    assert told(CliRunner().invoke(app, [*arguments, "--no-redact"]).stdout)


def test_a_diagnosis_in_a_draft(folder: Path) -> None:
    assert CliRunner().invoke(app, ["draft", "draft.md"]).exit_code == 1
    text = (folder / "draft.md").read_text()
    assert told(text.replace(LOG, "")) == set()


def test_a_log_that_is_watched(folder: Path) -> None:
    done = run("watch", "-f", "markdown", feed=(folder / "train.log").read_bytes())
    assert done.returncode == 1
    assert told(done.stdout.decode()) == set()
