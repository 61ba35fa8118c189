"""A default and an option belong to one program, its release and its engine: by what the log shows of them."""

from __future__ import annotations

import pytest
from remedy_logs import advise, crashes_of, cuda

from oomdoctor.remedies import Remedy
from oomdoctor.remedies.loading import in_its_order
from oomdoctor.remedies.settings import known_versions
from oomdoctor.signs.releases import one_stage_is_asked_for_all_layers

FRAME = '  File "{}", line 9, in {}\n    y = x()\n'
V1 = FRAME.format("/env/site-packages/vllm/v1/worker/gpu_model_runner.py", "_dummy_sampler_run")
V0 = FRAME.format("/env/site-packages/vllm/worker/model_runner.py", "profile_run")
EARLY = "ERROR 03-20 08:00:01 [core.py:340] EngineCore hit an exception: Traceback (most recent call last):\n"
LATE = EARLY.replace("340", "387")
NEW = "vllm==0.11.0\n"
SMALL, LARGE = cuda(total="23.57 GiB"), cuda(total="79.11 GiB")
SEQUENCES, PARTS, BATCH = "fewer-sequences", "chunked-logits", "smaller-microbatch"


def sequences(log: str) -> Remedy:
    return advise(log, SEQUENCES, cause="sampler-warmup")[0][SEQUENCES]


@pytest.mark.parametrize(
    ("log", "action", "then"),
    [
        (EARLY + V1 + SMALL, "Lower --max-num-seqs: 1024 (default) -> 256", 256),
        (EARLY + V1 + LARGE, "Lower --max-num-seqs: 1024 (default) -> 256", 256),
        ("vllm==0.8.3\n" + V1 + SMALL, "Lower --max-num-seqs: 1024 (default) -> 256", 256),
        ("vllm==0.8.4\n" + V1 + SMALL, "Halve --max-num-seqs: 256 (default) -> 128", 128),
        (f"{NEW}GPU 0: NVIDIA H100 80GB HBM3\n{V1}{LARGE}", "Halve --max-num-seqs: 1024 (default) -> 512", 512),
        (f"{NEW}GPU 0: NVIDIA A100-SXM4-80GB\n{V1}{LARGE}", "Halve --max-num-seqs: 256 (default) -> 128", 128),
        (NEW + V1 + LARGE, "Halve --max-num-seqs (value not in the log)", None),
        ("vllm==0.8.2\n" + V0 + SMALL, "Halve --max-num-seqs: 256 (default) -> 128", 128),
        ("vllm serve m --max-num-seqs 64\n" + EARLY + V1 + SMALL, "Halve max_num_seqs: 64 -> 32", 32),
    ],
)  # fmt: skip
def test_how_many_sequences_vllm_takes_by_default(log: str, action: str, then: int | None) -> None:
    remedy = sequences(log)
    assert (remedy.action, remedy.suggested) == (action, then)


def test_a_default_of_later_releases_says_so() -> None:
    assert any(">=0.8.4" in one for one in sequences(V1 + SMALL).assumes)
    assert not any(">=" in one for one in sequences(EARLY + V1 + SMALL).assumes)
    assert not any(">=" in one for one in sequences("vllm==0.9.1\n" + V1 + SMALL).assumes)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (EARLY, ">=0.8 <0.8.3"),
        (LATE, ">=0.7 <0.8.5"),
        ("INFO [gpu_model_runner.py:1140] Model loading took 14.2 GB and 3.1 seconds\n", ">=0.8 <0.8.3"),
        ("INFO [gpu_model_runner.py:1273] Model loading took 14.2 GiB and 3.1 seconds\n", ""),
        ("(W pid=1) NCCL version 2.21.5+cuda12.4\n", ">=0.6.4 <0.9"),
        ("(W pid=1) NCCL version 2.27.3+cuda12.9\n", ""),
        ("ERROR 03-20 08:00:01 multiproc_executor.py:374] no brackets\n", ""),
    ],
)
def test_what_lines_tell_of_vllms_release(line: str, text: str) -> None:
    (crash,) = crashes_of(line + V1 + SMALL)
    assert str(known_versions("vllm", crash.context)) == text


RLHF = FRAME.format("/w/ms-swift/{}/rlhf.py", "llm_rlhf")
DPO = "swift/llm"


@pytest.mark.parametrize(
    ("folder", "line"),
    [
        (DPO, "--use_liger true"),
        ("swift/llm/train", "--use_liger_kernel true"),
        ("swift/pipelines", "--use_liger_kernel true"),
    ],
)
def test_a_flag_as_its_release_spells_it(folder: str, line: str) -> None:
    chosen, _ = advise(RLHF.format(folder) + cuda(), PARTS, cause="logits-spike")
    assert chosen[PARTS].snippet == line


def test_files_in_the_next_ranks_traceback_tell_the_release() -> None:
    beneath = "".join(f"[rank6]: {line}\n" for line in RLHF.format(DPO).splitlines())
    (crash,) = crashes_of(
        "[rank1]:     y = x()\n[rank1]: " + cuda() + "[rank6]: Traceback (most recent call last):\n" + beneath
    )
    assert str(known_versions("ms-swift", crash.context)) == ">=2.0 <3.0"


@pytest.mark.parametrize(("file", "there"), [("sft", True), ("rlhf", False)])
def test_a_split_sequence_was_for_sft_alone(file: str, there: bool) -> None:
    trace = FRAME.format(f"/w/swift/llm/{file}.py", "x") + FRAME.format("/w/swift/trainers/x.py", "training_step")
    log = "".join(
        f"[rank1]: {line}\n" for line in ("Traceback (most recent call last):\n" + trace + cuda()).splitlines()
    )
    chosen, _ = advise(log, "sequence-parallel", cause="activations")
    assert ("sequence-parallel" in chosen) is there


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("mmdet/core/bbox/geometry.py", "data.imgs_per_gpu=1"),
        ("mmdet/models/anchor_heads/anchor_head.py", "data.imgs_per_gpu=1"),
        ("mmdet/core/bbox/iou_calculators/iou2d_calculator.py", "data.samples_per_gpu=1"),
        ("mmdet/models/dense_heads/anchor_head.py", "data.samples_per_gpu=1"),
    ],
)
def test_a_key_as_its_release_spells_it(file: str, line: str) -> None:
    chosen, _ = advise(FRAME.format(f"/w/{file}", "forward_train") + cuda(), BATCH, cause="activations")
    assert chosen[BATCH].snippet == line


ROLLOUT = (
    "ray::WorkerDict.actor_rollout_generate_sequences() (pid=1, ip=10.1.1.1)\n"
    + FRAME.format("/w/verl/workers/fsdp_workers.py", "generate_sequences")
)  # fmt: skip


@pytest.mark.parametrize(
    "beside", ["", FRAME.format("/w/verl/workers/rollout/vllm_rollout/x.py", "generate_sequences")]
)
def test_an_option_of_another_back_end_is_not_taken_for_granted(beside: str) -> None:
    chosen, _ = advise(ROLLOUT + beside + cuda(), BATCH, cause="activations")
    assert "rollout.micro_batch_size" not in (chosen[BATCH].snippet or "") if BATCH in chosen else True


def test_an_option_of_the_back_end_in_sight() -> None:
    beside = FRAME.format("/w/verl/workers/rollout/hf_rollout.py", "_generate_minibatch")
    assert "rollout.micro_batch_size=1" in (advise(ROLLOUT + beside + cuda(), BATCH)[0][BATCH].snippet or "")


@pytest.mark.parametrize(("day", "told"), [("2024-06-28", True), ("2024-07-20", False)])
def test_an_option_that_came_out_after_the_log(day: str, told: bool) -> None:
    log = (
        f"{day} 06:53:56 (LLMRayActor pid=1) ERROR worker_base.py:145] x\n"
        f"{day} 06:53:56 ValueError: The model's max seq len (8192) is larger than the maximum number of tokens that "
        "can be stored in KV cache (6048). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when "
        "initializing the engine.\n"
    )
    remedy = advise(log, "shorter-context", cause="max-model-len-too-long")[0]["shorter-context"]
    assert remedy.snippet == "--max_len 6048"
    assert any("2024-06-30" in one for one in remedy.assumes) is told


REFUSED = (
    "vllm serve m --pipeline-parallel-size {}\nvllm=={}\nValueError: To serve at least one request with the models's "
    "max seq len (262144), (24.0 GiB KV cache is needed, which is larger than the available KV cache memory (3.18 "
    "GiB). Based on the available memory, the estimated maximum model length is 34736. Try increasing "
    "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.\n"
)


@pytest.mark.parametrize(
    ("stages", "release", "told"), [(2, "0.15.1", True), (1, "0.15.1", False), (2, "0.17.0", False)]
)
def test_a_check_of_all_layers_against_one_stage(stages: int, release: str, told: bool) -> None:
    (crash,) = crashes_of(REFUSED.format(stages, release))
    assert (one_stage_is_asked_for_all_layers(crash) is not None) is told


TICKED = (
    "  CPU: False, Adam: True, Precision: fp16\nSteps:   0%|          | 1/1000 [00:01<19:51,  1.19s/it]VAE ENCODE\n{}"
    "CUDA out of memory. Tried to allocate 512.00 MiB (GPU 0; 12.00 GiB total capacity; 9.19 GiB already allocated; 0 "
    "bytes free; 9.68 GiB reserved in total by PyTorch)\n"
)


@pytest.mark.parametrize(
    ("who", "line"),
    [("Exception training db: ", "Gradient Checkpointing: on"), ("RuntimeError: ", "--gradient_checkpointing")],
)
def test_a_program_with_boxes_has_no_flags_of_a_script(who: str, line: str) -> None:
    knobs = ("gradient-checkpointing", "smaller-input", "memory-efficient-attention")
    chosen, _ = advise(TICKED.format(who), *knobs, cause="activations")
    assert chosen["gradient-checkpointing"].snippet == line
    flags = [knob for knob, remedy in chosen.items() if (remedy.snippet or "").startswith("--")]
    assert bool(flags) is line.startswith("--")


def test_a_box_for_attention_is_named_where_no_frame_shows_any() -> None:
    knob = "memory-efficient-attention"
    boxed, _ = advise(TICKED.format("Exception training db: "), knob, cause="activations")
    assert boxed[knob].snippet == "Memory Attention: xformers"


LOADING = (
    FRAME.format("/env/site-packages/accelerate/utils/modeling.py", "set_module_tensor_to_device")
    + "RuntimeError: NPU out of memory. Tried to allocate 392.00 MiB (NPU {}; 60.97 GiB total capacity; 59.55 GiB "
    "already allocated; 18.54 MiB free; 60.04 GiB reserved in total by PyTorch)\n"
    "Loading checkpoint shards:  42%|####      | {}/38 [00:15<00:20,  1.08it/s]\n"
)


def test_what_trainers_refuse_is_assumed_not_to_be_one() -> None:
    chosen, _ = advise(LOADING.format(2, 16), "tensor-parallel", cause="model-does-not-fit")
    assert any("accelerate refuses" in one for one in chosen["tensor-parallel"].assumes)


@pytest.mark.parametrize(("card", "shards", "first"), [(2, 16, True), (0, 16, False), (2, 30, False)])
def test_a_whole_model_on_a_later_card_is_a_rank_of_a_training(card: int, shards: int, first: bool) -> None:
    (crash,) = crashes_of(LOADING.format(card, shards))
    knobs = in_its_order(("tensor-parallel", "quantize-weights", "shard-states"), "model-does-not-fit", crash)
    assert (knobs[0] == "shard-states") is first


NO_BLOCKS = (
    FRAME.format("/w/verl/workers/fsdp_workers.py", "init_model")
    + FRAME.format("/env/site-packages/vllm/v1/core/kv_cache_utils.py", "check_enough_kv_cache_memory")
    + "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing "
    "the engine.\n"
)


@pytest.mark.parametrize(
    ("line", "snippet"),
    [
        ("(W pid=1) NCCL version 2.21.5+cuda12.4\n", None),
        ("vllm==0.8.5\n", None),
        ("vllm==0.11.0\n", "actor_rollout_ref.rollout.quantization=fp8"),
        ("", "actor_rollout_ref.rollout.quantization=fp8"),
    ],
)
def test_an_option_that_stands_on_later_releases_of_the_engine(line: str, snippet: str | None) -> None:
    chosen, _ = advise(line + NO_BLOCKS, "quantize-weights", cause="kv-cache-no-room")
    assert (chosen["quantize-weights"].snippet if "quantize-weights" in chosen else None) == snippet
    needs = [one for remedy in chosen.values() for one in remedy.assumes if "vllm>=0.10" in one]
    assert bool(needs) is (snippet is not None and not line)


def test_an_upgrade_stops_at_the_first_release_with_the_option() -> None:
    trace = FRAME.format("/env/site-packages/transformers/trainer.py", "prediction_loop").replace(
        "y = x()", "preds = logits if preds is None else torch.cat((preds, logits), dim=0)"
    )
    chosen, _ = advise(trace + cuda(), "smaller-buffers", cause="eval-accumulation")
    assert chosen["smaller-buffers"].snippet == 'pip install "transformers==3.4.0"'
