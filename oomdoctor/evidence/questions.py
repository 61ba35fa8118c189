"""What a machine is asked after a crash: commands, none of which changes anything, and files of the kernel.

Records look back at the crash, states show the machine without the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from oomdoctor.recorder import cgroup
from oomdoctor.signs.commands import (
    ALL_PROCESSES,
    CARDS_NOW,
    FREE,
    OBJECTS,
    ON_OTHER_DEVICES,
    ON_THE_CARDS,
    SACCT,
    SCHEDULED,
    SHM,
)

COUNTERS: Final = "/proc/vmstat"
FILES: Final = (
    "/proc/meminfo",
    COUNTERS,
    "/proc/pressure/memory",
    "/proc/self/limits",
)
_OF_A_GROUP: Final = (
    *("memory.max", "memory.high", "memory.peak", "memory.current", "memory.swap.max", "memory.events"),
    *("memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.usage_in_bytes", "memory.failcnt"),
    *("memory.memsw.limit_in_bytes", "memory.oom_control", "memory.stat"),
)


class Question(Struct, frozen=True):
    """A command, or files to read."""

    name: str  # in the archive
    words: tuple[str, ...]  # of the command; of files the paths
    reads: bool = False  # files
    looks_back: bool = False  # at the crash
    unless: str = ""  # the question that would have told the same

    @property
    def text(self) -> str:
        """As one would type it, which tells what comes back apart."""
        if not self.reads:
            return " ".join(self.words)
        return " ".join(("grep ." if len(self.words) > 1 else "cat", *self.words))


# Of the device tools those that need no rights, and show more than processes
_TOOLS: Final = tuple(ON_OTHER_DEVICES[maker] for maker in ("AMD", "Intel", "NPU", "HPU", "MLU"))
# Its name in the archive, and the command; {JOB}, {CONTAINER} and {POD} are asked for only where the user names one.
_RECORDS: Final = (
    ("kernel", "dmesg -T"),
    ("kernel-journal", "journalctl -k -b 0 --no-pager -o short-iso"),
    ("boot-before", "journalctl -k -b -1 --no-pager -o short-iso"),
    ("oomd", "journalctl -u systemd-oomd --no-pager -o short-iso -n 500"),
    ("core-dumps", "coredumpctl list --no-pager"),
    ("slurm-job", SACCT),
    ("slurm-control", "scontrol show job {JOB}"),
    ("container", "docker inspect {CONTAINER}"),
    ("pod", "kubectl describe pod {POD}"),
    ("pod-events", "kubectl get events --field-selector involvedObject.name={POD}"),
)
_STATES: Final = (
    ("processes", ALL_PROCESSES),
    ("memory", FREE),
    ("shared-memory", SHM),
    ("disks", "df -h"),
    ("address-limit", "sysctl vm.max_map_count vm.overcommit_memory vm.overcommit_ratio"),
    ("gpus", CARDS_NOW),
    ("gpu-processes", ON_THE_CARDS),
    ("gpu-memory", "nvidia-smi --query-gpu=index,memory.used,memory.total --format=csv"),
    *((tool.split()[0], tool) for tool in _TOOLS),
    ("ray-status", SCHEDULED),
    ("ray-objects", OBJECTS),
    ("ray-actors", "ray list actors"),
    ("ray-workers", "ray list workers"),
)
# Who has told the same
_UNLESS: Final = {"kernel-journal": "kernel"}


def questions(named: Mapping[str, str | None]) -> Iterator[Question]:
    """All of them; those about a job, a container or a pod where one is named."""
    for commands, looks_back in ((_RECORDS, True), (_STATES, False)):
        for name, command in commands:
            if all(value for word, value in named.items() if f"{{{word}}}" in command):
                words = tuple(word.format(**named) for word in command.split())
                yield Question(name, words, looks_back=looks_back, unless=_UNLESS.get(name, ""))
    for path in FILES:
        yield Question(path.strip("/").replace("/", "-"), (path,), reads=True, looks_back=path == COUNTERS)
    for number, folder in enumerate(cgroup.folders()):
        paths = tuple(f"{folder}/{name}" for name in _OF_A_GROUP)
        yield Question(f"cgroup-{number}", paths, reads=True, looks_back=True)


__all__ = ["Question", "questions"]
