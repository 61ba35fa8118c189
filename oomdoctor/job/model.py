"""What the log says of the job: its settings and versions, and the figures that it prints of its memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, Literal

from msgspec import Struct, field

from oomdoctor.job.names import AT_KILLS
from oomdoctor.language import say

Value = str | int | float | bool | None


class Setting(Struct, frozen=True):
    """One option of the job as the log states it, or what was handed over beside the log."""

    name: str  # as in the log without dashes: "vllm_gpu_memory_utilization", "actor_rollout_ref.rollout.n"
    value: Value
    file: str
    line: int
    written: str | None = None  # as a launch line spells it, up to its value: "--block-size ", "trainer.nnodes="
    mentioned: bool = False  # no flag and no dump: the line only speaks of it
    call: str | None = None  # of Python, that takes it as an argument: "make_loaders"
    outside: str | None = None  # where it is from if not from the log: "run.sh line 12", "--assume"

    @property
    def number(self) -> float | None:
        """Its value where that is a number, and no switch."""
        return self.value if isinstance(self.value, int | float) and not isinstance(self.value, bool) else None

    @property
    def whole(self) -> int | None:
        """Its value where that is a whole number."""
        return self.number if isinstance(self.number, int) else None

    @property
    def flag(self) -> str:
        """What it is called: as the launch line spells it."""
        return (self.written or self.name).strip(" =:")

    @property
    def is_launched(self) -> bool:
        """Whether it is an option of a launch line."""
        return self.written is not None and self.written.startswith("-")

    @property
    def is_switch(self) -> bool:
        """Whether the launch line has the option without a value."""
        return self.value is True and self.written is not None and not self.written.endswith((" ", "="))

    @property
    def place(self) -> str:
        """Where it stands, in words."""
        if self.outside is None:
            return say("line {line}", line=self.line)
        return say("{source}, not the log", source=self.outside)


class Context(Struct, frozen=True):
    """What the log says about the job."""

    frameworks: Mapping[str, str | None] = field(default_factory=dict)  # name → version, None when not printed
    settings: Mapping[str, Setting] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    hardware: Mapping[str, Value] = field(default_factory=dict)
    processes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # who writes: name → pids
    exit_codes: tuple[int, ...] = ()  # as printed: 137, and Python's -9
    progress: Mapping[str, int] = field(default_factory=dict)  # the last that is printed: "step", or "done" and "total"
    # numbers and names that stand beside failures: "rank", "signal", "trial", the latest last
    particulars: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    files: frozenset[str] = frozenset()  # those of the job, where several jobs may be read; else none
    memory: tuple[Trajectory, ...] = ()  # figures that the job itself prints of its memory, however often
    day: str = ""  # of the failure, "2024-06-21", where lines are stamped with it
    releases: Mapping[str, str] = field(default_factory=dict)  # name → those that words or files tell: "<2.1"
    outside: Mapping[str, str] = field(default_factory=dict)  # versions and models not from the log → where from
    heard: list[Setting] | None = None  # takes the settings from outside the log that are asked for

    @property
    def sources(self) -> dict[str, str]:
        """What the log does not print, and where it is from."""
        settings = {name: setting.outside for name, setting in self.settings.items() if setting.outside}
        return {**self.outside, **settings}

    def setting(self, *names: str) -> Setting | None:
        """The first of these settings that the log states, whatever stands before its last dot and however it is
        spelled: `gpu_memory_utilization` finds `--gpu-memory-utilization` and `rollout.gpu_memory_utilization`.
        What stands outside the log counts where the log has none of them."""
        found = None
        for name in names:
            wanted = name.replace("-", "_").lower()
            for known, setting in self.settings.items():
                if found is not None and setting.outside is not None:
                    continue
                spelled = known.replace("-", "_").lower()
                if spelled == wanted or spelled.endswith("." + wanted):
                    if setting.outside is None:
                        return setting
                    found = setting
        if found is not None and self.heard is not None:
            self.heard.append(found)
        return found


class Point(Struct, frozen=True):
    step: int | None
    bytes: int
    line: int
    text: str | None = None  # the place in the program that the print names: only prints of one place are alike
    second: int | None = None  # since the job's start, where a recorder says it


def counted(points: Sequence[Point]) -> list[int] | None:
    """Their steps or their seconds; None where not all name one, or where the job counts anew."""
    steps = [step for point in points if (step := point.second if point.step is None else point.step) is not None]
    return steps if len(steps) == len(points) and all(b > a for a, b in pairwise(steps)) else None


Shape = Literal["few", "growing", "plateau", "sawtooth", "level", "falling", "unclear"]
SHAPES: Final[tuple[Shape, ...]] = ("few", "growing", "plateau", "sawtooth", "level", "falling", "unclear")
LEAST_POINTS: Final = 3  # that have one


class Trajectory(Struct, frozen=True):
    """A memory figure that the log prints again and again."""

    what: str
    pool: str
    points: tuple[Point, ...]
    growth_bytes: int | None = None  # per step (or per print, where no step stands), None where it does not grow
    file: str = ""
    shape: Shape = "few"
    growth_low_bytes: int | None = None  # the ends of the growth's interval; also where growth is open
    growth_high_bytes: int | None = None
    reached_bytes: int | None = None  # how high it stood last, of a sawtooth the last peak
    limit_bytes: int | None = None  # how much there is in all, where the same print says it
    prints: int = 0  # how often it is printed; of many prints not all are points
    of_rest: bool = False  # it counts what is left: it falls while the memory fills
    assumed_unit: str | None = None  # of its numbers, where the program prints none

    @property
    def grown(self) -> int:
        """How much came between the first print and the highest of the last ones."""
        first, last = self.points[0].bytes, self.points[-1].bytes
        return first - last if self.of_rest else max(last, self.reached_bytes or 0) - first

    def room(self, limit: int) -> int:
        """What is left up to a limit."""
        last = self.points[-1].bytes
        return last if self.of_rest else limit - (self.reached_bytes or last)

    @property
    def shows_a_whole(self) -> bool:
        """Whether a leak would show in it: not in the row of one process, nor in what stood there at kills, which is
        the limit each time."""
        return not self.what.startswith("PID ") and not self.what.endswith(AT_KILLS)

    @property
    def per(self) -> str:
        """What the growth is for: "step" or "second", or "print" where the log counts neither."""
        if counted(self.points) is None:
            return "print"
        return "step" if self.points[0].step is not None else "second"
