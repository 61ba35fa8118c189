"""A program that the log names is told of its own options, of its release and of what it was doing."""

from __future__ import annotations

import pytest
from remedy_logs import advise, crashes_of, cuda
from test_premises import ARRAY

from oomdoctor.causes import causes
from oomdoctor.signs.arrays import little_too_large, told_by_a_compiler

FRAME = 'Traceback (most recent call last):\n  File "{}", line 9, in {}\n    {}\n'
REFUSED_RAM = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate 7516192768 bytes. Error code 12 (Cannot allocate memory)\n"
)


@pytest.mark.parametrize(
    ("named", "knob", "line"),
    [
        ("docker run ghcr.io/predibase/lorax:0.9 --model-id m/m\n", "quantize-weights", "--quantize bitsandbytes-nf4"),
        ("text-generation-launcher --model-id m/m\n", "quantize-weights", "--quantize fp8"),
        ("python inference_propainter.py -i a.mp4\n", "smaller-input", "--resize_ratio 0.5"),
        (FRAME.format("/w/zipvoice/models/x.py", "x", "y = x"), "smaller-microbatch", "--max-duration 100"),
        (FRAME.format("/w/f5_tts/model/modules.py", "x", "y = x"), "smaller-microbatch",
         "datasets.batch_size_per_gpu=19200"),
        ("python f5_tts/train/finetune_cli.py\n" + FRAME.format("/w/f5_tts/model/modules.py", "x", "y = x"),
         "smaller-microbatch", "--batch_size_per_gpu 1600"),
        (FRAME.format("/w/f5_tts/model/modules.py", "x", "y = F.scaled_dot_product_attention(q, k, v, attn_mask=m)"),
         "memory-efficient-attention", "model.arch.attn_backend=flash_attn"),
        (FRAME.format("/w/icefall/utils.py", "forward", "y = x"), "smaller-microbatch", "--max-duration 100"),
        (FRAME.format("/w/hyvideo/inference.py", "predict", "y = x"), "offload-parameters", "--use-cpu-offload"),
        (FRAME.format("/w/wan/modules/model.py", "forward", "y = x"), "smaller-input", "--size 832*480"),
        (FRAME.format("/w/scene/gaussian_model.py", "x", "y = x"), "smaller-buffers", "--data_device cpu"),
        (FRAME.format("/env/lm_eval/models/x.py", "x", "y = x"), "smaller-microbatch", "--batch_size 1"),
        (FRAME.format("/env/fastchat/model/x.py", "x", "y = x"), "quantize-weights", "--load-8bit"),
        ("04:05 ERROR Processing: step=base args={}\n", "tiled-processing", '"diffusers_vae_tiling": true'),
        (FRAME.format("/w/modules/processing_diffusers.py", "x", "y = x"), "offload-parameters", "--medvram"),
        (FRAME.format("/w/library/sdxl_original_unet.py", "x", "y = x"), "memory-efficient-attention", "--sdpa"),
        (FRAME.format("/w/mmseg/models/decode_head.py", "x", "y = x"), "smaller-microbatch",
         "train_dataloader.batch_size=1"),
        (FRAME.format("/w/mmseg/models/decode_head.py", "forward_train", "y = x"), "smaller-microbatch",
         "data.samples_per_gpu=1"),
        (FRAME.format("/env/mmcv/runner/iter_based_runner.py", "run", "y = x"), "smaller-microbatch",
         "data.samples_per_gpu=1"),
        (FRAME.format("/w/mmseg/models/decode_head.py", "x", "y = x"), "smaller-input", "crop_size = (512, 512)"),
    ],
    ids=lambda value: value if " " in value and "\n" not in value else "",
)  # fmt: skip
def test_a_line_of_the_programs_own(named: str, knob: str, line: str) -> None:
    chosen, _ = advise(named + cuda(), knob, cause="activations")
    assert chosen[knob].snippet == line


def test_a_detector_crops_nothing() -> None:
    chosen, _ = advise(
        FRAME.format("/w/mmdet/models/x.py", "x", "y = x") + cuda(), "smaller-input", cause="activations"
    )
    assert chosen["smaller-input"].snippet is None


STEPS = "Steps:   0%|          | 0/77 [00:00<?, ?it/s]\n"
UNET = '  File "/env/site-packages/diffusers/models/unet.py", line 9, in forward\n    y = self.block(x)\n'


@pytest.mark.parametrize(
    ("above", "trained"),
    [
        ("", False),
        ("python draw.py\n", False),
        (STEPS, True),
        (FRAME.format("/env/bin/accelerate", "<module>", "sys.exit(main())"), True),
        ('  File "/env/site-packages/accelerate/hooks.py", line 9, in new_forward\n    y = module(x)\n', False),
    ],
)
def test_what_accelerate_launches_is_a_training_and_no_pipeline(above: str, trained: bool) -> None:
    knobs = ("gradient-checkpointing", "low-memory-optimizer", "mixed-precision", "offload-parameters")
    chosen, _ = advise(above + UNET + cuda(), *knobs, cause="activations")
    lines = {remedy.snippet for remedy in chosen.values()}
    learns = {"--gradient_checkpointing", "--use_8bit_adam"}
    assert learns <= lines if trained else not learns & lines
    draws = crashes_of(above + UNET + cuda())[0].job.task == "inference"
    assert draws is not trained


@pytest.mark.parametrize(
    ("above", "line"),
    [(STEPS, "--use_8bit_adam"), ("", "optimizer = bitsandbytes.optim.AdamW8bit(optimizer.param_groups)")],
)
def test_a_flag_of_an_example_goes_before_a_line_of_code(above: str, line: str) -> None:
    steps = FRAME.format("/w/tune.py", "main", "optimizer.step()")
    schedules = '  File "/env/site-packages/diffusers/optimization.py", line 9, in step\n    return step()\n'
    adam = '  File "/env/site-packages/torch/optim/adam.py", line 9, in step\n    s = torch.zeros_like(p)\n'
    log = above + steps + schedules + adam + cuda()
    chosen, _ = advise(log, "low-memory-optimizer", cause="optimizer-states")
    assert chosen["low-memory-optimizer"].snippet == line


def test_nobody_calls_a_pipeline_that_is_trained() -> None:
    loads = FRAME.format("/w/tune.py", "main", "unet.to(accelerator.device)")
    knobs = ("offload-parameters", "tiled-processing", "quantize-weights", "memory-efficient-attention")
    draws = FRAME.format("/w/draw.py", "main", "image = pipe(prompt)")
    for above, called in ((loads, False), (STEPS, False), (draws, True)):
        chosen, _ = advise(above + UNET + cuda(), *knobs, cause="activations")
        assert any((one.snippet or "").startswith("pipe.") for one in chosen.values()) is called


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("FAILED: caffe2/CMakeFiles/torch_cpu.dir/__/aten/src/ATen/native/Sum.cpp.o\n", "export MAX_JOBS=1"),
        ("Failed to run 'bash ../tools/build_pytorch_libs.sh'\n", "export MAX_JOBS=1"),
        ("FAILED: src/CMakeFiles/solver.dir/sum.cpp.o\n", "ninja -j 1"),
    ],
)
def test_pytorchs_own_build_reads_its_number_of_jobs(line: str, option: str) -> None:
    log = (
        f"{line}c++: fatal error: Killed signal terminated program cc1plus\nninja: build stopped: subcommand failed.\n"
    )
    chosen, _ = advise(log, "fewer-build-jobs", cause="build-parallelism")
    assert chosen["fewer-build-jobs"].snippet == option


@pytest.mark.parametrize(
    ("frame", "option"),
    [
        ("/env/xinference/model/llm/vllm/core.py", "--max_num_seqs"),
        ("/env/vllm/entrypoints/cli/serve.py", "--max-num-seqs"),
    ],
)
def test_what_starts_an_engine_has_the_options(frame: str, option: str) -> None:
    inner = FRAME.format("/env/vllm/worker/model_runner.py", "profile_run", "self.execute_model(x)")
    chosen, _ = advise(FRAME.format(frame, "load", "x()") + inner + cuda(), "fewer-sequences", cause="activations")
    assert chosen["fewer-sequences"].setting == option


@pytest.mark.parametrize(
    ("file", "share"),
    [("/app/alphafold3/model/model.py", "XLA_CLIENT_MEM_FRACTION=3.2"),
     ("/app/alphafold/model/model.py", "XLA_PYTHON_CLIENT_MEM_FRACTION=4.0")],
)  # fmt: skip
def test_each_alphafold_spills_by_its_own_variables(file: str, share: str) -> None:
    refused = (
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9000000000 "
    )
    log = FRAME.format(file, "predict", "y = self.apply(x)") + refused + "bytes.\n"
    chosen, _ = advise(log, "offload-parameters", cause="activations")
    assert share in (chosen["offload-parameters"].snippet or "")


def test_a_video_is_kept_on_the_host_where_its_frames_are_read() -> None:
    reads = FRAME.format("/w/sam2/utils/misc.py", "load_video_frames", "image = image.cuda()")
    draws = FRAME.format("/w/sam2/modeling/sam/transformer.py", "forward", "y = x")
    chosen, _ = advise(reads + cuda(), "smaller-buffers", cause="activations")
    assert "offload_video_to_cpu=True" in (chosen["smaller-buffers"].snippet or "")
    assert "smaller-buffers" not in advise(draws + cuda(), "smaller-buffers", cause="activations")[0]
    assert (
        "smaller-buffers"
        not in advise(FRAME.format("/w/run.py", "x", "y = x") + cuda(), "smaller-buffers", cause="activations")[0]
    )
    assert "smaller-buffers" not in advise(reads + REFUSED_RAM, "smaller-buffers")[0]  # there it would go


# --- engines that are built

TRT = (
    "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, s): out of memory (/app/tllmBuffers.h:112)\n"
)
BUILD = "python3 build.py --model_dir /m/m --max_batch_size 24 --max_num_tokens 3000\n"


@pytest.mark.parametrize(
    ("launched", "first"), [("python3 launch_triton_server.py\n", True), ("trtllm-serve m/m\n", False)]
)
def test_triton_has_its_share_in_a_file(launched: str, first: bool) -> None:
    chosen, _ = advise(launched + TRT, "lower-engine-reservation", cause="vllm-utilization-too-high")
    snippet = chosen["lower-engine-reservation"].snippet or ""
    assert ("config.pbtxt kv_cache_free_gpu_mem_fraction:0.7" in snippet) == first
    assert snippet.startswith("python3 tools/fill_template.py" if first else "--kv_cache_free_gpu_memory_fraction")


FILLED = "python3 tools/fill_template.py -i r/config.pbtxt max_queue_size:8,kv_cache_free_gpu_mem_fraction:{}\n"
SEQUENCE = (
    "[TensorRT-LLM][ERROR] maxTokensInPagedKvCache must be large enough to process at least 1 sequence to completion "
    "(i.e. must be larger than beam_width * tokensPerBlock * maxBlocksPerSeq)\n"
)


@pytest.mark.parametrize(("now", "then"), [(0.35, 0.7), (0.7, 0.75), (0.9, 0.95), (0.95, None)])
def test_a_share_of_the_rest_is_raised_from_what_is_set(now: float, then: float | None) -> None:
    log = f"{FILLED.format(now)}tritonserver --model-repository r\n{SEQUENCE}"
    chosen, rejected = advise(log, "raise-engine-reservation", cause="max-model-len-too-long")
    if then is None:
        assert "raise-engine-reservation" in rejected
    else:
        raised = chosen["raise-engine-reservation"]
        assert (raised.setting, raised.current, raised.suggested) == ("kv_cache_free_gpu_mem_fraction", now, then)
        assert f"kv_cache_free_gpu_mem_fraction:{then}" in (raised.snippet or "")


@pytest.mark.parametrize(("launched", "lines"), [
    (BUILD, ("--use_weight_only --weight_only_precision int8", "--world_size 2 --tp_size 2")),
    ("trtllm-serve m/m\n", (None, "--tp_size 2")),
])  # fmt: skip
def test_what_belongs_together_is_one_line(launched: str, lines: tuple[str | None, str]) -> None:
    chosen, _ = advise(launched + TRT, "quantize-weights", "tensor-parallel", cause="model-does-not-fit")
    assert (chosen["quantize-weights"].snippet, chosen["tensor-parallel"].snippet) == lines


BUILT = '  File "{path}", line 84, in build_engine\n    return build(model)\n'
FOR_SERVING = ("--max_seq_len", 1024, None)


@pytest.mark.parametrize(
    ("above", "told"),
    [
        ("python3 build.py --model_dir /m/m\n", ("--max_input_len", None, "--use_weight_only")),
        (BUILT.format(path="/srv/examples/llama/build.py"), ("--max_input_len", None, "--use_weight_only")),
        ("trtllm-serve m/m\n", FOR_SERVING),
        (BUILT.format(path="/env/lib/python3.12/site-packages/tensorrt_llm/commands/build.py"), FOR_SERVING),
        (BUILT.format(path="/env/lib/python3.12/site-packages/tensorrt_llm/builder.py"), FOR_SERVING),
    ],
)
def test_the_scripts_that_built_engines_have_options_of_their_own(
    above: str, told: tuple[str, int | None, str | None]
) -> None:
    """Nor do they begin with what trtllm-serve begins with."""
    knobs = ("shorter-context", "fewer-sequences", "quantize-weights")
    context, batch, weights = (advise(above + TRT, *knobs, cause="model-does-not-fit")[0][knob] for knob in knobs)
    line = (weights.snippet or "").split(" ", maxsplit=1)[0] or None
    assert (context.setting, batch.suggested, line) == told
    assert batch.setting == "--max_batch_size"


def test_no_model_that_does_not_fit_begins_with_its_batch() -> None:
    cause = next(one for one in causes() if one.id == "model-does-not-fit")
    tables = (cause.knobs, *(knobs for _, knobs in cause.knobs_where), *(row.knobs for row in cause.signs if row.knobs))
    first = {knobs[0] for knobs in tables}
    assert not first & {"smaller-microbatch", "smaller-prefill"}


# --- what it was doing

LOADS = FRAME.format("/w/train.py", "resume", "state = torch.load('a.ckpt')")
SAVES = FRAME.format("/w/train.py", "save_checkpoint", "torch.save(state, 'a.ckpt')")


@pytest.mark.parametrize(("trace", "given"), [(LOADS, False), (SAVES, True)])
def test_who_loads_is_not_told_how_to_save(trace: str, given: bool) -> None:
    chosen, _ = advise(trace + REFUSED_RAM, "sharded-checkpoint", cause="checkpoint-spike")
    assert ("sharded-checkpoint" in chosen) == given


@pytest.mark.parametrize(
    ("lines", "mapped"),
    [
        ("torch 2.9.0\nloading checkpoint 'runs/last.pt'", True),
        ("torch 2.9.0\nresuming from runs/epoch=3.ckpt", True),
        ("+ python fit.py --resume runs/last.pth\ntorch 2.9.0\nloading the checkpoint", True),
        ("torch 2.9.0\nloading checkpoint pytorch_model.bin", False),
        ("torch 2.9.0\nloading checkpoint last.pt and pytorch_model.bin", False),
        ("torch 2.9.0\nloading checkpoint runs/last", False),
        ("torch 2.9.0\nloading checkpoint last.pt.gz", False),
        ("torch 2.0.1\nloading checkpoint 'runs/last.pt'", False),  # cannot map it
    ],
)
def test_a_file_of_torch_save_is_mapped_by_torch_load(lines: str, mapped: bool) -> None:
    killed = "run.sh: line 2:    12 Killed                  python fit.py\n"
    found = advise(f"{lines}\n{killed}", "low-memory-loading", cause="checkpoint-spike")[0]["low-memory-loading"]
    assert found.action.startswith("Map the checkpoint into memory") is mapped
    assert ("safetensors" in found.action) is not mapped
    if mapped:
        assert found.snippet == 'state = torch.load(path, map_location="cpu", mmap=True)'


@pytest.mark.parametrize(
    ("frame", "given"),
    [
        (("/w/scene/gaussian_model.py", "create_from_pcd", "dist2 = distCUDA2(points)"), False),
        (("/w/scene/gaussian_model.py", "densify_and_split", "new = x.repeat(2, 1)"), True),
    ],
)
def test_nothing_grows_while_the_scene_is_made(frame: tuple[str, str, str], given: bool) -> None:
    chosen, _ = advise(FRAME.format(*frame) + cuda(), "cap-primitives", "gradient-checkpointing", "offload-activations")
    assert ("cap-primitives" in chosen) == given
    assert not {"gradient-checkpointing", "offload-activations"} & chosen.keys()  # it has no option for either


@pytest.mark.parametrize(
    ("named", "given"),
    [
        (FRAME.format("/w/yolov7/models/yolo.py", "forward", "y = x"), False),
        (FRAME.format("/w/sd-scripts/library/train_util.py", "x", "y = x"), True),
        (FRAME.format("/w/mine.py", "forward", "y = x"), True),
    ],
)
def test_who_drives_a_program_recomputes_by_an_option(named: str, given: bool) -> None:
    assert ("gradient-checkpointing" in advise(named + cuda(), "gradient-checkpointing")[0]) == given


@pytest.mark.parametrize(
    ("line", "given"),
    [("out = mask * fake + (1 - mask) * real", False), ('out = np.load("a.npy")', True)],
)
def test_a_file_is_mapped_where_one_is_read(line: str, given: bool) -> None:
    chosen, _ = advise(FRAME.format("/w/mine.py", "blend", line) + ARRAY, "stream-data", cause="dataset-in-ram")
    assert ((chosen["stream-data"].snippet or "") == 'np.load(path, mmap_mode="r")') == given


FULL = "update_slots: failed to find free space in the KV cache, retrying with smaller n_batch = 1\n"
FULL_CONTEXT = "[1700000000] " + FULL + "[1700000000] update_slots : failed to decode the batch, n_batch = 1, ret = 1\n"


def test_a_context_that_is_full_is_made_longer() -> None:
    knobs = ("shorter-context", "fewer-sequences")
    bare, _ = advise(FULL_CONTEXT, *knobs, cause="kv-pool-exhausted")
    assert "longer context (-c)" in bare["shorter-context"].action
    assert "fewer-sequences" not in bare  # one, or as many as share it
    stated, _ = advise("llama-server -m m.gguf --ctx-size 6000\n" + FULL_CONTEXT, *knobs, cause="kv-pool-exhausted")
    assert stated["shorter-context"].suggested == 12000
    assert stated["shorter-context"].derivation == "2 x 6000 = 12000"
    assert stated["shorter-context"].snippet == "--ctx-size 12000"


# --- limits that an allocator sets itself

RMM = (
    "MemoryError: std::bad_alloc: RMM failure at:/w/rmm/mr/device/pool_memory_resource.hpp:179: "
    "Maximum pool size exceeded\n"
)


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (
            "Error: vector memory exhausted (limit reached?)\n",
            "R_MAX_VSIZE=32Gb   # a line of ~/.Renviron; then restart R",
        ),
        (
            "org.apache.spark.SparkException: Job aborted\njava.lang.OutOfMemoryError: GC overhead limit exceeded\n",
            "spark-submit --executor-memory=2g",
        ),
        ("java.lang.OutOfMemoryError: Java heap space\n", "java -XX:MaxRAMPercentage=75"),
        ("FATAL ERROR: JavaScript heap out of memory\n", "export NODE_OPTIONS=--max-old-space-size=8192"),
    ],
)
def test_a_heap_that_is_full_is_raised_by_its_own_option(log: str, line: str) -> None:
    chosen, _ = advise(log, "raise-allocator-cap", cause="allocator-cap")
    assert chosen["raise-allocator-cap"].snippet == line


@pytest.mark.parametrize("log", ["a.out: Heap exhausted;\n", "Exhausted heap space, trying to allocate 4096 bytes.\n"])
def test_no_option_is_made_up(log: str) -> None:
    chosen, rejected = advise(log, "raise-allocator-cap", cause="allocator-cap")
    assert not chosen and not rejected


def test_a_pool_of_rmm_has_no_batch() -> None:
    chosen, _ = advise(RMM, "raise-allocator-cap", "smaller-microbatch", "free-the-gpu", cause="allocator-cap")
    assert [*chosen] == ["raise-allocator-cap", "free-the-gpu"]
    assert "maximum_pool_size" in chosen["raise-allocator-cap"].action


LOWERED = (
    "duckdb.OutOfMemoryException: Out of Memory Error: Failed to change memory limit to {}: could not free up enough "
    "memory for the new limit\n"
)


def test_a_limit_that_is_too_low_to_be_set_is_not_doubled() -> None:
    chosen, _ = advise(LOWERED.format(300000000), "raise-allocator-cap", cause="allocator-cap")
    remedy = chosen["raise-allocator-cap"]
    assert remedy.suggested is None
    assert "before data is in memory" in remedy.action
    assert "duckdb_memory()" in (remedy.snippet or "")


def test_modin_starts_its_own_cluster() -> None:
    log = "UserWarning: The Dask Engine for Modin is experimental.\n" * 1 + (
        "distributed.nanny - WARNING - Worker exceeded 95% memory budget. Restarting\n"
    )
    chosen, _ = advise(log, "fewer-workers", "smaller-partitions", "spill-to-disk", cause="allocator-cap")
    assert chosen["fewer-workers"].snippet == "export MODIN_CPUS=1"
    assert not any("dask" in (one.snippet or "") for one in chosen.values())


# --- a program that is a little too large

HBM = (
    "Compilation failure: Ran out of memory in memory space hbm. Used {}G of 16.00G hbm. Exceeded hbm capacity by "
    "{}G.\n"
)


@pytest.mark.parametrize(("used", "little"), [("16.90", True), ("17.61", False), ("30.00", False)])
def test_what_is_missing_of_a_program_may_be_of_its_batch(used: str, little: bool) -> None:
    log = HBM.format(used, f"{float(used) - 16:.2f}")
    crash = crashes_of(log)[0]
    assert (little_too_large(crash) is not None) == little
    chosen, _ = advise(log, "smaller-microbatch", cause="model-does-not-fit")
    assert ((chosen["smaller-microbatch"].derivation or "").endswith("too much")) == little


@pytest.mark.parametrize(("named", "bare"), [("", True), ("jax 0.4.30\njaxlib 0.4.30\n", False)])
def test_no_line_of_jax_where_only_a_compiler_speaks(named: str, bare: bool) -> None:
    log = named + HBM.format("16.90", "0.90")
    assert told_by_a_compiler(crashes_of(log)[0]) == bare
    chosen, _ = advise(log, "mixed-precision", "gradient-checkpointing", cause="model-does-not-fit")
    assert any("jax" in (one.snippet or "") for one in chosen.values()) != bare


# --- systems

WINDOWS = FRAME.format(r"D:\tools\run.py", "main", "y = x") + "MemoryError\n"
LINUX = FRAME.format("/tools/run.py", "main", "y = x") + "MemoryError\n"


@pytest.mark.parametrize(("log", "given"), [(WINDOWS, False), (LINUX, True)])
def test_there_is_no_kernel_log_on_windows(log: str, given: bool) -> None:
    assert ("collect-evidence" in advise(log, "collect-evidence", cause="host-memory-exhausted")[0]) == given


def test_windows_separates_folders_its_own_way() -> None:
    spawns = '  File "D:\\w\\python\\lib\\multiprocessing\\spawn.py", line 9, in prepare\n    x\n'
    log = (
        FRAME.format(r"D:\w\yolov5\train.py", "<module>", "import torch")
        + spawns
        + "OSError: [WinError 1455] The page\n"
    )
    chosen, _ = advise(log, "fewer-workers", cause="address-space-limit")
    assert chosen["fewer-workers"].snippet == "--workers 4"


LSF = "{}TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\nResource usage summary:\n    Max Memory :   {} MB\n    Total Requested Memory :   8000.00 MB\n"  # noqa: E501


@pytest.mark.parametrize(("peak", "then", "told"), [("9600", "12G", "ended at"), ("4000", "10G", "unknown")])
def test_what_was_held_is_raised_and_not_what_was_allowed(peak: str, then: str, told: str) -> None:
    chosen, _ = advise(LSF.format("", peak), "raise-container-limit", cause="container-limit")
    assert chosen["raise-container-limit"].suggested == then
    assert any(told in one for one in chosen["raise-container-limit"].assumes)


@pytest.mark.parametrize(("asked", "lines"), [("", 1), ('bsub -M 8000 -R "rusage[mem=8000]" ./run\n', 2)])
def test_what_is_reserved_is_raised_beside_the_limit(asked: str, lines: int) -> None:
    chosen, _ = advise(LSF.format(asked, "9600"), "raise-container-limit", cause="container-limit")
    assert len((chosen["raise-container-limit"].snippet or "").splitlines()) == lines


SUM = "ValueError: Not enough GPUs available. Requested 24 GPUs, but only 16 are available in the cluster.\n"
ONE = "Error: No available node types can fulfill resource request {'GPU': 24.0}. Add suitable node types\n"


@pytest.mark.parametrize(("log", "sums"), [(SUM, True), (ONE, False)])
def test_a_program_that_compares_sums_takes_any_node(log: str, sums: bool) -> None:
    cluster = "ray start --head --num-gpus=16\n"
    chosen, _ = advise(cluster + log, "add-nodes", cause="ray-unschedulable")
    assert ("8 GPU more in all" in chosen["add-nodes"].action) == sums


def test_a_library_beside_a_pool_of_rmm_is_given_room() -> None:
    failed = "RuntimeError: cuSOLVER error: Reason=7:CUSOLVER_STATUS_INTERNAL_ERROR\n"
    for line, pooled in (("pool_allocator=True, initial_pool_size=2**33", True), ("devices=0", False)):
        log = f"rmm.reinitialize({line})\n{failed}"
        chosen, _ = advise(log, "cap-preallocation", cause="non-torch-memory")
        cap = chosen.get("cap-preallocation")
        assert (cap is not None and cap.snippet == "rmm.reinitialize(pool_allocator=False)") == pooled
        assert cap is None or not pooled or "instead of a pool" in cap.action


@pytest.mark.parametrize(("total", "little"), [("512.00 MiB", True), ("1023.00 MiB", True), ("1.00 GiB", False)])
def test_a_gpu_for_which_the_bios_sets_little_aside_gets_more(total: str, little: bool) -> None:
    log = (
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 48.00 MiB. GPU 0 has a total capacity of "
        f"{total} of which 0 bytes is free. Of the allocated memory 180.00 MiB is allocated by PyTorch, and 90.00 MiB "
        "is reserved by PyTorch but unallocated.\n"
    )
    chosen, _ = advise(log, "raise-allocator-cap", cause="model-does-not-fit")
    cap = chosen.get("raise-allocator-cap")
    assert (cap is not None and "BIOS" in cap.action) == little
