"""`oomdoctor explain causes`."""

from __future__ import annotations

from oomdoctor.cli import out
from oomdoctor.cli.quick import Lang
from oomdoctor.columns import table
from oomdoctor.language import translated


def causes(_lang: Lang = None) -> None:
    """List all causes: id, memory, title."""
    from oomdoctor.causes import causes as known_causes  # noqa: PLC0415

    rows = [(cause.id, ", ".join(cause.pools), translated(cause.title)) for cause in known_causes()]
    out.write("".join(f"{line}\n" for line in table(rows, out.columns())))
