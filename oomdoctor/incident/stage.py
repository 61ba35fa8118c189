"""What the job was doing when an event happened."""

from __future__ import annotations

from oomdoctor.families.event import Event


def stage_of(event: Event) -> str:
    return event.stage
