"""DeepSpeed makes ZeRO's states before the first batch."""

from __future__ import annotations

import pytest
from gpu_logs import FORWARD, crash, refused, trace

from oomdoctor.signs import optimizer

ENGINE = "deepspeed/runtime/engine.py"
INIT = (ENGINE, "__init__", "self._configure_optimizer(optimizer, model_parameters)")
ZERO = (ENGINE, "_configure_zero_optimizer", "optimizer = DeepSpeedZeroOptimizer(")
MODEL = (ENGINE, "_configure_distributed_model", "self.module.to(self.device)")


@pytest.mark.parametrize(
    ("frames", "seen"),
    [((INIT, ZERO), True), ((ZERO,), True), ((INIT,), False), ((INIT, MODEL), False), ((FORWARD,), False)],
)
def test_the_optimizer_of_zero_is_set_up(frames: tuple[tuple[str, str, str], ...], seen: bool) -> None:
    failed = crash(*trace(*frames), refused(own="78.82 GiB", allocated=None))
    assert (optimizer.zero_sets_up_its_optimizer(failed) is not None) is seen


def test_its_frames_below_a_torn_message_tell_too() -> None:
    failed = crash(refused(own="78.82 GiB", allocated=None), *trace(INIT, ZERO))
    assert (optimizer.zero_sets_up_its_optimizer(failed) is not None) is True


def test_a_pass_behind_the_set_up_is_no_set_up() -> None:
    failed = crash(*trace(INIT, ZERO), "step 1", *trace(FORWARD), refused(own="78.82 GiB", allocated=None))
    assert optimizer.zero_sets_up_its_optimizer(failed) is None
