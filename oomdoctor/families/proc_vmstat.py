"""The kernel's count of all its OOM kills since the machine was started, those at limits included: since 4.13.

It has no namespace: in a container it is the host's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Read, Role
from oomdoctor.families.lines import place_of
from oomdoctor.families.prompt import commands_of, host_of
from oomdoctor.patterns import late
from oomdoctor.streams import Page

ABOVE: Final = 400  # lines of the file
CHARACTERS: Final = 400
FILE: Final = "/proc/vmstat"
_COUNT = late(r"^(?P<file>/proc/vmstat:)?oom_kill (?P<kills>\d{1,12})$")
_OTHER = late(
    r"^(?:nr|pg|allocstall|compact|drop|numa|workingset|thp|kswapd|swap|unevictable|balloon)\w{0,40} \d{1,20}$"
)


class MachineKills(Event, frozen=True, kw_only=True):
    """How many processes the kernel killed for memory; between two prints it may be a stranger."""

    family = "proc_vmstat"
    kind = "machine-kills"

    role: Role = "context"
    pool: str = "host_ram"

    kills: int
    more: int | None = None  # since an earlier print
    host: str | None = None


def read(page: Page, index: int) -> Iterator[Read]:
    counts = page.once(_counts)
    if index not in counts:
        return
    earlier = [kills for other, kills in counts.items() if other < index]
    line = page.lines[index]
    yield MachineKills(
        at=place_of(page, line),
        time=line.mark.time,
        kills=counts[index],
        more=counts[index] - earlier[0] if earlier and counts[index] >= earlier[0] else None,
        host=_host(page, index) or line.mark.host,
    )


def _counts(page: Page) -> Mapping[int, int]:
    found = {}
    for index, line in enumerate(page.lines):
        count = _COUNT.match(line.text[:CHARACTERS].strip())
        if count and (count["file"] or _is_of_the_file(page, index)):
            found[index] = int(count["kills"])
    return found


def _is_of_the_file(page: Page, index: int) -> bool:
    """Whether the command above names the file, or the file's other lines stand there."""
    above = page.lines[index - 1].text[:CHARACTERS] if index else ""
    return _OTHER.match(above.strip()) is not None or is_asked(above)


def is_asked(text: str) -> bool:
    """Whether a command on the line prints the file or a part of it."""
    return FILE in text and any(FILE in words for words in commands_of(text))


def _host(page: Page, index: int) -> str | None:
    return host_of(page.lines[index - 1].text) if index and is_asked(page.lines[index - 1].text[:CHARACTERS]) else None


FAMILY = Family(name="proc_vmstat", anchors=(), triggers=("oom_kill ",), read=read)
