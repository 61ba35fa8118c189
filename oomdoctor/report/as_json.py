"""The report for programs: one JSON document, or one line per incident or event."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from oomdoctor.report.contract import Report

# Fields in the order of the contract; others follow.
_FIRST = ("schema_version", "tool", "verdict", "incidents", "diagnoses", "ruled_out", "remedies_rejected")


def document(report: Report) -> str:
    """`--format json`."""
    body = report.as_json()
    ordered = {name: body[name] for name in _FIRST} | body
    return json.dumps(finite(ordered), indent=2, ensure_ascii=False) + "\n"


def incident_lines(report: Report) -> str:
    """`--format jsonl`: one line per incident, its events inside, and the context."""
    body = report.as_json()
    events = {event["id"]: event for event in body["events"]}
    return "".join(
        _line(incident | {"events": [events[e] for e in incident["events"]], "context": body["context"]})
        for incident in body["incidents"]
    )


def event_lines(report: Report) -> str:
    """`oomdoctor events`: one line per event."""
    return "".join(_line(event) for event in report.as_json()["events"])


def _line(value: Any) -> str:
    return json.dumps(finite(value), ensure_ascii=False, separators=(",", ":")) + "\n"


def finite(value: Any) -> Any:
    """The value without infinities and NaN, which a log may print and JSON does not know."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value
