"""--launch, --config and --assume, as people type them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from oomdoctor.cli.app import app

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacity of 23.60 GiB\n"
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text(OOM)
    return path


def told(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["diagnose", *map(str, arguments)])


def test_each_may_be_repeated(log: Path, tmp_path: Path) -> None:
    files = {
        "a.sh": "python t.py --zero_stage 3\n",
        "b.sh": "export VLLM_USE_V1=1\n",
        "a.yaml": "actor:\n  micro_batch_size: 4\n",
        "b.json": '{"bf16": {"enabled": true}}',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = told(
        log, "-f", "json", "--launch", tmp_path / "a.sh", "--launch", tmp_path / "b.sh", "--config",
        tmp_path / "a.yaml", "--config", tmp_path / "b.json", "--assume", "vllm=0.8.3", "--assume", "num_workers=4",
    )  # fmt: skip
    assert done.exit_code == 1, done.output
    context = json.loads(done.output)["context"]
    assert context["settings"] == {
        "actor.micro_batch_size": 4,
        "bf16.enabled": True,
        "zero_stage": 3,
        "VLLM_USE_V1": 1,
        "num_workers": 4,
    }
    assert context["frameworks"]["vllm"] == "0.8.3"
    assert set(context["outside"]) == {*context["settings"], "vllm"}


def test_the_text_says_what_is_not_from_the_log(log: Path, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("python t.py --micro_train_batch_size 8\n")
    done = told(log, "-v", "--launch", tmp_path / "run.sh")
    assert "micro_train_batch_size=8 from run.sh line 1, not from the log" in done.output
    assert "micro_train_batch_size=8 (from run.sh line 1, not from the log)" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--launch", "gone.sh"), ("--launch", "gone.sh: no such file; name a file that can be read")),
        (("--config", "."), ("--config", "is a directory")),
        (("--config", "bad.yaml"), ("--config", "bad.yaml line 1: an alias", "use --assume")),
        (("--assume", "vllm"), ("--assume", "'vllm' is no NAME=VALUE", "--assume vllm=0.8.3 for a version")),
        (("--assume", "vllm=latest"), ("'latest' is no version of vllm",)),
    ],
)
def test_a_slip_is_explained_with_what_to_do(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text("a: *b\n")
    done = told(log, *arguments)
    assert done.exit_code == 2
    assert all(word in " ".join(done.output.split()) for word in words), done.output


def test_a_reason_says_which_of_its_settings_the_log_does_not_print(tmp_path: Path) -> None:
    killed = (
        "[7351.1] Out of memory: Killed process 318 (python) total-vm:91000000kB, anon-rss:61000000kB, file-rss:8kB, "
        "shmem-rss:0kB, UID:0 pgtables:150000kB oom_score_adj:0\n"
    )
    launch = "torchrun --nproc_per_node 8 -m openrlhf.cli.train_ppo_ray --adam_offload\n"
    log, script = tmp_path / "train.log", tmp_path / "run.sh"
    script.write_text(launch)
    reasons = []
    beside_it: tuple[str | Path, ...] = ("--launch", script)
    for text, options in ((killed, beside_it), (launch + killed, ())):
        log.write_text(text)
        found = json.loads(told(log, "-f", "json", *options).output)["incidents"][0]["diagnoses"]
        reasons.append(next(one["explanation"] for one in found if one["cause"] == "cpu-offload-overcommit"))
    beside, printed = reasons
    assert beside == f"{printed} Not from the log: adam_offload (from run.sh line 1)."
