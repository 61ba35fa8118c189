"""Remedies: computed values, spelled for the framework in the log, checked for harm."""

from __future__ import annotations

from msgspec import Struct

from oomdoctor.language import mark

Number = int | float | str | bool | None


# The derivations of a switch and of a word
A_SWITCH = mark("a switch: nothing to compute")
A_WORD = mark("one of its values: nothing to compute")
A_CHOICE = mark("{value} is one of its values: nothing to compute")


class Beside(Struct, frozen=True):
    """An option that has to be set together with the remedy's own."""

    setting: str
    value: Number


class Remedy(Struct, frozen=True, kw_only=True):
    """One thing to change, as the report prints it (see the contract)."""

    knob: str
    action: str  # a sentence: "Lower gpu_memory_utilization from 0.90 to 0.43"
    setting: str | None = None  # spelled for the framework and version in the log
    current: Number = None
    suggested: Number = None
    beside: tuple[Beside, ...] = ()
    snippet: str | None = None  # to copy
    derivation: str | None = None  # the formula with its figures
    assumes: tuple[str, ...] = ()
    relieves: tuple[str, ...] = ()  # pools
    spends: tuple[str, ...] = ()
    cost: str = ""
    reference: str | None = None
    subject: str | None = None  # the process or the model that it is about, where neither an option nor a line is
    general: bool = False  # of any job that lacks this memory, and not of this cause

    @property
    def has_object(self) -> bool:
        """Whether it names what to change: an option, a line, a command or a process, or computes how much."""
        return bool(self.snippet or self.setting or self.subject or self.derivation)


class Rejected(Struct, frozen=True):
    """A remedy that would be tried and must not be: it is set already, or it spends the pool that ran out."""

    knob: str
    why: str


class Gap(Struct, frozen=True, kw_only=True):
    """What the pool that ran out lacked. A range where a part of it hangs on what the log does not show."""

    pool: str
    missing_low_bytes: int
    missing_high_bytes: int
    derivation: str
    assumes: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()  # knobs, each of which closes it
    together: tuple[str, ...] = ()  # the first knobs that close it only together
    still_missing_bytes: int | None = None  # with all that could be computed, where that is not enough
