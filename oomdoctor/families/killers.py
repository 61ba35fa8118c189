"""Who else kills for memory: macOS' and FreeBSD's kernels, oomd, nohang, and Linux for want of huge pages.

Before they kill, these kernels look for swap space, and say when they find none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Lookalike, Process, Read
from oomdoctor.families.kernel import UserspaceKill
from oomdoctor.families.lines import place_of
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Page
from oomdoctor.units import MIB


class SwapExhausted(Event, frozen=True, kw_only=True):
    """The system found no more swap space: RAM and swap are full."""

    family = "killers"
    kind = "swap-exhausted"

    pool: str = "host_ram"
    strength: int = 2  # who was killed for it says more

    system: str
    errno: int | None = None  # 28: the disk under the swap files is full

    def identity(self) -> str:
        """Repeated as long as it lasts."""
        return f"{self.family} {self.kind} {self.system}"


OWN_NAME: Final = "earlyoom"  # what its old releases print is anybody's without it
_LOW_SWAP = (
    r"low swap: killing largest compressed process with pid (?P<low_pid>\d{1,9})"
    r" \((?P<low_name>[^)\n]{1,60})\) and size (?P<mib>\d{1,9}) MB"
)
# A sentence that may mean it is no report.
_BY_THE_KILLER = (
    r"^(?![^\n]{0,400}\b(?:if|when|whether|may|might|could|can|would|likely|probably|perhaps|maybe|possibl[ey]|potential"
    r"|usually|often|no|not"
    r"|none|nothing|never|has been|causes?|reasons?|because)\b)[^\n]{0,400}\b(?:was|were|got|been) "
    r"(?:killed|terminated|removed|ended|stopped|reaped) by "
    r"(?:the |an? )?(?:\S{1,20} )?(?:oom|OOM|Oom|out-of-memory)[- ]?[Kk]iller\b"
)
_FREEBSD = r"(?:failed to reclaim memory|out of swap space|a thread waited too long to allocate a page)"
# xnu 3789 to 12377; FreeBSD 9 to 15; oomd 0.1 to 0.5; nohang 0.1 to 0.3; mm/hugetlb.c since 2.6.24
_KILLS: Final = tuple(
    (killer, late("|".join(patterns)))
    for killer, *patterns in (
        (
            "macOS",
            r"memorystatus: killing_(?!idle)\w{1,40} pid (?P<pid>\d{1,9}) \[(?P<name>[^\]\n]{1,60})\](?! \(idle)",
            _LOW_SWAP,
            r"panic\(cpu \d{1,4} caller 0x[0-9a-f]{1,16}\): zalloc\[\d{1,3}\]: zone map exhausted",
        ),
        ("FreeBSD", r"\bpid (?P<pid>\d{1,9}) \((?P<name>[^)\n]{1,60})\),[\w, ]{1,40}, was killed: " + _FREEBSD),
        (
            "oomd",
            r"\boomd kill: [\d.]{1,9} [\d.]{1,9} [\d.]{1,9} (?P<unit>\S{1,300}) (?P<used>\d{1,18}) ",
            r"\bTrying to kill /sys/fs/cgroup/(?P<group>\S{1,300})",
        ),
        (
            "OOM killer",
            r"\bOOM[- ][Kk]iller (?:has )?(?:stopped|killed|terminated|ended) (?!some processes in this unit)",
            _BY_THE_KILLER,
        ),
        # kill.c: up to 0.11 without its figures; since 1.8: SysRq f, where earlyoom may not kill by itself
        (
            "earlyoom",
            r"\bearlyoom(?:\[\d{1,9}\])?: Killing process (?P<pid>\d{1,9}) \(?(?P<name>[^\s()]{1,60})",
            # what it sends to the desktop, as whoever listens prints it (kill.c, notify)
            r"\bLow memory! Killing process (?P<notified_pid>\d{1,9}) (?P<notified_name>[^\s\"']{1,60})",
            r"(?:\bearlyoom(?:\[\d{1,9}\])?: |^)\w{1,40}: successfully triggered kernel OOM killer\b",
        ),
        # internal/app/machined/pkg/controllers/runtime/oom.go, since 1.12
        ("Talos", r"\bSending (?P<signal>SIGKILL) to cgroup\b[^\n]{0,200}\bruntime\.OOMController\b"),
        ("nohang", r"^\s{0,8}Sending (?P<signal>SIG(?:KILL|TERM)) to the victim\b"),
        ("Linux", r"\bPID (?P<pid>\d{1,9}) killed due to inadequate hugepage pool"),
    )
)
# xnu's and its pager's, FreeBSD's
_NO_SWAP: Final = tuple(
    (system, late("|".join(patterns)))
    for system, *patterns in (
        (
            "macOS",
            r"\blow swap: (?:failed to create swapfile|triggering no paging space action)",
            r"\bvnode_setsize for swap files failed: (?P<errno>\d{1,3})\b",
            r"\bmacx_swapon FAILED - (?P<of_the_pager>\d{1,3})\b|\bno space in available paging segments\b",
        ),
        (
            "FreeBSD",
            r"\bswap_pager: out of swap space\b",
        ),
    )
)
_NO_KILLS: Final = tuple(
    (late(pattern), why)
    for pattern, why in (
        (
            r"memorystatus: killing_idle|memorystatus: killing_\w{1,40} pid \d{1,9} \[[^\]\n]{1,60}\] \(idle",
            mark("macOS ended idle processes, as it does at any time"),
        ),
        (
            r"exceeded mem limit: (?:Active|Inactive)\w{0,5} \d{1,9} MB \(non-fatal\)",
            mark("this limit only reports a process; no process was ended"),
        ),
        (r"In dry-run mode; would have tried to kill", mark("a dry run: no process was killed")),
    )
)


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    text = f"{OWN_NAME}: {line.text[:1200]}" if line.mark.name == OWN_NAME else line.text[:1200]
    why = next((why for pattern, why in _NO_KILLS if pattern.search(text)), None)
    if why is not None:
        yield Lookalike(place_of(page, line), why)
        return
    killer, kill = next(((name, found) for name, pattern in _KILLS if (found := pattern.search(text))), ("", None))
    if kill is not None:
        yield UserspaceKill(at=place_of(page, line), time=line.mark.time, killer=killer, **_said(kill))
        return
    system, full = next(((name, found) for name, pattern in _NO_SWAP if (found := pattern.search(text))), ("", None))
    if full is not None:
        errno = next((int(number) for number in full.groupdict().values() if number), None)
        yield SwapExhausted(at=place_of(page, line), time=line.mark.time, system=system, errno=errno)


def _said(kill: re.Match[str]) -> dict[str, Any]:
    said = kill.groupdict()
    of = next((of for of in ("", "low_", "notified_") if said.get(f"{of}pid")), "")
    pid, name = (said.get(f"{of}{key}") for key in ("pid", "name"))
    mib, used = said.get("mib"), said.get("used")
    return {
        "process": Process(pid=int(pid) if pid else None, name=name),
        "rss_bytes": int(mib) * MIB if mib else None,
        "used_bytes": int(used) if used else None,
        "unit": said.get("unit") or said.get("group"),
        "signal": said.get("signal"),
    }


FAMILY = Family(
    name="killers",
    anchors=(
        "OOM Killer stopped",
        "OOM killer stopped",
        "triggered kernel OOM killer",
        "zone map exhausted",
        "memorystatus: killing_",
        "low swap: ",
        "for swap files failed",
        "swap_pager",
        "exceeded mem limit",
        ", was killed: ",
        "oomd kill: ",
        "rying to kill /sys/fs/cgroup",
        "KILL to the victim",
        "KILL to cgroup",
        "TERM to the victim",
        "inadequate hugepage pool",
    ),
    triggers=(
        " killed by ",
        " by the OOM killer",
        " by the OOM-killer",
        "Killing process ",
        "triggered kernel OOM killer",
        "OOM Killer ",
        "OOM killer ",
        "OOM-killer ",
        "zone map exhausted",
        "memorystatus: killing_",
        "low swap: ",
        "for swap files failed",
        "macx_swapon",
        "paging segments",
        "swap_pager",
        "exceeded mem limit",
        ", was killed: ",
        "oomd kill: ",
        "ried to kill /sys/fs/cgroup",
        "rying to kill /sys/fs/cgroup",
        "KILL to the victim",
        "KILL to cgroup",
        "TERM to the victim",
        "inadequate hugepage pool",
    ),
    read=read,
)
