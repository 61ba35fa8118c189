"""Advice that was followed is not given again: what the log shows to be set is set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from remedy_logs import advise, cuda

from oomdoctor import diagnose

FORWARD = (
    "Traceback (most recent call last):\n"
    '  File "/w/site-packages/transformers/trainer.py", line 9, in training_step\n    loss = self.compute_loss(m, x)\n'
    '  File "/w/site-packages/transformers/models/llama/modeling_llama.py", line 300, in forward\n    x = self.mlp(x)\n'
)
REFUSED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB "
    "of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the "
    "allocated memory 76.00 GiB is allocated by PyTorch, and 1.20 GiB is reserved by PyTorch but unallocated.\n"
)
OWN = (
    "Traceback (most recent call last):\n"
    '  File "/w/mine.py", line 9, in step\n    loss.backward()\n'
    '  File "/w/site-packages/torch/_tensor.py", line 300, in backward\n    torch.autograd.backward(self)\n'
)
JOBS = {
    "openrlhf": "python3 -m openrlhf.cli.train_ppo_ray --micro_train_batch_size 8 --zero_stage 2 --vllm_num_engines 4",
    "verl": "python3 -m verl.trainer.main_ppo actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 "
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.6",
    "transformers": "accelerate launch train.py --per_device_train_batch_size 8 --output_dir out",
    "deepspeed": "deepspeed train.py --per_device_train_batch_size 8 --deepspeed ds.json",
    "vllm": "vllm serve Qwen/Qwen2.5-7B --max-model-len 32768 --gpu-memory-utilization 0.95",
    "sglang": "python -m sglang.launch_server --model-path Qwen/Qwen2.5-7B --mem-fraction-static 0.9",
}
LOGS = {
    name: f"{launch}\n" + (REFUSED if name in ("vllm", "sglang") else FORWARD + REFUSED)
    for name, launch in JOBS.items()
}


def incident(log: str, folder: Path) -> dict[str, Any]:
    path = folder / "job.log"
    path.write_text(log)
    (found,) = diagnose(path).as_json()["incidents"]
    return dict(found)


def advice(log: str, folder: Path) -> list[dict[str, Any]]:
    return [remedy for diagnosis in incident(log, folder)["diagnoses"] for remedy in diagnosis["remedies"]]


def followed(log: str, remedy: dict[str, Any]) -> str:
    """The log of the same crash, where the job had been started so."""
    launch, _, rest = log.partition("\n")
    words, before = remedy["snippet"], remedy["current"]
    for old in (f"{remedy['setting']} {before}", f"{remedy['setting']}={before}"):
        if before is not None and old in launch:
            return f"{launch.replace(old, words)}\n{rest}"
    return f"{launch} {words}\n{rest}"


def is_option(remedy: dict[str, Any]) -> bool:
    """Whether it is set where the job is started, and not in its code."""
    setting = remedy["setting"] or ""
    return bool(remedy["snippet"]) and (setting.startswith("--") or "." in setting)


@pytest.mark.parametrize("name", JOBS)
def test_what_was_set_as_advised_is_not_advised(name: str, tmp_path: Path) -> None:
    log = LOGS[name]
    options = {one["setting"]: one for one in advice(log, tmp_path) if one["suggested"] is not None and is_option(one)}
    assert len(options) >= 2
    for setting, remedy in options.items():
        again = [one for one in advice(followed(log, remedy), tmp_path) if one["setting"] == setting]
        assert [one for one in again if one["suggested"] == remedy["suggested"]] == [], remedy["snippet"]
        assert {one["current"] for one in again} <= {remedy["suggested"]}, "it stands in the log"


@pytest.mark.parametrize(
    ("name", "switch"),
    [
        ("openrlhf", "--gradient_checkpointing"),
        ("verl", "actor_rollout_ref.model.enable_gradient_checkpointing=True"),
        ("transformers", "--gradient_checkpointing True"),
    ],
)
def test_a_switch_that_is_on_is_said_to_be_on(name: str, switch: str, tmp_path: Path) -> None:
    log = LOGS[name]
    assert "gradient-checkpointing" in [one["knob"] for one in advice(log, tmp_path)]
    found = incident(log.replace("\n", f" {switch}\n", 1), tmp_path)
    why = {one["knob"]: one["why"] for one in found["remedies_rejected"]}
    assert "already" in why["gradient-checkpointing"]


@pytest.mark.parametrize(
    ("switch", "is_on"),
    [
        ("--gradient_checkpointing", True),
        ("--enable_gradient_checkpointing true", True),
        ("--activation_checkpointing full", True),
        ("--gradient_checkpointing false", False),
        ("--batch_size 8", False),
    ],
)
def test_a_script_of_ones_own_may_spell_it_as_any_framework_does(switch: str, is_on: bool, tmp_path: Path) -> None:
    found = advice(f"python mine.py {switch}\n{OWN}{REFUSED}", tmp_path)
    assert ("gradient-checkpointing" not in [one["knob"] for one in found]) == is_on


@pytest.mark.parametrize(
    ("name", "switch"),
    [
        ("verl", "actor_rollout_ref.model.enable_gradient_checkpointing=False"),
        ("transformers", "--gradient_checkpointing False"),
    ],
)
def test_a_switch_that_is_off_is_advised(name: str, switch: str, tmp_path: Path) -> None:
    found = advice(LOGS[name].replace("\n", f" {switch}\n", 1), tmp_path)
    remedy, *_ = (one for one in found if one["knob"] == "gradient-checkpointing")
    assert (remedy["current"], remedy["suggested"]) == (False, True)


GATHERED = (
    "Traceback (most recent call last):\n"
    '  File "/x/deepspeed/runtime/engine.py", line 9, in _zero3_consolidated_16bit_state_dict\n    p.cpu()\n'
)


@pytest.mark.parametrize(
    ("given", "proposed"),
    [
        ("deepspeed train.py --deepspeed conf/stage3.json\n", True),
        ("deepspeed train.py --deepspeed_config conf/stage3.json\n", True),
        ("deepspeed train.py\n", False),
        ("deepspeed train.py --deepspeed\n", False),
    ],
)
def test_no_default_is_known_of_a_file_that_is_not_printed(given: str, proposed: bool) -> None:
    chosen, rejected = advise(given + GATHERED + cuda(), "sharded-checkpoint")
    assert ("sharded-checkpoint" in chosen, "sharded-checkpoint" in rejected) == (proposed, not proposed)


# The size of the batches, as scripts, tables of metrics and arguments in code name it


@pytest.mark.parametrize(
    ("stated", "now", "snippet"),
    [
        ("JOBS=6", None, "batch_size=1"),
        ("TRAIN_BATCH_SIZE=6", None, "batch_size=1"),  # of all ranks together
        ("set BS=6 where it fits", None, "batch_size=1"),
        ("echo BS=6", None, "batch_size=1"),
        ("BS=6", 6, "BS=3"),
        ("export BATCH_SIZE=6  # per GPU", 6, "BATCH_SIZE=3"),
        ("    Train trainer/device_train_microbatch_size: 6", 6, "device_train_microbatch_size=3"),
        ("Train trainer/microbatch_seconds: 6", None, "batch_size=1"),
    ],
)
def test_a_size_is_known_by_the_name_that_the_log_gives_it(stated: str, now: int | None, snippet: str) -> None:
    frame = '  File "/env/torch/utils/data/dataloader.py", line 7, in __next__\n'
    remedy = advise(f"{stated}\n{frame}{cuda()}", "smaller-microbatch", cause="activations")[0]["smaller-microbatch"]
    assert (remedy.current, remedy.snippet) == (now, snippet)


def test_a_batch_of_one_is_not_halved() -> None:
    chosen, rejected = advise("BS=1\n" + cuda(), "smaller-microbatch", cause="activations")
    assert not chosen
    assert "BS" in rejected["smaller-microbatch"].why
