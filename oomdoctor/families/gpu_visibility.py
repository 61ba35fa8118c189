"""The devices a process was given and the devices it finds do not agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from oomdoctor import grammars
from oomdoctor.families import Family
from oomdoctor.families.event import Event, Read
from oomdoctor.families.lines import place_of
from oomdoctor.families.remote_call import caller
from oomdoctor.patterns import late
from oomdoctor.streams import Page


class GpuVisibility(Event, frozen=True, kw_only=True):
    """No GPU where one was asked for, a device number that is not there, or a count that contradicts the mask."""

    family = "gpu_visibility"
    kind = "gpu-visibility"

    pool: str = "scheduling"
    strength: int = 3

    # "no-gpu": the process sees none; "invalid-ordinal": it asks for a number that is not there;
    # "more-than-visible": Ray is told of more GPUs than CUDA_VISIBLE_DEVICES lets through
    problem: str = "no-gpu"
    asked: int | None = None  # GPUs wanted
    visible: int | None = None  # GPUs let through
    mask: str | None = None  # CUDA_VISIBLE_DEVICES as printed
    ordinal: int | None = None

    def identity(self) -> str:
        """Every rank prints it."""
        return f"{self.family} {self.problem} {self.asked} {self.mask}"


# How far from the error the mask may have been printed.
LINES_BEFORE: Final = 200
# A line of advice or of documentation holds the same words without an error class or a raised exception.
_RAISED = late(
    r"(?:Error|Exception)\b.{0,120}(?:No CUDA GPUs are available|nvalid device (?:ordinal|id)|-capable device is)"
    r"|Attempting to start raylet with|^\s*(?:CUDA error: )?(?:invalid device ordinal|no CUDA-capable device)"
)
_MASK = late(r"CUDA_VISIBLE_DEVICES['\"]?\s{0,2}[=:]\s{0,2}['\"]?(\d{1,3}(?:,\d{1,3}){0,63}|)(?=['\"\s,;]|$)")
_PROBLEMS: Final = {
    "raylet_gpus": "more-than-visible",
    "ordinal": "invalid-ordinal",
    "none_available": "no-gpu",
    "no_device": "no-gpu",
}


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    if not _RAISED.search(line.text):
        return
    found = dict(grammars.clauses("gpu_visibility", line.text[:2000]))
    problem = next((told for name, told in _PROBLEMS.items() if name in found), None)
    if problem is None:
        return
    contains = found.get("contains", ())
    mask = contains[0].strip("[]").replace("'", "") if contains else _mask_before(page, index)
    yield GpuVisibility(
        at=place_of(page, line),
        time=line.mark.time,
        process=replace(caller(page, index), rank=line.mark.rank),
        problem=problem,
        asked=_number(found, "raylet_gpus"),
        visible=len([d for d in mask.split(",") if d.strip()]) if contains and mask is not None else None,
        mask=mask,
        ordinal=_number(found, "device_id"),
    )


def _mask_before(page: Page, index: int) -> str | None:
    for line in reversed(page.lines[max(0, index - LINES_BEFORE) : index]):
        match = _MASK.search(line.text)
        if match:
            return match[1]
    return None


def _number(found: dict[str, tuple[str, ...]], name: str) -> int | None:
    digits = (found.get(name) or ("",))[0].rstrip(".,")
    return int(float(digits)) if digits.replace(".", "", 1).isdecimal() else None


FAMILY = Family(
    name="gpu_visibility",
    anchors=(),
    triggers=(
        "No CUDA GPUs are available",
        "invalid device ordinal",
        "nvalid device id",
        "Attempting to start raylet",
        "-capable device is detected",
    ),
    read=read,
)
