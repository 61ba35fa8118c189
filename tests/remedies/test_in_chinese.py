"""In Chinese the report says the same: causes, values, formulas; and no English sentence is left in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from formulas import equations, holds, nearly, value
from reports import LOGS, diagnosed, of_each
from reports import diagnosed_in_chinese as in_chinese

FOR_PEOPLE = {"action", "derivation", "cost", "why", "explanation", "title", "assumes", "against", "device"}
SENTENCE = re.compile(r"(?:[A-Za-z]{2,}[,:;]? ){3}[a-z]{2,}")
LITERAL = re.compile(r'`[^`]*`|"[^"]*"|（[^（）]*）|\([^()]*\)')  # commands, options and what the log says itself


def remedies(report: dict[str, Any]) -> list[dict[str, Any]]:
    found = [diagnosis for incident in report["incidents"] for diagnosis in incident["diagnoses"]]
    return [remedy for diagnosis in found for remedy in diagnosis["remedies"]]


def told(value: Any, name: str = "") -> Iterator[str]:
    """All texts for people."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from told(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from told(item, name)
    elif isinstance(value, str) and name in FOR_PEOPLE:
        yield value


@of_each(LOGS)
def test_the_advice_is_the_same(log: Path) -> None:
    same = ("knob", "setting", "current", "suggested", "beside", "snippet", "relieves", "spends", "reference")
    english, chinese = ([[one[name] for name in same] for one in remedies(f(log))] for f in (diagnosed, in_chinese))
    assert chinese == english
    for one, other in zip(diagnosed(log)["incidents"], in_chinese(log)["incidents"], strict=True):
        assert other["fingerprint"] == one["fingerprint"]
        assert [d["confidence"] for d in other["diagnoses"]] == [d["confidence"] for d in one["diagnoses"]]
        assert [r["knob"] for r in other["remedies_rejected"]] == [r["knob"] for r in one["remedies_rejected"]]
        assert [[row["what"] for row in led["rows"]] for led in other["ledger"]] == [
            [row["what"] for row in led["rows"]] for led in one["ledger"]
        ]


@of_each(LOGS)
def test_every_formula_comes_to_what_it_says(log: Path) -> None:
    report = in_chinese(log)
    shown = [remedy["derivation"] for remedy in remedies(report) if remedy["derivation"]]
    shown += [one["gap"]["derivation"] for one in report["incidents"] if one["gap"]]
    wrong = [(left, right) for text in shown for left, right in equations(text) if not holds(left, right)]
    assert wrong == []
    for remedy in remedies(report):
        suggested, derivation = remedy["suggested"], remedy["derivation"]
        if isinstance(suggested, int | float) and not isinstance(suggested, bool):
            results = [value(right) for _, right in equations(derivation)] or [value(derivation)]
            assert any(one is not None and nearly(one, suggested) for one in results) or str(suggested) in derivation


@of_each(LOGS)
def test_no_english_sentence_is_left(log: Path) -> None:
    left = [text for text in told(in_chinese(log)) if SENTENCE.search(LITERAL.sub("", text))]
    assert left == []
