"""What a job's own last lines say that it keeps in host memory, and what they say of something else."""

from __future__ import annotations

import pytest
from gpu_logs import crash

from oomdoctor.signs import moved_to_host

KILL = "Killed"


@pytest.mark.parametrize(
    ("lines", "is_kept"),
    [
        (("placing experts of layer 7 on the host",), True),
        (("layer 12: moved weights to cpu", "layer 13: moved weights to cpu"), True),
        (("optimizer states kept in host memory so far: 41 tensors",), True),
        (("kv blocks in pinned host memory: 5.8 GiB",), True),
        (("offloading activations to RAM", "step 4"), True),
        (("offloading activations to RAM", "step 4", "step 5", "step 6"), False),  # long ago
        (("moved weights to cuda:0",), False),
        (("moved the batch to cpu",), False),
        (("moving weights from the host to cuda:0", "experts back on the cpu"), False),
        (("saving optimizer states to host memory",), False),
        (("weights are not kept in host memory",), False),
        (("the host has 5.8 GiB",), False),
    ],
)
def test_parts_of_a_model_on_the_host(lines: tuple[str, ...], is_kept: bool) -> None:
    assert (moved_to_host.its_lines_move_to_the_host(crash(*lines, KILL)) is not None) is is_kept
