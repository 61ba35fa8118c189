from __future__ import annotations

import pytest
from gpu_logs import crash

from oomdoctor.signs import limits

HEAD = "CONTAINER ID   NAME   CPU %   MEM USAGE / LIMIT   MEM %   NET I/O   BLOCK I/O   PIDS"


def row(gib: float) -> str:
    return f"5f1c22ab90d1   a   80.20%   {gib}GiB / 100GiB   {gib}%   1GB / 2GB   0B / 0B   412"


@pytest.mark.parametrize(
    ("lines", "full"),
    [
        ((HEAD, row(90.0), "Killed"), True),
        ((HEAD, row(89.9), "Killed"), False),
        ((HEAD, row(99.0), HEAD, row(20.0), "Killed"), False),
        (("Killed", HEAD, row(99.0)), False),
        (("RAM: 99.0/100.0 GB", "Killed"), False),  # the machine's
    ],
)
def test_dockers_last_print_before_a_kill(lines: tuple[str, ...], full: bool) -> None:
    seen = limits.container_was_nearly_full(crash(*lines))
    assert (seen is not None) == full
    assert seen is None or seen.pool == "cgroup"
