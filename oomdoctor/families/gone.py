"""In which words somebody says that a process is gone, and not of what: pools, build tools, Spark, gRPC, actors."""

from __future__ import annotations

import re
from typing import Final

from oomdoctor.families.echoes import ADVICE, COMMENT, SOURCE, echo
from oomdoctor.patterns import late

CHARACTERS: Final = 1500

_WHO: Final = r"\b(?:workers?|(?:sub)?proc(?:ess(?:es)?)?|server|executors?|daemon|child(?:ren)?|runner|backend|VM)\b"
_HOW: Final = r"(?:abruptly|unexpectedly|silently|prematurely|abnormally|without (?:a word|properly saying goodbye))"
# What an end is said to come of
_ITS_REASON: Final = r"(?![^\n]{0,120}\b(?:exit ?(?:code|value)|exited with|return|status|signal)\b)"
# Of nobody, and of what may be, it is no report.
_MAY_BE: Final = (
    r"\b(?:if|when(?:ever)?|whether|unless|until|once|before|may|might|could|would|should|will|to|not|none|nobody|nothing"
    r"|never|no|0|zero|any)\b"
)
_ALIVE: Final = r"(?:(?:(?:is|are|was) )?no longer (?:alive|running)|(?:is|are) not alive any ?more"
_ENDED: Final = r"(?:terminated|exited|died|ended|disappeared|vanished|stopped)"
# "Background workers died."
_NOBODY_DIED: Final = rf"^(?![^\n]{{0,200}}{_MAY_BE}(?:(?!\bbut\b)[^.\n]){{0,80}}\bdied\b)"
_DIED: Final = r"(?<!that)(?<!which)(?<!who) died(?=\s{0,4}(?:[.!,;]|$)| (?:while|during)\b)"
_GRPC: Final = (
    r"\b(?:code = Unavailable desc = |UNAVAILABLE: )[^\n]{0,80}?(?:\bEOF\b|transport is closing|Socket closed)"
)
_SPARK: Final = r"(?:\bLost executor \S{1,60} on \S{1,200}: |\bExecutorLostFailure \([^)\n]{1,120}\) Reason: )"
# Data loaders and Ray have families of their own.
_OF_OTHERS: Final = late(
    r"\bDataLoader worker\b|\bA worker died or was killed\b|\bThe worker died unexpectedly\b"
    r"|\bits (?:worker process|node|owner) has died\b"
)
_GONE: Final = late(
    "|".join(
        (
            rf"(?i:{_WHO}[^\n]{{0,40}}?\b{_ALIVE}|{_ENDED} {_HOW})\b{_ITS_REASON})",
            rf"(?i:{_NOBODY_DIED}[^\n]{{0,300}}?{_WHO}[^.:\n]{{0,40}}?{_DIED}{_ITS_REASON})",
            r"(?i:\bone of your workers (?:crashed|died)\b)",  # batchgenerators'
            r"\bSome background worker is 6 feet under\b",  # nnU-Net's
            r"\bscheduled cores? \d[\d, ]{0,80} did not deliver results?\b",  # R's parallel
            rf"{_SPARK}(?:Remote RPC client disassociated|Executor heartbeat timed out)",
            rf"{_SPARK}(?i:slave|worker|executor process) lost",
            # a program that serves a model
            rf"(?i:\b(?:load|model|backend|runner|predict|infer|generat|embed))[^\n]{{0,200}}{_GRPC}",
            # Go's client, of a server on the same machine
            r"\b(?:Post|Get|POST|GET) \"http://(?:127\.0\.0\.1|localhost):\d{1,5}/[^\"\n]{1,100}\": EOF\b",
            # actors' and servers': who answered before does not answer
            r"\bServerClosed: \S|\bRemote server \S{1,100}:\d{1,5} closed\b",
            r"(?i:\b(?:process|server|worker|replica|backend) \S{1,80}:\d{1,5} (?:is|went|has gone) down\b)",
        )
    )
)


def gone(text: str) -> re.Match[str] | None:
    """Where the line says that a process is gone. What it suspects behind that is no evidence of anything."""
    said = _GONE.search(text[:CHARACTERS])
    if said is None or echo(text[: said.end()]) in {ADVICE, COMMENT, SOURCE} or _OF_OTHERS.search(text[:CHARACTERS]):
        return None
    return said


__all__ = ["gone"]
