"""A POSIX shell's `export` as PowerShell and a Dockerfile write it, and its `echo` of a variable as PowerShell does.

Looked up in about_Environment_Variables, about_Comments and about_Quoting_Rules of PowerShell 7.4 (a `#` inside
quotation marks begins no comment), and in Docker's reference of the Dockerfile (a `#` begins a comment only where a
line does).
"""

from __future__ import annotations

import re
import shlex
from typing import Final

# Assignments, and a comment that stands behind two blanks or more
_EXPORT: Final = re.compile(r"^export (\w{1,80}=\S.{0,300}?)(?: {2,9}(#.{0,300}))?$", re.MULTILINE)
_VARIABLE: Final = re.compile(r"\$(?!env:)(\w{1,80})")
_SHOWN: Final = re.compile(r"(?<![\w-])echo \"\$\w{1,80}\"")  # a look at a variable, not one of a longer command
_BEHIND_THE_FIRST: Final = "# in the Dockerfile, above the RUN that failed"


def in_powershell(snippet: str) -> str:
    """Each variable in a statement of its own, what is said of it behind the last."""
    set_there = _EXPORT.sub(_as_statements, snippet)
    return _SHOWN.sub(lambda look: _VARIABLE.sub(r"$env:\1", look[0]), set_there)


def _as_statements(line: re.Match[str]) -> str:
    pairs = (word.partition("=") for word in shlex.split(line[1]))
    made = "; ".join(f"$env:{name} = {_quoted(value)}" for name, _, value in pairs)
    return f"{made}   {line[2]}" if line[2] else made


def _quoted(value: str) -> str:
    """In single quotation marks nothing stands for anything; a variable of the environment is asked for by name."""
    if '"' in value or "`" in value:
        doubled = value.replace("'", "''")
        return f"'{doubled}'"
    return '"' + _VARIABLE.sub(r"$env:\1", value) + '"'


def in_a_dockerfile(snippet: str) -> str:
    """What is said of a line stands on one of its own."""
    return _EXPORT.sub(lambda line: "\n".join(filter(None, (line[2], _BEHIND_THE_FIRST, f"ENV {line[1]}"))), snippet)
