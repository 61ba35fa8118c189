"""One ranking of what the rules and the classifier say.

Where a rule has its numbers or the message names the cause (a weight of 0.5 or more), the rules' weights decide the
order. What is left behind these, or alone, is ordered by how likely it is right, in which the classifier has its word;
it may add a cause only where no rule has such a weight. The confidence is how often answers like this one, by the
rule's weight, its distance to the next, the proof and the classifier's agreement, were right on our own labelled logs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from oomdoctor.causes import NAMED, WHOLE_LOG, Cause, Finding, causes
from oomdoctor.classifier.features import features
from oomdoctor.classifier.model import Model, shipped
from oomdoctor.incident.model import Crash
from oomdoctor.records import dataclass
from oomdoctor.units import percent

UNTRAINED: Final = 0.5  # the agreement on a cause that the model was not trained on: neither for nor against
LEAST, MOST = 0.01, 0.99  # nothing is certain


@dataclass(frozen=True, slots=True)
class Ranked:
    cause: Cause
    finding: Finding
    confidence: float


@dataclass(frozen=True, slots=True)
class Ranking:
    answers: tuple[Ranked, ...]  # best first
    open: bool  # whether the log leaves the cause open

    @property
    def findings(self) -> list[tuple[Cause, Finding]]:
        return [(answer.cause, answer.finding) for answer in self.answers]


def ranked(
    crash: Crash, findings: Sequence[tuple[Cause, Finding]], ruled_out: frozenset[str], model: Model | None = None
) -> Ranking:
    """The answers in their order, each with how likely it is right."""
    model = model or shipped()
    likely = model.probabilities(features(crash))
    found = [*findings, *_added(crash, findings, ruled_out, likely, model)]
    proven = crash.proven or any(finding.shows_memory for _, finding in findings)
    answers = [
        Ranked(cause, finding, _trusted(model, finding, _best_other(found, cause), proven, likely.get(cause.id, UNTRAINED)))
        for cause, finding in found
    ]
    answers.sort(key=_order)
    falling = _falling(answers)
    return Ranking(falling, open=not falling or falling[0].confidence < model.open_below)


def _order(answer: Ranked) -> tuple[float, float]:
    """Rules that have their numbers by their weights, the others behind them by how likely they are right."""
    weight = answer.finding.weight
    return (-weight, 0.0) if weight >= NAMED else (0.0, -answer.confidence)


def _best_other(found: Sequence[tuple[Cause, Finding]], cause: Cause) -> float:
    return max((finding.weight for other, finding in found if other.id != cause.id), default=0.0)


def _trusted(model: Model, finding: Finding, other: float, proven: bool, agreement: float) -> float:
    return model.trust.of(
        weight=finding.weight, margin=finding.weight - other, proven=proven, agreement=agreement
    )


def _falling(answers: Sequence[Ranked]) -> tuple[Ranked, ...]:
    """No answer is surer than the one before it: where numbers decide the order, they decide that as well."""
    ceiling = MOST
    falling = []
    for answer in answers:
        ceiling = min(ceiling, max(answer.confidence, LEAST))
        falling.append(Ranked(answer.cause, answer.finding, ceiling))
    return tuple(falling)


def _added(
    crash: Crash,
    findings: Sequence[tuple[Cause, Finding]],
    ruled_out: frozenset[str],
    likely: Mapping[str, float],
    model: Model,
) -> list[tuple[Cause, Finding]]:
    """The cause that the classifier names, where the rules leave it open."""
    if any(finding.weight >= NAMED for _, finding in findings):
        return []
    known = {cause.id for cause, _ in findings} | ruled_out
    best = max(likely, key=lambda cause: likely[cause])
    cause = next((cause for cause in causes() if cause.id == best), None)
    if cause is None or cause.id in known or crash.pool not in cause.pools or likely[best] < model.add_from:
        return []
    why = (
        f"No figure decides it; the message, and what stands around it, are most like those of this cause "
        f"({percent(likely[best])} by likeness)."
    )
    against = ("no rule has found a sign of it that it could show",)
    return [(cause, Finding(weight=0.0, why=why, evidence=(crash.root,), against=against, next_evidence=(WHOLE_LOG,)))]


__all__ = ["Ranked", "Ranking", "ranked"]
