"""A line with its identifiers as the words that they are made of, and without its paths."""

from __future__ import annotations

import re
from bisect import bisect_left

from msgspec import Struct

from oomdoctor.patterns import late

_PATH = late(
    r"\b(?:at|in) file[= ](?=[\w./]{1,200}[./]\w)|\w{2,12}://[^\s\"']{1,300}|(?<=Error)\(\w{1,60}(?:Error|Exception)\)"
    r"|(?<![\w/.])(?:~|\.{1,2}|[A-Za-z]:)?(?:[\\/][\w.+@-]{1,80}){2,30}(?::\d{1,7})?"
    r"|(?<![\w./])[A-Za-z][\w.-]{0,80}(?:/[\w.+-]{1,80}){2,20}(?::\d{1,7})?"
    r"|(?<!\w)b(?=['\"][A-Za-z])"  # before bytes, as Python shows them
    r"|\.{2,12}(?= ?(?i:failed|failure)\b)"  # "reserving 4 GB ... failed": of what stands before the dots
    r"|\b[\w-]{1,80}\.(?:py|pyx|cc|cpp|cu|cuh|hpp|h|rs|go|java|c)\b(?:[:(]\d{1,7}\)?)?"
)
_SIGN = late(r"[/\\.]|Error\(|\bb['\"]")
_SHM = "/dev/shm"  # noqa: S108  (read, not written to)
_IDENTIFIER = late(r"(?<!\w)[A-Za-z_]\w{3,79}")
_SEAM = late(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
_UNIT = late(r"[KMGT]i?Bs?")
_NAMES_NONE = late(r"no_(?!mem|space|room|free|vram|ram)[a-z]")  # a setting or its value: "no_buffer"


class Words(Struct, frozen=True):
    text: str
    seams: tuple[int, ...]  # where in it a blank was put in

    def place(self, at: int) -> int:
        """Where in the line itself that place of the text is."""
        return at - bisect_left(self.seams, at)


def as_words(line: str) -> Words:
    """As the words are; an error that another one carries in brackets is told where it happened."""
    text = _PATH.sub(_blank, line) if _SIGN.search(line) else line
    pieces: list[str] = []
    seams: list[int] = []
    at = 0
    for name in _IDENTIFIER.finditer(text):
        if ("_" not in name[0] and name[0][1:].islower()) or _NAMES_NONE.match(name[0]):
            continue
        pieces.append(text[at : name.start()])
        words = _SEAM.split(name[0].replace("_", " ")) if _UNIT.fullmatch(name[0]) is None else [name[0]]
        place = name.start() + len(seams)
        for word in words[:-1]:
            place += len(word)
            seams.append(place)
            place += 1
        pieces.append(" ".join(words))
        at = name.end()
    return Words("".join([*pieces, text[at:]]), tuple(seams))


def _blank(path: re.Match[str]) -> str:
    shown = " dev shm" if path[0].startswith(_SHM) else ""
    return shown.ljust(len(path[0]))


__all__ = ["Words", "as_words"]
