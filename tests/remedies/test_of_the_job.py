"""Nothing of another world: each remedy has an object in the job that the log shows."""

from __future__ import annotations

import pytest
from remedy_logs import advise, crashes_of, cuda

from oomdoctor.decision.diagnosis import decide

PARTS, BATCH, LOADING, REFERENCES = "smaller-partitions", "smaller-microbatch", "low-memory-loading", "clear-references"
HEAP = "java.lang.OutOfMemoryError: Java heap space\n"
SORTS = "\tat org.apache.spark.sql.execution.SortExec.doExecute(SortExec.scala:90)\n"
REDUCES = "\tat org.apache.spark.rdd.RDD.iterator(RDD.scala:288)\n"
TO_PYTHON = "\tat org.apache.spark.sql.execution.python.ArrowPythonRunner.write(ArrowPythonRunner.scala:70)\n"


@pytest.mark.parametrize(
    ("frames", "option"),
    [
        (SORTS, "spark.sql.shuffle.partitions=1000"),
        (SORTS + REDUCES, "spark.sql.shuffle.partitions=1000"),
        (REDUCES, "spark.default.parallelism=1000"),
        ("\tat org.apache.spark.executor.Executor.run(Executor.scala:500)\n", "spark.sql.shuffle.partitions=1000"),
    ],
)
def test_tables_and_sets_are_parted_by_options_of_their_own(frames: str, option: str) -> None:
    assert advise(HEAP + frames, PARTS, cause="allocator-cap")[0][PARTS].snippet == option


@pytest.mark.parametrize(("frames", "advised"), [(SORTS, False), (REDUCES, False), ("", False), (TO_PYTHON, True)])
def test_a_heap_has_batches_only_on_their_way_to_python(frames: str, *, advised: bool) -> None:
    log = HEAP + (frames or "\tat org.apache.spark.scheduler.Task.run(Task.scala:100)\n")
    assert (BATCH in advise(log, BATCH, cause="allocator-cap")[0]) is advised


@pytest.mark.parametrize(
    ("message", "guessed"),
    [
        (HEAP + SORTS, False),
        ("FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n", False),
        (
            "MemoryError: Unable to allocate 3.00 GiB for an array with shape (1000, 402653) and data type float64\n",
            True,
        ),
    ],
)
def test_a_full_heap_is_no_limit_on_address_space(message: str, *, guessed: bool) -> None:
    causes = [each.cause.id for each in decide(crashes_of(message)[0]).answers]
    assert ("address-space-limit" in causes) is guessed


REFUSED = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 1139.46 MiB on device 0: cudaMalloc failed: out of memory\n"
)


@pytest.mark.parametrize(
    ("line", "is_ollama"),
    [
        ('time=2026-01-02T03:04:05Z level=INFO source=llama_server.go:90 msg="waiting for the server"', True),
        ('time=2026-01-02T03:04:05Z level=INFO source=sched.go:30 msg="new model"', True),
        ('time=2026-01-02T03:04:05Z level=INFO source=main.go:30 msg="starting"', False),
        ("llama_server: waiting for slots", False),
    ],
)
@pytest.mark.parametrize(
    ("knob", "own", "others"),
    [("offload-parameters", "num_gpu", "-ngl"), ("shorter-context", "OLLAMA_CONTEXT_LENGTH", "-c")],
)
def test_ollama_has_options_of_its_own(line: str, knob: str, own: str, others: str, *, is_ollama: bool) -> None:
    log = f"{line}\nload_tensors: offloaded 31/31 layers to GPU\n{REFUSED}"
    assert advise(log, knob, cause="model-does-not-fit")[0][knob].setting == (own if is_ollama else others)


BAR = "Loading checkpoint shards:  14%|#4        | 1/7 [00:13<01:22, 13.68s/it]\n"
KILLED = (
    "E0629 01:16:24.298000 140 torch/distributed/elastic/multiprocessing/api.py:826] failed (exitcode: -9) "
    "local_rank: 2 (pid: 412) of binary: /env/bin/python\n"
)


@pytest.mark.parametrize(
    ("above", "line"),
    [
        (BAR, "from_pretrained("),
        (BAR.replace("Loading checkpoint shards", "Loading weights"), "torch.load("),
        ("Loading my checkpoint\n", "torch.load("),
    ],
)
def test_weights_are_loaded_by_who_prints_the_bar(above: str, line: str) -> None:
    known = advise(above + KILLED, LOADING, cause="host-model-load")[0][LOADING]
    assert line in (known.snippet or "")


@pytest.mark.parametrize(
    ("line", "pictures"),
    [
        ("Starting Dreambooth training...", True),
        ("Bucket 1: Resolution (512, 512), Count: 30", True),
        ("Replace CrossAttention.forward to use xformers", True),
        ("resolution of the issue: (see 12, 13)", False),
        ("Starting training...", False),
        ("Replace Attention.forward", False),
    ],
)
def test_pictures_are_not_made_shorter(line: str, *, pictures: bool) -> None:
    log = f"{line}\nepoch 1 loss 0.3\n{cuda()}"
    chosen, _ = advise(log, "shorter-sequences", cause="activations")
    assert ("shorter-sequences" in chosen) is not pictures


SHM = "RuntimeError: DataLoader worker (pid 77) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.\n"  # noqa: E501


def test_nothing_of_a_loop_is_kept_in_shared_memory() -> None:
    assert not advise(SHM, REFERENCES, "smaller-buffers", cause="shm-too-small")[0]


PRESSURE = (
    "(raylet) [2026-01-07 10:21:44,206 E 3824 3824] (raylet) node_manager.cc:3277: 2 Workers (tasks / actors) killed "
    "due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: 41c0, IP: 10.0.0.31) over the "
    "last time period.\n"
)


@pytest.mark.parametrize(
    ("launch", "advised"),
    [("python3 -m verl.trainer.main_ppo data.train_batch_size=16\n", False), ("python my_own_tune.py\n", True)],
)
def test_a_framework_that_learns_keeps_no_losses_of_its_reader(launch: str, *, advised: bool) -> None:
    assert crashes_of(launch + PRESSURE)
    assert (REFERENCES in advise(launch + PRESSURE, REFERENCES, cause="host-memory-exhausted")[0]) is advised
