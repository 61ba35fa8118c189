"""What may have been meant where a word of a closed list is misspelled."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from oomdoctor.language import listed, say

NEAREST = 3  # suggestions
SHORTEST_PART = 3  # of an id that says which is meant
ALIKE = 0.6  # from here on two words are nearly the same


def near(wanted: str, ids: Iterable[str]) -> list[str]:
    """However it is spelled, a part of an id, or nearly one."""
    known = {_folded(id_): id_ for id_ in ids}
    folded = _folded(wanted)
    if folded in known:
        return [known[folded]]
    parts = [id_ for id_ in known if len(folded) >= SHORTEST_PART and folded in id_]
    found = parts or difflib.get_close_matches(folded, known, n=NEAREST, cutoff=ALIKE)
    return [known[id_] for id_ in found[:NEAREST]]


def as_listed(wanted: str, ids: Iterable[str]) -> str:
    """The word as the list has it, in whatever case it is written; as it is where it is not there."""
    return next((id_ for id_ in ids if id_.lower() == wanted.strip().lower()), wanted)


def hint(wanted: str, ids: Iterable[str], otherwise: str) -> str:
    """What was meant, or where they are listed."""
    meant = near(wanted, ids)
    return say("did you mean {names}?", names=listed(meant)) if meant else otherwise


def _folded(word: str) -> str:
    return word.strip().lower().replace("_", "-").replace(" ", "-")
