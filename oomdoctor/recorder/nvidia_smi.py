"""GPU memory through `nvidia-smi`, which takes a good part of a second for an answer."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from typing import Final

from oomdoctor.recorder.cards import Card, Cards
from oomdoctor.units import MIB

PROGRAM: Final = "nvidia-smi"
PATIENCE_S: Final = 20


class NvidiaSmi:
    def __init__(self, program: str) -> None:
        self._program = program

    def read(self) -> Cards:
        """The cards with their processes."""
        users: dict[str, list[tuple[int, int]]] = {}
        for uuid, pid, used in self._rows("--query-compute-apps=gpu_uuid,pid,used_memory", 3):
            if pid.isdecimal() and used.isdecimal():
                users.setdefault(uuid, []).append((int(pid), int(used) * MIB))
        return tuple(
            Card(int(index), int(used) * MIB, int(total) * MIB, tuple(users.get(uuid, ())))
            for uuid, index, used, total in self._rows("--query-gpu=uuid,index,memory.used,memory.total", 4)
            if index.isdecimal() and used.isdecimal() and total.isdecimal()
        )

    def _rows(self, query: str, columns: int) -> Iterator[list[str]]:
        done = subprocess.run(  # noqa: S603  (a program of the driver's, found on the path)
            [self._program, query, "--format=csv,noheader,nounits"],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            start_new_session=True,  # Ctrl-C is the job's
        )
        for line in done.stdout.splitlines() if done.returncode == 0 else ():
            cells = [cell.strip() for cell in line.split(",")]
            if len(cells) == columns:
                yield cells


def program() -> NvidiaSmi | None:
    found = shutil.which(PROGRAM)
    return NvidiaSmi(found) if found else None
