"""Sizes as a headline says them: three significant digits, and a part beside its whole."""

from __future__ import annotations

from typing import Final

from oomdoctor.language import mark, say
from oomdoctor.units import BEYOND, GIB, KIB, MIB, NO_MACHINE, show

_UNITS: Final = ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"), (1, "bytes"))
TOKENS: Final = (mark("{count} token"), mark("{count} tokens"))
GPUS: Final = (mark("{count} GPU"), mark("{count} GPUs"))
HUNDREDS: Final = 100
TENS: Final = 10


def shown(size_bytes: int | None) -> str | None:
    """A size as the report shows it: 31.18 GiB; None of nothing."""
    return show(size_bytes) if size_bytes is not None and size_bytes > 0 else None


def brief(size_bytes: int) -> str:
    """A size: 31.2 GiB, 177 GiB, 64 MiB."""
    factor, unit = _unit(size_bytes)
    return f"{_number(size_bytes / factor)} {unit}" if size_bytes != 1 else say("1 byte")


def briefly(size_bytes: int | None) -> str | None:
    """The same; None of nothing."""
    return brief(size_bytes) if size_bytes is not None and size_bytes > 0 else None


def beside(part_bytes: int | None, whole_bytes: int | None) -> str | None:
    """A part and its whole: 177 of 252 GiB; None where it is none."""
    if not part_bytes or not whole_bytes or part_bytes > whole_bytes:
        return None
    factor, unit = _unit(whole_bytes)
    part = _number(part_bytes / factor) if _unit(part_bytes)[1] == unit else brief(part_bytes)
    return say("{part} of {whole}", part=part, whole=brief(whole_bytes))


def _unit(size_bytes: int) -> tuple[int, str]:
    units = (*BEYOND, *_UNITS) if abs(size_bytes) >= NO_MACHINE else _UNITS
    return next((each for each in units if abs(size_bytes) >= each[0]), _UNITS[-1])


def _number(value: float) -> str:
    digits = 0 if abs(value) >= HUNDREDS else 1 if abs(value) >= TENS else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


__all__ = ["GPUS", "TOKENS", "beside", "brief", "briefly", "shown"]
