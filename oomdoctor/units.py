"""Sizes: what a unit means belongs to the message that prints it, so every reader says which table it uses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from oomdoctor.language import say

KIB: Final = 1024
MIB: Final = 1024**2
GIB: Final = 1024**3
TIB: Final = 1024**4
PIB: Final = 1024**5
EIB: Final = 1024**6

# 2**64 bytes printed as GiB is NVML's "not available" (WSL2, some vGPU), 2**63 less a page the kernel's "no limit":
# unknown, not a number. A request of a little less is a shape that has overflowed.
LARGEST_SIZE: Final = 2**63 - 1_048_576
LARGEST_REQUEST: Final = 2**64 - 1  # a negative count that is printed as one without a sign
NO_MACHINE: Final = 8 * TIB  # more than the memory of any card, and of nearly any host
# Units of what no machine has; programs print what one has in GiB, up to its TiB.
BEYOND: Final = ((EIB, "EiB"), (PIB, "PiB"), (TIB, "TiB"))
UNITS: Final = ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))
MOST_DIGITS: Final = 6  # behind the point: from there on bytes are easier to read
TOLD: Final = 0.0005  # of a whole: less is not worth a digit
LARGEST_NUMBER: Final = 1e18  # of anything: products of larger ones may be no numbers any more

BINARY: Final[Mapping[str, int]] = {
    "": 1, "b": 1, "byte": 1, "bytes": 1,
    "k": KIB, "kb": KIB, "ki": KIB, "kib": KIB,
    "m": MIB, "mb": MIB, "mi": MIB, "mib": MIB,
    "g": GIB, "gb": GIB, "gi": GIB, "gib": GIB,
    "t": TIB, "tb": TIB, "ti": TIB, "tib": TIB,
    "pib": PIB, "eib": EIB,
}  # fmt: skip
"""For programs that print "GB" and mean GiB: Ray's kill messages, DeepSpeed, verl, SGLang, vLLM before 0.8.3."""

DECIMAL: Final[Mapping[str, int]] = {
    **BINARY,
    "k": 1000, "kb": 1000, "m": 1000**2, "mb": 1000**2, "g": 1000**3, "gb": 1000**3, "t": 1000**4, "tb": 1000**4,
}  # fmt: skip
"""For programs that print "GB" and mean it: Ray's plasma and /dev/shm lines, Kubernetes' K, M and G."""


def size(number: str | float, unit: str = "", table: Mapping[str, int] = BINARY) -> int | None:
    """The size in bytes, or None where the figure stands for "unknown" or is no size at all."""
    try:
        value = float(number.replace(",", "") if isinstance(number, str) else number)
        factor = table[unit.strip().lower()]
    except (KeyError, ValueError):
        return None
    if not 0 <= abs(value) * factor < LARGEST_SIZE:  # also catches nan
        return None
    return round(value * factor)


def asked(number: str, unit: str = "", table: Mapping[str, int] = BINARY) -> int | None:
    """The size of a request in bytes: one that a program has miscounted may be any number of 64 bits."""
    plain = number.replace(",", "")
    found = size(plain, unit, table)
    if found is not None or table.get(unit.strip().lower()) != 1 or not plain.isdecimal():
        return found
    return int(plain) if int(plain) <= LARGEST_REQUEST else None


HUNDREDTH: Final = GIB / 100
ROUNDED: Final = 2  # bytes that two roundings to whole ones are off by
TEN: Final = 10  # MiB: from there on a whole number is as near as anybody needs
TENTH: Final = 0.05  # what one decimal shows


def show(size_bytes: float) -> str:
    """A size for a person, in the unit a person would pick: 278 MiB, 66.85 GiB, 3.98 EiB."""
    magnitude = abs(size_bytes)
    if magnitude >= NO_MACHINE:
        factor, unit = next(each for each in BEYOND if magnitude >= each[0])
        return f"{size_bytes / factor:.2f} {unit}"
    if magnitude >= GIB:
        return f"{size_bytes / GIB:.2f} GiB"
    if magnitude >= MIB:
        return f"{size_bytes / MIB:.{_decimals(magnitude / MIB)}f} MiB"
    if magnitude >= KIB:
        return f"{size_bytes / KIB:.0f} KiB"
    return f"{size_bytes:.0f} bytes"


def apart(size_bytes: int, other_bytes: int) -> tuple[str, str]:
    """Two sizes that are held against each other: with further digits where they differ and would look the same."""
    one, other = show(size_bytes), show(other_bytes)
    if one != other or size_bytes == other_bytes:
        return one, other
    factor, unit = next((each for each in UNITS if abs(size_bytes) >= each[0]), (1, "bytes"))
    for digits in range(1, MOST_DIGITS):
        one, other = (f"{each / factor:.{digits}f} {unit}" for each in (size_bytes, other_bytes))
        if one != other:
            return one, other
    return f"{size_bytes:,} bytes", f"{other_bytes:,} bytes"


def in_print(size_bytes: int) -> str:
    """A size, or what is left of two, in the digits that a log gave: 6.48 GiB less 6.47 GiB is 0.01 GiB and no 10 MiB.
    Bytes that come to a hundredth of a GiB are no chance."""
    hundredths = round(size_bytes / HUNDREDTH)
    printed = 0 < size_bytes < GIB and abs(size_bytes - hundredths * HUNDREDTH) <= ROUNDED
    return f"{hundredths / 100:.2f} GiB" if printed and size_bytes % MIB else show(size_bytes)


def is_rough(size_bytes: int) -> bool:
    """Whether it is a difference of few of the hundredths that a log prints: half of it may be their rounding."""
    return in_print(size_bytes) != show(size_bytes) and size_bytes < TEN * HUNDREDTH


def _decimals(number: float) -> int:
    """One where a whole number would be off by more than the twentieth part."""
    return int(number < TEN and abs(number - round(number)) >= TENTH)


def show_limit(size_bytes: float) -> str:
    """A size that another one is at most: in whole MiB, rounded up."""
    return show(math.ceil(size_bytes / MIB) * MIB)


def gib_up(size_bytes: float) -> int:
    """In whole GiB, rounded up."""
    return math.ceil(size_bytes / GIB)


def cut_off(number: float, digits: int) -> int:
    """The number with so many digits and zeros behind them; never more than it is."""
    whole = int(number)
    unit = int("1" + "0" * max(0, len(str(whole)) - digits))
    return whole // unit * unit


def in_digits(number: float) -> str:
    """A count as somebody would type it: 8388608, and never 8.38861e+06."""
    return f"{int(number)}" if number == int(number) else f"{number:g}"


def percent(share: float | None) -> str:
    """A share for a person: 46%, 4.6% where the digit counts, and never 0.0%."""
    if share is None:
        return say("an unknown part")
    if abs(share) < TOLD:
        return say("less than 0.1%") if share > 0 else "0%"
    return f"{share:.1%}" if share < 0.1 else f"{share:.0%}"
