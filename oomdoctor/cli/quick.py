"""Typer's commands as this command line has them: light, in the language in use, no wider than the terminal."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from contextvars import copy_context
from functools import partial
from itertools import groupby
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from oomdoctor.cli.lighten import skip_pydantic
from oomdoctor.cli.speech import begin
from oomdoctor.language import ENGLISH, LANGUAGES, in_use, listed, say

# Typer brings click along, or imports it, and names no more of its errors than this one's child.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def _named(params: list[Any]) -> list[Any]:
    """Arguments as everybody writes them, PATH and [PATH]..., whatever this Typer makes of them."""
    for param in params:
        if param.param_type_name == "argument":
            param.get_usage_pieces = partial(_usage, param)
            param.get_help_record = partial(_record, param, param.get_help_record)
    return params


def _usage(param: Any, ctx: Any) -> list[str]:
    del ctx
    name = _name(param) if param.required else f"[{_name(param)}]"
    return [name if param.nargs == 1 else f"{name}..."]


def _record(param: Any, record: Any, ctx: Any) -> tuple[str, str] | None:
    found = record(ctx)
    return found and (_name(param), found[1])


def _name(param: Any) -> str:
    return str(param.metavar or param.name.upper()).strip("[].")


NARROW = 80  # columns; lines that stand as they are in a page of help need so many


class _Spoken:
    """Help in the language in use; in English, as Typer makes it."""

    help: str | None

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            option.callback = _print_help
        return option

    def get_help(self, ctx: Any) -> Any:
        return super().get_help(_in_words(ctx))  # type: ignore[misc]

    def get_usage(self, ctx: Any) -> Any:
        return super().get_usage(_in_words(ctx))  # type: ignore[misc]

    def get_short_help_str(self, limit: int = 45) -> Any:
        if in_use() == ENGLISH:
            return super().get_short_help_str(limit)  # type: ignore[misc]
        from oomdoctor.cli.help import short  # noqa: PLC0415

        return short(self.help or "")


def _print_help(ctx: Any, param: Any, value: bool) -> None:
    del param
    if value and not ctx.resilient_parsing:
        from oomdoctor.cli.out import write  # noqa: PLC0415

        write(ctx.get_help() + "\n")
        ctx.exit()


def _in_words(ctx: Any) -> Any:
    """The context, whose pages are laid out in the language in use, and where a terminal is narrower than Typer's."""
    from oomdoctor.cli.out import columns  # noqa: PLC0415

    width = columns() or NARROW
    if in_use() != ENGLISH or width < NARROW:
        from oomdoctor.cli.help import Formatter  # noqa: PLC0415

        ctx.formatter_class = Formatter
    if width < NARROW:
        ctx.terminal_width = width
    return ctx


class Command(_Spoken, TyperCommand):
    def __init__(self, *others: Any, **named: Any) -> None:
        super().__init__(*others, **named)
        _named(self.params)

    def get_params(self, ctx: Any) -> list[Any]:
        return skip_pydantic(super().get_params(ctx))


WHOLE = 200  # characters of a command's first sentence, which is then wrapped and not cut


class Group(_Spoken, TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return skip_pydantic(super().get_params(ctx))

    def main(self, args: Sequence[str] | None = None, *others: Any, **named: Any) -> Any:
        """In the language that the command line or the locale asks for, which holds until it ends."""
        return copy_context().run(self._main, args, *others, **named)

    def _main(self, args: Sequence[str] | None, *others: Any, **named: Any) -> Any:
        begin(_asked_for(sys.argv[1:] if args is None else args))
        try:
            code = super().main(args, *others, **named | {"standalone_mode": False})
        except UsageError as error:
            from oomdoctor.cli.help import wrong  # noqa: PLC0415
            from oomdoctor.cli.out import write_error  # noqa: PLC0415

            write_error(wrong(error))
            sys.exit(error.exit_code)  # type: ignore[attr-defined]
        sys.exit(code or 0)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands under their headings, in the order of the app."""
        del ctx
        named: Any = [(name, command) for name, command in self.commands.items() if not command.hidden]
        for heading, commands in groupby(named, key=lambda entry: entry[1].rich_help_panel):
            with formatter.section(heading):
                formatter.write_dl([(name, command.get_short_help_str(WHOLE)) for name, command in commands])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Two words may be a command. A path where the command should stand is the commonest slip: say what to type."""
        if " ".join(args[:2]) in self.commands:
            args = [" ".join(args[:2]), *args[2:]]
        if args[0] not in self.commands and os.path.exists(args[0]):  # noqa: PTH110  (Path's fails on a long name)
            ctx.fail(
                say(
                    "there is no command {word}; to read that file: {command}",
                    word=repr(args[0]), command=f"oomdoctor diagnose {shlex.quote(args[0])}",
                )
            )  # fmt: skip
        return super().resolve_command(ctx, args)


def _asked_for(words: Sequence[str]) -> str | None:
    """The language that `--lang` names, wherever it stands: help and errors are printed before it is parsed."""
    for word, after in zip(words, [*words, ""][1:], strict=True):
        if word == "--":
            return None
        name, has_value, value = word.partition("=")
        if name == "--lang":
            return value if has_value else after
    return None


def one_of(*allowed: str) -> Any:
    """A callback that turns away every other value."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in allowed:
            raise typer.BadParameter(say("{value} is not one of {allowed}", value=repr(value), allowed=listed(allowed)))
        return value

    return check


Lang = Annotated[
    str | None,
    typer.Option(
        "--lang",
        metavar="|".join(LANGUAGES),
        callback=one_of(*LANGUAGES),
        show_default=False,
        help="The language; default: OOMDOCTOR_LANG, else the locale.",
    ),
]
