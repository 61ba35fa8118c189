"""Commands to copy hold nothing of a log that a shell would run."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from payloads import MARK, reported

from oomdoctor.remedies import settings
from oomdoctor.report.contract import Report
from oomdoctor.spellings import frameworks

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
SHELL = shutil.which("bash")
needs_bash = pytest.mark.skipif(SHELL is None, reason="no bash here")

# A restricted shell that finds no program and may write nothing: what it would run it says it cannot find.
_DRY = 'enable -n kill exit exec; for line; do eval "$line"; done; true'

OOM = (
    'Traceback (most recent call last):\n  File "/w/train.py", line 3, in training_step\n    loss.backward()\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacity of 23.60 GiB "
    "of which 1.25 GiB is free. Process 4711 has 8.00 GiB memory in use. Of the allocated memory 14.00 GiB is "
    "allocated by PyTorch, and 90.00 MiB is reserved by PyTorch but unallocated.\n"
)
SLURM = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=77{word}.batch. Some of the step tasks have been OOM "
    "Killed.\n"
)
KERNEL = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/docker/{word},task_memcg=/docker/{word},task={word},pid=41,uid=0\n"
    "Memory cgroup out of memory: Killed process 41 ({word}) total-vm:9kB, anon-rss:9kB, file-rss:0kB, shmem-rss:0kB\n"
)
RAY = (
    "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\nMemory on the node "
    "(IP: {ip}, ID: 00ff) where the task (actor ID: 0a0b, name={word}, pid=41, memory used=3.00GB) was running was "
    "60.00GB / 62.00GB (0.967742), which exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: "
    "0c0d) because it was the most recently scheduled task; to see more information about memory usage on this node, "
    "use `ray logs raylet.out -ip {ip}`.\n"
)
TEMPLATES = (
    "python3 -m verl.trainer.main_ppo actor_rollout_ref.{word}.ppo_micro_batch_size_per_gpu=8\n" + OOM,
    "python3 -m verl.trainer.main_ppo '{word}.ppo_micro_batch_size_per_gpu=8'\n" + OOM,
    "python -m openrlhf.cli.train_ppo_ray --{word}.micro_train_batch_size 8 --{word}_micro_train_batch_size 8\n" + OOM,
    "python -m openrlhf.cli.train_ppo_ray --micro_train_batch_size 8 --zero_stage '{word}' --pretrain {word}\n" + OOM,
    "{{'actor_rollout_ref': {{'{word}.ppo_micro_batch_size_per_gpu': 8, '{word}': {{'micro_batch': 4}}}}}}\n" + OOM,
    "vllm serve /m --{word}.max_num_seqs 256 --max-num-seqs=256 --kv-cache-dtype={word}\n" + OOM,
    "INFO non-default args: {{'model': '{word}', '{word}.max_num_seqs': 4, 'kv_cache_dtype': '{word}'}}\n" + OOM,
    "overrides: ['{word}.ppo_micro_batch_size_per_gpu=8', 'data.{word}=3']\n" + OOM,
    "TrainingArguments(per_device_train_batch_size=8, {word}.per_device_train_batch_size=8)\n" + OOM,
    "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512,{word} python train.py --per_device_train_batch_size 8\n" + OOM,
    RAY.replace("{ip}", "10.0.0.7;{word}"),
    RAY.replace("{ip}", "{word}"),
    "--remote_rm_url http://{word}:5000/{word} --reward_pretrain {word} --port 5000\n" + RAY.replace("{ip}", "1.2.3.4"),
    "SLURM_JOB_ID=77{word}\nsrun: error: {word}: task 0: Killed\n",
    SLURM,
    KERNEL,
)  # fmt: skip
WORDS = (f"$({MARK})", f"`{MARK}`", f"a;{MARK};b", f"';{MARK};'", f'"$({MARK})"', f"{MARK}")


def to_copy(report: Report) -> Iterator[str]:
    for incident in report.incidents:
        yield from incident.next_evidence
        for diagnosis in incident.diagnoses:
            yield from (remedy.snippet for remedy in diagnosis.remedies if remedy.snippet)


def complaints(lines: Iterable[str]) -> str:
    """What a shell says of them that finds no program."""
    done = subprocess.run(
        [SHELL or "bash", "--noprofile", "--norc", "-r", "-c", _DRY, "bash", *lines],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={"PATH": "/nowhere", "LC_ALL": "C"},
        timeout=60,
    )
    return done.stderr


@cache
def attacked() -> tuple[str, ...]:
    logs = (template.format(word=word) for template in TEMPLATES for word in WORDS)
    return tuple(dict.fromkeys(line for log in logs for line in to_copy(reported(log))))


def test_a_word_that_could_be_run_stands_in_no_command() -> None:
    """Only in the name of an option, where nothing but letters, digits, dots and dashes are taken for one."""
    assert len(attacked()) > 10
    assert [line for line in attacked() if MARK in line and not re.fullmatch(r"[\w.-]+[= ]\d+", line)] == []


@needs_bash
def test_a_shell_runs_nothing_of_it() -> None:
    said = complaints(attacked())
    assert "not found" in said, "the shell ran none of the commands"
    assert f"{MARK}: command not found" not in said


@needs_bash
@pytest.mark.parametrize("word", WORDS[:4])
def test_the_shell_would_say_so(word: str) -> None:
    ran = "'" not in word
    assert (f"{MARK}: command not found" in complaints([f"ray logs {word}"])) == ran


def test_strict_forms_do_come_through() -> None:
    lines = set(to_copy(reported(RAY.format(ip="10.0.0.7", word="train"))))
    assert any(" -ip 10.0.0.7 " in line for line in lines)
    assert any("sacct -j 77 " in line for line in to_copy(reported(SLURM.format(word=""))))


@needs_bash
@pytest.mark.parametrize("framework", frameworks())
def test_a_value_that_is_put_into_an_option_is_quoted(framework: str) -> None:
    hostile = [f"fp8'; {MARK}; '", f"$({MARK})", f'"; {MARK}; "', f"`{MARK}`"]
    lines = [row.snippet(value) or "" for row in settings.rows(framework) for value in hostile if row.takes_value]
    assert f"{MARK}: command not found" not in complaints(line for line in lines if line.startswith(("-", "export ")))
    assert all(MARK not in line or "'" in line for line in lines)
