"""An option is written as the program at work has it; where it is not known to have one, the idea alone."""

from __future__ import annotations

import pytest
from remedy_logs import HOG, OPENRLHF, advise, crashes_of, cuda, kill

from oomdoctor.causes.vllm_utilization_too_high import CAUSE as VLLM_SHARE
from oomdoctor.decision.judgement import Finding, judgement_of
from oomdoctor.remedies import ray_workers
from oomdoctor.signs.commands import RAYLETS_OWN

BATCH, WORKERS, DATA, BF16 = "smaller-microbatch", "fewer-workers", "stream-data", "mixed-precision"
STEP = (
    "Traceback (most recent call last):\n"
    '  File "job.py", line 212, in train\n    {code}\n'
    '  File "/env/lib/python3.11/site-packages/torch/{file}", line 10, in step\n    pass\n'
)
OOM = "torch.OutOfMemoryError: " + cuda()


# batches


@pytest.mark.parametrize(
    ("above", "cost"),
    [
        ("epoch 3 done", "smaller global batch without more accumulation"),
        ("python train_net.py", "smaller global batch without more accumulation"),
        ("POST /upscale 200", "lower throughput"),
        ("step 3 of 20", "lower throughput"),
        ("trained model loaded from /m", "lower throughput"),
    ],
)
def test_a_global_batch_is_spoken_of_where_something_is_trained(above: str, cost: str) -> None:
    assert advise(f"{above}\n{OOM}", BATCH)[0][BATCH].cost == cost


@pytest.mark.parametrize(
    ("above", "there"), [("python draw.py", True), ("ComfyUI started", False), ("Fooocus version: 2.5.5", False)]
)
def test_a_program_that_draws_one_picture_at_a_time_has_no_batch(above: str, there: bool) -> None:
    assert (BATCH in advise(f"{above}\n{OOM}", BATCH)[0]) is there


@pytest.mark.parametrize(
    ("cause", "above", "ahead"),
    [
        ("activations", "", True),
        ("gpu-memory-exhausted", "{'loss': 1.2}", True),
        ("gpu-memory-exhausted", "", False),
        ("non-torch-memory", "{'loss': 1.2}", True),
        ("non-torch-memory", "", False),
        ("activations", "Uvicorn running on http://0.0.0.0", False),
    ],
)
def test_without_an_option_it_stands_first_only_where_batches_are_the_matter(
    cause: str, above: str, ahead: bool
) -> None:
    remedy = advise(f"{above}\n{OOM}", BATCH, cause=cause)[0][BATCH]
    assert (remedy.snippet, remedy.has_object) == (None, ahead)


# workers


def test_a_loaders_workers_are_an_option_where_a_loader_is_in_sight() -> None:
    verl = "python3 -m verl.trainer.main_ppo trainer.nnodes=1\n"
    table = kill(891.0, 937.5, "2285\t10.13\tray::AgentLoopWorker.run\n2286\t10.13\tray::AgentLoopWorker.run\n")
    assert "rollout.agent.num_workers" in str(advise(verl + table, WORKERS)[0][WORKERS].snippet)
    assert "num_workers" not in str(advise(verl + kill(891.0, 937.5, "2285\t10.13\tray::Other.run\n"), WORKERS))
    loaded = verl + table.replace("AgentLoopWorker", "DataLoader")
    assert "data.dataloader_num_workers" in str(advise(loaded, WORKERS)[0][WORKERS].snippet)


@pytest.mark.parametrize(
    ("setting", "there"),
    [("data.filter_overlong_prompts=True", True), ("data.filter_accuracy=True", False), ("data.shuffle=True", False)],
)
def test_the_workers_of_verls_length_filter(setting: str, there: bool) -> None:
    log = f"python3 -m verl.trainer.main_ppo {setting}\n" + kill(891.0, 937.5, "2285\t10.13\tray::Other.run\n")
    assert ("filter_overlong_prompts_workers" in str(advise(log, WORKERS))) is there


@pytest.mark.parametrize(
    ("row", "above", "snippet"),
    [
        ("ray::tokenize_shard", "", "ray.init(num_cpus=5)"),
        ("ray::tokenize_shard", "Started a local Ray instance.", "ray.init(num_cpus=5)"),
        ("ray::tokenize_shard", "$ ray start --head", "ray start --head --num-cpus=5"),
        ("ray::SelfPlay.continuous_self_play()", "", None),
        ("ray::SelfPlay.continuous_self_play()", "$ ray start --head", None),
        ("python worker.py", "$ ray start --head", None),
    ],
)
def test_rays_number_of_cpus_is_about_tasks(row: str, above: str, snippet: str | None) -> None:
    table = kill(95.1, 100.0, "".join(f"{pid}\t15.00\t{row}\n" for pid in range(6))).replace("LLMRayActor", "Shard")
    remedy = advise(f"{above}\n{table}", WORKERS, cause="too-many-workers")[0][WORKERS]
    assert remedy.snippet == snippet
    assert remedy.action.startswith("Run at most 5 ")


def test_of_one_task_no_number_is_known_and_it_asks_for_more_cpus() -> None:
    text = kill(95.1, 100.0, "").replace("actor ID", "task ID")
    for name in ("shard", "Shuffle [Phase 3]", "shard-merge"):
        remedy = advise(text.replace("LLMRayActor.__init__", name), WORKERS)[0][WORKERS]
        assert (remedy.action, remedy.snippet) == (
            "Run fewer Ray tasks at once: let each request more CPUs",
            "task.options(num_cpus=2).remote(...)",
        )
        assert "Ray killed tasks" not in str(remedy.assumes)


@pytest.mark.parametrize(
    "name", ["Shuffle-Glaze [Stage:3]", "ReadKiln->SplitBlocks(7)", "Map(glaze)->Write", "_deploy_ray_func"]
)
def test_tasks_that_a_data_library_starts_have_no_call_of_the_users(name: str) -> None:
    text = kill(95.1, 100.0, "").replace("actor ID", "task ID").replace("LLMRayActor.__init__", name)
    snippet = str(advise(text, WORKERS)[0][WORKERS].snippet)
    assert snippet.startswith("ray start --head --num-cpus=")


KILLED = (
    "(raylet) node_manager.cc:3069: 4 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed "
    "due to other reasons at node (ID: c0ffee, IP: 10.0.0.7) over the last time period.\n"
)


def test_workers_that_nobody_names_may_be_tasks() -> None:
    remedy = advise(KILLED, WORKERS)[0][WORKERS]
    assert remedy.snippet == "task.options(num_cpus=2).remote(...)"
    assert "Ray killed tasks" in str(remedy.assumes)
    table = kill(95.1, 100.0, "".join(f"{pid}\t15.00\tpython worker.py\n" for pid in range(6)))
    called = (
        "ray.exceptions.RayTaskError(RayOutOfMemoryError): ray::Tuner.step() (pid=7, ip=10.0.0.7)\n"
        "ray.memory_monitor.RayOutOfMemoryError: More than 95% of the memory on node n7 is used (7.4 / 7.5 GB).\n"
    )
    assert "num_cpus" not in str(advise(called, WORKERS))
    outside = advise(table.replace("LLMRayActor", "Shard") + KILLED, WORKERS, cause="too-many-workers")[0][WORKERS]
    assert "Ray tasks" not in outside.action


@pytest.mark.parametrize(
    ("log", "there"),
    [
        (kill(95.1, 100.0, "").replace("LLMRayActor", "WorkerDict"), False),
        (kill(95.1, 100.0, "").replace("LLMRayActor", "SimEnv"), True),
        ("python3 -m verl.trainer.main_ppo trainer.nnodes=1\n" + KILLED, False),
        ("python3 train.py\n" + KILLED, True),
    ],
)
def test_of_workers_that_each_gpu_has_none_is_too_many(log: str, there: bool) -> None:
    chosen = advise(log, WORKERS, cause="host-memory-exhausted")[0]
    assert (WORKERS in chosen) is there


def test_a_kill_of_rays_is_not_looked_up_in_the_kernels_log() -> None:
    for log in (KILLED, kill(95.1, 100.0, "")):
        remedy = advise(log, "collect-evidence", cause="host-memory-exhausted")[0]["collect-evidence"]
        assert "dmesg" not in str(remedy.snippet)
        assert RAYLETS_OWN in str(remedy.snippet)


@pytest.mark.parametrize(
    ("name", "snippet"),
    [
        ("ray::dask:('getitem-1f', 7)", 'df.compute(ray_remote_args={"num_cpus": 2})'),
        ("ray::dask_shard", "task.options(num_cpus=2).remote(...)"),
        ("ray::shard", "task.options(num_cpus=2).remote(...)"),
    ],
)
def test_a_task_of_dask_is_told_by_dask(name: str, snippet: str) -> None:
    rows = "".join(f"{40 + each}\t{9 + each}.00\t{name}{each}\n" for each in range(4))
    text = kill(95.1, 100.0, rows).replace("name=LLMRayActor.__init__", "name=shard").replace("actor ID", "task ID")
    text = text.replace("95.10GB / 100.00GB (0.951000)", "")
    assert advise(text, WORKERS)[0][WORKERS].snippet == snippet


@pytest.mark.parametrize(
    ("log", "given"),
    [
        ("ray::dask:('getitem-1f', 7)", {"smaller-partitions": 'df.repartition(partition_size="32MB")'}),
        ("ray::read_shards", {"stream-data": None}),
        ("ray::dask_shard", {"stream-data": None}),
    ],
)
def test_partitions_are_streamed_already(log: str, given: dict[str, str | None]) -> None:
    rows = "".join(f"{40 + each}\t15.00\t{log}\n" for each in range(6))
    table = kill(95.1, 100.0, rows).replace("LLMRayActor", "Shard")
    chosen = advise("reading data_0.parquet\n" + table, "stream-data", "smaller-partitions")[0]
    assert {knob: one.snippet for knob, one in chosen.items()} == given


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("SimEnv.__init__", "SimEnv"),
        ("pool_3:SimEnv.__init__", "SimEnv"),
        ("LLMRayActor.__init__", None),
        ("abc123WorkerDict_0:5:WorkerDict.__init__", None),
        ("main_task", None),
        ("Project-Fanout [Stage:3]", None),
    ],
)
def test_how_many_actors_there_are_says_the_program(name: str, own: str | None) -> None:
    (crash, *_) = crashes_of(kill(95.1, 100.0, "").replace("LLMRayActor.__init__", name))
    assert ray_workers.own_actor(crash) == own


# data, weights, references


def test_data_are_streamed_where_some_are_read() -> None:
    play = "".join(f"{pid}\t4.50\tray::SelfPlay.continuous_self_play()\n" for pid in (1, 2))
    reads = "".join(f"{pid}\t4.50\tray::load_shard\n" for pid in (1, 2))
    logs = (kill(12.1, 12.7, rows).replace("LLMRayActor", "Worker0") for rows in (play, reads))
    played, read = (advise(log, DATA, cause="too-many-workers")[0] for log in logs)
    assert DATA not in played
    remedy = read[DATA]
    assert remedy.action.startswith("Stream or memory-map the data instead of loading all of it")


PLASMA = "pyarrow.lib.PlasmaStoreFull: object does not fit in the plasma store\n"


def test_objects_of_a_store_are_no_files() -> None:
    assert DATA not in advise(PLASMA, DATA)[0]
    assert "ParquetFile" in str(advise("pq.read_table('part.parquet')\n" + PLASMA, DATA)[0][DATA].snippet)


@pytest.mark.parametrize(
    ("above", "words"),
    [
        ("", "without a second full copy in RAM"),
        ("[rank1]: ", "not one full copy per rank"),
        ("torchrun train.py\n", "not one full copy per rank"),
    ],
)
def test_a_copy_per_rank_needs_ranks(above: str, words: str) -> None:
    refused = (
        "RuntimeError: [enforce fail at alloc_cpu.cpp:83] . DefaultCPUAllocator: can't allocate memory: you tried "
    )
    knob = "low-memory-loading"
    remedy = advise(f"{above}{refused}to allocate 27262976 bytes. Error code 12\n", knob, cause="host-model-load")
    assert words in remedy[0][knob].action


KERNEL = (
    "Out of memory: Killed process 4711 ({}) total-vm:64000000kB, anon-rss:30000000kB, file-rss:0kB, shmem-rss:0kB\n"
)


@pytest.mark.parametrize(("name", "there"), [("python3", True), ("cellxgene", True), ("perl", False), ("java", False)])
def test_references_are_dropped_in_python(name: str, there: bool) -> None:
    chosen = advise(KERNEL.format(name), "clear-references", "low-memory-loading")[0]
    assert ("clear-references" in chosen) is there
    assert "low-memory-loading" not in chosen, "nothing shows that weights are loaded"
    assert not there or "tensors" not in chosen["clear-references"].action


# bf16


@pytest.mark.parametrize("code", ["optimizer.step()", "scaler.step(optimizer)"])
def test_for_states_the_weights_are_converted(code: str) -> None:
    log = STEP.format(code=code, file="optim/adamw.py") + OOM
    remedy = advise(log, BF16, cause="optimizer-states")[0][BF16]
    assert remedy.action.startswith("Convert the weights to bf16")
    assert remedy.snippet == "model = model.to(torch.bfloat16)"


def test_for_activations_autocast_unless_it_is_on() -> None:
    plain = advise(STEP.format(code="out = model(x)", file="nn/modules/module.py") + OOM, BF16, cause="activations")[0]
    assert "autocast" in plain[BF16].action
    assert "autocast" in str(plain[BF16].snippet)
    scaled = STEP.format(code="scaler.scale(loss).backward()", file="_tensor.py") + OOM
    chosen, rejected = advise(scaled, BF16, cause="activations")
    assert BF16 not in chosen
    assert rejected[BF16].why == "mixed precision is on already (job.py:212)"


def test_an_option_for_mixed_precision_is_none_for_the_weights() -> None:
    trainer = '  File "/env/lib/python3.11/site-packages/transformers/trainer.py", line 9, in train\n    pass\n'
    log = "Traceback (most recent call last):\n" + trainer + OOM
    assert "--bf16" in str(advise(log, BF16, cause="activations")[0][BF16].snippet)
    assert "--bf16" not in str(advise(log, BF16, cause="model-does-not-fit")[0].get(BF16))


def test_a_mixed_policy_of_keras_keeps_the_states_as_they_are() -> None:
    log = (
        "tensorflow/core/framework/op_kernel.cc:1655] OP_REQUIRES failed: Resource exhausted: OOM when allocating "
        "tensor with shape[1024,50257] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator "
        "GPU_0_bfc\n"
    )
    assert BF16 not in advise(log, BF16, cause="optimizer-states")[0]
    assert BF16 in advise(log, BF16, cause="activations")[0]


# front ends


LLAMA = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 144.00 MiB on device 4: cudaMalloc failed: out of memory\n"
    "ggml_gallocr_reserve_n: failed to allocate CUDA4 buffer of size 150995968\n"
    "llama_new_context_with_model: failed to allocate compute buffers\n"
)


@pytest.mark.parametrize(
    ("below", "prefill", "attention"),
    [
        ("", "-ub", "-fa"),
        ('  File "/env/site-packages/llama_cpp/llama.py", line 9, in __init__\n', "n_ubatch", "flash_attn=True"),
        ("    llm = LlamaCpp(\n  from langchain\n", "n_batch", 'model_kwargs={"flash_attn": True}'),
    ],
)
def test_the_arguments_of_python_and_the_flags_of_a_program(below: str, prefill: str, attention: str) -> None:
    chosen = advise(LLAMA + below, "smaller-prefill", "memory-efficient-attention", "shorter-context")[0]
    assert prefill in chosen["smaller-prefill"].action
    assert chosen["memory-efficient-attention"].snippet == attention
    assert chosen["shorter-context"].setting == ("-c" if prefill == "-ub" else "n_ctx")


FAILED = (
    "[4/85] /usr/local/cuda/bin/nvcc -c flash_bwd.cu\nFAILED: flash_bwd.o\nKilled\n"
    "ninja: build stopped: subcommand failed.\n"
)


@pytest.mark.parametrize(
    ("below", "snippet"),
    [
        ("", "ninja -j 1"),
        (
            "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.\n",
            "export MAX_JOBS=1",
        ),
        ("error: subprocess-exited-with-error: Building wheel for x (setup.py)\n", "export MAX_JOBS=1"),
    ],
)
def test_a_build_of_python_starts_ninja_itself(below: str, snippet: str) -> None:
    assert advise(FAILED + below, "fewer-build-jobs")[0]["fewer-build-jobs"].snippet == snippet


COMPILES = "g++ -c queue.cc -o {0}queue.o\ng++: fatal error: Killed signal terminated program cc1plus\n{1}"


@pytest.mark.parametrize(
    ("files", "below", "snippet"),
    [
        ("", "", None),  # nobody says who compiles: a name would be guessed
        ("src/", "FAILED: the third attempt\n", None),
        ("CMakeNotes/", "", None),
        ("src/CMakeFiles/pool.dir/", "", "export CMAKE_BUILD_PARALLEL_LEVEL=1"),
        ("src/CMakeFiles/pool.dir/", "make[2]: *** [queue.o] Error 1\n", "make -j 1"),
        ("src/CMakeFiles/pool.dir/", "FAILED: [code=137] queue.o\n", "ninja -j 1"),
        (
            "src/CMakeFiles/pool.dir/",
            "Building wheel for pool (pyproject.toml)\n",
            "export CMAKE_BUILD_PARALLEL_LEVEL=1 MAKEFLAGS=-j1",
        ),
        (
            "src/CMakeFiles/pool.dir/",
            "Building wheel for pool (pyproject.toml)\nmake[2]: *** [queue.o] Error 1\n",
            "export CMAKE_BUILD_PARALLEL_LEVEL=1 MAKEFLAGS=-j1",
        ),
        (
            "src/CMakeFiles/pool.dir/",
            "Building wheel for pool (pyproject.toml)\ng++ -I/env/site-packages/torch/include -c ops.cc\n",
            "export CMAKE_BUILD_PARALLEL_LEVEL=1 MAKEFLAGS=-j1 MAX_JOBS=1",
        ),
        ("", "g++ -I/env/site-packages/torch/include -c ops.cc\n", "export MAX_JOBS=1"),
        ("", "subprocess.CalledProcessError: Command '['ninja', '-v']' returned 1\n", "export MAX_JOBS=1"),
    ],
)
def test_a_build_is_told_of_its_own_tool(files: str, below: str, snippet: str | None) -> None:
    remedy = advise(COMPILES.format(files, below), "fewer-build-jobs")[0]["fewer-build-jobs"]
    assert (remedy.snippet, remedy.suggested) == (snippet, 1)


def test_make_reads_its_options_from_the_environment() -> None:
    typed = "c++: fatal error: Killed signal terminated program cc1plus\nmake: *** [Makefile:9: all] Error 1\n"
    built = f"Building wheel for x (pyproject.toml)\n{typed}"
    lines = [advise(log, "fewer-build-jobs")[0]["fewer-build-jobs"].snippet for log in (typed, built)]
    assert lines == ["make -j 1", "export MAKEFLAGS=-j1"]


@pytest.mark.parametrize(("script", "there"), [("train_ppo_ray", True), ("train_ppo", False), ("train_sft", False)])
def test_only_one_program_of_openrlhf_has_vllm(script: str, there: bool) -> None:
    log = OPENRLHF.format("").replace("train_ppo_ray", script) + OOM
    knobs = ("tensor-parallel", "lower-engine-reservation", "engine-sleep")
    assert ("vllm" in str([one.snippet for one in advise(log, *knobs)[0].values()])) is there


WAKE = (
    "Traceback (most recent call last):\n"
    '  File "/env/site-packages/vllm/{file}", line 1, in x\n    pass\n'
    '  File "/env/site-packages/vllm/device_allocator/cumem.py", line 208, in wake_up\n    create_and_map(handle)\n'
    "RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62\n"
)


@pytest.mark.parametrize(
    ("file", "snippet"),
    [
        ("engine/llm_engine.py", "gpu_memory_utilization=0.85"),
        ("entrypoints/openai/api_server.py", "--gpu-memory-utilization 0.85"),
        ("v1/engine/async_llm.py", "--gpu-memory-utilization 0.85"),
    ],
)
def test_an_engine_that_is_woken_up_was_built_by_a_program(file: str, snippet: str) -> None:
    knob = "lower-engine-reservation"
    assert advise(WAKE.format(file=file), knob)[0][knob].snippet == snippet


OF_OPENRLHF = "python3 -m openrlhf.cli.train_ppo_ray {}\n"


@pytest.mark.parametrize(
    ("given", "snippet"),
    [
        ("--vllm_num_engines 2", "--deepspeed_enable_sleep"),
        ("--vllm_num_engines 2 --colocate_all_models", "--deepspeed_enable_sleep"),
        ("--vllm.num_engines 2", "--ds.enable_sleep"),
    ],
)
def test_a_trainer_sleeps_where_an_engine_wakes_up(given: str, snippet: str) -> None:
    log = OF_OPENRLHF.format(given) + WAKE.format(file="v1/worker/gpu_worker.py")
    assert advise(log, "offload-optimizer")[0]["offload-optimizer"].snippet == snippet


def test_a_trainer_that_fails_itself_offloads_its_states() -> None:
    log = OF_OPENRLHF.format("--vllm_num_engines 2") + OOM
    assert advise(log, "offload-optimizer")[0]["offload-optimizer"].snippet == "--adam_offload"


@pytest.mark.parametrize(
    ("given", "suggested"),
    [("--vllm_num_engines 2", None), ("--vllm_gpu_memory_utilization 0.8", 0.75), ("--vllm.num_engines 2", 0.9)],
)
def test_no_step_is_taken_from_a_default_that_hangs_on_the_release(given: str, suggested: float | None) -> None:
    knob = "lower-engine-reservation"
    log = OF_OPENRLHF.format(given) + WAKE.format(file="v1/worker/gpu_worker.py")
    assert advise(log, knob)[0][knob].suggested == suggested


@pytest.mark.parametrize("above", ["", OF_OPENRLHF.format("--vllm_num_engines 2")])
def test_what_a_trainer_leaves_at_a_wake_up_is_named(above: str) -> None:
    log = above + WAKE.format(file="v1/worker/gpu_worker.py")
    found = judgement_of(VLLM_SHARE, crashes_of(log)[0])
    assert isinstance(found, Finding)
    knobs = found.knobs
    chosen = advise(log, *knobs)[0].values()
    assert any("trainer" in remedy.action and remedy.has_object for remedy in chosen)
    assert "clear-references" in knobs
    assert "engine-sleep" not in knobs


@pytest.mark.parametrize(
    ("above", "first"),
    [
        ("docker run --gpus all image", "docker run --shm-size=8g"),
        ("Pod trainer-0 kubectl logs", "emptyDir:"),
        ("python train.py", "df -h /dev/shm"),
    ],
)
def test_first_it_is_looked_whether_it_is_a_container(above: str, first: str) -> None:
    log = f"{above}\nRuntimeError: unable to write to file </torch_1_2>: No space left on device (28)\n"
    assert str(advise(log, "bigger-shm")[0]["bigger-shm"].snippet).startswith(first)


# limits of containers


POD = (
    "    State:          Waiting\n      Reason:       CrashLoopBackOff\n    Last State:     Terminated\n"
    "      Reason:       OOMKilled\n      Exit Code:    137\n"
    "      Started:      {started}\n      Finished:     {finished}\n"
    "    Restart Count:  {count}\n    Limits:\n      memory:  {limit}\n"
)
EARLY, LATE = "Sat, 21 Nov 2026 10:01:11 +0000", "Sat, 21 Nov 2026 14:02:11 +0000"


@pytest.mark.parametrize(
    ("started", "finished", "count", "limit", "then"),
    [
        (EARLY, LATE, 14, "350Mi", "700Mi"),
        (EARLY, LATE, 2, "350Mi", "438Mi"),
        (EARLY, EARLY.replace("01:11", "01:14"), 1, "64Mi", "128Mi"),
        (EARLY, EARLY.replace("21 Nov", "22 Nov"), 1, "64Mi", "80Mi"),
        (EARLY, LATE, 14, "2Gi", "4Gi"),
        (EARLY, LATE, 14, "200Gi", "250Gi"),
    ],
)
def test_a_small_limit_that_is_hit_at_the_start_is_doubled(
    started: str, finished: str, count: int, limit: str, then: str
) -> None:
    knob = "raise-container-limit"
    log = POD.format(started=started, finished=finished, count=count, limit=limit)
    remedy = advise(log, knob)[0][knob]
    assert remedy.suggested == then
    assert f"kubectl set resources deployment NAME -c CONTAINER --limits=memory={then}" in str(remedy.snippet)


@pytest.mark.parametrize(("finished", "then"), [("10:00:20", "700m"), ("14:00:20", "438m")])
def test_a_record_on_one_line_has_two_times(finished: str, then: str) -> None:
    log = (
        '[{"State":{"OOMKilled":true,"ExitCode":137,"StartedAt":"2026-11-21T10:00:00.1Z",'
        f'"FinishedAt":"2026-11-21T{finished}.2Z"}},"Name":"/job","HostConfig":{{"Memory":367001600}}}}]\n'
    )
    assert advise(log, "raise-container-limit")[0]["raise-container-limit"].suggested == then


def test_who_holds_it_is_told_beside_what_to_drop() -> None:
    remedy = advise(HOG, "clear-references")[0]["clear-references"]
    assert remedy.subject is not None
    assert "held" in remedy.action


@pytest.mark.parametrize(
    ("above", "snippet"),
    [
        ("", "ray.init(object_store_memory="),
        ("$ ray start --head\n", "ray start --head --object-store-memory="),
        (OPENRLHF.format("").replace("http", "x"), "ray start --head --object-store-memory="),
    ],
)
def test_the_store_is_sized_where_ray_is_started(above: str, snippet: str) -> None:
    knob, log = "smaller-object-store", kill(95.1, 100.0, "").replace("LLMRayActor", "Shard")
    assert str(advise(above + log, knob)[0][knob].snippet).startswith(snippet)


def test_what_is_set_in_an_interface_is_no_code() -> None:
    chosen = advise("ComfyUI started\n" + OOM, "smaller-input", "gradient-checkpointing")[0]
    assert str(chosen["smaller-input"].snippet).startswith("EmptyLatentImage: ")


@pytest.mark.parametrize("root", ["PxgCudaDeviceMemoryAllocator fail to allocate memory 100663296 bytes!! Result = 2"])
def test_a_simulator_has_worlds_and_no_batches(root: str) -> None:
    above = "Importing module 'gym_38' (/w/isaacgym/python/isaacgym/_bindings)\n"
    chosen = advise(f"{above}{root}\n", BATCH, "fewer-environments", cause="non-torch-memory")[0]
    assert BATCH not in chosen
    assert chosen["fewer-environments"].suggested is None, "fewer than nobody knows how many"


@pytest.mark.parametrize(
    ("below", "name"),
    [("", "--max-num-seqs"), ('  File "/w/job.py", line 3, in <module>\n    llm = LLM(model="m")\n', "max_num_seqs")],
)
def test_a_flag_is_an_argument_where_a_program_builds_the_engine(below: str, name: str) -> None:
    log = f"INFO 11-20 10:00:00 vllm/engine/llm_engine.py:1\nTraceback (most recent call last):\n{below}"
    frame = '  File "/env/site-packages/vllm/engine/llm_engine.py", line 1, in x\n    pass\n'
    remedy = advise(log + frame + OOM, "fewer-sequences")[0]["fewer-sequences"]
    assert remedy.setting == name
    assert f" {name}" in remedy.action
    assert (" --" in remedy.action) is (not below)


def test_an_engine_maps_its_files_and_drops_no_references() -> None:
    log = kill(12.5, 13.2, "").replace("LLMRayActor", "RayWorkerVllm")
    chosen = advise(log, "low-memory-loading", cause="process-ram-hog")[0]
    assert chosen["low-memory-loading"].snippet is None  # --load-format auto takes such files already
    assert "rank" not in chosen["low-memory-loading"].action


OVER = {
    "sge": '03/02/2026 10:14:07|  main|n7|W|job 88 exceeds job hard limit "h_vmem" of queue "q@n7" (10737418240.00000 '
    "> limit:8589934592.00000) - sending SIGKILL",
    "sge-mail": " Max vmem         = 10.000G\nfailed execd enforced h_vmem limit because:",
    "pbs": "=>> PBS: job killed: vmem 10737418240 exceeded limit 8589934592",
    "slurm": "slurmstepd: error: StepId=8.0 exceeded virtual memory limit (10737418240 > 8589934592), being killed",
}


@pytest.mark.parametrize(
    ("manager", "line"),
    [
        ("sge", "#$ -l h_vmem=13G"),
        ("sge-mail", "#$ -l h_vmem=13G"),
        ("pbs", "#PBS -l vmem=13gb"),
        ("slurm", "#SBATCH --mem=13G"),
    ],
)
def test_what_a_scheduler_allows_is_asked_of_the_scheduler(manager: str, line: str) -> None:
    chosen, _ = advise(OVER[manager], "more-address-space", cause="address-space-limit")
    assert chosen["more-address-space"].snippet == line


def test_a_shells_limit_is_the_shells() -> None:
    refused = "+ ulimit -v 1400000\nMemoryError: Unable to allocate 2.00 GiB for an array with shape (16384, 16384)"
    chosen, _ = advise(refused, "more-address-space", cause="address-space-limit")
    assert (chosen["more-address-space"].snippet or "").startswith("ulimit -v")


MOVED = (
    'Traceback (most recent call last):\n  File "train.py", line 82, in <module>\n    net = net.cuda()\n'
    "RuntimeError: CUDA out of memory. Tried to allocate 28.00 GiB (GPU 0; 15.77 GiB total capacity; 47.00 MiB already "
    "allocated; 14.90 GiB free; 64.00 MiB reserved in total by PyTorch)"
)


@pytest.mark.parametrize(
    ("before", "is_known"),
    [
        ("", False),
        ("numpy==2.1.0\n", False),
        ("[2025-11-03 10:20:44,312] [INFO] [config.py:1001:print]   zero_optimization_stage ...... 2\n", True),
        ("/v/site-packages/transformers/modeling_utils.py:99: UserWarning: x\n", False),
    ],
)
def test_a_network_of_ones_own_is_not_quantized_for_him(before: str, is_known: bool) -> None:
    chosen, _ = advise(before + MOVED, "quantize-weights", "tensor-parallel", "smaller-model")
    assert ("tensor-parallel" in chosen) is is_known
    assert "smaller-model" in chosen


def test_a_loaders_weights_are_quantized_by_the_loader() -> None:
    before = "/v/site-packages/transformers/modeling_utils.py:99: UserWarning: x\n"
    chosen, _ = advise(before + MOVED, "quantize-weights")
    assert chosen["quantize-weights"].setting


DRAWN = (
    'Traceback (most recent call last):\n  File "/srv/{file}", line 18, in get_outputs\n    return self.net(view)\n'
    '  File "/v/site-packages/torch/nn/modules/module.py", line 1501, in _call_impl\n    return forward_call(*args)\n'
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.00 GiB (GPU 0; 24.00 GiB total capacity; "
    "18.00 GiB already allocated; 5.00 GiB free; 18.50 GiB reserved in total by PyTorch)"
)


@pytest.mark.parametrize(
    ("file", "has_attention"),
    [
        ("viewer/renderer.py", False),
        ("scene/voxel_grid.py", False),
        ("viewer/renderer_attention.py", True),
        ("trainer.py", False),  # may be of anything
        ("trainer_of_gpt.py", False),
        ("gpt_trainer.py", True),
    ],
)
def test_who_only_renders_has_no_attention(file: str, has_attention: bool) -> None:
    chosen, _ = advise(DRAWN.format(file=file), "memory-efficient-attention", "smaller-input", cause="activations")
    assert ("memory-efficient-attention" in chosen) is has_attention


OF_RECIPES = 'Traceback (most recent call last):\n  File "/w/{file}", line 7, in train\n    loss.backward()\n'


@pytest.mark.parametrize(
    ("file", "knob", "snippet"),
    [
        ("llama-recipes/utils/train_utils.py", "smaller-microbatch", "--batch_size_training 1"),
        ("llama_recipes/utils/train_utils.py", "smaller-microbatch", "--batch_size_training 1"),
        ("llama_recipes/utils/train_utils.py", "offload-optimizer", "--fsdp_cpu_offload True"),
        ("llama-recipes/utils/train_utils.py", "offload-optimizer", None),
        ("recipes/utils/train_utils.py", "smaller-microbatch", None),
    ],
)
def test_llama_recipes_has_flags_of_its_own(file: str, knob: str, snippet: str | None) -> None:
    assert advise(OF_RECIPES.format(file=file) + cuda(), knob)[0][knob].snippet == snippet


def test_llama_recipes_recomputes_by_default() -> None:
    chosen, rejected = advise(OF_RECIPES.format(file="llama_recipes/x.py") + cuda(), "gradient-checkpointing")
    assert not chosen
    assert "already True by default" in rejected["gradient-checkpointing"].why


NO_TILES = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate 812345600 bytes. Error code 12 (Cannot allocate memory)\n"
)


@pytest.mark.parametrize(
    ("given", "snippet", "batch"),
    [
        ("python inference_realesrgan.py -i in -n RealESRGAN_x4plus\n", "--tile 400", False),
        ("python inference_realesrgan.py -i in --tile 300\n", "--tile 150", False),
        ("python inference_realesrgan.py -i in --tile 0\n", "--tile 400", False),
        ("python enlarge.py -i in\n", None, True),
    ],
)
def test_real_esrgan_has_tiles_and_no_batch(given: str, snippet: str | None, batch: bool) -> None:
    chosen, _ = advise(given + NO_TILES, "tiled-processing", BATCH)
    tiled = chosen.get("tiled-processing")
    assert ((tiled.snippet if tiled is not None else None), BATCH in chosen) == (snippet, batch)


def of_workers(name: str, count: int) -> str:
    rows = "".join(f"{700 + each}\t6.{each}GB\t{name}\n" for each in range(count))
    return (
        "ray.memory_monitor.RayOutOfMemoryError: More than 95% of the memory on node n1 is used (24.40 / 25.60 GB). "
        f"The top 10 memory consumers are:\n\nPID\tMEM\tCOMMAND\n{rows}"
    )


@pytest.mark.parametrize(
    ("name", "count", "suggested"),
    [
        ("ray_RolloutWorker:sample()", 5, 2),
        ("ray_PolicyEvaluator:apply()", 6, 3),
        ("ray_Fetcher:apply()", 5, None),
        ("ray_RolloutWorker:sample()", 3, 3),
    ],
)
def test_rllib_counts_its_workers_by_an_option(name: str, count: int, suggested: int | None) -> None:
    found = advise(of_workers(name, count), WORKERS)[0][WORKERS]
    assert found.suggested == suggested
    assert found.snippet == (f'"num_workers": {suggested}' if suggested else None)


CLONE = (
    "UserWarning: Failed to clone() tensor with name embed.weight on rank 1. This may mean that this state_dict entry "
    "could point to invalid memory regions after returning from state_dict() call if this parameter is managed by "
    "FSDP. Please check clone implementation of embed.weight. Error: "
)
TRAINER = '+ torchrun fit.py --per_device_train_batch_size 2 --fsdp "{}"\n'


@pytest.mark.parametrize(
    ("words", "then"),
    [
        ("full_shard auto_wrap", "--fsdp 'full_shard auto_wrap offload'"),
        ("shard_grad_op", "--fsdp 'shard_grad_op offload'"),
        ("full_shard offload auto_wrap", None),  # is set
    ],
)
def test_the_trainers_own_word_for_offloading_with_fsdp(words: str, then: str | None) -> None:
    log = TRAINER.format(words) + CLONE + cuda()
    for knob in ("offload-parameters", "offload-optimizer"):
        chosen, _ = advise(log, knob, cause="checkpoint-spike")
        assert (chosen[knob].snippet if knob in chosen else None) == then


@pytest.mark.parametrize(
    "launch", ["+ torchrun fit.py\n", "+ torchrun fit.py --fsdp True\n", "+ fit.py --enable_fsdp\n"]
)
def test_other_words_for_fsdp_are_not_the_trainers(launch: str) -> None:
    chosen, _ = advise(launch + CLONE + cuda(), "offload-parameters", cause="checkpoint-spike")
    assert "--fsdp " not in (chosen["offload-parameters"].snippet or "")


def test_a_full_state_is_gathered_in_host_memory_where_its_clone_failed() -> None:
    chosen, _ = advise(TRAINER.format("full_shard") + CLONE + cuda(), "sharded-checkpoint", cause="checkpoint-spike")
    remedy = chosen["sharded-checkpoint"]
    assert "FullStateDictConfig(offload_to_cpu=True, rank0_only=True)" in (remedy.snippet or "")
    assert remedy.spends == ("host_ram", "cgroup")
    assert not remedy.assumes
    frame = '  File "/x/torch/distributed/fsdp/_state_dict_utils.py", line 9, in _optim_state_dict\n    y = x\n'
    other, _ = advise(frame + "torch.OutOfMemoryError: " + cuda(), "sharded-checkpoint", cause="checkpoint-spike")
    assert "SHARDED_STATE_DICT" in (other["sharded-checkpoint"].snippet or "")
    assert "rank 0" not in other["sharded-checkpoint"].action


IN_DEEPSPEED_CHAT = (
    "deepspeed main.py --actor_model_name_or_path some/model --actor_zero_stage 2 --per_device_training_batch_size 2 "
    "{length}\n" + cuda()
)


@pytest.mark.parametrize(
    ("log", "cost"),
    [
        (IN_DEEPSPEED_CHAT.format(length="--max_prompt_seq_len 512"), "longer prompts are cut or left out"),
        ("verl\ndata.max_response_length=2048 algorithm.adv_estimator=grpo\n" + cuda(), None),
    ],
)
def test_shorter_prompts_cut_no_answer(log: str, cost: str | None) -> None:
    remedy = advise(log, "shorter-sequences", cause="activations")[0]["shorter-sequences"]
    assert (remedy.cost == "longer prompts are cut or left out") is (cost is not None)


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (IN_DEEPSPEED_CHAT.format(length=""), "--offload"),
        (IN_DEEPSPEED_CHAT.format(length="--offload"), None),  # it is set
    ],
)
def test_deepspeed_chat_offloads_by_a_flag_of_its_own(log: str, line: str | None) -> None:
    remedy = advise(log, "offload-optimizer", cause="optimizer-states")[0].get("offload-optimizer")
    assert (remedy.snippet if remedy is not None else None) == line


@pytest.mark.parametrize("launch", ["deepspeed main.py --deepspeed_config ds.json", "python ppo.py --zero_stage 2"])
def test_no_other_user_of_deepspeed_has_that_flag(launch: str) -> None:
    remedy = advise(f"{launch}\n{cuda()}", "offload-optimizer", cause="optimizer-states")[0].get("offload-optimizer")
    assert remedy is None or remedy.snippet != "--offload"


APPLIES = (
    '  File "{}/env/lib/python3.10/site-packages/torch/nn/modules/module.py", line 905, in <lambda>\n'
    "    return self._apply(lambda t: t.cuda(device))\n"
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 8.00 GiB total capacity; "
    "7.28 GiB already allocated; 0 bytes free; 7.29 GiB reserved in total by PyTorch)\n"
)


@pytest.mark.parametrize(("place", "own"), [("/home/user/job", True), ("/home/user/oobabooga_linux", False)])
def test_a_line_of_code_is_for_who_has_the_code(place: str, *, own: bool) -> None:
    chosen, _ = advise(APPLIES.format(place), "mixed-precision", "quantize-weights", cause="model-does-not-fit")
    assert ("mixed-precision" in chosen) is own
    assert own or chosen["quantize-weights"].snippet == "--load-in-4bit"


# host memory of a program that moves its states between the phases

VERL, EASY = "python3 -m verl.trainer.main_ppo", '  File "/workspace/EasyR1/verl/trainer/main.py", line 9, in run'
MEGATRON = '  File "/env/lib/python3.11/site-packages/megatron/core/optimizer/optimizer.py", line 9, in step'
RANKS = "".join(
    f"{4100 + n}\t{56.1 + n / 10:.2f}\tray::WorkerDict.actor_rollout_generate_sequences\n" for n in range(4)
)
ACTORS = RANKS.replace("WorkerDict.actor_rollout_generate_sequences", "PolicyModelActor.fit")
OFF, STATES, OF_REF = "less-offload", ("optimizer", "param"), "ref.fsdp.enable_cpu_offload"


@pytest.mark.parametrize(
    ("above", "rows", "options"),
    [
        (VERL, RANKS, [*(f"actor.fsdp_config.{kind}_offload" for kind in STATES), "ref.fsdp_config.param_offload"]),
        (f"{VERL}\n{MEGATRON}", RANKS, ["actor.megatron.optimizer_offload"]),
        (EASY, RANKS, ["actor.offload.offload_optimizer", "actor.offload.offload_params", OF_REF]),
        (VERL, "4100\t200.00\tpython reward_server.py\n", []),
        (OPENRLHF, ACTORS, []),
        ("python train.py", RANKS.replace("WorkerDict", "Walker"), []),
    ],
)  # fmt: skip
def test_what_ranks_may_keep_in_ram_between_the_phases(above: str, rows: str, options: list[str]) -> None:
    chosen, _ = advise(f"{above}\n{kill(239.0, 251.5, rows)}", OFF, cause="too-many-workers")
    written = (chosen[OFF].snippet or "").split() if OFF in chosen else []
    assert [one.split("=")[0].partition(".")[2] for one in written] == options
    assert all(one.lower().endswith("=false") for one in written)


@pytest.mark.parametrize(
    ("victim", "there"), [("a_WorkerDict_0:1:WorkerDict.__init__", True), ("Sampler.__init__", False)]
)
def test_a_rank_that_was_killed_without_a_table(victim: str, *, there: bool) -> None:
    cut = kill(239.0, 251.5, "").partition(" Top 10")[0].replace("8.80GB", "60.00GB")
    log = f"{EASY}\n{cut.replace('LLMRayActor.__init__', victim)}"
    assert (OFF in advise(log, OFF, cause="too-many-workers")[0]) is there


def test_what_is_stated_is_not_asked_again() -> None:
    stated = f"{VERL} actor_rollout_ref.actor.fsdp_config.param_offload=False\n{kill(239.0, 251.5, RANKS)}"
    chosen, rejected = advise(stated, OFF, cause="too-many-workers")
    assert OFF not in chosen
    assert "already off" in rejected[OFF].why


DRIVER = "358\t230.00\tray::TaskRunner.run\n99\t1.70\tray::IDLE\n"


@pytest.mark.parametrize(
    ("log", "there"),
    [
        (kill(239.0, 251.5, DRIVER), True),
        (f"{VERL}\n{kill(239.0, 251.5, DRIVER)}", True),
        (f"{VERL}\n{kill(239.0, 251.5, RANKS)}", False),
        (f"{VERL}\n{kill(239.0, 251.5, RANKS + DRIVER.replace('230', '2'))}", False),
        (f"{VERL}\nray::TaskRunner.run() (pid=358, ip=10.0.0.5)\n{OOM}", False),
        (kill(239.0, 251.5, DRIVER.replace("TaskRunner.run", "Runner.run")), False),
    ],
)
def test_a_driver_gathers_as_much_as_a_step_has(log: str, there: bool) -> None:
    chosen, _ = advise(log, "smaller-buffers", cause="process-ram-hog")
    named = chosen["smaller-buffers"].setting if "smaller-buffers" in chosen else None
    assert (named == "data.train_batch_size") is there
