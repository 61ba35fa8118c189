"""Sizes as a headline says them: three significant digits, and a part beside its whole."""

from __future__ import annotations

from typing import Final

from oomdoctor.language import say
from oomdoctor.units import GIB, KIB, MIB

_UNITS: Final = ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"), (1, "bytes"))
HUNDREDS: Final = 100
TENS: Final = 10


def brief(size_bytes: int) -> str:
    """A size: 31.2 GiB, 177 GiB, 64 MiB."""
    factor, unit = _unit(size_bytes)
    return f"{_number(size_bytes / factor)} {unit}" if size_bytes != 1 else say("1 byte")


def beside(part_bytes: int, whole_bytes: int) -> str:
    """A part and its whole: 177 of 252 GiB."""
    factor, unit = _unit(whole_bytes)
    if _unit(part_bytes)[1] == unit:
        return say("{part} of {whole}", part=_number(part_bytes / factor), whole=brief(whole_bytes))
    return say("{part} of {whole}", part=brief(part_bytes), whole=brief(whole_bytes))


def _unit(size_bytes: int) -> tuple[int, str]:
    return next((each for each in _UNITS if abs(size_bytes) >= each[0]), _UNITS[-1])


def _number(value: float) -> str:
    digits = 0 if abs(value) >= HUNDREDS else 1 if abs(value) >= TENS else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


__all__ = ["beside", "brief"]
