"""What reaches a failure: arguments of a loader's call, an evaluation's own batch, the knob that a message names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from remedy_logs import advise, crashes_of, cuda, kill

import oomdoctor
from oomdoctor.incident.node import is_a_bystander
from oomdoctor.remedies.gap import rest_bytes

NPU = (
    "RuntimeError: NPU out of memory. Tried to allocate 392.00 MiB (NPU 2; 60.97 GiB total capacity; 59.55 GiB already "
    "allocated; 59.55 GiB current active; 18.54 MiB free; 60.04 GiB reserved in total by PyTorch)\n"
)
SET = (
    'File "/x/site-packages/accelerate/utils/modeling.py", line 400, in set_module_tensor_to_device\n    v = v.to(d)\n'
)
LOADED = 'File "/x/site-packages/transformers/modeling_utils.py", line 9, in from_pretrained\n    load(state)\n'
MOVED = (
    'File "/x/site-packages/torch/nn/modules/module.py", line 994, in convert\n    return t.to(device, dtype if '
    "t.is_floating_point() or t.is_complex() else None, non_blocking)\n"
)
SHARDS = "Loading checkpoint shards:  42%|####      | {} [00:15<00:20,  1.08it/s]\n"
LOADS = ("mixed-precision", "quantize-weights", "tensor-parallel", "more-gpus", "shard-states")
CAUSE = "model-does-not-fit"
REFUSED = "torch.OutOfMemoryError: " + cuda()
EVALUATES = (
    'File "/x/site-packages/transformers/trainer.py", line 2515, in evaluation_loop\n'
    "    preds_host = logits if preds_host is None else nested_concat(preds_host, logits, padding_index=-100)\n"
)
STEPS = (
    'File "/x/site-packages/transformers/trainer.py", line 2515, in evaluation_loop\n'
    "    loss, logits, labels = self.prediction_step(model, inputs, prediction_loss_only)\n"
)
BEFORE = (
    'File "/x/site-packages/transformers/trainer.py", line 1244, in prediction_loop\n'
    "    preds = logits if preds is None else torch.cat((preds, logits), dim=0)\n"
)
BATCH = "smaller-microbatch"


def test_a_loader_gets_arguments_of_its_call() -> None:
    chosen, _ = advise(f"  {LOADED}{REFUSED}", *LOADS, cause=CAUSE)
    assert chosen["mixed-precision"].snippet == "from_pretrained(..., torch_dtype=torch.float16)"
    assert "BitsAndBytesConfig" in (chosen["quantize-weights"].snippet or "")
    assert 'device_map="auto"' in (chosen["tensor-parallel"].snippet or "")
    assert not {"shard-states", "more-gpus"} & chosen.keys()


def test_shards_that_are_there_tell_how_large_the_whole_is() -> None:
    chosen, rejected = advise(f"  {SET}{NPU}{SHARDS.format('16/38')}", *LOADS, cause=CAUSE)
    assert "at least 3" in chosen["tensor-parallel"].action
    assert "141.43 GiB" in (chosen["tensor-parallel"].derivation or "")
    assert "mixed-precision" in rejected  # half of the whole is more than one has
    bits = chosen["quantize-weights"]
    assert not bits.snippet  # bitsandbytes is for CUDA
    assert (bits.derivation or "").endswith("a quarter of it 35.36 GiB")
    assert "8 or 4" not in bits.action  # in 8 bits they would not fit, either
    assert "the library that quantizes supports this device" in bits.assumes


ON_CUDA = "torch.OutOfMemoryError: " + cuda(total="40.00 GiB", own="38.00 GiB", free="200.00 MiB")


@pytest.mark.parametrize(("shards", "bits"), [("9/17", 8), ("5/20", 4), ("6/20", 4)])
def test_how_many_bits_fit_follows_from_what_is_loaded(shards: str, bits: int) -> None:
    chosen, _ = advise(f"  {LOADED}{ON_CUDA}{SHARDS.format(shards)}", *LOADS, cause=CAUSE)
    assert f"load_in_{bits}bit" in (chosen["quantize-weights"].snippet or "")


def test_what_does_not_fit_in_4_bits_is_not_quantized() -> None:
    chosen, rejected = advise(f"  {LOADED}{ON_CUDA}{SHARDS.format('3/20')}", *LOADS, cause=CAUSE)
    assert "tensor-parallel" in chosen
    assert "quantize-weights" in rejected


@pytest.mark.parametrize(("shards", "first"), [("9/17", "mixed-precision"), ("5/20", "tensor-parallel")])
def test_what_no_smaller_type_makes_fit_is_split_first(shards: str, first: str, tmp_path: Path) -> None:
    _, knobs = diagnosed(tmp_path, f"Traceback (most recent call last):\n  {LOADED}{ON_CUDA}{SHARDS.format(shards)}")
    assert knobs[0] == first


@pytest.mark.parametrize("shards", ["38/38", "0/38"])
def test_no_whole_is_reckoned_without_a_part(shards: str) -> None:
    chosen, _ = advise(f"  {SET}{NPU}{SHARDS.format(shards)}", *LOADS, cause=CAUSE)
    assert chosen["tensor-parallel"].derivation is None
    assert "mixed-precision" in chosen


def test_a_model_that_moves_is_halved_before() -> None:
    chosen, _ = advise(f"  {MOVED}{REFUSED}", *LOADS, cause=CAUSE)
    assert chosen["mixed-precision"].snippet == "model = model.half()"
    assert "shard-states" not in chosen


@pytest.mark.parametrize(
    "trace",
    [
        'File "/x/fit.py", line 3, in forward\n    y = self.mlp(x)\n',
        'File "/x/serve.py", line 3, in generate\n    y = m(x)\n',
    ],
)
def test_what_is_not_loading_gets_no_arguments_of_a_loader(trace: str) -> None:
    chosen, _ = advise(f"  {trace}{REFUSED}", *LOADS, cause=CAUSE)
    assert not any("from_pretrained" in (one.snippet or "") for one in chosen.values())


@pytest.mark.parametrize(
    ("options", "now"),
    [("", None), (" --per_device_train_batch_size 16", None), (" --per_device_eval_batch_size 32", 32)],
)
def test_an_evaluation_has_a_batch_of_its_own(options: str, now: int | None) -> None:
    log = f"+ python run.py --do_eval{options}\n  {STEPS}{REFUSED}"
    chosen, _ = advise(log, BATCH, cause="eval-accumulation")
    assert chosen[BATCH].setting == "--per_device_eval_batch_size"
    assert chosen[BATCH].current == now


def test_a_training_step_keeps_the_batch_of_the_training() -> None:
    trace = 'File "/x/site-packages/transformers/trainer.py", line 1, in training_step\n    loss.backward()\n'
    chosen, _ = advise(f"+ python run.py --per_device_train_batch_size 16\n  {trace}{REFUSED}", BATCH)
    assert chosen[BATCH].setting == "--per_device_train_batch_size"


@pytest.mark.parametrize(
    ("trace", "setting", "line"),
    [
        (EVALUATES, "--eval_accumulation_steps", "--eval_accumulation_steps 1"),
        (BEFORE, None, 'pip install "transformers==3.4.0"'),
    ],
)
def test_a_release_without_the_option_is_upgraded(trace: str, setting: str | None, line: str) -> None:
    chosen, _ = advise(f"  {trace}{REFUSED}", "smaller-buffers", "clear-references", cause="eval-accumulation")
    assert chosen["smaller-buffers"].setting == setting
    assert chosen["smaller-buffers"].snippet == line


def diagnosed(tmp_path: Path, log: str) -> tuple[dict[str, Any], list[str]]:
    """The first answer, and its knobs in their order."""
    path = tmp_path / "job.log"
    path.write_text(log, encoding="utf-8")
    first: dict[str, Any] = oomdoctor.diagnose(path).as_json()["diagnoses"][0]
    return first, [remedy["knob"] for remedy in first["remedies"]]


AGENT = "/usr/bin/python3 -u /x/site-packages/ray/dashboard/agent.py --node-ip-address=10.1.2.3"
OWN = "python -u agent.py --episodes 9"


@pytest.mark.parametrize(
    ("command", "knob", "is_rays"), [(AGENT, "pin-version", True), (OWN, "clear-references", False)]
)
def test_a_helper_of_rays_is_upgraded(tmp_path: Path, command: str, knob: str, *, is_rays: bool) -> None:
    first, knobs = diagnosed(tmp_path, kill(59.0, 62.0, f"4711\t40.00\t{command}\n"))
    assert first["cause"] == "process-ram-hog"
    assert knobs[0] == knob
    assert ("Ray's own agent.py" in first["explanation"]) == is_rays
    assert ("more-host-memory" in knobs) != is_rays


@pytest.mark.parametrize(("share", "knob"), [(1, "clear-references"), (20, "fewer-workers")])
def test_fewer_at_once_relieve_their_own_memory_alone(tmp_path: Path, share: int, knob: str) -> None:
    """The driver keeps what the tasks bring back, however few of them run at once."""
    launch = f"+ {OWN} --in-flight 8\n"
    rows = f"4711\t{40 / share:.2f}\t{OWN}\n" + "".join(f"{pid}\t2.00\tray::embed\n" for pid in range(40, 48))
    _, knobs = diagnosed(tmp_path, launch + kill(59.0, 62.0, rows))
    assert knobs[0] == knob


@pytest.mark.parametrize(("held", "told"), [("28.00", True), ("31.00", False)])
def test_what_no_row_holds_is_told_where_it_is_more_than_the_largest(tmp_path: Path, held: str, *, told: bool) -> None:
    first, _ = diagnosed(tmp_path, kill(59.0, 62.0, f"4711\t{held}\t{AGENT}\n"))
    assert first["cause"] == "process-ram-hog"
    assert any("the table lacks" in doubt for doubt in first["against"]) is told


def test_a_small_rest_is_not_enough() -> None:
    """A check of the engine's own is whole: nothing follows it."""
    (crash,) = crashes_of(REFUSED)
    assert rest_bytes(crash) == pytest.approx(0.02 * 79.15 * 1024**3)
    (whole,) = crashes_of(CONTEXT.format(length=32768, tokens=7344))
    assert rest_bytes(whole) == 0


CONTEXT = (
    "ValueError: The model's max seq len ({length}) is larger than the maximum number of tokens that can be stored in "
    "KV cache ({tokens}). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the "
    "engine.\n"
)


@pytest.mark.parametrize(("tokens", "first"), [(9000, "shorter-context"), (30000, "raise-engine-reservation")])
def test_a_length_far_beyond_the_cache_is_shortened_first(tmp_path: Path, tokens: int, first: str) -> None:
    _, knobs = diagnosed(tmp_path, CONTEXT.format(length=32768, tokens=tokens))
    assert knobs[0] == first


FULL = (
    "WARNING LMCache: Failed to allocate memory for tensor(torch.Size([2, 64, 64, 1024]), torch.bfloat16) because no "
    "memory is available [2025-03-08 05:36:53,329] -- /srv/lmcache/experimental/memory_management.py:409\n"
    "ERROR 03-08 05:36:53 serving_chat.py:665] Traceback (most recent call last):\n"
)


def test_the_buffer_that_is_full_is_raised(tmp_path: Path) -> None:
    first, knobs = diagnosed(tmp_path, FULL)
    assert knobs[0] == "raise-allocator-cap"
    assert "pin-version" not in knobs
    assert first["remedies"][0]["snippet"] == "export LMCACHE_MAX_LOCAL_CPU_SIZE=10"


PINNED = (
    "Traceback (most recent call last):\n"
    '  File "/srv/{package}/v1/memory_management.py", line 120, in make\n'
    "    buffer = torch.empty(size, pin_memory=True)\n"
    "RuntimeError: CUDA error: out of memory\n"
)


def test_the_buffer_that_cannot_be_locked_is_lowered(tmp_path: Path) -> None:
    first, knobs = diagnosed(tmp_path, PINNED.format(package="lmcache"))
    assert first["cause"] == "pinned-memory-exhausted"
    assert knobs[0] == "less-offload"
    assert first["remedies"][0]["snippet"] == "export LMCACHE_MAX_LOCAL_CPU_SIZE=4"
    assert "unpin-memory" not in knobs  # its kernels read the buffer from the GPU
    _, knobs = diagnosed(tmp_path, PINNED.format(package="mycache"))
    assert "less-offload" not in knobs
    assert "unpin-memory" in knobs


@pytest.mark.parametrize(
    ("stated", "code", "then"),
    [
        ("5", "torch.empty(size, pin_memory=True)", "4"),  # which takes 8
        ("20", "torch.empty(size, pin_memory=True)", "16"),
        ("16", "torch.empty(size, pin_memory=True)", "8"),
        ("0.5", "torch.empty(size, pin_memory=True)", "0.25"),
        ("20", "lmc_ops.alloc_pinned_ptr(size, 0)", "10"),  # by no allocator of PyTorch's
    ],
)
def test_half_of_what_pytorch_locks_for_the_buffer(tmp_path: Path, stated: str, code: str, then: str) -> None:
    log = PINNED.format(package="lmcache").replace("torch.empty(size, pin_memory=True)", code)
    first, _ = diagnosed(tmp_path, f"LMCACHE_MAX_LOCAL_CPU_SIZE={stated} vllm serve m\n{log}")
    assert first["remedies"][0]["snippet"] == f"export LMCACHE_MAX_LOCAL_CPU_SIZE={then}"


FREE = (
    "               total        used        free      shared  buff/cache   available\n"
    "Mem:           125Gi       {used}Gi       {free}Gi       1.0Gi       1.0Gi       {free}Gi\n"
)


@pytest.mark.parametrize("package", ["lmcache", "mycache"])
@pytest.mark.parametrize(
    ("before", "error", "larger"),
    [
        ("", "invalid argument", False),  # of one piece, whatever the node has
        (FREE.format(used=20, free=105), "invalid argument", False),
        (FREE.format(used=123, free=2), "invalid argument", True),
        ("", "out of memory", True),
        (FREE.format(used=123, free=2), "out of memory", True),
    ],
)
def test_a_larger_node_pins_no_larger_pieces(
    tmp_path: Path, package: str, before: str, error: str, *, larger: bool
) -> None:
    log = before + PINNED.format(package=package).replace("out of memory", error)
    first, knobs = diagnosed(tmp_path, log)
    assert first["cause"] == "pinned-memory-exhausted"
    assert ("more-host-memory" in knobs) is larger


def test_a_default_that_the_log_does_not_print_is_an_assumption(tmp_path: Path) -> None:
    told = "max_local_cpu_size is 5 (its default, not in the log)"
    first, _ = diagnosed(tmp_path, PINNED.format(package="lmcache"))
    assert told in first["remedies"][0]["assumes"]
    first, _ = diagnosed(tmp_path, f"LMCACHE_MAX_LOCAL_CPU_SIZE=5 vllm serve m\n{PINNED.format(package='lmcache')}")
    assert told not in first["remedies"][0]["assumes"]


KILLED = (
    "kernel: Out of memory: Killed process 4711 (python) total-vm:90000000kB, anon-rss:{}kB, file-rss:0kB, "
    "shmem-rss:0kB\n"
)
GROUP = (
    "kernel: oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/kubepods.slice/a,"
    "task_memcg=/kubepods.slice/a,task=ray::IDLE,pid=4711,uid=0\n"
    "kernel: Memory cgroup out of memory: Killed process 4711 (ray::IDLE) total-vm:9000000kB, anon-rss:{}kB, "
    "file-rss:1000kB, shmem-rss:0kB, UID:0\n"
)


def test_what_fills_a_process_is_recorded_before_a_leak_is_looked_for(tmp_path: Path) -> None:
    first, knobs = diagnosed(tmp_path, KILLED.format(38000000))
    assert first["cause"] == "process-ram-hog"
    assert knobs[:2] == ["collect-evidence", "clear-references"]
    assert first["remedies"][0]["snippet"] == "oomdoctor run -- COMMAND"


@pytest.mark.parametrize(("kib", "is_small"), [(37760, True), (8000000, False)])
def test_a_victim_that_held_next_to_nothing_is_called_so(tmp_path: Path, kib: int, *, is_small: bool) -> None:
    first, _ = diagnosed(tmp_path, GROUP.format(kib))
    assert ("the memory is elsewhere" in first["explanation"]) == is_small


@pytest.mark.parametrize(
    ("held", "full", "is_one"),
    [(4, 100, True), (5, 100, False), (63 * 2**20, None, True), (2**30, None, False), (None, 100, False)],
)
def test_a_bystander_has_less_than_a_twentieth(held: int | None, full: int | None, *, is_one: bool) -> None:
    assert is_a_bystander(held, full) == is_one


@pytest.mark.parametrize(("size", "given"), [(1, False), (2, True)])
def test_a_batch_of_one_has_no_half(size: int, *, given: bool) -> None:
    log = f"+ python fit.py --dataset_batchsize {size} --audio_seqlen 8192\ntorch.OutOfMemoryError: {cuda()}"
    chosen, _ = advise(log, BATCH, "shorter-sequences", cause="activations")
    assert (BATCH in chosen) == given
    assert chosen["shorter-sequences"].snippet == "--audio_seqlen 4096"


def test_a_length_below_the_knobs_least_is_of_another_meaning() -> None:
    log = f"+ python fit.py --max_answer_seq_len 50\ntorch.OutOfMemoryError: {cuda()}"
    assert advise(log, "shorter-sequences", cause="activations")[0]["shorter-sequences"].snippet is None


@pytest.mark.parametrize(("shape", "now"), [("8580,200,150,64", 8580), ("3,3,1280,1280", None), ("800000,4096", None)])
def test_an_array_of_pictures_begins_with_the_batch(shape: str, now: int | None) -> None:
    log = (
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with "
        f"shape[{shape}] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n"
    )
    assert advise(log, BATCH, cause="activations")[0][BATCH].current == now


@pytest.mark.parametrize(
    ("line", "knob"),
    [
        (("MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /srv/rmm/mr/device/cuda_memory_resource.hpp:70: "
         "cudaErrorMemoryAllocation out of memory"), "smaller-partitions"),
        (("cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,000 bytes (allocated so far: "
         "9,000,000,000 bytes)."), "smaller-partitions"),
        ("RuntimeError: CUDA error: out of memory", "smaller-microbatch"),
    ],
)  # fmt: skip
def test_tables_on_a_card_are_divided_and_have_no_batch(line: str, knob: str, tmp_path: Path) -> None:
    _, knobs = diagnosed(tmp_path, line + "\n")
    assert knob in knobs[:3]
    assert len({"smaller-partitions", "smaller-microbatch"} & set(knobs)) == 1


PINNED_TO = (
    "(autoscaler +9s) Error: No available node types can fulfill resource request {{{node}'GPU': 1.0}}. Add it.\n"
)


@pytest.mark.parametrize(("node", "is_bound"), [("'node:10.0.0.7': 0.001, ", True), ("", False)])
def test_a_request_that_is_bound_to_a_node_needs_that_one(node: str, *, is_bound: bool, tmp_path: Path) -> None:
    first, knobs = diagnosed(tmp_path, PINNED_TO.format(node=node))
    assert ("10.0.0.7" in first["headline"]) is is_bound
    assert ("10.0.0.7" in first["remedies"][0]["action"]) is is_bound
    assert ("add-nodes" in knobs) is not is_bound


OF_VLLM = (
    "INFO 03-05 10:20:30 ray_utils.py:183] Waiting for creating a placement group of specs for 310 seconds. "
    "specs=[{bundles}]. Check `ray status` to see if you have enough resources.\n"
)
BOUND = "{'node:10.0.0.7': 0.001, 'GPU': 1.0}"


@pytest.mark.parametrize(
    ("bundles", "count"),
    [
        (f"{BOUND}, {{'GPU': 1.0}}, {{'GPU': 1.0}}", 3),
        (f"{BOUND}, {{'GPU': 1.0}}", 2),
        (BOUND, None),  # a single one is no group to be told of
        (f"{BOUND}, {{'GPU': 2.0}}", None),  # they ask for different things
        ("{'node:10.0.0.8': 0.001, 'GPU': 1.0}, {'GPU': 1.0}", None),  # another request
    ],
)
def test_the_group_that_a_request_is_one_of_is_told_whole(bundles: str, count: int | None, tmp_path: Path) -> None:
    log = PINNED_TO.format(node="'node:10.0.0.7': 0.001, ") + OF_VLLM.replace("{bundles}", bundles)
    first, _ = diagnosed(tmp_path, log)
    assert (f"a placement group of {count} x (1 GPU)" in first["headline"]) is (count is not None)
    assert ("bound to node 10.0.0.7" in first["headline"]) is (count is not None)
    assert ("waited for 310 s" in first["explanation"]) is (count is not None)
    assert (first["remedies"][0]["setting"] == "VLLM_HOST_IP") is (count is not None)


def test_only_vllm_binds_a_bundle_to_its_own_address(tmp_path: Path) -> None:
    group = OF_VLLM.replace("{bundles}", f"{BOUND}, {{'GPU': 1.0}}")
    assert "creating a placement group of specs" in group
    other = group.replace("Waiting for creating a placement group of specs", "Waiting for the placement group")
    first, _ = diagnosed(tmp_path, PINNED_TO.format(node="'node:10.0.0.7': 0.001, ") + other)
    assert first["remedies"][0]["setting"] != "VLLM_HOST_IP"
    assert "10.0.0.7" in first["remedies"][0]["action"]


# A bundle that no node has room for

STATUS = (
    "======== Autoscaler status: 2031-01-02 03:04:05.678901 ========\nNode status\n----\nActive:\n 1 ray.head.default\n"
    " 1 ray.worker.default\nPending:\n (no pending nodes)\nRecent failures:\n (no failures)\n\nResources\n----\n"
    "Usage:\n 0.0/6.0 CPU\n 0.0/2.0 GPU\n 0B/2.33GiB memory\n 1.99KiB/1013.52MiB object_store_memory\n\nDemands:\n {}\n"
)


@pytest.mark.parametrize(
    ("demand", "line"),
    [
        ("{'CPU': 5.0}: 1+ pending tasks/actors", None),  # a task is one process
        ("{'GPU': 2.0} * 1 (STRICT_PACK): 1+ pending placement groups", None),
        (
            "{'CPU': 5.0} * 1 (PACK): 1+ pending placement groups",
            'placement_group([{"CPU": 1}] * 5, strategy="SPREAD")',
        ),
    ],
)
def test_a_bundle_of_cpus_may_be_split(demand: str, line: str | None) -> None:
    chosen = advise(STATUS.format(demand), "fix-resource-request", "fix-environment", cause="ray-unschedulable")[0]
    snippet = chosen["fix-resource-request"].snippet or ""
    assert snippet == line or (line is None and "placement_group(" not in snippet)
    assert ("nvidia-smi" in (chosen["fix-environment"].snippet or "")) is ("GPU" in demand)
