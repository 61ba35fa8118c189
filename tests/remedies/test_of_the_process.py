"""Whose memory it was, and which of several processes: Spark's driver, a single compiler, a pod, a unit."""

from __future__ import annotations

from pathlib import Path

import pytest
from remedy_logs import advise, crashes_of

from oomdoctor import diagnose
from oomdoctor.signs.pods import pod

DRIVER = """\
26/09/13 17:15:43 INFO scheduler.DAGScheduler: Executor lost: 6 (epoch 544)
26/09/13 17:15:52 WARN server.TransportChannelHandler: Exception in connection from node-b/10.0.0.153:50701
java.lang.OutOfMemoryError: GC overhead limit exceeded
"""
EXCHANGE = """\
26/09/13 17:15:43 INFO org.apache.spark.SparkContext: Running Spark version 3.5.1
Exception in thread "broadcast-exchange-0" java.lang.OutOfMemoryError: Java heap space
"""
EXECUTOR = """\
26/09/13 17:15:43 INFO scheduler.DAGScheduler: Executor lost: 6 (epoch 544)
26/09/13 17:15:52 WARN scheduler.TaskSetManager: Lost task 0.0 in stage 7.0 (TID 75, node-a, executor 2):
java.lang.OutOfMemoryError: Java heap space
"""
OF_AN_EXECUTOR = """\
26/09/13 17:15:43 INFO org.apache.spark.executor.CoarseGrainedExecutorBackend: Started daemon
26/09/13 17:15:52 WARN server.TransportChannelHandler: Exception in connection from node-b/10.0.0.153:50701
java.lang.OutOfMemoryError: GC overhead limit exceeded
"""


IN_LOCAL_MODE = """\
java.lang.OutOfMemoryError: Java heap space
26/09/13 17:15:52 ERROR TaskSetManager: Task 12 in stage 3.0 failed 1 times; aborting job
"""
ON_A_CLUSTER = IN_LOCAL_MODE.replace("1 times", "4 times")
ALLOWED_ONE = f"spark-submit --conf spark.task.maxFailures=1 job.py\n{IN_LOCAL_MODE}"


def told_of(folder: Path, text: str) -> str:
    """What the first incident's first diagnosis says."""
    log = folder / "job.log"
    log.write_text(text, encoding="utf-8")
    first = diagnose(log).as_json()["incidents"][0]["diagnoses"][0]
    return " ".join((first["headline"], first["explanation"], *first["against"]))


@pytest.mark.parametrize(
    ("text", "is_driver"),
    [
        (DRIVER, True),
        (EXCHANGE, True),
        (EXECUTOR, False),
        (OF_AN_EXECUTOR, False),
        (IN_LOCAL_MODE, True),
        (ON_A_CLUSTER, False),
        (ALLOWED_ONE, False),
    ],
)
def test_the_heap_is_of_the_process_that_ran_out(text: str, tmp_path: Path, *, is_driver: bool) -> None:
    chosen, _ = advise(text, "raise-allocator-cap", "smaller-partitions", cause="allocator-cap")
    assert ("--driver-memory=2g" in (chosen["raise-allocator-cap"].snippet or "")) is is_driver
    assert ("smaller-partitions" in chosen) is not is_driver
    assert ("Spark driver's heap is full" in told_of(tmp_path, text)) is is_driver


@pytest.mark.parametrize(("tasks", "is_on"), [(1000, True), (4000, True), (999, False), (200, False)])
def test_a_stage_of_as_many_tasks_is_not_split_into_them(tasks: int, *, is_on: bool) -> None:
    bar = f"[Stage 3:=====>                        (8 + 16) / {tasks}]\n"
    chosen, rejected = advise(bar + EXECUTOR, "smaller-partitions", cause="allocator-cap")
    assert ("smaller-partitions" in rejected) is is_on
    assert ("smaller-partitions" in chosen) is not is_on


def test_a_stated_heap_of_the_driver_is_doubled() -> None:
    text = f"spark-submit --driver-memory 6g job.py\n{DRIVER}"
    assert advise(text, "raise-allocator-cap")[0]["raise-allocator-cap"].snippet == "spark-submit --driver-memory=12g"


RUST = """\
   Compiling kestrel v0.1.0 (/kestrel/cli)
error: could not compile `kestrel`
  process didn't exit successfully: `rustc --crate-name kestrel src/main.rs{options} -C x=1` (signal: 9, SIGKILL: kill)
"""
DOCKER = "The command '/bin/sh -c cargo build --release' returned a non-zero code: 101\n"


@pytest.mark.parametrize(
    ("options", "whole"),
    [(" -C lto=fat", True), (" -C lto", True), (" -C lto=thin", False), (" -C lto=off", False), ("", False)],
)
def test_one_rustc_that_optimizes_everything_is_no_matter_of_jobs(options: str, tmp_path: Path, *, whole: bool) -> None:
    text = RUST.format(options=options)
    remedy = advise(text, "fewer-build-jobs", cause="build-parallelism")[0]["fewer-build-jobs"]
    assert remedy.snippet == ("export CARGO_PROFILE_RELEASE_LTO=off" if whole else "export CARGO_BUILD_JOBS=1")
    told = told_of(tmp_path, text)
    assert ("link-time optimization of the crate kestrel" in told) is whole
    assert "CUDA or C++" not in told


@pytest.mark.parametrize(
    ("below", "dockerfile"),
    [(DOCKER, True), ("#12 [build 5/9] RUN cargo build\n", True), ("make: *** [all] Error 101\n", False), ("", False)],
)
def test_a_variable_of_the_shell_does_not_reach_a_dockerfile(below: str, *, dockerfile: bool) -> None:
    text = f"{RUST.format(options='')}{below}"
    snippet = advise(text, "fewer-build-jobs")[0]["fewer-build-jobs"].snippet or ""
    assert snippet.endswith("\nENV CARGO_BUILD_JOBS=1" if dockerfile else "export CARGO_BUILD_JOBS=1")
    assert snippet.startswith("# in the Dockerfile" if dockerfile else "export")


STATE = """\
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
    Limits:
      memory:  900Mi
"""
DESCRIBED = (
    "Name:             cart-api-6d57f5fd7-xk2lm\nNamespace:        shop\n"
    "Controlled By:  ReplicaSet/cart-api-6d57f5fd7\nContainers:\n  api:\n    Container ID:  containerd://ab\n"
)


@pytest.mark.parametrize(
    ("above", "told"),
    [
        (
            "$ kubectl describe pod -n shop cart-api-6d57f5fd7-xk2lm\n",
            ("cart-api-6d57f5fd7-xk2lm", "shop", "deployment", "cart-api", None),
        ),
        ("$ kubectl logs -n shop queue-0\n", ("queue-0", "shop", "statefulset", "queue", None)),
        ("$ kubectl describe pods\n", (None, None, None, None, None)),
        ("$ kubectl get events -n shop\n", (None, "shop", None, None, None)),
        ("$ kubectl describe pod seed-x7k2p\n", ("seed-x7k2p", None, None, None, None)),
        (
            DESCRIBED,
            ("cart-api-6d57f5fd7-xk2lm", "shop", "deployment", "cart-api", "api"),
        ),
        ("Name:             feed\nControlled By:  DaemonSet/feed\n", ("feed", None, "daemonset", "feed", None)),
        ("$ kubectl describe pod $(rm -rf x)\n", (None, None, None, None, None)),
        ("  limits:\n", (None, None, None, None, None)),
    ],
)
def test_a_pod_is_named_as_the_log_names_it(above: str, told: tuple[str | None, ...]) -> None:
    found = pod(crashes_of(f"{above}{STATE}")[0])
    assert (found.name, found.namespace, found.kind, found.owner, found.container) == told


LISTED = "{pod}        0/1     OOMKilled   3 (41s ago)   5m2s\n"


def test_a_row_of_a_list_names_the_pod() -> None:
    text = f"kubectl get pods\nNAME   READY   STATUS   RESTARTS   AGE\n{LISTED.format(pod='cart-api-6d57f5fd7-xk2lm')}"
    snippet = advise(text, "raise-container-limit")[0]["raise-container-limit"].snippet or ""
    assert snippet.splitlines()[0] == "kubectl describe pod cart-api-6d57f5fd7-xk2lm"
    assert "kubectl set resources deployment cart-api -c CONTAINER --limits=memory=TWICE_THE_LIMIT" in snippet


@pytest.mark.parametrize(
    "row", ["", LISTED.format(pod="Cart_API"), "cart-api-6d57f5fd7-xk2lm   1/1   Running   0   2m\n"]
)
def test_what_is_no_killed_pod_in_a_list_names_none(row: str) -> None:
    assert pod(crashes_of(f"{row}{STATE}")[0]).name is None


def test_a_pods_namespace_stands_behind_its_name() -> None:
    text = f"kubectl -n shop get pods\n{LISTED.format(pod='cart-api-6d57f5fd7-xk2lm')}"
    snippet = advise(text, "raise-container-limit")[0]["raise-container-limit"].snippet or ""
    assert snippet.splitlines()[0] == "kubectl describe pod cart-api-6d57f5fd7-xk2lm -n shop"


def test_the_command_has_the_names_of_the_log(tmp_path: Path) -> None:
    text = f"$ kubectl describe pod -n shop cart-api-6d57f5fd7-xk2lm\n{STATE}"
    snippet = advise(text, "raise-container-limit")[0]["raise-container-limit"].snippet or ""
    assert "kubectl -n shop set resources deployment cart-api -c CONTAINER --limits=memory=" in snippet
    assert "pod cart-api-6d57f5fd7-xk2lm hit its memory limit" in told_of(tmp_path, text)
    bare = advise(STATE, "raise-container-limit")[0]["raise-container-limit"].snippet or ""
    assert "kubectl set resources deployment NAME -c CONTAINER" in bare
    assert bare.endswith("# or statefulset, daemonset")


UNIT = """\
Aug 26 10:49:58 node-a systemd[1]: {unit}: A process of this unit has been killed by the OOM killer.
Aug 26 10:49:58 node-a systemd[1]: {unit}: Failed with result 'oom-kill'.
Aug 26 10:49:58 node-a systemd[1]: {unit}: Consumed 1h 2min 3s CPU time, 7.5G memory peak, 24.1M memory swap peak.
"""
KERNEL = (
    "Aug 26 10:49:58 node-a kernel: Out of memory: Killed process 4711 (mixer) total-vm:9000000kB, anon-rss:7000000kB, "
    "file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:100kB oom_score_adj:0\n"
)


def test_a_units_own_limit_is_looked_up_before_the_node_is_blamed(tmp_path: Path) -> None:
    text = UNIT.format(unit="mixer.service")
    chosen, _ = advise(text, "collect-evidence", cause="host-memory-exhausted")
    assert (chosen["collect-evidence"].snippet or "").startswith("systemctl show mixer.service -p MemoryMax,")
    told = told_of(tmp_path, text)
    assert "ended a process of mixer.service, which had used up to 7.5 GiB" in told
    assert "the node ran out of memory" not in told


def test_the_kernels_own_line_says_whose_memory_it_was() -> None:
    chosen, _ = advise(KERNEL + UNIT.format(unit="mixer.service"), "collect-evidence", cause="host-memory-exhausted")
    assert "systemctl" not in (chosen["collect-evidence"].snippet or "")


RENDERER = """\
$ ./bin/render -f scene.xml {options}
terminate called after throwing an instance of 'optix::Exception'
  what():  Memory allocation failed (Details: Function "RTresult _rtBufferCreate(RTcontext)" caught exception: \
Encountered a CUDA error: cudaDriver().CuDevicePrimaryCtxRetain( &context, dev.get() ) returned (2): Out of memory
"""


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("--gpuIds 5 7", "nvidia-smi -i 5,7 "),
        ("--gpu_id=3", "nvidia-smi -i 3 "),
        ("--device-ids 1,2 --fast", "nvidia-smi -i 1,2 "),
        ("--gpus 2", "export CUDA_VISIBLE_DEVICES="),  # how many, not which
        ("--frames 5 7", "export CUDA_VISIBLE_DEVICES="),
    ],
)
def test_a_program_that_is_told_its_gpus_is_told_others(options: str, shown: str) -> None:
    chosen, _ = advise(RENDERER.format(options=options), "fix-placement", cause="gpu-shared")
    assert (chosen["fix-placement"].snippet or "").startswith(shown)


@pytest.mark.parametrize(
    ("tried", "overflowed"),
    [
        (2**64 - 1_868_257_915, True),
        (2**64 - 2**31, True),
        (2**64 - 2**31 - 1, False),
        (2**63, False),
        (2**45, False),
    ],
)
def test_a_size_of_32_bits_is_read_with_its_sign(tried: int, tmp_path: Path, *, overflowed: bool) -> None:
    text = f"memory allocation of {tried} bytes failed\n"
    told = told_of(tmp_path, text)
    assert ("a 32-bit count overflowed" in told) is overflowed
    if tried == 2**64 - 1_868_257_915:
        assert "(-1868257915 bytes)" in told
        assert "overflowed at 2.26 GiB" in told


SHARED = "RuntimeError: unable to mmap 29764 bytes from file </torch_{file}>: Cannot allocate memory (12)\n"


@pytest.mark.parametrize(
    ("file", "counted"),
    [("20182_3020184674_63991", "63,991"), ("20182_64001", "64,001"), ("20182_3020184674_17", None), ("20182", None)],
)
def test_the_name_of_a_shared_file_counts_the_tensors(file: str, counted: str | None, tmp_path: Path) -> None:
    explained = told_of(tmp_path, SHARED.format(file=file))
    assert ("as the file's name says" in explained) is (counted is not None)
    assert counted is None or f"had shared {counted} before" in explained


BASECALL = """\
[2026-01-09 19:39:36.350] [info] > Creating basecall pipeline
[2026-01-09 19:39:42.624] [debug] - available GPU memory 23GB
{chosen}terminate called after throwing an instance of 'c10::CUDAOutOfMemoryError'
  what():  CUDA out of memory. Tried to allocate 7.81 GiB (GPU 0; 22.20 GiB total capacity; 11.94 GiB already \
allocated; 4.84 GiB free; 15.74 GiB reserved in total by PyTorch)
"""


@pytest.mark.parametrize(
    ("chosen", "half"),
    [
        ("[2026-01-09 19:39:45.964] [debug] - selected batchsize 512\n", 256),
        ("[2026-01-09 19:39:45.964] [info]  - set batch size for cuda:0 to 384\n", 192),
        ("", None),
    ],
)
def test_a_chosen_batch_size_ends_the_loading(chosen: str, half: int | None) -> None:
    text = BASECALL.format(chosen=chosen)
    assert (crashes_of(text)[0].stage == "model_load") is (half is None)
    remedies, _ = advise(text, "smaller-microbatch", "quantize-weights", cause="activations")
    assert "quantize-weights" not in remedies
    assert half is None or remedies["smaller-microbatch"].snippet == f"dorado basecaller --batchsize {half}"


CHAINER = """\
GPU: 0
{printed}
Exception in main training loop: out of memory to allocate 163840000 bytes (total 1673061376 bytes)
Traceback (most recent call last):
  File "/env/chainer/optimizer.py", line 593, in update
    loss = lossfun(*args, **kwds)
  File "/srv/tiles/net.py", line 61, in forward
    h = self.dec1(h)
"""


@pytest.mark.parametrize(
    ("printed", "halved"),
    [("# Minibatch-size: 16", "16 -> 8"), ("# minibatch of size: 16", None), ("# Crop-size: 400", None)],
)
def test_sizes_that_a_program_prints_of_itself_are_read(printed: str, halved: str | None, tmp_path: Path) -> None:
    chosen, _ = advise(CHAINER.format(printed=printed), "smaller-microbatch", "smaller-input", cause="activations")
    assert ("16 -> 8" in chosen["smaller-microbatch"].action) is (halved is not None)
    cropped = chosen.get("smaller-input")
    assert (cropped is not None and "crop_size is 400" in cropped.action) is ("Crop" in printed)
    assert "belongs to a library" not in told_of(tmp_path, CHAINER.format(printed=printed))
