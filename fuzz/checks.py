"""What must hold of any bytes that are given as a log."""

from __future__ import annotations

import json
import re
import signal
import time
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from jsonschema import Draft202012Validator

import oomdoctor
from oomdoctor import streams
from oomdoctor.report import as_json, as_markdown, text
from oomdoctor.report.contract import Report
from oomdoctor.report.schema import schema

SECONDS_PER_BYTE = 1e-6
FLOOR = 1.5  # seconds: grammars and tables are built with the first input that needs them
PATIENCE = 20.0  # seconds after which it counts as hanging

# Format characters that can be seen: signs around digits, and what joins hieroglyphs
_SEEN = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd").union(
    map(chr, range(0x13430, 0x13440))
)
_OTHERWISE_WRITTEN = (b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff")  # compressed, UTF-16: read by `sources`
_COLOR = re.compile("\x1b\\[[0-9;]*m")


class WrongError(Exception):
    """What does not hold."""


class HangsError(BaseException):
    """Not an `Exception`: nothing on the way may catch it."""


@dataclass(frozen=True)
class Rigour:
    """How much of an input's report is looked at; what costs more than reading the log is done for some inputs."""

    forms: bool = True  # the JSON document, the text, the Markdown
    wide: bool = False  # the text again: in colour, narrow, with all there is
    schema: bool = False
    figures: bool = False  # the events' stand in the log
    again: bool = False


ALL = Rigour(forms=True, wide=True, schema=True, figures=True, again=True)


def unsafe(shown: str) -> set[str]:
    """The characters that a terminal or a reader may obey; line feeds are ours."""
    plain = shown.replace("\n", "")
    if plain.isprintable():
        return set()
    return {sign for sign in set(plain) if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - _SEEN


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(schema())


@contextmanager
def _in_time() -> Iterator[None]:
    """Seconds of this process's time, since the machine may be busy with others."""

    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise HangsError

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def check(log: Path, size: int, rigour: Rigour = ALL) -> float:
    """The seconds that the diagnosis took; what fails raises."""
    with _in_time():
        started = time.process_time()
        report = oomdoctor.diagnose(log)
        took = time.process_time() - started
        said = report.as_json()
        _shown("the report", _strings(said), besides="\t")
        if rigour.forms:
            document = as_json.document(report)
            _shown("JSON", _strings(json.loads(document, parse_constant=_no_json)), besides="\t")
            _shown("text", text.rendered(report, width=100, color=False, unicode=False, verbose=False))
            _shown("Markdown", as_markdown.document(report), besides="\t")
        if rigour.schema:
            _valid(json.loads(as_json.document(report)))
        if rigour.figures:
            _figures_are_printed(log.read_bytes(), said)
        if rigour.wide:
            _wide(report)
        if rigour.again and oomdoctor.diagnose(log).as_json() != said:
            raise WrongError("not the same twice")
    if took > FLOOR + size * SECONDS_PER_BYTE:
        raise WrongError(f"slow: {took:.2f} s for {size} bytes")
    return took


def _no_json(word: str) -> None:
    raise WrongError(f"JSON knows no {word}")


def _figures_are_printed(data: bytes, said: Any) -> None:
    if b"\0" in data or data.startswith(_OTHERWISE_WRITTEN):
        return
    if loose := printed(data, said):
        raise WrongError(f"figures that are not printed: {loose[:3]}")


def _valid(document: object) -> None:
    problems = [f"{error.json_path}: {error.message[:200]}" for error in _validator().iter_errors(document)]
    if problems:
        raise WrongError(f"JSON not valid: {problems[:3]}")


def _wide(report: Report) -> None:
    for width in (20, 80):
        drawn = text.rendered(report, width=width, color=True, unicode=True, verbose=True)
        _shown(f"text {width} wide", _COLOR.sub("", drawn))


def _strings(value: object) -> str:
    """All that stands in it as text."""
    found: list[str] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, dict):
            found += one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return "".join(found)


def _shown(where: str, shown: str, besides: str = "") -> None:
    if signs := unsafe(shown) - set(besides):
        raise WrongError(f"{where} holds {sorted(map(ascii, signs))}")


# A number as a program prints it; the digits of other scripts count, too
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_ONE = re.compile(r"\bone\b")  # "no space left for only one request"
_FACTORS = (1, 1024, 1024**2, 1024**3, 1024**4, 1000, 1000**2, 1000**3, 1000**4, 0.01, 4096, 16384, 65536)


def printed(data: bytes, report: Any) -> list[tuple[str, str, float]]:
    """The events' figures that stand nowhere in the log's clean lines, in no unit."""
    lines = streams.page("", 1, data).lines
    # A terminal may have cut a table's rows in the middle of a number.
    tokens = [token for seam in ("\n", "") for token in _NUMBER.findall(seam.join(line.text for line in lines))]
    numbers = [float(token.replace(",", sign)) for token in tokens for sign in _commas(token)]
    numbers += [1.0] if any(_ONE.search(line.text) for line in lines) else []
    numbers.sort()
    return [
        (event["id"], name, figure)
        for event in report["events"]
        for part in ("usage", "threshold")
        for name, value in event[part].items()
        for figure in (value if isinstance(value, list) else [value])
        if isinstance(figure, int | float) and not _stands(abs(figure), numbers)
    ]


def _commas(token: str) -> tuple[str, ...]:
    """What its commas may mean: thousands, or one of them the decimal point."""
    return ("", ".") if token.count(",") == 1 and "." not in token else ("",)


def _stands(figure: float, numbers: Sequence[float]) -> bool:
    """Whether one of the numbers is the figure in some unit; bytes are rounded to whole ones, shares to six digits."""
    slack = 0.51 if figure == int(figure) else 6e-7
    for factor in _FACTORS:
        least = bisect_left(numbers, (figure - slack) / factor)
        if least < len(numbers) and numbers[least] <= (figure + slack) / factor * (1 + 1e-12):
            return True
    return figure == 0
