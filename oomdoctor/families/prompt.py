"""Commands as a shell's prompt, `set -x` or a paste shows them, above what they print."""

from __future__ import annotations

import shlex
from typing import Final

from oomdoctor.patterns import late, remembered

CHARACTERS: Final = 600
# "$ ", "# ", "user@node7:~/run$ ", "[user@node7 run]$ ", "root@5f0a6c11d2b9:/# ", "bash-5.1$ ", "+ " of `set -x`
_PROMPT = late(
    r"^\W{0,4}(?:\+{1,4} |(?:\(\w{1,40}\) )?\[?(?:[\w.-]{1,40}@(?P<host>[\w.-]{1,63}))?[^$#%>\n]{0,80}[$#%>] ?)(?=\S)"
)
_PARTS = late(r"\|\||&&|[|;]")
_ASIDE = late(r"\d?>{1,2}&?\s?\S{1,60}")
_NOT_THE_COMMAND: Final = ("sudo", "exec", "time", "command", "env")


@remembered
def host_of(text: str) -> str | None:
    """The machine or container that the prompt names."""
    prompt = _PROMPT.match(text[:CHARACTERS])
    return prompt["host"] if prompt else None


@remembered
def commands_of(text: str) -> tuple[tuple[str, ...], ...]:
    """The words of each command on the line; nothing where the line shows none."""
    shown = text[:CHARACTERS]
    prompt = _PROMPT.match(shown)
    told = shown[prompt.end() :] if prompt else shown.strip()
    return tuple(words for part in _PARTS.split(_ASIDE.sub("", told)) if (words := _words(part)))


def _words(part: str) -> tuple[str, ...]:
    try:
        words = shlex.split(part)
    except ValueError:  # a quote that is not closed
        words = part.split()
    while words and words[0] in _NOT_THE_COMMAND:
        words = words[1:]
    return tuple(words)
