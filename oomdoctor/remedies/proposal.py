"""What a knob's arithmetic hands back: a value with its derivation, or why the knob is not for this crash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import framework
from oomdoctor.job.model import Setting, Value
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.remedies import Beside
from oomdoctor.remedies.settings import Spelling

# Causes that say who held the memory and not what for, and of nobody what it holds
PROCESS_HOG: Final = "process-ram-hog"
REWARD_HOG: Final = "reward-model-ram-hog"
NODE_FULL: Final = "host-memory-exhausted"
REFUSED_WHAT_IS_FREE: Final = "spurious-device-oom"
# Of whose failure nothing shows that memory ran out, and for which no need of memory is too large
UNPROVEN: Final = "killed-without-evidence"
RACE: Final = "profiling-race"

_NAME: Final = late(r"[\w.\-]{1,120}")
# Names that a library prints and no launch line has: of vLLM's dump of its configuration and of
# llama.cpp's of its context; of the bar of datasets' map
_NO_OPTIONS: Final = frozenset({"max_seq_len", "n_ctx", "n_batch", "n_ubatch", "n_seq_max"})
_OF_A_BAR: Final = "num_proc"


class Case(Struct, frozen=True):
    """One knob for one crash: how it is spelled here and what it is set to."""

    knob: str
    cause: str
    crash: Crash
    row: Spelling | None
    now: Setting | None

    @property
    def name(self) -> str:
        """What to call the option: as the log does, else as the framework does."""
        if self.row is not None:
            return self.row.setting
        return self.now.name if self.now is not None else self.knob

    @property
    def is_no_option(self) -> bool:
        """What a library was called with, by a program that has another option for it; and what a sentence says."""
        if self.now is None or self.now.written is not None or self.now.call is not None:
            return False
        by_a_bar = self.row is not None and not self.row.is_call and self.now.name == _OF_A_BAR
        return by_a_bar or " " in self.now.name

    def own_name(self) -> str | None:
        """The log's own name, where it is another option than the framework's usual one, or another program's call."""
        if self.now is not None and (self.now.call is not None or " " in self.now.name) and not self.is_no_option:
            return self.now.name
        if self.now is None or self.row is None or not _NAME.fullmatch(self.now.name) or self.is_no_option:
            return None
        stated, usual = (name.rsplit(".", 1)[-1] for name in (self.now.name, self.row.key))
        if stated in _NO_OPTIONS or (stated == usual and not self.row.is_argument):
            return None
        return self.now.name

    def as_launched(self, value: Value) -> str | None:
        """The option as the launch line or the call in the log spells it, with another value."""
        if self.now is None or not isinstance(value, int | float):
            return None
        if self.now.call is not None and self.now.written is None:
            return f"{self.now.call}(..., {self.now.name}={value})"
        if self.now.written is None or self.now.is_switch:
            return None
        if isinstance(value, bool) and not self.now.written.endswith("="):
            return None  # a flag that is there or is not takes no value
        return f"{self.now.written}{value}"

    def own_spelling(self, value: Value) -> str | None:
        """The log's own option with another value."""
        launched = self.as_launched(value)
        if launched is not None:
            return launched
        if self.now is None or self.row is None:
            return None
        own = framework(self.row.framework)
        if own is not None and own.style == "code" and own.layer != "base" and self.row.key == self.now.name:
            return self.row.snippet(value)
        overrides = "." in self.now.name or (own is not None and own.style == "overrides")
        return f"{self.now.name}={value}" if overrides else f"--{self.now.name} {value}"

    def snippet(self, value: Value) -> str | None:
        """What to copy: as the framework spells it, else as the launch line does."""
        return self.row.snippet(value) if self.row is not None else self.as_launched(value)

    def number(self) -> float | None:
        return self.now.number if self.now is not None else None


class Proposal(Struct, frozen=True, kw_only=True):
    """None everywhere: the knob's own sentence is all there is to say."""

    action: str | None = None
    suggested: Value = None
    derivation: str | None = None
    current: Value = None  # where an event prints it and no setting does
    assumes: tuple[str, ...] = ()
    snippet: str | None = None
    setting: str | None = None
    beside: tuple[Beside, ...] = ()  # what has to be set with it
    cost: str | None = None  # where it is another one than the knob's
    reference: str | None = None
    subject: str | None = None  # the process or the model that it is about


class Refusal(Struct, frozen=True):
    """The knob does not help here, and why."""

    why: str


def already(now: Setting, value: Value) -> Refusal:
    """It is set to this, and the log says where."""
    return Refusal(say("{name} is already {value} ({place})", name=now.name, value=value, place=now.place))


class Skip(Struct, frozen=True):
    """The knob has nothing to turn here: neither a remedy nor worth a warning."""


Answer = Proposal | Refusal | Skip | None
Compute = Callable[[Case], Answer]
