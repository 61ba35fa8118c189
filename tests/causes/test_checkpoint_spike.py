from __future__ import annotations

from pathlib import Path

import pytest
from gpu_logs import FORWARD, finding, frame, ranking, refused, says, trace
from host_logs import TRAINERS, kill

from oomdoctor import diagnose
from oomdoctor.causes.checkpoint_spike import CAUSE
from oomdoctor.signs import Grade

SAVING = ("verl/trainer/ppo/ray_trainer.py", "_save_checkpoint", "self.actor_rollout_wg.save_checkpoint(")
GATHER = ("torch/distributed/fsdp/_state_dict_utils.py", "_full_post_state_dict_hook", "tensor = tensor.cpu()")


def test_not_a_forward_pass() -> None:
    assert says(CAUSE, *trace(FORWARD), refused()) is None


def test_not_a_checkpoint_that_was_saved_long_before() -> None:
    later = [f"step {n} loss 0.7" for n in range(80)]
    assert says(CAUSE, "Saving model checkpoint to /ckpt/step_20", *later, *kill(*TRAINERS)) is None


def test_not_loading_weights_into_an_engine() -> None:
    engine = frame("vllm/model_executor/model_loader/loader.py", "load_weights", "model.load_weights(")
    assert says(CAUSE, "Traceback (most recent call last):", *engine, refused()) is None


def test_the_trainer_was_saving() -> None:
    lines = (*trace(SAVING), *kill(*TRAINERS))
    found = finding(CAUSE, *lines)
    assert found.stage == "checkpoint_save"
    assert "_save_checkpoint" in found.why


def test_a_full_state_is_gathered_on_a_card() -> None:
    lines = (*trace(GATHER), refused(tried="982.00 MiB"))
    assert "982 MiB requested" in finding(CAUSE, *lines).why
    assert ranking(*lines)[0] == "checkpoint-spike"


def test_a_line_just_before_the_kill_names_the_step_and_proves_nothing() -> None:
    found = finding(CAUSE, "Saving model checkpoint to /ckpt/step_20", *kill())
    assert "while the job saved a checkpoint" in found.why
    assert found.grade is Grade.NAMES


def test_not_a_state_that_is_gathered_for_an_engine() -> None:
    handing_over = ("verl/workers/sharding_manager/fsdp_vllm.py", "__enter__", "params = self.module.state_dict()")
    lines = (*trace(handing_over, GATHER), refused(tried="982.00 MiB"))
    assert says(CAUSE, *lines) is None
    assert ranking(*lines)[0] == "weight-sync-spike"


KILLED = (
    "[2031-02-03 04:05:06,789] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 6161",
    "[2031-02-03 04:05:09,123] [ERROR] [launch.py:321:h] ['python', '--save_steps', '40'] exits with return code = -9",
)


def test_a_step_at_which_a_checkpoint_is_due_is_no_saving_that_was_seen() -> None:
    assert "is due" in finding(CAUSE, " 20%|##        | 80/400 [1:06:40<4:26:40, 50.00s/it]", *KILLED).why
    named = finding(CAUSE, "Saving checkpoint:  20%|##        | 80/400 [1:06:40<4:26:40, 50.00s/it]", *KILLED).why
    said = finding(
        CAUSE, " 20%|##        | 80/400 [1:06<4:26, 50.00s/it]", "Saving model checkpoint to out", *KILLED
    ).why
    assert "is due" not in named + said
    assert "saved a checkpoint" in named


CUT = (
    "step 20 loss 0.2",
    "Traceback (most recent call last):",
    '  File "/opt/rl/train.py", line 472, in fit',
    "    policy.{call}(",
    '  File "/opt/rl/policy.py", line 325, in {call}',
    "    ray.get(futures)",
)


@pytest.mark.parametrize(
    ("call", "end", "saves"),
    [
        ("save_checkpoint", "", True),
        ("generate", "", False),
        ("save_checkpoint", "OSError: [Errno 28] No space left on device", False),
    ],
)
def test_a_log_that_ends_where_a_state_is_saved(tmp_path: Path, call: str, end: str, *, saves: bool) -> None:
    log = tmp_path / "job.log"
    log.write_text("\n".join((*CUT, end)).format(call=call))
    report = diagnose(log).as_json()
    assert [answer["cause"] for answer in report["diagnoses"]] == (["checkpoint-spike"] if saves else [])
    knobs = {remedy["knob"] for answer in report["diagnoses"] for remedy in answer["remedies"]}
    assert "offload-parameters" not in knobs
