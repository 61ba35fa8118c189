"""The settings of a launch script, read as text: nothing is executed, and what is not written out is left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from oomdoctor.job import launch
from oomdoctor.job.dumps import as_written
from oomdoctor.job.model import Value
from oomdoctor.patterns import late

# Quoted text stays, a comment goes; `#SBATCH` is none to Slurm.
_COMMENT: Final = late(r"""("(?:[^"\\]|\\.){0,4000}"|'[^']{0,4000}'|\\.)|(?:(?<=\s)|^)#(?!SBATCH\s).*""")
# What a shell would have to be run for.
_COMPUTED: Final = late(r"\$\([^()]{0,2000}\)|`[^`]{0,2000}`")
_SEPARATOR: Final = late(r";(?=\s|$)")
_VARIABLE: Final = late(r"'[^']{0,4000}'|\$(?:\{([A-Za-z_]\w{0,80})\}|([A-Za-z_]\w{0,80}))")
_ASSIGNED: Final = late(r"(?:^|[\s;(])(?:for\s{1,4}([A-Za-z_]\w{0,80})\s|read\s[^|;]{0,80}?([A-Za-z_]\w{0,80})\s*$)")
_ASSIGNMENT: Final = late(
    r"\s*(?:(?:export|local|readonly|declare(?:\s-\w)?)\s{1,4})?([A-Za-z_]\w{0,80})=(?:\"([^\"$`\\]{0,400})\""
    r"|'([^']{0,400})'|([^\s\"'$`\\;&|()]{0,400}))[\s;]{0,8}$"
)
_ANY_ASSIGNMENT: Final = late(r"\s*(?:(?:export|local|readonly|declare(?:\s-\w)?)\s{1,4})?([A-Za-z_]\w{0,80})\+?=")
_WORD: Final = late(r"[\w./:@%+,=\-]{0,400}")


class Flag(Struct, frozen=True):
    """One setting of a script."""

    name: str
    value: Value
    line: int
    written: str | None


def flags(text: str) -> Iterator[Flag]:
    """The flags, overrides, exports and #SBATCH options of all lines, as `launch` reads them."""
    lines = commands(text)
    literal = _literals(lines)
    continued = False
    for number, line in enumerate(lines, start=1):
        filled = _SEPARATOR.sub(" ;", _computed(_filled(line, literal)))
        for name, value in launch.read_line(filled, continued=continued):
            if not (isinstance(value, str) and any(sign in value for sign in "$`")):
                yield Flag(name, value, number, as_written(name, filled))
        continued = filled.rstrip().endswith("\\")


def commands(text: str) -> list[str]:
    """The lines without their comments."""
    return [_COMMENT.sub(lambda m: m[1] or "", line[: launch.LINE_CAP]) for line in text.split("\n")]


def _computed(line: str) -> str:
    """What a command would print is unknown: one inside another is taken out first."""
    return _COMPUTED.sub("$_", _COMPUTED.sub("$_", line))


def _literals(lines: Sequence[str]) -> Mapping[str, str]:
    """The script's variables that are set once, to something that is written out in one word."""
    times: Counter[str] = Counter()
    found: dict[str, str] = {}
    for line in lines:
        times.update(name for match in _ASSIGNED.finditer(line) for name in match.groups() if name)
        if any_ := _ANY_ASSIGNMENT.match(line):
            times[any_[1]] += 1
        match = _ASSIGNMENT.match(line)
        value = next((part for part in match.groups()[1:] if part is not None), "") if match else ""
        if match and "+=" not in line and _WORD.fullmatch(value):
            found[match[1]] = value
    return {name: value for name, value in found.items() if times[name] == 1}


def _filled(line: str, literal: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        return literal.get(match[1] or match[2] or "", match[0])

    return _VARIABLE.sub(value, line) if "$" in line else line
