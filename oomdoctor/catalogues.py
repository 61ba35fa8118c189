"""The catalogues of one language: as they are written, or compiled, as a wheel has them.

Of what gettext can put into a `.po` file they hold one form per text and no contexts.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from gettext import GNUTranslations, NullTranslations
from pathlib import Path
from string import Formatter


def reader(folder: Path) -> Callable[[str], str]:
    """What gives a text's translation, or the text where there is none."""
    compiled = sorted(folder.glob("*.mo"))
    return _compiled(compiled).gettext if compiled else _written(sorted(folder.glob("*.po")))


def _compiled(paths: list[Path]) -> NullTranslations:
    """All of them: what one has no translation for, the next is asked for."""
    found = NullTranslations()
    for path in paths:
        with path.open("rb") as file:
            catalogue = GNUTranslations(file)
        catalogue.add_fallback(found)
        found = catalogue
    return found


def _written(paths: list[Path]) -> Callable[[str], str]:
    words = {text: words for path in paths for text, words in _entries(path) if text and words}
    return lambda text: words.get(text, text)


def filled(text: str, values: Mapping[str, object]) -> str:
    """The text with its values. A blank stands between Chinese and other words, none where a value is Chinese."""
    said = ""
    behind_chinese = False  # the value before
    for words, name, spec, _ in Formatter().parse(text):
        said += words[1:] if behind_chinese and words.startswith(" ") and _is_chinese(words[1:2]) else words
        if name is not None:
            value = format(values[name], spec or "")
            if said.endswith(" ") and _is_chinese(said[-2:-1]) and _is_chinese(value[:1]):
                said = said[:-1]
            said += value
            behind_chinese = _is_chinese(value[-1:])
    return said


def _is_chinese(character: str) -> bool:
    """A Chinese character or punctuation."""
    return "\u3000" <= character <= "\u9fff" or "\uff00" <= character <= "\uffef"


def _entries(path: Path) -> Iterator[tuple[str, str]]:
    """Each text and its translation; those marked as fuzzy are guesses, and left out."""
    entry: dict[str, str] = {}
    key, fuzzy = "", False
    for line in [*path.read_text(encoding="utf-8").split("\n"), ""]:
        if line.startswith("#,"):
            fuzzy = "fuzzy" in line
        elif line.startswith(("msgid ", "msgstr ")):
            key, _, quoted = line.partition(" ")
            entry[key] = ast.literal_eval(quoted)
        elif line.startswith('"'):
            entry[key] += ast.literal_eval(line)
        elif not line and entry:
            if not fuzzy:
                yield entry["msgid"], entry["msgstr"]
            entry, fuzzy = {}, False
