"""Start-up is a feature: what a small log costs, and what must not be imported on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LOG = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacity of 23.60 GiB "
    "of which 1.25 GiB is free. Of the allocated memory 21.00 GiB is allocated by PyTorch, and 900.00 MiB is reserved "
    "by PyTorch but unallocated.\n"
)
FLOOR = """\
import pathlib
import lark, rich, typer
def main(path: pathlib.Path): pass
typer.run(main)
"""
OURS = "from oomdoctor.cli import main; main()"
LIMIT = 1.5  # times the floor
ROUNDS = 7


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "small.log"
    path.write_text(LOG)
    return path


def processor_seconds(folder: Path, *arguments: str) -> float:
    """Processor time, which a busy machine disturbs less than wall time, all modules compiled as pip does."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment | {"PYTHONPYCACHEPREFIX": str(folder / "compiled")},
    ) as child:
        _, _, used = os.wait4(child.pid, 0)
        child.returncode = 0
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_small_log_costs_little_more_than_the_libraries(log: Path, tmp_path: Path, form: str) -> None:
    floor = tmp_path / "floor.py"
    floor.write_text(FLOOR)
    ours, floors = [], []
    for _ in range(ROUNDS):  # side by side, so that both see the same machine
        ours.append(processor_seconds(tmp_path, "-c", OURS, "diagnose", str(log), "--format", form))
        floors.append(processor_seconds(tmp_path, str(floor), str(log)))
    assert min(ours) <= LIMIT * min(floors), f"{min(ours):.3f} s against {min(floors):.3f} s"


HEAVY = {"sklearn", "numpy", "ray", "jinja2", "torch", "pandas", "pydantic", "jsonschema", "pygments", "markdown_it"}


@pytest.mark.parametrize("arguments", [["diagnose"], ["diagnose", "-f", "json"], ["events"], ["--help"]])
def test_what_is_never_imported_on_this_path(log: Path, arguments: list[str]) -> None:
    paths = [] if arguments == ["--help"] else [str(log)]
    program = (
        "import atexit, json, sys\n"
        "atexit.register(lambda: print('\\n' + json.dumps(sorted({name.split('.')[0] for name in sys.modules}))))\n"
        f"sys.argv = {['oomdoctor', *arguments, *paths]!r}\n" + OURS
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    imported = set(json.loads(done.stdout.splitlines()[-1]))
    assert "typer" in imported
    assert imported & HEAVY == set()


def test_the_bare_package_is_cheap() -> None:
    program = "import oomdoctor, sys; print(*sorted(name for name in sys.modules if name.startswith('oomdoctor.')))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == []
