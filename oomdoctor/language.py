"""The language that people are spoken to in: English, as the code says it, or another, as the catalogues say it.

    say("The card is full: {asked} were asked for.", asked=show(size))

A text is a literal where it is said, and whole: other languages order its parts otherwise. A constant of a table is
marked where it stands and translated where it is shown. What is not translated is said in English.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Final

ENGLISH: Final = "en"
CHINESE: Final = "zh"
LANGUAGES: Final = (ENGLISH, CHINESE)
_FOLDERS: Final[Mapping[str, str]] = {CHINESE: "zh_CN"}  # of locale/
_SAID_BY: Final = ("OOMDOCTOR_LANG", "LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set counts

GPU: Final = "GPU"  # what the texts say of every device

_in_use: ContextVar[str] = ContextVar("language", default=ENGLISH)
_device: ContextVar[str] = ContextVar("device", default=GPU)


def use(language: str) -> None:
    """From here on, in this context (a thread begins with English)."""
    if language not in LANGUAGES:
        raise ValueError(f"there is no language {language!r}; there are {', '.join(LANGUAGES)}")
    _in_use.set(language)


def in_use() -> str:
    return _in_use.get()


def call_devices(name: str) -> None:
    """From here on, in this context: what a GPU is called in the texts, where the job's devices are others."""
    _device.set(name)


def spoken(option: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """The language of an option ("zh"), or else of the first locale that the environment names ("zh_CN.UTF-8")."""
    locale = option or next((environ[name] for name in _SAID_BY if environ.get(name)), ENGLISH)
    name = _name(locale)
    return CHINESE if name in ("zh", "zh_cn", "zh_sg") or name.startswith("zh_hans") else ENGLISH


def not_spoken(environ: Mapping[str, str] = os.environ) -> str | None:
    """What our own variable asks for, where that is none of the languages; a locale's language may be any."""
    asked = environ.get(_SAID_BY[0], "")
    spoken_as = spoken(asked or ENGLISH)
    return (
        asked
        if asked and spoken_as == ENGLISH and _name(asked).partition("_")[0] not in (ENGLISH, "c", "posix")
        else None
    )


def _name(locale: str) -> str:
    return locale.partition(".")[0].partition("@")[0].replace("-", "_").lower()


def say(text: str, /, **values: object) -> str:
    """The text with its {names} filled in. A literal brace is doubled."""
    return filled(text, values)


def filled(text: str, values: Mapping[str, object]) -> str:
    """The same of a text that is marked elsewhere."""
    text = translated(text)
    if _in_use.get() == ENGLISH:
        return text.format(**values)
    from oomdoctor import catalogues  # noqa: PLC0415  (English has no use for it)

    return catalogues.filled(text, values)


def counted(count: int, one: str, many: str, /, **values: object) -> str:
    """The text for one or the text for several, both marked, with {count} filled in."""
    return filled(one if count == 1 else many, {"count": f"{count:,}", **values})


def mark(text: str, /) -> str:
    """The text as it is; it goes into the catalogue."""
    return text


def translated(text: str, /) -> str:
    """A text that is marked elsewhere, with nothing to fill in."""
    language = _in_use.get()
    return with_devices(text if language == ENGLISH or not text else _catalogue(language)(text))


def with_devices(words: str) -> str:
    """Words with the devices' name, of which some were said before it was known."""
    device = _device.get()
    return words if device == GPU else words.replace(GPU, device)


def joined(sentences: Iterable[str]) -> str:
    """Sentences one after the other: with a blank between them, which Chinese has none of behind its full stop."""
    text = ""
    for sentence in sentences:
        if sentence:
            text += ("" if not text or text.endswith(("。", "！", "？", "；", "：")) else " ") + sentence
    return text


def semicolons(parts: Iterable[str]) -> str:
    """Half sentences, or formulas, one behind the other."""
    text = ""
    for part in filter(None, parts):
        text = say("{part}; {next}", part=text, next=part) if text else part
    return text


def listed(items: Iterable[str]) -> str:
    """Names with a comma between them; each is one."""
    return ("、" if in_use() == CHINESE else ", ").join(items)


def all_of(items: Iterable[str]) -> str:
    """A, B and C."""
    *rest, last = items
    return say("{names} and {last}", names=listed(rest), last=last) if rest else last


def one_of(items: Iterable[str]) -> str:
    """A, B or C."""
    *rest, last = items
    return say("{names} or {last}", names=listed(rest), last=last) if rest else last


@cache
def _catalogue(language: str) -> Callable[[str], str]:
    """What translates a text, or gives it back."""
    from oomdoctor import catalogues  # noqa: PLC0415  (English has no use for it)

    return catalogues.reader(Path(__file__).parent / "locale" / _FOLDERS[language])
