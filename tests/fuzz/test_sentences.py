"""Every clause of every grammar is read where it stands, with its values, alone and among others.

Clauses are drawn from the grammar's own rules. Where a terminal looks at what stands around it, the words are written
here.
"""

from __future__ import annotations

from random import Random

import pytest

from fuzz import sentences
from fuzz.checks import printed
from oomdoctor import families, grammars, streams

DRAWN = 6  # of each clause
LONG = 10  # sentences of several clauses, of each grammar

# By grammar and clause: a text that holds it, and its values
AROUND = {
    ("container", "container"): ("Container trainer-0 was using 31Gi", ("trainer-0",)),
    ("container", "exact"): ("limit: 31.0 GiB (32505856 Ki)", ("32505856 Ki",)),
    ("container", "physical"): ("5.1 GB of 5 GB physical memory used", ("5.1 GB of 5 GB",)),
    ("container", "sge"): ("job 7 (12.5G > limit:12G) exceeds", ("12.5G > limit:12G",)),
    ("container", "tasks"): ("srun: error: node7: tasks 4-7: Out Of Memory", ("4-7",)),
    ("container", "virtual"): ("9.5 GB of 8.4 GB virtual memory used", ("9.5 GB of 8.4 GB",)),
    ("container", "victim"): ("System OOM encountered, victim process: python3, pid: 12", ("python3",)),
    ("data_loader", "errno"): ("OSError: [Errno 28] No space", ("28",)),
    ("data_loader", "pids"): ("DataLoader worker (pid(s) 7, 12) exited", ("7, 12",)),
    ("data_loader", "signal"): ("worker (pid 7) is killed by signal: Bus error", ("Bus error",)),
    ("forge", "compute"): ("12.5% GPU memory (3000.00 MB) to do matrix computation", ("12.5% ", "3000.00 MB")),
    ("forge", "missing"): ("Estimated Remaining GPU Memory: -12.50 MB", ("-12.50 MB",)),
    ("forge", "weights"): ("12.5% GPU memory (3000.00 MB) to load weights", ("12.5% ", "3000.00 MB")),
    ("gpu_visibility", "device_id"): ("invalid device cuda:3", ("3",)),
    ("host_alloc", "dtype"): ("with shape (3, 4) and data type float64", ("float64",)),
    ("host_alloc", "errno"): ("OSError: [Errno 12] Cannot allocate memory", ("12",)),
    ("host_alloc", "program"): ("fatal error: Killed signal terminated program cc1plus", ("cc1plus",)),
    ("host_alloc", "shape"): ("for an array with shape (3, 4) and", ("(3, 4)",)),
    ("host_alloc", "tried"): ("you tried to allocate 4096 bytes.", ("4096 bytes",)),
    ("host_alloc", "tried_whole_gib"): ("you tried to allocate 7GB", ("7GB",)),
    ("kernel", "asker"): ("ray::IDLE invoked oom-killer: gfp_mask=0", ("ray::IDLE",)),
    ("kernel", "oomd_unit"): ("Killed /user.slice/x.scope due to memory pressure", ("/user.slice/x.scope",)),
    ("kernel", "score"): ("Kill process 7 (java) score 81 or sacrifice child", ("81",)),
    ("kernel", "signal"): ("sending SIGTERM to process 7", ("SIGTERM",)),
    ("kernel", "unit"): ("train.service: A process of this unit has been killed", ("train.service",)),
    ("kernel", "unit_peak"): ("Consumed 3min CPU time, 12.5G memory peak", ("12.5G",)),
    ("kill", "shell_pid"): ("run.sh: line 3: 162 Killed python3 eat.py", ("162",)),
    ("llama_cpp", "card_free"): ("using device CUDA0 (a) - 812 MiB free", ("using device CUDA0 (a) - ", "812 MiB")),
    ("llama_cpp", "pinned"): ("failed to allocate 12.50 MiB of pinned memory", ("12.50 MiB",)),
    ("llama_cpp", "scratch"): ("batch_size (512) = 12.00 MB VRAM for the scratch buffer", ("12.00 MB",)),
    ("llama_cpp", "sycl"): ("can't allocate 123 Bytes of memory on device", ("123 Bytes",)),
    ("llama_cpp", "tried"): ("allocating 12.50 MiB on device 0: cudaMalloc failed", ("12.50 MiB", "0")),
    ("memory_report", "peak"): ("step:  1  loss: 2.0  memory:  3.10GiB(13.2%)", ("3.10GiB",)),
    ("ray_death", "ip"): ("address = 192.0.2.7, node name = a", ("192.0.2.7",)),
    ("ray_death", "node_id"): ("node id = 81bfd5916d1a072f81bfd5916d1a072f", ("81bfd5916d1a072f81bfd5916d1a072f",)),
    ("ray_death", "pid"): ("Worker PID: 4471 Worker exit", ("4471",)),
    ("ray_kill", "name"): ("task name=f, required resources={}, pid=7", ("task name=f",)),
    ("ray_kill", "of_memory"): ("initialized with usage threshold at 9 bytes (95% of system memory)", ("95%",)),
    ("ray_kill", "of_total"): ("(95.0% of 1000B total)", ("95.0%", "1000B")),
    ("ray_kill", "pair"): ("node a is used (7.36 / 23.54 GB)", ("7.36", "23.54 GB")),
    ("ray_kill", "selecting"): ("Selected 2 workers to kill: (pid=7", ("2",)),
    ("ray_kill", "shared"): ("In addition, up to 1.50 GiB of virtual memory", ("1.50 GiB",)),
    ("ray_kill", "trigger"): ("Memory usage 12B exceeded threshold of 11B", ("12B", "11B")),
    ("ray_kill", "worker"): ("where the task (actor ID: 81bfd5916d1a072f", ()),
    ("ray_kill", "used"): ("was 3.00GB used / 4.00GB limit (0.75)", ("3.00GB", "4.00GB", "(0.75)")),
    ("ray_kill", "used_words"): (
        "Used memory (3.00GB) / total capacity (4.00GB) (0.75) exceeds threshold 0.7", ("3.00GB", "4.00GB", "(0.75)")
    ),
    ("ray_schedule", "gpus_required"): ("requiring 8 GPUs", ("8",)),
    ("ray_schedule", "trial_beyond"): ("per trial, but the cluster only has", ()),
    ("ray_schedule", "within"): ("not ready within 60 seconds", ("60",)),
    ("ray_store", "only"): ("/dev/shm has only 67108864 bytes available", ("67108864 bytes",)),
    ("ray_store", "over_full"): ("is over 95% full", ("95%",)),
    ("ray_store", "restored"): ("Restored 12 MiB, 3 objects", ("12 MiB", "3")),
    ("ray_store", "spilled"): ("Spilled 12 MiB, 3 objects", ("12 MiB", "3")),
    ("shortage", "amount"): ("a tensor of 3 GiB", ("3 GiB",)),
    ("shortage", "by"): ("9.75 GiB short", ("9.75 GiB", "short")),
    ("shortage", "get"): ("allocate 3 GiB", ("allocate", "3 GiB")),
    ("tensorrt_llm", "cache_tokens"): ("max tokens in paged KV cache (8192)", ("8192",)),
    ("tensorrt_llm", "tokens"): ("Using 8192 tokens in paged KV cache", ("8192",)),
    ("vllm_figures", "npu_memory"): ("Available memory: 123, total memory: 456", ("123,", "456")),
}  # fmt: skip


@pytest.mark.parametrize("name", grammars.names())
def test_a_clause_is_read_where_it_stands(name: str) -> None:
    unread = []
    for rule in sentences.clauses(name):
        drawn = [" ".join(sentences.clause(Random(f"{name} {rule} {number}"), name, rule)) for number in range(DRAWN)]
        if (name, rule) in AROUND:
            text, values = AROUND[name, rule]
            if (rule, values) not in grammars.said(name, text):
                unread.append((rule, str(grammars.said(name, text))))
        elif not any(rule in dict(grammars.said(name, text)) for text in drawn):
            unread.append((rule, drawn[0]))
    assert unread == []


@pytest.mark.parametrize("name", grammars.names())
def test_what_is_read_of_a_sentence_stands_in_it(name: str) -> None:
    """Clauses in any order: the values stand in the text, one behind the other, and every figure is printed."""
    for number in range(LONG):
        text = sentences.sentence(Random(f"{name} {number}"), name)
        at = 0
        for _, values in grammars.said(name, text):
            for value in values:
                at = text.index(value, at) + len(value)
        page = streams.page("job.log", 1, text.encode())
        events = [found for found in families.read(page) if isinstance(found, families.Event)]
        figures = [{"id": e.kind, **{part: e.figures(part) for part in ("usage", "threshold")}} for e in events]
        assert printed(text.encode(), {"events": figures}) == []
