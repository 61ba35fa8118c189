"""Which files of a folder are logs worth reading, and in which order: Ray's session folders and any other."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePath

from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.sources import text, unpack
from oomdoctor.sources.trouble import Trouble, UnreadableError, shown

# `runtime_resources` holds the job's own code and packages, `export_events` every task's every state.
_SKIPPED_FOLDERS = frozenset(
    {"export_events", "runtime_resources", "ray_spilled_objects", "metrics", "sockets", "site-packages",
     "node_modules", "__pycache__", ".git", ".venv", ".cache"}
)  # fmt: skip

# Text that is no log (code speaks of "out of memory", too) and what is big and surely binary.
_SKIPPED_SUFFIXES = frozenset(
    [
        *(".py", ".pyi", ".pyc", ".ipynb", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".rs", ".go", ".java"),
        *(".js", ".ts", ".sh", ".bash", ".css", ".htm", ".html", ".md", ".rst", ".xml", ".patch", ".diff"),
        *(".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".lock", ".pid", ".sock", ".db", ".sqlite"),
        *(".svg", ".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf", ".so", ".o", ".a", ".whl", ".zip", ".tar", ".tgz"),
        *(".pkl", ".pickle", ".pt", ".pth", ".bin", ".safetensors", ".ckpt", ".onnx", ".gguf", ".h5"),
        *(".npy", ".npz", ".parquet", ".arrow", ".tfrecord"),
    ]
)

_SKIPPED_NAMES = late(r"debug_state.*\.txt(?:\.\d+)?|event_EXPORT_.*|.*\.tfevents\..*|\..*")

# Ray's own plumbing: one or more per process, read only where an anchor stands in it. (monitor.log is not among it:
# there is one, and its last table says what the cluster had and how full the object store was.)
_BACKGROUND = late(
    r"(?:python-core-|io-worker|dashboard|log_monitor|runtime_env|agent-|ray_client_server|redis"
    r"|plasma_store).*"
)

# The driver tells the story, the raylet knows who was killed, workers are many and say little.
_RANKS = tuple(
    late(pattern)
    for pattern in (
        r"(?:job-)?driver.*",
        r"raylet.*",
        r"gcs_server.*",
        r"event_.*",
        r"worker-.*",
        r"monitor\..*",
        _BACKGROUND.pattern,
    )
)
_ANY_OTHER = 0.5  # a log of the user's own, after the driver's

_ROTATED = late(r"(.+)\.(\d{1,4})", re.ASCII)  # raylet.out.1 is older than raylet.out
_NUMBERS = late(r"(\d{1,18})", re.ASCII)


def background(path: Path) -> bool:
    return _BACKGROUND.match(path.name) is not None


def logs_in(folder: Path) -> tuple[list[Path], list[Trouble]]:
    """The logs in the folder and in those below it, without following links, and the folders nobody may read."""
    troubles: list[Trouble] = []
    found = [path for path in _files(folder, troubles) if _is_log(path)]
    return sorted(found, key=lambda path: _place(path.relative_to(folder))), troubles


def _files(folder: Path, troubles: list[Trouble]) -> Iterator[Path]:
    def tell(error: OSError) -> None:
        troubles.append(Trouble(shown(error.filename), why(error)))

    for at, folders, files in os.walk(folder, onerror=tell):
        folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS]
        for name in files:
            path = Path(at, name)
            if not path.is_symlink() and path.is_file():
                yield path


def _is_log(path: Path) -> bool:
    suffix = path.suffix.lower()
    if suffix in _SKIPPED_SUFFIXES or _SKIPPED_NAMES.fullmatch(path.name):
        return False
    try:
        with path.open("rb") as stream:
            head = next(unpack.unpacked(stream, text.SAMPLE if suffix == ".json" else 4096), b"")
    except (OSError, UnreadableError):
        return True  # reading it will say what is wrong
    if not head or text.binary(head):
        return False
    return suffix != ".json" or _is_json_lines(head)


def _is_json_lines(head: bytes) -> bool:
    return re.match(rb"\{[^\n]*\}\r?\n\{", head) is not None


def _place(path: PurePath) -> tuple[float, list[tuple[int, str]], int]:
    name = path.name
    rotated = _ROTATED.fullmatch(name)
    age = int(rotated[2]) if rotated else 0
    rank = next((rank for rank, pattern in enumerate(_RANKS) if pattern.fullmatch(name)), _ANY_OTHER)
    plain = path.with_name(rotated[1]) if rotated else path
    return rank, _natural(plain.as_posix()), -age


def _natural(name: str) -> list[tuple[int, str]]:
    """worker-2 before worker-10."""
    parts = _NUMBERS.split(name)  # text and numbers by turns
    return [(int(part), "") if index % 2 else (0, part) for index, part in enumerate(parts)]


def why(error: OSError) -> str:
    """The system's reason as part of a sentence: "permission denied"."""
    if isinstance(error, FileNotFoundError):
        return say("no such file")
    reason = error.strerror or str(error) or type(error).__name__
    return reason[:1].lower() + reason[1:]
