"""What is learned from: a crash's features and what the tables say of it, beside the label."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from oomdoctor.decision.features import features, holds_words
from oomdoctor.decision.judgement import Finding, is_shown, judgements
from oomdoctor.families.unfamiliar import in_other_words
from oomdoctor.signs import Grade
from oomdoctor.street import Facts
from oomdoctor.training.cases import FIXTURES, Case, CaseError, facts_of_text, fixtures
from oomdoctor.training.generator import logs

Advance = Callable[[], None]
OWN: Final = 3.0  # how much more a log that a job or a person wrote counts than a generated one
ROWS: Final = FIXTURES / "cases.jsonl"  # of public threads: what the tables said, the labels, and no text
# The same of threads that nobody had looked at, as the tables of that day read them: nothing was written for them
FIRST_READINGS: Final = FIXTURES / "first_readings.jsonl"


class Answer(Struct, frozen=True):
    """What a table says for its cause."""

    grade: Grade
    sign: str  # that carries it
    against: tuple[str, ...] = ()


class Example(Struct, frozen=True, kw_only=True):
    name: str
    project: str  # whose logs are held back together: a repository, a family of fixtures, a generated log alone
    cause: str
    fair: frozenset[str]
    features: dict[str, float]
    answers: dict[str, Answer]
    proven: bool
    known: bool  # told in words that a family knows
    own: bool  # written by a job or a person, not by the generator
    first: bool = False  # read for the first time: nothing is learned from it but how often answers are right

    @property
    def share(self) -> float:
        """How much it counts."""
        return OWN if self.own else 1.0

    @property
    def contested(self) -> bool:
        """Whether the tables name a right cause and a wrong one."""
        return len({cause in self.fair for cause in self.answers}) > 1

    def as_row(self) -> dict[str, Any]:
        """Without a word of the log."""
        return {
            "case": self.name,
            "project": self.project,
            "cause": self.cause,
            "fair": sorted(self.fair - {self.cause}),
            "proven": self.proven,
            "known": self.known,
            "answers": {name: [it.grade.name, it.sign, *it.against] for name, it in sorted(self.answers.items())},
            "features": sorted(name for name in self.features if not holds_words(name)),
        }


def of_row(row: Mapping[str, Any], *, first: bool = False) -> Example:
    answers = {
        cause: Answer(Grade[grade], sign, tuple(against)) for cause, (grade, sign, *against) in row["answers"].items()
    }
    return Example(
        name=row["case"],
        project=row["project"],
        cause=row["cause"],
        fair=frozenset((row["cause"], *row["fair"])),
        features=dict.fromkeys(row["features"], 1.0),
        answers=answers,
        proven=row["proven"],
        known=row["known"],
        own=True,
        first=first,
    )


def rows(path: Path = ROWS, *, first: bool = False) -> list[Example]:
    """The public cases that a checkout has, as their signs alone; none where there are none."""
    if not path.is_file():
        return []
    try:
        return [of_row(json.loads(line), first=first) for line in path.read_text(encoding="utf-8").splitlines()]
    except (ValueError, KeyError, TypeError) as error:
        raise CaseError(f"{path}: {error}") from error


def example(facts: Facts, cause: str, fair: frozenset[str], *, name: str, project: str, own: bool) -> Example | None:
    """None where the log holds no crash: then there is nothing to rank."""
    if not facts.crashes:
        return None
    crash = facts.crashes[0]
    findings = {cause.id: finding for cause, finding in judgements(crash) if isinstance(finding, Finding)}
    return Example(
        name=name,
        project=project,
        cause=cause,
        fair=fair,
        features=features(crash),
        answers={name: _answer(finding) for name, finding in findings.items()},
        proven=is_shown(crash, findings.values()),
        known=not in_other_words(crash.root),
        own=own,
    )


def _answer(finding: Finding) -> Answer:
    sign, *against = finding.signs or ("",)
    return Answer(finding.grade or Grade.LEFT, sign, tuple(against))


def of_case(case: Case) -> Example | None:
    return example(case.facts(), case.cause, case.fair, name=case.name, project=case.project, own=True)


def examples(given: Sequence[Case], count: int, seed: int, advance: Advance) -> list[Example]:
    """Of the generator's logs, the fixtures, the rows of public cases and the given cases, in this order."""
    return [one for one in _all(given, count, seed, advance) if one is not None]


def _all(given: Sequence[Case], count: int, seed: int, advance: Advance) -> Iterator[Example | None]:
    for number, log in enumerate(logs(count, seed)):
        fair = frozenset((log.cause, *log.also))
        yield example(facts_of_text(log), log.cause, fair, name=log.name, project=f"generated {number}", own=False)
        advance()
    for case in fixtures():
        yield of_case(case)
        advance()
    yield from rows()
    yield from rows(FIRST_READINGS, first=True)
    for case in given:
        yield of_case(case)
        advance()


__all__ = ["FIRST_READINGS", "ROWS", "Advance", "Answer", "Example", "examples", "of_case", "rows"]
