"""`oomdoctor explain`."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator
from typing import Annotated

import typer

from oomdoctor.cli import out
from oomdoctor.cli.near import unknown


def explain(
    cause: Annotated[str, typer.Argument(help="A cause's id, as in the report and in `causes`.")],
) -> None:
    """Print a cause's page: what happens, how to recognise it, what to change.

    \b
    Examples:
      oomdoctor explain container-limit
    """
    from oomdoctor.causes import causes  # noqa: PLC0415

    by_id = {known.id: known for known in causes()}
    if cause not in by_id:
        raise typer.BadParameter(unknown("cause", cause, by_id, "`oomdoctor causes` lists them"), param_hint="CAUSE")
    out.write(_page(by_id[cause].page.read_text(encoding="utf-8")))


def _page(markdown: str) -> str:
    look = out.style("auto")
    width = min(look.width, out.PIPED_WIDTH)
    if not look.unicode and not look.color:
        return "".join(f"{line}\n" for line in _wrapped(markdown, width))
    from rich.markdown import Markdown  # noqa: PLC0415

    from oomdoctor.report.text import drawn  # noqa: PLC0415

    return drawn([Markdown(markdown)], width=width, color=look.color)


def _wrapped(markdown: str, width: int) -> Iterator[str]:
    """Markdown as it is, its paragraphs set in that width."""
    for plain, lines in itertools.groupby(markdown.splitlines(), key=_is_prose):
        if plain:
            yield from textwrap.wrap(" ".join(lines), width, break_long_words=False, break_on_hyphens=False)
            continue
        for line in lines:
            yield from textwrap.wrap(
                line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
            ) or [""]


def _is_prose(line: str) -> bool:
    """Whether the next line may go on where it ends: no heading, no item of a list, no empty line."""
    return bool(line) and not line.startswith(("#", "- "))
