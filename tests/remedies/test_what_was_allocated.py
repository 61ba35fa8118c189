"""What the printed frame, line or option says was allocated decides what is changed first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from remedy_logs import advise, cuda

import oomdoctor

CANDLE = (
    'Error: DriverError(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")\n'
    "   0: candle_core::quantized::QMatMul::dequantize_f16\n"
    "   1: candle_core::quantized::QMatMul::forward_via_f16\n   2: {crate}::Model::forward\n"
)


def first(folder: Path, log: str) -> dict[str, Any]:
    """The first diagnosis of a log."""
    (folder / "job.log").write_text(log, encoding="utf-8")
    found: dict[str, Any] = oomdoctor.diagnose(folder / "job.log").as_json()["diagnoses"][0]
    return found


def knobs(diagnosis: dict[str, Any]) -> list[str]:
    return [remedy["knob"] for remedy in diagnosis["remedies"]]


def test_an_engine_that_counts_its_layers_puts_fewer_on_the_card(tmp_path: Path) -> None:
    found = first(tmp_path, CANDLE.format(crate="mistralrs_core::quantized_llama"))
    assert found["cause"] == "activations"
    assert "Put fewer layers on the GPU: lower --num-device-layers" in found["remedies"][0]["action"]


def test_who_serves_keeps_nothing_for_a_backward_pass(tmp_path: Path) -> None:
    assert "gradient-checkpointing" not in knobs(first(tmp_path, CANDLE.format(crate="mistralrs_core::llama")))
    assert "gradient-checkpointing" in knobs(first(tmp_path, CANDLE.format(crate="my_trainer::llama")))


FRAME = '  File "{file}", line {line}, in {function}\n    {code}\n'
BACKWARD = FRAME.format(
    file="/v/site-packages/deepspeed/runtime/engine.py",
    line=1799,
    function="backward",
    code="self.optimizer.backward(loss)",
)
REDUCES = FRAME.format(file="/v/site-packages/deepspeed/runtime/zero/{}.py", line=1936, function="backward", code="{}")
TRACE = "Traceback (most recent call last):\n"
STAGE_2, STAGE_3 = "stage_1_and_2", "stage3"
BUCKET = "buf_0 = torch.empty(int(self.reduce_bucket_size),"


def refused(tried: str) -> str:
    return cuda(tried=tried, total="31.75 GiB", free="445.94 MiB", own="30.27 GiB")


@pytest.mark.parametrize(
    ("file", "code", "tried", "snippet"),
    [
        (STAGE_2, BUCKET, "954.00 MiB", '"zero_optimization": {"reduce_bucket_size": 50000000}'),
        (STAGE_3, "self.buffer = torch.empty(self.reduce_bucket_size, dtype=self.dtype)", "1.86 GiB", "50000000"),
    ],
)
def test_the_buffer_of_gradients_is_made_smaller_first(
    tmp_path: Path, file: str, code: str, tried: str, snippet: str
) -> None:
    found = first(tmp_path, TRACE + BACKWARD + REDUCES.format(file, code) + refused(tried))
    assert found["cause"] == "activations"
    assert "its size does not depend on the batch" in found["explanation"]
    remedy = found["remedies"][0]
    assert (remedy["knob"], remedy["suggested"]) == ("smaller-buffers", 50_000_000)
    assert snippet in remedy["snippet"]
    assert "/ 10 =" in remedy["derivation"]
    assert "500000000" in " ".join(remedy["assumes"])


@pytest.mark.parametrize(
    ("code", "below", "tried"),
    [
        ("scaled_loss.backward(retain_graph=retain_graph)", "", "954.00 MiB"),
        ("self.reduce_bucket_size = int(reduce_bucket_size)", "", "954.00 MiB"),
        # the gradients themselves, in what the line calls
        (
            BUCKET,
            FRAME.format(file="/v/site-packages/torch/x.py", line=3, function="run", code="y = a @ b"),
            "954.00 MiB",
        ),
    ],
)
def test_another_allocation_of_the_backward_pass_is_no_buffer(
    tmp_path: Path, code: str, below: str, tried: str
) -> None:
    found = first(tmp_path, TRACE + BACKWARD + REDUCES.format(STAGE_2, code) + below + refused(tried))
    assert "depend on the batch" not in found["explanation"]
    assert "smaller-buffers" not in knobs(found)[:1]


def test_a_buffer_of_another_size_than_the_default_has_no_computed_part(tmp_path: Path) -> None:
    found = first(tmp_path, TRACE + BACKWARD + REDUCES.format(STAGE_2, BUCKET) + refused("700.00 MiB"))
    assert found["remedies"][0]["knob"] == "smaller-buffers"
    assert "/ 10" not in (found["remedies"][0]["derivation"] or "")


def stepping(function: str, code: str) -> str:
    step = FRAME.format(file="/app/fit.py", line=92, function="train", code="optimizer.step()")
    inner = FRAME.format(
        file=f"/v/site-packages/torch/optim/{function.rpartition('_')[2]}.py", line=608, function=function, code=code
    )
    return TRACE + step + inner + refused("1.00 GiB")


@pytest.mark.parametrize(
    "code", ["exp_avg_sq_sqrt = torch._foreach_sqrt(device_exp_avg_sqs)", "torch._foreach_add_(device_params, x)"]
)
def test_adams_copies_of_whole_lists_are_left_out_first(tmp_path: Path, code: str) -> None:
    found = first(tmp_path, stepping("_multi_tensor_adamw", code))
    assert found["cause"] == "optimizer-states"
    assert "temporary copies" in found["explanation"]
    assert "fused=True" in found["remedies"][0]["snippet"]


@pytest.mark.parametrize(
    ("function", "code"),
    [
        ("_init_group_adamw", 'state["exp_avg"] = torch.zeros_like(p)'),
        ("_single_tensor_adamw", "denom = (exp_avg_sq.sqrt() / bias).add_(eps)"),
        ("_multi_tensor_sgd", "torch._foreach_add_(device_params, device_grads)"),
    ],
)
def test_states_and_other_optimizers_are_not_adams_copies(tmp_path: Path, function: str, code: str) -> None:
    found = first(tmp_path, stepping(function, code))
    assert "temporary copies" not in found["explanation"]
    assert "fused=True" not in str([remedy["snippet"] for remedy in found["remedies"]])


BY_LISTS = "exp_avg_sq_sqrt = torch._foreach_sqrt(device_exp_avg_sqs)"
DRIVEN = FRAME.format(file="/v/sd-scripts/sdxl_train.py", line=7, function="train", code="optimizer.step()")


@pytest.mark.parametrize(
    ("function", "code", "line"),
    [
        ("_multi_tensor_adamw", BY_LISTS, "--optimizer_args foreach=False"),
        ("_single_tensor_adamw", "denom = (exp_avg_sq.sqrt() / bias).add_(eps)", "--optimizer_type AdamW8bit"),
        ("_init_group_adamw", 'state["exp_avg"] = torch.zeros_like(p)', "--optimizer_type AdamW8bit"),
    ],
)
def test_a_program_hands_the_argument_on_before_its_states_shrink(
    tmp_path: Path, function: str, code: str, line: str
) -> None:
    found = first(tmp_path, stepping(function, code).replace(TRACE, TRACE + DRIVEN))
    assert found["cause"] == "optimizer-states"
    states = next(one for one in found["remedies"] if one["knob"] == "low-memory-optimizer")
    assert states["snippet"].startswith(line)
    assert "--optimizer_type AdamW8bit" in states["snippet"]


@pytest.mark.parametrize(
    ("before", "given"),
    [
        (DRIVEN, False),  # by data parallelism alone
        (DRIVEN + FRAME.format(file="/v/deepspeed/runtime/engine.py", line=3, function="step", code="self.s()"), True),
        (
            DRIVEN.replace("/sd-scripts/sdxl_train.py", "/torchtune/recipe.py"),
            True,
        ),  # which has an option to shard them
        (DRIVEN.replace("/sd-scripts/sdxl_train.py", "/fit/loop.py"), True),  # anybody's
        (DRIVEN + FRAME.format(file="/v/colossalai/zero/low_level.py", line=3, function="step", code="self.s()"), True),
        (DRIVEN + FRAME.format(file="/v/fit.py", line=3, function="step", code="optimizer.zero_grad()"), False),
    ],
)
def test_more_gpus_help_states_that_are_shared_out(before: str, *, given: bool) -> None:
    log = stepping("_multi_tensor_adamw", BY_LISTS).replace(TRACE, TRACE + before)
    chosen, _ = advise(log, "more-gpus", cause="optimizer-states")
    assert bool(chosen) is given
    chosen, _ = advise(log, "more-gpus", cause="logits-spike")
    assert chosen  # a smaller batch on each


META = FRAME.format(file="/m/llama/{}", line=98, function="main", code="Llama.build(a)")
LOADER = FRAME.format(
    file="/v/site-packages/transformers/modeling_utils.py", line=9, function="from_pretrained", code="load(state)"
)


@pytest.mark.parametrize(
    ("script", "given"),
    [
        ("example_chat_completion.py", False),  # as many processes as the checkpoint has files, in 16 bits
        ("example_text_completion.py", False),
        ("llama/generation.py", False),
        ("chat_completion.py", True),
        ("llama/generation_utils.py", True),
        ("serve.py", True),
    ],
)
def test_a_checkpoint_in_parts_is_split_over_no_more_gpus(script: str, *, given: bool) -> None:
    log = TRACE + META.format(script) + LOADER + refused("448.00 MiB")
    for knob in ("tensor-parallel", "mixed-precision"):
        assert bool(advise(log, knob, cause="model-does-not-fit")[0]) is given, knob


SAVES = FRAME.format(
    file="/v/site-packages/bitsandbytes/nn/modules.py", line=336, function="_save_to_state_dict", code="{}"
)
UNDO = FRAME.format(
    file="/v/site-packages/bitsandbytes/autograd/_functions.py",
    line=96,
    function="undo_layout",
    code="outputs = torch.empty_like(tensor)",
)


def test_the_line_that_calls_the_failing_one_tells_the_release(tmp_path: Path) -> None:
    line = "self.weight.data = undo_layout(self.state.CxB, self.state.tile_indices)"
    found = first(tmp_path, TRACE + SAVES.format(line) + UNDO + refused("256.00 MiB"))
    assert found["cause"] == "framework-regression"
    assert found["remedies"][0]["snippet"] == "pip install 'bitsandbytes>=0.39.1'"


def test_a_state_that_another_release_saves_is_a_checkpoints(tmp_path: Path) -> None:
    line = "super()._save_to_state_dict(destination, prefix, keep_vars)"
    assert first(tmp_path, TRACE + SAVES.format(line) + refused("256.00 MiB"))["cause"] == "checkpoint-spike"


DUCKDB = "Out of Memory Error: failed to allocate data of size 128.0 MiB ({used}/{limit} used)\n"


def test_a_limit_that_is_most_of_the_machine_cannot_be_doubled(tmp_path: Path) -> None:
    found = first(tmp_path, DUCKDB.format(used="12.7 GiB", limit="12.8 GiB"))
    assert knobs(found)[:3] == ["smaller-buffers", "fewer-workers", "spill-to-disk"]
    assert [remedy["snippet"] for remedy in found["remedies"][:2]] == [
        'con.execute("SET preserve_insertion_order=false")',
        'con.execute("SET threads=2")',
    ]
    last = found["remedies"][-1]
    assert (last["knob"], last["snippet"]) == ("raise-allocator-cap", None)
    assert "80% of the RAM, which is 16.00 GiB" in " ".join(last["assumes"])


@pytest.mark.parametrize(
    "log",
    [
        DUCKDB.format(used="90.0 MiB", limit="95.3 MiB"),  # no machine has so little
        "D SET memory_limit = '12GB';\n" + DUCKDB.format(used="12.7 GiB", limit="12.8 GiB"),
    ],
)
def test_a_limit_that_somebody_set_is_raised(tmp_path: Path, log: str) -> None:
    assert knobs(first(tmp_path, log))[0] == "raise-allocator-cap"


NANNY = "distributed.nanny - WARNING - Worker exceeded 95% memory budget.  Restarting\n"


def test_a_worker_of_dask_runs_fewer_tasks_at_once_before_its_limit_is_raised(tmp_path: Path) -> None:
    found = first(tmp_path, NANNY * 3)
    assert found["remedies"][0]["snippet"] == "dask-worker SCHEDULER --nthreads=1"
    assert knobs(found)[-1] == "raise-allocator-cap"


YARN = (
    "ExecutorLostFailure (executor 4 exited caused by one of the running tasks) Reason: Container killed by YARN for "
    "exceeding memory limits. {used} GB of {limit} GB physical memory used. Consider boosting {option}.\n"
)
OLD, NEW = "spark.yarn.executor.memoryOverhead", "spark.executor.memoryOverhead"


@pytest.mark.parametrize(
    ("before", "limit", "option", "line", "formula"),
    [
        ("", "11", NEW, f"{NEW}=4g", "1.00 GiB + 0.25 x 11.00 GiB = 3.75 GiB"),
        ("", "11", OLD, f"{OLD}=4096", "1.00 GiB + 0.25 x 11.00 GiB = 3.75 GiB"),
        ("", "2", NEW, f"{NEW}=1g", "384 MiB + 0.25 x 2.00 GiB = 896 MiB"),
        ("spark-submit --executor-memory 6g job.py\n", "8", NEW, f"{NEW}=4g", "2.00 GiB + 0.25 x 8.00 GiB = 4.00 GiB"),
    ],
)
def test_an_overhead_is_a_part_of_the_container(
    tmp_path: Path, before: str, limit: str, option: str, line: str, formula: str
) -> None:
    found = first(tmp_path, before + YARN.format(used=limit, limit=limit, option=option))
    remedy = found["remedies"][0]
    assert remedy["snippet"] == line
    assert formula in remedy["derivation"]
    assert any("10 %" in one for one in remedy["assumes"]) is (not before)


def test_a_use_at_the_limit_was_measured_at_the_kill(tmp_path: Path) -> None:
    at, below = (first(tmp_path, YARN.format(used=used, limit="8", option=NEW)) for used in ("8.0", "7.1"))
    assert "another moment" not in at["explanation"]
    assert "another moment" in below["explanation"]


def launched(option: str, tried: int, program: str = "deepspeed --num_gpus 1 serve.py") -> str:
    return (
        f"{program} --model org/some-3b {option} --offload-dir /scratch/x\n[rank0]: RuntimeError: [enforce fail at "
        "alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
        f"{tried} bytes. Error code 12 (Cannot allocate memory)\n"
    )


FREE = "              total        used        free      shared  buff/cache   available\n"
LEFT = FREE + "Mem:           31Gi        25Gi       1.0Gi       641Mi       5.0Gi       6.0Gi\n"
BUFFERS = 5 * 2 * (1 << 30)


def test_an_option_that_offloads_stands_beside_what_was_refused(tmp_path: Path) -> None:
    found = first(tmp_path, launched("--disk-offload", BUFFERS) + LEFT)
    assert found["cause"] == "cpu-offload-overcommit"
    assert found["headline"] == ("An allocation of 10 GiB of RAM failed beside --disk-offload: 6 GiB were available")
    assert "passes through buffers in host memory" in found["explanation"]
    remedy = found["remedies"][0]
    assert remedy["suggested"] == (1 << 30) // 8
    assert remedy["derivation"].startswith("10.00 GiB / 5 buffers / 2 bytes = 1073741824; / 8 = 134217728")


@pytest.mark.parametrize(
    ("option", "tried", "program"),
    [
        ("--cpu-weights-offload", BUFFERS, "deepspeed --num_gpus 1 serve.py"),  # to no disk
        ("--disk-offload", BUFFERS + 4, "deepspeed --num_gpus 1 serve.py"),  # of no whole elements
        ("--disk-offload", BUFFERS, "python flex.py"),
    ],
)
def test_other_buffers_are_not_reckoned(tmp_path: Path, option: str, tried: int, program: str) -> None:
    found = first(tmp_path, launched(option, tried, program))
    assert found["cause"] == "cpu-offload-overcommit"
    assert found["remedies"][0]["action"] == f"Run without {option}, or with less of it"


@pytest.mark.parametrize(
    "log",
    [
        launched("--no-offload", BUFFERS),
        launched("--offload-strategy none", BUFFERS),
        launched("", BUFFERS),
        launched("--disk-offload", 4096),
        "offload: true\n" + launched("", BUFFERS),  # of a file that may be another's
    ],
)
def test_no_option_that_offloads(tmp_path: Path, log: str) -> None:
    assert first(tmp_path, log)["cause"] != "cpu-offload-overcommit"


CACHE = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 98304.00 MiB on device 0: "
    "cudaMalloc failed: out of memory\n"
    "llama_kv_cache_init: failed to allocate buffer for kv cache\n"
)


def test_a_cache_that_is_made_for_the_context_shrinks_with_it(tmp_path: Path) -> None:
    found = first(tmp_path, CACHE)
    assert found["cause"] == "kv-cache-no-room"
    assert knobs(found)[0] == "shorter-context"


def test_a_binding_has_no_flags_of_the_program_that_it_binds(tmp_path: Path) -> None:
    found = first(tmp_path, f"{CACHE}\nValueError: Failed to create llama_context\n")
    assert found["remedies"][0]["setting"] == "n_ctx"
    assert not [remedy for remedy in found["remedies"] if str(remedy["setting"]).startswith("-")]
