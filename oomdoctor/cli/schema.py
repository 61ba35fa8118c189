"""`oomdoctor dev schema`."""

from __future__ import annotations

from oomdoctor.cli import out
from oomdoctor.cli.quick import Lang


def schema(_lang: Lang = None) -> None:
    """Print the JSON Schema of `diagnose --format json`."""
    import json  # noqa: PLC0415

    from oomdoctor.report.schema import schema as of_the_report  # noqa: PLC0415

    out.write(json.dumps(of_the_report(), indent=2) + "\n")
