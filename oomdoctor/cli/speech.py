"""The language that a command speaks, from its first word to its last."""

from __future__ import annotations

from contextvars import ContextVar

from oomdoctor.language import ENGLISH, LANGUAGES, listed, not_spoken, say, spoken, use

_is_asked: ContextVar[bool] = ContextVar("is_asked", default=False)  # whether the command line names a language


def begin(asked: str | None = None) -> None:
    """From here on, in this context, in the language that the command line asks for, or else the locale."""
    _is_asked.set(asked is not None)
    use(spoken(asked))
    if asked is None and (unknown := not_spoken()):
        from oomdoctor.cli.out import tell  # noqa: PLC0415

        tell(
            say(
                "OOMDOCTOR_LANG is {word}, not one of {allowed}: using English",
                word=repr(unknown),
                allowed=listed(LANGUAGES),
            )
        )


def for_others() -> None:
    """What programs and other people's trackers read is English where nobody asks for more than a locale does."""
    if not _is_asked.get():
        use(ENGLISH)
