"""The machine that a log was written on, and which commands can be run there and would tell something."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from oomdoctor.families.container import LimitKill
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.data_loader import WorkerDeath as LoaderDeath
from oomdoctor.families.kernel import KernelKill, UserspaceKill
from oomdoctor.families.kill import Kill
from oomdoctor.families.ray_death import WorkerDeath
from oomdoctor.families.ray_kill import NodeOutOfMemory
from oomdoctor.incident.model import Crash
from oomdoctor.patterns import late
from oomdoctor.signs import commands
from oomdoctor.signs.cut import is_cut

_Instead = tuple[tuple[str, tuple[str, ...]], ...]  # what a command begins with, and what to run in its place

_WINDOWS: Final = (
    r"(?<![A-Za-z])[A-Z]:(?:\\[\w .-]|/\w[\w .-]{0,60}/)|\berrno=1455\b"
    r"|\\(?:c10|aten|site-packages)\\|(?<![\w.])\.{1,2}\\(?:tensorflow|aten|c10)\b"
    r"|\bWinError\b|\bpaging file\b|(?<![\w./-])/[C-F]/[\w.-]"  # the last as llamafile's C library writes C:\
    # its own calls, and programs that have no such ending elsewhere: on Linux that is many a solver's (wrf.exe)
    r"|\bGetLastError\(\)|\bCreateFileMapping\b|\bVirtualAlloc\b|\b(?:raylet|gcs_server|pythonw?|ollama|cmd)\.exe\b"
)
# A home of macOS (one of Databricks stands in /Workspace), and what only Linux has
_MAC: Final = r"(?<![\w.@/-])/Users/[\w.-]{1,60}/|/opt/homebrew/|/Library/Frameworks/|\w\.dylib\b"
_LINUX: Final = (
    r"(?<![\w.@/-])/(?:home|root|mnt|opt/conda|usr/lib/python3|proc|sys)/|/dist-packages/|\bslurm|\bsrun: |\w\.so\.\d"
)
# Jupyter, Colab and Kaggle run cells in ipykernel; IPython/core/ultratb.py has its own form of a traceback. Databricks
# names its cells "<command-4200133>"
_OF_A_KERNEL: Final = r"/ipykernel(?:_\d+)?/|\bipython-input-\d|/ipykernel_launcher\.py"
_FROM_A_CELL: Final = (
    r"^\w+(?:Error|Exception)\s{2,}Traceback \(most recent call last\)|^(?:File )?<(?:ipython-input|command-\d{3,20}>)"
    r"|^Cell In ?\[\d+\]"
)
_KILLED: Final = (Kill, KernelKill, UserspaceKill, LimitKill, LoaderDeath, WorkerDeath, NodeOutOfMemory)
# What Python raises has a class; a driver, a kernel or a simulator prints its own sentence and no traceback.
_RAISED: Final = late(r"(?:^|[\s.\]:(])[A-Z_]\w{0,60}(?:Error|Exception)\b")
_TITLE: Final = "Traceback (most recent call last)"
# What shells of Windows lack, and what tells the same there
_ON_WINDOWS: Final = (
    (commands.RAYLETS_OWN, (commands.RAYLETS_ON_WINDOWS,)),
    (commands.WHOLE_LOG, (commands.WHOLE_LOG_ON_WINDOWS,)),
    ("ulimit -a", (commands.MEMORY_ON_WINDOWS,)),
    ("free ", (commands.MEMORY_ON_WINDOWS,)),
    ("sysctl vm.overcommit", (commands.MEMORY_ON_WINDOWS,)),
    *((tool, ()) for tool in ("ulimit", "sysctl", "ps ", "df ", "dmesg", "for boot", "grep ")),
)
# man log: the kernel's log is another there, and neither /proc nor /dev/shm is
_ON_A_MAC: Final = (
    *((tool, (commands.KILLS_ON_A_MAC,)) for tool in ("for boot", "dmesg")),
    *((tool, (commands.ON_A_MAC,)) for tool in ("ps aux --sort", "ps -eo")),
    (commands.LIMIT_OR_FULL, (commands.ADDRESS_LIMIT,)),
    *((tool, ()) for tool in ("free ", "df -h /dev/shm", "sysctl ", "grep . /sys", "grep -i huge /proc")),
)


def is_on_windows(crash: Crash) -> bool:
    """Whether a path near the failure is one of Windows, or its own words for an error are there."""
    known = crash.seen.get(is_on_windows)
    if known is None:
        known = crash.seen[is_on_windows] = crash.shows(_WINDOWS)
    return bool(known)


def is_on_a_mac(crash: Crash) -> bool:
    """Whether a path near the failure is one of macOS: a client's, where the failure has a node that is elsewhere."""
    known = crash.seen.get(is_on_a_mac)
    if known is None:
        here = crash.shows(_MAC) and not crash.shows(_LINUX) and commands.node_of(crash) is None
        known = crash.seen[is_on_a_mac] = here
    return bool(known)


def is_in_a_notebook(crash: Crash) -> bool:
    """Whether a frame or the form of the traceback is that of IPython's kernel, where what a cell made stays."""
    return crash.in_trace(_OF_A_KERNEL) is not None or crash.mentions(_FROM_A_CELL) is not None


def useful(asked: Iterable[str], crash: Crash) -> tuple[str, ...]:
    """The commands that the job's machine has, without a search for a traceback where none would tell."""
    return of_its_system((one for one in asked if one != commands.WHOLE_LOG or a_traceback_may_tell(crash)), crash)


def of_its_system(asked: Iterable[str], crash: Crash) -> tuple[str, ...]:
    """The commands that the job's machine has, each once."""
    there = commands.of_its_killer(asked, crash)
    return tuple(dict.fromkeys(one for command in there for one in _there(command, _lacking(crash))))


def _lacking(crash: Crash) -> _Instead:
    """What the shells of the job's system lack."""
    if is_on_windows(crash):
        return _ON_WINDOWS
    return _ON_A_MAC if is_on_a_mac(crash) else ()


def a_traceback_may_tell(crash: Crash) -> bool:
    """Whether Python raised the error, and its traceback may stand elsewhere: a killed process prints none, nor does a
    request that waits."""
    root = crash.root
    if is_cut(root):
        return True
    if crash.pool == "scheduling" or isinstance(root, _KILLED) or any(_TITLE in line for line in root.around.before):
        return False
    printed = isinstance(root, DeviceOutOfMemory) and root.tried_bytes is not None  # str() of it, without its class
    return printed or _RAISED.search(root.at.text) is not None


def _there(command: str, instead: _Instead) -> tuple[str, ...]:
    return next((there for here, there in instead if command.startswith(here)), (command,))


__all__ = ["a_traceback_may_tell", "is_on_a_mac", "is_on_windows", "of_its_system", "useful"]
