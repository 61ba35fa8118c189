"""Crash, diagnosis, remedies done, and what comes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from lab.cell import Run
from lab.program import BUYING, Program, changed

Outcome = Literal["ends", "dies", "worse", "slow", "no flag"]
FIRST = 3
LESS = 0.9  # of the steps, at least, that a run made before: fewer are a loss

Runner = Callable[[Program, str], Run]  # a program, and what to call its run
Reader = Callable[[Path], dict[str, Any]]  # the report on a folder of logs


class Try(msgspec.Struct, frozen=True):
    knob: str
    action: str
    line: str  # as launched then
    outcome: Outcome

    @property
    def buys(self) -> bool:
        return self.knob in BUYING


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    skipped: str = ""  # why
    crash: Run | None = None
    right: tuple[str, ...] = ()  # causes
    cause: str | None = None  # that the report names first
    headline: str = ""
    tries: tuple[Try, ...] = ()  # the first three remedies, one by one
    together: Outcome | None = None  # those of them that buy nothing

    @property
    def counts(self) -> bool:
        return not self.skipped

    @property
    def cause_right(self) -> bool:
        return self.cause in self.right

    @property
    def first_ends(self) -> bool:
        return bool(self.tries) and self.tries[0].outcome == "ends"

    @property
    def one_ends(self) -> bool:
        return any(it.outcome == "ends" and not it.buys for it in self.tries)

    @property
    def worse(self) -> bool:
        return "worse" in (self.together, *(it.outcome for it in self.tries))


class Figures(msgspec.Struct, frozen=True):
    programs: int
    cause_right: int
    first_ends: int  # the crash, bought or not
    one_ends: int  # one of the first three alone, and nothing bought
    together_ends: int
    worse: int


def figures(trials: Sequence[Trial]) -> Figures:
    those = [it for it in trials if it.counts]
    return Figures(
        programs=len(those),
        cause_right=sum(it.cause_right for it in those),
        first_ends=sum(it.first_ends for it in those),
        one_ends=sum(it.one_ends for it in those),
        together_ends=sum(it.together == "ends" for it in those),
        worse=sum(it.worse for it in those),
    )


def once(run: Runner) -> Runner:
    """Remedies that come to the same are run once."""
    runs: list[tuple[Program, Run]] = []

    def earlier_or_new(program: Program, name: str) -> Run:
        earlier = next((its for one, its in runs if one == program), None)
        if earlier is None:
            earlier = run(program, name)
            runs.append((program, earlier))
        return earlier

    return earlier_or_new


def trial(program: Program, run: Runner, read: Reader) -> Trial:
    run = once(run)
    crash = run(program, "crash")
    if crash.ended:
        return Trial(name=program.name, skipped="it does not die here", crash=crash)
    report = read(Path(crash.log))
    diagnoses = report["diagnoses"]
    said = diagnoses[0] if diagnoses else {"cause": None, "headline": report["verdict"], "remedies": []}
    remedies = said["remedies"][:FIRST]
    return Trial(
        name=program.name,
        crash=crash,
        right=program.causes,
        cause=said["cause"],
        headline=said.get("headline", ""),
        tries=tuple(_try(program, remedy, number, crash, run) for number, remedy in enumerate(remedies, start=1)),
        together=_together(program, remedies, crash, run),
    )


def _try(program: Program, remedy: dict[str, Any], number: int, crash: Run, run: Runner) -> Try:
    after = done(program, remedy)
    outcome = outcome_of(crash, run(after, f"remedy-{number}")) if after != program else "no flag"
    return Try(remedy["knob"], remedy["action"], after.line(), outcome)


def _together(program: Program, remedies: Sequence[dict[str, Any]], crash: Run, run: Runner) -> Outcome | None:
    after = program
    for remedy in remedies:
        if remedy["knob"] not in BUYING:
            after = done(after, remedy)
    return outcome_of(crash, run(after, "together")) if after != program else None


def done(program: Program, remedy: dict[str, Any]) -> Program:
    """The program with the remedy done, and what has to be set together with it."""
    after = changed(program, remedy["knob"], remedy.get("setting"), remedy.get("suggested"))
    for beside in remedy.get("beside") or ():
        after = changed(after, "", beside["setting"], beside["value"])
    return after


def outcome_of(crash: Run, again: Run) -> Outcome:
    """Worse is a program that no longer starts, hangs where it died before, or gets less far."""
    if again.ended:
        return "ends"
    if again.status is None and again.progress > crash.progress:
        return "slow"  # past the point where it died, and out of time
    usage = again.status == 2 and crash.status != 2
    hangs = again.status is None and crash.status is not None
    return "worse" if usage or hangs or _gets_less_far(crash, again) else "dies"


def _gets_less_far(crash: Run, again: Run) -> bool:
    """By more than one line: a program that prints every tenth step prints one less if it dies one step earlier."""
    return again.progress < min(crash.progress * LESS, crash.progress - 1)
