"""CONTRIBUTING.md is followed to the letter, in a copy of the package."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).parent.parent
FILES = re.compile(r"^`([\w/.-]+)`:\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LOG = "fixtures/quarry/larger-than-the-pool.log"

pytestmark = pytest.mark.skipif(not (TOP / "grammars").is_dir(), reason="only a checkout has what is added to")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is when all that CONTRIBUTING.md says has been done."""
    top = tmp_path_factory.mktemp("copy")
    for folder in ("oomdoctor", "grammars"):
        shutil.copytree(TOP / folder, top / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name, content in FILES.findall((TOP / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        assert not (top / name).exists(), f"{name} is nothing new"
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(content, encoding="utf-8")
    return top


def oomdoctor(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = "import sys; sys.path.insert(0, ''); from oomdoctor.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, cwd=copy, timeout=60
    )


def report(copy: Path, log: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(oomdoctor(copy, "diagnose", log, "--format", "json").stdout)
    return told


def test_the_new_family_reads_its_message(copy: Path) -> None:
    (line,) = oomdoctor(copy, "events", LOG).stdout.splitlines()
    event = json.loads(line)
    assert (event["family"], event["kind"]) == ("quarry", "pool-exhausted")
    assert event["usage"] == {"tried_bytes": 96 * 2**30, "free_bytes": 510 * 2**20}
    assert event["threshold"] == {"pool_bytes": 64 * 2**30}


def test_the_new_cause_is_found_and_explained(copy: Path) -> None:
    (incident,) = report(copy, LOG)["incidents"]
    first = incident["diagnoses"][0]
    assert first["cause"] == "quarry-pool-too-small"
    assert "96.00 GiB" in json.dumps(first)
    assert oomdoctor(copy, "explain", first["cause"]).stdout.startswith(f"# {first['title']}")
    assert first["cause"] in oomdoctor(copy, "causes").stdout


def test_a_sample_that_an_empty_pool_holds_is_another_matter(copy: Path) -> None:
    near = copy / "fits.log"
    near.write_text((copy / LOG).read_text(encoding="utf-8").replace("96.00 GiB", "9.00 GiB"), encoding="utf-8")
    (incident,) = report(copy, str(near))["incidents"]
    assert "quarry-pool-too-small" not in [diagnosis["cause"] for diagnosis in incident["diagnoses"]]
    assert "quarry-pool-too-small" in json.dumps(incident)  # ruled out, with the figures


def test_the_code_is_as_clean_as_ours(copy: Path) -> None:
    names = [str(copy / name) for name, _ in FILES.findall((TOP / "CONTRIBUTING.md").read_text(encoding="utf-8"))]
    code = [name for name in names if name.endswith(".py")]
    assert len(code) == 3
    config = str(TOP / "pyproject.toml")
    for command in (["check"], ["format", "--check"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, "--config", config, *code], check=True)
