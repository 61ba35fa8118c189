from __future__ import annotations

import pytest
from gpu_logs import crash

from oomdoctor.signs import checkpoints

KILL = "Killed"


@pytest.mark.parametrize(
    ("lines", "ends_there"),
    [
        (("Saving model to out/7",), True),
        (("Saving model to out/7", "uploading the run's notes"), True),
        (("Saving model to out/7", "step 8 loss: 1.48"), False),
        (("epoch 3: loss 0.4", "Saving model to out/7"), True),
        (("the model is large",), False),
    ],
)
def test_a_checkpoint_that_training_went_on_behind(lines: tuple[str, ...], ends_there: bool) -> None:
    assert (checkpoints.a_line_on_a_checkpoint(crash(*lines, KILL)) is not None) is ends_there
