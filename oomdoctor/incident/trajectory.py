"""Memory figures that the log prints again and again, and whether they grow."""

from __future__ import annotations

from oomdoctor.incident.model import Trajectory
from oomdoctor.streams import Page


class TrajectoryBuilder:
    def add(self, page: Page) -> None:
        """Take the points that this page prints."""

    def build(self) -> list[Trajectory]:
        return []
