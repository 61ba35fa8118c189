from __future__ import annotations

import pytest
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


IN_A_CELL = """~/env/lib/python3.6/site-packages/tensorflow/python/keras/{file} in {function}(self, grad, var)
    224       v_sqrt = math_ops.sqrt(v_t)
--> 225       var_update = {code}
    226           use_locking=self._use_locking)

ResourceExhaustedError: OOM when allocating tensor with shape[300007,512] and type float on /job:localhost/replica:0/\
task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Mul]"""


@pytest.mark.parametrize(
    ("file", "function", "code", "is_of_the_optimizer"),
    [
        ("optimizer_v2/adam.py", "_resource_apply_sparse", "state_ops.assign_sub(var, m_t,", True),
        ("optimizer_v2/optimizer_v2.py", "add_slot", "tf_variables.Variable(", True),
        ("layers/core.py", "call", "gen_math_ops.mat_mul(inputs, kernel,", False),
    ],
)
def test_an_optimizer_of_keras_in_a_notebook(file: str, function: str, code: str, is_of_the_optimizer: bool) -> None:
    log = IN_A_CELL.format(file=file, function=function, code=code)
    assert (ranking(log)[0] == "optimizer-states") is is_of_the_optimizer
