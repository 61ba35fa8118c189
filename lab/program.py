"""A program of the lab: how it is launched, in which limits, why it dies, and which of its flags each knob turns."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Final

import msgspec

FOLDERS: Final = (Path(__file__).parent / "programs", Path(__file__).parent / "gpu")
# What costs money and not work or speed
BUYING: Final = frozenset({"raise-container-limit", "more-host-memory", "add-nodes", "more-gpus"})
FACTORS: Final = {"half": 0.5, "double": 2.0}
UNITS: Final = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9,
    "k": 2**10, "m": 2**20, "g": 2**30, "ki": 2**10, "mi": 2**20, "gi": 2**30, "kib": 2**10, "mib": 2**20, "gib": 2**30,
}  # fmt: skip
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")

Value = bool | int | float | str


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a run may have; sizes as people write them, "900M"."""

    memory: str  # of the cgroup
    shm: str = "512M"  # /dev/shm
    spill: str | None = None  # a tmpfs at ./spill
    address_space: str | None = None  # ulimit -v
    seconds: int = 240


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One thing that a knob changes: a flag, a variable of the environment, or a limit that is the user's to set."""

    to: Value  # "half", "double", or the new value; true sets a switch and false takes a flag away
    flag: str | None = None
    env: str | None = None
    limit: str | None = None


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Written before oomdoctor sees a log of it."""

    about: str
    causes: tuple[str, ...]  # those that an expert would accept
    limits: Limits
    knobs: Mapping[str, tuple[Change, ...]]  # a knob that is not here does nothing
    flags: Mapping[str, Value]
    command: str = "python -u {program} {flags}"  # {-Xmx} is one flag, {flags} all others
    needs: tuple[str, ...] = ()  # modules
    tools: tuple[str, ...] = ()  # programs
    env: Mapping[str, str] = {}
    prepare: str | None = None  # run once before, without limits: writes what the program reads
    kernel: bool = False  # the user has the kernel's lines, too
    cuda: bool = False
    scale: tuple[str, ...] = ()  # flags whose values are meant for a card of 80 GiB
    name: str = ""
    folder: Path = FOLDERS[0]

    @property
    def file(self) -> Path:
        return next(path for path in sorted(self.folder.glob(f"{self.name}.*")) if path.suffix != ".toml")

    def missing(self) -> list[str]:
        """What would have to be installed."""
        return [name for name in self.needs if find_spec(name) is None] + [it for it in self.tools if which(it) is None]

    def line(self) -> str:
        """The command as a user would type it."""
        named = {flag for flag in self.flags if f"{{{flag}}}" in self.command}
        rest = " ".join(_typed(flag, value) for flag, value in self.flags.items() if flag not in named)
        line = self.command.replace("{program}", self.file.name).replace("{flags}", rest)
        for flag in named:
            line = line.replace(f"{{{flag}}}", _typed(flag, self.flags[flag]))
        return " ".join(line.split())


def programs() -> list[Program]:
    return [_program(path) for folder in FOLDERS for path in sorted(folder.glob("*.toml"))]


def _program(path: Path) -> Program:
    program = msgspec.toml.decode(path.read_bytes(), type=Program)
    return msgspec.structs.replace(program, name=path.stem, folder=path.parent)


def _typed(flag: str, value: Value) -> str:
    if isinstance(value, bool):
        return flag if value else ""
    joined = flag.endswith("=") or not flag.startswith("--")
    return f"{flag}{'' if joined else ' '}{shlex.quote(str(value))}"


def size(text: str) -> int:
    """Bytes of "900M"."""
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"no size: {text}")
    return int(float(match[1]) * UNITS[match[2].lower()])


def changed(program: Program, knob: str, setting: str | None = None, suggested: Value | None = None) -> Program:
    """The program with a remedy done to it; the same where it has no such knob.

    Who reads the remedy types the option that it names where the program has it, and else turns the flag that does what
    the knob says. A number that the report suggests is taken, else the flag is halved, doubled or set by the mapping.
    """
    own = next((flag for flag in program.flags if setting and _plain(flag) == _plain(setting)), None)
    if own is not None and suggested is not None and suggested != program.flags[own]:
        return _with_flag(program, own, _converted(program.flags[own], suggested))
    for change in program.knobs.get(knob, ()):
        program = _after(program, change, suggested)
    return program


def _plain(name: str) -> str:
    return name.strip("-=").rpartition(".")[2].replace("_", "-").lower()


def _after(program: Program, change: Change, suggested: Value | None) -> Program:
    if change.flag is not None:
        return _with_flag(program, change.flag, _value(program.flags[change.flag], change.to, suggested))
    if change.env is not None:
        return msgspec.structs.replace(program, env={**program.env, change.env: str(change.to)})
    assert change.limit is not None
    now = getattr(program.limits, change.limit)
    value = None if change.to is False else str(_value(now, change.to, suggested))
    return msgspec.structs.replace(program, limits=msgspec.structs.replace(program.limits, **{change.limit: value}))


def _with_flag(program: Program, flag: str, value: Value) -> Program:
    return msgspec.structs.replace(program, flags={**program.flags, flag: value})


def _value(now: Value, to: Value, suggested: Value | None) -> Value:
    """The suggestion where the mapping wants an amount, else what the mapping says."""
    amount = to in FACTORS or (isinstance(to, int | float) and not isinstance(to, bool))
    if amount and suggested is not None and not isinstance(suggested, bool) and _AMOUNT.fullmatch(str(suggested)):
        return _converted(now, suggested)
    return scaled(now, FACTORS[str(to)]) if to in FACTORS else to


def _converted(now: Value, suggested: Value) -> Value:
    """A number that is suggested for an option with a unit is in bytes."""
    match = _AMOUNT.fullmatch(now) if isinstance(now, str) else None
    if match is None or not match[2] or isinstance(suggested, str | bool):
        return suggested
    return f"{max(1, round(suggested / UNITS[match[2].lower()]))}{match[2]}"


def scaled(now: Value, factor: float) -> Value:
    """Half or twice a value; a whole number stays one, and at least 1."""
    match = _AMOUNT.fullmatch(str(now))
    if match is None:
        raise ValueError(f"no amount: {now}")
    amount = float(match[1]) * factor
    text = f"{amount:g}" if "." in match[1] else str(max(1, int(amount)))
    return f"{text}{match[2]}" if isinstance(now, str) else type(now)(text)
