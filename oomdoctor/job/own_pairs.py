"""What a program of one's own prints of its settings: "config: batch=64 layers=12", "batch=64 seq=512 lr=0.1", or a row
each below such a head.

Metrics look the same. Those are printed again and again, and name a loss, a step, a time or memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from oomdoctor.job.verbs import words_of
from oomdoctor.patterns import late
from oomdoctor.streams import Line

HEAD_WITHIN: Final = 160  # characters
LONGEST: Final = 4000
FEWEST_ALONE: Final = 3

_HEADS: Final = (
    r"(?:args|arguments|config(?:uration)?|cfg|settings?|params|parameters|h(?:yper)?[-_ ]?param(?:eter)?s|options|opts"
    r"|flags)"
)
_HEAD: Final = late(
    rf"(?i)(?<![\w./-]){_HEADS}(?:(?:\]|\)|\s?[:=]|\s?->){{1,2}}\s{{0,4}}(?=[A-Za-z{{-])"
    r"|\s(?=\{['\"]))"
)
_HEAD_OF_ROWS: Final = late(rf"(?i)\W{{0,40}}(?:[a-z]{{1,20}} ){{0,2}}{_HEADS}(?: used)?\W{{0,40}}\Z")
_OF_A_START: Final = late(
    r"\{[\"'](?:event|msg|message)[\"']: ?[\"']"
    r"(?i:starting|startup|started|config(?:uration)?|settings|init\w{0,12})[\"'], "
)
_NAME: Final = r"(?:--)?(?P<name>[A-Za-z][\w.-]{0,40})"
_VALUE: Final = r"(?P<value>\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|[\w./+:-]{1,200})"
_BY_SIGN: Final = late(rf"{_NAME}=\s?{_VALUE}(?:\s{{0,2}}[,;|]?\s{{0,4}}(?=[A-Za-z-])|[\s.)]{{0,4}}\Z)")
_BY_COMMA: Final = late(rf"{_NAME}(?::\s?|\s){_VALUE}(?:\s?[,;|]\s{{0,4}}(?=[A-Za-z-])|[\s.)]{{0,4}}\Z)")
_ROW: Final = late(rf"\s{{0,20}}(?:[-*•] )?{_NAME}\s{{0,40}}[:=]\s{{0,20}}{_VALUE}\s{{0,4}}\Z")
_SIZE: Final = "size"
_SECTION: Final = late(r"\s{0,20}[A-Za-z_][\w.-]{0,40}:\s{0,4}\Z")
_FILE: Final = late(r"(?:^|[\s=])[\w./-]{1,200}\.(?:ya?ml|toml|json|cfg)(?:\s|\Z)")
_COLUMNS: Final = late(
    r"\s{0,12}(?P<name>[a-z][a-z0-9]*(?:_[a-z0-9]+){0,6})\s{2,40}(?P<value>\S(?:.{0,80}\S)?)\s{0,4}\Z"
)
FEWEST_COLUMNS: Final = 4
LONGEST_COLUMNS: Final = 140  # characters
_RULES: Final = " -=_"
# "[train] ", "fit.py: ", "start | "
_SPEAKER: Final = late(r"\s{0,8}(?:\[[^\]\n=]{1,40}\]|[\w.-]{1,40}(?::|\s\|))\s{1,4}(?=[A-Za-z])")
_OF_METRICS: Final = frozenset({
    "loss", "step", "epoch", "iter", "iteration", "it", "acc", "accuracy", "rss", "mem", "memory", "time", "elapsed",
    "eta", "norm", "speed", "throughput", "ppl", "score", "reward", "free", "used", "peak", "total", "seen", "done",
    "processed", "read", "written", "ms", "sec", "at", "id", "pid", "rank", "status", "error", "code",
})  # fmt: skip


def behind_a_head(text: str) -> int | None:
    """Where a line goes on that begins by saying that settings follow."""
    head = _HEAD.search(text, 0, HEAD_WITHIN)
    return head.end() if head is not None else None


def of_a_start(text: str) -> int | None:
    """Where the dict begins that a service prints when it starts."""
    told = _OF_A_START.search(text[:LONGEST])
    return told.start() if told is not None else None


def is_a_head_of_rows(text: str) -> bool:
    return len(text) <= HEAD_WITHIN and _HEAD_OF_ROWS.match(text) is not None


def row(text: str) -> tuple[str, str] | None:
    """A name and its value, alone on a line below a head."""
    match = _ROW.match(text) if len(text) <= LONGEST else None
    return (match["name"], match["value"].strip("\"'")) if match is not None else None


def rows(below: Iterable[Line]) -> Iterator[tuple[str, str, Line]]:
    """The rows of a list, with those below the names of its sections."""
    for line in below:
        found = row(line.text)
        if found is not None:
            yield (*found, line)
        elif _SECTION.match(line.text) is None and line.text.strip(_RULES):
            return


def names_a_file(launch: str) -> bool:
    """Whether a launch line hands over a file of settings, which programs print."""
    return _FILE.search(launch) is not None


def columns(block: Iterable[Line]) -> list[tuple[str, str, Line]]:
    """The names and values of lines in two columns; none where they are few, or a metric is among them."""
    found = [(match["name"], match["value"], match.start("value"), line)
             for line in block if (match := _COLUMNS.match(line.text)) is not None]  # fmt: skip
    if len(found) < FEWEST_COLUMNS or len({place for *_, place, _ in found}) > 1:
        return []
    if any(_is_a_metric(name) for name, *_ in found):
        return []
    return [(name, value.strip("\"'"), line) for name, value, _, line in found]


def is_of_columns(text: str) -> bool:
    return len(text) <= LONGEST_COLUMNS and _COLUMNS.match(text) is not None


def stated(text: str) -> list[tuple[str, str]]:
    """All that stands there is names and values: which."""
    if len(text) > LONGEST:
        return []
    return next((found for pattern in (_BY_SIGN, _BY_COMMA) if (found := _all_of(pattern, text))), [])


def first_name(text: str) -> str:
    """What stands before the first sign."""
    return text.partition("=")[0].rpartition(" ")[2]


def alone(text: str) -> list[tuple[str, str]]:
    """Of a line without a head: three at least, none of them a metric's."""
    speaker = _SPEAKER.match(text)
    text = text[speaker.end() if speaker is not None else 0 :].strip()
    found = _all_of(_BY_SIGN, text) if len(text) <= LONGEST else []
    return found if len(found) >= FEWEST_ALONE and not any(_is_a_metric(name) for name, _ in found) else []


def _is_a_metric(name: str) -> bool:
    """A size alone is what something has come to; that of a batch or a buffer is chosen."""
    return not _OF_METRICS.isdisjoint(words_of(name)) or name == _SIZE


def _all_of(pattern: re.Pattern[str], text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = pattern.match(text, at)
        if match is None:
            return []
        found.append((match["name"], match["value"].strip("\"'")))
        at = match.end()
    return found


__all__ = ["FEWEST_ALONE", "FEWEST_COLUMNS", "alone", "behind_a_head", "columns", "first_name", "is_a_head_of_rows",
           "is_of_columns", "names_a_file", "of_a_start", "row", "rows", "stated"]  # fmt: skip
