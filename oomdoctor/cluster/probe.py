"""Asks a node where its logs are and which oomdoctor it has.

Ray sends this module's functions by value, so that they also run where oomdoctor is not installed: they may use
nothing but the standard library and Ray.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

RAYLET = re.compile(r"raylet(?:\.\d{1,4})?\.out")
SHOWN = 3
HEAD = 1024 * 1024  # of a raylet's log, which names its node in the first lines and in every dump of its state
NODE_ID = re.compile(rb"(?:node_id=|Raylet of id, |Node ID: )([0-9a-f]{56})")


def probe(session: str | None) -> dict[str, Any]:
    """This node's folder of logs, the nodes whose raylets write there, and the version of oomdoctor."""
    folder = _session_folder()
    if session is not None:
        folder = folder.parent / session
    logs = folder / "logs"
    there = logs.is_dir()
    return {
        "logs": str(logs),
        "there": there,
        "sessions": [] if there else _sessions(folder.parent),
        "raylets": raylets(logs) if there else {},
        "version": _version(),
    }


def raylets(logs: Path) -> dict[str, str]:
    """The node of each raylet's log.

    Raylets of one machine that were started with one temporary folder (`ray.cluster_utils`, a raylet that was started
    again) share it: their logs are raylet.out, raylet.1.out and so on, in the order in which they started. The number
    is not that of their sockets; only the log itself says whose it is.
    """
    found = {}
    for path in sorted(logs.iterdir()):
        if RAYLET.fullmatch(path.name):
            with path.open("rb") as log:
                named = NODE_ID.search(log.read(HEAD))
            if named:
                found[path.name] = named[1].decode()
    return found


def _session_folder() -> Path:
    """Not /tmp/ray/session_latest: that is the session which was begun last, perhaps of another cluster."""
    import ray  # noqa: PLC0415  (it is there where this runs)

    context = ray.get_runtime_context()
    if hasattr(context, "get_temp_dir"):  # Ray 2.54 and later
        return Path(context.get_temp_dir(), context.get_session_name())
    node: Any = ray._private.worker.global_worker.node  # noqa: SLF001
    return Path(node.get_session_dir_path())


def _sessions(root: Path) -> list[str]:
    """The sessions that were begun last; their names begin with the time."""
    return sorted(path.name for path in root.glob("session_2*") if path.is_dir())[: -SHOWN - 1 : -1]


def _version() -> str | None:
    try:
        import oomdoctor  # noqa: PLC0415
    except ImportError:
        return None
    return str(getattr(oomdoctor, "__version__", None))
