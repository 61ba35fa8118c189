from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import run_text as oomdoctor

from oomdoctor.cli import train
from oomdoctor.decision import model
from oomdoctor.training.cases import CaseError, cases_in

LOG = "RuntimeError: CUDA error: out of memory\n"


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    folder = tmp_path / "cases"
    (folder / "one").mkdir(parents=True)
    (folder / "one" / "log.txt").write_text(LOG)
    (folder / "one" / "case.json").write_text(json.dumps({"root_cause": "gpu-memory-exhausted"}))
    return folder


def test_bench_prints_figures(cases: Path) -> None:
    done = oomdoctor("bench", str(cases))
    assert done.returncode == 0
    assert done.stderr == ""
    assert "right first  1/1  100.0%" in done.stdout
    assert json.loads(oomdoctor("bench", str(cases), "-f", "json").stdout)["right_first"] == [1, 1]


def test_bench_of_a_folder_without_cases(tmp_path: Path) -> None:
    done = oomdoctor("bench", str(tmp_path))
    assert done.returncode == 2
    assert "no case in it" in done.stderr


@pytest.mark.parametrize("name", ["../../elsewhere.log", "/etc/hostname", "a/../../b"])
def test_a_case_names_logs_beside_it_alone(cases: Path, name: str) -> None:
    (cases / "one" / "case.json").write_text(json.dumps({"root_cause": "activations", "inputs": [name]}))
    with pytest.raises(CaseError, match="names logs beside it"):
        cases_in(cases)


def test_a_case_that_is_nested_too_deeply_is_said(cases: Path) -> None:
    (cases / "one" / "case.json").write_text("[" * 100_000)
    with pytest.raises(CaseError, match="no JSON"):
        cases_in(cases)


def test_train_says_which_extra_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "find_spec", {"sklearn": None}.__getitem__)
    done = oomdoctor("train", "-o", str(tmp_path / "model.json"))
    assert done.returncode == 2
    said = "training needs scikit-learn, which is not installed: pip install 'oomdoctor[train]'"
    assert done.stderr == f"oomdoctor: {said}\n"


@pytest.mark.slow
def test_train_takes_no_label_that_is_no_cause(cases: Path, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    (cases / "one" / "case.json").write_text(json.dumps({"root_cause": "gremlins"}))
    done = oomdoctor("train", str(cases), "-o", str(tmp_path / "model.json"))
    assert done.returncode == 2
    assert "gremlins" in done.stderr


@pytest.fixture
def no_model_yet() -> Iterator[None]:
    """It is read once, and these tests name others."""
    model.used.cache_clear()
    yield
    model.used.cache_clear()


@pytest.mark.usefixtures("no_model_yet")
def test_a_model_of_ones_own(cases: Path, tmp_path: Path) -> None:
    told = json.loads(model.SHIPPED.read_text(encoding="utf-8"))
    told["trust"] = dict.fromkeys(told["trust"], 0.0)
    own = tmp_path / "own.json"
    own.write_text(json.dumps(told))
    log = str(cases / "one" / "log.txt")
    report = json.loads(oomdoctor("diagnose", log, "-f", "json", OOMDOCTOR_MODEL=str(own)).stdout)
    assert report["diagnoses"][0]["confidence"] == 0.5
    assert report["incidents"][0]["cause_open"] is True


@pytest.mark.usefixtures("no_model_yet")
def test_a_model_that_cannot_be_read(cases: Path, tmp_path: Path) -> None:
    done = oomdoctor("diagnose", str(cases / "one" / "log.txt"), OOMDOCTOR_MODEL=str(tmp_path / "gone.json"))
    assert done.returncode == 2
    what_to_do = "unset it, or set it to a file that `oomdoctor dev train -o FILE` wrote"
    assert done.stderr == f"oomdoctor: OOMDOCTOR_MODEL: gone.json: No such file or directory; {what_to_do}\n"
    (tmp_path / "bad.json").write_text('{"format": 3}')
    done = oomdoctor("diagnose", str(cases / "one" / "log.txt"), OOMDOCTOR_MODEL=str(tmp_path / "bad.json"))
    assert done.stderr == f"oomdoctor: OOMDOCTOR_MODEL: bad.json: not a model of oomdoctor; {what_to_do}\n"
