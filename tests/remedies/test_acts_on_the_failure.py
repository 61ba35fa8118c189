"""A knob is a remedy only where it acts on what failed: its step, its line, its size, its allocator, its machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from remedy_logs import advise, crashes_of, cuda, kill
from reports import body

from oomdoctor import diagnose
from oomdoctor.decision.diagnosis import decide
from oomdoctor.remedies import reach
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.signs import arrays

SLIME = "python slime/train.py --use-dynamic-batch-size --max-tokens-per-gpu 8192\n"
CAST = '  File "/x/megatron/core/transformer/module.py", line 380, in float_conversion\n    val = val.float()\n'
LOG_PROBS = '  File "/x/slime/utils/ppo_utils.py", line 80, in calculate_log_probs\n    x = logits - m\n'
ATTENTION = '  File "/x/model.py", line 3, in forward\n    w = softmax(q @ k)\n'
ASSIGNER = (
    '  File "/x/mmdet/core/bbox/assigners/max_iou_assigner.py", line 72, in assign\n'
    "    overlaps = bbox_overlaps(bboxes, gt_bboxes)\n"
)
BACKBONE = '  File "/x/mmdet/models/backbones/resnet.py", line 9, in forward\n    x = self.conv1(x)\n'
REFUSED = "torch.OutOfMemoryError: "
ON_THE_HOST = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:66] . DefaultCPUAllocator: can't allocate memory: you tried to "
    "allocate 26953670656 bytes. Error code 12 (Cannot allocate memory)\n"
)
PINS = '  File "/x/fit.py", line 3, in main\n    batch = batch.pin_memory()\n'
PARAMETERS = '  File "/x/deepspeed/runtime/zero/parameter_offload.py", line 254, in _convert_to_zero_parameters\n'


def test_every_row_is_of_a_knob_and_has_its_source() -> None:
    assert {row.knob for row in reach.table()} <= KNOBS.keys()


@pytest.mark.parametrize(("trace", "given"), [(LOG_PROBS, True), (CAST, False)])
def test_chunks_come_too_late_for_a_cast_of_whole_logits(trace: str, given: bool) -> None:
    chosen, _ = advise(SLIME + trace + REFUSED + cuda(tried="60.00 GiB"), "chunked-logits", cause="logits-spike")
    snippet = chosen["chunked-logits"].snippet if "chunked-logits" in chosen else None
    assert (snippet == "--log-probs-chunk-size 1024") == given


PADDED = "entropy = verl_F.entropy_from_logits(scores)"
PACKED = "entropy_rmpad = self.compute_entropy_from_logits(scores_rmpad)"
SCORED = "log_probs = logprobs_from_logits(scores, labels=labels)"
BY_CHUNKS = "actor_rollout_ref.actor.entropy_from_logits_with_chunking=True"
FUSED = "actor_rollout_ref.model.use_fused_kernels=True"


@pytest.mark.parametrize(("code", "line"), [(PACKED, BY_CHUNKS), (PADDED, FUSED), (SCORED, FUSED)])
def test_only_the_entropy_of_packed_sequences_is_cut_in_chunks(code: str, line: str) -> None:
    called = code.partition("(")[0].rpartition(".")[2].rpartition(" ")[2].removeprefix("compute_")
    trace = (
        f'  File "/s/verl/workers/actor/dp_actor.py", line 77, in _forward_micro_batch\n    {code}\n'
        f'  File "/s/verl/utils/torch_functional.py", line 33, in {called}\n    x = torch.exp(scores)\n'
    )
    log = "verl==0.5.0\n" + trace + REFUSED + cuda(tried="9.00 GiB")
    chosen, _ = advise(log, "chunked-logits", cause="logits-spike")
    assert chosen["chunked-logits"].snippet == line


@pytest.mark.parametrize(("tried", "given"), [("2.00 GiB", True), ("79.00 GiB", True), ("80.00 GiB", False)])
def test_recomputation_asks_for_the_same_piece_again(tried: str, given: bool) -> None:
    log = "python train.py\n" + ATTENTION + REFUSED + cuda(tried=tried)
    assert ("gradient-checkpointing" in advise(log, "gradient-checkpointing")[0]) == given


@pytest.mark.parametrize(("trace", "matches"), [(BACKBONE, False), (ASSIGNER, True)])
def test_boxes_are_matched_on_the_cpu_or_beside_fewer_images(trace: str, matches: bool) -> None:
    chosen, _ = advise(trace + REFUSED + cuda(), "smaller-microbatch", "offload-activations", cause="activations")
    assert "smaller-microbatch" in chosen  # what the other images of the batch keep is there, too
    assert ("offload-activations" in chosen) is matches  # there is no other option for it
    assert not matches or "gpu_assign_thr" in (chosen["offload-activations"].snippet or "")


@pytest.mark.parametrize(
    ("stamp", "known"), [("2018-11-30 10:00:00,100 - ", False), ("2020-11-30 10:00:00,100 - ", True), ("", True)]
)
def test_a_log_from_before_an_option_is_told_of_none(stamp: str, known: bool) -> None:
    chosen, _ = advise(
        f"{stamp}INFO - Epoch [2][50/900]\n{ASSIGNER}{REFUSED}{cuda()}", "offload-activations", cause="activations"
    )
    assert (
        "gpu_assign_thr" in (chosen["offload-activations"].snippet or "" if "offload-activations" in chosen else "")
    ) == known


def test_a_piece_larger_than_the_gpu_tells_how_much_shorter() -> None:
    chosen, _ = advise(ATTENTION + REFUSED + cuda(tried="128.00 GiB", free="14.50 GiB"), "shorter-sequences")
    assert "33%" in chosen["shorter-sequences"].action
    chosen, _ = advise(ATTENTION + REFUSED + cuda(tried="20.00 GiB", free="14.50 GiB"), "shorter-sequences")
    assert "%" not in chosen["shorter-sequences"].action


@pytest.mark.parametrize("pinned", [True, False])
def test_what_pins_nothing_needs_no_pageable_memory(pinned: bool) -> None:
    log = PINS + "RuntimeError: CUDA error: out of memory\n" if pinned else PARAMETERS + ON_THE_HOST
    assert ("unpin-memory" in advise(log, "unpin-memory")[0]) == pinned


def test_parameters_in_ram_are_halved_or_go_back() -> None:
    chosen, _ = advise("deepspeed train.py\n" + PARAMETERS + ON_THE_HOST, "mixed-precision", "less-offload")
    assert chosen["mixed-precision"].derivation == "25.10 GiB / 2 = 12.55 GiB"
    assert chosen["less-offload"].snippet == '"zero_optimization": {"offload_param": {"device": "none"}}'


STAGE_3 = '  File "/x/deepspeed/runtime/zero/stage3.py", line 77, in {function}\n    buffer = {code}\n'
FLAT = STAGE_3.format(function="_create_param_groups_fp16_flat_cpu_memory", code="torch.empty(int(numel))")
STATES = STAGE_3.format(function="initialize_optimizer_states", code="grads.pin_memory()")
SWAPPED = STAGE_3.format(function="_create_fp16_partitions", code="held.pin_memory()")


BACK = '"zero_optimization": {"offload_param": {"device": "none"}}'
PAGEABLE = '"zero_optimization": {"offload_optimizer": {"pin_memory": false}}'


@pytest.mark.parametrize(
    ("settings", "trace", "snippets"),
    [
        ("", FLAT, [BACK]),
        ("", STATES, [PAGEABLE]),
        ("", SWAPPED, [PAGEABLE]),
        ("offload_param device=none\n", STATES, [PAGEABLE]),
    ],
)
def test_the_buffer_of_all_parameters_is_pinned_whatever_is_set(
    settings: str, trace: str, snippets: list[str], tmp_path: Path
) -> None:
    log = "deepspeed fit.py\n" + settings + trace + "RuntimeError: CUDA error: out of memory\n"
    first = body(tmp_path, log)["diagnoses"][0]
    assert first["cause"] == "pinned-memory-exhausted"
    given = [one for one in first["remedies"] if one["knob"] in ("unpin-memory", "less-offload")]
    assert [one["snippet"] for one in given] == snippets
    assert not any("if it is on" in one["action"] for one in given)


XPU = "RuntimeError: XPU out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of {total}.\n"
RELAXED = "export UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1"


@pytest.mark.parametrize(
    ("message", "snippet"),
    [
        (XPU.format(tried="5.50 GiB", total="15.91 GiB"), RELAXED),
        (XPU.format(tried="3.50 GiB", total="15.91 GiB"), None),
        (XPU.format(tried="16.50 GiB", total="15.91 GiB"), None),
        (REFUSED + cuda(tried="5.50 GiB", free="9.00 GiB"), None),
        ("RuntimeError: Invalid buffer size: 45.00 GiB\n", None),
    ],
)
def test_only_intels_runtime_is_told_to_allow_more_at_once(message: str, snippet: str | None) -> None:
    chosen, _ = advise(message, "raise-allocator-cap", cause="allocator-cap")
    assert (chosen["raise-allocator-cap"].snippet if "raise-allocator-cap" in chosen else None) == snippet


def test_what_metal_refuses_at_once_nobody_raises() -> None:
    chosen, _ = advise("RuntimeError: Invalid buffer size: 45.00 GiB\n", "raise-allocator-cap", "smaller-microbatch")
    assert set(chosen) == {"smaller-microbatch"}


@pytest.mark.parametrize(
    ("cause", "trace", "given"),
    [
        ("allocator-cap", "", False),
        ("allocator-cap", ATTENTION, True),
        ("allocator-cap", BACKBONE, False),
        ("activations", "", False),
        ("activations", ATTENTION, True),
    ],
)
def test_a_tensor_that_is_too_large_at_once_may_be_anything(cause: str, trace: str, given: bool) -> None:
    log = trace + XPU.format(tried="5.50 GiB", total="15.91 GiB")
    knob = "memory-efficient-attention"
    assert (knob in advise(log, knob, cause=cause)[0]) == given


@pytest.mark.parametrize(("path", "given"), [("tensorflow/core", True), (r".\tensorflow/core", False)])
def test_windows_has_no_limit_on_locked_memory(path: str, given: bool) -> None:
    log = f"W {path}/common_runtime/x.cc:40] errno 12\nibv_reg_mr failed: Cannot allocate memory\n"
    crash = next(iter(crashes_of(log)), None)
    assert crash is None or reach.acts("raise-memlock", crash) == given


@pytest.mark.parametrize(
    ("log", "given"),
    [
        ("n3:5:8 [0] NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\n", True),
        ("runtime: mmap: too much locked memory (check 'ulimit -l').\n", True),
        (PINS + "RuntimeError: CUDA error: out of memory\n", False),
        (PINS + "RuntimeError: HIP error: out of memory\n", False),
        (PINS + "RuntimeError: CUDA error: invalid argument\n", False),
        (
            "what():  Error while calling cudaHostAlloc(&p, size) in file /s/d.cpp:9. code: 2, reason: out of memory\n",
            False,
        ),
    ],
)
def test_a_gpus_driver_pins_without_asking_for_the_limit(log: str, given: bool) -> None:
    crash = crashes_of(log)[0]
    assert crash.pool == "pinned"
    assert reach.acts("raise-memlock", crash) == given
    assert reach.acts("unpin-memory", crash)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/x/fit.py", "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
        (r"C:\x\fit.py", '$env:PYTORCH_CUDA_ALLOC_CONF = "max_split_size_mb:512"'),
    ],
)
def test_the_allocator_on_windows(path: str, line: str) -> None:
    log = f'  File "{path}", line 3, in forward\n    y = self.mlp(x)\n{REFUSED}' + cuda(unused="4.50 GiB")
    assert advise(log, "allocator-config")[0]["allocator-config"].snippet == line


@pytest.mark.parametrize(
    ("total", "free", "value"),
    [
        ("8.00 GiB", "0 bytes", "max_split_size_mb:512"),
        ("7.99 GiB", "0 bytes", "expandable_segments:True"),
        ("8.00 GiB", "12.00 MiB", "expandable_segments:True"),
        ("23.65 GiB", "0 bytes", "expandable_segments:True"),
    ],
)
def test_the_allocator_on_a_card_of_windows_by_its_figures(total: str, free: str, value: str) -> None:
    log = REFUSED + cuda(total=total, free=free, own="5.20 GiB", unused="2.40 GiB")
    remedy = advise(log, "allocator-config")[0]["allocator-config"]
    assert remedy.snippet == f"export PYTORCH_CUDA_ALLOC_CONF={value}"


@pytest.mark.parametrize(
    ("function", "given"), [("wake_up", False), ("load_model", True), ("execute_model", True), ("wake_word", True)]
)
def test_an_engine_that_wakes_up_has_slept(function: str, given: bool) -> None:
    log = (
        "python3 -m openrlhf.cli.train_ppo_ray --colocate_all_models --vllm_num_engines 2\n"
        "Traceback (most recent call last):\n"
        f'  File "/x/vllm/device_allocator/pool.py", line 7, in {function}\n    self.prepare(handle)\n{cuda()}'
    )
    chosen, rejected = advise(log, "engine-sleep")
    assert ("engine-sleep" in chosen) == given
    assert ("engine-sleep" in rejected) == (not given)


# Killers that were told to kill early


@pytest.mark.parametrize(
    ("used", "threshold", "then"), [(21.9, "0.65", 0.95), (31.7, "0.95", None), (31.0, "0.92", None)]
)
def test_rays_limit_goes_back_to_the_usual_one(used: float, threshold: str, then: float | None) -> None:
    log = kill(used, 33.28, "4711\t21.00\tpython fit.py\n", threshold)
    remedy = advise(log, "tune-ray-monitor")[0]["tune-ray-monitor"]
    assert remedy.suggested == then
    assert ("only to gain time" in remedy.action) == (then is None)


EARLY = (
    "earlyoom[702]: mem avail: {free} of 31885 MiB ({share}%), swap free:    0 of    0 MiB ( 0.00%)\n"
    "earlyoom[702]: low memory! at or below SIGTERM limits: mem {limit}, swap 10.00%\n"
    'earlyoom[702]: sending SIGTERM to process 24410 uid 1000 "python3": badness 900, VmRSS 5110 MiB\n'
)


@pytest.mark.parametrize(
    ("free", "share", "limit", "given"),
    [(15000, "47.04", "50.00%", True), (15000, "47.04", "50 %", True), (1302, "4.08", "10.00%", False)],
)
def test_earlyoom_that_kills_early(free: int, share: str, limit: str, given: bool) -> None:
    chosen, _ = advise(EARLY.format(free=free, share=share, limit=limit), "fix-environment", "more-host-memory")
    assert ("EARLYOOM_ARGS" in (chosen["fix-environment"].snippet or "")) == given
    assert ("more-host-memory" in chosen) != given


OOMD = (
    "Jan 09 04:10:07 n7 systemd-oomd[611]: Memory pressure for /jobs.slice is {found}% > {limit}% for > 30s with "
    "reclaim activity\n"
    "Jan 09 04:10:07 n7 systemd-oomd[611]: Killed /jobs.slice/fit.service due to memory pressure for /jobs.slice be>\n"
)


@pytest.mark.parametrize(
    ("found", "limit", "then"),
    [("41.07", "2.00", 50), ("41.07", "30.00", 50), ("71.50", "60.00", None), ("97.20", "5.00", None)],
)
def test_systemds_guard_bears_more_where_it_was_told_to_bear_little(found: str, limit: str, then: int | None) -> None:
    chosen, _ = advise(OOMD.format(found=found, limit=limit), "fix-environment", "more-host-memory")
    snippet = chosen["fix-environment"].snippet if "fix-environment" in chosen else ""
    line = f"systemctl set-property jobs.slice ManagedOOMMemoryPressureLimit={then}%"
    assert snippet == (line if then is not None else None)


@pytest.mark.parametrize("manager", ["", " --user"])
def test_a_unit_of_a_user_is_changed_by_the_users_own_manager(manager: str) -> None:
    above = "/user.slice/user@1000.service/app.slice" if manager else "/user.slice/app.slice"
    log = (
        f"systemd-oomd[611]: Marked {above}/a.scope for killing due to memory pressure for {above} being 33.10% > 4.00%"
        " for > 20s with reclaim activity\n"
    )
    chosen, _ = advise(log, "fix-environment")
    assert f"systemctl{manager} set-property app.slice " in (chosen["fix-environment"].snippet or "")


FILLS = "tensorflow/core/kernels/data/shuffle_dataset_op.cc:172] Filling up shuffle buffer (this may take a while): "


@pytest.mark.parametrize("filled", [True, False])
def test_a_shuffle_buffer_that_was_full_is_halved(filled: bool) -> None:
    log = f"{FILLS}4931 of 6000\n" + "shuffle_dataset_op.cc:221] Shuffle buffer filled.\n" * filled + "Killed\n"
    chosen, _ = advise(log, "smaller-buffers")
    assert chosen["smaller-buffers"].suggested == (3000 if filled else 1000)


# What the refused piece is of

TABLE = (
    "numpy.core._exceptions.MemoryError: Unable to allocate {} for an array with shape (900000, 30000) and data type {}"
)


@pytest.mark.parametrize(
    ("line", "size", "dtype", "given"),
    [
        ("", "201. GiB", "float64", True),
        ("", "201. GiB", "int64", True),
        ("", "101. GiB", "float32", False),
        ("", "25.1 GiB", "uint8", False),
        ("    x = m.toarray()", "101. GiB", "float32", True),
    ],
)
def test_numbers_that_are_narrow_are_not_made_narrow(line: str, size: str, dtype: str, given: bool) -> None:
    trace = f'Traceback (most recent call last):\n  File "/x/fit.py", line 9, in main\n{line}\n' if line else ""
    chosen, _ = advise(trace + TABLE.format(size, dtype), "narrow-dtypes")
    assert ("narrow-dtypes" in chosen) == given


@pytest.mark.parametrize("by_java", [True, False])
def test_a_trainers_batch_is_not_in_a_java_process_beside_it(by_java: bool) -> None:
    java = "# Native memory allocation (mmap) failed to map 16384 bytes for committing reserved memory.\n"
    log = "python -m verl.trainer.main_ppo\n" + (java if by_java else ON_THE_HOST)
    assert ("smaller-microbatch" in advise(log, "smaller-microbatch")[0]) != by_java


# Programs of XLA

ORDINAL = (
    "pjrt_stream_executor_client.cc:2153] RESOURCE_EXHAUSTED: Failed to allocate request for {} on device ordinal {}"
)
PROGRAM = (
    "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 90194313216 bytes.\n"
    "Peak buffers:\n\tBuffer 1:\n\t\tSize: 21.00GiB\n\t\tXLA Label: fusion\n\t\tShape: {shape}\n"
)


@pytest.mark.parametrize(
    ("shape", "pairs"),
    [
        ("f32[8,16,2048,2048]", True),
        ("f32[2048,8,16,2048]", False),
        ("f32[4096,16,2048,2048]", False),  # more of something else
        ("f32[8,64,64]", False),
        ("f32[8,2048]", False),
    ],
)
def test_an_array_over_all_pairs_is_made_shorter_first(shape: str, pairs: bool) -> None:
    crash = crashes_of(PROGRAM.format(shape=shape))[0]
    assert (arrays.pairs_hold_most(crash) is not None) == pairs
    chosen, _ = advise(PROGRAM.format(shape=shape), "shorter-sequences")
    assert ("2048 -> 1024" in chosen["shorter-sequences"].action) == pairs


@pytest.mark.parametrize(
    ("line", "batch"), [("Running colabfold 1.5.5 (abc)", False), ("cf_af.run_alphafold(x)", False), ("run(x)", True)]
)
def test_one_protein_after_the_other_has_no_batch(line: str, batch: bool) -> None:
    chosen, _ = advise(f"{line}\n{PROGRAM.format(shape='f32[8,2048]')}", "smaller-microbatch")
    assert ("smaller-microbatch" in chosen) == batch


UNIFIED = (
    "cuda_driver.cc:771] failed to alloc {} bytes unified memory; result: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n"
)


@pytest.mark.parametrize(
    ("head", "sizes", "line"),
    [
        ("", (4 << 30, 3 << 30, 900 << 20), "unset TF_FORCE_UNIFIED_MEMORY XLA_PYTHON_CLIENT_MEM_FRACTION"),
        ("Running colabfold 1.5.5 (abc)\n", (1 << 30, 900 << 20), "--disable-unified-memory"),
        ("", (300 << 30, 270 << 30), None),  # more than the machine may have
    ],
)
def test_unified_memory_of_any_size_that_is_refused(head: str, sizes: tuple[int, ...], line: str | None) -> None:
    chosen, _ = advise(head + "".join(map(UNIFIED.format, sizes)), "fix-environment")
    found = chosen["fix-environment"].snippet if "fix-environment" in chosen else None
    assert (found == line) == (line is not None or found is None)
    assert found is None or "nvidia-smi" in found or line is not None


@pytest.mark.parametrize(("second", "told"), [("3", "GPUs 1, 3"), ("1", "GPU 1")])
def test_a_program_that_fails_on_several_gpus_names_them(tmp_path: Path, second: str, told: str) -> None:
    said = "625.00MiB (655360000B)"
    report = body(tmp_path, f"{ORDINAL.format(said, 1)}\n{ORDINAL.format(said, second)}\n")
    assert report["diagnoses"][0]["headline"].endswith(f" on {told}")


# The cluster


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("Error: No available node types can fulfill resource request {'GPU': 2.0}.", "no node can provide"),
        (
            (
                "Warning: The following resource request cannot be scheduled right now: {'GPU': 2.0}. This is likely "
                "due to all cluster resources being claimed by actors."
            ),
            "Create fewer actors",
        ),
    ],
)
def test_what_no_node_has_is_not_freed_by_fewer_actors(said: str, words: str) -> None:
    log = "".join(f"(autoscaler +{n}m4s) {said} Add suitable node types.\n" for n in range(3))
    assert words in advise(log, "fix-resource-request")[0]["fix-resource-request"].action


TOO_FEW = "AssertionError: local_world_size (16) must be less than or equal to the number of visible devices (8).\n"


def test_one_process_counts_only_what_it_sees() -> None:
    log = "vllm==0.12.0\nvllm serve m --tensor-parallel-size 16 --distributed-executor-backend ray\n" + TOO_FEW
    chosen, _ = advise(log, "fix-resource-request", "fix-environment", "add-nodes", cause="gpu-visibility")
    assert chosen["fix-resource-request"].snippet == "--tensor-parallel-size 8 --pipeline-parallel-size 2"
    assert "add-nodes" not in chosen
    assert "ray list" not in (chosen["fix-environment"].snippet or "")


def test_a_release_that_counts_all_ranks_is_given_no_pipeline() -> None:
    """Its check multiplies both sizes (vllm-project/vllm#28873)."""
    log = "vllm==0.11.1\nvllm serve m --tensor-parallel-size 16 --distributed-executor-backend ray\n" + TOO_FEW
    chosen, _ = advise(log, "fix-resource-request", cause="gpu-visibility")
    assert chosen["fix-resource-request"].snippet == "--tensor-parallel-size 8"


@pytest.mark.parametrize(("release", "is_known"), [("0.11.1", True), ("0.12.0", False)])
def test_a_message_of_a_known_release_is_not_called_unknown(release: str, is_known: bool) -> None:
    log = f"vllm=={release}\nvllm serve m --tensor-parallel-size 16 --distributed-executor-backend ray\n" + TOO_FEW
    against = decide(crashes_of(log)[0]).answers[0].finding.against
    assert any("this message is unknown" in one for one in against) is not is_known


BEFORE_2_2 = (
    "(raylet) [2022-09-14 08:12:33,104 E 211 240] (raylet) node_manager.cc:2963: System memory low at node with IP "
    "10.1.1.7. Used memory (40.20GB) / total capacity (62.80GB) (0.640127) exceeds threshold 0.6, killing latest task "
    "with name Reader.fill, kill_requires.\n"
)


def test_rays_own_limit_was_lower_before_2_2() -> None:
    remedy = advise(BEFORE_2_2, "tune-ray-monitor")[0]["tune-ray-monitor"]
    assert (remedy.suggested, remedy.derivation) == (0.9, "0.9 x 62.80 GiB - 40.20 GiB in use = 16.32 GiB more")
    later = advise(f"ray==2.9.0\n{BEFORE_2_2}", "tune-ray-monitor")[0]["tune-ray-monitor"]
    assert later.suggested == 0.95


# Holders that are as large as each other


@pytest.mark.parametrize(("second", "named"), [(202.2, True), (101.0, False)])
def test_of_two_equal_holders_neither_is_blamed_alone(
    tmp_path_factory: pytest.TempPathFactory, second: float, named: bool
) -> None:
    rows = f"5312\t211.81\tray::ActorModelRayActor\n5313\t{second:.2f}\tray::CriticModelRayActor\n"
    file = tmp_path_factory.mktemp("job") / "driver.log"
    file.write_text(kill(445.48, 468.75, rows))
    incident = diagnose(file).incidents[0]
    assert ("CriticModelRayActor (PID 5313)" in incident.headline) == named
    assert ("hold 414.01 GiB" in incident.diagnoses[0].explanation) == named


@pytest.mark.parametrize(("before", "given"), [("", False), ("(raylet) Ray runtime started.\n", True)])
def test_a_single_machine_has_no_nodes_to_add(before: str, given: bool) -> None:
    killed = (
        "Out of memory: Killed process 71 (python) total-vm:90000000kB, anon-rss:60000000kB, file-rss:0kB, "
        "shmem-rss:0kB\n"
    )
    chosen, _ = advise(before + killed, "add-nodes", cause="too-many-workers")
    assert ("add-nodes" in chosen) == given


MPS = (
    "RuntimeError: MPS backend out of memory (MPS allocated: 20.25 GB, other allocations: 3.50 GB, max allowed: 24.00 "
    "GB). Tried to allocate 512.00 MB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit "
    "for memory allocations (may cause system failure).\n"
)
TRAINS = (
    "Traceback (most recent call last):\n"
    '  File "/x/site-packages/transformers/trainer.py", line 9, in training_step\n    self.accelerator.backward(loss)\n'
    '  File "/x/site-packages/torch/autograd/graph.py", line 7, in _engine_run_backward\n    run_backward(t)\n'
)


@pytest.mark.parametrize(
    ("refused", "there"),
    [
        (MPS, {"memory-efficient-attention": False, "offload-activations": False, "smaller-microbatch": True}),
        (cuda(), {"memory-efficient-attention": True, "offload-activations": True, "smaller-microbatch": True}),
        (
            cuda().replace("CUDA", "HIP"),
            {"memory-efficient-attention": True, "offload-activations": True, "smaller-microbatch": True},
        ),
    ],
)
def test_a_mac_has_no_flash_attention_and_one_memory(refused: str, there: dict[str, bool]) -> None:
    chosen, _ = advise(f"{TRAINS}RuntimeError: {refused}", *there, cause="activations")
    for knob, is_there in there.items():
        found = chosen.get(knob)
        flash = knob == "memory-efficient-attention"
        assert (found is not None and (not flash or "flash_attention_2" in (found.snippet or ""))) is is_there, knob


@pytest.mark.parametrize(
    ("refused", "line"),
    [
        (MPS, 'with torch.autocast("mps", dtype=torch.bfloat16):'),
        (cuda(), 'with torch.autocast("cuda", dtype=torch.bfloat16):'),
        (cuda().replace("CUDA", "HIP"), 'with torch.autocast("cuda", dtype=torch.bfloat16):'),
        (cuda().replace("CUDA", "XPU"), 'with torch.autocast("xpu", dtype=torch.bfloat16):'),
    ],
)
def test_autocast_is_of_the_device_that_ran_out(refused: str, line: str) -> None:
    log = f"  x = self.attend(x)\nRuntimeError: {refused}"
    assert advise(log, "mixed-precision", cause="activations")[0]["mixed-precision"].snippet == line


def test_the_record_of_a_macs_memory_is_another() -> None:
    line = advise(MPS, "collect-evidence", cause="gpu-memory-exhausted")[0]["collect-evidence"].snippet
    assert line is None or "cuda" not in line


STAYED = (
    "RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 6144 tokens.\n"
    "Available full tokens: {both} (full_available_size={free} + full_evictable_size_={more})\n"
)


@pytest.mark.parametrize(
    ("free", "suggested"), [(6143, 3072), (3072, 3072), (3071, 1536), (384, 384), (383, None), (0, None)]
)
def test_a_batch_that_fits_without_eviction(free: int, suggested: int | None) -> None:
    log = STAYED.format(both=free + 700_000, free=free, more=700_000)
    remedy = advise(log, "smaller-prefill", cause="kv-pool-exhausted")[0].get("smaller-prefill")
    assert (remedy.suggested if remedy is not None else None) == suggested


@pytest.mark.parametrize(("more", "stayed"), [(700_000, True), (0, False)])
def test_what_was_not_evicted_is_the_programs_matter(more: int, stayed: bool) -> None:
    log = STAYED.format(both=600 + more, free=600, more=more)
    remedy = advise(log, "pin-version", cause="kv-pool-exhausted")[0].get("pin-version")
    assert (remedy is not None and remedy.snippet == "--disable-radix-cache") is stayed


@pytest.mark.parametrize(("head", "is_there", "has_a_value"), [("Prefill", True, True), ("Decode", False, False)])
def test_a_decode_batch_has_a_token_per_request(head: str, is_there: bool, has_a_value: bool) -> None:
    log = STAYED.format(both=705_000, free=5000, more=700_000).replace("Prefill", head)
    remedy = advise(log, "smaller-prefill", cause="kv-pool-exhausted")[0].get("smaller-prefill")
    assert (remedy is not None) is is_there
    assert (remedy is not None and remedy.suggested is not None) is has_a_value


def test_layers_on_the_host_do_not_count_for_metals_own_limit() -> None:
    log = (
        "ggml_metal_init: allocating\nggml_backend_metal_buffer_type_alloc_buffer: error: failed to allocate buffer, "
        "size = 9216.00 MiB\nllama_model_load: error loading model: unable to allocate Metal buffer\n"
    )
    assert "-ngl" in advise(log, "offload-parameters", cause="model-does-not-fit")[0]["offload-parameters"].action


ALONE = (
    'error_message: "Task was killed due to the node running low on memory.\\nMemory on the node (IP: 10.0.0.9, ID: '
    "{node}) where the task (task ID: {task}, name=squeeze, pid=77, memory used=0.20GB) was running was 61.00GB / "
    '63.00GB (0.968254), which exceeds the memory usage threshold of 0.95. Ray killed this worker"\n'
).format(node="ab" * 28, task="cd" * 24)


@pytest.mark.parametrize(
    ("log", "asked"),
    [
        (ALONE, "raylet.out"),
        ("Memory cgroup out of memory: Killed process 77 (python) total-vm:9kB, anon-rss:64225280kB\n", "dmesg"),
    ],
)
def test_a_kill_of_rays_leaves_no_line_in_the_kernels_log(log: str, asked: str) -> None:
    chosen, _ = advise(log, "collect-evidence", cause="host-memory-exhausted")
    assert asked in (chosen["collect-evidence"].snippet or "")


@pytest.mark.parametrize(("answer", "given"), [(12, False), (1900, True), (0, True)])
def test_few_tokens_are_not_made_fewer(answer: int, given: bool) -> None:
    frame = '  File "/u/modules/text_generation.py", line 7, in run\n    model.generate(**options)\n'
    after = f"\nOutput generated in 3.30 seconds (5.00 tokens/s, {answer} tokens, context 88, seed 4)\n"
    knobs = ("shorter-sequences", "memory-efficient-attention", "quantize-weights")
    chosen, _ = advise(frame + REFUSED + cuda() + after, *knobs, cause="activations")
    assert chosen.keys() == {"quantize-weights", *(knobs if given else ())}


ZERO = '  File "/env/colossalai/zero/sharded_optim/low_level_optim.py", line 91, in step\n    self.optim.step()\n'
PLAIN = '  File "/env/torch/optim/adamw.py", line 91, in step\n    state = torch.zeros_like(p)\n'
COATI = '  File "/env/coati/trainer/sft.py", line 91, in fit\n    self.strategy.optimizer_step(optim)\n'


@pytest.mark.parametrize(("trace", "given"), [(ZERO, False), (PLAIN, True), (COATI + ZERO, False)])
def test_what_colossalai_shards_is_sharded(trace: str, given: bool) -> None:
    knobs = ("shard-states", "mixed-precision")
    chosen, _ = advise(
        "torchrun --nproc_per_node 4 fit.py\n" + trace + REFUSED + cuda(), *knobs, cause="optimizer-states"
    )
    assert set(chosen) == (set(knobs) if given else set())


@pytest.mark.parametrize(("trace", "line"), [(COATI + ZERO, "--strategy colossalai_zero2_cpu"), (ZERO, None)])
def test_coati_keeps_states_on_the_host_by_its_strategy(trace: str, line: str | None) -> None:
    chosen, _ = advise("torchrun fit.py\n" + trace + REFUSED + cuda(), "offload-optimizer", cause="optimizer-states")
    assert (chosen["offload-optimizer"].snippet if "offload-optimizer" in chosen else None) == line


BLIND = "RuntimeError: No CUDA GPUs are available\n"


@pytest.mark.parametrize(("before", "is_of_ray"), [("", False), ("(raylet) a new actor of Ray starts\n", True)])
def test_where_no_ray_runs_nothing_is_requested_of_it(before: str, is_of_ray: bool) -> None:
    chosen, _ = advise(before + BLIND, "fix-resource-request", cause="gpu-visibility")
    assert ("fix-resource-request" in chosen) is is_of_ray


@pytest.mark.parametrize(
    ("line", "asks_ray"),
    [
        ("3 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed at node (ID: ab)", True),
        ("Out of memory: Killed process 71 (python3) total-vm:9000000kB, anon-rss:6000000kB, file-rss:0kB", False),
    ],
)  # fmt: skip
def test_a_kill_of_rays_is_in_the_nodes_own_log(line: str, asks_ray: bool, tmp_path: Path) -> None:
    diagnosis = body(tmp_path, line)["diagnoses"][0]
    asked = [one["snippet"] or "" for one in diagnosis["remedies"] if one["knob"] == "collect-evidence"]
    assert any("raylet" in snippet for snippet in asked) is asks_ray


GATHERED = "per_token_logps = torch.gather(logits.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)"
IN_FORWARD = "loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.vocab_size)"
SELECTED = "per_token_logps = selective_log_softmax(logits, labels)"


@pytest.mark.parametrize(
    ("program", "code", "fused"),
    [
        ("swift/trainers/rlhf_trainer/x.py", GATHERED, False),
        ("trl/trainer/dpo_trainer.py", GATHERED, False),
        ("llamafactory/train/dpo/trainer.py", GATHERED, False),
        ("swift/trainers/trainers.py", IN_FORWARD, True),
        ("llamafactory/train/sft/trainer.py", IN_FORWARD, True),
        ("trl/trainer/grpo_trainer.py", SELECTED, True),
    ],
)
def test_a_loss_fused_in_the_models_forward_acts_on_no_logits_outside_of_it(
    program: str, code: str, *, fused: bool
) -> None:
    trace = f'  File "/x/site-packages/{program}", line 7, in compute_loss\n    {code}\n'
    chosen, _ = advise(trace + REFUSED + cuda(tried="9.00 GiB"), "chunked-logits", cause="logits-spike")
    assert ("liger" in (chosen["chunked-logits"].snippet or "")) is fused


NCCL = "n4:52:77 [1] {} NCCL WARN Cuda failure {}'out of memory'\n"


@pytest.mark.parametrize(
    ("lines", "buffers"),
    [
        (NCCL.format("enqueue.cc:88", ""), False),
        (NCCL.format("misc/strongstream.cc:31", "2 "), False),
        (NCCL.format("transport/p2p.cc:205", "2 "), True),
        (NCCL.format("include/alloc.h:178", ""), True),
        (NCCL.format("init.cc:333", "") + "n4:52:77 [1] NCCL INFO enqueue.cc:88 -> 1\n", True),  # who called it
    ],
)
def test_smaller_buffers_leave_no_room_once_nccl_has_them(lines: str, *, buffers: bool) -> None:
    chosen, _ = advise(lines, "smaller-buffers", "smaller-microbatch", cause="non-torch-memory")
    assert ("smaller-buffers" in chosen) is buffers
    assert "smaller-microbatch" in chosen


EVALUATES = '  File "/x/site-packages/transformers/trainer.py", line 99, in evaluation_loop\n    {}\n'
JOINS = "preds_host = logits if preds_host is None else nested_concat(preds_host, logits, padding_index=-100)"
GATHERS = "logits = self._nested_gather(logits)"
PASSES = "loss, logits, labels = self.prediction_step(model, inputs, prediction_loss_only)"


@pytest.mark.parametrize(("code", "given"), [(JOINS, False), (GATHERS, True), (PASSES, True)])
def test_the_results_of_all_batches_are_as_large_in_smaller_ones(code: str, *, given: bool) -> None:
    log = EVALUATES.format(code) + REFUSED + cuda()
    chosen, _ = advise(log, "smaller-microbatch", "smaller-buffers", cause="eval-accumulation")
    assert ("smaller-microbatch" in chosen) is given
    assert "smaller-buffers" in chosen


CALLED = (
    "ray::WorkerDict.{}() (pid=4711, ip=10.1.2.3, actor_id=ab, repr=<verl.single_controller.ray.base.WorkerDict>)\n"
)
ENTROPY = '  File "/x/torch/nn/functional.py", line 1890, in softmax\n    ret = input.softmax(dim)\n'
SAMPLES = '  File "/x/verl/workers/rollout/hf_rollout.py", line 90, in _generate\n    out = self.module.generate(x)\n'


@pytest.mark.parametrize(
    ("call", "trace", "option"),
    [
        ("actor_rollout_generate_sequences", ENTROPY, "rollout.log_prob_micro_batch_size_per_gpu"),
        ("actor_rollout_generate_sequences", SAMPLES, "rollout.micro_batch_size"),
        ("actor_rollout_compute_log_prob", ENTROPY, "rollout.log_prob_micro_batch_size_per_gpu"),
        ("actor_rollout_update_actor", ENTROPY, "actor.ppo_micro_batch_size_per_gpu"),
    ],
)
def test_who_scores_within_the_rollout_has_batches_for_it(call: str, trace: str, option: str) -> None:
    log = CALLED.format(call) + trace + REFUSED + cuda(tried="5.00 GiB")
    chosen, _ = advise(log, "smaller-microbatch", "chunked-logits", cause="logits-spike")
    assert chosen["smaller-microbatch"].setting == f"actor_rollout_ref.{option}"
    assert (chosen.get("chunked-logits") is None or not chosen["chunked-logits"].snippet) == ("generate" in call)


SAVES = (
    '  File "/x/save.py", line 8, in save\n    state = averaged.state_dict()\n'
    '  File "/x/torch/distributed/fsdp/_state_dict_utils.py", line 3, in {}\n    x = y\n'
)
PUTS_TOGETHER = ("_common_unshard_pre_state_dict_hook", "_common_summon_pre_state_dict_hook")
OTHER_HOOKS = (
    "_full_post_state_dict_hook",
    "_gather_state_dict",
    "_full_optim_state_dict",
    "_local_pre_state_dict_hook",
)
WITH_A_UNIT = [*((name, True) for name in PUTS_TOGETHER), *((name, False) for name in OTHER_HOOKS)]


@pytest.mark.parametrize(("hook", "whole"), WITH_A_UNIT)
def test_a_sharded_state_needs_each_unit_whole_too(hook: str, whole: bool) -> None:
    log = "torchrun --nproc_per_node 8 fit.py\n" + SAVES.format(hook) + REFUSED + cuda(tried="26.00 GiB")
    first = decide(crashes_of(log)[0]).answers[0]
    assert first.cause.id == "checkpoint-spike"
    assert ("shard-states" in first.finding.knobs) is whole
    chosen, _ = advise(log, "sharded-checkpoint", "mixed-precision", "shard-states", cause="checkpoint-spike")
    assert ("sharded-checkpoint" in chosen) is not whole
    assert ("mixed-precision" in chosen) is not whole
    assert ("shard-states" in chosen) is whole
    if whole:
        assert chosen["shard-states"].snippet == "auto_wrap_policy=size_based_auto_wrap_policy"
        assert chosen["shard-states"].derivation == "26.00 GiB requested: the parameters of one unit"
