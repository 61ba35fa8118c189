"""Which line of the job's own code asked for the memory: frames by whose code they are.

The innermost frame of what the user wrote counts, then that of a framework that has options. Libraries of arrays, the
standard library and what only waited for another process have no line that anybody would change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, Literal

from msgspec import Struct

from oomdoctor.families.event import Frame
from oomdoctor.families.frames import waits
from oomdoctor.job.frames import RAY
from oomdoctor.job.frameworks import frameworks
from oomdoctor.patterns import late

Owner = Literal["user", "framework", "nobody"]  # nobody: the log has lost the head of the frame

# Libraries of arrays and tables: what they allocate somebody else has asked for.
_ARRAYS: Final = late(
    r"torch(?:vision|audio|_npu)?|numpy|scipy|pandas|pyarrow|jax(?:lib)?|flax|haiku|equinox|optax|tensorflow|(?:tf_)?keras"
    r"|cupy|numba|triton|xarray|dask|distributed|pyspark|py4j|sklearn|skimage|PIL|cv2|h5py|polars|cudf|cuml|joblib"
    r"|safetensors|mlx|paddle|einops|xgboost|lightgbm|catboost"
)
_INSTALLED: Final = late(r"(?:site|dist)-packages/(?:[^/]{1,120}\.egg/)?(\w{1,80})|/(\w{1,80})-[^/]{1,80}\.egg/")
_STANDARD: Final = late(
    r"(?i)/lib/python\d[\d.]{0,5}/(?!site|dist)|/python\d{1,3}/lib/(?!site)|^<frozen|^<string>|^<__array"
)
_CHECKOUT: Final = late(
    r"(?:^|/)(?:torch/(?:nn|_|utils|functional|optim|autograd)|jax/_src|numpy/core|tensorflow/python)\b"
)
_COMPILED: Final = late(r"\.pyx$|^\[?ray\b")
# What calls whatever it was handed: chainer/training/trainer.py, ComfyUI's execution.py, loops of Lightning and Ignite
_HANDS_ON: Final = late(
    r"(?:^|/)(?:ComfyUI/execution\.py$|chainer/training/|(?:lightning/pytorch|pytorch_lightning)/(?:trainer|loops)/"
    r"|ignite/engine/)"
)
_FILE: Final = late(r"[\w.-]{1,80}\.pyx?")


class OwnLine(Struct, frozen=True):
    """A line of the job's code."""

    file: str  # without its folders; empty where that is no name of a file
    line: int
    code: str
    owner: Owner
    innermost: bool  # nothing of the same owner, or that one could change, was called from it


def own_lines(trace: Sequence[Frame], *, cut: bool = False) -> tuple[OwnLine, ...]:
    """Lines of the user's code, the innermost first, and behind them the innermost of a framework."""
    trace = _of_the_failing_process(trace)
    if waits(trace):
        return ()
    lines: dict[Owner, list[OwnLine]] = {"user": [], "nobody": [], "framework": []}
    for frame in reversed(trace):
        owner = owner_of(frame)
        if owner is not None and frame.code:
            lines[owner].append(_line(frame, owner, innermost=not lines[owner] and not cut))
    last = next((frame for frame in reversed(trace) if frame.code), None)
    headless = lines["nobody"] if last is not None and owner_of(last) == "nobody" else []
    return (*lines["user"], *headless[:1], *lines["framework"][:1])


def own_place(trace: Sequence[Frame], *, cut: bool = False) -> str | None:
    """ "train.py:118": the user's innermost frame, whose source a log need not show; else a framework's line."""
    trace = [one for one in trace if not _HANDS_ON.search(one.path)]
    mine = [] if waits(trace) else [one for one in _of_the_failing_process(trace) if owner_of(one) == "user"]
    lines = (*(_line(one, "user", innermost=False) for one in reversed(mine)), *own_lines(trace, cut=cut))
    return next((f"{line.file}:{line.line}" for line in lines if line.file), None)


def _of_the_failing_process(trace: Sequence[Frame]) -> Sequence[Frame]:
    """What stands behind Ray's line about a remote call is the worker's; before it, who waited for the worker."""
    remote = max((at for at, frame in enumerate(trace) if frame.file == RAY), default=-1)
    return trace[remote + 1 :]


def owner_of(frame: Frame) -> Owner | None:
    """Whose code a frame is of; None for libraries that nobody changes."""
    file = frame.path
    if not file:
        return "nobody"
    if _STANDARD.search(file) or _CHECKOUT.search(file) or _COMPILED.search(file):
        return None
    if match := _INSTALLED.search(file):
        return None if _ARRAYS.fullmatch(match[1] or match[2]) else "framework"
    return "framework" if _checkouts().search(file) else "user"


@cache
def _checkouts() -> re.Pattern[str]:
    """Frameworks run from a checkout, and have their options all the same."""
    files = "|".join(path for each in frameworks() for path in each.files)
    return re.compile(rf"(?:^|/)(?:{files})/")


def _line(frame: Frame, owner: Owner, *, innermost: bool) -> OwnLine:
    name = frame.path.rpartition("/")[2]
    return OwnLine(name if _FILE.fullmatch(name) and frame.line else "", frame.line, frame.code, owner, innermost)


def called_by(trace: Sequence[Frame]) -> Iterator[str]:
    """The names of functions and files that the frames show, the innermost first."""
    for frame in reversed(trace):
        yield frame.function
        yield frame.path.rpartition("/")[2]


__all__ = ["OwnLine", "Owner", "called_by", "own_lines", "own_place", "owner_of"]
