"""Logs that nobody wrote: pieces of the fixtures, bent, cut and spliced, with what a log may hold to do harm.

Every change takes its chances from the `Random` that it is given: the same numbers give the same bytes, and Hypothesis
may draw them.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

FIXTURES = Path(__file__).parent.parent / "fixtures"
PIECES = (80, 200, 500)  # bytes taken of a fixture, at most
MOST_CHANGES = 3

ESCAPES = (
    b"\x1b[31m", b"\x1b[2J\x1b[H", b"\x1b[1A\x1b[2K", b"\x1b[?1049h", b"\x1b[6n", b"\x1b[999999999m", b"\x1b[",
    b"\x1b]0;title\x07", b"\x1b]8;;http://198.51.100.7/\x1b\\", b"\x1b]8;;\x1b\\", b"\x1b]52;c;cm0gLXJm\x07", b"\x1b]52;",
    b"\x1bP$q\x1b\\", b"\x1b_x\x1b\\", b"\x1b^x\x1b\\", b"\x1bX", b"\x1bc", b"\x1b(0", b"\x1b",
    b"\x9b31m", b"\x9d0;t\x9c", b"\xc2\x9b2J", b"\xc2\x9d0;t\xc2\x9c", b"\xc2\x90q", b"\xc2\x85",
    b"\\x1b[31m", b"\\033[0m", b"\\u001b[0m", b"^[[31m", b"#033[0m", b"\\e[1m", b"[0m",
    b"&#27;[31m", b"&#x1b;[2J", b"&#155;", b"&#8238;", b"&#0;", b"&#xD800;", b"&lt;script&gt;",
)  # fmt: skip
INVISIBLE = tuple(
    chr(code).encode()
    for code in (
        0xAD, 0x34F, 0x61C, 0x115F, 0x180E, 0x200B, 0x200D, 0x200E, 0x200F, 0x2028, 0x2029, 0x202A, 0x202B, 0x202C,
        0x202D, 0x202E, 0x2060, 0x2064, 0x2066, 0x2067, 0x2068, 0x2069, 0x206A, 0x3164, 0xFE0F, 0xFEFF, 0xFFF9, 0xFFFB,
        0x1D173, 0xE0001, 0xE0041, 0xE0100,
    )
)  # fmt: skip
BROKEN = (
    b"\xff", b"\xfe\xff", b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xf8\x88\x80\x80",
    b"\xb0\xa1", b"\x80", b"\0", b"\0\0\0\0", b"\r", b"\r\r\n", b"\x0b", b"\x0c", b"\x08", b"\x07", b"\x7f", b"\x1a", b"\x04",
)  # fmt: skip
MARKUP = (
    b"[bold]", b"[/]", b"[link=http://198.51.100.7/]x[/link]", b"[red", b"\\[", b"<script>alert(1)</script>", b"</details>",
    b"<img src=x onerror=alert(1)>", b"<!--", b"-->", b"```", b"````\n", b"~~~", b"`", b"|", b"\n|---|\n", b"# ", b"- [ ] ",
    b"[a](javascript:alert(1))", b"![x](http://198.51.100.7/x.png)", b"@everyone", b"&amp;&lt;", b"::error::x",
    b"::add-mask::1", b"##[command]x", b"\n::stop-commands::x\n", b"%0A::error::", b"{}", b"{0.__class__}", b"%s%n%d",
    b"${HOME}", b"$(touch x)", b"`touch x`", b"; rm -rf x #", b"'\"", b"\\", b"\\n", b"\\u202e", b"../../etc/passwd",
    b"file:///etc/passwd", b"\xe2\x95\xad\xe2\x94\x80", b"\xe2\x94\x82", b"{{7*7}}", b"{% x %}", b"=cmd|' /C x'!A0",
)  # fmt: skip
NUMBERS = (
    b"0", b"-1", b"-0", b"1", b"00", b"9" * 9, b"9" * 19, b"9" * 40, b"9" * 400, b"18446744073709551615",
    b"18446744073709551616", b"17179869183.97", b"9223372036854775807", b"2147483648", b"1e308", b"1e999", b"-1e999",
    b"1e-999", b"nan", b"NaN", b"inf", b"-inf", b"Infinity", b"0x7fffffff", b"1_000", b"1,000,000", b"1.2.3.4", b".", b"..5",
    b"5.", b"-", b"--5", b"+5", b"1e", b"e5", b"\xd9\xa3", b"\xe0\xa5\xa9", b"\xef\xbc\x95", b"\xc2\xb2", b"\xe2\x91\xa0",
    b"0." + b"0" * 60 + b"1", b"137", b"65536", b"100%", b"-79.10", b"1/0",
)  # fmt: skip
UNITS = tuple(
    b"B KB MB GB TB PB EB ZB KiB MiB GiB TiB kB Kb bytes byte B/s iB G M K Gi Mi GiBs % pages tokens iBis".split()
)
BRACKETS = (
    b"(",
    b"[",
    b"{",
    b"<",
    b"((",
    b"[[",
    b"()",
    b"[]",
    b'"',
    b"'",
    b"'\\''",
    b'""',
    b"|",
    b"\\",
    b":",
    b",",
    b"/",
    b"=",
)
RUNS = (b"a", b"0", b"9", b" ", b"\t", b".", b"-", b"_", b"x ", b"1 ", b"a.", b"1.", b"a/", b"/", b"\xc3\xa9", b"\xf0\x9f\x92\xa5", b"A ",
        b"Error: ", b"\r", b"pid=1 ", b"GiB ", b"memory ", b"\x1b[", b"\x1b]", b"\\x1b[", b"&#", b"[1m", b"::", b"  | ")  # fmt: skip
PREFIXES = (
    b"(WorkerDict pid=4471, ip=10.0.0.4) ", b"(raylet) ", b"[rank3]: ", b"[default0]:", b"3: ", b"node-17: ", b"vllm-1  | ",
    b"ERROR 05-21 10:04:35 [core.py:123] ", b"2025-07-02 07:41:58,123 - INFO - ", b"[2025-07-02 07:41:58 TP0] ",
    b"[1234567.123456] ", b"Mar  3 04:05:06 node7 kernel: ", b"> ", b"| ", b"    ", b"\xe2\x94\x82 ", b"\t", b"E1120 08:34:53.204334 7 a.cc:1] ",
    b"#  ", b"```", b"step 7: ", b"Traceback (most recent call last):\n", b'  File "x.py", line 3, in f\n', b"```text\n",
)  # fmt: skip

_NUMBER = re.compile(rb"-?\d+(?:[.,]\d+)*")
_UNIT = re.compile(rb"(?<=\d) ?(?:[KMGT]i?B|bytes|%)")
_WORD = re.compile(rb"[A-Za-z_]{3,}")


@cache
def seeds() -> tuple[bytes, ...]:
    """The fixtures' bytes, in a fixed order."""
    return tuple(path.read_bytes() for path in sorted(FIXTURES.glob("*/*.log")))


def _piece(dice: Random) -> bytes:
    """A fixture, or some lines of it."""
    whole, longest = dice.choice(seeds()), dice.choice(PIECES)
    if len(whole) <= longest:
        return whole
    start = whole.rfind(b"\n", 0, dice.randrange(len(whole)) + 1) + 1
    return whole[start : start + dice.randint(1, longest)]


def _somewhere(dice: Random, data: bytes) -> int:
    return dice.randint(0, len(data))


def _put(data: bytes, at: int, what: bytes) -> bytes:
    return data[:at] + what + data[at:]


def _instead(dice: Random, data: bytes, pattern: re.Pattern[bytes], what: bytes) -> bytes:
    """Another text in one or all places of the pattern."""
    places = list(pattern.finditer(data))
    if not places:
        return _put(data, _somewhere(dice, data), what)
    if dice.random() < 0.1:
        return pattern.sub(lambda _: what, data)
    place = dice.choice(places)
    return data[: place.start()] + what + data[place.end() :]


def flip_bits(dice: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.randint(1, 8) if data else 0):
        changed[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def random_bytes(dice: Random, data: bytes) -> bytes:
    return _put(data, _somewhere(dice, data), dice.randbytes(dice.randint(1, 30)))


def cut(dice: Random, data: bytes) -> bytes:
    one, other = sorted((_somewhere(dice, data), _somewhere(dice, data)))
    return data[one:other] if dice.random() < 0.3 else data[:one] + data[min(other, one + 80) :]


def splice(dice: Random, data: bytes) -> bytes:
    """Two logs in one: one behind the other, inside the other, or line by line."""
    other = _piece(dice)
    way = dice.randrange(4)
    if way == 0:
        return data + other
    if way == 1:
        return data[: _somewhere(dice, data)] + other[_somewhere(dice, other) :]
    if way == 2:
        return _put(data, _somewhere(dice, data), other)
    mixed: list[bytes] = []
    mine, theirs = data.splitlines(keepends=True), other.splitlines(keepends=True)
    while mine or theirs:
        lines = mine if not theirs or (mine and dice.random() < 0.5) else theirs
        mixed.append(lines.pop(0))
    return b"".join(mixed)


def repeat_lines(dice: Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    first = dice.randrange(len(lines))
    some = lines[first : first + dice.randint(1, 4)]
    times = dice.choice((1, 2, 3, 5, 20)) if len(data) < 2000 else 1
    return b"".join(lines[:first] + some * times + lines[first:])


def reorder_lines(dice: Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    dice.shuffle(lines)
    return b"".join(lines)


def other_line_ends(dice: Random, data: bytes) -> bytes:
    end = dice.choice((b"\r\n", b"\r", b" ", b"\n\n", b"\\n", b"\xe2\x80\xa8", b"\x85", b"\0", b"\n\r", b"\x0c"))
    return data.replace(b"\n", end) if dice.random() < 0.5 else data.replace(b"\n", end, 1)


def wrap(dice: Random, data: bytes) -> bytes:
    """Cut hard, as a terminal does."""
    width = dice.choice((1, 7, 20, 60, 80, 100, 120))
    end = dice.choice((b"\n", b"\n", b"\r\n", b"\\\n"))
    lines = data.split(b"\n")
    return b"\n".join(end.join(line[at : at + width] for at in range(0, len(line) or 1, width)) for line in lines)


def hostile_text(dice: Random, data: bytes) -> bytes:
    kind = dice.choice((ESCAPES, ESCAPES, INVISIBLE, BROKEN, MARKUP))
    for _ in range(dice.randint(1, 4)):
        data = _put(data, _somewhere(dice, data), dice.choice(kind))
    return data


def hostile_word(dice: Random, data: bytes) -> bytes:
    """What a name, a path or a reason may be."""
    return _instead(dice, data, _WORD, dice.choice(dice.choice((ESCAPES, INVISIBLE, BROKEN, MARKUP))))


def other_word(dice: Random, data: bytes) -> bytes:
    words = _WORD.findall(_piece(dice))
    return _instead(dice, data, _WORD, dice.choice(words)) if words else data


def other_number(dice: Random, data: bytes) -> bytes:
    return _instead(dice, data, _NUMBER, dice.choice(NUMBERS))


def scaled_number(dice: Random, data: bytes) -> bytes:
    return _instead(dice, data, _NUMBER, str(dice.randrange(10 ** dice.randint(1, 15))).encode())


def other_unit(dice: Random, data: bytes) -> bytes:
    return _instead(dice, data, _UNIT, dice.choice((b"", b" ", b"  ")) + dice.choice(UNITS))


def brackets(dice: Random, data: bytes) -> bytes:
    return _put(data, _somewhere(dice, data), dice.choice(BRACKETS) * dice.choice((1, 3, 10, 100, 1000)))


def long_run(dice: Random, data: bytes) -> bytes:
    """A long line of one thing; now and then one that is longer than any reader takes."""
    length = dice.choice((10, 100, 500, 2000, 2000, 9000) if dice.random() < 0.97 else (20_000, 70_000))
    thing = dice.choice((*RUNS, *BRACKETS))
    return _put(data, _somewhere(dice, data), thing * (length // len(thing)))


def repeat_piece(dice: Random, data: bytes) -> bytes:
    """A stretch of a line again and again, on the same line."""
    start = _somewhere(dice, data)
    some = data[start : start + dice.randint(1, 40)]
    return _put(data, start, some * dice.choice((1, 2, 10, 50)))


def prefix(dice: Random, data: bytes) -> bytes:
    what = dice.choice(PREFIXES)
    if dice.random() < 0.6:
        return b"".join(what + line for line in data.splitlines(keepends=True))
    return _put(data, data.rfind(b"\n", 0, _somewhere(dice, data)) + 1, what)


def other_case(dice: Random, data: bytes) -> bytes:
    return dice.choice((bytes.upper, bytes.lower, bytes.swapcase, bytes.title))(data)


def other_encoding(dice: Random, data: bytes) -> bytes:
    text = data.decode("utf-8", "replace")
    return text.encode(
        dice.choice(("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "latin-1", "gb18030", "utf-32")), "replace"
    )


def packed(dice: Random, data: bytes) -> bytes:
    """Compressed, and perhaps damaged behind."""
    whole = gzip.compress(data, 1, mtime=0)
    return whole if dice.random() < 0.5 else flip_bits(dice, whole)


def written_out(dice: Random, data: bytes) -> bytes:
    """As a repr, as JSON's strings or as HTML shows it."""
    text = data.decode("utf-8", "replace")
    way = dice.randrange(3)
    if way == 0:
        return repr(text).encode("utf-8", "replace")
    if way == 1:
        return ('{"log": "' + text.replace('"', '\\"').replace("\n", "\\n") + '"}').encode("utf-8", "replace")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(" ", "&nbsp;").encode("utf-8", "replace")


Change = Callable[[Random, bytes], bytes]
CHANGES: tuple[Change, ...] = (
    flip_bits, random_bytes, cut, cut, splice, splice, splice, repeat_lines, reorder_lines, other_line_ends, wrap,
    hostile_text, hostile_text, hostile_text, hostile_word, hostile_word, other_word, other_word, other_number,
    other_number, other_number, scaled_number, scaled_number, other_unit, brackets, long_run, repeat_piece, prefix, prefix,
    other_case, written_out,
)  # fmt: skip
RARE: tuple[Change, ...] = (other_encoding, packed)


def changed(dice: Random, data: bytes) -> bytes:
    """The bytes after some of the changes."""
    for _ in range(dice.randint(1, MOST_CHANGES)):
        data = dice.choice(CHANGES)(dice, data)
    if dice.random() < 0.01:
        data = dice.choice(RARE)(dice, data)
    return data


def mutated(dice: Random) -> bytes:
    return changed(dice, _piece(dice))


def input_of(seed: int, number: int) -> bytes:
    """The input with this number: it needs none of those before it."""
    return mutated(Random(f"{seed} {number}"))


__all__ = ["changed", "input_of", "mutated", "seeds"]
