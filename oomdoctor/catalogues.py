"""The catalogues of one language: as they are written, or packed, as a wheel has them.

Of what gettext can put into a `.po` file they hold one form per text and no contexts. Packed they lack the texts, which
stand in the code: a translation is found by its text's checksum.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from string import Formatter
from typing import Final
from zlib import crc32

PACKED: Final = "packed.txt"
_ENCODING: Final = "gb18030"  # a Chinese character in two bytes, and all others somehow
_SUM: Final = 8  # letters


def reader(folder: Path) -> Callable[[str], str]:
    """What gives a text's translation, or the text where there is none."""
    if (folder / PACKED).is_file():
        sums, *translations = (folder / PACKED).read_bytes().decode(_ENCODING).split("\0")
        places = range(0, len(sums), _SUM)
        known = dict(zip((sums[place : place + _SUM] for place in places), translations, strict=True))
        return lambda text: known.get(_sum(text), text)
    words = _words(folder)
    return lambda text: words.get(text, text)


def packed(folder: Path) -> bytes:
    """All catalogues of the folder, as the wheel has them."""
    words = _words(folder)
    sums = [_sum(text) for text in words]
    if len({*sums}) < len(sums):
        raise ValueError("two texts have the same checksum: say one of them otherwise")
    return "\0".join(("".join(sums), *words.values())).encode(_ENCODING)


def _sum(text: str) -> str:
    return f"{crc32(text.encode(errors='surrogatepass')):0{_SUM}x}"


def _words(folder: Path) -> dict[str, str]:
    return {text: words for path in sorted(folder.glob("*.po")) for text, words in _entries(path) if text and words}


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
