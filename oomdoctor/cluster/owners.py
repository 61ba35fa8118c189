"""Which node wrote a log of a folder that several nodes share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from oomdoctor.cluster.probe import NODE_ID, raylets
from oomdoctor.patterns import late

# The process that writes python-core-worker-ID_PID.log names its node in its first lines; what it prints goes to
# worker-ID-JOB-PID.out and .err.
_CORE = late(r"python-core-(?:worker|driver)-([0-9a-f]{56})_\d{1,10}(?:\.\d{1,4})?\.log")
_PRINTED = late(r"worker-([0-9a-f]{56})-[0-9a-f]{8}-\d{1,10}\.(?:out|err)")
_RAYLET = late(r"(raylet(?:\.\d{1,4})?)\.(?:out|err)")
_HEAD = 16 * 1024


class Owners:
    """Tells whose a log is by what stands in it, or in the log of the same process."""

    def __init__(self, logs: Path, labels: Mapping[str, str], unknown: str) -> None:
        self._labels = labels  # of the nodes, by their ids
        self._unknown = unknown
        self._of_raylet = {name.removesuffix(".out"): node for name, node in raylets(logs).items()}
        self._of_worker: dict[str, str] = {}
        for path in logs.rglob("python-core-*.log"):
            worker = _CORE.fullmatch(path.name)
            if worker and not path.is_symlink() and (node := _node_named_in(path)):
                self._of_worker[worker[1]] = node

    def of(self, name: str) -> str:
        """The label of the node that wrote the log of this name, or what stands for those that share the folder."""
        last = name.rpartition("/")[2]
        if raylet := _RAYLET.fullmatch(last):
            node = self._of_raylet.get(raylet[1])
        else:
            worker = _CORE.fullmatch(last) or _PRINTED.fullmatch(last)
            node = self._of_worker.get(worker[1]) if worker else None
        return self._labels.get(node or "", self._unknown)


def _node_named_in(path: Path) -> str | None:
    try:
        with path.open("rb") as log:
            named = NODE_ID.search(log.read(_HEAD))
    except OSError:
        return None
    return named[1].decode() if named else None
