"""What the whole node has too little of: memory, and disk for what is spilled or kept in memory."""

from __future__ import annotations

import shlex
from typing import Final

from oomdoctor.families.budget import SpillRefused
from oomdoctor.families.df import DiskUsage
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.lmcache import BufferFull
from oomdoctor.families.ray_store import DiskFull
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import (
    LARGE,
    held_by,
    held_in_words,
    largest_kill,
    swapped_bytes,
    total_bytes,
    used_bytes,
)
from oomdoctor.job.frameworks import among
from oomdoctor.job.model import Setting
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.remedies.loading import parts_loaded
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Skip
from oomdoctor.remedies.settings import spelling
from oomdoctor.signs import limits
from oomdoctor.signs.files_in_memory import files_in_memory
from oomdoctor.signs.kills import Ranks, ranks_beside_the_killed
from oomdoctor.signs.machine import is_on_windows
from oomdoctor.signs.pieces import needed_bytes
from oomdoctor.units import show

_IN_MEMORY: Final = late(r"(?<![\w/.-])/dev/shm/\S{1,200} is over ")
_FULL: Final = late(r"(?<![\w/.-])(?P<disk>/[\w./-]{1,200}) is over \d")  # src/ray/util/file_system_monitor.cc
# src/sort.c of coreutils, usage(): what does not fit into its buffer waits there, each line of the input once
_SORT: Final = "sort"
_LARGER: Final = "/PATH/ON/A/LARGER/DISK"
_COMPRESSED: Final = "sort --compress-program=gzip ...   # or: smaller temporary files"
_SESSION: Final = late(r"(/[\w./-]{1,200})/session_[\w-]{1,80} is over ")


def more_host_memory(case: Case) -> Answer:
    crash = case.crash
    if isinstance(crash.root, BufferFull):
        return Proposal(
            action=say("Use a node with more memory if the larger buffer does not fit: it has a fixed size")
        )
    if (needed := needed_bytes(crash)) is not None:
        return Proposal(
            action=say("Use a machine, or a limit, of more than {needed}", needed=show(needed[0])),
            derivation=needed[1],
            assumes=(say("the rest takes as much as what was done"),),
        )
    total, used = total_bytes(crash), used_bytes(crash)
    if total is None:
        return _more_than_the_victim(crash)
    if not used:
        return Proposal(action=say("Use a node with more than {total} of memory", total=show(total)))
    return Proposal(
        action=say("Use a node with more than {total} of memory", total=show(total)),
        derivation=say("{used} of {total} in use", used=show(used), total=show(total)),
    )


def _more_than_the_victim(crash: Crash) -> Proposal | None:
    """Where only the kernel's line stands: what the killed process alone held. No node but a machine of one's own is
    what a program with a window runs on."""
    if is_on_windows(crash) or any(each.layer == "local" for each in among(crash.context.frameworks)):
        return Proposal(action=say("Close other programs, or use a machine with more memory"))
    kill = largest_kill(crash)
    held = held_by(kill) if kill is not None else None
    if kill is None or held is None or held < LARGE:
        return None
    ranks = ranks_beside_the_killed(crash)
    if ranks is not None:
        return _more_than_the_ranks(ranks)
    if (needed := _needed(crash, kill, held)) is not None:
        return needed
    return Proposal(
        action=say(
            "Use a node with more memory: the killed process (PID {pid}) alone held {amount}",
            pid=kill.process.pid,
            amount=held_in_words(kill),
        ),
        subject=say("PID {pid}", pid=kill.process.pid),
    )


def _needed(crash: Crash, kill: KernelKill, held: int) -> Proposal | None:
    """What lies in swap, and what was still to load, needs memory as well."""
    swap = swapped_bytes(kill, kill.process.pid)
    parts = parts_loaded(crash) if crash.stage == "model_load" else None
    resident = held + swap
    if parts is not None and 0 < parts[0] < parts[1]:
        done, count = parts
        whole = round(resident * count / done)
        return _alone(kill, whole, f"{show(resident)} x {count} / {done} = {show(whole)}")
    if swap < LARGE:
        return None
    return _alone(kill, resident, say("{held} + {swap} in swap", held=show(held), swap=show(swap)))


def _alone(kill: KernelKill, needed: int, derivation: str) -> Proposal:
    return Proposal(
        action=say(
            "Use a node with more than {amount} of memory: PID {pid} alone needs about as much",
            pid=kill.process.pid,
            amount=show(needed),
        ),
        derivation=derivation,
        subject=say("PID {pid}", pid=kill.process.pid),
    )


def _more_than_the_ranks(ranks: Ranks) -> Proposal:
    """A node with room for the killed process alone would fail with the next one."""
    each, shared = show(ranks.own_bytes), show(ranks.shared_bytes)
    alike = say("the {count} processes are alike", count=ranks.count)
    once = say("shared memory counts once; else {all}", all=show(ranks.unshared_bytes))
    parts = f"{ranks.count} x {each} + {shared}" if ranks.shared_bytes else f"{ranks.count} x {each}"
    return Proposal(
        action=say("Use a node with more than {total} of memory", total=show(ranks.all_bytes)),
        derivation=f"{parts} = {show(ranks.all_bytes)}",
        assumes=(alike, once) if ranks.shared_bytes else (alike,),
    )


def files_to_disk(case: Case) -> Answer:
    """Files in memory are no framework's: the command shows them, and the job's prints how much all of them take."""
    if case.row is not None or limits.most_is_in_no_process(case.crash) is None:
        return None
    files = files_in_memory(case.crash)
    told = (
        say(
            "{used} at {done} of {count}: all take {used} x {count} / {done} = {whole}",
            used=show(files.used_bytes),
            done=files.done,
            count=files.count,
            whole=show(files.whole_bytes),
        )
        if files is not None
        else None
    )
    return Proposal(
        action=say("Keep the files in /dev/shm and other tmpfs on a disk, or delete them: they count for the limit"),
        derivation=told,
        snippet="df -h -t tmpfs; du -ah /dev/shm | sort -h | tail",
        cost=say("slower; needs disk space"),
    )


def free_disk(case: Case) -> Answer:
    full, spilling = case.crash.first(DiskFull), case.crash.first(SpillRefused)
    if full is None and spilling is not None:
        return _disk_of_a_program(case, spilling)
    if full is None:
        return None if case.cause == "spill-disk-full" else Skip()
    if _IN_MEMORY.search(full.at.text):
        return Proposal(
            action=say(
                "Let Ray spill to a disk: its folder is in /dev/shm, which is memory ({left})",
                left=_left(full),
            ),
            snippet="ray start --head --object-spilling-directory=/PATH/ON/A/DISK",
        )
    if (own := _option_for_the_disk(full, case.crash)) is not None:
        return Proposal(
            action=say("Set {name} to a folder on a larger disk", name=own.flag),
            current=own.value,
            setting=own.flag,
            snippet=f"{own.written}{_LARGER}",
        )
    return Proposal(
        action=say(
            "Free the disk of Ray's session folder ({left}): delete the folders of sessions that have ended; or move "
            "--temp-dir or object_spilling_directory to a larger one",
            left=_left(full),
        ),
        snippet="\n".join(filter(None, (_sessions(full), "ray start --head --temp-dir=/PATH/ON/A/LARGER/DISK"))),
    )


def _option_for_the_disk(full: DiskFull, crash: Crash) -> Setting | None:
    """The option of the launch line that names the disk which Ray found full, or a folder on it."""
    told = _FULL.search(full.at.text)
    if told is None:
        return None
    stated = (one for one in crash.context.settings.values() if one.is_launched)
    return next((one for one in stated if f"{one.value}/".startswith(f"{told['disk'].rstrip('/')}/")), None)


def _disk_of_a_program(case: Case, refused: SpillRefused) -> Proposal:
    """Of one that spills for itself, where Ray has no part in it."""
    told, program = _room_of(refused, case.crash), refused.program
    if (own := _option_for(refused, case.crash)) is not None:
        lines = (f"{own.written}{_LARGER}", _COMPRESSED if program == _SORT else None)
        return Proposal(
            action=say("Set {name} to a folder on a larger disk", name=own.flag),
            current=own.value,
            setting=own.flag,
            snippet="\n".join(filter(None, lines)),
            derivation=told,
        )
    if program == _SORT:
        return Proposal(
            action=say("Let sort write its temporary files to a larger disk, or compress them"),
            snippet=f"sort -T {_LARGER} ...\n{_COMPRESSED}",
            derivation=told,
        )
    row = spelling("spill-to-disk", case.crash.context, program) if program is not None else None
    return Proposal(
        action=say("Free the disk that {program} spills to, or let it spill to a larger one", program=program)
        if program is not None
        else say("Free the disk that the program spills to, or let it spill to a larger one"),
        snippet=row.snippet(row.value) if row is not None else None,
        derivation=told,
    )


def _option_for(refused: SpillRefused, crash: Crash) -> Setting | None:
    """The option of the launch line that names the folder."""
    stated = (one for one in crash.context.settings.values() if one.is_launched)
    return next((one for one in stated if refused.folder and str(one.value).rstrip("/") == refused.folder), None)


def _room_of(refused: SpillRefused, crash: Crash) -> str | None:
    """How large the disk is, where df shows the folder as a mount of its own."""
    disks = [one for one in crash.every(DiskUsage) if refused.folder and f"/{one.mount}".endswith(f"/{refused.folder}")]
    if refused.program != _SORT or not disks or not disks[-1].total_bytes:
        return None
    return say(
        "{mount} has {total} in all; the temporary files take at least as much as the input",
        mount=disks[-1].mount, total=show(disks[-1].total_bytes),
    )  # fmt: skip


def _sessions(full: DiskFull) -> str | None:
    """What each session keeps on that disk; Ray deletes none of them."""
    folder = _SESSION.search(full.at.text)
    return f"du -sh {shlex.quote(folder[1])}/session_* | sort -h" if folder is not None else None


def _left(full: DiskFull) -> str:
    if full.available_bytes is None:
        return say("disk full")
    left = show(full.available_bytes)
    if not full.total_bytes:
        return say("{amount} left", amount=left)
    return say("{amount} of {total} left", amount=left, total=show(full.total_bytes))
