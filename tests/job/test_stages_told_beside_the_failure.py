"""Stages that a logger's prefix, a server's handler, a line above, a section's title or the cause itself tells."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.98 GiB. GPU 0 has a total capacity of 22.07 GiB"
LOGURU = "2031-01-02 03:04:05.678 | ERROR    | {} - Error " + OOM
BARE = "RuntimeError: out of memory"
SLURM = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=77123.batch. Some of the step tasks have been OOM Killed."
)
KILLED = (
    "[2031-01-02 03:04:05,678] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: -9) "
    "local_rank: 1 (pid: 811) of binary: /opt/venv/bin/python"
)
ORT = (
    "/onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:376 void* onnxruntime::BFCArena::AllocateRawInternal("
    "size_t, bool) Failed to allocate memory for requested buffer of size 2147483648"
)
NODE = (
    "RuntimeException: [ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running Conv "
    "node. Name:'/stem/conv/Conv' Status Message:"
)
SCRATCH = "ggml_new_tensor_impl: not enough space in the {} memory pool (needed 271388624, available 268435456)"
MKL = "RuntimeError: mkl_malloc: failed to allocate memory"
NCCL = "node7:811:930 [0] include/alloc.h:102 NCCL WARN Cuda failure 'out of memory'\n{}"


def trace(*frames: str, ends: str = OOM) -> str:
    """A traceback of these frames, "file function code"."""
    parts = (frame.split(" ", 2) for frame in frames)
    heads = [
        f'  File "{file}", line 7, in {function}' + (f"\n    {code[0]}" if code else "")
        for file, function, *code in parts
    ]
    return "\n".join(["Traceback (most recent call last):", *heads, ends])


FLASK = ("/opt/venv/lib/python3.10/site-packages/flask/app.py full_dispatch_request rv = self.dispatch_request()",)
START = ("/opt/venv/lib/python3.11/site-packages/starlette/routing.py lifespan async with self.lifespan_context(app):",)
ROUTE = ("/opt/venv/lib/python3.11/site-packages/starlette/routing.py app response = await f(request)",)
SCENE = "/srv/splats/scene/__init__.py __init__ self.gaussians.create_from_pcd(info.points, extent)"
POINTS = "/srv/splats/scene/gaussian_model.py create_from_pcd d = distCUDA2(torch.from_numpy(points).float().cuda())"

# torchrun's report below, on the first rank that failed
REPORT = (
    OOM
    + "\n\nRoot Cause (first observed failure):\n[0]:\n  rank      : 4 (local_rank: 4)\n  {0}Traceback (most recent "
    'call last):\n    File "/srv/fit.py", line 612, in fit\n    File "/srv/fit.py", line 51, in {1}\n'
)

# pytest's summary below, and a frame as people quote it
SUMMARY = (
    OOM + "\nFAILED tests/test_fleet.py::test_pair - ray.exceptions.RayTaskError(OutOfMemoryError): ray::{}() (pid=7)"
)
PLACED = "{}\n" + OOM

STAGES = (
    (SUMMARY.format("ShardWorker.init_model"), "model_load"),
    (SUMMARY.format("ShardWorker.save_checkpoint"), "checkpoint_save"),
    (SUMMARY.format("ShardWorker.tidy"), "unknown"),
    (PLACED.format("save_checkpoint at trainer.py:310"), "checkpoint_save"),
    (PLACED.format("  load_checkpoint (fleet/trainer.py:88)"), "checkpoint_load"),
    (PLACED.format("in Trainer.training_step() at /srv/fleet/trainer.py:12"), "forward"),
    (PLACED.format("prealloc_symmetric_memory_pool at model_runner.py:12"), "engine_init"),
    # prose, a place alone, another's name
    (PLACED.format("Error at save_checkpoint.py:310"), "unknown"),
    (PLACED.format("see save_checkpoint at trainer.py, line 310"), "unknown"),
    (PLACED.format("breakpoint at load_checkpoint.py:88"), "unknown"),
    (REPORT.format("traceback : ", "training_step"), "forward"),
    (REPORT.format("traceback : ", "save_checkpoint"), "checkpoint_save"),
    (REPORT.format("traceback : ", "tidy"), "unknown"),
    (REPORT.format("another's: ", "save_checkpoint"), "unknown"),
    # the function that logged the message, and no file that did
    (LOGURU.format("tasks.registry:register_all:302"), "unknown"),
    (LOGURU.format("eval_suite.models.vision:tidy_up:302"), "unknown"),
    (LOGURU.format("eval_suite.models.vision:generate_until:302"), "eval"),
    (LOGURU.format("speech.worker:transcribe:41"), "serving"),
    (LOGURU.format("trainer.core:save_checkpoint:41"), "checkpoint_save"),
    # a table of metrics is indented, as source is
    ("    Train time/total: 0.7112\n" + OOM, "unknown"),
    ("    loss/alpha = 0.7112\n" + OOM, "unknown"),
    ('    "loss": 3,\n' + OOM, "unknown"),
    ("    see https://tracker/loss/3\n" + OOM, "unknown"),
    ("    Train loss/train/total: 7.7112\n" + OOM, "forward"),
    ("Loss/train: 7.7112\n" + OOM, "forward"),
    # what a program of pictures says above and below
    (">> Image generation requested\n" + OOM, "unknown"),
    (">> Setting Sampler to k_lms\n" + OOM, "serving"),
    (OOM + "\n\n>> Could not generate image.", "serving"),
    # a server's handler, where nothing that it called tells more, and not its start
    (trace(*START, "/srv/rank/main.py fill table = lookup(names)"), "unknown"),
    (trace("/srv/rank/flask_app.py full_dispatch_request table = lookup(names)"), "unknown"),
    (trace(*ROUTE, "/srv/rank/main.py rank self.net = AutoModel.from_pretrained(name)"), "model_load"),
    (trace(*ROUTE, "/srv/rank/main.py rank loss.backward()"), "backward"),
    ("epoch: 3 loss: 0.71\n" + trace(*FLASK, "/srv/rank/main.py rank table = lookup(names)"), "forward"),
    (trace(*ROUTE, "/srv/rank/main.py rank table = lookup(names)"), "serving"),
    (trace(*FLASK, "/srv/rank/main.py rank table = lookup(names)"), "serving"),
    (SCRATCH.format("context's") + "\nERROR:app:Exception on the way to /api/ask", "unknown"),
    (SCRATCH.format("context's") + "\nERROR:app:Exception on /api/ask [POST]", "serving"),
    (SCRATCH.format("scratch"), "serving"),
    ("slot launch_slot_: id  0 | task 3 | processing task\n" + OOM, "serving"),
    (trace("/srv/imgbot/worker.py handle_job pipe = load_pipe(name)"), "unknown"),
    (trace("/srv/imgbot/worker.py handle_job image = pipe(prompt, steps=50).images[0]"), "serving"),
    # a node of a graph that is named above the refusal, and not further above
    (f"{NODE}\nretrying with a smaller arena\n{ORT}", "unknown"),
    (f"{NODE}\n{ORT}", "forward"),
    # a scene's pictures and points are data
    (trace("/srv/splats/train.py training scene = Scene(dataset, gaussians)", SCENE, POINTS), "data_load"),
    (trace("/srv/splats/scene/cameras.py __init__ self.image = image.to(self.data_device)"), "data_load"),
    (trace("/srv/splats/scene/network.py __init__ self.net = Net().to(device)"), "model_load"),
    # a frame's folder is no progress
    (trace("/srv/gaussian-splatting/mesh_tools.py tidy x = torch.zeros(n)", ends=BARE), "unknown"),
    # sections of a start
    (f"Load average\n{KILLED}", "unknown"),
    (f"Load the model\n{KILLED}", "unknown"),
    (f"Init model failed before\n{KILLED}", "unknown"),
    (f"Model init\n{KILLED}", "unknown"),
    (f"Init model\nInit model\n{KILLED}", "model_load"),
    (f"Init AE\nInit AE\n{KILLED}", "model_load"),
    (f"Loading: settings\n{SLURM}", "unknown"),
    (f"Loading: tokenize\n---\nLoading: pos\nWith settings:\n{SLURM}", "model_load"),
    # measured, and over
    ("Inference done 5000/5000. 100%|████| 5000/5000 [00:10<00:00]\n" + OOM, "unknown"),
    ("[01/02 03:04:05 evaluator]: Inference done 1200/5000. Dataloading: 0.0010 s/iter.\n" + OOM, "eval"),
    ("   Class     Images  Instances      Box(P          R      mAP50):  12%|█  | 8/67 [00:07<00:52]\n" + OOM, "eval"),
    ("INFO [train.py:983] Sanity check -- see if any of the files are missing\n" + OOM, "unknown"),
    ("INFO [train.py:983] Sanity check -- see if any of the batches in epoch 0 would cause OOM.\n" + OOM, "forward"),
    # loaders and what they load for
    (trace("D:\\asr\\__main__.py cli", "own\\transcribe.py __init__", ends=MKL), "unknown"),
    (trace("D:\\asr\\__main__.py cli", "faster_whisper\\transcribe.py __init__", ends=MKL), "model_load"),
    (trace("/srv/see.py main step = torch.compile_model(fn)"), "unknown"),
    (trace("/srv/see.py main", "/env/openvino/runtime/ie_api.py compile_model x = compiled(net)"), "model_load"),
    (trace("/srv/fit.py main rows = matrix(X)"), "unknown"),
    (trace("/srv/fit.py main rows = xgb.QuantileDMatrix(X, y)"), "data_load"),
    (trace("/srv/cut.py predict_cases mask = self.predict_logits_from_case(x)"), "serving"),
    # a communicator that was being made
    (NCCL.format("node7:811:930 [0] NCCL INFO transport/p2p.cc:1358 -> 1"), "unknown"),
    (NCCL.format("node7:811:930 [0] NCCL INFO init.cc:1358 -> 1"), "launch"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "stage"), STAGES)
def test_stage(text: str, stage: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["incidents"][0]["job"]["doing"]["stage"] == stage


HEAP = "GGML_ASSERT: ggml.c:4031: ctx->mem_buffer != NULL"
POOL = (
    "MemoryError: std::bad_alloc: out_of_memory: RMM failure at:/include/rmm/pool_memory_resource.hpp:188: "
    "Maximum pool size exceeded"
)
DATA = (
    "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 92.2 GiB for an array with shape (4700000, 2633) and "
    "data type object"
)
LARGER = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 61.04 GiB. GPU 0 has a total capacity of 39.39 GiB "
    "of which 22.10 GiB is free. Including non-PyTorch memory, this process has 17.28 GiB memory in use. Of the "
    "allocated memory 16.40 GiB is allocated by PyTorch, and 410.20 MiB is reserved by PyTorch but unallocated."
)


@pytest.mark.parametrize(
    ("text", "cause", "stage"),
    [
        # what was found out says nothing of the stage, or the log itself does
        (POOL, "allocator-cap", "unknown"),
        (OOM, "activations", "unknown"),
        (LARGER, "activations", "unknown"),
        (trace("/srv/fit.py main loss.backward()", ends=LARGER), "activations", "backward"),
        # what has that cause was done there
        (HEAP, "host-model-load", "model_load"),
        (DATA, "dataset-in-ram", "data_load"),
    ],
)
def test_where_nothing_in_the_log_tells_the_cause_itself_may(text: str, cause: str, stage: str, tmp_path: Path) -> None:
    told = body(tmp_path, text)["diagnoses"][0]
    assert (told["cause"], told["stage"]) == (cause, stage)


# A cause of a stage of its own, where another one is told and where none is
HELD = (
    "ValueError: Externally held weights on device cuda:2 (30.5/47.4 GiB) exceed the desired GPU memory utilization "
    "(0.6, 28.44 GiB)."
)


@pytest.mark.parametrize(
    ("log", "stage"), [("AssertionError: Memory pool size is too small", "kv_cache_init"), (HELD, "engine_init")]
)
def test_a_cause_tells_its_stage_where_nothing_else_does(log: str, stage: str, tmp_path: Path) -> None:
    first = body(tmp_path, log)["diagnoses"][0]
    assert (first["cause"], first["stage"]) == ("kv-cache-no-room", stage)


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("pyxis: importing docker image: registry/app:1", "launch"),
        ("pyxis:     [INFO] Creating squashfs filesystem...", "launch"),
        ("loading the dataset readings", "data_load"),
    ],
)
def test_a_container_is_made_before_the_job_starts(tmp_path: Path, line: str, stage: str) -> None:
    assert body(tmp_path, f"{line}\n{SLURM}\n")["diagnoses"][0]["stage"] == stage
