"""Headlines about the host, Ray, containers, builds and kills: who, which memory, how much; and what they never say."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from gpu_logs import crash, refused
from host_logs import LEFTOVERS, REWARD_SERVER, TRAINERS, kill, table
from msgspec.structs import replace

from oomdoctor import diagnose
from oomdoctor.causes import Cause, causes
from oomdoctor.incident.model import Crash
from oomdoctor.report.headline import (
    deaths,
    figures,
    filled,
    growth,
    headline,
    host,
    kills,
    limits,
    names,
    offload,
    ray,
    requests,
    scheduling,
    shm,
    slots,
    slots_of,
    work,
)
from oomdoctor.units import GIB, KIB, MIB

HOST: Final = frozenset({
    "address-space-limit", "build-parallelism", "checkpoint-spike", "container-limit", "cpu-offload-overcommit",
    "dataset-in-ram", "host-memory-exhausted", "host-memory-leak", "host-model-load", "killed-without-evidence",
    "object-store-full", "pinned-memory-exhausted", "process-ram-hog", "ray-unschedulable", "reward-model-ram-hog",
    "shm-too-small", "spill-disk-full", "too-many-workers",
})  # fmt: skip
CAUSES: Final = {cause.id: cause for cause in causes()}
ALWAYS: Final = {"node", "machine"}  # answered of every crash
OF_THE_HOST: Final = (deaths, growth, host, kills, limits, offload, ray, requests, scheduling, shm, work)
OF_A_GPU: Final = crash(refused())
REST: Final = "file-rss:4096kB, shmem-rss:0kB, UID:0 pgtables:70000kB oom_score_adj:0"
KERNEL: Final = (
    "[100.1] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=5be1,mems_allowed=0,oom_memcg=/docker/5be1,"
    "task_memcg=/docker/5be1,task=python,pid=12,uid=0"
)


def said(cause: str, *lines: str) -> str:
    return headline(CAUSES[cause], crash(*lines))


def cgroup(own_kb: int = 32_715_571, limit_kb: int = 33_554_432) -> list[str]:
    return [
        "[100.0] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        f"[100.0] memory: usage {limit_kb}kB, limit {limit_kb}kB, failcnt 77",
        KERNEL,
        f"[100.2] Memory cgroup out of memory: Killed process 12 (python) total-vm:9011kB, anon-rss:{own_kb}kB, {REST}",
    ]


@pytest.mark.parametrize("cause", [CAUSES[name] for name in sorted(HOST)], ids=lambda cause: cause.id)
def test_a_cause_has_headlines_whose_slots_exist(cause: Cause) -> None:
    assert len(cause.headlines) >= 2
    assert {name for text in cause.headlines for name in names(text)} <= slots().keys()


def test_every_slot_stands_in_a_headline() -> None:
    assert {name for cause in CAUSES.values() for text in cause.headlines for name in names(text)} == slots().keys()


@pytest.mark.parametrize("name", sorted({name for room in OF_THE_HOST for name in slots_of(room)} - ALWAYS))
def test_a_slot_has_no_answer_where_the_log_does_not_say(name: str) -> None:
    assert slots()[name](OF_A_GPU) is None


@pytest.mark.parametrize("name", sorted({name for room in OF_THE_HOST for name in slots_of(room)}))
def test_a_slot_says_what_it_tells(name: str) -> None:
    slot = slots()[name]
    assert slot.__doc__
    assert slot.__doc__.endswith(".")


@pytest.mark.parametrize("cause", [CAUSES[name] for name in sorted(HOST)], ids=lambda cause: cause.id)
def test_without_figures_and_names_the_title_stands(cause: Cause) -> None:
    bare = replace(OF_A_GPU, stage="unknown")
    assert headline(cause, bare) == cause.title


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (31.2 * GIB, "31.2 GiB"), (176.97 * GIB, "177 GiB"), (6.118 * GIB, "6.12 GiB"), (3 * GIB, "3 GiB"),
        (64 * MIB, "64 MiB"), (9.999 * GIB, "10 GiB"), (16 * KIB, "16 KiB"), (512, "512 bytes"), (1, "1 byte"),
    ],
)  # fmt: skip
def test_sizes_have_three_digits(size: float, words: str) -> None:
    assert figures.brief(round(size)) == words


def test_a_part_and_its_whole_share_the_unit_where_they_can() -> None:
    assert figures.beside(177 * GIB, 252 * GIB) == "177 of 252 GiB"
    assert figures.beside(93 * MIB, GIB) == "93 MiB of 1 GiB"


def test_a_process_fills_a_full_node() -> None:
    told = said("process-ram-hog", *kill((77, 171.44, "python fit.py"), *LEFTOVERS))
    assert told == "fit.py (PID 77) fills node 10.24.0.17: 171 of 252 GiB"


def test_the_reward_server_is_called_a_server() -> None:
    told = said("reward-model-ram-hog", *kill(REWARD_SERVER, *TRAINERS, *LEFTOVERS))
    assert told == "Reward server serve_reward_model (PID 31207) fills node 10.24.0.17: 171 of 252 GiB"


@pytest.mark.parametrize(("used", "total"), [(239.4, 300.0), (400.0, 420.0)])
def test_nobody_fills_a_node_that_is_not_full_or_that_others_hold_too(used: float, total: float) -> None:
    it = crash(*kill((77, 171.44, "python fit.py"), *LEFTOVERS, used=used, total=total))
    assert host.filled(it) is None
    assert headline(CAUSES["process-ram-hog"], it).startswith("fit.py (PID 77) holds 171 of")


def test_rays_own_low_limit_is_said_and_not_that_the_node_is_full() -> None:
    lines = [line.replace("threshold of 0.95", "threshold of 0.264") for line in kill(used=6.5, total=23.54)]
    it = crash(*lines)
    assert host.low_ray_limit(it) == "6.21 GiB (26.4% of the node)"
    assert host.full(it) is None
    told = headline(CAUSES["host-memory-exhausted"], it)
    assert (
        told == "Ray's limit of 6.21 GiB (26.4% of the node) was reached; Ray killed LLMRayActor (PID 40677, 6.31 GiB)"
    )


def test_the_usual_limit_is_not_low() -> None:
    assert host.low_ray_limit(crash(*kill())) is None


def test_processes_of_one_name_are_counted() -> None:
    rows = [(4000 + n, 45.0, "ray::WorkerDict.actor_rollout") for n in range(4)]
    told = said("too-many-workers", *kill(*rows, used=200.0, total=205.0))
    assert told == "4 x WorkerDict fill node 10.24.0.17: 180 of 205 GiB"


def test_a_table_without_its_kill_says_of_what_the_share_is() -> None:
    rows = [(4000 + n, 11.0, "ray::WorkerDict.step") for n in range(8)]
    told = said("too-many-workers", *table([*rows, (3999, 6.0, "ray::Runner.run")]))
    assert told == "8 x WorkerDict hold 88 GiB (94% of the listed processes) on the node"


def test_all_of_what_a_table_lists_is_no_share() -> None:
    told = said("too-many-workers", *table([(4000 + n, 11.0, "ray::WorkerDict.step") for n in range(8)]))
    assert told == "8 x WorkerDict hold 88 GiB on the node"


def test_the_victim_stands_behind_the_full_node() -> None:
    told = said("host-memory-exhausted", *kill())
    assert (
        told == "Memory of node 10.24.0.17 is full: 239 of 252 GiB in use; Ray killed LLMRayActor (PID 40677, 6.31 GiB)"
    )


def test_a_container_s_limit_and_who_held_it() -> None:
    assert said("container-limit", *cgroup()) == (
        "The container's memory limit of 32 GiB was hit: python (PID 12) held 31.2 GiB"
    )


def test_a_small_victim_is_not_said_to_hold_the_limit() -> None:
    it = crash(*cgroup(own_kb=330_000))
    assert limits.limit_killed_most(it) is None
    assert headline(CAUSES["container-limit"], it) == (
        "The container's memory limit of 32 GiB was hit: the kernel killed python (PID 12), which held 322 MiB"
    )


def test_more_than_the_limit_is_no_part_of_it() -> None:
    it = crash(*cgroup(own_kb=40_000_000))
    assert limits.limit_killed_most(it) is None
    assert kills.killed_part(it) is None


def test_a_job_and_its_limit() -> None:
    over = "slurmstepd: error: Step 7712.0 exceeded memory limit (67209216 > 67108864), being killed"
    assert said("container-limit", over) == "Slurm job 7712 (step 0) hit its memory limit of 64 GiB"
    event = "slurmstepd: error: Detected 1 oom_kill event in StepId=90211.2."
    told = said("container-limit", f"{event} Some of the step tasks have been OOM Killed.")
    assert told == "Slurm job 90211 (step 2) hit its memory limit: 1 process OOM-killed"


@pytest.mark.parametrize(
    ("step", "job"),
    [
        ("191.batch", "191 (batch script)"), ("19_4.3", "19_4 (step 3)"), ("88", "88"),
        ("7.extern", "7 (extern step)"), ("12.interactive", "12 (interactive step)"),
    ],
)  # fmt: skip
def test_a_step_is_a_step_of_its_job(step: str, job: str) -> None:
    event = f"slurmstepd: error: Detected 1 oom-kill event(s) in StepId={step} cgroup. Some of your processes may have"
    told = said("container-limit", f"{event} been killed by the cgroup out-of-memory handler.")
    assert told == f"Slurm job {job} hit its memory limit: 1 process OOM-killed"


OOM = "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.\n"


@pytest.mark.parametrize(
    ("log", "end"),
    [
        (f"{OOM}srun: error: n1: tasks 1-3: Out Of Memory", "3 tasks out of memory"),
        (f"{OOM}srun: error: n1: task 2: Out Of Memory", "1 task out of memory"),
        (f"{OOM}srun: error: n1: tasks 0,4-7: Out Of Memory\nsrun: error: n2: tasks 8-9: Out Of Memory",
         "7 tasks out of memory"),
        (f"{OOM}run.sh: line 8:  815 Killed     python3 main.py --lr 1", "python3 main.py (PID 815) was OOM-killed"),
        (f"{OOM}run.sh: line 8:  815 Killed     python3 main.py\nEpoch: [2][ 511/1736]\nEpoch: [2][ 512/1736]\nKilled",
         "python3 main.py (PID 815) was OOM-killed; last step in the log: 512 of 1736, epoch 2"),
        (f"{OOM}a.sh: line 8:  815 Killed          python3 a.py\na.sh: line 9:  816 Killed          python3 b.py",
         "1 process OOM-killed"),
    ],
)  # fmt: skip
def test_what_the_other_lines_say_of_those_that_were_killed(log: str, end: str) -> None:
    assert said("container-limit", log) == f"Slurm job 77 (step 0) hit its memory limit: {end}"


def test_who_was_killed_where_nobody_says_why() -> None:
    told = said("killed-without-evidence", "run.sh: line 4: 2210 Killed                  python train.py")
    assert told == "python train.py (PID 2210) was killed (SIGKILL) and the log does not say why"


def test_a_worker_of_rays_died_and_was_not_killed_for_all_we_know() -> None:
    told = said(
        "killed-without-evidence",
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
        "\tclass_name: TaskRunner",
        "\tactor_id: 4fbb8efa7de19232b3159aaefaffffff",
        "\tpid: 8805",
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR "
        "Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.",
    )
    assert told == "Ray actor TaskRunner (PID 8805) died and the log does not say why"


@pytest.mark.parametrize(
    ("line", "who", "code"),
    [
        ("trainer-1 exited with code 137", "trainer-1", "exit code 137"),
        ("Killed", "A process", "SIGKILL"),
        (
            "RuntimeError: DataLoader worker (pid 5120) is killed by signal: Killed. ",
            "DataLoader worker 5120",
            "SIGKILL",
        ),
        ("srun: error: gpu07: task 3: Killed", "Rank 3", "SIGKILL"),
    ],
)
def test_a_killed_process_by_what_reports_it(line: str, who: str, code: str) -> None:
    it = crash(line)
    assert deaths.killed_process(it) == who
    assert deaths.kill_code(it) == code


def test_a_pool_s_worker_that_vanished_was_not_killed_for_all_we_know() -> None:
    it = crash(
        "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the "
        "future was running or pending."
    )
    assert deaths.killed_process(it) is None
    assert deaths.dead_process(it) == "A worker of a process pool"


def test_ray_cannot_place_more_than_there_is() -> None:
    line = "ray_trainer.py: ValueError: Not enough GPUs in the ray cluster: requires 12 GPUs but found 8"
    told = said("ray-unschedulable", line)
    assert told == "Ray cannot place the job: 12 GPUs requested, 8 in the cluster"


def test_an_object_that_alone_is_larger_than_the_store() -> None:
    line = (
        "(read_part pid=3312) [2023-05-11 16:02:44,118 E 3312 3312] plasma_store_provider.cc:122: Failed to put object "
        "{} in object store because it is full. Object size is {} bytes.".format("ab" * 28, 50 * GIB)
    )
    it = crash(line)
    assert ray.object_size(it) == "50 GiB"
    assert ray.store_too_small(it) is None  # how large the store is, nobody says
    assert headline(CAUSES["object-store-full"], it) == "Ray's object store is full: 50 GiB requested"


def test_shared_memory_that_is_too_small_for_the_store() -> None:
    told = said("shm-too-small", "ValueError: The configured object store size (12.582912 GB) exceeds /dev/shm size "
                "(0.3145728 GB). This will harm performance.")  # fmt: skip
    assert told == "Ray's object store of 11.7 GiB does not fit into /dev/shm (300 MiB)"


def test_free_memory_that_would_do_is_not_said_to_be_short() -> None:
    line = "ValueError: Not enough host memory available. Requesting {} GB but only have {} GB free."
    short = crash(line.format("412.88", "371.05"))
    assert offload.host_cache_free(short) == "346 GiB"
    enough = crash(line.format("40.00", "44.87"))
    assert offload.host_cache_free(enough) is None
    assert headline(CAUSES["cpu-offload-overcommit"], enough) == (
        "SGLang cannot allocate 37.3 GiB of RAM for its KV cache: it leaves 10 GiB of the free 41.8 GiB alone"
    )
    assert offload.host_cache_kept(short) is None
    assert offload.host_cache_kept(crash("ValueError: Not enough host memory available. Requesting 40.00 GB")) is None
    assert said("cpu-offload-overcommit", line.format("412.88", "371.05")).endswith("for its KV cache: 346 GiB free")


def test_an_allocation_and_its_array_are_of_one_message() -> None:
    it = crash(
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 26.8 GiB for an array with shape (60000, 60000) "
        "and data type float64"
    )
    assert headline(CAUSES["process-ram-hog"], it) == (
        "An allocation of 26.8 GiB of RAM failed: an array of (60000, 60000) of float64"
    )


def test_the_driver_of_a_compiler_does_not_say_that_it_was_the_kernel() -> None:
    told = said("build-parallelism", "c++: fatal error: Killed signal terminated program cc1plus")
    assert told == "Parallel compile jobs ran out of memory: cc1plus was killed"


def test_optional_parts_fall_away() -> None:
    it: Crash = crash("Killed")
    assert filled("{killed_process} was killed[ at {low_ray_limit}]", it) == "A process was killed"
    assert filled("{low_ray_limit} was reached", it) is None


def test_a_log_that_ends_in_a_traceback_says_so_and_not_that_memory_ran_out(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(
        "Preparing to load checkpoint /srv/last.pt\nTraceback (most recent call last):\n"
        '  File "/srv/train.py", line 41, in <module>\n    state = load(path)\n'
        '  File "/srv/lib/state.py", line 9, in lo'
    )
    report = diagnose(log)
    assert report.verdict == "inconclusive"
    assert report.incidents[0].headline.startswith("The log ends inside the traceback around line 5,")


CACHED: Final = "train: Caching images (27.5GB RAM): 100%|██████████| 20110/20110 [02:11<00:00, 153.1it/s]"


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (
            (
                "E0301 02:11:07.912000 60 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) "
                "local_rank: 1 (pid: 71) of binary: /usr/bin/python3"
            ),
            "Local rank 1 (PID 71) was killed (exit code -9) after 27.5 GB of data were cached in RAM",
        ),
        (
            "RuntimeError: DataLoader worker (pid(s) 812) exited unexpectedly",
            "DataLoader workers 812 died after 27.5 GB of data were cached in RAM",
        ),
        (
            (
                "RuntimeError: [enforce fail at alloc_cpu.cpp:117] data. DefaultCPUAllocator: not enough memory: you "
                "tried to allocate 20401094656 bytes."
            ),
            "27.5 GB of data were cached in RAM when memory ran out",
        ),
    ],
)
def test_cached_data_ran_out_of_memory_only_where_the_log_says_so(end: str, told: str) -> None:
    assert said("dataset-in-ram", CACHED, end) == told


DEAD = (
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: gone.\n"
)
TOLD = (
    "(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker ID: 6d0e "
    "Worker IP address: 10.7.0.{} Worker PID: {} Worker exit type: SYSTEM_ERROR Worker exit detail: x.\n"
)


@pytest.mark.parametrize(
    ("told", "who"),
    [
        (TOLD.format(4, 5120), "Ray worker 5120"),
        ("", "A Ray worker"),
        (TOLD.format(9, 5120), "A Ray worker"),
        (TOLD.format(4, 5120) + TOLD.format(4, 5121), "A Ray worker"),
    ],
)
def test_a_dead_worker_is_named_by_the_one_line_that_has_its_number(told: str, who: str) -> None:
    dead = deaths.dead_process(crash("\tip: 10.7.0.4\n" + DEAD + told))
    assert dead == who


NAMED = (
    "The actor died unexpectedly before finishing this task.\n\tclass_name: Weaver\n\tpid: {}\n\tip: 10.7.0.{}\n" + DEAD
)


@pytest.mark.parametrize(
    ("named", "who"),
    [
        (NAMED.format(5120, 4), "Ray actor Weaver (PID 5120)"),
        (NAMED.format(5121, 4), "Ray worker 5120"),
        ("", "Ray worker 5120"),
    ],
)
def test_a_dead_worker_is_named_by_the_line_on_the_same_process_that_has_its_name(named: str, who: str) -> None:
    assert deaths.dead_process(crash(TOLD.format(4, 5120) + "ray.exceptions.ActorDiedError: " + named)) == who


@pytest.mark.parametrize(
    ("refused_words", "said"),
    [
        ("$ Torch: not enough memory: you tried to allocate 0GB. Buy new RAM!", "less than 1 GiB of RAM failed"),
        ("$ Torch: not enough memory: you tried to allocate 10GB. Buy new RAM!", "An allocation of 10 GiB of RAM"),
        (
            "data. DefaultCPUAllocator: not enough memory: you tried to allocate 31352832000 bytes.",
            "on Windows: more than RAM and page file had left",
        ),
    ],
)
def test_what_the_allocator_says_of_its_system(refused_words: str, said: str) -> None:
    assert said in headline(CAUSES["address-space-limit"], crash(f"RuntimeError: {refused_words}"))


EVICTED: Final = "Warning  Evicted  3m  kubelet  The node was low on resource: memory."
ENDED: Final = "Normal  {}  3m  kubelet  Killing container with id {}"


@pytest.mark.parametrize(
    ("event", "who"),
    [
        (ENDED.format("Killing", "docker://loom:Need to kill Pod"), "container loom"),
        (ENDED.format("Killing", f"docker://{'5be1' * 16}:Need to kill Pod"), "a pod"),
        (ENDED.format("Killing", "docker://loom:Container failed liveness probe."), "a pod"),
        ("", "a pod"),
    ],
)
def test_the_container_that_kubernetes_ends_is_named(event: str, who: str) -> None:
    assert limits.evicted(crash(f"{EVICTED}\n{event}")) == who


@pytest.mark.parametrize(
    ("lines", "held"),
    [
        ((), "Weights and states"),
        (("step 3 loss 0.7",), "Weights and states"),
        (('Operator: op_name="pjit(generate)/jit(main)/GPTModule/embed/convert_element_type"',), "The weights"),
    ],
)
def test_who_only_generates_has_no_states(lines: tuple[str, ...], held: str) -> None:
    refusal = (
        "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 21.20G of 15.75G hbm.",
        "Total hbm usage >= 21.70G:",
        "    program           4.01G",
        "    arguments        17.19G",
    )
    assert said("model-does-not-fit", *refusal, *lines).startswith(f"{held} (17.19 GiB) do not fit on ")
