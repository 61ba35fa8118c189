from __future__ import annotations

from gpu_logs import crash, finding, missing, ranking, ruled_out, says
from host_logs import LEFTOVERS, REWARD_SERVER, TRAINERS, kill, table

from oomdoctor.causes.reward_model_ram_hog import CAUSE
from oomdoctor.signs import Grade
from oomdoctor.signs.node import a_reward_model_in_32_bits


def test_not_where_the_reward_model_is_small() -> None:
    small = (31207, 4.1, "python -m serve_reward_model --port 5005")
    assert "4.10 GiB" in ruled_out(CAUSE, *kill((1, 180.0, "python train.py"), small))


def test_not_where_no_process_is_a_reward_model() -> None:
    assert says(CAUSE, *kill((1, 180.0, "python train.py"), *TRAINERS)) is None


def test_not_because_the_victim_is_one() -> None:
    lines = kill((1, 180.0, "python train.py"), victim="RewardModelActor.__init__", pid=77)
    assert says(CAUSE, *lines) is None


def test_without_a_table_it_asks_for_it() -> None:
    launch = "python3 -m openrlhf.cli.train_ppo_ray --remote_rm_url http://localhost:5005/get_reward --zero_stage 2"
    assert "only the worker it killed" in missing(CAUSE, launch, *kill())


def test_a_server_outside_ray() -> None:
    found = finding(CAUSE, *kill(REWARD_SERVER, *TRAINERS[:2]))
    assert found.grade is Grade.PROVES
    assert "171.44 GiB of the 239.40 GiB in use" in found.why
    assert "outside Ray" in found.why
    assert "LLMRayActor.__init__ (PID 40677, 6.31 GiB), which did not fill the node" in found.why
    assert ranking(*kill(REWARD_SERVER, *TRAINERS[:2]))[0] == "reward-model-ram-hog"


def test_an_actor_inside_ray() -> None:
    rows = ((24093, 6.04, "ray::RewardModelActor"), (24094, 0.51, "ray::rollout"), *LEFTOVERS)
    found = finding(CAUSE, *kill(*rows, used=9.23, total=23.54, victim="rollout", own=0.51))
    assert "outside Ray" not in found.why


def test_the_killed_process_itself_is_no_other() -> None:
    rows = ((24093, 6.04, "ray::RewardModelActor"), *LEFTOVERS)
    assert "not what filled" not in finding(CAUSE, *kill(*rows, used=9.23, pid=24093)).why


def test_a_table_alone_is_enough() -> None:
    assert "of the 190.21 GiB listed in the table" in finding(CAUSE, *table([REWARD_SERVER, (2, 18.77, "ray::x")])).why


def test_several_reward_models_count_together() -> None:
    servers = tuple((900 + n, 70.0, f"python -m serve_reward_model --port {n}") for n in range(2))
    why = finding(CAUSE, *kill(*servers, *TRAINERS)).why
    assert "2 serve_reward_model processes hold 140.00 GiB of the 239.40 GiB in use (of 251.60 GiB): 58%." in why
    assert "They run outside Ray" in why


def test_its_weights_are_wide_where_its_own_setting_says_so() -> None:
    lines = kill(REWARD_SERVER, *TRAINERS[:2])
    assert a_reward_model_in_32_bits(crash("args: {'policy_dtype': 'float32'}", *lines)) is None
    assert a_reward_model_in_32_bits(crash("args: {'reward_dtype': 'bfloat16'}", *lines)) is None
    assert a_reward_model_in_32_bits(crash("args: {'reward_dtype': 'float32'}", *lines)) is not None
