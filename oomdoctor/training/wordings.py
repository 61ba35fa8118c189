"""The known wordings that `oomdoctor.families.likeness` compares with: the first lines of the fixtures' messages.

python -m oomdoctor.training.wordings
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from oomdoctor import families
from oomdoctor.families.event import Event
from oomdoctor.families.likeness import LONGEST, NO_FAILURE, WORDINGS, comparable, wording
from oomdoctor.job.context import RECORD
from oomdoctor.reading import pages
from oomdoctor.sources import Source
from oomdoctor.streams import Page
from oomdoctor.training.cases import FIXTURES

HEAD = """\
# The first lines of the fixtures' messages with their families, digits as 0; "-" where a line is near one and tells of
# no failure. Written by `python -m oomdoctor.training.wordings`.
"""


def table() -> str:
    """The whole file."""
    told: dict[str, str] = {}
    for log in sorted(FIXTURES.glob("*/*.log")):
        known = json.loads(log.with_suffix(".json").read_text(encoding="utf-8"))
        for page, _ in pages(Source(log.name, log)):
            for family, text in _lines(page, near="near_miss_of" in known):
                if told.get(text, NO_FAILURE) == NO_FAILURE:  # what tells of a failure anywhere is a message
                    told[text] = family
    said = {wording("", text).words for text, family in told.items() if family != NO_FAILURE}
    rows = sorted(
        (family, text)
        for text, family in told.items()
        if family != NO_FAILURE or wording("", text).words not in said  # source or a comment: signs tell it, not words
    )
    return HEAD + "".join(f"{family}\t{text}\n" for family, text in rows)


def _lines(page: Page, *, near: bool) -> Iterator[tuple[str, str]]:
    read: dict[int, str] = {}
    for index, found in families.found_in(page):
        if not isinstance(found, Event) or found.role != "context":
            name = found.family if isinstance(found, Event) else NO_FAILURE
            read[index] = name if read.get(index, NO_FAILURE) == NO_FAILURE else read[index]
    for index, line in enumerate(page.lines):
        family = read.get(index, NO_FAILURE if near else None)
        if family not in (None, "unfamiliar"):
            text = re.sub(r"\d", "0", line.text[:LONGEST]).strip()
            if comparable(wording("", text)) and text.isprintable() and not text.startswith(RECORD):
                yield family, text


if __name__ == "__main__":
    WORDINGS.write_text(table(), encoding="utf-8")
