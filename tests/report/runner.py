"""How GitHub's runner reads what a step prints, after its ActionCommand."""

from __future__ import annotations

from typing import NamedTuple

KNOWN = frozenset({
    "error", "warning", "notice", "debug", "group", "endgroup", "add-mask", "add-matcher", "remove-matcher", "echo",
    "set-output", "set-env", "save-state", "add-path", "stop-commands", "internal-set-repo-path",
})  # fmt: skip


class Command(NamedTuple):
    name: str
    properties: dict[str, str]
    message: str


def commands(printed: str) -> list[Command]:
    """Those that it would carry out. It takes lines apart at \\n and at \\r."""
    found = [_second_form(line) or _first_form(line) for line in printed.replace("\r", "\n").split("\n")]
    return [command for command in found if command is not None and command.name in KNOWN]


def _second_form(line: str) -> Command | None:
    line = line.lstrip()
    if not line.startswith("::") or "::" not in line[2:]:
        return None
    head, _, data = line[2:].partition("::")
    name, _, properties = head.partition(" ")
    pairs = (pair.split("=", 1) for pair in properties.split(",") if "=" in pair)
    return Command(name, {key.strip(): _unescaped(value) for key, value in pairs}, _unescaped(data))


def _first_form(line: str) -> Command | None:
    start = line.find("##[")
    end = line.find("]", start)
    if start < 0 or end < 0:
        return None
    return Command(line[start + 3 : end].partition(" ")[0], {}, line[end + 1 :])


def _unescaped(text: str) -> str:
    for escaped, sign in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(escaped, sign)
    return text
