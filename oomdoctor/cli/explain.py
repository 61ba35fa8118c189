"""`oomdoctor explain`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from oomdoctor import spellings
from oomdoctor.cli import out
from oomdoctor.cli.knobs import checked, knobs, set_by
from oomdoctor.cli.near import as_listed, hint
from oomdoctor.cli.quick import Lang
from oomdoctor.columns import wrapped
from oomdoctor.language import all_of, in_use, say
from oomdoctor.pages import page

if TYPE_CHECKING:
    from oomdoctor.remedies.settings import Spelling


def explain(
    word: Annotated[
        str | None,
        typer.Argument(
            metavar="CAUSE", show_default=False, help="A cause or a knob, as the report names it; none: all causes."
        ),
    ] = None,
    framework: Annotated[
        str | None,
        typer.Option(
            "--framework",
            metavar="NAME",
            show_default=False,
            help="Add the settings to change, as it spells them.",
        ),
    ] = None,
    signs: Annotated[
        bool, typer.Option("--signs", help="Print the signs that the cause is recognised by instead.")
    ] = False,
    _lang: Lang = None,
) -> None:
    """Explain a cause or a knob; list all causes and knobs.

    \b
    Examples:
      oomdoctor explain container-limit
      oomdoctor explain activations --framework verl
      oomdoctor explain engine-sleep

    \b
    Lists:
      oomdoctor explain causes                    all causes
      oomdoctor explain knobs                     all knobs: what can be changed
      oomdoctor explain knobs --framework verl    how verl spells them
    """
    from oomdoctor.causes import causes  # noqa: PLC0415

    by_id = {known.id: known for known in causes()}
    if word is None:
        _list(framework, signs=signs)
    elif word not in by_id:
        _knob(word, by_id, framework, signs=signs)
    elif signs:
        from oomdoctor.decision.outline import outline  # noqa: PLC0415

        out.write(_page(outline(by_id[word])))
    else:
        spelled = list(_options(by_id[word].knobs, checked(framework)))
        out.write(_page("\n".join([_in_words(word).rstrip("\n"), *spelled, ""])))


def _list(framework: str | None, *, signs: bool) -> None:
    """The causes; of one framework, its knobs."""
    if signs:
        raise typer.BadParameter(say("name the cause whose signs to print"), param_hint="--signs")
    if framework is not None:
        knobs(framework=framework)
        return
    from oomdoctor.cli.causes import causes as list_causes  # noqa: PLC0415

    list_causes()


def _knob(word: str, causes: Iterable[str], framework: str | None, *, signs: bool) -> None:
    """The page of a knob; where there is none of that name either, what was meant."""
    from oomdoctor.remedies.knobs import KNOBS  # noqa: PLC0415

    knob = as_listed(word, KNOBS)
    if knob in KNOBS and not signs:
        knobs(knob=knob, framework=framework)
        return
    if turned := set_by(word):
        meant = say("it is a setting of {knobs}", knobs=all_of(turned))
    else:
        lists = say("`{command}` lists all causes", command="oomdoctor explain causes")
        meant = hint(word, [*causes, *(() if signs else KNOBS)], lists)
    raise typer.BadParameter(say("there is no cause {word}; {hint}", word=repr(word), hint=meant), param_hint="CAUSE")


def _in_words(cause: str) -> str:
    """The page in the language in use; where it is not translated, in English, and with a line that says so."""
    found = page(cause, in_use())
    if found is None:
        missing = say("This page is not translated yet; it follows in English.")
        found = f"{missing}\n\n{page(cause)}"
    return found


def _options(turned: Iterable[str], framework: str | None) -> Iterator[str]:
    """A section of the page: the cause's knobs as the framework spells them, or which frameworks there are."""
    from oomdoctor.remedies import settings  # noqa: PLC0415

    yield ""
    if framework is None:
        yield say("## In your framework")
        yield say(
            "`--framework NAME` adds the names of the settings in one of {count} programs: vllm, transformers, ray. "
            "A NAME that is not known lists them all.",
            count=len(spellings.frameworks()),
        )
        return
    yield say("## In {framework}", framework=spellings.title(framework))
    rows = [row for knob in turned for row in settings.of_knob(knob, framework)]
    yield from (f"- {row.knob}: `{row.shown}`{_known(row)}" for row in rows)
    if not rows:
        yield say("It has no setting for any of these.")


def _known(row: Spelling) -> str:
    since = f", {row.versions}" if row.versions.text else ""
    default = "; ".join(f"{value} {where}".strip() for value, where in row.defaults)
    return since + (say(" (default {value})", value=default) if default else "")


def _page(markdown: str) -> str:
    look = out.style("auto")
    width = min(look.width, out.PIPED_WIDTH)
    if not look.unicode and not look.color:
        return "".join(f"{line}\n" for line in _wrapped(markdown, width))
    from oomdoctor.cli import markdown as page  # noqa: PLC0415  (what it takes is found on few ways)

    return page.drawn(markdown, width=width, color=look.color)


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
