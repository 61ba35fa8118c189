"""Remedies that the log's own figures and lines refute, or make another one of."""

from __future__ import annotations

import pytest
from remedy_logs import advise, cuda

from oomdoctor.remedies.order import stated_ahead

SHARE_KNOB = "lower-engine-reservation"
SHARE = "vllm-utilization-too-high"
ALONE = cuda(tried="448.00 MiB", total="15.77 GiB", free="289.38 MiB", own="15.49 GiB")
BESIDE = cuda(tried="448.00 MiB", total="15.77 GiB", free="289.38 MiB", own="11.49 GiB")


def test_nobody_else_is_stopped_on_a_gpu_that_the_process_fills() -> None:
    chosen, rejected = advise(ALONE, "free-the-gpu", cause="gpu-memory-exhausted")
    assert "free-the-gpu" not in chosen
    assert "15.49 GiB of this process + 289 MiB free" in rejected["free-the-gpu"].why


@pytest.mark.parametrize("log", [BESIDE, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"])
def test_others_are_looked_for_where_there_may_be_some(log: str) -> None:
    assert "free-the-gpu" in advise(log, "free-the-gpu", cause="gpu-memory-exhausted")[0]


WORKER = "(VllmWorkerProcess pid=67) INFO 11-05 03:22:47 model_runner.py:1025] Loading model weights took 10.07 GB\n"
REFUSED = (
    "(VllmWorkerProcess pid=67) ERROR 11-05 03:22:58 multiproc_worker_utils.py:233] torch.OutOfMemoryError: CUDA out "
    "of memory. Tried to allocate 1.95 GiB. GPU {gpu} has a total capacity of 22.09 GiB of which 758.00 MiB is free.\n"
)


def test_a_model_that_is_split_already_is_not_split_over_two() -> None:
    remedy = advise(WORKER + REFUSED.format(gpu=1), "tensor-parallel")[0]["tensor-parallel"]
    assert remedy.suggested is None
    assert "raise --tensor-parallel-size (value not in the log, which shows at least 2 GPUs)" in remedy.action


@pytest.mark.parametrize(
    ("head", "now"),
    [("vllm serve m/m --tensor-parallel-size 2\n", 2), ("vllm serve m/m --tensor-parallel-size 4\n", 4)],
)
def test_the_size_that_the_log_states_is_doubled(head: str, now: int) -> None:
    remedy = advise(head + WORKER + REFUSED.format(gpu=0), "tensor-parallel")[0]["tensor-parallel"]
    assert remedy.suggested == 2 * now


STORE = (
    "(job pid=12) [2022-02-07 04:43:12,942 E 12 12] plasma_store_provider.cc:122: Failed to put object 5a34ed0d in "
    "object store because it is full. Object size is 21937545526 bytes.\n"
    "(job pid=12) Plasma store status:\n"
    "(job pid=12) (global lru) capacity: 7846681559\n"
    "(job pid=12) (global lru) used: {used}%\n"
)


@pytest.mark.parametrize(("used", "then"), [(0, 21_937_545_526), (50, 21_937_545_526 + 3_923_340_780)])
def test_an_object_store_holds_what_is_in_it_and_the_object(used: int, then: int) -> None:
    remedy = advise(STORE.format(used=used), "bigger-object-store", cause="object-store-full")[0]["bigger-object-store"]
    assert remedy.suggested == then


def test_nothing_is_dropped_from_an_empty_store() -> None:
    assert "clear-references" in advise(STORE.format(used=50), "clear-references", cause="object-store-full")[0]
    chosen, rejected = advise(STORE.format(used=0), "clear-references", cause="object-store-full")
    assert not chosen
    assert "empty" in rejected["clear-references"].why


def test_a_disk_is_freed_only_where_one_is_full() -> None:
    assert not advise(STORE.format(used=50), "free-disk", cause="object-store-full")[0]
    full = STORE.format(used=50) + "OSError: [Errno 28] No space left on device: '/tmp/ray/session_1/spill'\n"
    assert "free-disk" in advise(full, "free-disk", cause="spill-disk-full")[0]


PLAN = (
    "llama_memory_breakdown_print: | memory breakdown [MiB] | total   free     self   model   context   compute |\n"
    "llama_memory_breakdown_print: |   - CUDA0 (L4) | 23034 = {free} + (18842 = 16384 +    2048 +     410) + 0 |\n"
    "common_fit_params: failed to fit params to free device memory: n_gpu_layers already set by user to 40, abort\n"
)


def test_a_loader_that_may_choose_fits_its_layers_itself() -> None:
    remedy = advise(PLAN.format(free=9120), "offload-parameters", cause="model-does-not-fit")[0]["offload-parameters"]
    assert (remedy.current, remedy.suggested, remedy.snippet) == (40, "auto", "-ngl auto")


WAITS = (
    "(autoscaler +{at}s) Warning: The following resource request cannot be scheduled right now: {request}. This is "
    "likely due to all cluster resources being claimed by actors.\n"
)


def test_who_waits_for_a_taken_cluster_is_told_of_actors() -> None:
    log = WAITS.format(at=5, request="{'CPU': 0.2}") + WAITS.format(at=40, request="{'CPU': 2.0, 'GPU': 2.0}")
    remedy = advise(log, "fix-resource-request", cause="ray-unschedulable")[0]["fix-resource-request"]
    assert remedy.action.startswith("Create fewer actors")


def test_who_asks_for_more_than_there_is_is_told_what_there_is() -> None:
    log = (
        "ERROR: No available node types can fulfill resource request {'GPU': 4.0}.\n"
        "======== Autoscaler status: 2026-06-07 18:44:42.350749 ========\nResources\n----\n"
        "Total Usage:\n 0.0/34.0 CPU\n 0.0/1.0 GPU\n\nTotal Demands:\n {'GPU': 4.0}: 1+ pending tasks/actors\n"
    )
    remedy = advise(log, "fix-resource-request", cause="ray-unschedulable")[0]["fix-resource-request"]
    assert (remedy.action.startswith("Request no more GPU"), remedy.derivation) == (True, "4 GPU > 1")


TRIAL = (
    "2022-01-11 09:40:12,118 WARNING trial_executor.py:305 -- Ignore this message if the cluster is autoscaling. You "
    "asked for 21.0 cpu and 2.0 gpu per trial, but the cluster only has {has}. Stop the tuning job and adjust the "
    "resources requested per trial.\n"
)


@pytest.mark.parametrize(
    ("has", "line"),
    [
        ("12.0 cpu and 1.0 gpu", 'resources_per_trial={"cpu": 12, "gpu": 1}'),
        ("64.0 cpu and 0 gpu", 'resources_per_trial={"cpu": 21, "gpu": 0}'),
        ("0 cpu and 0 gpu", None),  # a trial needs a CPU, and none is there yet
    ],
)
def test_a_trial_of_ray_tune_is_given_no_more_than_there_is(has: str, line: str | None) -> None:
    remedy = advise(TRIAL.format(has=has), "fix-resource-request", cause="ray-unschedulable")[0]["fix-resource-request"]
    assert (remedy.snippet if line else remedy.setting != "resources_per_trial") == (line or True)


ADAM = (
    '  File "/venv/lib/python3.11/site-packages/torch/optim/adamw.py", line 786, in adamw\n    func(\n'
    '  File "/venv/lib/python3.11/site-packages/torch/optim/adamw.py", line 610, in {function}\n    {code}\n'
)


@pytest.mark.parametrize(
    ("function", "code", "fused"),
    [
        ("_multi_tensor_adamw", "exp_avg_sq_sqrt = torch._foreach_sqrt(device_exp_avg_sqs)", True),
        ("_init_group", 'state["exp_avg"] = torch.zeros_like(p)', False),
        ("_single_tensor_adamw", "denom = exp_avg_sq.sqrt()", False),
    ],
)
def test_the_optimizers_copies_go_with_a_fused_step(function: str, code: str, fused: bool) -> None:
    log = ADAM.format(function=function, code=code) + cuda()
    remedy = advise(log, "low-memory-optimizer", cause="optimizer-states")[0]["low-memory-optimizer"]
    assert ("fused=True" in (remedy.snippet or "")) is fused


def test_the_batch_that_the_warm_up_names_is_halved() -> None:
    log = (
        'Error: Warmup(Generation("Not enough memory to handle 8192 prefill tokens. You need to decrease '
        '`--max-batch-prefill-tokens`"))\n'
    )
    remedy = advise(log, "smaller-prefill", cause="activations")[0]["smaller-prefill"]
    assert (remedy.current, remedy.suggested) == (8192, 4096)


UNSEEN = (
    "ray.exceptions.RayTaskError(RuntimeError): ray::{task}() (pid=41, ip=10.0.0.7)\n"
    '  File "/venv/lib/python3.10/site-packages/{file}", line 12, in run\n    model.to("cuda")\n'
    "RuntimeError: No CUDA GPUs are available\n"
)


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("ray/tune/trainable/trainable.py", 'trainable = tune.with_resources(trainable, {"gpu": 1})'),
        ("ray/train/_internal/worker_group.py", "scaling_config = ScalingConfig(num_workers=N, use_gpu=True)"),
        ("app/work.py", "@ray.remote(num_gpus=1)"),
    ],
)
def test_work_of_ray_requests_its_gpu_in_its_own_way(file: str, line: str) -> None:
    remedies = advise(UNSEEN.format(task="score", file=file), "fix-resource-request", cause="gpu-visibility")[0]
    assert remedies["fix-resource-request"].snippet == line


def test_a_process_without_ray_requests_no_gpu_of_it() -> None:
    log = (
        'Traceback (most recent call last):\n  File "/app/a.py", line 3, in <module>\n'
        "RuntimeError: No CUDA GPUs are available\n"
    )
    remedies = advise(log, "fix-resource-request", cause="gpu-visibility")[0]
    assert "num_gpus" not in str(remedies.get("fix-resource-request"))


CREATES = (
    "[TRT-LLM] [RANK 0] [E] Failed to initialize executor on rank 0: Executor creation failed due to insufficient GPU "
    "memory.\n\nThe following component could not be created: KV cache\nTotal GPU memory (GiB): 80.00\n"
    "Free GPU memory before component creation attempt (GiB): 41.20\n\n"
    "Previously created components and free GPU memory before/after creation (GiB):\n"
    "Model: {} / 41.20\nSampler: 41.20 / 41.20\n"
)


def test_nobody_is_stopped_on_a_gpu_that_was_empty_at_the_start() -> None:
    chosen, rejected = advise(CREATES.format("79.50"), "free-the-gpu", "lower-engine-reservation", cause=SHARE)
    assert "512 MiB of 80.00 GiB (0.6%) was in use before" in rejected["free-the-gpu"].why
    assert chosen["lower-engine-reservation"].snippet == "--kv_cache_free_gpu_memory_fraction 0.7"


@pytest.mark.parametrize("log", [CREATES.format("75.00"), CREATES.partition("Previously")[0]])
def test_who_was_there_at_the_start_is_looked_for(log: str) -> None:
    assert "free-the-gpu" in advise(log, "free-the-gpu", cause=SHARE)[0]


@pytest.mark.parametrize(("options", "first"), [("--max_batch_size 64", "fewer-sequences"), ("", SHARE_KNOB)])
def test_a_value_to_begin_with_stands_behind_what_the_log_states(options: str, first: str) -> None:
    knobs = (SHARE_KNOB, "fewer-sequences")
    log = f"trtllm-serve m/m {options}\n" + CREATES.format("79.50").replace("created: KV cache", "created: Sampler")
    chosen, _ = advise(log, *knobs, cause=SHARE)
    assert len(chosen) == len(knobs)
    assert stated_ahead(list(chosen.values()), SHARE)[0].knob == first


def test_a_share_that_follows_from_the_log_stays_first() -> None:
    log = "trtllm-serve m/m --max_batch_size 64 --kv_cache_free_gpu_memory_fraction 0.9\n" + CREATES.format("79.50")
    chosen, _ = advise(log, SHARE_KNOB, "fewer-sequences", cause=SHARE)
    assert stated_ahead(list(chosen.values()), SHARE)[0].knob == SHARE_KNOB
