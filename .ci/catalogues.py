"""The catalogues of `oomdoctor/locale/`: brought up to date with the code, checked.

python .ci/catalogues.py update [NAME ...]   put in what is new, take out what is gone
python .ci/catalogues.py check               list what is wrong with them; nothing, and 0, where all is well
"""

from __future__ import annotations

import ast
import io
import string
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_file
from babel.messages.pofile import read_po, write_po

TOP: Final = Path(__file__).parent.parent
PACKAGE: Final = TOP / "oomdoctor"
LOCALE: Final = PACKAGE / "locale"

# Which texts stand in which catalogue: by the room that says them first. All others are the report's.
ROOMS: Final[Mapping[str, tuple[str, ...]]] = {
    "report": (),
    "causes": ("causes/", "signs/", "decision/", "regressions."),
    "remedies": ("remedies/", "families/", "job/", "incident/", "arithmetic/", "sources/", "street."),
}
SAID_BY: Final = ("say", "mark")

Texts = dict[str, set[str]]  # with the files that say each


def texts() -> dict[str, Texts]:
    """All texts of the code, by the catalogue that they belong into."""
    found: dict[str, Texts] = {name: {} for name in ROOMS}
    for file, text in sorted(_told()):
        found[_room(file)].setdefault(text, set()).add(file)
    taken: set[str] = set()
    for room in found.values():
        for text in taken & room.keys():
            del room[text]
        taken |= room.keys()
    return found


def _room(file: str) -> str:
    inside = file.removeprefix("oomdoctor/")
    return next((name for name, places in ROOMS.items() if inside.startswith(places)), "report")


def _told() -> Iterator[tuple[str, str]]:
    """Every text with its file: what the code says or marks, what the help and the tables hold."""
    yield from ((path.relative_to(TOP).as_posix(), text) for path, call in _calls() if (text := _literal(call)))
    for path in PACKAGE.rglob("*.j2"):
        for _, text, _, _ in extract_from_file("jinja2.ext:babel_extract", path, keywords=dict.fromkeys(SAID_BY)):
            yield path.relative_to(TOP).as_posix(), text
    yield from (("oomdoctor/cli", text) for text in _help())
    yield from _tables()


def _help() -> Iterator[str]:
    """What `--help` says, as quick.py looks it up."""
    import typer.main  # noqa: PLC0415

    from oomdoctor.cli.app import app  # noqa: PLC0415
    from oomdoctor.cli.help import paragraphs  # noqa: PLC0415

    group = typer.main.get_command(app)
    for command in (group, *group.commands.values()):  # type: ignore[attr-defined]
        yield from (part for text in (command.help, command.epilog) if text for part, _ in paragraphs(text))
        yield from filter(None, (getattr(param, "help", None) for param in command.params))


def _tables() -> Iterator[tuple[str, str]]:
    """The sentences of the text files that the code reads."""
    from oomdoctor.helpers import our_form  # noqa: PLC0415
    from oomdoctor.job.frameworks import frameworks  # noqa: PLC0415
    from oomdoctor.regressions import regressions  # noqa: PLC0415
    from oomdoctor.remedies import captions, own_line  # noqa: PLC0415
    from oomdoctor.remedies.knobs import KNOBS  # noqa: PLC0415
    from oomdoctor.signs import made  # noqa: PLC0415

    for knob in KNOBS.values():
        yield from (("oomdoctor/remedies/knobs.txt", text) for text in (knob.action, knob.cost) if text)
    for one in captions.table().values():
        yield from (("oomdoctor/remedies/captions.txt", text) for text in one if text)
    for row in made.table():
        yield from (("oomdoctor/signs/made.txt", text) for text in (row.what, row.instead) if text)
    for row in own_line.table():
        yield from (("oomdoctor/remedies/own_lines.txt", text) for text in (row.does, row.instead))
    yield from ((f"oomdoctor/job/frameworks/{each.name}.txt", each.share_by) for each in frameworks() if each.share_by)
    for one in regressions():
        yield from (("oomdoctor/regressions.txt", text) for text in (one.what, one.short, one.cure, one.worse) if text)
    yield from (("oomdoctor/helpers/oom.yml", text) for text in our_form.sentences())


def folders() -> list[Path]:
    """One per language."""
    return sorted(path for path in LOCALE.iterdir() if path.is_dir())


def catalogue(path: Path) -> Catalog:
    with path.open("rb") as stream:
        return read_po(stream, locale=path.parent.name)


def update(names: Iterable[str]) -> None:
    """Translations stay; what is new waits for one, empty; what is gone is gone."""
    told = texts()
    for folder in folders():
        had = {message.id: message for path in folder.glob("*.po") for message in catalogue(path) if message.id}
        for name in names:
            path = folder / f"{name}.po"
            path.write_bytes(_written(path, told[name], had))


def _written(path: Path, told: Texts, had: Mapping[str, Message]) -> bytes:
    before = path.read_text(encoding="utf-8")
    fresh = Catalog(locale=path.parent.name, fuzzy=False)
    for text, files in sorted(told.items(), key=lambda item: (min(item[1]), item[0])):
        known = had.get(text)
        fresh.add(text, known.string if known else "", locations=[(file, None) for file in sorted(files)])
        if known is not None:
            fresh[text].flags, fresh[text].user_comments = known.flags - {"python-format"}, known.user_comments
    for message in fresh:
        message.flags.discard("python-format")
    body = io.BytesIO()
    write_po(body, fresh, width=120, omit_header=True, include_lineno=False)
    return f"{_head(before)}\n{body.getvalue().decode()}".encode()


def _head(text: str) -> str:
    """The comment at a catalogue's head and its header, which are written by hand."""
    return text.partition("\n\n")[0].rstrip("\n") + "\n"


def problems() -> Iterator[str]:
    """What is not translated, not asked for any more, or translated with other names."""
    told = texts()
    for folder in folders():
        for name, wanted in told.items():
            path = folder / f"{name}.po"
            place = path.relative_to(TOP).as_posix()
            known = {message.id: message for message in catalogue(path) if message.id}
            yield from (f"{place}: not in it: {text!r}" for text in wanted if text not in known)
            yield from (f"{place}: nobody says it: {text!r}" for text in known if text not in wanted)
            for text in wanted.keys() & known.keys():
                yield from (f"{place}: {problem}: {text!r}" for problem in _wrong(text, known[text]))


def _wrong(text: str, message: Message) -> Iterator[str]:
    if not message.string:
        yield "not translated"
    elif message.fuzzy:
        yield "marked as fuzzy"
    elif names(text) != names(str(message.string)):
        yield "other {names} in its translation"


def names(text: str) -> list[tuple[str, str | None, str | None]] | None:
    """The places that are filled in, with how; None where nothing can be."""
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError:  # a single brace: a marked text, which is shown as it is
        return None
    return sorted((name, spec or "", how or "") for _, name, spec, how in parts if name is not None)


def calls() -> Iterator[str]:
    """Calls of `say` and `mark` that a catalogue cannot hold, or that leave a name empty."""
    for path, call in _calls():
        yield from (f"{path.relative_to(TOP)}:{call.lineno}: {problem}" for problem in _miscalled(call))


def _calls() -> Iterator[tuple[Path, ast.Call]]:
    """Babel's reader of Python overlooks calls inside f-strings."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SAID_BY:
                yield path, node


def _literal(call: ast.Call) -> str | None:
    """The text; None where it is computed."""
    text = call.args[0] if len(call.args) == 1 else None
    return text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else None


def _miscalled(node: ast.Call) -> Iterator[str]:
    text = _literal(node)
    if text is None:
        yield "a text is one literal, without values in it"
    elif isinstance(node.func, ast.Name) and node.func.id == "say":
        wanted = {name for name, _, _ in names(text) or ()}
        given = {keyword.arg for keyword in node.keywords}
        if wanted != given and None not in given:
            yield f"it says {sorted(wanted)} and is given {sorted(map(str, given))}"


def main(what: str, *arguments: str) -> None:
    if what == "update":
        update(arguments or ROOMS)
    elif what == "check":
        found = [*calls(), *problems()]
        sys.stdout.writelines(f"{line}\n" for line in found)
        sys.exit(1 if found else 0)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    sys.path.insert(0, str(TOP))
    main(*(sys.argv[1:] or [""]))
