"""What is changed for nothing stands before what has to be bought, and the causes behind a limit say what to change."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from remedy_logs import crashes_of, cuda

import oomdoctor
from oomdoctor.remedies import Remedy
from oomdoctor.remedies.backfill import EVIDENCE
from oomdoctor.remedies.knobs import BOUGHT, KNOBS
from oomdoctor.remedies.order import in_order, stated_knobs

LIMIT = "container-limit"


def one(knob: str, snippet: str | None = "x=1") -> Remedy:
    return Remedy(knob=knob, action="Change it", snippet=snippet)


def order(*remedies: Remedy, cause: str = "process-ram-hog", pool: str = "host_ram") -> list[str]:
    return [remedy.knob for remedy in in_order(remedies, cause, pool)]


def diagnosed(tmp_path: Path, log: str) -> list[dict[str, object]]:
    path = tmp_path / "job.log"
    path.write_text(log, encoding="utf-8")
    diagnoses: list[dict[str, object]] = oomdoctor.diagnose(path).as_json()["diagnoses"]
    return diagnoses


def advised(tmp_path: Path, log: str) -> tuple[str, list[str], dict[str, str | None]]:
    """The first cause, its knobs in their order, and the line of each."""
    first = diagnosed(tmp_path, log)[0]
    remedies: list[dict[str, str | None]] = first["remedies"]  # type: ignore[assignment]
    return str(first["cause"]), [str(r["knob"]) for r in remedies], {str(r["knob"]): r["snippet"] for r in remedies}


def test_what_is_bought_is_a_knob() -> None:
    assert KNOBS.keys() >= BOUGHT


def test_two_that_are_free_come_before_what_is_bought() -> None:
    assert order(one("more-host-memory"), one("fewer-workers"), one("stream-data"), one("smaller-buffers")) == [
        "fewer-workers",
        "stream-data",
        "more-host-memory",
        "smaller-buffers",
    ]


def test_what_names_nothing_to_change_is_no_alternative() -> None:
    assert order(one("more-host-memory"), one("fewer-workers", None)) == ["more-host-memory", "fewer-workers"]


def test_what_stands_before_already_stays_there() -> None:
    own = ("move-process", "fewer-workers", "stream-data", "more-host-memory", "smaller-buffers")
    assert order(*map(one, own)) == list(own)


@pytest.mark.parametrize(("pool", "stated_first"), [("host_ram", True), ("cgroup", True), ("gpu", False)])
def test_what_holds_for_any_job_comes_behind_what_this_one_states(pool: str, *, stated_first: bool) -> None:
    of_any = Remedy(knob="stream-data", action=KNOBS["stream-data"].action, subject="python (PID 5)")
    stated = Remedy(knob="smaller-buffers", action="Halve it", setting="--buffer", current=8, suggested=4)
    knobs = order(of_any, stated, one("more-host-memory"), pool=pool)
    assert (knobs == ["smaller-buffers", "stream-data", "more-host-memory"]) == stated_first


def test_behind_a_limit_that_was_hit_no_more_than_two_come_first() -> None:
    knobs = ("shorter-context", "fewer-sequences", "quantize-kv-cache", "raise-container-limit")
    assert order(*map(one, knobs), cause=LIMIT).index("raise-container-limit") == 2
    assert order(*map(one, knobs), cause="process-ram-hog").index("raise-container-limit") == 3


def test_three_that_the_job_has_options_for_come_before_a_limit() -> None:
    free = [replace(one(knob), current=4, suggested=2) for knob in ("stream-data", "smaller-input", "fewer-workers")]
    raised = one("raise-container-limit")
    three = [remedy.knob for remedy in free]
    assert order(raised, *free, cause=LIMIT, pool="cgroup") == [*three, raised.knob]
    free[1] = replace(free[1], suggested=None)  # which only the program knows
    assert order(raised, *free, cause=LIMIT, pool="cgroup") == [*three[:2], raised.knob, three[2]]


RUN = "+ python fit.py {}\nfitting\n"
KILLED = (
    "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
    "memory: usage 1048576kB, limit 1048576kB, failcnt 0\n"
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/job,task_memcg=/job,task=python,pid=26396,uid=0\n"
    "Memory cgroup out of memory: Killed process 26396 (python) total-vm:6329060kB, anon-rss:1038192kB\n"
)


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ("--max-bin 1024 --rows 60000 --max-depth 14", ["smaller-buffers", "smaller-input", "smaller-model"]),
        ("--max-bin 1024 --max-depth 14", ["smaller-buffers", "smaller-model", "raise-container-limit"]),
    ],
)
def test_what_only_names_the_process_is_no_remedy_beside_options(
    tmp_path: Path, options: str, first: list[str]
) -> None:
    found = diagnosed(tmp_path, RUN.format(options) + KILLED)[0]
    assert [one["knob"] for one in found["remedies"]][: len(first)] == first  # type: ignore[attr-defined]


def test_evidence_stays_last_and_is_no_change() -> None:
    assert order(one(EVIDENCE), one("more-host-memory")) == ["more-host-memory", EVIDENCE]


def test_what_a_cluster_lacks_is_no_matter_of_price() -> None:
    own = ("fix-resource-request", "add-nodes", "fix-environment")
    assert order(*map(one, own), cause="ray-unschedulable", pool="scheduling") == list(own)


# whole logs

LOADER = (
    'Traceback (most recent call last):\n  File "/home/me/train.py", line 88, in <module>\n    for batch in loader:\n'
    '  File "/v/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 701, in __next__\n'
    "    data = self._next_data()\nRuntimeError: DataLoader worker (pid 2206) is killed by signal: Killed. \n"
)
SLURM = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=3521877.0. Some of the step tasks have been OOM Killed.\n"
)
POD = "Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n"


def test_the_loader_behind_a_limit_lends_its_workers(tmp_path: Path) -> None:
    cause, knobs, lines = advised(tmp_path, LOADER + SLURM)
    assert cause == LIMIT
    assert knobs[0] == "fewer-workers"
    assert lines["fewer-workers"] == "num_workers=0"
    assert "raise-container-limit" in knobs[:3]


def test_a_limit_with_nothing_behind_it_is_raised(tmp_path: Path) -> None:
    cause, knobs, _ = advised(tmp_path, POD)
    assert (cause, knobs[0]) == (LIMIT, "raise-container-limit")


def test_a_data_program_behind_a_limit_lends_its_buffers(tmp_path: Path) -> None:
    cause, knobs, lines = advised(tmp_path, "$ samtools sort --threads 32 -m 4G in.bam -o out.bam\n" + SLURM)
    assert cause == LIMIT
    assert lines["smaller-buffers"] == "samtools sort -m 256M"
    assert knobs.index("smaller-buffers") < knobs.index("raise-container-limit") < 3


KERNEL = (
    "kernel: Memory cgroup out of memory: Killed process 4711 (python) total-vm:9000000kB, anon-rss:8000000kB, "
    "file-rss:1000kB, shmem-rss:0kB, UID:0\n"
)
GROUP = (
    "kernel: oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg={0},"
    "task_memcg={0},task=python,pid=4711,uid=0\n"
)


@pytest.mark.parametrize(
    ("group", "line"),
    [
        ("/kubepods.slice/kubepods-pod92ab.slice", "resources.limits.memory"),
        ("/system.slice/docker-9751845b.scope", "docker"),
        ("/machine.slice/libpod-77aa.scope", "--memory"),
        ("/slurm/uid_0/job_12/step_0", "--mem"),
        ("/system.slice/train.service", "MemoryMax"),
        ("/user.slice/user-1000.slice/session-3.scope", "MemoryMax"),
    ],
)
def test_the_manager_of_a_group_is_known_by_its_name(tmp_path: Path, group: str, line: str) -> None:
    remedies = diagnosed(tmp_path, GROUP.format(group) + KERNEL)[0]["remedies"]
    raised = next(r for r in remedies if r["knob"] == "raise-container-limit")  # type: ignore[attr-defined]
    assert line in f"{raised['setting']} {raised['snippet']}"


def test_a_group_of_no_manager_names_none(tmp_path: Path) -> None:
    remedies = diagnosed(tmp_path, GROUP.format("/mine") + KERNEL)[0]["remedies"]
    raised = next(r for r in remedies if r["knob"] == "raise-container-limit")  # type: ignore[attr-defined]
    assert raised["setting"] is None
    assert "/sys/fs/cgroup/memory" in raised["snippet"]


WHOLE = "kernel: Out of memory: " + KERNEL.partition("memory: ")[2]


@pytest.mark.parametrize("beside", [POD, SLURM])
def test_swap_is_nothing_for_a_limit(tmp_path: Path, beside: str) -> None:
    assert "mkswap" not in str(diagnosed(tmp_path, beside))
    assert "mkswap" not in str(diagnosed(tmp_path, WHOLE + beside))


OF_A_GROUP = (
    "Memory cgroup out of memory: Killed process 8376 (python) total-vm:1601096kB, anon-rss:1020648kB, "
    "file-rss:91976kB, shmem-rss:0kB, UID:0 pgtables:2520kB oom_score_adj:0\n"
)
OF_THE_NODE = (
    "Out of memory: Killed process 8376 (python) total-vm:1601096kB, anon-rss:1020648kB, file-rss:91976kB, "
    "shmem-rss:0kB, UID:0 pgtables:2520kB oom_score_adj:0\n"
)


@pytest.mark.parametrize("kill", [OF_A_GROUP, OF_THE_NODE, "Killed\n"], ids=["group", "node", "killed"])
@pytest.mark.parametrize(
    ("options", "knob", "line"),
    [
        ("--batch-size 64", "smaller-microbatch", "--batch-size 32"),
        ("--eval_batch_size 16", "smaller-microbatch", "--eval_batch_size 8"),
        ("--num-workers 8", "fewer-workers", "--num-workers 4"),
        ("--jobs 8 --batch-size 64", "fewer-workers", "--jobs 4"),
    ],
)
def test_what_the_job_counts_goes_first_where_only_its_end_is_known(
    tmp_path: Path, kill: str, options: str, knob: str, line: str
) -> None:
    _, knobs, lines = advised(tmp_path, f"+ python -u fit.py {options}\n{kill}")
    assert knobs[0] == knob
    quartered = kill != "Killed\n" and line == "--batch-size 32"  # by the kernel, before any step was done
    assert lines[knob] == ("--batch-size 16" if quartered else line)


@pytest.mark.parametrize(("lines", "is_offered"), [(4, False), (1, True)])
def test_what_went_well_several_times_adds_up(tmp_path: Path, lines: int, *, is_offered: bool) -> None:
    """Half a batch is kept as long as a whole one."""
    done = "".join(f"Tokenizing: {2000 * n}/60000 documents, 0.78M tokens\n" for n in range(1, lines + 1))
    _, knobs, _ = advised(tmp_path, f"+ python -u tokens.py --batch-size 2000\n{done}{OF_A_GROUP}")
    assert ("smaller-microbatch" in knobs) is is_offered


@pytest.mark.parametrize("options", ["--batch-size 1", "--max_len 64", "--batch-size auto", "--num-workers true"])
def test_what_is_no_count_does_not(tmp_path: Path, options: str) -> None:
    _, knobs, lines = advised(tmp_path, f"+ python -u fit.py {options}\n{OF_A_GROUP}")
    plain = advised(tmp_path, f"+ python -u fit.py\n{OF_A_GROUP}")
    assert knobs[0] == plain[1][0]
    assert options.partition(" ")[0] not in (lines[knobs[0]] or "")


def test_what_the_job_counts_is_nothing_for_its_card(tmp_path: Path) -> None:

    crash = crashes_of("+ python -u fit.py --num-workers 8\ntorch.OutOfMemoryError: " + cuda())[0]
    assert crash.pool == "gpu"
    assert stated_knobs(crash) == ()


COMPUTE = (
    "llama_context:        CPU  output buffer size =     0.06 MiB\nllama_kv_cache:        CPU KV buffer size =  "
    "1024.00 MiB\nggml_aligned_malloc: insufficient memory (attempted to allocate 1283.51 MB)\n"
    "ggml_gallocr_reserve_n_impl: failed to allocate CPU buffer of size 1345857536\n"
    "graph_reserve: failed to allocate compute buffers\n"
)


def test_the_buffer_that_an_engine_computes_in_on_the_host(tmp_path: Path) -> None:
    cause, knobs, _ = advised(tmp_path, COMPUTE)
    assert cause == "activations"
    assert knobs[0] == "smaller-prefill"
    assert "shorter-context" in knobs[:3]
    bare, _, _ = advised(tmp_path, COMPUTE.splitlines()[2] + "\n")
    assert bare != "activations"


@pytest.mark.parametrize(("limit_kb", "then"), [(16_384, "512m"), (32_767, "512m"), (32_768, "40m"), (262_144, "320m")])
def test_a_limit_in_which_nothing_starts_is_not_raised_by_a_quarter(tmp_path: Path, limit_kb: int, then: str) -> None:
    usage = f"memory: usage {limit_kb}kB, limit {limit_kb}kB, failcnt 9\n"
    remedies = diagnosed(tmp_path, GROUP.format("/system.slice/docker-9751845b.scope") + usage + KERNEL)[0]["remedies"]
    raised = next(r for r in remedies if r["knob"] == "raise-container-limit")  # type: ignore[attr-defined]
    assert raised["suggested"] == then
    assert any("slip of the unit" in one for one in raised["assumes"]) is (then == "512m")
