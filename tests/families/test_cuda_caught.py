"""Refusals that a program catches, and those that it dies of: what is printed behind the last of them tells."""

from __future__ import annotations

from oomdoctor import families, streams
from oomdoctor.families import Lookalike
from oomdoctor.families.cuda import DeviceOutOfMemory

REFUSAL = (
    "batch {n} is too large, CUDA out of memory. Tried to allocate 2.{n:02d} GiB (GPU 0; 79.15 GiB total capacity)"
)


def found(lines: list[str]) -> list[families.Read]:
    return list(families.read(streams.page("job.log", 1, "\n".join(lines).encode())))


def test_progress_behind_the_last_of_them_shows_that_all_were_caught() -> None:
    lines = [REFUSAL.format(n=n) for n in range(20)]
    assert all(isinstance(read, Lookalike) for read in found([*lines, "step 21 loss 0.5"]))
    assert sum(isinstance(read, DeviceOutOfMemory) for read in found(lines)) == 20


def test_only_what_stands_behind_the_death_is_survived() -> None:
    lines = [REFUSAL.format(n=1), "Killed", REFUSAL.format(n=2), "step 3 loss 0.5"]
    kinds = [type(read) for read in found(lines) if isinstance(read, DeviceOutOfMemory | Lookalike)]
    assert kinds[0] is DeviceOutOfMemory
    assert kinds[-1] is Lookalike
