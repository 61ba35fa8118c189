"""What a ledger's row and a figure of memory are called in the language in use.

Other rooms know them by their English names: as ids of rows, in JSON, and to compare them.
"""

from __future__ import annotations

from typing import Final

from oomdoctor.language import ENGLISH, in_use, mark, say, translated
from oomdoctor.patterns import late

SMALLER: Final = "smaller processes of the table"  # the name of that row, behind their number
ON_THE_NODE: Final = mark("memory used on the node")
ON_THE_CARD: Final = mark("memory used on the card")  # the name of that figure, behind it the card's number
AT_KILLS: Final = " at each kill"  # behind the node's name

_PROCESS: Final = late(r"process (\d{1,12})")
_SMALLER: Final = late(rf"(\d{{1,12}}) {SMALLER}")
_OF_CARD: Final = late(rf"{ON_THE_CARD} (\d{{1,3}})")
_AT_KILLS: Final = late(rf"{ON_THE_NODE} (\S{{1,60}}){AT_KILLS}")


def row(what: str) -> str:
    """A ledger's row."""
    if in_use() == ENGLISH:
        return what
    if match := _PROCESS.fullmatch(what):
        return say("process {pid}", pid=match[1])
    if match := _SMALLER.fullmatch(what):
        return say("{count} smaller processes of the table", count=match[1])
    return translated(what)


def figure(what: str) -> str:
    """What the log prints again and again."""
    if in_use() == ENGLISH:
        return what
    if match := _AT_KILLS.fullmatch(what):
        return say("memory used on the node {node} at each kill", node=match[1])
    if match := _OF_CARD.fullmatch(what):
        return say("memory used on the card {number}", number=match[1])
    return translated(what)
