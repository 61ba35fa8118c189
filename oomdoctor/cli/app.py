"""The commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from oomdoctor import __version__
from oomdoctor.cli import (
    bench,
    causes,
    cluster,
    compare,
    diagnose,
    events,
    explain,
    issue,
    knobs,
    out,
    redact,
    reduce,
    schema,
    train,
    watch,
    whatif,
)
from oomdoctor.cli.quick import Command, Group, Lang
from oomdoctor.language import mark

app = typer.Typer(
    cls=Group,
    # rich's help pages, tracebacks and the completion scripts cost every start a few hundredths of a second
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""\
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
    """,
)


@app.callback(invoke_without_command=True)
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
        diagnose.diagnose([])


# As the list of the commands shows them: what a newcomer needs first.
for heading, commands in (
    (mark("Diagnose a crash"), (diagnose.diagnose, explain.explain, whatif.whatif, compare.compare)),
    (mark("Run alongside"), (watch.watch, cluster.cluster)),
    (mark("Share it"), (issue.issue, reduce.reduce, redact.redact, issue.draft, issue.issue_form)),
    (mark("Look things up"), (causes.causes, knobs.knobs)),
    (mark("Build upon it"), (events.events, schema.schema, bench.bench, train.train)),
):
    for command in commands:
        app.command(cls=Command, rich_help_panel=heading)(command)
