"""`oomdoctor explain knobs`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from oomdoctor import spellings
from oomdoctor.cli import out
from oomdoctor.cli.near import as_listed, hint
from oomdoctor.cli.quick import Lang
from oomdoctor.columns import table, wrapped
from oomdoctor.language import all_of, listed, say, translated

if TYPE_CHECKING:
    from oomdoctor.remedies.knobs import Knob
    from oomdoctor.remedies.settings import Spelling


def knobs(
    knob: Annotated[str | None, typer.Argument(show_default=False, help="One knob, in all frameworks.")] = None,
    framework: Annotated[
        str | None,
        typer.Option("--framework", metavar="NAME", show_default=False, help="One framework's knobs."),
    ] = None,
    _lang: Lang = None,
) -> None:
    """List the knobs: what can be changed, and how each framework spells it.

    \b
    Examples:
      oomdoctor explain knobs                     all knobs
      oomdoctor explain knobs engine-sleep        one knob, in all frameworks
      oomdoctor explain knobs --framework verl    one framework's knobs
    """
    from oomdoctor.remedies import settings  # noqa: PLC0415
    from oomdoctor.remedies.knobs import KNOBS  # noqa: PLC0415

    knob = as_listed(knob, KNOBS) if knob is not None else None
    if knob is not None and knob not in KNOBS:
        raise typer.BadParameter(_not_a_knob(knob, KNOBS), param_hint="KNOB")
    framework = checked(framework)
    if knob is None and framework is None:
        rows = [(one.id, _pools(one.relieves), _pools(one.spends), translated(one.action)) for one in KNOBS.values()]
        out.write(_page([(say("knob"), say("relieves"), say("spends"), say("what to do")), *rows]))
        return
    wanted = [knob] if knob is not None else list(KNOBS)
    named = [framework] if framework is not None else spellings.frameworks()
    # An option that serves both directions stands once.
    chosen = list(dict.fromkeys(row for name in named for one in wanted for row in settings.of_knob(one, name)))
    if knob is not None:
        about = KNOBS[knob]
        told = say(
            "{knob}: {action}.\nRelieves: {relieves}. Spends: {spends}. Cost: {cost}.",
            knob=about.id,
            action=translated(about.action),
            relieves=_pools(about.relieves),
            spends=_pools(about.spends),
            cost=translated(about.cost),
        )
        out.write("".join(f"{line}\n" for line in _paragraphs(told)) + "\n")
    nothing = say("no framework has a setting for it") + "\n"
    out.write(_page(list(_spelled(chosen, named=framework is None))) if chosen else nothing)


def _not_a_knob(word: str, knobs: Mapping[str, Knob]) -> str:
    """What was meant: the knob that an option of that name turns, or one that is spelled nearly so."""
    if turned := set_by(word):
        return say("there is no knob {word}; it is a setting of {knobs}", word=repr(word), knobs=all_of(turned))
    lists = say("`{command}` lists all knobs", command="oomdoctor explain knobs")
    return say("there is no knob {word}; {hint}", word=repr(word), hint=hint(word, knobs, lists))


def set_by(word: str) -> list[str]:
    """The knobs that an option of this name turns."""
    from oomdoctor.remedies.knobs import KNOBS  # noqa: PLC0415

    option = word.strip("-").replace("-", "_")
    return [knob.id for knob in KNOBS.values() if option in knob.settings]


def checked(framework: str | None) -> str | None:
    """The framework, where it has a table."""
    known = spellings.frameworks()
    framework = as_listed(framework, known) if framework is not None else None
    if framework is not None and framework not in known:
        otherwise = say("known: {names}", names=listed(known))
        raise typer.BadParameter(
            say("there is no framework {word}; {hint}", word=repr(framework), hint=hint(framework, known, otherwise)),
            param_hint="--framework",
        )
    return framework


def _spelled(rows: Iterable[Spelling], *, named: bool) -> Iterator[tuple[str, ...]]:
    """Each row as a person reads it: where, what to write, what holds by default, since when, and what it asks for."""
    first = say("framework") if named else say("knob")
    yield (first, say("write"), say("default"), say("versions"), say("note"))
    for row in rows:
        default = "; ".join(f"{value} {where}".strip() for value, where in row.defaults)
        needs = [say("needs {setting}", setting=need) for need in row.beside]
        needs += [say("where the log shows one of {words}", words=" ".join(row.words))] if row.words else []
        needs += [say("not where the log shows {words}", words=" ".join(row.never))] if row.never else []
        not_with = [say("not with {setting}", setting=one) for one in row.excludes]
        mind = listed([*needs, *not_with, *_other_pools(row)])
        yield (row.framework if named else row.knob, row.shown, default, str(row.versions), mind)


def _other_pools(row: Spelling) -> list[str]:
    return [] if row.spends is None else [say("spends {pools}", pools=_pools(row.spends))]


def _pools(pools: tuple[str, ...]) -> str:
    return ", ".join(pools) or say("nothing")


def _paragraphs(told: str) -> Iterator[str]:
    """On a terminal as wide as that is; elsewhere each on a line, which programs read."""
    width = out.columns()
    for line in told.split("\n"):
        yield from wrapped(line, width) if width else [line]


def _page(rows: list[tuple[str, ...]]) -> str:
    return "".join(f"{line}\n" for line in table(rows, out.columns(), has_head=True))
