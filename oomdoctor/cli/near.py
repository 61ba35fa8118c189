"""What may have been meant where a word of a closed list is misspelled."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

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


def unknown(what: str, wanted: str, ids: Iterable[str], otherwise: str) -> str:
    """The sentence that says so, with what was meant or where they are listed."""
    meant = near(wanted, ids)
    hint = f"did you mean {', '.join(meant)}?" if meant else otherwise
    return f"there is no {what} {wanted!r}; {hint}"
