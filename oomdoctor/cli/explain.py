"""`oomdoctor explain`."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer

from oomdoctor.cli import out


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
        near = difflib.get_close_matches(cause, by_id, n=3, cutoff=0.5)
        hint = f"did you mean {', '.join(near)}?" if near else "`oomdoctor causes` lists them"
        raise typer.BadParameter(f"there is no cause {cause!r}; {hint}", param_hint="CAUSE")
    out.write(_page(by_id[cause].page.read_text(encoding="utf-8")))


def _page(markdown: str) -> str:
    look = out.style("auto")
    if not look.unicode and not look.color:
        return markdown
    from rich.markdown import Markdown  # noqa: PLC0415

    from oomdoctor.report.text import drawn  # noqa: PLC0415

    return drawn([Markdown(markdown)], width=min(look.width, out.PIPED_WIDTH), color=look.color)
