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


KILN = """\
[kiln] kiln 2.1.0 firing glazes/stoneware.yml
(KilnShelf pid=71) Traceback (most recent call last):
(KilnShelf pid=71)   File "/env/lib/python3.11/site-packages/kiln/firing/loop.py", line 88, in backward
(KilnShelf pid=71)     loss.backward()
(KilnShelf pid=71) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. \
GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free. Process 71 has 78.00 GiB memory in use. \
Of the allocated memory 77.00 GiB is allocated by PyTorch, and 400.00 MiB is reserved by PyTorch but unallocated.
"""


def test_the_new_framework_is_recognised_spelled_and_typed(copy: Path) -> None:
    (copy / "kiln.log").write_text(KILN, encoding="utf-8")
    told = report(copy, "kiln.log")
    assert next(iter(told["context"]["frameworks"])) == "kiln"
    assert told["context"]["frameworks"]["kiln"] == "2.1.0"
    (incident,) = told["incidents"]
    spelled = {remedy["knob"]: remedy["setting"] for remedy in incident["diagnoses"][0]["remedies"]}
    assert spelled["smaller-microbatch"] == "pieces_per_shelf"
    assert spelled["gradient-checkpointing"] == "refire_glazes"
    assert {event["process"]["role"] for event in told["events"] if event["process"].get("name") == "KilnShelf"} == {
        "policy"
    }
    assert "pieces_per_shelf: INT" in oomdoctor(copy, "knobs", "--framework", "kiln").stdout
    program = (
        "import sys; sys.path.insert(0, ''); from oomdoctor.job.frameworks import framework, trainers; "
        "own = framework('kiln'); print(own.world, own.task, own.title, 'kiln' in trainers())"
    )
    typed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=copy)
    assert typed.stdout.split() == ["torch", "training", "Kiln", "True"]


def test_a_kiln_that_nobody_fires_is_no_framework(copy: Path) -> None:
    near = KILN.replace("[kiln] kiln 2.1.0 firing", "kiln at 1240.5 degrees, loading")
    near = near.replace("kiln/firing", "pottery/kiln").replace("KilnShelf", "KilnDoor")
    (copy / "near.log").write_text(near, encoding="utf-8")
    assert "kiln" not in report(copy, "near.log")["context"]["frameworks"]


def test_the_code_is_as_clean_as_ours(copy: Path) -> None:
    names = [str(copy / name) for name, _ in FILES.findall((TOP / "CONTRIBUTING.md").read_text(encoding="utf-8"))]
    code = [name for name in names if name.endswith(".py")]
    assert len(code) == 3
    config = str(TOP / "pyproject.toml")
    for command in (["check"], ["format", "--check"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, "--config", config, *code], check=True)
