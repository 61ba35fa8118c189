"""Limits that a log states before anything happens: a pod's record, docker's, options, what Snakemake asks for."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.container import CHARACTERS, TERMINATED, MemoryLimit
from oomdoctor.families.container.records import Record, figures_of, quantity, size_of
from oomdoctor.families.event import Event
from oomdoctor.families.lines import place_of
from oomdoctor.patterns import late
from oomdoctor.streams import Page
from oomdoctor.units import BINARY, DECIMAL, size

LIMIT_LINES: Final = 8  # a container's other resources stand in front of its memory
_STATED = late(
    r"^\s{0,40}\"Memory\": [1-9]\d{6}"  # docker's, in bytes
    r"|^\s{0,40}\"?[Ll]imits\"?:\s{0,4}\{?\s{0,4}$|(?<!Worker )\b[Mm]emory [Ll]imit:"  # a Dask worker's is its own
    r"|mem_limit:"
)
_OPTION = late(
    r"(?:\b(?:docker|podman) run\b[^\n]{0,400}\s(?:--memory[= ]|-m ?)|#SBATCH[^\n]{0,100}--mem[= ]|\bs(?:run|batch)\b"
    r"[^\n]{0,200}--mem[= ])(\d{1,12}(?:\.\d{1,3})?[KMGTkmgt]?[Bb]?)\b"
)
# Snakemake's record of a job: what it asks of the scheduler, in decimal megabytes ("mem_mib" stands beside it)
_SNAKEMAKE = late(r"^\W{0,8}resources: (?:.{0,300}, )?mem_mb=(\d{1,9})\b(?!\.\d)")
# The head of that record: snakemake/logging.py 7 and 8, "localrule" where it is not submitted
_RULE = late(r"^\W{0,8}(?:local)?(?:rule|checkpoint) (\w{1,100}):\s{0,4}$")
_RECORD_LINES: Final = 16  # input, output, log, jobid, benchmark, reason, wildcards, priority, threads


def _stated(page: Page, index: int) -> Event | None:
    """In a pod's record it may stand on the line below."""
    line = page.lines[index]
    if "imits:" in line.text[:CHARACTERS] and page.once(_describes_ends):
        return None  # each limit goes with its end, the other limits do not
    lines = page.lines[index : index + LIMIT_LINES]
    option = _OPTION.search(line.text)
    figures = figures_of("\n".join(one.text for one in lines))
    # docker and Slurm mean GiB by "G"
    limit = size_of((option[1],), BINARY) if option else quantity(figures.get("limit"))
    if limit is None:
        return None
    stated = option[1] if option else figures.get("limit", (None,))[0]
    return MemoryLimit(at=place_of(page, line), time=line.mark.time, limit_bytes=limit, stated=stated)


def _describes_ends(page: Page) -> bool:
    """Whether `kubectl describe` shows ended containers."""
    return any(TERMINATED.search(line.text[:CHARACTERS]) for line in page.lines)


def _asked(page: Page, index: int) -> Event | None:
    line = page.lines[index]
    asked = _SNAKEMAKE.search(line.text)
    requested = size(asked[1], "MB", DECIMAL) if asked else None
    if asked is None or requested is None:
        return None
    return MemoryLimit(
        at=place_of(page, line),
        time=line.mark.time,
        requested_bytes=requested,
        stated=f"mem_mb={asked[1]}",
        rule=_rule(page, index),
    )


def _rule(page: Page, index: int) -> str | None:
    """Whose resources a line is about, by the head of its record."""
    above = (page.lines[n].text[:CHARACTERS] for n in range(index - 1, max(-1, index - 1 - _RECORD_LINES), -1))
    head = next((match for match in map(_RULE.match, above) if match is not None), None)
    return head[1] if head is not None else None


RECORDS: Final = (
    Record(_STATED, _stated, loose=True),
    Record(_OPTION, _stated, loose=True),
    Record(_SNAKEMAKE, _asked),
)
