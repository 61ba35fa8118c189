"""`oomdoctor causes`."""

from __future__ import annotations

from oomdoctor.cli import out
from oomdoctor.cli.quick import Lang
from oomdoctor.language import translated


def causes(_lang: Lang = None) -> None:
    """List the causes that can be told apart: id, pools, title."""
    from oomdoctor.causes import causes as known_causes  # noqa: PLC0415

    rows = [(cause.id, ", ".join(cause.pools), translated(cause.title)) for cause in known_causes()]
    first, second = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
    out.write("".join(f"{id_:<{first}}  {pools:<{second}}  {title}\n" for id_, pools, title in rows))
