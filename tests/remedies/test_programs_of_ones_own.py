"""What a program of one's own states on its launch line comes before what is said of any program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

LIMIT = (
    "[1.0] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/job,task_memcg=/job,"
    "task=python,pid=71,uid=0\n"
    "[1.0] Memory cgroup out of memory: Killed process 71 (python) total-vm:1761472kB, anon-rss:1122672kB, "
    "file-rss:121040kB, shmem-rss:0kB, UID:0 pgtables:2840kB oom_score_adj:0\n"
)
REWARDS = "policy: 16.9M parameters\nstep 0: generated 32 answers, reward 0.0518\n"
BACKWARD = (
    "Traceback (most recent call last):\n"
    '  File "/srv/fit.py", line 60, in <module>\n    loss.backward()\n'
    '  File "/env/torch/_tensor.py", line 623, in backward\n    torch.autograd.backward(\n'
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate 268435456 bytes. Error code 12 (Cannot allocate memory)\n"
)
STEPS = "".join(f"step {n} psnr {9 + n}.1 num_gaussians {512 * n}\n" for n in range(2, 12, 2))


def first(tmp_path: Path, log: str) -> dict[str, Any]:
    found: dict[str, Any] = body(tmp_path, log)["diagnoses"][0]
    return found


@pytest.mark.parametrize(
    ("before", "is_turned"),
    [
        ("", True),
        ("INFO verl: using FSDP workers on 8 GPUs\n(TaskRunner pid=12) actor_rollout_ref loaded\n", False),
    ],
)
def test_the_batch_of_a_script_that_learns_is_in_the_memory_that_ran_out(
    tmp_path: Path, before: str, *, is_turned: bool
) -> None:
    launched = "+ python -u fit.py --num_generations 8 --per_device_train_batch_size 32\n"
    remedies = first(tmp_path, before + launched + REWARDS + LIMIT)["remedies"]
    assert (remedies[0]["snippet"] == "--per_device_train_batch_size 8") is is_turned


@pytest.mark.parametrize(
    ("option", "knobs"),
    [
        ("--max-gaussians 0", ["cap-primitives", "smaller-microbatch", "clear-references"]),
        ("--max-points 4096", ["cap-primitives", "smaller-microbatch", "clear-references"]),
        ("--every 4", ["smaller-microbatch", "clear-references"]),
    ],
)
def test_primitives_have_a_limit_of_their_own(tmp_path: Path, option: str, knobs: list[str]) -> None:
    remedies = first(tmp_path, f"+ python -u fit.py {option}\n{STEPS}{BACKWARD}")["remedies"]
    assert [one["knob"] for one in remedies][: len(knobs)] == knobs


SPM = (
    "trainer_interface.cc(232) LOG(INFO) Loading corpus: {corpus}\n"
    "trainer_interface.cc(446) LOG(INFO) Loaded all 400000 sentences\n"
)


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (SPM.format(corpus="corpus.txt") + "Killed\n", "dataset-in-ram"),
        ("loading corpus.txt\nloaded all 400000 sentences\nKilled\n", "killed-without-evidence"),
    ],
)
def test_a_program_that_reads_all_at_once(tmp_path: Path, log: str, cause: str) -> None:
    diagnosis = first(tmp_path, log)
    assert diagnosis["cause"] == cause
    options = [one["setting"] for one in diagnosis["remedies"]]
    assert ("--input_sentence_size" in options) is (cause == "dataset-in-ram")
