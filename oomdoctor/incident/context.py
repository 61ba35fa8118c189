"""What the log says about the job: frameworks, settings, models, hardware."""

from __future__ import annotations

from oomdoctor.incident.model import Context
from oomdoctor.streams import Page

ANCHORS: tuple[str, ...] = ()


class ContextBuilder:
    def add(self, page: Page) -> None:
        """Take what this page says of the job."""

    def build(self) -> Context:
        return Context()
