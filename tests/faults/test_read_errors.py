"""Disks that fail in the middle of a log: what was read counts, and that it is not all is said."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest
from started import ENVIRONMENT, HEALTHY, OOM, Done, built_shim, run, said, with_logs

FILLING = "INFO trainer.py:7 -- step loss 0.125\n" * 40_000  # 1.5 MB
EIO = "input/output error"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return with_logs(tmp_path)


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_shim(tmp_path_factory.mktemp("shim"))


def failing(shim: Path, suffix: str, after: int) -> dict[str, str]:
    return {**ENVIRONMENT, "LD_PRELOAD": str(shim), "READS_FAIL_OF": suffix, "READS_FAIL_AFTER": str(after)}


def diagnosed(logs: Path, shim: Path, name: str, after: int, *others: str) -> Done:
    return run("diagnose", name, *others, "-f", "json", cwd=logs, env=failing(shim, name, after))


def test_what_stands_before_the_error_is_diagnosed(logs: Path, shim: Path) -> None:
    (logs / "job.log").write_text(OOM + FILLING)
    done = diagnosed(logs, shim, "job.log", 1024 * 1024 + 5)
    assert (done.returncode, said(done)) == (1, f"oomdoctor: job.log: {EIO}")
    report = json.loads(done.stdout)
    assert report["verdict"] == "oom"
    assert report["errors"] == [{"file": "job.log", "why": EIO}]


@pytest.mark.slow
def test_a_log_that_was_not_read_to_its_end_is_not_called_healthy(logs: Path, shim: Path) -> None:
    (logs / "job.log").write_text(FILLING + OOM)
    done = diagnosed(logs, shim, "job.log", 1024 * 1024, "healthy.log")
    assert (done.returncode, said(done)) == (2, f"oomdoctor: job.log: {EIO}")
    assert json.loads(done.stdout)["errors"] == [{"file": "job.log", "why": EIO}]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gz", "tar", "zip"])
def test_inside_a_packed_log(logs: Path, shim: Path, kind: str) -> None:
    text = (OOM + FILLING).encode()
    name = f"job.{kind}"
    if kind == "gz":
        (logs / name).write_bytes(gzip.compress(text, 0))
    elif kind == "zip":
        with zipfile.ZipFile(logs / name, "w") as archive:
            archive.writestr("job.log", text)
    else:
        with tarfile.open(logs / name, "w") as tar:
            info = tarfile.TarInfo("job.log")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    done = diagnosed(logs, shim, name, len(text) // 2)
    told = done.stderr.decode().splitlines()
    assert told
    assert all(line.startswith(f"oomdoctor: {name}") and line.endswith(EIO) for line in told)
    assert done.returncode == (2 if kind == "tar" else 1)  # which is listed before it is read


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("redact", "job.log"), 2),
        (("compare", "healthy.log", "job.log"), 2),
        (("diagnose", "healthy.log", "--launch", "job.log"), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_the_other_commands_say_it(logs: Path, shim: Path, arguments: tuple[str, ...], code: int) -> None:
    (logs / "job.log").write_text(FILLING)
    done = run(*arguments, cwd=logs, env=failing(shim, "job.log", 4096))
    assert EIO in done.stderr.decode()
    assert "a bug in oomdoctor" not in done.stderr.decode()
    assert done.returncode == code
    assert not (arguments[0] == "redact" and done.stdout), "a part would look like all of it"


def test_a_file_that_cannot_be_read_at_all(logs: Path) -> None:
    """No trick: nothing is mapped at the beginning of a process's memory."""
    done = run("diagnose", "/proc/self/mem", "healthy.log", cwd=logs)
    assert said(done).endswith(EIO)
    assert done.returncode == 2


def test_a_log_that_vanishes_while_the_folder_is_read(logs: Path) -> None:
    from oomdoctor import street

    (logs / "gone.log").write_text(OOM)
    found = street.look([str(logs)])
    (logs / "gone.log").unlink()
    facts = street.facts_in(found)
    assert [(trouble.file, trouble.why) for trouble in facts.errors] == [("gone.log", "no such file")]
    assert len(facts.crashes) == 1


def test_a_log_that_grows_while_it_is_read_is_read_to_its_end(tmp_path: Path) -> None:
    from oomdoctor.sources import gather

    log = tmp_path / "job.log"
    log.write_text(FILLING)
    (source,), _ = gather([str(log)])
    blocks = source.blocks()
    read = next(blocks)
    with log.open("a") as more:
        more.write(HEALTHY)
    assert read + b"".join(blocks) == (FILLING + HEALTHY).encode()
    assert source.troubles == []
