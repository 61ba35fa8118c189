"""What a cluster's nodes read, and what is kept of those that are gone, as one incident."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from oomdoctor import street
from oomdoctor.cluster import head
from oomdoctor.cluster.archived import archived
from oomdoctor.reading import Reading, parallel
from oomdoctor.sources import read_and_left_out

if TYPE_CHECKING:
    from oomdoctor.job.outside import Outside


def gathered(
    address: str,
    session: str | None,
    seconds: float,
    kept: Sequence[str],
    told: Outside | None,
    tell: head.Tell,
) -> street.Facts:
    """What the logs on the living nodes and those that are kept elsewhere say."""
    with archived(kept) as found:
        of_kept = parallel.read(found.sources) if found.sources else Reading()
    whole = head.read(address, session, seconds, of_kept, tell)
    reading = Reading()
    left_out: Counter[str] = Counter()
    for part in whole.parts:
        reading.join(part.reading)
        left_out.update(part.left_out)
    for records in whole.machines:
        reading.join(records)
    reading.join(of_kept)
    left_out.update(found.left_out or ())
    bytes_read = sum(part.bytes for part in whole.parts) + sum(source.size for source in found.sources)
    files = sum(part.files for part in whole.parts) + sum(source.size > 0 for source in found.sources)
    return street.concluded(
        reading,
        errors=[*whole.errors, *found.troubles, *(trouble for source in found.sources for trouble in source.troubles)],
        notes=[
            *whole.notes,
            *(note for source in found.sources for note in source.notes),
            read_and_left_out(files, bytes_read, left_out),
        ],
        bytes_read=bytes_read,
        files=files,
        told=told,
    )
