"""Services that lend machines: AWS Batch, ECS and Lambda, Vertex AI, SageMaker, hosted notebooks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from oomdoctor.families.container import LimitKill, MemoryLimit
from oomdoctor.families.container.records import Record
from oomdoctor.families.event import Event
from oomdoctor.families.lines import place_of
from oomdoctor.patterns import late
from oomdoctor.streams import Page
from oomdoctor.units import MIB

_CLOUD = late(
    r"OutOfMemoryError: Container killed due to memory usage|\"Out of Memory\" \(\"OOM\"\) event was detected"
    r"|replica \S{1,80} ran out-of-memory and exited"
    r"|Replicas low on memory:"
)
_LAMBDA = late(r"\bMemory Size: (\d{1,6}) MB\s{1,4}Max Memory Used: (\d{1,6}) MB\b")
_SAGEMAKER = late(r"Please use an instance type with more memory")
_NOTEBOOK = late(r"crashed after using all available RAM|tried to allocate more memory than is available")


def _cloud(page: Page, index: int) -> Event:
    """AWS Batch and ECS, Vertex AI."""
    line = page.lines[index]
    manager = "aws" if "Container killed" in line.text else "vertex"
    code = re.search(r"status of (\d{1,3})\b", line.text)
    return LimitKill(
        at=place_of(page, line), time=line.mark.time, manager=manager, exit_code=int(code[1]) if code else None
    )


def _lambda(page: Page, index: int) -> Event:
    """What a call of a function had and took: counted in MiB."""
    line = page.lines[index]
    said = _LAMBDA.search(line.text)
    limit, peak = (int(said[1]) * MIB, int(said[2]) * MIB) if said else (0, 0)
    at, time = place_of(page, line), line.mark.time
    if peak < limit:
        return MemoryLimit(at=at, time=time, limit_bytes=limit, stated=f"{limit // MIB} MB")
    return LimitKill(at=at, time=time, manager="aws", peak_bytes=peak, limit_bytes=limit)


def _own_machine(manager: str) -> Callable[[Page, int], Event]:
    """Of a service that gives a machine of its own."""

    def read(page: Page, index: int) -> Event:
        line = page.lines[index]
        return LimitKill(at=place_of(page, line), time=line.mark.time, manager=manager, strength=2, pool="host_ram")

    return read


RECORDS: Final = (
    Record(_CLOUD, _cloud),
    Record(_LAMBDA, _lambda),
    Record(_SAGEMAKER, _own_machine("sagemaker")),
    Record(_NOTEBOOK, _own_machine("notebook"), loose=True),
)
