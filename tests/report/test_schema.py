from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace
from reports import LOGS, of_each, report_on
from sample_reports import CRASH, HEALTHY, HOG, INCONCLUSIVE, OOM, UNREADABLE

from oomdoctor.causes import causes
from oomdoctor.report import as_json
from oomdoctor.report.contract import Report
from oomdoctor.report.schema import schema


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    Draft202012Validator.check_schema(schema())
    return Draft202012Validator(schema())


def problems(validator: Draft202012Validator, document: Any) -> list[str]:
    return [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(document)]


@of_each(LOGS)
def test_what_a_real_log_gives_is_valid(validator: Draft202012Validator, log: Path) -> None:
    assert problems(validator, json.loads(as_json.document(report_on(log)))) == []


def with_known_causes(report: Report) -> Report:
    """The samples name causes that may not be there yet; the schema knows those that are."""
    known = causes()[0].id if causes() else ""
    return replace(
        report,
        incidents=tuple(
            replace(
                incident,
                diagnoses=tuple(replace(d, cause=known) for d in incident.diagnoses),
                ruled_out=tuple(replace(r, cause=known) for r in incident.ruled_out),
            )
            for incident in report.incidents
        ),
    )


@pytest.mark.parametrize("report", [OOM, HEALTHY, INCONCLUSIVE, UNREADABLE])
def test_samples_are_valid(validator: Draft202012Validator, report: Report) -> None:
    assert problems(validator, json.loads(as_json.document(with_known_causes(report)))) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("verdict", "maybe"),
        ("schema_version", 2),
        ("diagnoses.0.cause", "bad-luck"),
        ("diagnoses.0.pool", "vram"),
        ("diagnoses.0.stage", "lunch"),
        ("diagnoses.0.confidence", 91),
        ("diagnoses.0.remedies.0.spends", ["wallet"]),
        ("diagnoses.0.remedies.0.knob", "hope"),
        ("diagnoses.0.evidence.0.line", 0),
        ("events.0.role", "culprit"),
        ("events.0.usage.used_bytes", 1.5),
        ("events.0.usage.used_bytes", "121.60GB"),
        ("events.0.threshold.fraction", "95 %"),
        ("ledger.0.rows.0.basis", "guessed"),
        ("ledger.0.total_bytes", "128 GiB"),
        ("context.settings.zero_stage", ["3"]),
        ("incidents.0.diagnoses", None),
        ("errors.0", "gone.log"),
    ],
)
def test_what_the_contract_forbids_is_found(validator: Draft202012Validator, path: str, value: Any) -> None:
    document: Any = json.loads(as_json.document(with_known_causes(replace(OOM, errors=UNREADABLE.errors))))
    assert problems(validator, document) == []
    *steps, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
    target = document
    for step in steps:
        target = target[step]
    target[last] = value
    assert problems(validator, document) != []


@pytest.mark.parametrize("name", ["diagnoses", "next_evidence", "ledger", "context", "stats", "events"])
def test_a_field_that_is_missing_is_found(validator: Draft202012Validator, name: str) -> None:
    document = json.loads(as_json.document(with_known_causes(OOM)))
    del document[name]
    assert len(problems(validator, document)) == 1


def test_the_first_incident_stands_at_the_top_again() -> None:
    document = json.loads(as_json.document(OOM))
    for name in ("diagnoses", "ruled_out", "next_evidence", "ledger", "timeline", "trajectory"):
        assert document[name] == document["incidents"][0][name]
    assert list(document)[:4] == ["schema_version", "tool", "verdict", "incidents"]
    empty = json.loads(as_json.document(HEALTHY))
    assert (empty["diagnoses"], empty["ledger"], empty["trajectory"]) == ([], [], None)


def test_a_line_per_incident_and_per_event() -> None:
    report = replace(OOM, incidents=(CRASH, replace(CRASH, id="i2", events=("e2",))))
    lines = [json.loads(line) for line in as_json.incident_lines(report).splitlines()]
    assert [line["id"] for line in lines] == ["i1", "i2"]
    assert [[event["id"] for event in line["events"]] for line in lines] == [["e1", "e2"], ["e2"]]
    assert lines[0]["context"] == json.loads(as_json.document(OOM))["context"]
    assert [json.loads(line)["id"] for line in as_json.event_lines(report).splitlines()] == ["e1", "e2"]


def test_what_json_does_not_know_is_null_and_what_unicode_does_not_is_escaped() -> None:
    strange = replace(HOG, title="memo\udcff\u2028ry \u8d44\u6e90")
    report = replace(
        OOM,
        incidents=(replace(CRASH, diagnoses=(strange,)),),
        context=dict(OOM.context) | {"settings": {"lr": float("nan"), "clip": float("inf"), "ok": 0.5}},
    )
    for text in (as_json.document(report), as_json.incident_lines(report)):
        assert "NaN" not in text
        assert "Infinity" not in text
        assert "\u8d44" in text
        first = json.loads(text.encode("utf-8", "backslashreplace").splitlines()[0] if "\n{" in text else text)
        assert first["context"]["settings"] == {"lr": None, "clip": None, "ok": 0.5}
        assert first["diagnoses"][0]["title"] == strange.title


def test_the_same_bytes_give_the_same_bytes() -> None:
    assert as_json.document(OOM) == as_json.document(replace(OOM))
