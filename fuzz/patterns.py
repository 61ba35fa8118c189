"""Every pattern of the package, on texts made to keep it busy: what one character costs, and how that grows.

    python -m fuzz.patterns [--length 2000] [--slower-than 200]

A pattern's own tree says what to attack it with: what one of its repetitions takes, again and again, behind what
the pattern wants before it, and with nothing behind that would let it end; and its beginnings, many times. Prints
those that need more nanoseconds per character than told, and how much more on a text of twice the length.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import pkgutil
import re
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import oomdoctor
from oomdoctor import grammars, streams
from oomdoctor.job import recognition, roles
from oomdoctor.patterns import late

# Python's own reader of patterns, which got another name with 3.11
parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
sre: Any = importlib.import_module("re._constants" if sys.version_info >= (3, 11) else "sre_constants")

_LATE: Any = late  # a class, though it is typed as the function that it stands for
CANDIDATES = "a0A .-_/:(\t\"'[|=,\x1b{e\n1fTé\r"
MANY = 8  # a repetition that may be this long is worth an attack
END = "\x00\u20ac"
ATTEMPTS = 2
PATIENCE = 0.5  # seconds
NOT_FOR_LOGS = ("oomdoctor.training", "oomdoctor.training.generator", "oomdoctor.__main__")
CHEAP = 100  # nanoseconds per character: no second attempt


def package_patterns() -> dict[tuple[str, int], bool]:
    """The package's regular expressions with their flags; and whether they are tried at a text's beginning only."""
    for module in pkgutil.walk_packages(oomdoctor.__path__, "oomdoctor."):
        if not module.name.startswith(NOT_FOR_LOGS):
            importlib.import_module(module.name)
    roles.role_of("nobody")  # what the frameworks' files say becomes patterns where it is asked for
    list(recognition.versions("nothing"))
    found: dict[tuple[str, int], bool] = {}
    tables = (*streams._LEADING, *streams._AFTER_TIME, streams._COMPOSE, streams._NUMBERED, streams._NAMED_HOST)
    for decoration in tables:
        found[decoration._pattern, 0] = True
    for name in grammars.names():
        for terminal in grammars.build(name).terminals:
            found[terminal.pattern.value, sum(getattr(re, flag.upper()) for flag in terminal.pattern.flags)] = True
    at_beginning = _only_matched()
    for one in gc.get_objects():
        if isinstance(one, _LATE) and isinstance(one.pattern, str):
            found[one.pattern, one.asked_flags] = one.pattern in at_beginning
    return found


def _only_matched() -> set[str]:
    """The patterns that a module keeps under a name and asks `match` and `fullmatch` only."""
    found: set[str] = set()
    for module in [module for name, module in sys.modules.items() if name.startswith("oomdoctor.")]:
        tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
        used: dict[str, set[str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used.setdefault(node.value.id, set()).add(node.attr)
        loads = Counter(
            node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        )
        asked = Counter(
            node.value.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        )
        for name, methods in used.items():
            pattern: Any = vars(module).get(name)
            if isinstance(pattern, _LATE) and methods <= {"match", "fullmatch"} and loads[name] == asked[name]:
                found.add(pattern.pattern)
    return found


def attacks(pattern: str, flags: int, length: int) -> Iterator[str]:
    tree = parser.parse(pattern, flags)
    for before, pump in sorted(set(_pumps(list(tree), ""))):
        yield (before + pump * (length // len(pump)))[:length] + END
        yield ((before + pump * 50 + "\n") * (length // (len(before) + 50 * len(pump) + 1) + 1))[:length]
    whole = _sample(list(tree))
    for part in (whole[:-1], whole[: len(whole) // 2], whole):
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


CATEGORIES = {"CATEGORY_DIGIT": r"\d", "CATEGORY_SPACE": r"\s", "CATEGORY_WORD": r"\w",
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
        return bool(value[0] <= ord(character) <= value[1])
    if code is sre.CATEGORY:
        return re.match(CATEGORIES[str(value)], character) is not None
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
        return str(next((one for one in CANDIDATES + some if _takes_one(item, one)), "x"))
    if code is sre.SUBPATTERN:
        return _sample(list(value[-1]))
    if code is sre.BRANCH:
        return _sample(list(value[1][0]))
    if code in (sre.MAX_REPEAT, sre.MIN_REPEAT) or str(code) == "POSSESSIVE_REPEAT":
        least, most = int(value[0]), int(value[1])
        return _sample(list(value[2])) * max(least, min(1, most))
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
    signal.signal(signal.SIGVTALRM, _give_up)
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


def worst(pattern: str, flags: int, length: int, *, anchored: bool) -> tuple[float, int]:
    """What the dearest of the attacks costs, and which it is."""
    compiled = re.compile(pattern, flags)
    costs = (cost(compiled, text, anchored=anchored) for text in attacks(pattern, flags, length))
    return max(((price, number) for number, price in enumerate(costs)), default=(0.0, 0))


def grown(pattern: str, flags: int, length: int, number: int, *, anchored: bool) -> float:
    """What the same attack costs with a text of another length."""
    text = list(attacks(pattern, flags, length))[number]
    return cost(re.compile(pattern, flags), text, anchored=anchored)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--length", type=int, default=2000, help="characters")
    arguments.add_argument("--slower-than", type=float, default=200, help="nanoseconds per character")
    given = arguments.parse_args()
    found = package_patterns()
    slower = 0
    for (pattern, flags), anchored in found.items():
        price, number = worst(pattern, flags, given.length, anchored=anchored)
        if price > given.slower_than:
            slower += 1
            twice = grown(pattern, flags, 2 * given.length, number, anchored=anchored)
            print(
                f"{price:9.0f} ns/character, {twice / price:.1f} times that in a text of twice the length, "
                f"{'match' if anchored else 'search'}: {pattern[:300]!r}\n"
                f"    {list(attacks(pattern, flags, given.length))[number][:100]!r}",
                flush=True,
            )
    print(f"{len(found)} patterns, {slower} slower")


if __name__ == "__main__":
    main()
