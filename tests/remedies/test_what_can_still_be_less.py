"""What is at its least already, or has no less: types of few bits, workers that need not be, a loader's own choice."""

from __future__ import annotations

from pathlib import Path

import pytest
from remedy_logs import advise, cuda

import oomdoctor
from oomdoctor.remedies import Remedy

TOO_LARGE = "model-does-not-fit"
PROGRAM = (
    "XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used "
    "41.02G of 31.25G hbm. Exceeded hbm capacity by 9.77G.\n\nTotal hbm usage >= 41.53G:\n    reserved        530.00M "
    "\n    program           8.90G \n    arguments        32.12G \n\n  Largest program allocations in hbm:\n\n"
)
ARRAY = "  {n}. Size: 2.40G\n     Shape: {type}[98304,8192]{{1,0:T(8,128)}}\n     ==========================\n\n"


@pytest.mark.parametrize(
    ("types", "offered"),
    [
        (("bf16",), False),
        (("f16", "s32"), False),
        (("f32",), True),
        (("bf16", "f32"), True),  # half of it may still be had
        (("f64", "bf16"), True),
        (("s32",), True),  # of no floating-point type: it does not say what the weights are
        ((), True),
    ],
)
def test_arrays_of_16_bits_are_not_made_smaller_by_16_bits(types: tuple[str, ...], offered: bool) -> None:
    arrays = "".join(ARRAY.format(n=n, type=name) for n, name in enumerate(types, 1))
    chosen, rejected = advise(PROGRAM + arrays, "mixed-precision", "smaller-model", cause=TOO_LARGE)
    assert ("mixed-precision" in chosen) is offered
    assert "mixed-precision" not in rejected
    assert "smaller-model" in chosen


@pytest.mark.parametrize(("name", "offered"), [("half", False), ("bfloat16", False), ("float", True), ("int32", True)])
def test_an_array_of_tensorflow_has_its_type_beside_it(name: str, offered: bool) -> None:
    log = (
        f"ResourceExhaustedError: OOM when allocating tensor with shape[48,512,96,96] and type {name} on "
        "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Conv2D]\n"
    )
    assert ("mixed-precision" in advise(log, "mixed-precision", cause="activations")[0]) is offered


# weights that are loaded

PLAN = (
    "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to fit the "
    "quantized model. If you want to dispatch the model on the CPU or the disk while keeping these modules in 32-bit, "
    "you need to set `llm_int8_enable_fp32_cpu_offload=True` and pass a custom `device_map` to `from_pretrained`.\n"
)
LOADS = 'Traceback (most recent call last):\n  File "/a/tune.py", line 12, in <module>\n    model = load()\n'
QUANTIZES = (
    '  File "/x/site-packages/transformers/quantizers/quantizer_bnb_4bit.py", line 80, in validate_environment\n'
    "    raise ValueError(\n"
)
SHARDS = "Loading checkpoint shards:  40%|####      | 2/5 [00:15<00:20,  1.08it/s]\n"


def first(tmp_path: Path, log: str) -> tuple[str, list[Remedy]]:
    (tmp_path / "job.log").write_text(log)
    best = oomdoctor.diagnose(tmp_path / "job.log").incidents[0].diagnoses[0]
    return best.cause, list(best.remedies)


def test_a_plan_without_room_is_made_of_what_is_free(tmp_path: Path) -> None:
    cause, remedies = first(tmp_path, f"{LOADS}{QUANTIZES}{PLAN}")
    assert cause == TOO_LARGE
    assert [one.knob for one in remedies][:3] == ["free-the-gpu", "offload-parameters", "smaller-model"]
    assert "llm_int8_enable_fp32_cpu_offload=True" in (remedies[1].snippet or "")
    assert not {"lora", "mixed-precision", "quantize-weights"} & {one.knob for one in remedies}


def test_weights_of_few_bits_are_not_cast() -> None:
    cast = "mixed-precision"
    assert cast in advise(LOADS + PLAN, cast, cause=TOO_LARGE)[1]
    plain = f"import torch\n{LOADS}torch.OutOfMemoryError: {cuda()}"
    assert cast in advise(plain, cast, cause=TOO_LARGE)[0]


@pytest.mark.parametrize(
    ("before", "offered"),
    [
        (f'{SHARDS}  File "/a/transformers/modeling_utils.py", line 9, in from_pretrained\n    load(state)\n', False),
        ('  File "/a/tune.py", line 9, in train_step\n    loss.backward()\n', True),
        ('  File "/a/torch/optim/adamw.py", line 9, in step\n    state = torch.zeros_like(p)\n', True),
    ],
)
def test_adapters_are_for_what_comes_after_the_load(before: str, offered: bool) -> None:
    log = f"deepspeed train.py --learning_rate 1e-5\n{before}torch.OutOfMemoryError: {cuda()}"
    assert ("lora" in advise(log, "lora", cause=TOO_LARGE)[0]) is offered


# a file that says where its tensors go

RESTORES = (
    'Traceback (most recent call last):\n  File "/a/resume.py", line 31, in resume\n    state = torch.load(path)\n'
    '  File "/x/site-packages/torch/serialization.py", line 175, in default_restore_location\n'
    "    result = fn(storage, location)\n"
    '  File "/x/site-packages/torch/serialization.py", line 157, in _cuda_deserialize\n'
    "    return obj.cuda(device)\n"
)
FULL = (
    "RuntimeError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 15.78 GiB total capacity; 1.10 GiB already "
    "allocated; 21.00 MiB free; 1.20 GiB cached)\n"
)


def test_the_loader_chooses_the_gpu_whatever_is_set_before(tmp_path: Path) -> None:
    cause, remedies = first(tmp_path, RESTORES + FULL)
    assert cause == "gpu-shared"
    assert {one.knob for one in remedies[:3]} == {"free-the-gpu", "low-memory-loading", "fix-placement"}
    assert "CUDA_VISIBLE_DEVICES" in (next(one for one in remedies if one.knob == "fix-placement").snippet or "")


def test_ranks_that_are_seen_are_not_assumed(tmp_path: Path) -> None:
    _, remedies = first(tmp_path, f"torchrun --nproc_per_node 4 resume.py\n{RESTORES}{FULL}")
    assert next(one for one in remedies if one.knob == "fix-placement").assumes == ()


# worker processes

WORKER = (
    '  File "/x/site-packages/torch/utils/data/dataloader.py", line 1133, in _try_get_data\n'
    "    data = self._data_queue.get(timeout=timeout)\n"
    "RuntimeError: DataLoader worker (pid 5108) is killed by signal: Killed. \n"
)
KNOB = "fewer-workers"


def test_without_workers_the_main_process_loads() -> None:
    one = advise(WORKER, KNOB)[0][KNOB]
    assert (one.suggested, one.snippet) == (0, "num_workers=0")
    assert "main process" in one.action


@pytest.mark.parametrize(("stated", "then"), [(12, 6), (2, 1), (1, 0)])
def test_one_worker_may_be_none(stated: int, then: int) -> None:
    one = advise(f"python fit.py --num_workers {stated}\n{WORKER}", KNOB)[0][KNOB]
    assert (one.current, one.suggested, one.snippet) == (stated, then, f"--num_workers {then}")


def test_no_workers_are_not_fewer() -> None:
    chosen, rejected = advise(f"python fit.py --num_workers 0\n{WORKER}", KNOB)
    assert KNOB not in chosen
    assert "0" in rejected[KNOB].why


def test_a_program_of_processes_keeps_one() -> None:
    chosen, rejected = advise(f"python fit.py --n_jobs 1\n{WORKER}", KNOB)
    assert KNOB not in chosen
    assert "already 1" in rejected[KNOB].why


@pytest.mark.parametrize(
    ("shown", "offered"), [(WORKER, True), ("RuntimeError: the dataloader's worker died\n", False)]
)
def test_the_default_of_none_holds_unless_a_worker_is_seen(shown: str, offered: bool) -> None:
    log = f'  File "/x/site-packages/transformers/trainer.py", line 9, in train\n    inner()\n{shown}Killed\n'
    chosen, rejected = advise(log, KNOB, cause="killed-without-evidence")
    assert (KNOB in chosen and chosen[KNOB].suggested == 0) is offered
    assert (KNOB in rejected and "by default" in rejected[KNOB].why) is not offered


# processes that prepare the data

BAR = "Running tokenizer on dataset (num_proc={}):  71%|#######   | 60210/84800 [02:11<00:53, 462.1 examples/s]\n"
FACTORY = (
    "Traceback (most recent call last):\n"
    '  File "/x/site-packages/llamafactory/train/tuner.py", line 72, in _training_function\n    run_sft()\n'
)
DIED = (
    "RuntimeError: One of the subprocesses has abruptly died during map operation.To debug the error, disable "
    "multiprocessing.\n"
)


def test_what_a_bar_prints_is_no_option(tmp_path: Path) -> None:
    _, remedies = first(tmp_path, BAR.format(96) + FACTORY + DIED)
    one = remedies[0]
    assert (one.knob, one.snippet) == (KNOB, "preprocessing_num_workers: 16")
    assert (one.current, one.suggested) == (96, 16)
    assert not {"smaller-microbatch", "smaller-buffers"} & {each.knob for each in remedies}
    streams = next(each for each in remedies if each.knob == "stream-data")
    assert "max_steps" in (streams.snippet or "")


def test_a_few_processes_are_halved() -> None:
    one = advise(BAR.format(12) + FACTORY + DIED, KNOB, cause="dataset-in-ram")[0][KNOB]
    assert one.snippet == "preprocessing_num_workers: 6"
    assert "preprocessing_num_workers" in one.action


def test_an_option_of_that_name_stays_what_it_is() -> None:
    log = f"python prepare.py --num_proc 96\n{BAR.format(96)}{DIED}"
    one = advise(log, KNOB, cause="dataset-in-ram")[0][KNOB]
    assert one.snippet == "--num_proc 16"


def test_a_launch_line_has_the_option_that_it_shows() -> None:
    log = f"python wrap.py --num_proc 12\n{BAR.format(12)}{FACTORY}{DIED}"
    assert advise(log, KNOB, cause="dataset-in-ram")[0][KNOB].snippet == "--num_proc 6"


def test_many_loaders_are_halved() -> None:
    assert advise(f"python fit.py --num_workers 128\n{WORKER}", KNOB)[0][KNOB].suggested == 64


@pytest.mark.parametrize(("stage", "offered"), [("evaluation_loop", True), ("training_step", False)])
def test_predictions_are_kept_by_an_evaluation_alone(stage: str, offered: bool) -> None:
    log = (
        f'{FACTORY}  File "/x/site-packages/transformers/trainer.py", line 40, in {stage}\n    inner()\n'
        f"torch.OutOfMemoryError: {cuda()}"
    )
    assert ("smaller-buffers" in advise(log, "smaller-buffers", cause="gpu-memory-exhausted")[0]) is offered


CACHED = (
    "train: Caching images (27.9GB ram):  88%|####| 22047/25050 [06:11<00:50, 59.31it/s]\n"
    "cv2.error: OpenCV(4.5.5) /src/modules/core/src/alloc.cpp:73: error: (-4:Insufficient memory) Failed to allocate "
    "12582912 bytes in function 'cv::OutOfMemoryError'\n"
)


@pytest.mark.parametrize(("above", "size"), [("", "12 MiB"), ("yolov8 ", None)])
def test_a_cache_of_pictures_is_left_out_or_paid_for_on_the_disk(above: str, size: str | None) -> None:
    log = CACHED if size else CACHED.replace("Caching images (", "Reading images (")
    found = advise(above + log, "stream-data", cause="dataset-in-ram")[0].get("stream-data")
    assert (found is not None and f"uncompressed ({size}" in found.cost) is (size is not None)


@pytest.mark.parametrize(
    ("total", "cause", "given"),
    [
        ("12.60", "gpu-memory-exhausted", True),  # 2.60 GiB are not PyTorch's, 1.00 of them the driver's
        ("12.40", "gpu-memory-exhausted", False),
        ("10.40", "gpu-memory-exhausted", False),
        ("12.40", "gpu-shared", True),
    ],
)
def test_what_others_can_hold_beside_the_drivers_own(total: str, cause: str, given: bool) -> None:
    refused = (
        f"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; {total} GiB total capacity; 9.00 GiB "
        "already allocated; 512.00 MiB free; 9.50 GiB reserved in total by PyTorch)"
    )
    chosen, rejected = advise(refused, "free-the-gpu", cause=cause)
    assert ("free-the-gpu" in chosen) is given
    assert given or "driver context (assumed)" in rejected["free-the-gpu"].why
