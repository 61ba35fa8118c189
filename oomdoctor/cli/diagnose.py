"""`oomdoctor diagnose`."""

from __future__ import annotations

from typing import Annotated

import typer

from oomdoctor.cli import reports
from oomdoctor.cli.quick import Lang, one_of
from oomdoctor.cli.reports import COLORS, FORMATS
from oomdoctor.language import say

Paths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH",
        show_default=False,
        help="Logs, folders or archives of one crash; - or none: a pipe.",
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "-o", "--output", metavar="FILE", show_default=False, help="Write to this file instead of standard output."
    ),
]
ExitZero = Annotated[bool, typer.Option("--exit-zero", help="Exit with 0 instead of 1 or 3.")]
Launch = Annotated[
    list[str] | None,
    typer.Option(
        "--launch",
        metavar="FILE",
        show_default=False,
        help="The script that started the job, read as text for settings that the log lacks.",
    ),
]
Config = Annotated[
    list[str] | None,
    typer.Option("--config", metavar="FILE", show_default=False, help="The job's configuration, YAML or JSON."),
]
Assume = Annotated[
    list[str] | None,
    typer.Option(
        "--assume",
        metavar="NAME=VALUE",
        show_default=False,
        help="A version or setting that the log lacks: vllm=0.8.3, zero_stage=3.",
    ),
]
Absolute = Annotated[bool, typer.Option("--absolute-paths", help="Name files by their absolute paths.")]
Redact = Annotated[
    bool | None,
    typer.Option(
        "--redact/--no-redact",
        show_default=False,
        help="Take out secrets, hosts and names, or keep them. Default: out in markdown, html and github.",
    ),
]
Color = Annotated[
    str,
    typer.Option(metavar="|".join(COLORS), callback=one_of(*COLORS), help="Colors in the text report."),
]
Form = Annotated[
    str,
    typer.Option(
        "-f",
        "--format",
        metavar="FORM",
        callback=one_of(*FORMATS),
        help="text, json, jsonl, markdown, html or github (annotations and a step's summary).",
    ),
]
Brief = Annotated[bool, typer.Option("--brief", help="One line for each crash: for a chat, a pager, a title.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Everything, not only one screen.")]


def diagnose(
    paths: Paths = None,
    form: Form = "text",
    output: Output = None,
    exit_zero: ExitZero = False,
    absolute_paths: Absolute = False,
    redact: Redact = None,
    verbose: Verbose = False,
    brief: Brief = False,
    color: Color = "auto",
    launch: Launch = None,
    config: Config = None,
    assume: Assume = None,
    _lang: Lang = None,
) -> None:
    """Say what ran out, who held the memory, why, and what to change.

    \b
    Examples:
      oomdoctor diagnose train.log
      oomdoctor diagnose driver.log raylet.out --format json -o report.json
      kubectl logs trainer-0 --previous | oomdoctor diagnose
      oomdoctor diagnose train.log --format markdown -o crash.md
      oomdoctor diagnose train.log --brief
      oomdoctor diagnose train.log --launch run.sh --assume vllm=0.8.3

    --launch, --config and --assume add settings and versions that the log lacks; the log wins. Each may be repeated.

    Exits with 0 (no memory failure), 1 (a memory failure, or a request that Ray cannot place), 3 (something died and
    the log does not show whether of memory), 2 (wrong usage, or nothing could be read) or 70 (an error of oomdoctor
    itself).
    """
    if brief and (form != "text" or verbose):
        raise typer.BadParameter(say("it is a form of its own; leave out -f and -v"), param_hint="--brief")
    code = reports.diagnosed(
        paths,
        "brief" if brief else form,
        output,
        exit_zero=exit_zero,
        absolute=absolute_paths,
        redact=redact,
        verbose=verbose,
        color=color,
        launch=launch,
        config=config,
        assume=assume,
    )
    raise typer.Exit(code)
