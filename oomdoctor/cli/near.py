"""What may have been meant where a word of a closed list is misspelled."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from oomdoctor.language import listed, say

NEAREST = 3  # suggestions
SHORTEST_PART = 3  # of an id that says which is meant


def near(wanted: str, ids: Iterable[str]) -> list[str]:
    """However it is spelled, a part of an id, or nearly one."""
    known = list(ids)
    folded = wanted.strip().lower().replace("_", "-").replace(" ", "-")
    if folded in known:
        return [folded]
    parts = [id_ for id_ in known if len(folded) >= SHORTEST_PART and folded in id_]
    return (parts or difflib.get_close_matches(folded, known, n=NEAREST, cutoff=0.5))[:NEAREST]


def hint(wanted: str, ids: Iterable[str], otherwise: str) -> str:
    """What was meant, or where they are listed."""
    meant = near(wanted, ids)
    return say("did you mean {names}?", names=listed(meant)) if meant else otherwise
