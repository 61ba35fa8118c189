"""oomdoctor reads the log of a job that died of memory and says what ran out, who held it, why, and what to change.

from oomdoctor import diagnose

report = diagnose("driver.log", "raylet.out")
for incident in report.incidents:
    for diagnosis in incident.diagnoses:
        print(diagnosis.cause, diagnosis.confidence)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oomdoctor.report.contract import Report
    from oomdoctor.street import diagnose

__version__ = "0.1.0"
__all__ = ["Report", "__version__", "diagnose"]


def __getattr__(name: str) -> Any:
    # Imported when asked for: `oomdoctor --help` and programs that only look for the package need none of it.
    if name == "diagnose":
        from oomdoctor.street import diagnose  # noqa: PLC0415

        return diagnose
    if name == "Report":
        from oomdoctor.report.contract import Report  # noqa: PLC0415

        return Report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
