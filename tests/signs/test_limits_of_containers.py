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


SLURM = (
    "slurmstepd: error: Detected 2 oom-kill event(s) in step 771.0 cgroup. Some of your processes may have been killed."
)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (("srun: error: c04: task 9: Out Of Memory", "srun: error: c11: task 40: Bus error"), True),
        (("srun: error: c04: task 9: Out Of Memory", "srun: error: c04: task 10: Bus error"), False),
        (("srun: error: c04: task 9: Out Of Memory", "srun: error: c11: task 40: Killed"), False),
        (("srun: error: c[04-12]: tasks 9-14: Out Of Memory", "srun: error: c11: task 40: Bus error"), False),
        (("srun: error: c11: task 40: Bus error",), False),
    ],
)
def test_a_bus_error_of_another_host_is_no_matter_of_the_limit(lines: tuple[str, ...], told: bool) -> None:
    seen = limits.manager_reports_its_limit(crash(SLURM, *lines))
    assert seen is not None
    assert ("a bus error on" in seen.words) == told
