"""The commands, and the app that is put together of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from oomdoctor import __version__
from oomdoctor.cli import out
from oomdoctor.cli.quick import Command, Group, Lang
from oomdoctor.language import mark

# As the list of the commands shows them: what a newcomer needs first.
COMMANDS: Final = (
    (mark("Diagnose a crash"), ("diagnose", "explain", "whatif", "compare")),
    (mark("Run alongside"), ("watch", "cluster")),
    (mark("Share it"), ("issue", "reduce", "redact", "draft", "issue-form")),
    (mark("Look things up"), ("causes", "knobs")),
    (mark("Build upon it"), ("events", "schema", "bench", "train")),
)
_MODULES: Final = {"draft": "issue", "issue-form": "issue"}  # of others, the command's name
_HELP: Final = """\
Says what memory ran out, who held it, why, and what to change, from the log of the job that died.

\b
Examples:
  oomdoctor diagnose train.log              one log
  oomdoctor diagnose driver.log raylet.out  several logs of the same crash
  oomdoctor diagnose /tmp/ray/session_latest
  ray logs raylet.out -ip 10.0.0.7 --tail -1 | oomdoctor diagnose
  oomdoctor whatif train.log --set gpu_memory_utilization=0.5
  oomdoctor explain allocator-fragmentation

\b
Exit codes:
  0   no memory failure
  1   a memory failure, or a request that Ray cannot place
  3   something died and the log does not show whether of memory
  2   wrong usage, or nothing could be read
  70  an error of oomdoctor itself
"""


def app_for(words: Sequence[str] = ()) -> typer.Typer:
    """All commands; where the first word names one, that one: Typer works out the options of all before it runs one."""
    app = typer.Typer(
        cls=Group,
        # rich's help pages, tracebacks and the completion scripts cost every start a few hundredths of a second
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help=_HELP,
    )
    app.callback(invoke_without_command=True)(_root)
    for name, heading in _headings(words[0] if words else "").items():
        app.command(name, cls=Command, rich_help_panel=heading)(_function(name))
    return app


def _headings(word: str) -> dict[str, str]:
    """The heading of the command of this name, or those of all, by the commands' names."""
    every = {name: heading for heading, names in COMMANDS for name in names}
    return {word: every[word]} if word in every else every


def _function(name: str) -> Callable[..., Any]:
    module = import_module(f"oomdoctor.cli.{_MODULES.get(name, name)}")
    function: Callable[..., Any] = getattr(module, name.replace("-", "_"))
    return function


def _root(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    _lang: Lang = None,
) -> None:
    if version:
        out.write(f"oomdoctor {__version__}\n")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        if out.stdin_is_terminal():
            out.write_error(ctx.get_help() + "\n")
            raise typer.Exit(2)
        from oomdoctor.cli.diagnose import diagnose  # noqa: PLC0415

        diagnose([])
