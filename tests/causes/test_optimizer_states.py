from __future__ import annotations

from gpu_logs import ADAM, BACKWARD, FORWARD, finding, ranking, refused, ruled_out, says, trace

from oomdoctor.causes.optimizer_states import CAUSE
from oomdoctor.signs import Grade

BACKWARD_OF_ACCELERATE = ("accelerate/accelerator.py", "backward", "self.deepspeed_engine_wrapped.backward(loss)")


def test_not_in_the_backward_pass() -> None:
    assert "backward" in ruled_out(CAUSE, *trace(BACKWARD), refused())


def test_not_in_a_forward_pass_that_the_step_runs_as_its_closure() -> None:
    step = ("torch/optim/lbfgs.py", "step", "orig_loss = closure()")
    assert ranking(*trace(step, FORWARD, BACKWARD), refused())[0] == "activations"


def test_not_by_a_word_in_the_log() -> None:
    assert says(CAUSE, "INFO creating the optimizer AdamW", refused()) is None


def test_not_the_scheduler_that_lives_beside_it() -> None:
    assert says(CAUSE, *trace(("torch/optim/lr_scheduler.py", "step", "values = self.get_lr()")), refused()) is None


def test_states_that_are_made_at_the_first_step() -> None:
    found = finding(CAUSE, *trace(ADAM), refused(tried="112.00 MiB"))
    assert found.grade == Grade.NAMES
    assert "first step" in found.why


def test_accelerate_steps_the_optimizer_inside_backward() -> None:
    assert ranking(*trace(BACKWARD_OF_ACCELERATE, ADAM), refused())[0] == "optimizer-states"


def test_a_later_step_that_needs_room_for_its_intermediates() -> None:
    foreach = (
        "torch/optim/adamw.py",
        "_multi_tensor_adamw",
        "exp_avg_sq_sqrt = torch._foreach_sqrt(device_exp_avg_sqs)",
    )
    assert ranking(*trace(foreach), refused())[0] == "optimizer-states"


def test_a_later_step_is_not_called_the_first() -> None:
    foreach = ("torch/optim/adamw.py", "_multi_tensor_adamw", "denom = torch._foreach_add(exp_avg_sq_sqrt, eps)")
    assert "In the optimizer step" in finding(CAUSE, *trace(foreach), refused()).why


def test_a_step_of_the_jobs_own() -> None:
    step = ("app/trainer.py", "optimizer_step", "scaler.step(self.opt)")
    assert "In the optimizer step, an allocation of 512 MiB failed" in finding(CAUSE, *trace(step), refused()).why
    assert says(CAUSE, *trace(("app/trainer.py", "take_step", "self.pipe.step(batch)")), refused()) is None
