"""What holds of every remedy of every fixture, whatever the crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from formulas import equations, holds, nearly, value
from reports import LOGS, diagnosed, of_each

RAM = {"host_ram", "cgroup", "pinned"}


def remedies(log: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each remedy with the diagnosis that gives it."""
    found = [incident["diagnoses"] for incident in diagnosed(log)["incidents"]]
    return [(diagnosis, remedy) for diagnoses in found for diagnosis in diagnoses for remedy in diagnosis["remedies"]]


@of_each(LOGS)
def test_every_failure_has_a_cause_and_every_cause_has_remedies(log: Path) -> None:
    for incident in diagnosed(log)["incidents"]:
        assert incident["diagnoses"] or incident["verdict"] != "oom"
        assert [one["cause"] for one in incident["diagnoses"] if not one["remedies"]] == []


@of_each(LOGS)
def test_no_remedy_spends_the_pool_that_ran_out(log: Path) -> None:
    for diagnosis, remedy in remedies(log):
        ran_out = RAM if diagnosis["pool"] in RAM else {diagnosis["pool"]}
        assert not ran_out & set(remedy["spends"]), (diagnosis["cause"], remedy["knob"])


@of_each(LOGS)
def test_no_remedy_sets_what_is_set(log: Path) -> None:
    settings = diagnosed(log)["context"]["settings"]
    for _, remedy in remedies(log):
        if remedy["suggested"] is None:
            continue
        assert remedy["suggested"] != remedy["current"], remedy
        stated = settings.get((remedy["setting"] or "").lstrip("-+").replace("-", "_"))
        assert stated is None or str(stated).lower() != str(remedy["suggested"]).lower(), remedy


@of_each(LOGS)
def test_what_is_suggested_is_what_its_derivation_comes_to(log: Path) -> None:
    for _, remedy in remedies(log):
        suggested, derivation = remedy["suggested"], remedy["derivation"]
        if suggested is None:
            continue
        assert derivation, remedy
        if isinstance(suggested, bool) or not isinstance(suggested, int | float):
            continue
        results = [value(right) for _, right in equations(derivation)]
        alone = value(derivation) if not results else None
        shown = [result for result in (*results, alone) if result is not None]
        assert any(nearly(result, suggested) for result in shown) or str(suggested) in derivation, remedy


@of_each(LOGS)
def test_every_formula_comes_to_what_it_says(log: Path) -> None:
    shown = [remedy["derivation"] for _, remedy in remedies(log) if remedy["derivation"]]
    shown += [one["gap"]["derivation"] for one in diagnosed(log)["incidents"] if one["gap"]]
    rows = [row for one in diagnosed(log)["incidents"] for ledger in one["ledger"] for row in ledger["rows"]]
    shown += [row["derivation"] for row in rows if row["derivation"] and " smaller = " not in row["derivation"]]
    wrong = [(left, right, value(left), value(right)) for text in shown for left, right in equations(text)
             if not holds(left, right)]  # fmt: skip
    assert wrong == []
