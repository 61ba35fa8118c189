"""Options of releases that came out after the log was written are not proposed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from remedy_logs import advise, crashes_of, cuda

import oomdoctor
from oomdoctor.job.frameworks import framework
from oomdoctor.job.model import Context, Setting
from oomdoctor.remedies import cells
from oomdoctor.remedies.settings import AHEAD, by_then, known_versions
from oomdoctor.versions import ALL

TABLE = Path(oomdoctor.__file__).parent / "remedies" / "releases.txt"


def test_the_table_names_known_frameworks_and_days() -> None:
    rows = list(cells.rows(TABLE))
    assert len(rows) > 100
    for name, release, day, *_ in rows:
        assert framework(name) is not None, name
        assert re.fullmatch(r"\d+(\.\d+){1,3}|b\d{4,5}", release), release
        assert re.fullmatch(r"20[12]\d-\d\d-\d\d", day), day


@pytest.mark.parametrize(
    ("day", "before"),
    [("2024-06-21", (0, 6)), ("2025-03-18", (0, 9)), ("2019-01-01", (0, 3)), ("2040-01-01", None), ("", None)],
)
def test_what_was_out_by_then(day: str, before: tuple[int, ...] | None) -> None:
    assert AHEAD == 60
    assert by_then("vllm", day) == ALL if before is None else by_then("vllm", day).before == before


@pytest.mark.parametrize("day", ["2024-02-30", "2024-13-01", "yesterday"])
def test_a_day_that_is_none_tells_nothing(day: str) -> None:
    assert by_then("vllm", day) == ALL


def test_a_framework_without_releases_is_as_before() -> None:
    assert by_then("slime", "2019-01-01") == ALL


LINE = "[{stamp}] ERROR trainer: tensorflow/core/common_runtime/bfc_allocator.cc:462 Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.10GiB (rounded to 2254857830)\n"  # noqa: E501


@pytest.mark.parametrize(
    ("stamp", "day"),
    [
        ("2019-10-02 10:00:01,311", "2019-10-02"),
        ("2024/06/21T10:00:01", "2024-06-21"),
        ("10-02 10:00:01", ""),
        ("build 2019-10-02", ""),
        ("2019-10-40 10:00:01", ""),
    ],
)
def test_the_day_of_a_crash_stands_at_the_head_of_its_lines(stamp: str, day: str) -> None:
    assert crashes_of(LINE.format(stamp=stamp))[0].context.day == day


@pytest.mark.parametrize(("year", "known"), [(2019, False), (2023, True)])
def test_a_call_is_proposed_from_its_release_on(year: int, known: bool) -> None:
    log = (
        LINE.format(stamp=f"{year}-10-02 10:00:01") + "tensorflow.python.framework.errors_impl.ResourceExhaustedError\n"
    )
    remedy = advise(log, "mixed-precision", cause="activations")[0]["mixed-precision"]
    assert ("set_global_policy" in (remedy.snippet or "")) is known


OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 3.25 GiB (GPU 0; 31.75 GiB total capacity; 18.00 GiB already "
    "allocated; 1.20 GiB free; 24.31 GiB reserved in total by PyTorch) If reserved memory is >> allocated "
    "memory try setting max_split_size_mb to avoid fragmentation.\n"
)
OLDEST = OLD.partition(" If reserved")[0] + "\n"
NEW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.25 GiB. GPU 0 has a total capacity of 31.75 GiB "
    "of which 1.20 GiB is free. Of the allocated memory 18.00 GiB is allocated by PyTorch, and 6.31 GiB is reserved by "
    "PyTorch but unallocated.\n"
)


MISSPELLED = NEW.replace("torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError").replace("capacity", "capacty")
BARE = "RuntimeError: CUDA out of memory. Tried to allocate 3.00 GiB\n"


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (OLD, {"torch": "<1.13"}),
        (OLD.replace("RuntimeError", "torch.cuda.OutOfMemoryError"), {"torch": ">=1.13 <2.1"}),
        (OLDEST, {"torch": "<1.10"}),
        (OLDEST.replace("24.31 GiB reserved in total by PyTorch)", "6.31 GiB cached)"), {"torch": "<1.4"}),
        (OLDEST.replace("24.31 GiB reserved in total by PyTorch)", "6.31 GiB"), {"torch": "<1.13"}),  # cut before it
        (OLDEST.replace("by PyTorch)", "by PyTorch), 6.31 GiB cached)"), {"torch": "<1.13"}),
        (
            OLDEST.replace("RuntimeError", "torch.cuda.OutOfMemoryError"),
            {"torch": ">=1.13 <2.1"},
        ),  # cut behind its figures
        (OLDEST.replace("by PyTorch)", "by PyTorch) (somebody's words)"), {"torch": "<1.13"}),
        ('  File "/env/torch/tensor.py", line 195, in backward\n' + OLD, {"torch": "<1.9"}),
        (NEW, {"torch": ">=2.4"}),
        (NEW.replace("torch.OutOfMemoryError", "RuntimeError"), {"torch": ">=2.2"}),
        (NEW.replace("torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"), {"torch": ">=2.2 <2.5"}),
        (MISSPELLED, {"torch": ">=2.1 <2.2"}),
        (MISSPELLED.replace("torch.cuda.OutOfMemoryError", "RuntimeError"), {"torch": ">=2.1 <2.2"}),
        (MISSPELLED.replace("torch.cuda.OutOfMemoryError: CUDA", "RuntimeError: NPU").replace("GPU 0", "NPU 0"), {}),
        (f"# {BARE}", {}),
        (OLD.replace("CUDA", "NPU").replace("(GPU", "(NPU"), {}),
    ],
)
def test_the_words_of_a_message_tell_its_releases(log: str, told: dict[str, str]) -> None:
    assert crashes_of(log)[0].context.releases == told


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (OLD, "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512"),
        (NEW, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
        (
            OLD.replace("CUDA", "NPU").replace("(GPU", "(NPU"),
            "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True",
        ),
    ],
)
def test_an_allocator_is_told_what_its_release_knows(log: str, line: str) -> None:
    remedy = advise(log, "allocator-config", cause="allocator-fragmentation")[0]["allocator-config"]
    assert remedy.snippet == line


CACHED = OLDEST.replace("24.31 GiB reserved in total by PyTorch)", "6.31 GiB cached)")


@pytest.mark.parametrize(
    ("log", "fused"), [(NEW, True), (OLD, True), (OLDEST, False), (CACHED, False), ("torch 1.12.0\n" + NEW, True)]
)
def test_who_trains_with_an_old_release_has_no_fused_attention(log: str, *, fused: bool) -> None:
    chosen, _ = advise(f"attention of 16 heads\n{log}", "memory-efficient-attention", cause="activations")
    assert ("memory-efficient-attention" in chosen) is fused


@pytest.mark.parametrize(("log", "hooks"), [(NEW, True), (OLD, True), (OLDEST, False), (CACHED, False)])
def test_nor_hooks_that_keep_activations_elsewhere(log: str, *, hooks: bool) -> None:
    chosen, _ = advise(log, "offload-activations", cause="activations")
    assert ("offload-activations" in chosen) is hooks


@pytest.mark.parametrize(("log", "line"), [(NEW, "(block, x, use_reentrant=False)"), (OLDEST, "(block, x)")])
def test_a_checkpoint_of_an_old_release_has_fewer_arguments(log: str, line: str) -> None:
    chosen, _ = advise(log, "gradient-checkpointing", cause="activations")
    assert (chosen["gradient-checkpointing"].snippet or "").endswith(f"checkpoint{line}")


@pytest.mark.parametrize(("log", "old"), [(OLD, False), (NEW, False), (OLDEST, True)])
def test_a_release_without_the_variable_is_told_of_none(log: str, old: bool) -> None:
    chosen, rejected = advise(log, "allocator-config", cause="activations")
    assert ("allocator-config" not in chosen) == old
    assert ("1.10" in rejected["allocator-config"].why if old else not rejected) is True


SUMMARY = (
    "|===========================================================================|\n"
    "|                  PyTorch CUDA memory summary, device ID 0                 |\n"
    "|            CUDA OOMs: 1            |        cudaMalloc retries: 1         |\n"
    "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n"
    "| Allocated memory      |    2031 {unit} |    6110 {unit} |   70112 {unit} |   68081 {unit} |\n"
    "| GPU reserved memory   |   14002 {unit} |   14002 {unit} |   19003 {unit} |    5001 {unit} |\n"
    "| Non-releasable memory |   11900 {unit} |   11950 {unit} |   99120 {unit} |   87220 {unit} |\n"
    "|===========================================================================|\n"
)


@pytest.mark.parametrize(
    ("unit", "told", "line", "assumes"),
    [
        (
            "MB",
            "<2.0",
            "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512",
            ("PyTorch >=1.10 <2.1 (version not in the log)",),
        ),
        (
            "MiB",
            ">=2.0",
            "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            ("PyTorch >=2.1 (version not in the log)",),
        ),
    ],
)
def test_the_units_of_a_table_tell_its_releases(unit: str, told: str, line: str, assumes: tuple[str, ...]) -> None:
    log = SUMMARY.format(unit=unit)
    assert crashes_of(log)[0].context.releases == {"torch": told}
    remedy = advise(log, "allocator-config", cause="allocator-fragmentation")[0]["allocator-config"]
    assert (remedy.snippet, remedy.assumes) == (line, assumes)


@pytest.mark.parametrize(
    ("log", "line"), [(OLD, "print(torch.cuda.memory_summary())"), (NEW, "torch.cuda.memory._record_memory_history()")]
)
def test_memory_is_recorded_by_what_the_release_has(log: str, line: str) -> None:
    remedy = advise(log, "collect-evidence", cause="gpu-memory-exhausted")[0]["collect-evidence"]
    assert (remedy.snippet or "").startswith(line)


FRAME = '  File "/opt/conda/lib/python3.10/site-packages/{path}", line 88, in build\n    engine = build(args)\n'
TOO_LONG = (
    "ValueError: The model's max seq len (65536) is larger than the maximum number of tokens that can be stored in KV "
    "cache (20480). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when it starts.\n"
)


def _ended(*paths: str, above: str = "") -> str:
    frames = "".join(FRAME.format(path=path) for path in paths)
    return f"{above}Traceback (most recent call last):\n{frames}{TOO_LONG}"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("swift/llm/utils/vllm_utils.py", ">=2.0 <3.0"),
        ("swift/llm/infer.py", ">=2.0 <3.0"),
        ("swift/llm/infer/infer_engine/vllm_engine.py", ">=3.0 <4.0"),
        ("swift/pipelines/infer/deploy.py", ">=4.0"),
        ("swift/llm/utils.py", None),
        ("swift/llm/base.py", None),
        ("swift/cli/deploy.py", None),
        ("taylorswift/llm/utils/vllm_utils.py", None),
        ("vllm/engine/llm_engine.py", None),
    ],
)
def test_the_files_of_a_traceback_tell_its_releases(path: str, told: str | None) -> None:
    assert crashes_of(_ended(path))[0].context.releases.get("ms-swift") == told


IN_A_STEP = (
    'Traceback (most recent call last):\n  File "/w/{path}", line 30, in main\n    run_exp()\n'
    '  File "/x/fit.py", line 3, in forward\n    y = self.mlp(x)\n'
)
TUNED = "/env/lib/python3.11/site-packages/llamafactory/train/sft/trainer.py"


@pytest.mark.parametrize(
    ("path", "name", "told", "line"),
    [
        ("src/train_bash.py", "llamafactory", "<0.7.1", "--per_device_train_batch_size 1"),
        ("src/llmtuner/train/tuner.py", "llamafactory", "<0.8", "--per_device_train_batch_size 1"),
        ("src/llamafactory/train/tuner.py", "llamafactory", None, "per_device_train_batch_size: 1"),
        ("nnUNet/nnunet/training/network_training/network_trainer.py", "nnunet", "<2.0", "['batch_size'] = 1"),
        ("nnunetv2/training/nnUNetTrainer/nnUNetTrainer.py", "nnunet", ">=2.0", '"batch_size": 1'),
    ],
)
def test_the_paths_of_a_program_choose_how_its_options_are_written(
    path: str, name: str, told: str | None, line: str
) -> None:
    log = f"{IN_A_STEP.format(path=path)}{f'  File {TUNED!r}' if told is None else ''}\n{NEW}"
    if name == "llamafactory":
        log = f"import llmtuner/llamafactory/\n{log}"
    assert crashes_of(log)[0].context.releases.get(name) == told
    remedy = advise(log, "smaller-microbatch", cause="activations")[0]["smaller-microbatch"]
    assert (remedy.snippet or "").endswith(line)
    assert not (remedy.snippet or "").startswith("--") or line.startswith("--")


@pytest.mark.parametrize(
    ("stated", "line"),
    [
        ("--sft_type lora", "--deepspeed default-zero3"),
        ("--model_id_or_path qwen/x --batch_size 1", "--deepspeed default-zero3"),
        ("--train_type lora", "--deepspeed zero3"),
    ],
)
def test_ms_swift_names_its_stages_by_its_release(stated: str, line: str) -> None:
    log = f"NPROC_PER_NODE=4 swift sft --model_type x {stated}\n{IN_A_STEP.format(path='cli.py')}{NEW}"
    assert advise(log, "shard-states", cause="optimizer-states")[0]["shard-states"].snippet == line


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("total_gpu_memory=47.50GiB initial_memory_usage=1.50GiB peak_torch_memory=9.00GiB", ">=0.6.4 <0.6.5"),
        ("total_gpu_memory=47.50GiB, non_torch_memory=1.50GiB", None),
    ],
)
def test_how_an_engine_reports_its_profile_tells_its_release(line: str, told: str | None) -> None:
    log = f"INFO 01-02 03:04:05 worker.py:232] Memory profiling results: {line}\n{_ended(ENGINE)}"
    assert crashes_of(log)[0].context.releases.get("vllm") == told


ENGINE = "vllm/engine/llm_engine.py"
SETS = "INFO vllm: Initializing an LLM engine with config: max_model_len=65536, gpu_memory_utilization=0.9\n"


@pytest.mark.parametrize(
    ("log", "line", "is_assumed"),
    [
        (_ended("swift/llm/utils/vllm_utils.py", "swift/llm/deploy.py"), "--max_model_len 20480", False),
        (_ended("swift/llm/infer/deploy.py"), "--max_model_len 20480", True),
        (
            _ended("swift/llm/train/rlhf.py", "swift/trainers/rlhf_trainer/grpo_trainer.py"),
            "--vllm_max_model_len",
            True,
        ),
        (_ended("swift/pipelines/infer/deploy.py"), "--vllm_max_model_len 20480", False),
        (_ended("swift/llm/train/rlhf.py", ENGINE, above=SETS), "--vllm_max_model_len", True),
    ],
)
def test_a_serving_program_is_told_its_releases_own_options(log: str, line: str, is_assumed: bool) -> None:
    """ms-swift has the prefix for serving since 3.7, and for training since it has an engine."""
    remedy = advise(log, "shorter-context", cause="max-model-len-too-long")[0]["shorter-context"]
    assert (remedy.snippet or "").startswith(line)
    assert any("ms-swift" in one for one in remedy.assumes) is is_assumed


def test_an_option_that_an_engine_has_too_dates_no_program() -> None:
    """`max_model_len` is ms-swift's own before 3.7, and vLLM's always."""
    names = {"ms-swift": None, "vllm": None}
    theirs = Context(frameworks=names, settings={"max_model_len": Setting("max_model_len", 65536, "job.log", 1)})
    alone = replace(theirs, frameworks={"ms-swift": None})
    assert known_versions("ms-swift", theirs) == ALL
    assert known_versions("ms-swift", alone).before == (3, 7)


V0 = "INFO 06-05 04:03:02 gpu_executor.py:121] # GPU blocks: 4411, # CPU blocks: 1024\n"
V0_LATER = "INFO 06-05 04:03:02 executor_base.py:110] # cuda blocks: 4411, # CPU blocks: 1024\n"
V1 = "INFO 06-05 04:03:02 [core.py:171] # GPU blocks: 4411\n"


@pytest.mark.parametrize(("line", "before"), [(V0, (0, 7)), (V0_LATER, ALL.before), (V1, ALL.before), ("", ALL.before)])
def test_an_engine_of_old_is_known_by_how_it_counts_its_blocks(line: str, before: tuple[int, ...]) -> None:
    crash = crashes_of(line + cuda())[0]
    assert known_versions("vllm", crash.context).before == before


@pytest.mark.parametrize(
    ("writer", "value"),
    [
        ("(EngineCore_DP0 pid=812) ", None),
        ("(EngineCore pid=812) ", None),
        ("(VllmWorker rank=0 pid=812) ", None),
        ("(WorkerDict pid=812) ", 128),
    ],
)
def test_no_default_of_releases_that_did_not_write_so(writer: str, value: int | None) -> None:
    """What vLLM takes for --max-num-seqs hangs on the GPU in the newer engine."""
    log = "INFO vLLM API server\n" + "".join(f"{writer}{line}\n" for line in cuda().splitlines())
    found = advise(log, "fewer-sequences", cause="sampler-warmup")[0]["fewer-sequences"]
    assert found.suggested == value


CALLED = (
    "Traceback (most recent call last):\n"
    '  File "fit.py", line 40, in <module>\n    scores = model(batch)\n'
    '  File "{packages}/torch/nn/modules/module.py", line 491, in __call__\n    result = self.forward(*input)\n'
)
REFUSED_THERE = "RuntimeError: cuda runtime error (2) : out of memory at {place}:66\n"


@pytest.mark.parametrize(
    ("packages", "told"),
    [
        ("/env/lib/python2.7/site-packages", "<1.5"),
        ("/usr/lib/python2.7/dist-packages", "<1.5"),
        ("/env/lib/python3.5/site-packages", "<1.6"),
        ("/env/lib/python3.6/site-packages", "<1.11"),
        ("/env/lib/python3.7/site-packages", "<2.0"),
        ("/env/lib/python3.8/site-packages", "<2.5"),
        ("/env/lib/python3.10/site-packages", None),
        ("/srv/python2.7/of/python3.12/site-packages", None),
        ("C:/miniconda3/envs/one/lib/site-packages", None),
    ],
)
def test_an_old_python_runs_no_new_release(packages: str, told: str | None) -> None:
    assert crashes_of(CALLED.format(packages=packages) + BARE)[0].context.releases.get("torch") == told


def test_what_another_program_runs_with_tells_nothing() -> None:
    log = "launch.sh: leaves /opt/old/lib/python2.7/site-packages/torch/ alone\n" + CALLED + BARE
    assert not crashes_of(log.format(packages="/env/lib/python3.12/site-packages"))[0].context.releases


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("/pytorch/torch/lib/THC/generic/THCStorage.cu", "<0.4"),
        ("/opt/conda/conda-bld/pytorch_15/work/torch/lib/THC/THCGeneral.c", "<0.4"),
        ("/pytorch/aten/src/THC/THCGeneral.cpp", "<1.11"),
        ("/root/torch/extra/cutorch/lib/THC/generic/THCStorage.cu", None),
        ("/pytorch/aten/src/ATen/cuda/CUDAContext.cpp", None),
    ],
)
def test_the_place_of_a_check_tells_its_releases(place: str, told: str | None) -> None:
    log = CALLED.format(packages="/env/lib/python3.12/site-packages") + REFUSED_THERE.format(place=place)
    assert crashes_of(log)[0].context.releases.get("torch") == told


@pytest.mark.parametrize(
    ("python", "checkpoint"), [("2.7", "checkpoint(block, x)"), ("3.12", "(block, x, use_reentrant=False)")]
)
def test_who_trains_with_an_old_python_is_told_what_its_release_has(python: str, checkpoint: str) -> None:
    packages = f"/env/lib/python{python}/site-packages"
    log = CALLED.format(packages=packages) + REFUSED_THERE.format(place="/pytorch/aten/src/THC/THCGeneral.cpp")
    if python != "2.7":
        log = CALLED.format(packages=packages) + NEW
    chosen, _ = advise(log, "gradient-checkpointing", "offload-activations", cause="activations")
    assert (chosen["gradient-checkpointing"].snippet or "").endswith(checkpoint)
    assert ("offload-activations" in chosen) is (python != "2.7")


@pytest.mark.parametrize(
    ("log", "line"),
    [(OLDEST, "print(torch.cuda.memory_summary())"), (CACHED, None)],
)
def test_a_table_of_memory_is_there_since_the_allocator_says_reserved(log: str, line: str | None) -> None:
    remedy = advise(log, "collect-evidence", cause="gpu-memory-exhausted")[0]["collect-evidence"]
    assert remedy.snippet == line


@pytest.mark.parametrize(("python", "told"), [("2.7", "<2.2"), ("3.5", "<2.4"), ("3.6", None)])
def test_nor_one_of_tensorflow(python: str, told: str | None) -> None:
    frame = f'  File "/env/lib/python{python}/site-packages/tensorflow_core/python/client/session.py", line 9, in run\n'
    refused = "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor\n"
    log = f"Traceback (most recent call last):\n{frame}    return f()\n{refused}"
    assert crashes_of(log)[0].context.releases.get("tensorflow") == told


WAITS = (
    "{day} 09:13:44,101\tWARNING worker.py:1382 -- The actor or task with ID ffffffffffffffff cannot be scheduled "
    "right now. It requires {{GPU: 8.000000}} for placement, however the cluster currently cannot provide the "
    "requested resources.\n"
)


@pytest.mark.parametrize(
    ("day", "line"),
    [
        ("2021-05-03", "ray status"),
        ("2022-09-03", "ray status -v; ray list actors --filter state=ALIVE"),
        ("2025-05-03", "ray status -v; ray list actors --filter state=ALIVE"),
        ("", "ray status -v; ray list actors --filter state=ALIVE"),
    ],
)
def test_a_cluster_is_asked_by_what_its_release_has(day: str, line: str) -> None:
    assert advise(WAITS.format(day=day), "fix-environment")[0]["fix-environment"].snippet == line


@pytest.mark.parametrize(
    ("release", "line", "listed"),
    [("1.13.0", "ray status", ""), ("2.0.1", "ray status", "ray list"), ("2.1.0", "ray status -v", "ray list")],
)
def test_what_waits_is_shown_node_by_node_since_2_1(release: str, line: str, listed: str) -> None:
    log = f"ray, version {release}\n" + WAITS.format(day="")
    chosen, _ = advise(log, "fix-resource-request", "fix-environment")
    assert chosen["fix-resource-request"].snippet == line
    assert (chosen["fix-environment"].snippet or "").partition("; ")[::2] == (
        line,
        f"{listed} actors --filter state=ALIVE" if listed else "",
    )


RAY_KILLED = (
    "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
    "Memory on the node (IP: 10.0.0.4, ID: ab12) where the task (task ID: cd34, name=fit, pid=812) was running was "
    "60.10GB / 64.00GB (0.939063), which exceeds the memory usage threshold of 0.9. Ray killed this worker (ID: ef56) "
    "because it was the most recently scheduled task. To adjust the kill threshold, set the environment variable "
    "`{variable}` when starting Ray.\n"
)


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("RAY_memory_usage_threshold", ">=2.2"),
        ("RAY_memory_usage_threshold_fraction", ">=2.0 <2.2"),
        ("RAY_memory_monitor_refresh_ms", None),
    ],
)
def test_the_variable_that_ray_names_tells_its_releases(variable: str, told: str | None) -> None:
    assert crashes_of(RAY_KILLED.format(variable=variable))[0].context.releases.get("ray") == told


OF_DASK = (
    "{stamp}distributed.worker.memory - WARNING - Worker is at 81% memory usage. Pausing worker.  Process memory: 3.24 "
    "GiB -- Worker memory limit: 4.00 GiB\n{stamp}distributed.nanny.memory - WARNING - Worker tcp://10.0.0.4:4026 "
    "(pid=4026) exceeded 95% memory budget. Restarting...\n"
)
LOST = (
    "Traceback (most recent call last):\n"
    '  File "/env/lib/python{python}/site-packages/distributed/client.py", line 1813, in _gather\n    raise error\n'
    "distributed.scheduler.KilledWorker: ('fit-1', <Worker 'tcp://10.0.0.4:4026', memory: 0, processing: 2>)\n"
)


@pytest.mark.parametrize(
    ("log", "line", "is_assumed"),
    [
        (OF_DASK.format(stamp="2021-03-02 10:11:15,013 - "), "dask-worker SCHEDULER --nthreads=1", False),
        (OF_DASK.format(stamp="2024-03-02 10:11:15,013 - "), "dask worker SCHEDULER --nthreads=1", True),
        (OF_DASK.format(stamp=""), "dask worker SCHEDULER --nthreads=1", True),
        (OF_DASK.format(stamp="") + LOST.format(python="3.7"), "dask-worker SCHEDULER --nthreads=1", False),
        (OF_DASK.format(stamp="") + LOST.format(python="3.8"), "dask worker SCHEDULER --nthreads=1", True),
    ],
)
def test_a_worker_is_started_as_its_release_starts_one(log: str, line: str, is_assumed: bool) -> None:
    remedy = advise(log, "fewer-workers", cause="allocator-cap")[0]["fewer-workers"]
    assert remedy.snippet == line
    assert any("Dask" in one for one in remedy.assumes) is is_assumed


@pytest.mark.parametrize(
    ("context", "before"),
    [
        ({"nprocs": 4}, (2022, 10)),
        ({"nthreads": 4}, ALL.before),
        ({"memory_limit": "4GB"}, ALL.before),
    ],
)
def test_an_option_that_went_dates_its_release(context: dict[str, int | str], before: tuple[int, ...]) -> None:
    settings = {name: Setting(name, value, "job.log", 1) for name, value in context.items()}
    assert known_versions("dask", Context(frameworks={"dask": None}, settings=settings)).before == before


BUFFER = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 210.00 MiB on device 0: cudaMalloc failed: out of memory\n"
    "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 220200960\n"
)
FILLED = "print_info: n_layer = 32\n" * 80


@pytest.mark.parametrize(
    ("above", "line"),
    [
        ("build: 4500 (abcdef12) with cc 12.2.0 for x86_64-linux-gnu\n" + FILLED, "-fa"),
        ("build: 9500 (abcdef12) with cc 12.2.0 for x86_64-linux-gnu\n" + FILLED, "-fa on"),
        ("build: 10105 (abcdef12) with cc 12.2.0 for x86_64-linux-gnu\n" + FILLED, "-fa on"),
        ("main: build = 3100 (abcdef1)\n" + FILLED, "-fa"),
        ("main: build = 880 (abcdef1)\n" + FILLED, None),
        ("build: 4500 of today\n", "-fa on"),
        ("llama_context: flash_attn    = 0\n", "-fa"),
        ("llama_context: flash_attn    = disabled\n", "-fa on"),
        ("llama_kv_cache_unified:      CUDA0 KV buffer size =  2048.00 MiB\n", "-fa"),
        ("llama_kv_cache:      CUDA0 KV buffer size =  2048.00 MiB\n", "-fa on"),
        ("llm_load_tensors: offloaded 33/33 layers to GPU\n", "-fa"),
        ("load_tensors: offloaded 33/33 layers to GPU\n", "-fa on"),
    ],
)
def test_flash_attention_takes_a_value_since_a_build(above: str, line: str | None) -> None:
    chosen, _ = advise(above + BUFFER, "memory-efficient-attention", cause="activations")
    remedy = chosen.get("memory-efficient-attention")
    assert (remedy.snippet if remedy is not None else None) == line


DREW = (
    "{above}[{day} 10:12:13.401] !!! Exception during processing !!! Allocation on device\n"
    "[{day} 10:12:13.402] Traceback (most recent call last):\n"
    '[{day} 10:12:13.402]   File "/srv/ComfyUI/execution.py", line 323, in execute\n'
    "[{day} 10:12:13.402]     output_data = get_output_data(obj)\n"
    "[{day} 10:12:13.403] torch.cuda.OutOfMemoryError: Allocation on device\n"
    "[{day} 10:12:13.403] Got an OOM, unloading all loaded models.\n"
)


@pytest.mark.parametrize(
    ("above", "day", "line"),
    [
        ("", "2024-06-02", "--lowvram"),
        ("", "2026-06-02", "--novram"),
        ("ComfyUI version: 0.3.60\n", "2026-06-02", "--lowvram"),
        ("ComfyUI version: 0.20.1\n", "2026-06-02", "--novram"),
        ("- **ComfyUI Version:** v0.3.60\n", "2026-06-02", "--lowvram"),
    ],
)
def test_who_draws_with_an_old_release_has_its_option(above: str, day: str, line: str) -> None:
    remedy = advise(DREW.format(above=above, day=day), "offload-parameters", cause="model-does-not-fit")[0]
    assert remedy["offload-parameters"].snippet == line


SERVED = (
    '{day}T10:12:13.401000Z  INFO text_generation_launcher: Args {{ model_id: "org/one", num_shard: None }}\n'
    "{day}T10:12:43.401000Z ERROR text_generation_launcher: Error when initializing model\n"
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 112.00 MiB. GPU 0 has a total capacity of "
    "23.69 GiB of which 60.00 MiB is free. Process 12 has 23.60 GiB memory in use. Of the allocated memory 23.10 GiB "
    "is allocated by PyTorch, and 10.00 MiB is reserved by PyTorch but unallocated.\n"
)


@pytest.mark.parametrize(
    ("day", "line"),
    [
        ("2023-02-20", "--quantize"),
        ("2023-06-02", "--quantize bitsandbytes"),
        ("2023-11-02", "--quantize bitsandbytes-nf4"),
        ("2025-11-02", "--quantize fp8"),
    ],
)
def test_a_server_quantizes_by_what_its_release_takes(day: str, line: str) -> None:
    remedy = advise(SERVED.format(day=day), "quantize-weights", cause="model-does-not-fit")[0]["quantize-weights"]
    assert remedy.snippet == line


# the Python of the paths


@pytest.mark.parametrize(
    ("framework", "python", "inside", "outside"),
    [
        ("torch", "3.6", (1, 10, 2), (1, 11)),
        ("torch", "3.7.16", (1, 13, 1), (2, 0)),
        ("torch", "3.12", (2, 2), (2, 1)),
        ("jax", "3.7", (0, 3, 25), (0, 4, 1)),
        ("tensorflow", "3.5", (2, 3, 4), (2, 4)),
        ("transformers", "3.8", (4, 46, 3), (4, 47)),
        ("vllm", "3.8", (0, 6, 3), (0, 7)),
        ("deepspeed", "3.6", (0, 3, 14), (0, 18, 3)),  # by the end of that Python
    ],
)
def test_a_python_runs_some_releases(
    framework: str, python: str, inside: tuple[int, ...], outside: tuple[int, ...]
) -> None:
    known = known_versions(framework, Context(frameworks={framework: None, "python": python}))
    assert known.holds(inside)
    assert not known.holds(outside)


@pytest.mark.parametrize(
    ("framework", "python"),
    [("torch", "3.10"), ("torch", None), ("torch", "4"), ("deepspeed", "3.11"), ("llama.cpp", "3.6"), ("vllm", "3.14")],
)
def test_a_python_that_tells_nothing(framework: str, python: str | None) -> None:
    frameworks = {framework: None} if python is None else {framework: None, "python": python}
    assert known_versions(framework, Context(frameworks=frameworks)) == ALL


def test_a_printed_version_counts_before_the_python() -> None:
    known = known_versions("torch", Context(frameworks={"torch": "1.12.1", "python": "3.6"}))
    assert known.holds((1, 12, 1))


@pytest.mark.parametrize(
    ("path", "python"),
    [
        ("/opt/conda/lib/python3.7/site-packages/a/b.py", "3.7"),
        ("/usr/lib/python2.7/dist-packages/a/b.py", "2.7"),
        ("C:\\\\Users\\\\me\\\\Python310\\\\lib\\\\site-packages\\\\a.py".replace("\\\\", "\\"), "3.10"),
        ("/home/me/miniconda3/envs/py38/bin/thing", "3.8"),
        ("D:\\envs\\py311\\lib\\a.py", "3.11"),
        ("/x/__pycache__/net.cpython-39.pyc", "3.9"),
        # near misses
        ("/home/me/envs/pyro38/bin/thing", None),
        ("/home/me/envs/python_work/bin/thing", None),
        ("/x/cpython-main/Lib/a.py", None),
        ("/data/py38_set/part.bin", None),
        ("/usr/bin/python3", None),
    ],
)
def test_the_python_of_a_path(path: str, python: str | None) -> None:
    assert crashes_of(f'  File "{path}", line 3, in f\n{NEW}')[0].context.frameworks.get("python") == python


def traced(package: str, python: str = "3.11") -> str:
    return (
        "Traceback (most recent call last):\n"
        f'  File "/env/lib/python{python}/site-packages/{package}", line 7, in step\n'
        "    y = self.inner(x)\n"
    )


@pytest.mark.parametrize(
    ("package", "python", "line"),
    [
        ("deepspeed/runtime/engine.py", "3.11", "offload_optimizer"),
        ("deepspeed/runtime/engine.py", "3.8", "offload_optimizer"),
        ("deepspeed/pt/deepspeed_light.py", "3.6", None),
    ],
)
def test_an_option_that_came_later_is_neither_spelled_nor_named(package: str, python: str, line: str | None) -> None:
    chosen, _ = advise(traced(package, python) + OLDEST, "offload-optimizer", cause="optimizer-states")
    assert ("offload-optimizer" in chosen) is (line is not None)
    if line is not None:
        assert line in (chosen["offload-optimizer"].snippet or "")


@pytest.mark.parametrize(("python", "assumed"), [("3.12", False), ("3.9", True), ("3.7", False)])
def test_a_python_spares_assumptions(python: str, assumed: bool) -> None:
    known = advise(traced("torch/nn/modules/linear.py", python) + BARE, "offload-activations", cause="activations")[0]
    told = known["offload-activations"].assumes
    assert any("PyTorch >=1.10" in each for each in told) is (assumed or python == "3.7")


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("distributed.nanny - WARNING - Worker exceeded 95% memory budget. Restarting", "dask-worker"),
        (
            "distributed.nanny.memory - WARNING - Worker tcp://10.0.0.4:401 (pid=7) exceeded 95% memory budget. Again",
            "dask worker",
        ),
    ],
)
def test_the_words_of_a_nanny_tell_its_releases(line: str, option: str) -> None:
    known = advise(line + "\n", "fewer-workers", cause="allocator-cap")[0]["fewer-workers"]
    assert (known.snippet or "").startswith(option)


@pytest.mark.parametrize(
    ("below", "day"),
    [
        ("2023-09-26T22:58:00.969072Z ERROR launcher: it ended", "2023-09-26"),
        ("ended with 2023-09-26", ""),
    ],
)
def test_a_stamp_below_the_failure_is_a_day_too(below: str, day: str) -> None:
    assert crashes_of(f"{NEW}\n{below}\n")[0].context.day == day


@pytest.mark.parametrize(
    ("frame", "line"), [("python/client/session.py", None), ("python/eager/execute.py", "tf.recompute_grad")]
)
def test_a_session_has_no_calls_of_the_second_tensorflow(frame: str, line: str | None) -> None:
    log = traced(f"tensorflow/{frame}") + (
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with "
        "shape[64,8,99,99,3] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n"
    )
    known = advise(log, "gradient-checkpointing", cause="activations")[0]
    assert ("tf.recompute_grad" in str(known)) is (line is not None)


@pytest.mark.parametrize(("python", "advised"), [("3.7", False), ("3.9", False), ("3.11", True)])
def test_jax_has_a_fused_attention_from_its_release_on(python: str, *, advised: bool) -> None:
    log = traced("jax/_src/api.py", python) + (
        "attention of 16 heads\n"
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
        "allocate 9126805504 bytes.\n"
    )
    chosen, _ = advise(log, "memory-efficient-attention", cause="activations")
    assert ("memory-efficient-attention" in chosen) is advised
