"""One ranking of what the tables and the classifier say.

The strengths of signs decide the order: their grades, and what labelled logs have taught beyond these. The classifier
ranks what the tables leave equal. Where none of them has 0.5 it adds a cause that no table names, behind theirs; where
they are all silent it answers alone. The confidence is how often answers like this one, by its strength, its distance
to the next, the proof, the wording and the classifier's agreement, were right on labelled logs of other projects.

That it leads where the tables are weak was tried and made it worse: of 135 public logs with no strength above 0.4 the
tables' first answer was right in 129, and of the 15 that a sure classifier (0.7) turned, it turned 7 to the wrong side
and none to the right one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.causes import Cause, causes
from oomdoctor.decision.features import features
from oomdoctor.decision.judgement import Finding, is_bare_death, is_shown
from oomdoctor.decision.model import Model, grounds, strength_of, used
from oomdoctor.decision.order import NAMED, Standing, in_order
from oomdoctor.families.event import SIDES
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.training_cut import WAIT, CutTraining
from oomdoctor.families.unfamiliar import Shortage, in_other_words
from oomdoctor.incident.assemble import OF_RECORDS
from oomdoctor.incident.model import Crash
from oomdoctor.job.doing import UNKNOWN
from oomdoctor.language import filled, mark, say, translated
from oomdoctor.signs import Grade, commands
from oomdoctor.signs.arrays import program_larger_than_the_device

UNTRAINED: Final = 0.5  # the agreement on a cause that the model was not trained on: neither for nor against
_LOOK: Final[Mapping[str, tuple[str, ...]]] = {
    "host_ram": (commands.PROCESSES,),
    "cgroup": (commands.GROUP,),
    "shm": (commands.SHM,),
    "object_store": (commands.OBJECTS,),
    "scheduling": (commands.SCHEDULED,),
    "pinned": (commands.FREE,),  # what a driver pins no limit on locked memory bounds
    "none": (commands.DMESG, commands.CARDS_NOW, commands.FREE),
}
SHARED: Final = "gpu-shared"  # who holds the GPU is asked of its driver
RIVALS: Final = 2
LEAST, MOST = 0.01, 0.99  # nothing is certain
# A fallback says that memory ran out and not why: however often a fair judge lets that pass, it is no answer.
FALLBACK = 0.6
# Where nothing shows that memory ran out, the answer may fit the log and the failure still have been another one. How
# often, labels cannot say ("a kill without evidence" is right by its name): this is the generator's assumption.
UNPROVEN = 0.75
# Where a shortage is told in words that no family knows. Nobody counted how often such words speak of something else:
# this is an assumption, too, and low enough for the cause to count as open.
IN_OTHER_WORDS = 0.8

# Where the sign is one of other failures, too, the error's own words are cut, or circumstances alone explain a bare
# death. However often the answer is right, the log itself does not prove it: an assumption as well, and low enough for
# the cause to count as open.
IN_DOUBT = 0.8

# Where a line stands alone (no framework, no stage, no table or figure of what was held, nothing else that failed) and
# its sign no more than points at the cause: of the 29 such answers on logs that were read for the first time 21 were
# right. The curve does not see what is missing, and takes them for surer by a tenth; signs that name or prove a cause
# need nothing beside them (66 of 69), nor does the record that the kernel keeps of a kill (6 of 6).
ALONE = 0.72

# What a sign says for its cause, and what one says for the answer behind it: the grades have no meaning to a reader.
_FOR_IT: Final[Mapping[Grade, str]] = {
    Grade.PROVES: mark("the figures of the log prove it"),
    Grade.NAMES: mark("the log names it"),
    Grade.POINTS: mark("several things in the log point to it"),
    Grade.HINTS: mark("one thing in the log points to it"),
    Grade.LEFT: mark("nothing else is left"),
}
_FOR_THE_OTHER: Final[Mapping[Grade, str]] = {
    Grade.PROVES: mark("figures speak for {other}, too"),
    Grade.NAMES: mark("the log names {other}, too"),
    Grade.POINTS: mark("several things only point to {other}"),
    Grade.HINTS: mark("only one thing points to {other}"),
    Grade.LEFT: mark("for {other} it only leaves room"),
}


class Ranked(Struct, frozen=True):
    cause: Cause
    finding: Finding
    confidence: float
    ahead: str = ""  # why it stands before the next one, in words


class Ranking(Struct, frozen=True):
    answers: tuple[Ranked, ...]  # best first
    open: bool  # whether the log leaves the cause open


def ranked(
    crash: Crash, findings: Sequence[tuple[Cause, Finding]], ruled_out: frozenset[str], model: Model | None = None
) -> Ranking:
    """The answers in their order, each with how likely it is right."""
    model = model or used()
    likely = model.probabilities(features(crash))
    known = [*findings, *_added(crash, findings, ruled_out, likely, model)]
    by_cause = {cause.id: finding for cause, finding in known}
    proven = is_shown(crash, (finding for _, finding in findings))
    standings = in_order(
        Standing(cause, finding.grade, _strength(finding, model), likely.get(cause.id, UNTRAINED))
        for cause, finding in known
    )
    answers = [
        Ranked(one.cause, finding, _confidence(one, finding, standings, crash, model, proven=proven))
        for one, finding in ((one, by_cause[one.cause.id]) for one in standings)
    ]
    falling = _with_reasons(_shared(_falling(answers, _most(crash, proven=proven))))
    return Ranking(falling, open=not falling or falling[0].confidence < model.open_below)


def _strength(finding: Finding, model: Model) -> float:
    if finding.grade is None:
        return 0.0
    return strength_of(finding.grade, next(iter(finding.signs), ""), model.strengths)


def _confidence(
    one: Standing, finding: Finding, standings: Sequence[Standing], crash: Crash, model: Model, *, proven: bool
) -> float:
    rest = grounds(
        one.strength,
        max((other.strength for other in standings if other is not one), default=0.0),
        first=one is standings[0],
        proven=proven,
        known=not in_other_words(crash.root),
        agreement=one.likely,
    )
    most = FALLBACK if one.cause.fallback else IN_DOUBT if finding.unsure else MOST
    if finding.grade is not None and finding.grade <= Grade.POINTS and _stands_alone(crash):
        most = min(most, ALONE)
    sure = min(model.trust.of(rest), most)
    # What the classifier alone names is no surer than the classifier is.
    return sure if one.grade is not None else min(sure, one.likely)


def _stands_alone(crash: Crash) -> bool:
    """Whether nothing in the log tells of the job, of what it was doing, or of what held the memory, but the line."""
    beside = (crash.context.frameworks, crash.ledgers, crash.trajectory, crash.events[1:])
    return crash.stage == UNKNOWN and crash.root.family not in OF_RECORDS and not any(beside)


def _with_reasons(answers: Sequence[Ranked]) -> tuple[Ranked, ...]:
    """A fallback is compared only where it leads: beside a cause it says nothing of its own."""
    leads = any(one.cause.fallback for one in answers[:1])
    compared = [one for one in answers if leads or not one.cause.fallback]
    reasons = {one.cause.id: _reason(one, behind) for one, behind in pairwise(compared)}
    return tuple(replace(one, ahead=reasons.get(one.cause.id, "")) for one in answers)


def _reason(one: Ranked, behind: Ranked) -> str:
    """Why the one stands before the other, in words that need no knowledge of the tables."""
    names = {"cause": one.cause.id, "other": behind.cause.id}
    mine, other = one.finding.grade, behind.finding.grade
    if other is None or mine is None:
        return say("{cause} comes before {other}: no sign of {other} was seen", **names)
    if mine != other:
        told = {"for_it": translated(_FOR_IT[mine]), "for_other": filled(_FOR_THE_OTHER[other], names)}
        return say("{cause} comes before {other}: {for_it}; {for_other}", **names, **told)
    if behind.cause.id in one.cause.before:
        return say(
            "{cause} comes before {other}: as much speaks for both, and {cause} is the more exact answer", **names
        )
    return say("{cause} comes before {other}: as much speaks for both, and {cause} is likelier", **names)


def _look(crash: Crash) -> tuple[str, ...]:
    """Of a refused request the limits and what is free tell: the process that asked is gone."""
    if program_larger_than_the_device(crash) is not None:
        return ()  # an empty device has no room for it, either
    if SIDES[crash.pool] == "device":
        return (commands.on_the_devices(crash),)
    if isinstance(crash.root, HostAllocation):
        return commands.OF_A_REFUSAL
    look = _LOOK.get(crash.pool, ())
    raised = isinstance(crash.root, CutTraining) and crash.root.step != WAIT  # an exception leaves no kill to find
    look = tuple(command for command in look if not (raised and command == commands.DMESG))
    return commands.of_its_manager(crash) or look if crash.pool == "cgroup" else look


def closing(crash: Crash, answers: Sequence[Ranked]) -> tuple[str, ...]:
    """What would close an open cause, where no rule has named a command."""
    if is_bare_death(crash):
        return commands.settling(crash)
    look = _look(crash)
    first = _is_bare(crash) or any(answer.cause.id == SHARED for answer in answers[:RIVALS])
    return (*look, commands.WHOLE_LOG) if first else (commands.WHOLE_LOG, *look)


def _most(crash: Crash, *, proven: bool) -> float:
    """The highest confidence there may be."""
    if not proven:
        return UNPROVEN
    return IN_OTHER_WORDS if isinstance(crash.root, Shortage) else MOST


def _falling(answers: Sequence[Ranked], ceiling: float) -> tuple[Ranked, ...]:
    """No answer is surer than the one before it: where numbers decide the order, they decide that as well."""
    falling = []
    for answer in answers:
        ceiling = min(ceiling, max(answer.confidence, LEAST))
        falling.append(replace(answer, confidence=ceiling))
    return tuple(falling)


def _shared(answers: tuple[Ranked, ...]) -> tuple[Ranked, ...]:
    """Causes of one crash exclude each other: behind a first one of 91% all others have 9% together, whatever each of
    them would be alone. A fallback excludes nothing; it only says less."""
    others = [one for one in answers[1:] if not one.cause.fallback]
    if not others or answers[0].cause.fallback:
        return answers
    left, together = 1 - round(answers[0].confidence, 2), sum(one.confidence for one in others)
    part = min(1.0, left / together)
    shared = [
        one if n == 0 or one.cause.fallback else replace(one, confidence=one.confidence * part)
        for n, one in enumerate(answers)
    ]
    return _falling(shared, MOST)


def _added(
    crash: Crash,
    findings: Sequence[tuple[Cause, Finding]],
    ruled_out: frozenset[str],
    likely: Mapping[str, float],
    model: Model,
) -> list[tuple[Cause, Finding]]:
    """The cause that the classifier names, where the rules leave it open."""
    if any(_strength(finding, model) >= NAMED for _, finding in findings) or _is_bare(crash):
        return []
    known = {cause.id for cause, _ in findings} | ruled_out
    fitting = [cause for cause in causes() if crash.pool in (*cause.pools, "none") and cause.id not in known]
    best = max(fitting, key=lambda cause: likely.get(cause.id, 0.0), default=None)
    # What shows that memory failed is owed an answer; otherwise only a sure one is worth giving.
    least = 0.0 if crash.proven and not findings else model.add_from
    if best is None or likely.get(best.id, 0.0) < least:
        return []
    finding = Finding(
        grade=None,
        why=say("No figure decides the cause. The message and the lines around it are most like those of this cause."),
        evidence=(crash.root,),
        against=(say("no sign in the log proves it"),),
        unsure=is_bare_death(crash),
        next_evidence=(commands.WHOLE_LOG,),
    )
    return [(best, finding)]


def _is_bare(crash: Crash) -> bool:
    """Whether only a line says that memory ran out, and nothing which memory: no cause is worth guessing."""
    return isinstance(crash.root, Shortage) and not crash.proven


__all__ = ["Ranked", "Ranking", "closing", "ranked"]
