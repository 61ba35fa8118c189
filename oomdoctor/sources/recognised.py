"""Which files of a folder or an archive are logs worth reading, by their names and first bytes, and in which order."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Final

from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.sources import text

# Why a file is left out; each is said with the number of files.
LINK: Final = mark("links")
NAMED: Final = mark("no log by the name")
EMPTY: Final = mark("empty")
NO_TEXT: Final = mark("no text")
DATA: Final = mark("JSON or YAML that is no log")
ARCHIVE: Final = mark("archives (read when they are named)")
OUTSIDE: Final = mark("names that lead out of the archive")

SAMPLE: Final = 4096
SNAPSHOT_HEAD: Final = 256
_SNAPSHOT_PARTS: Final = (b"segments", b"device_traces", b"total_size")
# torch.profiler's memory timeline: times in microseconds since 1970, and rows of sizes
_TIMELINE: Final = b"[["
_OF_TIMELINE = late(rb"\[\[\d{16}(?:, ?\d{16}|\], ?\[\[0,)")
_PICKLES: Final = frozenset({".pickle", ".pkl"})

# `runtime_resources` holds the job's own code and packages, `export_events` every task's every state.
_SKIPPED_FOLDERS: Final = frozenset(
    {"export_events", "runtime_resources", "ray_spilled_objects", "metrics", "sockets", "site-packages",
     "node_modules", "__pycache__", ".git", ".venv", ".cache"}
)  # fmt: skip

ARCHIVES: Final = frozenset({".zip", ".tar", ".tgz", ".tbz2", ".txz", ".tzst"})

# Text that is no log (code speaks of "out of memory", too) and what is big and surely binary.
_SKIPPED_SUFFIXES: Final = frozenset(
    [
        *(".py", ".pyi", ".pyc", ".ipynb", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".rs", ".go", ".java"),
        *(".js", ".ts", ".sh", ".bash", ".css", ".htm", ".html", ".md", ".rst", ".xml", ".patch", ".diff"),
        *(".toml", ".ini", ".cfg", ".conf", ".lock", ".pid", ".sock", ".db", ".sqlite"),
        *(".svg", ".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf", ".so", ".o", ".a", ".whl"),
        *(".pkl", ".pickle", ".pt", ".pth", ".bin", ".safetensors", ".ckpt", ".onnx", ".gguf", ".h5"),
        *(".npy", ".npz", ".parquet", ".arrow", ".tfrecord"),
    ]
)
_STRUCTURED: Final = frozenset({".json", ".yaml", ".yml"})

_SKIPPED_NAMES = late(r"debug_state.*\.txt(?:\.\d+)?|event_EXPORT_.*|.*\.tfevents\..*|\..*")

# What `kubectl get -o yaml|json` and `kubectl cluster-info dump` say of pods and events: the limit, and who was killed.
_OF_KUBERNETES = late(
    rb"\s{0,8}(?:---\s{1,4})?\{?\s{0,8}\"?(?:apiVersion|kind|items)\"?:[\s\S]{0,200}?"
    rb"\"?kind\"?: {0,4}\"?(?:Pod|PodList|Event|EventList|List|NodeList|Node)\b"
)
# What torchrun writes of a rank's exception beside its stdout and stderr
_OF_TORCHRUN = late(rb"\{\"message\": ?[{\"]")
_JSON_LINES = late(rb"\{[^\n]*\}\r?\n\{")

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
_ANY_OTHER: Final = 0.5  # a log of the user's own, after the driver's

# Older than the same without a number: "raylet.out.1" and, as Ray's C++ names it, "python-core-worker-0a_3.1.log".
# (A second raylet of one machine is "raylet.1.out", too; its number sorts it all the same.)
_ROTATED = late(r"(.+)\.(\d{1,4})(?:\.(?:gz|bz2|xz|zst))?", re.ASCII)
_NUMBERS = late(r"(\d{1,18})", re.ASCII)
_RAYLETS = late(r"(?:^|/)raylet[^/]{0,40}\.(?:out|err)\b")

Place = tuple[float, list[tuple[int, str]], int]


def is_raylets(name: str) -> bool:
    """Whether a file is a raylet's own log, by its name."""
    return _RAYLETS.search(name) is not None


def skips(folder: str) -> bool:
    """Whether nothing in a folder of this name is a log."""
    return folder in _SKIPPED_FOLDERS


def background(path: PurePath) -> bool:
    return _BACKGROUND.match(path.name) is not None


def not_by_name(path: PurePath) -> str | None:
    """Why this is no log, if its name tells."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes and (suffixes[-1] in ARCHIVES or (suffixes[0] == ".tar" and len(suffixes) > 1)):
        return ARCHIVE
    if path.suffix.lower() in _SKIPPED_SUFFIXES or _SKIPPED_NAMES.fullmatch(path.name):
        return NAMED
    return None


def may_be_snapshot(path: PurePath) -> bool:
    """Whether PyTorch's memory snapshots have such names."""
    return path.suffix.lower() in _PICKLES


def sample(path: PurePath) -> int:
    """How many of its first bytes tell whether it is a log."""
    return text.SAMPLE if path.suffix.lower() in _STRUCTURED else SAMPLE


def not_by_content(path: PurePath, head: bytes) -> str | None:
    """Why this is no log, if its first bytes tell."""
    if not head:
        return EMPTY
    if text.binary(head):
        return None if is_snapshot(head) else NO_TEXT
    suffix = path.suffix.lower()
    if suffix not in _STRUCTURED or _OF_KUBERNETES.match(head):
        return None
    told = suffix == ".json" and (
        _JSON_LINES.match(head) or (path.name == "error.json" and _OF_TORCHRUN.match(head)) or may_be_timeline(head)
    )
    return None if told else DATA


def is_snapshot(head: bytes) -> bool:
    """Whether these first bytes are those of PyTorch's memory snapshot: a pickle, and the name of its first part."""
    return head[:1] == b"\x80" and any(name in head[:SNAPSHOT_HEAD] for name in _SNAPSHOT_PARTS)


def may_be_timeline(head: bytes) -> bool:
    """Whether a text that begins so may be torch.profiler's memory timeline."""
    return head.startswith(_TIMELINE) and _OF_TIMELINE.match(head[:SNAPSHOT_HEAD]) is not None


def place(path: PurePath) -> Place:
    """Where it stands among the logs of its folder."""
    name = path.name
    rotated = _ROTATED.fullmatch(name)
    age = int(rotated[2]) if rotated else 0
    plain = path.with_name(rotated[1]) if rotated else path
    return turn(path), _natural(plain.as_posix()), -age


def turn(path: PurePath) -> float:
    """When it is read among the logs of a job: the driver's before the raylet's, whoever names them in which order."""
    return next((rank for rank, pattern in enumerate(_RANKS) if pattern.fullmatch(path.name)), _ANY_OTHER)


def _natural(name: str) -> list[tuple[int, str]]:
    """worker-2 before worker-10."""
    parts = _NUMBERS.split(name)  # text and numbers by turns
    return [(int(part), "") if index % 2 else (0, part) for index, part in enumerate(parts)]
