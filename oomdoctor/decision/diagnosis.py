"""The answer on a crash: its causes in their order, what is ruled out, the verdict, and what would tell more."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.decision import Verdict
from oomdoctor.decision.judgement import Finding, NotEnough, RuledOut, is_bare_death, is_shown, judgements
from oomdoctor.decision.ranking import Ranked, Ranking, closing, ranked
from oomdoctor.families.unfamiliar import in_other_words
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import of_low_limit
from oomdoctor.job.model import Context
from oomdoctor.language import joined, listed, say
from oomdoctor.signs import releases
from oomdoctor.signs.commands import WHOLE_LOG, unanswered, where_to_look
from oomdoctor.signs.cut import is_cut, where_cut
from oomdoctor.signs.machine import of_its_system, useful


class Decision(Struct, frozen=True, kw_only=True):
    crash: Crash
    verdict: Verdict
    answers: tuple[Ranked, ...]  # best first
    open: bool  # whether the log leaves the cause open
    ruled_out: tuple[tuple[str, str], ...]  # causes' ids, and why
    next_evidence: tuple[str, ...]
    evidence_node: str | None = None  # where to run these, where the log names it

    def crash_of(self, answer: Ranked) -> Crash:
        """The crash with the pool that the answer is about."""
        return replace(self.crash, pool=answer.finding.pool or self.crash.pool)

    @property
    def first(self) -> Crash:
        """The crash with the pool that its first cause is about."""
        return self.crash_of(self.answers[0]) if self.answers else self.crash


def decide(crash: Crash) -> Decision:
    said = list(judgements(crash))
    findings = [(cause, _marked(one, crash.context)) for cause, one in said if isinstance(one, Finding)]
    ruled_out = tuple((cause.id, one.why) for cause, one in said if isinstance(one, RuledOut))
    ranking = ranked(crash, findings, frozenset(cause for cause, _ in ruled_out))
    asked = [one.next_evidence for _, one in said if isinstance(one, NotEnough)]
    asked += [answer.finding.next_evidence for answer in ranking.answers]
    told = _next(tuple(dict.fromkeys(command for commands in asked for command in commands)), ranking, crash)
    return Decision(
        crash=crash,
        verdict="oom" if is_shown(crash, (answer.finding for answer in ranking.answers)) else "inconclusive",
        answers=(*(_with_remarks(one, crash) for one in ranking.answers[:1]), *ranking.answers[1:]),
        open=ranking.open,
        ruled_out=ruled_out,
        next_evidence=told,
        evidence_node=where_to_look(told, crash),
    )


def _next(asked: tuple[str, ...], ranking: Ranking, crash: Crash) -> tuple[str, ...]:
    """What would tell more: what the signs ask for, else what would close an open cause."""
    told = useful(asked, crash)
    if ranking.open and not told:
        told = useful(closing(crash, ranking.answers), crash) or of_its_system((WHOLE_LOG,), crash)
    return unanswered(told, crash)


def _marked(finding: Finding, context: Context) -> Finding:
    """The finding with the settings and versions that it speaks of and that the log does not print."""
    named = [
        say("{name} ({why})", name=name, why=say("from {source}", source=source))
        for name, source in context.sources.items()
        if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.]\w)", finding.why)
    ]
    if not named:
        return finding
    return replace(finding, why=joined((finding.why, say("Not from the log: {names}.", names=listed(named)))))


def _with_remarks(first: Ranked, crash: Crash) -> Ranked:
    """The first answer with what is to be said of this crash whatever its cause."""
    finding = first.finding
    low = of_low_limit(crash) if (finding.pool or crash.pool) == "host_ram" else ""
    against = (*finding.against, *_remarks(first, crash))
    return replace(first, finding=replace(finding, why=joined((finding.why, low)), against=against))


def _remarks(first: Ranked, crash: Crash) -> Iterator[str]:
    if not is_cut(crash.root) and (within := where_cut(crash)) is not None:
        yield within
    if in_other_words(crash.root) and releases.likely(crash) is None:
        yield say("this message is unknown; it was matched to the closest known one")
    elif is_bare_death(crash) and not first.cause.fallback:
        yield say("a crash, a time limit, a scheduler or an operator can end a process like this, too")


__all__ = ["Decision", "decide"]
