"""`oomdoctor explain`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from oomdoctor import spellings
from oomdoctor.cli import out
from oomdoctor.cli.knobs import checked
from oomdoctor.cli.near import hint
from oomdoctor.cli.quick import Lang
from oomdoctor.columns import wrapped
from oomdoctor.language import ENGLISH, in_use, listed, say
from oomdoctor.pages import page

if TYPE_CHECKING:
    from oomdoctor.remedies.settings import Spelling


def explain(
    cause: Annotated[str, typer.Argument(help="A cause's id, as in the report and in `causes`.")],
    framework: Annotated[
        str | None,
        typer.Option("--framework", metavar="NAME", show_default=False, help="Spell what to change for this one."),
    ] = None,
    signs: Annotated[
        bool, typer.Option("--signs", help="Print what it is told by instead: its table of signs and their grades.")
    ] = False,
    _lang: Lang = None,
) -> None:
    """Print a cause's page: what happens, how to recognise it, what to change.

    \b
    Examples:
      oomdoctor explain container-limit
      oomdoctor explain activations --framework verl
      oomdoctor explain activations --signs
    """
    from oomdoctor.causes import causes  # noqa: PLC0415

    by_id = {known.id: known for known in causes()}
    if cause not in by_id:
        listed_by = say("`{command}` lists them", command="oomdoctor causes")
        raise typer.BadParameter(
            say("there is no cause {word}; {hint}", word=repr(cause), hint=hint(cause, by_id, listed_by)),
            param_hint="CAUSE",
        )
    if signs:
        from oomdoctor.decision.outline import outline  # noqa: PLC0415

        out.write(_page(outline(by_id[cause])))
        return
    spelled = list(_options(by_id[cause].knobs, checked(framework)))
    out.write(_page("\n".join([_in_words(cause).rstrip("\n"), *spelled, ""])))


def _in_words(cause: str) -> str:
    """The page in the language in use; where it is not translated, in English, and with a line that says so."""
    found = page(cause, in_use())
    if found is None:
        missing = say("This page is not translated yet; it follows in English.")
        found = f"{missing}\n\n{page(cause)}"
    return found


def _options(knobs: Iterable[str], framework: str | None) -> Iterator[str]:
    """A section of the page: the cause's knobs as the framework spells them, or which frameworks there are."""
    from oomdoctor.remedies import settings  # noqa: PLC0415

    yield ""
    if framework is None:
        yield say("## In your framework")
        names = listed(spellings.frameworks())
        yield say("`--framework NAME` spells what to change, for {names}.", names=names)
        return
    yield say("## In {framework}", framework=spellings.title(framework))
    rows = [row for knob in knobs for row in settings.of_knob(knob, framework)]
    yield from (f"- {row.knob}: `{row.shown}`{_known(row)}" for row in rows)
    if not rows:
        yield say("It has no option of its own for any of these.")


def _known(row: Spelling) -> str:
    since = f", {row.versions}" if row.versions.text else ""
    default = "; ".join(f"{value} {where}".strip() for value, where in row.defaults)
    return since + (say(" (default {value})", value=default) if default else "")


def _page(markdown: str) -> str:
    look = out.style("auto")
    width = min(look.width, out.PIPED_WIDTH)
    if not look.unicode and not look.color:
        return "".join(f"{line}\n" for line in _wrapped(markdown, width))
    from rich.markdown import Markdown, MarkdownContext, Paragraph  # noqa: PLC0415

    from oomdoctor.report.text import Words, drawn  # noqa: PLC0415

    class Unbroken(Paragraph):
        def on_enter(self, context: MarkdownContext) -> None:
            super().on_enter(context)
            self.text = Words()

    class Chinese(Markdown):
        elements = {**Markdown.elements, "paragraph_open": Unbroken}  # noqa: RUF012  (as rich has it)

    page = (Markdown if in_use() == ENGLISH else Chinese)(markdown)
    return drawn([page], width=width, color=look.color)


def _wrapped(markdown: str, width: int) -> Iterator[str]:
    """Markdown as it is, its paragraphs set in that width."""
    for plain, lines in itertools.groupby(markdown.splitlines(), key=_is_prose):
        if plain:
            yield from wrapped(" ".join(lines), width, break_long_words=False)
            continue
        for line in lines:
            yield from wrapped(line, width, rest="  ", break_long_words=False) or [""]


def _is_prose(line: str) -> bool:
    """Whether the next line may go on where it ends: no heading, no item of a list, no empty line."""
    return bool(line) and not line.startswith(("#", "- "))
