from __future__ import annotations

import pytest
from engine_logs import grade, judged, refusal, traceback
from gpu_logs import ranking, refused

from oomdoctor.decision.judgement import Finding, RuledOut
from oomdoctor.signs import Grade

CAUSE = "weight-sync-spike"
FULL = refusal("1.20 GiB", 79.15, 0.3, 78.5, 70.1)


@pytest.mark.parametrize(
    "frames",
    [
        (("openrlhf/trainer/ray/ppo_actor.py", "training_step"), ("torch/autograd/graph.py", "backward")),
        (("deepspeed/runtime/zero/partition_parameters.py", "all_gather"),),
        (
            ("transformers/trainer.py", "save_model"),
            ("deepspeed/runtime/engine.py", "_zero3_consolidated_16bit_state_dict"),
        ),
        (("vllm/v1/worker/gpu_model_runner.py", "load_model"), ("vllm/model_executor/models/llama.py", "load_weights")),
    ],
)
def test_other_gathering_and_loading(frames: tuple[tuple[str, str], ...]) -> None:
    assert grade(CAUSE, traceback(*frames, end=FULL)) == 0


def test_waking_up_comes_before() -> None:
    log = traceback(
        ("openrlhf/trainer/ray/vllm_engine.py", "wake_up"),
        ("vllm/device_allocator/cumem.py", "create_and_map"),
        end="RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62",
    )
    assert isinstance(judged(CAUSE, log), RuledOut)


@pytest.mark.parametrize(
    "frames",
    [
        (
            ("openrlhf/trainer/ray/ppo_actor.py", "_broadcast_to_vllm"),
            ("torch/distributed/distributed_c10d.py", "broadcast"),
        ),
        (
            ("verl/workers/sharding_manager/fsdp_vllm.py", "update_params"),
            ("verl/workers/fsdp_workers.py", "rollout_mode"),
        ),
        (("trl/trainer/grpo_trainer.py", "_move_model_to_vllm"), ("torch/distributed/tensor/_api.py", "full_tensor")),
        (("vllm/worker/worker.py", "update_weight"), ("vllm/model_executor/models/llama.py", "load_weights")),
    ],
)
def test_handing_the_weights_over(frames: tuple[tuple[str, str], ...]) -> None:
    assert grade(CAUSE, traceback(*frames, end=FULL)) == Grade.NAMES


def test_a_worker_that_names_its_function_needs_no_frames() -> None:
    line = "Exception occurred while running RolloutWorker's function sync_model_from_actor: it died"
    assert ranking(refused(), line)[0] == CAUSE
    assert ranking(refused(), line.replace("sync_model_from_actor", "reload_states"))[0] != CAUSE


def test_what_was_asked_for_is_told_also_where_what_was_free_is_cut() -> None:
    sent = traceback(("openrlhf/trainer/ray/launcher.py", "_broadcast_to_vllm"), end="{}")
    whole, cut = (judged(CAUSE, sent.format(end)) for end in (FULL, FULL.partition(" GPU 0")[0]))
    assert isinstance(whole, Finding)
    assert whole.why.endswith("An allocation of 1.20 GiB failed with 307 MiB free.")
    assert isinstance(cut, Finding)
    assert cut.why.endswith("An allocation of 1.20 GiB failed.")


@pytest.mark.parametrize(("how", "is_seen"), [("killed by `ray.kill`", False), ("it died", True)])
def test_whose_actor_ray_killed_does_not_tell_which_step_it_was(how: str, is_seen: bool) -> None:
    line = f"Exception occurred while running RolloutWorker's function sync_model_from_actor: {how}"
    found = judged(CAUSE, f"{refused()}\n{line}\n")
    assert isinstance(found, Finding)
    assert ("sync-in-parts" in found.knobs) is is_seen
    assert ("which function asked for the memory is not in the log" in found.against) is not is_seen


@pytest.mark.parametrize(
    ("function", "does"),
    [
        ("sync_model_from_actor", "receives weights"),
        ("update_weights_from_trainer", "receives weights"),
        ("sync_model_to_rollout", "sends weights"),
    ],
)
def test_the_name_says_which_way_the_weights_go(function: str, does: str) -> None:
    line = f"Exception occurred while running KilnWorker's function {function}: killed by `ray.kill`"
    found = judged(CAUSE, f"{refused()}\n{line}\n")
    assert isinstance(found, Finding)
    assert does in found.why
    assert "gathered" not in found.why
    assert grade(CAUSE, f"{refused()}\n{line}\n") == Grade.HINTS


CALLED = "ray.exceptions.RayTaskError(OutOfMemoryError): ray::{call}() (pid=77, ip=10.0.0.4, actor_id=5edb2e28)"


@pytest.mark.parametrize(
    ("call", "grades"),
    [
        ("FSDPPolicyWorker.broadcast_to_inference_engines", Grade.POINTS),
        ("PolicyModelActor.broadcast_to_vllm", Grade.POINTS),
        ("FSDPPolicyWorker.ppo_train", 0),
        ("Router.send_to_engine", 0),
    ],
)
def test_the_method_of_a_worker_says_it_where_the_traceback_is_cut(call: str, grades: int) -> None:
    cut = '  File "/opt/py/concurrent/futures/_base.py", line 449, in result\n    return self.__get_result()'
    assert grade(CAUSE, f"{CALLED.format(call=call)}\n{cut}") == grades
