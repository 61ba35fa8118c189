"""Which remedies to print for a cause, with their values, and which to reject."""

from __future__ import annotations

from collections.abc import Sequence

from oomdoctor.incident.model import Crash
from oomdoctor.remedies import Rejected, Remedy


def remedies(cause: str, knobs: Sequence[str], crash: Crash) -> tuple[list[Remedy], list[Rejected]]:
    del cause, crash
    return [Remedy(knob=knob, action=knob) for knob in knobs], []
