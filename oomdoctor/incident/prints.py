"""What a job's own last prints count: things that it holds, brings in or has done."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from oomdoctor.incident.model import Crash
from oomdoctor.job.verbs import words_of
from oomdoctor.patterns import late

_LINES: Final = 60  # before a kill, in which prints are compared
LAST: Final = 6  # of them: where the job still did what they say
_CHARACTERS: Final = 300
SEVERAL: Final = 3
_COUNT: Final = r"(?<![\d.\-+])(?P<count>\d{1,3}(?:[,_]\d{3}){1,4}|\d{1,12})"
_TOTAL: Final = r"(?:\s?(?:/|of|out of)\s?(?P<total>\d{1,3}(?:[,_]\d{3}){1,4}|\d{1,12}))?"
# Sizes, shares and times are no numbers of things; a fraction's first digits are none, either
_NO_UNIT: Final = r"(?!\d|[.]\d|\s?(?:[kmgt]i?b?\b|%|bytes\b|ms\b|s\b|sec|it/s|tokens?\b|blocks?\b))"
A_COUNT: Final = _COUNT + _TOTAL + _NO_UNIT
_OF_THE_SHELL: Final = late(
    r"^\s{0,4}(?:$|\+ |[$#] |exit code\b|Killed\b|\S{1,60}: line \d)|\bKilled\b|\bexit (?:code|status)\b|Traceback"
    # and the kernel's, of a kill
    r"|\boom[-_]|\b(?:mem|memory|swap|memory\+swap|kmem): usage|Tasks state"
    r"|^\s{0,4}\[\s{0,8}(?:pid\s{0,2}\]|\d{1,9}\s{0,2}\]\s{1,12}\d)"  # its table's rows, and no process that logs
    r"|\bcgroup\b|Call Trace|Mem-Info"
)
_REPORT: Final = late(r"[^\s:]{1,60}: line \d{1,9}: {1,8}\d{1,9} (?:Killed|Bus error)\b")
_A_FEW: Final = 8  # characters: less is a prompt, or who wrote the line
_DONE: Final = late(
    r"(?i)(?:\b(?:inserted|added|loaded|read|decoded|indexed|embedded|encoded|fetched|collected|appended|stored)\b"
    r"[^\d\n%]{0,20}|: )" + A_COUNT + r"(?= ?[a-z]{3,20}s\b|$)"
)
_STEPS: Final = late(r"(?i)\b(?:step|iter(?:ation)?|batch)\b[^\d\n%]{0,10}" + A_COUNT)
# Keras': "12/64 [====>", since 3 of "━"
_BARS: Final = late(r"^\s{0,8}" + A_COUNT + r"\s?[\[━]")
# "batch 3 of 18, 24 answers": what a model is for, counted
ONE_OF_SEVERAL: Final = late(
    r"(?i)\b(?:batch|request|question|sample|prompt|document|episode|iteration|round)(?:es|s)?\W{1,3}[1-9]\d{0,8} ?"
    r"(?:of|/) ?\d"
)
_NUMBER: Final = late(r"\d{1,15}")
_TYPE: Final = late(
    r"(?i)\b(?:(?:torch|np|numpy)\.)?(?P<name>(?:b?float|u?int|complex)(?P<bits>8|16|32|64|128)|(?:fp|bf)(?P<short>16|32)|bool)\b"
)
_OF_A_TYPE: Final = frozenset({"dtype", "dtypes"})
_TRACE: Final = "Traceback (most recent call last)"


class Held(Struct, frozen=True):
    """What a job printed last of what it holds."""

    what: str
    count: int
    total: int | None = None

    @property
    def is_full(self) -> bool:
        return self.count == self.total


def own_lines(crash: Crash) -> Iterator[str]:
    """The job's own lines before its end, the last first."""
    own = (event for event in crash.events if event.role in ("confirmation", "cascade"))
    for event in (crash.root, *own):
        if (glued := _in_front_of_a_report(event.at.text)) is not None:
            yield glued
        for line in reversed(_above_the_trace(event.around.before[-_LINES:])):
            if _OF_THE_SHELL.search(line[:_CHARACTERS]) is None:
                yield line[:_CHARACTERS]


def _in_front_of_a_report(line: str) -> str | None:
    """What a job had printed, without an end to the line, when the shell told of its kill: a bar that goes on."""
    told = _REPORT.search(line)
    return line[: told.start()][:_CHARACTERS] if told is not None and told.start() >= _A_FEW else None


def _above_the_trace(lines: Sequence[str]) -> Sequence[str]:
    """Without the lines of the traceback that ends them; one that was caught has prints behind it."""
    begins = next((n for n in range(len(lines) - 1, -1, -1) if not lines[n].startswith(" ")), -1)
    return lines[:begins] if begins >= 0 and _TRACE in lines[begins] else lines


def growing(crash: Crash, pattern: re.Pattern[str], filling: re.Pattern[str]) -> Held | None:
    """What the last fitting print counts, where an earlier one of the same words counts less, or where its words say
    that it fills."""
    lines = list(dict.fromkeys(own_lines(crash)))
    place = next((n for n, line in enumerate(lines[:LAST]) if pattern.search(line)), None)
    if place is None:
        return None
    held, fills = _held(pattern, lines[place]), filling.search(lines[place]) is not None
    return held if held is not None and (fills or _is_more(held, lines, place, pattern)) else None


def is_told_last(lines: Iterable[str], about: re.Pattern[str], behind: Sequence[re.Pattern[str]]) -> bool:
    """Whether a line about something stands among these, the last first, with nothing of what comes behind it since."""
    for line in lines:
        if about.search(line):
            return True
        if any(words.search(line) for words in behind):
            return False
    return False


def several_steps_went_by(crash: Crash) -> bool:
    """Whether the last prints count steps or batches, at least three of them, or one of a number above."""
    progress = crash.context.progress
    return max(progress.get("step", 0), progress.get("done", 0)) >= SEVERAL or any(
        _counted(crash, steps) for steps in (_STEPS, _BARS)
    )


def several_batches_went_by(crash: Crash) -> bool:
    """Whether the last prints count what was done or brought in, at least three times: not the first batch was too
    large, but all of them together."""
    return _counted(crash, _DONE)


def _counted(crash: Crash, pattern: re.Pattern[str]) -> bool:
    shapes: dict[str, list[int]] = {}
    for line in dict.fromkeys(own_lines(crash)):
        match = pattern.search(line)
        if match is not None:
            shapes.setdefault(shape(line), []).append(number(match["count"]))
    return any(len(counts) >= SEVERAL and counts == sorted(counts, reverse=True) for counts in shapes.values())


def _is_more(held: Held, lines: Sequence[str], place: int, pattern: re.Pattern[str]) -> bool:
    earlier = [_held(pattern, line) for line in lines[place + 1 :] if shape(line) == shape(lines[place])]
    counts = [one.count for one in earlier if one is not None]
    return bool(counts) and all(count < held.count for count in counts)


def shape(line: str) -> str:
    """The line without its numbers: prints of the same words have the same."""
    return _NUMBER.sub("#", line)


def _held(pattern: re.Pattern[str], line: str) -> Held | None:
    match = pattern.search(line)
    if match is None:
        return None
    total = match["total"]
    return Held(" ".join(match["what"].lower().split()), number(match["count"]), number(total) if total else None)


def type_of_numbers(text: str) -> tuple[int, str] | None:
    """Bytes of a number and the name of its type, by the first type that the text names."""
    match = _TYPE.search(text)
    if match is None:
        return None
    bits = match["bits"] or match["short"]
    return (int(bits) // 8 if bits else 1), match["name"].lower()


def type_stated(line: str, crash: Crash, *, of: frozenset[str] = frozenset()) -> tuple[int, str] | None:
    """The same, by the line or by a setting that is a type; one whose name holds such a word before any other."""
    stated = [one for one in crash.context.settings.values() if not _OF_A_TYPE.isdisjoint(words_of(one.name))]
    stated.sort(key=lambda one: of.isdisjoint(words_of(one.name)))
    texts = (line, *(str(one.value) for one in stated))
    return next((found for text in texts if (found := type_of_numbers(text)) is not None), None)


def number(text: str) -> int:
    """Of digits in groups or not: "1,769,267", "25_000"."""
    return int(text.replace(",", "").replace("_", ""))


__all__ = [
    "A_COUNT",
    "LAST",
    "SEVERAL",
    "Held",
    "growing",
    "is_told_last",
    "number",
    "own_lines",
    "several_batches_went_by",
    "several_steps_went_by",
    "shape",
    "type_of_numbers",
    "type_stated",
]
