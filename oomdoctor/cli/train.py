"""`oomdoctor dev train`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from oomdoctor.cli import out
from oomdoctor.cli.quick import Lang
from oomdoctor.language import say
from oomdoctor.units import percent

LOGS = 2280  # forty of each recipe
SEED = 1
INSTALL = "pip install 'oomdoctor[train]'"
NOT_TRAINED = 2


def train(
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", show_default=False, help="Write the model to this file.")
    ],
    folders: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FOLDER]...", show_default=False, help="Your own labelled logs, as for bench."),
    ] = None,
    seed: Annotated[str, typer.Option("--seed", metavar="NUMBER", help="The seed of the generated logs.")] = str(SEED),
    logs: Annotated[str, typer.Option("--logs", metavar="NUMBER", help="How many to generate.")] = str(LOGS),
    _lang: Lang = None,
) -> None:
    """Train the classifier again, with your own labelled logs added.

    \b
    Examples:
      oomdoctor dev train my-cases -o model.json
      OOMDOCTOR_MODEL=model.json oomdoctor diagnose train.log

    Needs scikit-learn: pip install 'oomdoctor[train]'. The same logs and the same seed give the same file. The file is
    JSON and holds words of your logs: read it before you share it. In a checkout, the fixtures are added.
    """
    if find_spec("sklearn") is None:
        out.tell(say("training needs scikit-learn, which is not installed: {command}", command=INSTALL))
        raise typer.Exit(NOT_TRAINED)
    from oomdoctor.cli.steps import steps  # noqa: PLC0415  (not for --help)
    from oomdoctor.training.cases import CaseError, cases_in, fixtures  # noqa: PLC0415
    from oomdoctor.training.examples import examples  # noqa: PLC0415
    from oomdoctor.training.fit import TooFewError, fit  # noqa: PLC0415

    out.check_folder(output)
    count, number = _number(logs, "--logs"), _number(seed, "--seed")
    try:
        given = [case for folder in folders or () for case in cases_in(Path(folder))]
        with steps(say("logs"), count + len(given) + len(fixtures())) as advance:
            learned = examples(given, count, number, advance)
        with steps(say("training runs"), 4) as advance:
            trained = fit(learned, number, count, advance)
    except CaseError as error:
        raise typer.BadParameter(str(error), param_hint="FOLDER") from error
    except TooFewError as error:
        raise typer.BadParameter(str(error), param_hint="--logs") from error
    out.write(trained.document, output)
    out.tell(
        say(
            "trained on {count} crash logs, {own} of them labelled by people; "
            "the classifier alone got {share} of held-back logs right",
            count=len(learned), own=sum(one.own for one in learned), share=percent(trained.right),
        )
    )  # fmt: skip


def _number(given: str, option: str) -> int:
    if not given.isdecimal():
        raise typer.BadParameter(say("{word} is not a number", word=repr(given)), param_hint=option)
    return int(given)
