"""What the model learns from: a crash's features and the rules' answers, beside the label."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from oomdoctor.causes import Finding
from oomdoctor.decision.features import features
from oomdoctor.decision.judgement import is_shown, judgements
from oomdoctor.families.unfamiliar import in_other_words
from oomdoctor.records import dataclass
from oomdoctor.street import Facts
from oomdoctor.training.cases import Case, facts_of_text, fixtures
from oomdoctor.training.generator import logs

Advance = Callable[[], None]
OWN: Final = 3.0  # how much more a log that a job or a person wrote counts than a generated one


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    cause: str
    fair: frozenset[str]
    features: dict[str, float]
    weights: dict[str, float]  # what the rules give each cause
    proven: bool
    known: bool  # told in words that a family knows
    own: bool  # written by a job or a person, not by the generator

    @property
    def share(self) -> float:
        """How much it counts."""
        return OWN if self.own else 1.0


def example(facts: Facts, cause: str, fair: frozenset[str], *, own: bool) -> Example | None:
    """None where the log holds no crash: then there is nothing to rank."""
    if not facts.crashes:
        return None
    crash = facts.crashes[0]
    findings = {cause.id: finding for cause, finding in judgements(crash) if isinstance(finding, Finding)}
    return Example(
        cause=cause,
        fair=fair,
        features=features(crash),
        weights={name: finding.weight for name, finding in findings.items()},
        proven=is_shown(crash, findings.values()),
        known=not in_other_words(crash.root),
        own=own,
    )


def examples(given: Sequence[Case], count: int, seed: int, advance: Advance) -> list[Example]:
    """Of the generator's logs, the fixtures and the given cases, in this order."""
    return [one for one in _all(given, count, seed, advance) if one is not None]


def _all(given: Sequence[Case], count: int, seed: int, advance: Advance) -> Iterator[Example | None]:
    for log in logs(count, seed):
        yield example(facts_of_text(log), log.cause, frozenset((log.cause, *log.also)), own=False)
        advance()
    for case in (*fixtures(), *given):
        yield example(case.facts(), case.cause, case.fair, own=True)
        advance()


__all__ = ["Advance", "Example", "examples"]
