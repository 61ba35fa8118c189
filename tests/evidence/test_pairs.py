"""A log that cannot tell why its job died, and what a command printed afterwards: believed or rightly not.

A folder of `fixtures/pairs` is one crash. `job.log` is what the job left; every other file but `expected.json` is what
somebody gives beside it. What is not believed is named `near-...`. In `expected.json`:

- "about": what it is, and what the output was made from
- "alone": verdict and cause of the log by itself; ["inconclusive", "killed-without-evidence"] where it is not given
- "verdict", "cause", "pool": the answer with the evidence; "cause" is null where the report has no incident
- "quotes": words of a line of the evidence that the first diagnosis rests on
- "explains", "against", "lookalikes", "notes": words that stand in the explanation, in what speaks against it, in what
  looks like a memory failure and is none, in the report's notes
- "pasted": verdict and cause where the output stands below the log in one file, if that differs
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oomdoctor import diagnose
from oomdoctor.report.contract import Report

PAIRS = sorted((Path(__file__).parent.parent.parent / "fixtures" / "pairs").iterdir())
CANNOT_TELL = ["inconclusive", "killed-without-evidence"]


def expected_of(pair: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((pair / "expected.json").read_text(encoding="utf-8"))
    return told


def evidence_of(pair: Path) -> list[Path]:
    return [path for path in sorted(pair.iterdir()) if path.name not in ("job.log", "expected.json")]


def answer_of(report: Report) -> list[str | None]:
    first = report.incidents[0].diagnoses[0] if report.incidents else None
    return [report.verdict, first.cause if first else None]


def missing(words: list[str], texts: list[str]) -> list[str]:
    return [word for word in words if not any(word in text for text in texts)]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_what_the_evidence_decides(pair: Path) -> None:
    expected = expected_of(pair)
    assert expected["about"]
    assert answer_of(diagnose(pair / "job.log")) == expected.get("alone", CANNOT_TELL)
    report = diagnose(pair / "job.log", *evidence_of(pair))
    assert answer_of(report) == [expected["verdict"], expected["cause"]]
    assert missing(expected.get("lookalikes", []), [quote.why for quote in report.lookalikes]) == []
    assert missing(expected.get("notes", []), list(report.notes)) == []
    if not report.incidents:
        return
    first = report.incidents[0].diagnoses[0]
    assert first.pool == expected.get("pool", first.pool)
    given = [one.text for one in first.evidence if not one.file.endswith("job.log")]
    assert missing(expected.get("quotes", []), given) == []
    assert missing(expected.get("explains", []), [first.explanation]) == []
    assert missing(expected.get("against", []), list(first.against)) == []


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_same_pasted_below_the_log(pair: Path, tmp_path: Path) -> None:
    expected = expected_of(pair)
    log = tmp_path / "job.log"
    texts = [path.read_text(encoding="utf-8") for path in (pair / "job.log", *evidence_of(pair))]
    log.write_text("".join(texts), encoding="utf-8")
    assert answer_of(diagnose(log)) == expected.get("pasted", [expected["verdict"], expected["cause"]])


def test_what_is_given_is_not_asked_for_again() -> None:
    pair = next(pair for pair in PAIRS if pair.name == "sacct-plain-sigkill")
    alone, both = (diagnose(pair / "job.log", *files) for files in ([], evidence_of(pair)))
    asked, still = ([command.split()[0] for command in report.incidents[0].next_evidence] for report in (alone, both))
    assert "sacct" in asked
    assert "sacct" not in still
    assert "dmesg" in still


def test_a_good_part_is_not_believed() -> None:
    assert sum(pair.name.startswith("near-") for pair in PAIRS) * 4 >= len(PAIRS)
