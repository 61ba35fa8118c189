"""Source that was typed: at a prompt of Python or IPython, or behind `python -c` at a shell's."""

from __future__ import annotations

from typing import Final

from oomdoctor.patterns import late, remembered

CHARACTERS: Final = 600
# Python's, IPython's, and those of both before a statement's further lines
_PROMPT: Final = late(r"\A\s{0,4}(?:>>> |In \[\d{1,6}\]: |\s{0,8}\.{3}:? )")
# IPython's magics that run the statement behind them, memory_profiler's among them
_MAGIC: Final = late(r"\A%{1,2}(?:time(?:it)?|memit|prun)(?: -\w{1,3}(?: \d{1,9})?){0,4}(?:\s{1,8}|\Z)")
_HANDED_OVER: Final = late(
    r"(?:\A|[$#>] )(?:time |sudo |[A-Z_]{1,40}=\S{1,80} ){0,3}(?:[\w.~/-]{1,80}/)?python[\d.]{0,5} (?:-[A-Zu] ){0,3}"
    r"-c ?(?P<quote>[\"'])(?P<code>[^\n]{1,500})(?P=quote)\s{0,4}\Z"
)
_IMPORT: Final = late(r"\A\s{0,8}(?:import|from) \S")


@remembered
def source(line: str) -> str | None:
    """What the line shows as typed, an import aside; None where it shows nothing of the kind."""
    shown = line[:CHARACTERS]
    prompt = _PROMPT.match(shown)
    if prompt is not None:
        return _MAGIC.sub("", shown[prompt.end() :].strip())
    handed = _HANDED_OVER.search(shown)
    return _without_imports(handed["code"]) if handed is not None else None


def _without_imports(code: str) -> str:
    return ";".join(part for part in code.split(";") if not _IMPORT.match(part)).strip()


__all__ = ["source"]
