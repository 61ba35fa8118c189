"""Every fixture of every family gives exactly the events and lookalikes written beside it.

`fixtures/<family>/<name>.log` is a log, `<name>.json` what it must give:
"about" says what it is and what it was made from; "cause" is the first diagnosis, "not-oom" or "inconclusive";
"near_miss_of" counts, per kind of event, the messages in it
that look like that kind and are not. `pytest --update` writes what the log gives now; review the diff.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from reports import diagnosed, of_each

from oomdoctor.families import Event, anchors, found_in, whole
from oomdoctor.reading import pages
from oomdoctor.sources import Source

FIXTURES = Path(__file__).parent.parent / "fixtures"
FAMILIES = [family.name for family in whole()]
LOGS = sorted(path for name in FAMILIES for path in (FIXTURES / name).glob("*.log"))


def events_of(log: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"events": [], "lookalikes": []}
    read = (
        item for page, piece in pages(Source(log.name, log)) for _, item in found_in(page) if piece.owns(item.at.line)
    )
    for item in read:
        if not isinstance(item, Event):
            found["lookalikes"].append({"line": item.at.line, "why": item.why})
            continue
        record: dict[str, Any] = {"family": item.family, "kind": item.kind, "line": item.at.line}
        if item.at.end_line != item.at.line:
            record["end_line"] = item.at.end_line
        record["role"] = item.role
        for part in ("usage", "threshold", "fields"):
            if values := item.figures(part):
                record[part] = json.loads(json.dumps(values, default=_plain))
        process = {key: value for key, value in _plain(item.process).items() if value is not None}
        if process:
            record["process"] = process
        found["events"].append(record)
    return found


def cause_of(log: Path) -> str:
    report = diagnosed(log)
    if report["verdict"] == "no-oom":
        return "not-oom"
    return str(report["diagnoses"][0]["cause"]) if report["diagnoses"] else "inconclusive"


def _plain(value: Any) -> Any:
    return {name: getattr(value, name) for name in value.__slots__}


def expected_of(log: Path) -> dict[str, Any]:
    path = log.with_suffix(".json")
    expected: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return expected


@pytest.mark.parametrize("log", LOGS, ids=lambda log: f"{log.parent.name}/{log.stem}")
def test_a_fixture_gives_what_stands_beside_it(log: Path, update: bool) -> None:
    found = {"cause": cause_of(log), **events_of(log)}
    beside = log.with_suffix(".json")
    if update and (not beside.exists() or found != {name: expected_of(log).get(name) for name in found}):
        kept = json.loads(beside.read_text(encoding="utf-8")) if beside.exists() else {}
        first = {"about": "", "cause": ""}
        beside.write_text(json.dumps({**first, **kept, **found}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    expected = expected_of(log)
    assert found == {name: expected.get(name) for name in ("cause", "events", "lookalikes")}
    assert expected["about"], "say what the fixture is and what it was made from"
    kinds = Counter(event["kind"] for event in found["events"])
    assert not kinds.keys() & expected.get("near_miss_of", {}).keys()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_three_positives_and_three_near_misses_per_message(family: str) -> None:
    positives: Counter[str] = Counter()
    near_misses: Counter[str] = Counter()
    for log in (FIXTURES / family).glob("*.log"):
        expected = expected_of(log)
        positives.update(e["kind"] for e in expected["events"] if e["family"] == family)
        near_misses.update(expected.get("near_miss_of", {}))
    kinds = {event.kind for event in _kinds(Event) if event.family == family}
    tells = any(expected_of(log)["lookalikes"] for log in (FIXTURES / family).glob("*.log"))
    assert kinds or tells, "a family has at least one kind of event, or tells lookalikes"
    assert {kind: positives[kind] for kind in kinds if positives[kind] < 3} == {}
    assert {kind: near_misses[kind] for kind in kinds if near_misses[kind] < 3} == {}


def _kinds(base: type[Event]) -> list[type[Event]]:
    return [kind for sub in base.__subclasses__() for kind in (sub, *_kinds(sub)) if kind.kind]


@of_each(LOGS)
def test_the_first_pass_finds_every_fixture_that_tells_of_a_failure(log: Path) -> None:
    """By an anchor, or because it is an exception: in a whole log a traceback stands before it. What no family knows
    is looked for there and among the last lines."""
    roots = [e for e in expected_of(log)["events"] if e["role"] == "root" and e["family"] != "unfamiliar"]
    data = log.read_bytes()
    lines = data.decode("utf-8", "replace").split("\n")
    raised = [re.search(r"(?:Error|Exception)\b[^:]{0,40}: |thread '", lines[event["line"] - 1]) for event in roots]
    assert not roots or any(raised) or any(anchor in data for anchor in anchors())
