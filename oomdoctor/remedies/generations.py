"""GPUs before Ampere: what they do not compute is not advised.

`generations.txt` knows them, and `fp16.txt` what takes its place.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from oomdoctor.incident.devices import NVIDIA, maker
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import framework
from oomdoctor.job.model import Value
from oomdoctor.language import say
from oomdoctor.remedies import Remedy, cells
from oomdoctor.remedies.engine.known import card_total
from oomdoctor.remedies.proposal import Case
from oomdoctor.remedies.settings import Spelling
from oomdoctor.units import GIB

_STROKE: Final = r"\|"
_DROP: Final = "drop"
_BY_HAND: Final = "torch.autocast("
_HALF: Final = "mixed-precision"  # a knob
_ATTENTION: Final = "memory-efficient-attention"
_KNOBS: Final = (_HALF, _ATTENTION, "low-memory-optimizer")
_FLASH: Final = re.compile(r"flash_?att(?:n|ention)(?!_[23])|\bfa2\b|flash-attn")
_EIGHT_BITS: Final = re.compile(r"(?:^|_)fp8")
_HOST: Final = ("host_ram", "cgroup", "pinned", "shm", "object_store", "none")  # pools
_NEW_WORDS: Final = re.compile(r"\bbf16\b|bfloat16|bf16|flash_attention_[23]")
# Whole weights in fp16 are trained by nobody: torch/amp/grad_scaler.py, "Attempting to unscale FP16 gradients"
_WEIGHTS: Final = re.compile(r"\bmodel\.to\(|\bastype\(")


class Gpu(NamedTuple):
    """One that is older, how it is called, and the sizes that only it has."""

    name: str
    called: re.Pattern[str]
    sizes: tuple[tuple[float, float], ...]


class Instead(NamedTuple):
    """What an option becomes."""

    framework: str
    option: re.Pattern[str]
    instead: str


@cache
def table() -> tuple[Gpu, ...]:
    rows = cells.rows(Path(__file__).with_suffix(".txt"))
    return tuple(Gpu(name, re.compile(called), tuple(map(_range, sizes.split()))) for name, called, sizes in rows)


@cache
def instead() -> tuple[Instead, ...]:
    rows = cells.rows(Path(__file__).with_name("fp16.txt"))
    return tuple(Instead(own, re.compile(option.replace(_STROKE, "|")), then) for own, option, then, _ in rows)


def _range(text: str) -> tuple[float, float]:
    least, _, most = text.partition("-")
    return float(least), float(most)


def older(crash: Crash) -> str | None:
    """The GPU before Ampere that the job computes on: by its name, else by its size."""
    if crash.pool in _HOST or maker(crash) != NVIDIA:
        return None
    name = crash.context.hardware.get("gpu_name")
    named = next((gpu.name for gpu in table() if _is_called(gpu, name, crash)), None)
    if named is not None or isinstance(name, str):
        return named
    return _by_size(card_total(crash))


def _is_called(gpu: Gpu, name: Value, crash: Crash) -> bool:
    """By the name that the log gives the job's GPU, which leaves out who made it, or by a line near the failure."""
    short = isinstance(name, str) and (name == gpu.name or gpu.called.search(name) is not None)
    return short or crash.mentions(gpu.called.pattern) is not None


def _by_size(total: int | None) -> str | None:
    if total is None:
        return None
    size = round(total / GIB, 2)
    return next((gpu.name for gpu in table() if any(least <= size <= most for least, most in gpu.sizes)), None)


def fits(row: Spelling, crash: Crash) -> bool:
    """Whether the GPU computes what the option asks for, or something in its place."""
    attends = row.knob == _ATTENTION and _FLASH.search(row.shown) is not None and _world(row) == "torch"
    if not attends and _EIGHT_BITS.match(str(row.value)) is None and _new(row.shown) is None:
        return True
    if older(crash) is None:
        return True
    if attends or _EIGHT_BITS.match(str(row.value)) is not None:
        return False
    return row.knob not in _KNOBS or _turned(row.shown, row.framework) is not None


def _world(row: Spelling) -> str:
    own = framework(row.framework)
    return own.world if own is not None else ""


def _new(text: str) -> re.Match[str] | None:
    return _NEW_WORDS.search(text)


def _turned(text: str, name: str) -> str | None:
    """The option as an older GPU has it; None where it has none."""
    for row in instead():
        if (row.framework and row.framework != name) or row.option.search(text) is None:
            continue
        return None if row.instead == _DROP else row.option.sub(row.instead, text)
    return text


def remedy_for(remedy: Remedy, case: Case) -> Remedy | None:
    """The remedy as this GPU has it; None where there is none."""
    written = (remedy.snippet, remedy.setting, str(remedy.suggested), remedy.action)
    if remedy.knob not in _KNOBS or all(_new(text or "") is None for text in written):
        return remedy
    if (gpu := older(case.crash)) is None:
        return remedy
    name = case.row.framework if case.row is not None else ""
    turned = [_turned(text or "", name) for text in written]
    if None in turned or _trains_in_fp16(remedy, case):
        return None
    snippet, setting, suggested, action = (text or "" for text in turned)
    told = say("the GPU is one like the {gpu}, by its name or its memory: it has no bf16", gpu=gpu)
    scaled = say("in training fp16 needs a GradScaler") if _BY_HAND in snippet else ""
    return replace(
        remedy,
        action=action,
        snippet=snippet if remedy.snippet is not None else None,
        setting=setting if remedy.setting is not None else None,
        suggested=suggested if isinstance(remedy.suggested, str) else remedy.suggested,
        assumes=(*remedy.assumes, told, *filter(None, (scaled,))),
    )


def _trains_in_fp16(remedy: Remedy, case: Case) -> bool:
    of_weights = _WEIGHTS.search(remedy.snippet or "") is not None
    return of_weights and case.crash.job.task in ("training", "rl")


__all__ = ["Gpu", "fits", "instead", "older", "remedy_for", "table"]
