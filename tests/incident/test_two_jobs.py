"""Logs of two jobs read together: what one of them is set to is no remedy for the other's crash."""

from __future__ import annotations

from pathlib import Path

from oomdoctor import diagnose
from oomdoctor.job.context import ContextBuilder
from oomdoctor.report.contract import Report
from oomdoctor.streams import page

REFUSAL = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.25 GiB. GPU 0 has a total capacity of 79.15 GiB "
    "of which {free} MiB is free. Including non-PyTorch memory, this process has 78.90 GiB memory in use. Of the "
    "allocated memory 75.10 GiB is allocated by PyTorch, and 1.20 GiB is reserved by PyTorch but unallocated."
)
VERL = (
    "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.gpu_memory_utilization=0.6\n"
    "Traceback (most recent call last):\n"
    '  File "/w/verl/workers/actor/dp_actor.py", line 310, in update_policy\n'
    "    loss.backward()\n"
)
LLAMAFACTORY = (
    "llamafactory-cli train --per_device_train_batch_size 8 --cutoff_len 4096\n"
    "Traceback (most recent call last):\n"
    '  File "/w/src/llamafactory/train/sft/workflow.py", line 90, in run_sft\n'
    '  File "/env/lib/python3.11/site-packages/transformers/trainer.py", line 3700, in training_step\n'
)


def builder(**files: str) -> ContextBuilder:
    made = ContextBuilder()
    for name, log in files.items():
        made.add(page(name, 1, log.encode()))
    return made


def told(tmp_path: Path, **files: str) -> Report:
    for name, log in files.items():
        (tmp_path / f"{name}.log").write_text(log, encoding="utf-8")
    return diagnose(*sorted(tmp_path.iterdir()))


def test_what_another_job_is_set_to_is_not_of_this_one() -> None:
    both = builder(verl=VERL, tuning=LLAMAFACTORY)
    assert {"verl", "llamafactory"} <= both.build().frameworks.keys()
    assert "llamafactory" not in both.of("verl").frameworks
    assert both.of("verl").setting("cutoff_len") is None
    assert both.of("tuning").setting("gpu_memory_utilization") is None
    assert both.of("tuning").setting("cutoff_len") is not None


def test_files_that_name_no_trainer_may_be_of_any_job() -> None:
    ray = "2026-01-02 03:04:05 INFO -- Started a local Ray instance.\nexport RAY_memory_usage_threshold=0.9\n"
    both = builder(verl=VERL, tuning=LLAMAFACTORY, raylet=ray)
    assert both.of("verl").setting("RAY_memory_usage_threshold") is not None
    assert both.of("raylet").setting("cutoff_len") is not None


def test_a_fork_and_what_it_comes_from_are_one_job() -> None:
    fork = "cd /data/simpleRL-reason\nexport RAY_memory_usage_threshold=0.9\n"
    assert builder(verl=VERL, fork=fork).of("verl").setting("RAY_memory_usage_threshold") is not None


def test_what_a_file_says_itself_counts_before_what_another_says() -> None:
    first = VERL
    second = VERL.replace("=0.6", "=0.8")
    both = builder(first=first, second=second)
    for file, share in (("first", 0.6), ("second", 0.8)):
        setting = both.of(file).setting("gpu_memory_utilization")
        assert setting is not None
        assert (setting.value, setting.file) == (share, file)


def test_a_mention_does_not_go_before_the_flag_of_another_file() -> None:
    flag = "python3 -m verl.trainer.main_ppo --max_num_seqs 64\n"
    mention = "INFO WorkerDict starts with max_num_seqs=128\n"
    setting = builder(launch=flag, worker=mention).of("worker").setting("max_num_seqs")
    assert setting is not None
    assert setting.value == 64


def test_two_jobs_that_fail_are_two_crashes_with_their_own_remedies(tmp_path: Path) -> None:
    report = told(
        tmp_path,
        rl=VERL + REFUSAL.format(free="250.50"),
        tuning=LLAMAFACTORY + REFUSAL.format(free="251.50"),
    )
    assert len(report.incidents) == 2
    spelled = [
        " ".join(remedy.snippet or "" for diagnosis in incident.diagnoses for remedy in diagnosis.remedies)
        for incident in report.incidents
    ]
    assert "actor_rollout_ref" in spelled[0]
    assert "actor_rollout_ref" not in spelled[1]
    assert "per_device_train_batch_size" in spelled[1]
    assert "per_device_train_batch_size" not in spelled[0]


def test_two_files_of_one_job_are_one_crash(tmp_path: Path) -> None:
    report = told(tmp_path, rank0=VERL + REFUSAL.format(free="250.50"), rank1=VERL + REFUSAL.format(free="251.50"))
    assert len(report.incidents) == 1


def test_what_grows_in_another_job_is_no_leak_of_this_one(tmp_path: Path) -> None:
    steps = "".join(
        f"step:{n} - perf/cpu_memory_used_gb:{200 + 25 * n}.5 - perf/max_memory_allocated_gb:60.1\n" for n in range(8)
    )
    killed = "/w/src/llamafactory/launcher.py\nstep 3 loss 1.2\nKilled\n"
    alone = told(tmp_path, rl=steps + "Killed\n")
    assert alone.incidents[0].trajectory is not None
    assert alone.incidents[0].diagnoses[0].cause == "host-memory-leak"
    (tmp_path / "rl.log").write_text(steps, encoding="utf-8")
    both = told(tmp_path, tuning=killed)
    assert both.incidents[0].trajectory is None


def test_a_kill_in_another_job_is_no_consequence_of_this_crash(tmp_path: Path) -> None:
    report = told(
        tmp_path,
        rl=VERL + REFUSAL.format(free="250.50"),
        tuning="/w/src/llamafactory/launcher.py\nstep 3 loss 1.2\nKilled\n",
    )
    assert [incident.verdict for incident in report.incidents] == ["oom", "inconclusive"]
    assert len(report.incidents[0].events) == 1
