"""`oomdoctor issue redact`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from oomdoctor.cli import out
from oomdoctor.cli.diagnose import Output
from oomdoctor.cli.quick import Lang
from oomdoctor.cli.reports import STDIN
from oomdoctor.language import listed, say
from oomdoctor.text import disarm
from oomdoctor.units import show

if TYPE_CHECKING:
    from oomdoctor.sources import Source, Trouble

CLEAN, FOUND, UNREADABLE = 0, 1, 2
LARGEST = 512 * 1024 * 1024  # bytes that are held in memory, several times over

Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", show_default=False, help="Logs, drafts, scripts; - or none: a pipe."),
]


def redact(
    files: Files = None,
    output: Output = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only list the secrets, with file and line; exit with 1 if there are any.")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="With --check: list names of hosts, people and buckets, and addresses, too."),
    ] = False,
    _lang: Lang = None,
) -> None:
    """Take secrets, names and addresses out of logs before you share them.

    \b
    Examples:
      oomdoctor issue redact train.log -o public.log
      kubectl logs trainer-0 | oomdoctor issue redact
      oomdoctor issue redact --check draft.md run.sh

    The same host is <HOST-1> everywhere in the output. Private IP addresses (10.x, 192.168.x ...) stay: they tell
    nodes apart and lead nowhere from outside.

    With --check, exits with 0 (no secrets), 1 (secrets, listed with file and line) or 2 (a file could not be read).
    Without it, with 0 or 2.
    """
    from oomdoctor import street  # noqa: PLC0415  (not for --help)

    if strict and not check:
        raise typer.BadParameter(say("only works with --check: add --check"), param_hint="--strict")
    out.check_folder(output)
    if not files and out.stdin_is_terminal():
        raise typer.BadParameter(
            say("name a file, or pipe one in: {command}", command="oomdoctor issue redact train.log"), param_hint="FILE"
        )
    sources, troubles = street.gather(files or [STDIN])
    out.check_spares(output, (source.path for source in sources))
    texts = [(source, text_of(source)) for source in sources]
    met = [*troubles, *(trouble for source in sources for trouble in _troubles(source))]
    for trouble in met:
        out.tell(f"{trouble.file}: {trouble.why}")
    if check:
        found = _checked(texts, output, strict=strict)
        raise typer.Exit(UNREADABLE if met else FOUND if found else CLEAN)
    if met:
        raise typer.Exit(UNREADABLE)  # a part of the output would look like all of it
    _redacted([text for _, text in texts], output)


def _troubles(source: Source) -> list[Trouble]:
    """What was met while it was read; that a file is empty is none here."""
    return [trouble for trouble in source.troubles if trouble.why != say("empty")]


def text_of(source: Source) -> str:
    """The whole text of a log."""
    from oomdoctor.streams import decode  # noqa: PLC0415  (not for --help)

    blocks: list[bytes] = []
    for block in source.blocks():
        blocks.append(block)
        if source.size > LARGEST:
            raise typer.BadParameter(
                say("{file} is larger than {size}; cut it first", file=source.name, size=show(LARGEST)),
                param_hint="FILE",
            )
    return decode(b"".join(blocks))


def _checked(texts: Iterable[tuple[Source, str]], output: str | None, *, strict: bool) -> bool:
    from oomdoctor.redaction import find  # noqa: PLC0415
    from oomdoctor.redaction.words import in_words  # noqa: PLC0415
    from oomdoctor.sources import shown  # noqa: PLC0415

    places = [
        say(
            "{file}, line {line}: {what}",
            file=source.name if source.part or not source.path else shown(str(source.path)),
            line=line,
            what=in_words(kind),
        )
        for source, text in texts
        for line, kind in dict.fromkeys(
            (one.line, one.kind) for one in find(text) if one.put and (one.secret or strict)
        )
    ]
    out.write(disarm("".join(f"{place}\n" for place in places)), output)
    return bool(places)


def _redacted(texts: Sequence[str], output: str | None) -> None:
    from oomdoctor.redaction import Redactor  # noqa: PLC0415

    redactor = Redactor()
    for text in texts[1:]:
        redactor.learn(text)  # a name that the second file tells may stand in the first
    out.write_log("".join([redactor.text(text) for text in texts]), output)
    out.tell(say("replaced: {kinds}", kinds=told(redactor.replaced)))


def told(replaced: Mapping[str, int]) -> str:
    """What was replaced, and how often."""
    from oomdoctor.redaction.words import in_words  # noqa: PLC0415

    return listed(f"{in_words(kind)} ({count})" for kind, count in sorted(replaced.items())) or say("nothing")
