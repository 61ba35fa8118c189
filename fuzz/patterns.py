"""Every pattern of the package, on texts made to keep it busy: what one character costs, and how that grows.

    python -m fuzz.patterns [--length 2000] [--slower-than 200]

A pattern's own tree says what to attack it with: what one of its repetitions takes, again and again, behind what the
pattern wants before it, and with nothing behind that would let it end; and its beginnings, many times. Prints those that
need more nanoseconds per character than told, or more than twice as many on a text of twice the length.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import pkgutil
import re
import signal
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import oomdoctor
from oomdoctor import grammars
from oomdoctor.patterns import late

try:
    from re import _constants as sre, _parser as parser  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_constants as sre
    import sre_parse as parser

CANDIDATES = "a0A .-_/:(\t\"'[|=,\x1b{e\n1fTé\r"
MANY = 8  # a repetition that may be this long is worth an attack
END = "\x00\u20ac"
ATTEMPTS = 2
PATIENCE = 0.5  # seconds
DECORATION = "streams"  # is tried at the beginning of a line only
CHEAP = 100  # nanoseconds per character: no second attempt


def package_patterns() -> dict[tuple[str, int], str]:
    """The package's regular expressions with their flags, and where they stand."""
    skipped = ("oomdoctor.training", "oomdoctor.classifier.generator", "oomdoctor.__main__")
    for module in pkgutil.walk_packages(oomdoctor.__path__, "oomdoctor."):
        if not module.name.startswith(skipped):
            importlib.import_module(module.name)
    found: dict[tuple[str, int], str] = {}
    from oomdoctor import streams  # noqa: PLC0415

    for one in (*streams._LEADING, *streams._AFTER_TIME, streams._COMPOSE, streams._NUMBERED, streams._NAMED_HOST):  # noqa: SLF001
        found[one._pattern, 0] = DECORATION  # noqa: SLF001
    for one in gc.get_objects():
        if isinstance(one, late) and isinstance(one._text, str):
            found.setdefault((one._text, one._flags), "late")
    for name in grammars.names():
        for terminal in grammars.build(name).terminals:
            flags = sum(getattr(re, flag.upper()) for flag in terminal.pattern.flags)
            found.setdefault(
                (terminal.pattern.to_regexp() if not flags else terminal.pattern.value, int(flags)), f"{name}.lark"
            )
    return found


def attacks(pattern: str, flags: int, length: int) -> Iterator[str]:
    tree = parser.parse(pattern, flags)
    for before, pump in set(_pumps(list(tree), "")):
        yield (before + pump * (length // len(pump)))[:length] + END
        yield ((before + pump * 50 + "\n") * (length // (len(before) + 50 * len(pump) + 1) + 1))[:length]
    whole = _sample(list(tree))
    for part in {whole[:-1], whole[: len(whole) // 2], whole}:
        if part:
            yield (part * (length // len(part) + 1))[:length] + END


def _pumps(items: list[Any], before: str) -> Iterator[tuple[str, str]]:
    """Texts that lead up to a repetition, and what it takes."""
    for at, (code, value) in enumerate(items):
        if code in (sre.MAX_REPEAT, sre.MIN_REPEAT) or str(code) == "POSSESSIVE_REPEAT":
            _, most, body = value
            inner = list(body)
            if most >= MANY:
                for pump in _takes(inner):
                    yield before, pump
                    yield "", pump
            yield from _pumps(inner, before)
        elif code is sre.SUBPATTERN:
            yield from _pumps(list(value[-1]), before)
        elif code is sre.BRANCH:
            for branch in value[1]:
                yield from _pumps(list(branch), before)
        elif code in (sre.ASSERT, sre.ASSERT_NOT):
            yield from _pumps(list(value[1]), before)
        before += _sample(items[at : at + 1])


def _takes(body: list[Any]) -> Iterator[str]:
    if len(body) == 1 and body[0][0] in (sre.IN, sre.ANY, sre.NOT_LITERAL, sre.LITERAL):
        taken = [character for character in CANDIDATES if _takes_one(body[0], character)]
        yield from taken or [_sample(body)]
        if len(taken) > 1:
            yield "".join(taken)
    elif sample := _sample(body):
        yield sample


_CATEGORIES = {"CATEGORY_DIGIT": r"\d", "CATEGORY_SPACE": r"\s", "CATEGORY_WORD": r"\w",
               "CATEGORY_NOT_DIGIT": r"\D", "CATEGORY_NOT_SPACE": r"\S", "CATEGORY_NOT_WORD": r"\W"}  # fmt: skip


def _takes_one(item: tuple[Any, Any], character: str) -> bool:
    code, value = item
    if code is sre.LITERAL:
        return chr(value) == character
    if code is sre.NOT_LITERAL:
        return chr(value) != character
    if code is sre.ANY:
        return character != "\n"
    inside = any(_in(part, character) for part in value)
    return inside is not (value[0][0] is sre.NEGATE)


def _in(part: tuple[Any, Any], character: str) -> bool:
    code, value = part
    if code is sre.LITERAL:
        return chr(value) == character
    if code is sre.RANGE:
        return value[0] <= ord(character) <= value[1]
    if code is sre.CATEGORY:
        return re.match(_CATEGORIES[str(value)], character) is not None
    return False


def _sample(items: list[Any]) -> str:
    """A text that the items match, or nearly."""
    return "".join(map(_sample_of, items))


def _sample_of(item: tuple[Any, Any]) -> str:
    code, value = item
    if code is sre.LITERAL:
        return chr(value)
    if code in (sre.IN, sre.ANY, sre.NOT_LITERAL):
        some = "".join(map(chr, range(33, 127))) + " \t\n"
        return next((character for character in CANDIDATES + some if _takes_one(item, character)), "x")
    if code is sre.SUBPATTERN:
        return _sample(list(value[-1]))
    if code is sre.BRANCH:
        return _sample(list(value[1][0]))
    if code in (sre.MAX_REPEAT, sre.MIN_REPEAT) or str(code) == "POSSESSIVE_REPEAT":
        least, most, body = value
        return _sample(list(body)) * max(least, min(1, most))
    if str(code) == "ATOMIC_GROUP":
        return _sample(list(value))
    if code is sre.ASSERT and value[0] == 1:
        return _sample(list(value[1]))
    return ""


class TooLongError(Exception):
    """The search does not end in time."""


def _give_up(_signal: int, _frame: object) -> None:
    raise TooLongError


def cost(compiled: re.Pattern[str], text: str, *, anchored: bool) -> float:
    """Nanoseconds of the processor per character for all matches in the text; the best of a few attempts."""
    best = float("inf")
    for _ in range(ATTEMPTS):
        signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
        started = time.process_time_ns()
        try:
            if anchored:
                compiled.match(text)
            else:
                deque(compiled.finditer(text), maxlen=0)
            best = min(best, (time.process_time_ns() - started) / len(text))
        except TooLongError:
            break
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if best < CHEAP:
            break
    return best


def worst(pattern: str, flags: int, length: int, *, anchored: bool) -> tuple[float, str]:
    """The dearest of the attacks, and its price."""
    compiled = re.compile(pattern, flags)
    return max(
        ((cost(compiled, text, anchored=anchored), text) for text in attacks(pattern, flags, length)), default=(0.0, "")
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--length", type=int, default=2000, help="characters")
    arguments.add_argument("--slower-than", type=float, default=200, help="nanoseconds per character")
    given = arguments.parse_args()
    signal.signal(signal.SIGVTALRM, _give_up)
    found = package_patterns()
    slower = 0
    for (pattern, flags), where in found.items():
        price, text = worst(pattern, flags, given.length, anchored=where == DECORATION)
        if price > given.slower_than:
            slower += 1
            twice = cost(re.compile(pattern, flags), text[: -len(END)] * 2 + END, anchored=where == DECORATION)
            print(
                f"{price:9.0f} ns/character, {twice / price:.1f} times that in a text of twice the length, {where}: {pattern[:300]!r}"
            )
            print(f"    {text[:100]!r}", flush=True)
    print(f"{len(found)} patterns, {slower} slower")


if __name__ == "__main__":
    main()
