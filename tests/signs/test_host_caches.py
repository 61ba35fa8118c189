"""Caches in host memory that grow beyond what there is: llama.cpp's of prompts, and near misses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_logs import crash

import oomdoctor
from oomdoctor.signs import host_caches

KILL = (
    "llama-server invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "memory: usage 1048576kB, limit 1048576kB, failcnt 0",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/job,task_memcg=/job,task=llama-server,pid=712",
    "Memory cgroup out of memory: Killed process 712 (llama-server) total-vm:2329060kB, anon-rss:1048576kB",
)
STATE = "srv        update:  - cache state: {} prompts, {:.3f} MiB (limits: {:.3f} MiB, 2048 tokens)"
LAUNCH = ("+ llama-server -m tiny.gguf -c 2048", "llama_context: n_ctx = 2048")


@pytest.mark.parametrize(
    ("size", "limit", "fills"),
    [
        (256, 8192, True),  # a quarter
        (255, 8192, False),
        (512, 1000, False),  # it ends below what there is
    ],
)
def test_a_cache_of_prompts_that_fills_the_limit(size: int, limit: int, *, fills: bool) -> None:
    told = crash(*LAUNCH, STATE.format(2, 28, limit), STATE.format(9, size, limit), *KILL)
    assert (host_caches.prompts_filled_the_limit(told) is not None) is fills


@pytest.mark.parametrize(("size", "fills"), [(1024, True), (1023, False)])
def test_without_a_limit_it_takes_a_gibibyte(size: int, *, fills: bool) -> None:
    told = crash(*LAUNCH, STATE.format(9, size, 8192), "run.sh: line 3:    12 Killed     llama-server -m tiny.gguf")
    assert (host_caches.prompts_filled_the_limit(told) is not None) is fills


def report(tmp_path: Path, *lines: str) -> dict[str, Any]:
    (tmp_path / "job.log").write_text("\n".join((*lines, "")), encoding="utf-8")
    found: dict[str, Any] = oomdoctor.diagnose(tmp_path).as_json()["diagnoses"][0]
    return found


def test_it_gets_half_of_what_the_rest_leaves(tmp_path: Path) -> None:
    found = report(tmp_path, *LAUNCH, STATE.format(9, 600, 8192), *KILL)
    first = found["remedies"][0]
    assert (found["cause"], first["snippet"]) == ("cpu-offload-overcommit", "--cache-ram 300")
    assert first["derivation"] == "50% of (1.00 GiB - 424 MiB of the rest of the process) = 300 MiB"
