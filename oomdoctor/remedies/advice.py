"""Advice that the log prints and that does not apply here, with the reason."""

from __future__ import annotations

from oomdoctor.families.event import Event
from oomdoctor.incident.model import Crash


def rejected_advice(crash: Crash) -> list[tuple[Event, str]]:
    del crash
    return []
