"""The three hooks under the real pre-commit, installed from a copy of this repository. Needs git and the registry."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from crash_logs import CRASH, HEALTHY, TOKEN

from oomdoctor.helpers import our_form
from oomdoctor.helpers.block import BEGIN

TOP = Path(__file__).parent.parent.parent
HOOKS = TOP / ".pre-commit-hooks.yaml"
PACKAGE = (
    "oomdoctor",
    ".ci",
    "grammars",
    "pyproject.toml",
    "hatch_build.py",
    "README.md",
    "LICENSE",
    ".pre-commit-hooks.yaml",
)
IDS = ("oomdoctor-issue-form", "oomdoctor-redact", "oomdoctor-draft")

pytestmark = [
    pytest.mark.skipif(not HOOKS.is_file(), reason="the hooks are part of the repository, not of the wheel"),
    pytest.mark.skipif(shutil.which("git") is None, reason="pre-commit needs git"),
]


class Repository:
    """One that uses the hooks."""

    def __init__(self, folder: Path, hooks: Path, revision: str, home: Path) -> None:
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PRE_"))}
        self.environment |= GIT | {"PRE_COMMIT_HOME": str(home), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        folder.mkdir()
        git(folder, "init", "-q")
        config = {"repos": [{"repo": str(hooks), "rev": revision, "hooks": [{"id": name} for name in IDS]}]}
        self.put(".pre-commit-config.yaml", yaml.safe_dump(config))

    def put(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        git(self.folder, "add", name)
        return path

    def run(self, hook: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pre_commit", "run", "--color", "never", "--verbose", hook],
            check=False,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
        )


GIT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull} | {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "A Tester"), ("EMAIL", "tester@example.com"))
}


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], check=True, cwd=folder, env=os.environ | GIT, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


def copied(to: Path) -> str:
    """A repository of what the package is built of; its revision."""
    to.mkdir()
    for name in PACKAGE:
        if (TOP / name).is_dir():
            shutil.copytree(TOP / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(TOP / name, to / name)
    git(to, "init", "-q")
    git(to, "add", ".")
    git(to, "commit", "-q", "-m", "a copy")
    return git(to, "rev-parse", "HEAD")


@pytest.mark.slow
def test_the_hooks_under_the_real_pre_commit(tmp_path: Path) -> None:
    """One test for the three, because making their environment takes most of the time."""
    hooks = tmp_path / "oomdoctor"
    revision = copied(hooks)

    def user(name: str) -> Repository:
        return Repository(tmp_path / name, hooks, revision, tmp_path / "home")

    the_form_is_kept_in_step(user("form"))
    the_diagnosis_is_put_into_staged_drafts_only(user("draft"))
    secrets_in_staged_logs_are_told_by_line_and_kind(user("redact"))


def the_form_is_kept_in_step(user: Repository) -> None:
    first = user.run("oomdoctor-issue-form")
    assert first.returncode == 1, first.stdout + first.stderr
    assert "written; check the file" in first.stdout
    path = user.folder / our_form.PLACE
    assert path.read_text(encoding="utf-8") == our_form.text()
    git(user.folder, "add", our_form.PLACE)
    assert user.run("oomdoctor-issue-form").returncode == 0
    user.put(our_form.PLACE, our_form.text().replace("Out of memory", "Old"))
    assert user.run("oomdoctor-issue-form").returncode == 1
    assert path.read_text(encoding="utf-8") == our_form.text()


def the_diagnosis_is_put_into_staged_drafts_only(user: Repository) -> None:
    text = f"It died:\n\n`````text\n{CRASH}`````\n"
    draft = user.put("issues/oom at start.md", text)
    others = [
        user.put("docs/notes.md", text),
        user.put(".github/ISSUE_TEMPLATE/crash.md", text),
        user.put("issues/fine.md", f"```\n{HEALTHY}```\n"),
    ]
    before = [path.read_bytes() for path in others]
    first = user.run("oomdoctor-draft")
    assert first.returncode == 1, first.stdout + first.stderr
    assert "issues/oom at start.md: diagnosis updated" in first.stdout
    assert draft.read_text(encoding="utf-8").startswith(f"{text}\n{BEGIN}\n")
    assert [path.read_bytes() for path in others] == before
    git(user.folder, "add", "issues")
    second = user.run("oomdoctor-draft")
    assert second.returncode == 0, second.stdout + second.stderr


def secrets_in_staged_logs_are_told_by_line_and_kind(user: Repository) -> None:
    user.put("runs/healthy.log", HEALTHY)
    user.put("src/train.py", f"KEY = '{TOKEN}'\n")  # the secrets of code are for others to find
    clean = user.run("oomdoctor-redact")
    assert clean.returncode == 0, clean.stdout + clean.stderr
    user.put("runs/train.log", CRASH)
    found = user.run("oomdoctor-redact")
    assert found.returncode == 1, found.stdout + found.stderr
    assert "runs/train.log, line 2: a Hugging Face token" in found.stdout
    assert TOKEN not in found.stdout + found.stderr
    git(user.folder, "rm", "-q", "--cached", "runs/train.log")
    user.put("requirements.txt", f"# {TOKEN}\n")
    user.put("data/vocabulary.txt", f"{TOKEN}\n")
    assert user.run("oomdoctor-redact").returncode == 0
    for name in ("log.txt", "run-3.txt", "logs/rank0.txt", "stderr"):
        user.put(name, CRASH)
    found = user.run("oomdoctor-redact")
    assert found.returncode == 1, found.stdout + found.stderr
    assert all(f"{name}, line 2" in found.stdout for name in ("log.txt", "run-3.txt", "logs/rank0.txt", "stderr"))


LOGS = """
    log.txt logs.txt run.txt run3.txt run-3.txt output.txt out.txt stdout.txt stderr.txt err.txt error.txt errors.txt
    console.txt console_output.txt train_log.txt error_log.txt log_2025-06-02.txt slurm-123.txt slurm-123.out dmesg.txt
    traceback.txt a/Output.TXT logs/rank0.txt a/logs/node1/driver.txt train.log train.log.1 train.log.old train.log.txt
    train.log-20250602 train.log.2025-06-02 nohup.out job.err.2 0/stderr stdout rank0_stdout dmesg issues/oom.md
"""
OTHERS = """
    requirements.txt requirements-dev.txt requirements/run.txt run-requirements.txt logs/requirements.txt
    constraints.txt CMakeLists.txt README.txt LICENSE.txt robots.txt notes.txt changelog.txt blog.txt catalog.txt
    dialog.txt login.txt runtime.txt outline.txt layout.txt dropout.txt errata.txt prompt.txt vocab.txt data/train.txt
    src/train.py src/log.py src/run.sh logs.json output.json train.log.py stdout.py src/logging/format.txt
    .github/log.txt
"""


@pytest.mark.parametrize(("names", "wanted"), [(LOGS, True), (OTHERS, False)])
def test_which_files_are_looked_through_for_secrets(names: str, wanted: bool) -> None:
    (hook,) = (one for one in yaml.safe_load(HOOKS.read_text(encoding="utf-8")) if one["id"] == "oomdoctor-redact")
    assert [name for name in names.split() if _is_looked_at(hook, name) is not wanted] == []


def _is_looked_at(hook: dict[str, str], name: str) -> bool:
    """As pre-commit asks."""
    return bool(re.search(hook["files"], name)) and not re.search(hook["exclude"], name)


def test_every_hook_says_what_it_needs() -> None:
    hooks = yaml.safe_load(HOOKS.read_text(encoding="utf-8"))
    assert [hook["id"] for hook in hooks] == list(IDS)
    for hook in hooks:
        assert hook["language"] == "python"
        assert hook["minimum_pre_commit_version"] == "3.2.0"
        assert hook["entry"].startswith("oomdoctor ")
