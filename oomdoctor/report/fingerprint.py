"""The same short name for the same crash, in whatever run: by its cause, pool, stage and place in the program."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from oomdoctor.families.event import Frame
from oomdoctor.incident.model import Crash
from oomdoctor.patterns import late

# Where any job's memory is asked for: no place by which one crash is told from another.
_MACHINERY: Final = frozenset({
    "apex", "bitsandbytes", "concurrent", "cupy", "cupy_backends", "flash_attn", "functorch", "jax", "jaxlib",
    "joblib", "liger_kernel", "multiprocess", "multiprocessing", "numba", "numpy", "pandas", "pyarrow", "pybind11",
    "ray", "rmm", "safetensors", "scipy", "tensorflow", "tokenizers", "torch", "torchaudio", "torchvision",
    "transformer_engine", "triton", "xformers",
})  # fmt: skip
_INSTALLED: Final = late(r"(?:site|dist)-packages/([^/]+)")
_STANDARD: Final = late(r"/lib(?:64)?/python\d(?:\.\d{1,2})?/|^<(?:frozen|string|stdin|__)")
_LAUNCHER: Final = late(r"(?:^|/)bin/[^/]+$|/accelerate/commands/|/deepspeed/launcher/")
# What stands around any function; and of what Python 3.12 has no frames
_WRAPPERS: Final = frozenset({
    "func", "wrapper", "_wrapper", "inner", "wrapped", "wrapped_fn", "decorator", "__call__", "<listcomp>",
    "<dictcomp>", "<setcomp>",
})  # fmt: skip
_FIGURES: Final = late(r"\d+")


def fingerprint(cause: str, pool: str, stage: str, place: str) -> str:
    """Figures, ids, lines and folders have no part in it."""
    text = "\n".join((cause, pool, stage, place))
    return "v1:" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def place_of(crash: Crash) -> str:
    """Where the job was: as the root's traceback shows it, or that of another print of the same."""
    told = (crash.root, *(event for event in crash.events if event.role == "confirmation"))
    return next(filter(None, (place(reversed(event.around.trace)) for event in told)), "")


def place(frames: Iterable[Frame]) -> str:
    """The innermost function that is the job's or its framework's own, of frames from the innermost outwards."""
    own = next((frame for frame in frames if frame.function and _is_own(frame)), None)
    if own is None:
        return ""
    file = own.path.rpartition("/")[2]
    return _FIGURES.sub("N", f"{file.rpartition('.')[0] or file}:{own.function}")


def _is_own(frame: Frame) -> bool:
    if frame.file == "ray":  # how a remote call is told, by the job's own names
        return True
    if frame.function in _WRAPPERS:
        return False
    file = frame.path
    if _LAUNCHER.search(file):
        return False
    if installed := _INSTALLED.search(file):
        return installed[1] not in _MACHINERY
    if _STANDARD.search(file):
        return False
    first, _, rest = file.partition("/")
    return "/torch/" not in file and not file.startswith("python/ray/") and not (rest and first in _MACHINERY)
