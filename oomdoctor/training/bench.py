"""How right the answers are on labelled logs: the figures, and where they come from."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from oomdoctor import street
from oomdoctor.columns import cells, filled
from oomdoctor.language import listed, mark, say, translated
from oomdoctor.training.cases import Case
from oomdoctor.training.generator import NOT_OOM

BINS: Final = 5  # of equal count, so that the figure does not reward confidence in one place
LEAST: Final = 5  # cases of a cause for it to count in macro-F1
FIRST: Final = 3
BAR: Final = 40
WORST: Final = 12  # confusions shown
SHOWN: Final = 5  # cases named of one

# How a person reads the names of the figures.
NAMES: Final = (
    mark("cases"), mark("detected"), mark("quiet"), mark("right first"), mark("right among three"),
    mark("right first undecidable"), mark("left open"), mark("left open undecidable"), mark("macro f1"),
    mark("calibration error"),
)  # fmt: skip

Advance = Callable[[], None]


class Outcome(Struct, frozen=True, kw_only=True):
    """What was said of one case."""

    case: Case
    verdict: str
    causes: tuple[str, ...]
    confidence: float | None
    open: bool

    @property
    def right(self) -> bool:
        """Whether a fair judge would accept it."""
        if not self.case.failed:
            return self.quiet
        return self._silent or (bool(self.causes) and self.causes[0] in self.case.fair)

    @property
    def confusion(self) -> tuple[str, str]:
        """The label, and what was said first."""
        return self.case.cause, next(iter(self.causes), self.verdict)

    @property
    def among_first(self) -> bool:
        return self._silent or bool(self.case.fair & set(self.causes[:FIRST]))

    @property
    def detected(self) -> bool:
        unproven = self.verdict == "inconclusive" and self.case.cause == "killed-without-evidence"
        return self.verdict == "oom" or self._silent or unproven

    @property
    def quiet(self) -> bool:
        """No alarm where memory did not fail."""
        unproven = self.verdict == "inconclusive" and "killed-without-evidence" in self.case.fair
        return self.verdict == "no-oom" or unproven or bool(self.causes and self.causes[0] in self.case.fair)

    @property
    def _silent(self) -> bool:
        return not self.causes and self.verdict != "oom" and NOT_OOM in self.case.fair


def outcomes(cases: Iterable[Case], advance: Advance) -> list[Outcome]:
    """What is said of each case."""
    found = []
    for case in cases:
        report = street.report_of(case.facts())
        first = report.incidents[0] if report.incidents else None
        diagnoses = first.diagnoses if first is not None else ()
        found.append(
            Outcome(
                case=case,
                verdict=report.verdict,
                causes=tuple(diagnosis.cause for diagnosis in diagnoses),
                confidence=diagnoses[0].confidence if diagnoses else None,
                open=first is not None and first.cause_open,
            )
        )
        advance()
    return found


def figures(found: Sequence[Outcome]) -> dict[str, Any]:
    """The figures for a program; shares are [right, of]."""
    failed = [o for o in found if o.case.failed]
    clear = [o for o in failed if o.case.decided]
    return {
        "cases": len(found),
        "detected": _count(o.detected for o in clear),
        "quiet": _count(o.quiet for o in found if not o.case.failed),
        "right_first": _count(o.right for o in clear),
        "right_among_three": _count(o.among_first for o in clear),
        "right_first_undecidable": _count(o.right for o in failed if not o.case.decided),
        "left_open": _count(o.open for o in failed),
        "left_open_undecidable": _count(o.open for o in failed if not o.case.decided),
        "macro_f1": macro_f1(clear),
        "calibration_error": calibration_error(failed),
        "wrong": {o.case.name: list(o.confusion) for o in found if not o.right},
    }


def _count(answers: Iterable[bool]) -> list[int]:
    told = list(answers)
    return [sum(told), len(told)]


def macro_f1(found: Sequence[Outcome]) -> float | None:
    """Over the causes with enough cases; an acceptable other answer counts as the label."""
    pairs = [(o.case.cause, o.case.cause if o.right else next(iter(o.causes), "")) for o in found]
    labels = Counter(label for label, _ in pairs)
    answers = Counter(answer for _, answer in pairs)
    hits = Counter(label for label, answer in pairs if label == answer)
    scores = [2 * hits[c] / (labels[c] + answers[c]) for c, count in sorted(labels.items()) if count >= LEAST]
    return round(sum(scores) / len(scores), 3) if scores else None


def reliability(found: Sequence[Outcome]) -> list[tuple[int, float, float]]:
    """Bins of equal count by confidence: how many, how sure, how often right."""
    told = sorted((o.confidence, o.right) for o in found if o.confidence is not None)
    edges = [n * len(told) // BINS for n in range(BINS + 1)]
    bins = [told[first:last] for first, last in itertools.pairwise(edges) if last > first]
    return [(len(b), sum(c for c, _ in b) / len(b), sum(r for _, r in b) / len(b)) for b in bins]


def calibration_error(found: Sequence[Outcome]) -> float | None:
    """How far confidence is from how often it is right, over the bins. About 0.03 is noise with 150 cases."""
    bins = reliability(found)
    whole = sum(count for count, _, _ in bins)
    return round(sum(count * abs(sure - right) for count, sure, right in bins) / whole, 3) if whole else None


def confusions(found: Iterable[Outcome]) -> list[tuple[str, str, int]]:
    """What was said instead of what, most often first."""
    wrong = Counter(o.confusion for o in found if not o.right)
    return [(label, said, count) for (label, said), count in sorted(wrong.items(), key=lambda one: (-one[1], one[0]))]


def by_software(found: Iterable[Outcome]) -> list[tuple[str, int, int]]:
    """For each program that the labels name: how many of its cases are right, of how many."""
    named: dict[str, list[bool]] = defaultdict(list)
    for outcome in found:
        for name in {software.split()[0].lower() for software in outcome.case.software if software.split()}:
            named[name].append(outcome.right)
    return sorted(((name, sum(told), len(told)) for name, told in named.items()), key=lambda one: (-one[2], one[0]))


def text(found: Sequence[Outcome]) -> str:
    """All of it for a person."""
    return (
        "\n".join([*_figures(found), "", *_plot(found), *_confusions(found), *_software(found), *_open(found)]) + "\n"
    )


def _figures(found: Sequence[Outcome]) -> list[str]:
    lines = []
    for name, value in figures(found).items():
        if name == "wrong":
            continue
        shown = (
            f"{value[0]}/{value[1]}" + (f"  {value[0] / value[1]:.1%}" if value[1] else "")
            if isinstance(value, list)
            else value
        )
        words = translated(name.replace("_", " "))
        lines.append(" " * (24 - cells(words)) + f"{words}  {say('none') if shown is None else shown}")
    return lines


def _plot(found: Sequence[Outcome]) -> list[str]:
    lines = [say("How sure, and how often right (| is how sure):")]
    for count, sure, right in reliability([o for o in found if o.case.failed]):
        bar = list(("#" * round(right * BAR)).ljust(BAR + 1))
        bar[round(sure * BAR)] = "|"
        lines.append(
            say(
                "  {confidence} sure  {bar} {share} of {count} right",
                confidence=f"{sure:4.0%}", bar="".join(bar), share=f"{right:4.0%}", count=count,
            )
        )  # fmt: skip
    return lines if len(lines) > 1 else []


def _confusions(found: Sequence[Outcome]) -> list[str]:
    wrong = confusions(found)
    named: dict[tuple[str, str], list[str]] = defaultdict(list)
    for outcome in found:
        if not outcome.right:
            named[outcome.confusion].append(outcome.case.name)
    lines = [
        f"  {count:3}  {label} -> {said}: {listed(named[label, said][:SHOWN])}" for label, said, count in wrong[:WORST]
    ]
    lines += ["  " + say("and {count} more", count=len(wrong) - WORST)] if len(wrong) > WORST else []
    return ["", say("Wrong (label -> answer):"), *lines] if wrong else []


def _software(found: Sequence[Outcome]) -> list[str]:
    lines = [f"  {filled(name, 20)} {right}/{count}" for name, right, count in by_software(found)]
    return ["", say("Right by software:"), *lines] if lines else []


def _open(found: Sequence[Outcome]) -> list[str]:
    left = [o.case.name for o in found if o.open]
    return ["", say("Left open: {names}", names=listed(left))] if left else []


__all__ = ["Outcome", "figures", "outcomes", "text"]
