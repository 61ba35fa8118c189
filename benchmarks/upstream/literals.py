"""What files of the C family, Rust, Go, Java, Kotlin and Scala print, by their literals (printers.toml)."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from msgspec import Struct

from benchmarks.upstream.rendered import Printer, table
from benchmarks.upstream.text import BRACES, EITHER, PERCENT, Level, Piece, Printed, Value, formatted, joined, words

# Comments, and literals of each language: raw ones of C++ and Rust, Go's and Kotlin's over several lines.
TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/"""
    r"""|(?P<raw>R"(?P<mark>[^()\s\\]{0,16})\((?P<inside>.*?)\)(?P=mark)")"""
    r"""|(?P<hashed>\br(?P<hashes>\#+)".*?"(?P=hashes))"""
    r"""|(?P<tripled>\"{3}.*?\"{3})"""
    r"""|(?P<quoted>"(?:[^"\\\n]|\\.|\\\n)*")"""
    r"""|(?P<ticked>`[^`]*`)"""
    r"""|'(?:[^'\\\n]|\\(?:[^u]|u\{?\w{1,8}\}?))'""",
    re.DOTALL,
)
ESCAPE = re.compile(r"""\\(?:(\n)\s*|([ntr"'\\0abfv])|x[0-9a-fA-F]{2}|u\{?[0-9a-fA-F]{4,6}\}?)""")
ESCAPED = {"n": "\n", "t": "\t", "r": "", '"': '"', "'": "'", "\\": "\\"}
ENDS = {"(": ")", "{": "}", "[": "]"}
BLACK = re.compile(r"[^\n]")
BRACKET = re.compile(r"[()\[\]{}]")
END = re.compile(r";|\}")
# Operators and brackets around an expression, and what ends a line.
EDGES = re.compile(r"^[\s,+<)(]*(?:std::endl)?[\s,+<)]*|(?:<<\s*std::endl)?[\s,+<(]*$")
OPERATOR = re.compile(r"\s*\)*\s*(?:,|\+|<<)")
BETWEEN = re.compile(r"\s*(?:(?:PRI\w+|u8|L)\s*)*$")  # what may stand between literals that are one
BEFORE = 1500  # letters of a call up to what is wanted of its words
FARTHEST = 6000  # letters of a statement


class Literal(Struct, frozen=True):
    start: int
    end: int
    text: str


class Code(Struct, frozen=True):
    """A file without its comments and with blank strings, and the strings, in order."""

    text: str
    literals: list[Literal]
    starts: list[int]

    def between(self, start: int, end: int) -> list[Literal]:
        return self.literals[bisect_left(self.starts, start) : bisect_left(self.starts, end)]


KINDS = ("raw", "hashed", "tripled", "quoted", "ticked")


def code_of(source: str, language: str) -> Code:
    literals: list[Literal] = []
    kinds = KINDS if language == "go" else KINDS[:-1]  # where a backtick is not a quotation mark

    def blank(token: re.Match[str]) -> str:
        kind = next((name for name in KINDS if token[name]), "")
        if kind in kinds:
            literals.append(Literal(token.start(), token.end(), _inside(token, kind)))
            return '"' + BLACK.sub(" ", token[0][1:-1]) + '"'
        return token[0] if kind else BLACK.sub(" ", token[0])

    text = TOKEN.sub(blank, source)
    return Code(text, literals, [literal.start for literal in literals])


def _inside(token: re.Match[str], kind: str) -> str:
    if kind == "raw":
        return token["inside"]
    if kind == "hashed":
        return token[0][2 + len(token["hashes"]) : -1 - len(token["hashes"])]
    if kind == "tripled":
        return token[0][3:-3]
    if kind == "ticked":
        return token[0][1:-1]
    return ESCAPE.sub(lambda escape: "" if escape[1] else ESCAPED.get(escape[2] or "", "?"), token[0][1:-1])


@cache
def calls(language: str) -> tuple[tuple[Printer, re.Pattern[str]], ...]:
    rows = (row for row in table().printer if language in row.languages)
    return tuple((row, re.compile(row.call if row.call.endswith("<<)") else rf"(?:{row.call})[({{]")) for row in rows)


def printed(path: str, source: str, language: str, wanted: Callable[[str], object] = bool) -> list[Printed]:
    """What a file prints, in order, where a literal is wanted."""
    code = code_of(source, language)
    taken: dict[int, Printed] = {}
    for start, end in _near(code, wanted):
        for printer, call in calls(language):
            for match in call.finditer(code.text, start, end):
                if (string := _string(code, printer, match)) and string[0] not in taken:
                    taken[string[0]] = _printed(path, code, printer, match, string[1])
    return [taken[start] for start in sorted(taken)]


def _near(code: Code, wanted: Callable[[str], object]) -> Iterator[tuple[int, int]]:
    """The parts of a file in which calls begin that may print what is wanted."""
    spans = ((max(0, literal.start - BEFORE), literal.start) for literal in code.literals if wanted(literal.text))
    whole: tuple[int, int] | None = None
    for start, end in spans:
        if whole is not None and start > whole[1]:
            yield whole
            whole = None
        whole = (whole[0] if whole is not None else start, end)
    if whole is not None:
        yield whole


def _printed(path: str, code: Code, printer: Printer, match: re.Match[str], pieces: Sequence[Piece]) -> Printed:
    named = match.groupdict()
    grave = (named.get("level") or "").lower().rstrip("f")
    level: Level = table().levels.get(grave, printer.level)
    return Printed(
        path=path,
        line=code.text.count("\n", 0, match.start()) + 1,
        frame=printer.frame,
        level=level,
        pieces=joined(pieces),
        name=(named.get("name") or grave).replace("ORT_MAKE_STATUS", "Error"),
    )


def _string(code: Code, printer: Printer, match: re.Match[str]) -> tuple[int, list[Piece]] | None:
    """The string that a call prints, and where it begins; None where none stands there."""
    start = end = match.end()
    if match[0].endswith(("(", "{")):
        end = _closing(code.text, start - 1)
    if printer.stream:
        start, end = end, _end_of_statement(code.text, end)
    literals = [literal for literal in code.between(start, end) if literal.text.strip()]
    if not literals:
        return None
    text = _fields if printer.frame == "slog" else _text
    return literals[0].start, text(code, literals, end)


def _closing(text: str, start: int) -> int:
    """Where the bracket that stands there is closed."""
    depth = 0
    for bracket in BRACKET.finditer(text, start, start + FARTHEST):
        depth += 1 if bracket[0] in ENDS else -1
        if not depth:
            return bracket.start()
    return min(start + FARTHEST, len(text))


def _end_of_statement(text: str, start: int) -> int:
    match = END.search(text, start, start + FARTHEST)
    return match.start() if match else min(start + FARTHEST, len(text))


def _text(code: Code, literals: Sequence[Literal], end: int) -> list[Piece]:
    """A format with its arguments, or words and values in turn."""
    whole, last = _neighbours(code, literals)
    after = code.text[last:end].strip()
    if (style := _style(whole)) and after[:1] in ("", ",", ")"):
        return list(formatted(whole, style, _arguments(after)))
    return _joined(code, literals, end)


def _fields(code: Code, literals: Sequence[Literal], end: int) -> list[Piece]:
    """A message in quotation marks, with its arguments or with names and values behind it."""
    whole, last = _neighbours(code, literals)
    if style := _style(whole):
        return ['"', *formatted(whole, style, _arguments(code.text[last:end])), '"']
    names = [literal.text for literal in code.between(last, end)]
    return [f'"{whole}"', *(piece for name in names for piece in (f" {name}=", Value(name)))]


def _neighbours(code: Code, literals: Sequence[Literal]) -> tuple[str, int]:
    """The first literal with those that follow it without a comma, and where they end."""
    text, end = literals[0].text, literals[0].end
    for literal in literals[1:]:
        between = code.text[end : literal.start]
        if not BETWEEN.match(between):
            break
        text += ("u" if "PRI" in between else "") + literal.text  # "%" PRIu64 " bytes"
        end = literal.end
    return text, end


def _style(text: str) -> re.Pattern[str] | None:
    percent, braces = PERCENT.search(text.replace("%%", "")), BRACES.search(text)
    if percent and braces:
        return EITHER
    return PERCENT if percent else BRACES if braces else None


def _arguments(text: str) -> list[str]:
    """What stands between the commas outside brackets."""
    depth, parts = 0, [""]
    for letter in text:
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        if depth < 0:
            break
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts[1:]]


def _joined(code: Code, literals: Sequence[Literal], end: int) -> list[Piece]:
    pieces: list[Piece] = []
    for literal, following in zip(literals, [*literals[1:], None], strict=True):
        pieces.append(literal.text)
        between = code.text[literal.end : following.start if following else end]
        expression = EDGES.sub("", between)
        # what begins with a dot changes the literal, and what no operator joins to it is a macro with more of it
        if OPERATOR.match(between) and re.match(r"[\w(&*]", expression):
            pieces.append(Value(" ".join(expression.split())))
    return pieces


def is_string(pieces: Sequence[Piece]) -> bool:
    """Whether it says anything: an id, a key or a format of values does not."""
    return " " in words(pieces).strip()
