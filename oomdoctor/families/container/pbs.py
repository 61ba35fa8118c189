"""PBS, Torque's mail and Moab."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.container import LimitKill
from oomdoctor.families.container.records import Record, figures_of, limit_kill, size_of, two_sizes
from oomdoctor.families.event import Event
from oomdoctor.families.lines import place_of
from oomdoctor.patterns import late
from oomdoctor.streams import Page
from oomdoctor.units import BINARY, MIB

TORQUE_LINES: Final = 40
_CGROUP = late(r"[Cc]group mem(?:ory|sw)? limit exceeded")
_PBS = late(r"PBS: job killed: (p?v?mem)\b")
# The server's comment on a finished job (svr_jobfunc.c, 19.1 on); "Exit_status" is -27 then, and -26 for vmem
_PBS_COMMENT = late(r"\b[Jj]ob [^\n]{1,400}\bexceeded resource (p?v?mem)\b")
_PBS_CHUNK = late(r":mem=(\d{1,15}[kmgt]?b)\b")
# Torque's mail, with the job's account below it
_TORQUE = late(r"^\W{0,4}Job exceeded a memory resource limit \(")
_TORQUE_JOB = late(r"\bPBS Job Id: {1,4}(\d{1,12})")
_TORQUE_HOST = late(r"^\W{0,4}Exec host: {1,4}([\w.-]{1,120})/")
_ACCOUNT = late(r"\b(?:resources_used|req_information|Resource_List)\.")
# Moab's own, in MB: "job 41 exceeded MEM usage hard limit (2528 > 1126)"
_MOAB = late(r"\bjob (\d{1,12}) exceeded (V?MEM|SWAP) usage (?:hard|soft) limit \((\d{1,12}) > (\d{1,12})\)")


def _cgroup(page: Page, index: int) -> Event:
    line = page.lines[index]
    return limit_kill(page, line, "pbs", None, None, virtual=False)


def _pbs(page: Page, index: int) -> Event:
    line = page.lines[index]
    used, limit = two_sizes(figures_of(line.text).get("pbs", ()), BINARY)
    virtual = "vmem" in line.text
    return limit_kill(page, line, "pbs", used, limit, virtual=virtual)


def _pbs_comment(page: Page, index: int) -> Event:
    """The limit is the chunk's, where the job had one."""
    line = page.lines[index]
    said, chunks = _PBS_COMMENT.search(line.text), _PBS_CHUNK.findall(line.text)
    virtual = said is not None and "v" in said[1]
    limit = size_of(tuple(chunks), BINARY) if len(chunks) == 1 and not virtual else None
    return limit_kill(page, line, "pbs", None, limit, virtual=virtual)


def _torque(page: Page, index: int) -> Event:
    """The mail does not say which limit it was; the account below it does."""
    lines = page.after(index, TORQUE_LINES)
    last = max((n for n, line in enumerate(lines) if _ACCOUNT.search(line.text)), default=0)
    figures = figures_of("\n".join(line.text for line in lines[: last + 1]))
    virtual, resident, limit = (
        size_of(figures.get(name), BINARY) for name in ("pbs_virtual", "pbs_resident", "pbs_asked")
    )
    over = limit is not None and virtual is not None and virtual > limit >= (resident or 0)
    above = [line.text for line in page.before(index, TORQUE_LINES)]
    job = next((match[1] for text in above if (match := _TORQUE_JOB.search(text))), None)
    return LimitKill(
        at=place_of(page, lines[0], lines[last]),
        time=lines[0].mark.time,
        manager="pbs",
        used_bytes=virtual if over else resident,
        resident_bytes=resident if over else None,
        limit_bytes=limit,
        virtual=over or None,
        job=job,
        host=next((match[1] for text in above if (match := _TORQUE_HOST.search(text))), None),
    )


def _moab(page: Page, index: int) -> Event:
    line = page.lines[index]
    job, what, used, limit = _MOAB.search(line.text).groups()  # type: ignore[union-attr]
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager="pbs",
        job=job,
        used_bytes=int(used) * MIB,
        limit_bytes=int(limit) * MIB,
        virtual=what == "VMEM" or None,
    )


RECORDS: Final = (
    Record(_CGROUP, _cgroup),
    Record(_PBS, _pbs),
    Record(_PBS_COMMENT, _pbs_comment),
    Record(_TORQUE, _torque),
    Record(_MOAB, _moab),
)
