"""Words of a shortage that say something else: a full attention, a pinned release, a pool that does not store scales,
a request with no KV cache of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from oomdoctor.grammars import Part
from oomdoctor.patterns import late

# What is full behaves so, and is not used up: "full attention", "store_full_kv"
_WHOLE = late(
    r"(?i)(?:attention|precision|kv|k|v|context|size|sizes|param\w*|graphs?|weights?|ranks?|states?|shapes?|stack|gather"
    r"|paths?|scans?|tables?|lists?|copy|copies|batch\w*|sequences?|lengths?|pages?|blocks?|slots?|cubes?|models?|rows?"
    r"|tiles?|epochs?|steps?|messages?|names?|outputs?|prefix|tokens?|layers?|pool|cache|swa)"
)
# A program's own manner, and no refusal: "does not store V", "did not create buffers"
_BEHAVES = late(r"(?i)(?:does|do|did)(?: not|n'?t)")
_MANNERS = late(
    r"(?i)(?:stor\w+|creat\w+|expos\w+|provid\w+|register|serv\w+|host|take|instantiate|commit|spill|backup)"
)
# "Do not reserve ..."
_BIDS = late(r"(?i)do(?: not|n'?t)")
# What is counted of a pool: "no KV blocks", "no cache pages"
_COUNTED = late(r"(?i)(?:blocks?|slots?|cells?|pages?|budget|tokens?|states?)")
# What is looked up: "no GPU memory values found"
_RECORDS = late(
    r"(?i)(?:values?|info\w*|stat\w*|metrics?|entr(?:y|ies)|tables?|keys?|scales?|readings?|fields?|attributes?)"
)
_BUFFER = late(r"(?i)buf")
_PINNED = late(r"(?i)(?:pinned|pinning|locked)")
# What is not done yet: "cannot alloc before init_memory_pool()"
_EARLIER = late(r"(?i)(?:before|until)")
# What a card has a largest number of
_GEOMETRY = late(
    r"(?i)(?:block\w*|grid\w*|threads?|warps?|arch\w*|version|capabilit\w+|streams?|graphs?|index|ordinal|count|ids?)"
)


class Said(Struct, frozen=True):
    """The words that say it, among those of their line."""

    parts: Sequence[Part]
    letters: str
    start: int
    end: int

    @property
    def own(self) -> str:
        return self.letters[self.start : self.end]

    def text(self, at: int) -> str:
        return self.parts[at].text if 0 <= at < len(self.parts) else ""

    def letter(self, at: int) -> str:
        return self.letters[at : at + 1]

    def at(self, letter: str) -> list[int]:
        """Where that kind of word stands."""
        return [self.start + place for place, one in enumerate(self.own) if one == letter]


def in_another_sense(said: Said) -> bool:
    senses = (
        _is_whole,
        _is_unavailable,
        _is_too_early,
        _is_a_manner,
        _is_bidden,
        _has_none_of_it,
        _is_of_a_release,
        _is_an_adjective,
    )
    return any(sense(said) for sense in senses) or _is_of_its_geometry(said)


def _is_whole(said: Said) -> bool:
    full = [at for at in said.at("X") if said.text(at).lower() == "full"]
    return any(at == said.start or _WHOLE.fullmatch(said.text(at + 1)) for at in full)


def _is_unavailable(said: Said) -> bool:
    """Whether something of that name cannot be reached: "cache daemon is unavailable"."""
    gone = [at for at in said.at("X") if said.text(at).lower() == "unavailable"]
    return bool(gone) and re.search("[mvdrs]", said.own) is None


def _is_too_early(said: Said) -> bool:
    """Whether something is only to be done first."""
    return "C" in said.own and any(_EARLIER.fullmatch(said.text(at)) for at in range(said.start, said.end))


def _is_a_manner(said: Said) -> bool:
    behaves = [text for at in said.at("C") if _BEHAVES.fullmatch(text := said.text(at))]
    manners = any(_MANNERS.fullmatch(said.text(at)) for at in said.at("G"))
    return any(manners or ("A" in said.own and not text.lower().startswith("did")) for text in behaves)


def _is_bidden(said: Said) -> bool:
    first = said.letter(said.start - 1) if said.start else ""
    return first in {"", ":", "."} and _BIDS.fullmatch(said.text(said.start)) is not None


def _has_none_of_it(said: Said) -> bool:
    """Whether there is none of the kind, instead of none left."""
    if "O" not in said.own or re.search("[CVJ]", said.own):
        return False
    last, behind = said.text(said.end - 1), said.text(said.end)
    if said.letter(said.end) == "w" and (_RECORDS.fullmatch(behind) or said.letter(said.end - 1) in "ue"):
        return True
    if last.lower() == "swap" and said.letter(said.end) not in "fe":
        return True  # a machine may have none: "No swap; memory pressure usage will be degraded"
    noun = behind if said.letter(said.end) == "e" else last
    if said.letter(said.end + (noun is behind)) == "f":
        return False
    return _BUFFER.match(noun) is not None or (said.letter(said.end - 1) == "k" and _COUNTED.search(last) is None)


def _is_of_a_release(said: Said) -> bool:
    """Whether what is pinned is a version, or a process to its cores: no memory is named, and no size."""
    pinned = said.at("p")
    if not pinned or not all(_PINNED.fullmatch(said.text(at)) for at in pinned):
        return False
    of_a_machine = said.own.startswith("C")  # "could not pin the host's cores": no memory of it
    letters = said.letters.replace("H", "") if of_a_machine else said.letters
    return re.search("[SHNUmvdrseuAE]", letters) is None


def _is_an_adjective(said: Said) -> bool:
    """Whether something "cannot be empty", and is not refused."""
    return any(said.text(at + 1).lower() == "be" and said.letter(at + 2) == "w" for at in said.at("C"))


def _is_of_its_geometry(said: Said) -> bool:
    return said.own.startswith("V") and said.own.endswith("D") and _GEOMETRY.match(said.text(said.end)) is not None


__all__ = ["Said", "in_another_sense"]
