"""The help of the commands in another language than English, and where there is little room: laid out as printed."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from typer.core import TyperCommand

from oomdoctor.cli.out import one_line
from oomdoctor.columns import cells, filled, wrapped
from oomdoctor.language import ENGLISH, in_use, mark, say, translated

# What Typer says itself.
WORDS: Final = (
    mark("Arguments"),
    mark("Commands"),
    mark("Options"),
    mark("Show this message and exit."),
)
_AS_IT_IS: Final = "\b\n"  # before a paragraph whose lines stay as they are
_REQUIRED: Final = "  [required]"
_DEFAULT: Final = "  [default: "
_COLUMN: Final = 30  # of the options; what stands behind a longer one begins on the next line


def paragraphs(text: str) -> list[tuple[str, bool]]:
    """The parts of a help text, each translated by itself, and whether its lines stay as they are."""
    parts = [part.strip("\n") for part in inspect.cleandoc(text).split("\n\n")]
    return [
        (part.removeprefix(_AS_IT_IS), True) if part.startswith(_AS_IT_IS) else (" ".join(part.split()), False)
        for part in parts
    ]


def short(text: str) -> str:
    """What the list of the commands says of one."""
    return translated(paragraphs(text)[0][0])


_Formatter: Any = TyperCommand.context_class.formatter_class


class Formatter(_Formatter):  # type: ignore[misc]
    """Lays out a page of help in the language in use."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        del prefix
        self.write("\n".join(wrapped(f"{prog} {args}", self.width, first=say("Usage: "), rest=" " * 4)) + "\n")

    def write_heading(self, heading: str) -> None:
        self.write(" " * self.current_indent + say("{heading}:", heading=translated(heading)) + "\n")

    def write_text(self, text: str) -> None:
        margin = " " * self.current_indent
        told: list[str] = []
        for part, as_it_is in paragraphs(text):
            words = translated(part)
            room = self.width - len(margin)
            lines = list(_kept(words, room)) if as_it_is else wrapped(words, room)
            told.append("\n".join(f"{margin}{line}" for line in lines))
        self.write("\n\n".join(told) + "\n")

    def write_dl(self, rows: Sequence[tuple[str, str]], col_max: int = _COLUMN, col_spacing: int = 2) -> None:
        rows = [(name, _told(about)) for name, about in rows]
        widest = max((cells(name) for name, _ in rows), default=0)
        column = min(widest, col_max, max(self.width // 2 - 2 * col_spacing, 4)) + col_spacing
        margin = " " * self.current_indent
        for name, about in rows:
            lines = wrapped(about, max(self.width - column - col_spacing, 10)) or [""]
            if cells(name) > column - col_spacing:
                self.write(f"{margin}{name}\n{margin}{' ' * column}{lines[0]}\n")
            else:
                self.write(f"{margin}{filled(name, column)}{lines[0]}".rstrip() + "\n")
            self.write("".join(f"{margin}{' ' * column}{line}\n" for line in lines[1:]))


def _kept(words: str, width: int) -> Iterator[str]:
    """Lines that stay as they are, where there is room for them."""
    for line in words.split("\n"):
        margin = " " * (len(line) - len(line.lstrip()))
        if cells(line) <= width:
            yield line
        else:
            yield from wrapped(" ".join(line.split()), width, margin, f"{margin}  ")


def _told(about: str) -> str:
    """What stands behind an option, with what Typer adds to it."""
    if about.endswith(_REQUIRED):
        return say("{about} [required]", about=_told(about.removesuffix(_REQUIRED)))
    about, has_default, default = about.partition(_DEFAULT)
    words = translated(about)
    return say("{about} [default: {value}]", about=words, value=default.removesuffix("]")) if has_default else words


def wrong(error: Any) -> str:
    """What Typer prints of a command line that it does not understand."""
    lines = []
    if error.ctx is not None:
        path, option = error.ctx.command_path, error.ctx.help_option_names[0]
        lines = [error.ctx.get_usage(), say("Try '{command}' for help.", command=f"{path} {option}"), ""]
    said = one_line(_why(error.format_message()))  # it names files
    return "\n".join([*lines, say("Error: {why}", why=said), ""])


_WRONG: Final = (
    (r"Invalid value for (?P<name>.+?): (?P<why>.+)", mark("Invalid value for {name}: {why}")),
    (r"Invalid value: (?P<why>.+)", mark("Invalid value: {why}")),
    (r"Missing argument (?P<name>.+?)\.", mark("The argument {name} is missing.")),
    (r"Missing option (?P<name>.+?)\.", mark("The option {name} is missing.")),
    (r"Missing command\.", mark("Missing command.")),
    (r"No such command (?P<name>.+?)\.?", mark("No such command {name}.")),
    (
        r"No such command (?P<name>.+?)\. Did you mean (?P<meant>.+)\?",
        mark("No such command {name}. Did you mean {meant}?"),
    ),
    (r"No such option: (?P<name>\S+)", mark("No such option: {name}")),
    (
        r"No such option: (?P<name>\S+) \(Possible options: (?P<meant>.+)\)",
        mark("No such option: {name} (Possible options: {meant})"),
    ),
    (r"Option (?P<name>.+?) requires an argument\.", mark("The option {name} needs a value.")),
    (r"Option (?P<name>.+?) does not take a value\.", mark("The option {name} takes no value.")),
    (r"Got unexpected extra arguments?(?:\(s\))? \((?P<names>.*)\)", mark("Not expected: {names}")),
)


def _why(message: str) -> str:
    if in_use() == ENGLISH:
        return message
    for pattern, words in reversed(_WRONG):
        if found := re.fullmatch(pattern, message, re.DOTALL):
            return translated(words).format(**found.groupdict())
    return message
