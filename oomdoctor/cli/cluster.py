"""`oomdoctor cluster`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from oomdoctor.cli import out
from oomdoctor.cli.diagnose import Assume, Color, Config, ExitZero, Form, Launch, Output, Redact, Verbose
from oomdoctor.cli.quick import Lang
from oomdoctor.cli.reports import COLORS, FOR_PROGRAMS, FORMATS, SHARED, UNREADABLE, beside, deliver, exit_code
from oomdoctor.cli.speech import for_others
from oomdoctor.language import say
from oomdoctor.patterns import late

if TYPE_CHECKING:
    from oomdoctor.job.outside import Outside
    from oomdoctor.street import Facts

SECONDS: Final = 600
INSTALL: Final = "pip install 'oomdoctor[ray]'"
_SESSION = late(r"session_[\w.-]{1,200}")


def cluster(
    address: Annotated[
        str,
        typer.Option(
            "--address", metavar="ADDRESS", help="HOST:PORT or ray://HOST:PORT; without it, the cluster of this node."
        ),
    ] = "auto",
    session: Annotated[
        str | None,
        typer.Option(
            "--session",
            metavar="NAME",
            show_default=False,
            help="The session folder to read, if not the running session's.",
        ),
    ] = None,
    archived: Annotated[
        list[str] | None,
        typer.Option(
            "--archived",
            metavar="PATH",
            show_default=False,
            help="Logs outside the living nodes: of the driver, of a dead node, in s3://. May be repeated.",
        ),
    ] = None,
    timeout: Annotated[str, typer.Option("--timeout", metavar="SECONDS", help="Longest time per node.")] = str(SECONDS),
    form: Form = FORMATS[0],
    output: Output = None,
    exit_zero: ExitZero = False,
    redact: Redact = None,
    verbose: Verbose = False,
    color: Color = COLORS[0],
    launch: Launch = None,
    config: Config = None,
    assume: Assume = None,
    _lang: Lang = None,
) -> None:
    """Diagnose a running Ray cluster: every node reads its own logs.

    \b
    Examples:
      oomdoctor cluster
      oomdoctor cluster --archived driver.log
      oomdoctor cluster --address 10.0.0.1:6379 --format html -o crash.html
      oomdoctor cluster --archived s3://logs/ray/10.0.0.7

    Runs one Ray task per living node, without a CPU reservation; the nodes send what they found, not their logs.
    Needs Ray where the command runs: pip install 'oomdoctor[ray]'. Nodes with another version of oomdoctor, or none,
    are sent this one. Dead nodes are named; add their logs with --archived (s3:// and the like need
    'oomdoctor[remote]').

    Exits as `diagnose` does, and with 2 if there is no cluster.
    """
    if form in FOR_PROGRAMS:
        for_others()
    if find_spec("ray") is None:
        out.tell(say("`oomdoctor cluster` needs Ray, which is not installed: {command}", command=INSTALL))
        raise typer.Exit(UNREADABLE)
    out.check_folder(output)
    out.check_spares(output, map(Path, archived or []))
    found = _facts(address, session, _seconds(timeout), archived or [], beside(launch, config, assume, output))
    from oomdoctor import street  # noqa: PLC0415  (not for --help)
    from oomdoctor.redaction import Redactor  # noqa: PLC0415

    report = street.report_of(found)
    redactor = Redactor() if (form in SHARED if redact is None else redact) else None
    deliver(report, form, output, redactor, color=color, verbose=verbose)
    raise typer.Exit(exit_code(report, exit_zero=exit_zero))


def _facts(address: str, session: str | None, seconds: float, archived: list[str], told: Outside | None) -> Facts:
    """What all the logs say."""
    if session is not None and _SESSION.fullmatch(session) is None:
        raise typer.BadParameter(
            say("{name} is no session folder; its name begins with session_", name=repr(session)),
            param_hint="--session",
        )
    from oomdoctor.cluster import facts  # noqa: PLC0415  (not for --help)
    from oomdoctor.cluster.connection import ClosedError  # noqa: PLC0415

    try:
        found = facts.gathered(address, session, seconds, archived, told, out.tell)
    except ClosedError as error:
        raise typer.BadParameter(str(error), param_hint="--address") from error
    for trouble in found.errors:
        out.tell(f"{trouble.file}: {trouble.why}")
    return found


def _seconds(given: str) -> float:
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise typer.BadParameter(
            say("{word} is not a number of seconds, like 600", word=repr(given)), param_hint="--timeout"
        )
    return seconds
