"""Remedies of the step that failed, and none of another."""

from __future__ import annotations

import pytest
from remedy_logs import advise, crashes_of, cuda, kill

from oomdoctor.remedies.order import with_allocator, with_references
from oomdoctor.signs.commands import OF_A_REFUSAL

LOADED = 'File "/x/transformers/modeling_utils.py", line 900, in from_pretrained\n    model.load_state_dict(state)\n'
STEP = 'File "/x/fit.py", line 3, in forward\n    y = self.mlp(x)\n'
OF_A_STEP = ("smaller-microbatch", "gradient-checkpointing", "shorter-sequences", "memory-efficient-attention")
BATCH = "smaller-microbatch"
NODE = kill(30.0, 31.0, "4711\t21.00\tpython fit.py\n")
REFUSED = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: "
    "you tried to allocate 4000000000 bytes. Error code 12 (Cannot allocate memory)\n"
)
MISSING = {"tried": "300.00 MiB", "free": "100.00 MiB"}


@pytest.mark.parametrize(("trace", "given"), [(LOADED, False), (STEP, True)])
def test_weights_that_are_loaded_have_no_batch(trace: str, given: bool) -> None:
    chosen, _ = advise(f"python train.py\n  {trace}torch.OutOfMemoryError: {cuda()}", *OF_A_STEP)
    assert bool(chosen) == given


@pytest.mark.parametrize(
    ("log", "given"),
    [
        (NODE, False),
        ("+ python -u fit.py --batch-size 64\nKilled\n", True),
        ("+ python -u fit.py\nKilled\n", False),
        (REFUSED, True),
    ],
)
def test_a_killed_job_has_its_batches_elsewhere(log: str, given: bool) -> None:
    assert (BATCH in advise(log, BATCH, cause="too-many-workers")[0]) == given


@pytest.mark.parametrize(("own", "given"), [("0.20 GiB", False), ("40.00 GiB", True)])
def test_a_job_with_little_of_the_gpu_is_not_asked_for_a_smaller_batch(own: str, given: bool) -> None:
    log = "torch.OutOfMemoryError: " + cuda(own=own)
    assert (BATCH in advise(log, BATCH, cause="gpu-shared")[0]) == given


@pytest.mark.parametrize(
    ("cause", "figures", "place"),
    [
        ("activations", {**MISSING, "unused": "500.00 MiB", "total": "4.00 GiB"}, 1),
        ("activations", {**MISSING, "unused": "500.00 MiB"}, 2),  # little of the GPU: the next request is short again
        ("activations", {**MISSING, "unused": "300.00 MiB"}, 2),  # hardly more than was missing
        ("activations", {**MISSING, "unused": "100.00 MiB"}, None),  # less
        ("activations", {"tried": "20.00 MiB", "free": "10.00 MiB", "unused": "60.00 MiB"}, None),  # crumbs
        ("activations", {"tried": "100.00 MiB", "free": "300.00 MiB", "unused": "500.00 MiB"}, None),  # had room
        ("model-does-not-fit", {**MISSING, "unused": "500.00 MiB"}, None),  # the next weight would not fit
    ],
)
def test_the_allocator_is_tried_where_it_may_do(cause: str, figures: dict[str, str], place: int | None) -> None:
    (crash,) = crashes_of("torch.OutOfMemoryError: " + cuda(**figures))
    knobs = with_allocator(cause, ("a", "b", "c"), crash)
    assert (knobs.index("allocator-config") if "allocator-config" in knobs else None) == place


@pytest.mark.parametrize(
    ("stage", "given"),
    [("in initialize_kv_cache\n    self._allocate_kv_cache()", False), ("in execute_model\n    y = m(x)", True)],
)
def test_a_cache_is_as_large_as_its_share(stage: str, given: bool) -> None:
    frame = f'File "/x/vllm/v1/worker/gpu_model_runner.py", line 9, {stage}'
    log = f"vllm serve org/m\n  {frame}\ntorch.OutOfMemoryError: {cuda()}"
    assert bool(advise(log, "fewer-sequences", "smaller-prefill", "shorter-context")[0]) == given


def test_after_a_refusal_the_limits_are_asked_first() -> None:
    assert OF_A_REFUSAL[0].startswith("ulimit")


@pytest.mark.parametrize(
    ("line", "said"), [("x = F.scaled_dot_product_attention(q, k, v)", True), ("x = q @ k", False)]
)
def test_who_calls_a_fused_kernel_is_told_what_keeps_it_from_being_one(line: str, said: bool) -> None:
    log = f'  File "/x/fit.py", line 3, in forward\n    {line}\ntorch.OutOfMemoryError: {cuda()}'
    remedy = advise(log, "memory-efficient-attention")[0]["memory-efficient-attention"]
    assert ("in place of a causal mask" in remedy.action) == said


@pytest.mark.parametrize(
    ("call", "kept"),
    [
        ("F.scaled_dot_product_attention(q, k, v, attn_mask=pad, is_causal=False)", True),
        ("F.scaled_dot_product_attention(q, k, v, attn_mask=tril)", False),
        ("F.scaled_dot_product_attention(q, k, v, is_causal=True)", False),
        ("F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)", False),
    ],
)
def test_a_mask_of_padding_is_not_replaced_by_a_causal_one(call: str, kept: bool) -> None:
    log = f'  File "/x/fit.py", line 3, in forward\n    y = {call}\ntorch.OutOfMemoryError: {cuda()}'
    remedy = advise(log, "memory-efficient-attention")[0]["memory-efficient-attention"]
    assert ("padded" in remedy.action) == kept
    assert ("attn_mask=None" in str(remedy.snippet)) == kept
    assert ("is_causal=True" in str(remedy.snippet)) != kept


def test_what_attends_both_ways_elsewhere_says_nothing_of_the_mask() -> None:
    call = "F.scaled_dot_product_attention(q, k, v, attn_mask=tril)"
    log = f'  File "/x/fit.py", line 3, in forward\n    y = {call}\ntorch.OutOfMemoryError: {cuda()}'
    remedy = advise(f"config: is_causal=False\n{log}", "memory-efficient-attention")[0]["memory-efficient-attention"]
    assert "padded" not in remedy.action


OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 300.00 MiB (GPU 0; 23.00 GiB total capacity; 21.00 GiB "
    "already allocated; 100.00 MiB free; 21.50 GiB reserved in total by PyTorch){}\n"
)
HINT = (
    " If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See "
    "documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
)


@pytest.mark.parametrize(("hint", "place"), [(HINT, 2), ("", 1)])
def test_an_old_allocator_that_cannot_grow_its_segments_comes_third(hint: str, place: int) -> None:
    (crash,) = crashes_of(OLD.format(hint).replace("23.00", "4.50").replace("21.00", "3.50").replace("21.50", "4.00"))
    assert with_allocator("activations", ("a", "b", "c"), crash).index("allocator-config") == place


@pytest.mark.parametrize(
    ("knobs", "second"),
    [
        (("smaller-microbatch", "smaller-input"), 1),
        (("memory-efficient-attention", "smaller-microbatch", "smaller-input"), 2),
        (("smaller-input", "offload-activations", "smaller-microbatch"), 1),
    ],
)
def test_what_steps_leave_behind_is_looked_at_behind_the_batch(knobs: tuple[str, ...], second: int) -> None:
    steps = "".join(f"step {number} loss 0.{number}\n" for number in range(1, 6))
    (crash, *_) = crashes_of(steps + REFUSED)
    assert with_references("activations", knobs, crash).index("clear-references") == second
    (first, *_) = crashes_of(REFUSED)
    assert with_references("activations", knobs, first) == knobs


@pytest.mark.parametrize(
    ("command", "given"),
    [
        ("ray::count_cells", True),
        ("ray::Counter.count_cells", False),
        ("ray::Counter", False),
        ("ray::IDLE", False),
        ("python count_cells.py", False),
    ],
)
def test_a_task_of_ray_gets_less_to_work_on(command: str, given: bool) -> None:
    log = kill(60.0, 64.0, f"801\t52.00\t{command}\n802\t1.20\tray::IDLE\n")
    chosen, _ = advise(log, "smaller-partitions", "more-host-memory")
    assert ("smaller-partitions" in chosen) is given
    assert not given or chosen["smaller-partitions"].action.startswith("Give each call of count_cells less to work on")


# a trainer that is set up, an evaluation

ENGINE = "/env/lib/python3.11/site-packages/deepspeed/runtime/engine.py"
ZERO = (
    f'  File "{ENGINE}", line 331, in __init__\n    self._configure_optimizer(optimizer, model_parameters)\n'
    f'  File "{ENGINE}", line 1388, in _configure_zero_optimizer\n    optimizer = DeepSpeedZeroOptimizer(\n'
)
MADE = (
    '  File "/env/lib/python3.11/site-packages/deepspeed/runtime/zero/stage_1_and_2.py", line 690, in '
    "initialize_optimizer_states\n    self.optimizer.step()\n"
)
OF_GRADIENTS = ("gradient-checkpointing", "low-memory-optimizer", "offload-activations")
EVALUATED = "Epoch 3 (valid):  12%|#3        | 7/60 [00:01<00:46,  1.30s/it]\n"
TRAINED = "Epoch 3 (train):  12%|#3        | 7/60 [00:01<00:46,  1.30s/it]\n"
HEAD = 'Traceback (most recent call last):\n  File "/x/train.py", line 40, in <module>\n    engine = build(model)\n'


@pytest.mark.parametrize(
    ("trace", "given"),
    [(ZERO, False), (ZERO + MADE, False), (f"  {STEP}", True), (f"  {STEP}".replace("forward", "backward"), True)],
)
def test_before_the_first_batch_less_of_it_changes_nothing(trace: str, given: bool) -> None:
    chosen, _ = advise(f"deepspeed train.py\n{HEAD}{trace}torch.OutOfMemoryError: {cuda()}", *OF_A_STEP)
    assert bool(chosen) == given


@pytest.mark.parametrize("head", ["python train.py", "lightning.pytorch: /env/pytorch_lightning/trainer/"])
@pytest.mark.parametrize(("bar", "given"), [(EVALUATED, False), (TRAINED, True)])
def test_an_evaluation_has_no_gradients(bar: str, given: bool, head: str) -> None:
    log = f"{head}\n{bar}torch.OutOfMemoryError: {cuda()}"
    chosen, _ = advise(log, *OF_GRADIENTS, BATCH, cause="activations")
    assert [knob in chosen for knob in OF_GRADIENTS] == [given] * len(OF_GRADIENTS)
    assert BATCH in chosen


DATA = "stream-data"
RUN = "+ python fit.py --train_file rows.csv --epochs 3\n"


@pytest.mark.parametrize(
    ("above", "given"),
    [
        ("", True),
        ("Loading dataset rows.csv\n", True),
        ("Tokenizing:  41%|####      | 410/1000 [00:41<00:59]\n", True),
        ("Loading checkpoint shards:  40%|####      | 2/5 [00:04<00:06]\n", False),
        ("Saving model checkpoint to /ckpt/step_20\n", False),
        ("Before initializing optimizer states\n", False),
    ],
)
def test_a_kill_where_no_data_are_read_asks_for_no_streaming(above: str, *, given: bool) -> None:
    assert (DATA in advise(f"{RUN}{above}Killed\n", DATA, cause="killed-without-evidence")[0]) is given


OLLAMA = (
    "Feb 03 09:10:20 box ollama[812]: load_tensors: loading model tensors, this can take a while... (mmap = {})\n"
    "Feb 03 09:10:40 box systemd[1]: ollama.service: Failed with result 'oom-kill'.\n"
)


@pytest.mark.parametrize(("mapped", "given"), [("false", True), ("true", False)])
def test_weights_are_mapped_where_they_were_copied(mapped: str, *, given: bool) -> None:
    chosen, _ = advise(OLLAMA.format(mapped), "low-memory-loading", cause="host-model-load")
    assert [one.snippet for one in chosen.values()] == (['"use_mmap": true'] if given else [])
