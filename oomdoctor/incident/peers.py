"""A log that holds consequences only: some process of the job failed first, and its own lines are not here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from oomdoctor.families.event import Event, Lookalike
from oomdoctor.families.kill import RankFailure
from oomdoctor.families.peer import LostPeer
from oomdoctor.language import all_of, counted, mark, say, semicolons

_LOOPBACK = ("127.0.0.1", "localhost")
MOST_NAMED: Final = 16  # ranks


def died_elsewhere(events: Iterable[Event]) -> Lookalike | None:
    """What the consequences say of who failed first; None where nothing speaks of another process's end.

    Only for a log without a memory failure: beside one they are its consequences.
    """
    told = [event for event in events if isinstance(event, LostPeer | RankFailure)]
    lost = [event for event in told if isinstance(event, LostPeer)]
    failed = _failed_first(told, lost)
    first = failed or next(iter(lost), None)
    if first is None:
        return None
    error = next((event.own_error for event in told if event.own_error), None)
    if error is not None:
        why = say(
            "a consequence: {process} failed first, with an error other than a lack of memory",
            process=_who(failed, lost),
        )
    elif isinstance(first, LostPeer) and first.said == "collective" and first.peer_rank is None:
        why = _not_joined(first, lost)
    else:
        why = say(
            "a consequence: {process} died first, and its log is not here; look for the earliest error of that process",
            process=_who(failed, lost),
        )
    return Lookalike(first.at, why)


def _not_joined(waiting: LostPeer, lost: list[LostPeer]) -> str:
    """A collective that timed out: somebody did not join, dead or only late."""
    alike = (one.process.rank for one in lost if one.collective == waiting.collective)
    ranks = sorted({rank for rank in alike if rank is not None})
    who = say("ranks {numbers}", numbers=all_of(map(str, ranks))) if len(ranks) > 1 else _process(waiting.process.rank)
    if len(ranks) <= 1 and waiting.process.name is not None:
        who = say("{process} ({name})", process=who, name=waiting.process.name)
    if waiting.collective is None or waiting.timeout_ms is None:
        words = say(
            "{process} waited in a collective for a rank that did not come; only the other ranks' logs tell whether "
            "that one was killed, failed or was late",
            process=who,
        )
    else:
        words = say(
            "{process} waited {seconds:g} s in {collective} for a rank that did not come; only the other ranks' logs "
            "tell whether that one was killed, failed or was late",
            process=who,
            seconds=waiting.timeout_ms / 1000,
            collective=waiting.collective,
        )
    return semicolons((words, _silent(ranks)))


def _silent(ranks: list[int]) -> str:
    """The ranks that say nothing of it, as far as the numbers of the others tell that there are any."""
    silent = sorted(set(range(ranks[-1])) - set(ranks)) if len(ranks) > 1 else []
    if not silent or len(silent) > MOST_NAMED:
        return ""
    return counted(
        len(silent),
        mark("rank {numbers} does not say that it waited"),
        mark("ranks {numbers} do not say that they waited"),
        numbers=all_of(map(str, silent)),
    )


def _process(rank: int | None) -> str:
    return say("rank {number}", number=rank) if rank is not None else say("a rank")


def _failed_first(told: list[LostPeer | RankFailure], lost: list[LostPeer]) -> RankFailure | None:
    """Whom the launcher blames, if that rank does not blame another one itself. The fullest report counts."""
    complaining = {event.process.rank for event in lost} - {None}
    blamed = [event for event in told if isinstance(event, RankFailure) and _rank(event) not in complaining]
    return max(blamed, key=lambda event: len(event.figures("fields")), default=None)


def _rank(event: RankFailure) -> int | None:
    return event.process.rank if event.process.rank is not None else event.local_rank


def _who(failed: RankFailure | None, lost: list[LostPeer]) -> str:
    if failed is not None and failed.reporter == "torchrun":
        return _reported(failed)
    missed = next((event for event in lost if event.peer_rank is not None), None)
    if missed is not None:
        return _process(missed.peer_rank)
    host = next((event.peer_host for event in lost if event.peer_host not in (None, *_LOOPBACK)), None)
    return say("another rank, on {host},", host=host) if host else say("another rank")


def _reported(failed: RankFailure) -> str:
    """The rank as the launcher names it."""
    local = failed.process.rank is None and failed.local_rank is not None
    who = say("local rank {number}", number=failed.local_rank) if local else _process(failed.process.rank)
    if failed.host:
        who = say("{process} on {host}", process=who, host=failed.host)
    if failed.exit_code is not None:
        who = say("{process} (exit code {code})", process=who, code=failed.exit_code)
    return who
