"""Start-up is a feature: what must not be imported on the way. How long it takes, `python -m benchmarks` measures."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from oomdoctor import families
from oomdoctor.families import container

LOG = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacity of 23.60 GiB "
    "of which 1.25 GiB is free. Of the allocated memory 21.00 GiB is allocated by PyTorch, and 900.00 MiB is reserved "
    "by PyTorch but unallocated.\n"
)
OURS = "from oomdoctor.cli import main; main()"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "small.log"
    path.write_text(LOG)
    return path


HEAVY = {
    "sklearn",
    "numpy",
    "ray",
    "jinja2",
    "torch",
    "pandas",
    "pydantic",
    "jsonschema",
    "pygments",
    "markdown_it",
    "yaml",
    "babel",
} | ({"lark"} if families.HEADS.is_file() else set())  # a checkout makes the parsers' tables anew


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
    assert "oomdoctor" in imported
    assert imported & HEAVY == set()
    if arguments == ["diagnose"]:  # no option to read, and nothing to draw that is not ASCII
        assert imported & {"typer", "rich"} == set()


def test_what_a_report_makes_is_not_looked_through_for_cycles(log: Path) -> None:
    program = (
        "import atexit, gc, json, sys\n"
        "told = lambda: json.dumps([gc.get_stats()[0]['collections'], gc.get_freeze_count()])\n"
        "atexit.register(lambda: print('\\n' + told()))\n"
        f"sys.argv = ['oomdoctor', 'diagnose', {str(log)!r}]\n"
        "from oomdoctor.cli import main\n"
        "imported = gc.get_stats()[0]['collections']\n"
        "atexit.register(lambda: print(f'\\n{imported}'))\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    *_, imported, _, told = done.stdout.splitlines()
    collections, frozen = json.loads(told)
    assert collections == int(imported)
    assert frozen > 50_000


def test_the_bare_package_is_cheap() -> None:
    program = "import oomdoctor, sys; print(*sorted(name for name in sys.modules if name.startswith('oomdoctor.')))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("text", "loaded"), [("step 1 loss 0.5\n", False), ("RuntimeError: CUDA error: out of memory\n", True)]
)
def test_the_tables_come_with_the_first_crash(tmp_path: Path, text: str, loaded: bool) -> None:
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    program = "import oomdoctor, sys; oomdoctor.diagnose('train.log'); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    tables = ("oomdoctor.signs", "oomdoctor.causes", "oomdoctor.decision.ranking", "oomdoctor.remedies.advise")
    assert [name in done.stdout.split() for name in tables] == [loaded] * len(tables)


def test_a_log_of_one_manager_loads_no_other_managers_file(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("srun: error: node7: task 3: Out Of Memory\n", encoding="utf-8")
    program = "import oomdoctor, sys; oomdoctor.diagnose('job.log'); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    managers = {name for name in done.stdout.split() if name.rpartition(".")[0] == container.__name__}
    assert {name.rpartition(".")[2] for name in managers} & container.MANAGERS.keys() == {"slurm"}


def test_every_managers_file_is_asked() -> None:
    modules = {module.name for module in pkgutil.iter_modules(container.__path__)}
    assert modules - container.MANAGERS.keys() == {"records"}
