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

# As the list of the commands shows them: what a newcomer needs first, and eight at most.
COMMANDS: Final = (
    (mark("Diagnose a crash"), ("diagnose", "explain", "whatif", "compare")),
    (mark("While the job runs"), ("run", "watch", "cluster")),
    (mark("Report it"), ("issue",)),
)
# Two words that are a command: those that belong to a first one, whose own help lists them.
UNDER: Final = {
    "explain": ("causes", "knobs"),
    "issue": ("redact", "reduce", "draft", "form"),
    "dev": ("events", "schema", "bench", "train"),
}
# What hooks, actions and people's scripts call them: it works and is not shown.
OLD_NAMES: Final = {
    ("issue-form" if second == "form" else second): f"{first} {second}" for first in UNDER for second in UNDER[first]
}
# The module and the function of a last word, where they are called otherwise.
_PLACES: Final = {"draft": ("issue", "draft"), "form": ("issue", "issue_form")}
# Behind the job's first word every option is the job's.
_OF_A_JOB: Final = {"allow_interspersed_args": False}
_HELP: Final = """\
Finds out why a job ran out of memory: reads its log and says what ran out, who held the memory and what to change.

\b
Examples:
  oomdoctor diagnose train.log
  ray logs raylet.out -ip 10.0.0.7 --tail -1 | oomdoctor diagnose
  oomdoctor whatif train.log --set gpu_memory_utilization=0.5

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
    headings = {name: heading for heading, names in COMMANDS for name in names}
    for name in _registered(words):
        panel = headings.get(name)
        settings = _OF_A_JOB if name == "run" else {}
        command = app.command(name, cls=Command, rich_help_panel=panel, hidden=panel is None, context_settings=settings)
        command(_function(name))
    return app


def _registered(words: Sequence[str]) -> Sequence[str]:
    """The name of the command that the first words are, or those of all."""
    shown = [name for _, names in COMMANDS for name in names]
    every = (*shown, "dev", *OLD_NAMES.values(), *OLD_NAMES)
    return [name for name in (" ".join(words[:2]), *words[:1]) if name in every][:1] or every


def _function(name: str) -> Callable[..., Any]:
    last = OLD_NAMES.get(name, name).rpartition(" ")[2]
    module, function = _PLACES.get(last, (last, last))
    found: Callable[..., Any] = getattr(import_module(f"oomdoctor.cli.{module}"), function)
    return found


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
