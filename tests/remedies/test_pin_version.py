from __future__ import annotations

from remedy_logs import advise, cuda

LAUNCH = "python -m openrlhf.cli.train_ppo_ray --zero_stage 3 --gradient_checkpointing --pretrain /m/llama3_70b\n"
BACKWARD = '  File "/x/torch/autograd/graph.py", line 1, in _engine_run_backward\n'
WHAT = "pin-version"
CAUSE = "framework-regression"


def test_not_a_regression_by_its_version_alone() -> None:
    launch = LAUNCH.replace("--gradient_checkpointing ", "")
    remedy = advise(f"deepspeed 0.16.3\n{launch}{BACKWARD}{cuda()}", WHAT, cause="gpu-memory-leak")[0][WHAT]
    assert remedy.suggested is None
    assert remedy.snippet == "pip install --upgrade deepspeed"
    assert "no known regression matches" in remedy.action


def test_nothing_without_any_version() -> None:
    remedy = advise(BACKWARD + cuda(), WHAT, cause="gpu-memory-leak")[0][WHAT]
    assert remedy.suggested is None
    assert remedy.assumes == ()


def test_a_sound_version_is_not_replaced() -> None:
    remedy = advise(f"deepspeed 0.16.9\n{LAUNCH}{BACKWARD}{cuda()}", WHAT, cause=CAUSE)[0][WHAT]
    assert remedy.suggested is None


def test_the_range_and_the_printed_version_derive_it() -> None:
    remedy = advise(f"deepspeed 0.16.3\n{LAUNCH}{BACKWARD}{cuda()}", WHAT, cause=CAUSE)[0][WHAT]
    assert (remedy.setting, remedy.current, remedy.suggested) == ("deepspeed", "0.16.3", "0.16.8")
    assert remedy.derivation is not None
    assert "deepspeed >=0.16.0 <0.16.8; fixed in 0.16.8; deepspeed 0.16.3 (from the log)" in remedy.derivation
    assert remedy.assumes == ()
    assert remedy.reference == "https://github.com/deepspeedai/DeepSpeed/issues/7116"


def test_the_framework_that_pins_it_goes_first() -> None:
    remedy = advise(f"openrlhf 0.7.1\n{LAUNCH}{BACKWARD}{cuda()}", WHAT, cause=CAUSE)[0][WHAT]
    assert remedy.action.startswith("Upgrade openrlhf to 0.8.1 or later (pins deepspeed 0.16.8), or install")
    assert remedy.snippet == "pip install 'openrlhf>=0.8.1'"
    assert remedy.derivation is not None
    assert "openrlhf 0.7.1 pins one" in remedy.derivation


def test_a_framework_of_a_later_release_is_not_upgraded() -> None:
    log = f"openrlhf 0.9.0\ndeepspeed 0.16.3\n{LAUNCH}{BACKWARD}{cuda()}"
    remedy = advise(log, WHAT, cause=CAUSE)[0][WHAT]
    assert remedy.action.startswith("Use deepspeed>=0.16.8:")
    assert remedy.snippet == "pip install 'deepspeed>=0.16.8'"


def test_a_guess_at_the_version_is_named() -> None:
    remedy = advise(f"{LAUNCH}{BACKWARD}{cuda()}", WHAT, cause=CAUSE)[0][WHAT]
    assert remedy.snippet == "pip install 'deepspeed>=0.16.8'"
    assert "check `pip show deepspeed`" in remedy.assumes[0]


def test_a_setting_where_no_release_is_known() -> None:
    log = (
        "accelerate launch grpo.py --use_vllm true\ntrl 1.2.0\n"
        '  File "/x/vllm/model_executor/models/llama.py", line 1, in forward\n' + cuda()
    )
    remedy = advise(log, WHAT, cause=CAUSE)[0][WHAT]
    assert remedy.snippet == "--vllm_mode server"
    assert (remedy.setting, remedy.suggested) == (None, None)
