"""Long logs of jobs that lack nothing, with all the memory words that their frameworks print on a good day.

Written from the formats: a head, thousands of lines of a loop, an end. Every log is longer than what is read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

LONG: Final = 300 * 1024  # bytes

NVIDIA_SMI: Final = (
    "+-----------------------------------------------------------------------------------------+",
    "| NVIDIA-SMI 560.35.03              Driver Version: 560.35.03      CUDA Version: 12.6     |",
    "|-----------------------------------------+------------------------+----------------------+",
    "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
    "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
    "|                                         |                        |               MIG M. |",
    "|=========================================+========================+======================|",
    "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |                    0 |",
    "| N/A   61C    P0            640W /  700W |   80914MiB /  81559MiB |    100%      Default |",
    "|                                         |                        |             Disabled |",
    "+-----------------------------------------+------------------------+----------------------+",
    "+-----------------------------------------------------------------------------------------+",
    "| Processes:                                                                              |",
    "|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |",
    "|        ID   ID                                                               Usage      |",
    "|=========================================================================================|",
    "|    0   N/A  N/A     24410      C   python3                                     80896MiB |",
    "+-----------------------------------------------------------------------------------------+",
)
SUMMARY: Final = (
    "|===========================================================================|",
    "|                  PyTorch CUDA memory summary, device ID 0                 |",
    "|---------------------------------------------------------------------------|",
    "|            CUDA OOMs: 0            |        cudaMalloc retries: 0         |",
    "|===========================================================================|",
    "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |",
    "|---------------------------------------------------------------------------|",
    "| Allocated memory      |  61440 MiB |  70656 MiB |   8192 GiB |   8132 GiB |",
    "|       from large pool |  61200 MiB |  70400 MiB |   8100 GiB |   8040 GiB |",
    "| GPU reserved memory   |  74752 MiB |  74752 MiB |  74752 MiB |      0 B   |",
    "|===========================================================================|",
)


def vllm() -> Iterator[str]:
    yield from (
        "INFO 10-02 08:00:01 [api_server.py:1839] vLLM API server version 0.11.0",
        "INFO 10-02 08:00:01 [utils.py:233] non-default args: {'model': 'bigscience/bloom-7b1', "
        "'gpu_memory_utilization': 0.95, 'swap_space': 8.0, 'max_model_len': 16384}",
        "WARNING 10-02 08:00:02 [config.py:912] The model has a long context length (131072). This may causeOOM during "
        "the initial memory profiling phase, or result in low performance due to small KV cache size. Consider "
        "setting --max-model-len to a smaller value.",
        "(EngineCore_DP0 pid=771) INFO 10-02 08:00:40 [gpu_model_runner.py:2653] Model loading took 13.18 GiB memory "
        "and 9.8 seconds",
        "(EngineCore_DP0 pid=771) INFO 10-02 08:00:58 [gpu_worker.py:298] Available KV cache memory: 57.91 GiB",
        "(EngineCore_DP0 pid=771) INFO 10-02 08:00:58 [kv_cache_utils.py:1087] GPU KV cache size: 126,496 tokens",
        "(EngineCore_DP0 pid=771) INFO 10-02 08:00:58 [kv_cache_utils.py:1091] Maximum concurrency for 16,384 tokens "
        "per request: 7.72x",
        "(EngineCore_DP0 pid=771) INFO 10-02 08:01:20 [gpu_model_runner.py:3480] Graph capturing finished in 21 secs, "
        "took 1.12 GiB",
        "(EngineCore_DP0 pid=771) INFO 10-02 08:01:21 [gpu_worker.py:391] Free memory on device (78.6/79.11 GiB) on "
        "startup. Desired GPU memory utilization is (0.95, 75.15 GiB). Actual usage is 13.18 GiB for weight, 2.31 GiB "
        "for peak activation, 0.44 GiB for non-torch memory, and 1.12 GiB for CUDAGraph memory. Replace "
        "gpu_memory_utilization config with `--kv-cache-memory=60512345600` to fit into requested memory, or "
        "`--kv-cache-memory=64123456000` to fully utilize gpu memory. Current kv cache memory in use is 57.91 GiB.",
    )
    for n in range(2200):
        yield (
            f"(APIServer pid=702) INFO 10-02 {8 + n // 360:02}:{n // 6 % 60:02}:{n % 6 * 10:02} [loggers.py:123] Engine "
            f"000: Avg prompt throughput: {800 + n % 300}.{n % 10} tokens/s, Avg generation throughput: {1500 + n % 200}.3 "
            f"tokens/s, Running: {60 + n % 5} reqs, Waiting: {n % 7} reqs, GPU KV cache usage: {94 + n % 6}.{n % 10}%, "
            "Prefix cache hit rate: 41.2%"
        )
        if n % 400 == 7:
            yield (
                "(EngineCore_DP0 pid=771) WARNING 10-02 09:10:11 [scheduler.py:1057] Sequence group 7 is preempted by "
                "PreemptionMode.RECOMPUTE mode because there is not enough KV cache space. This can affect the "
                "end-to-end performance. Increase gpu_memory_utilization or tensor_parallel_size to provide more KV "
                "cache memory. total_num_cumulative_preemption=1"
            )
    yield from NVIDIA_SMI
    yield "(APIServer pid=702) INFO:     Application shutdown complete."


def sglang() -> Iterator[str]:
    yield from (
        "[2026-03-02 08:00:01] server_args=ServerArgs(model_path='acme/chat-32b', mem_fraction_static=0.88, "
        "max_running_requests=None, chunked_prefill_size=8192, enable_memory_saver=True, tp_size=2)",
        "[2026-03-02 08:00:12 TP0] Init torch distributed ends. mem usage=0.31 GB",
        "[2026-03-02 08:00:12 TP0] Load weight begin. avail mem=78.41 GB",
        "[2026-03-02 08:00:40 TP0] Load weight end. type=ChatForCausalLM, dtype=torch.bfloat16, avail mem=47.12 GB, "
        "mem usage=31.29 GB.",
        "[2026-03-02 08:00:41 TP0] KV Cache is allocated. #tokens: 290412, K size: 17.71 GB, V size: 17.71 GB",
        "[2026-03-02 08:00:41 TP0] Memory pool end. avail mem=9.12 GB",
        "[2026-03-02 08:00:42 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=9.02 GB",
        "[2026-03-02 08:01:02 TP0] Capture cuda graph end. Time elapsed: 20.11 s. mem usage=1.90 GB. avail mem=7.12 GB.",
        "[2026-03-02 08:01:03 TP0] max_total_num_tokens=290412, chunked_prefill_size=8192, max_prefill_tokens=16384, "
        "max_running_requests=2048, context_len=32768, available_gpu_mem=7.12 GB",
    )
    for n in range(2600):
        yield (
            f"[2026-03-02 {8 + n // 1800:02}:{n // 30 % 60:02}:{n % 30 * 2:02} TP0] Decode batch, #running-req: {90 + n % 9}, "
            f"#token: {270000 + n % 20000}, token usage: 0.9{n % 9}, cuda graph: True, gen throughput (token/s): "
            f"{3100 + n % 77}.20, #queue-req: {n % 12}"
        )
        if n % 500 == 9:
            yield (
                "[2026-03-02 09:12:13 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 2, "
                "#new_tokens_gained: 4120, #new_token_ratio: 0.41 -> 0.72"
            )
    yield "[2026-03-02 10:00:00] SIGTERM received. Draining requests and shutting down..."


def verl() -> Iterator[str]:
    yield from (
        "2026-03-02 08:00:01,120 INFO worker.py:1908 -- Started a local Ray instance. View the dashboard at "
        "127.0.0.1:8265",
        "(TaskRunner pid=7001) {'actor_rollout_ref': {'actor': {'ppo_micro_batch_size_per_gpu': 8, 'fsdp_config': "
        "{'param_offload': False, 'optimizer_offload': False}}, 'rollout': {'gpu_memory_utilization': 0.6, "
        "'free_cache_engine': True, 'skip_on_oom': False}}}",
        "(WorkerDict pid=7110) Before init actor from HF AutoModel, memory allocated (GB): 0.0, memory reserved (GB): "
        "0.0, device memory used/total (GB): 0.6/79.1",
        "(WorkerDict pid=7110) After actor FSDP init, memory allocated (GB): 7.1, memory reserved (GB): 9.3, device "
        "memory used/total (GB): 10.2/79.1",
        "(WorkerDict pid=7110) After building vllm rollout, memory allocated (GB): 46.0, memory reserved (GB): 47.1, "
        "device memory used/total (GB): 48.8/79.1",
    )
    for n in range(700):
        yield (
            f"(TaskRunner pid=7001) step:{n} - global_seqlen/mean:41020.5 - actor/pg_loss:0.0{n % 90} - "
            f"perf/max_memory_allocated_gb:61.{n % 9} - perf/max_memory_reserved_gb:74.2 - "
            f"perf/cpu_memory_used_gb:{311 + n % 3}.{n % 10} - timing_s/gen:41.2 - timing_s/update_actor:60.4"
        )
        yield "(WorkerDict pid=7110) INFO:2026-03-02 08:10:11,100:After switch to rollout mode, memory allocated (GB): 46.1"
        if n % 50 == 3:
            yield "(TaskRunner pid=7001) [prompt] Explain why a job prints CUDA out of memory and how to avoid OOM."
            yield "(TaskRunner pid=7001) [response] The message says how much was free, for example:"
            yield (
                "(TaskRunner pid=7001) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 "
                "has a total capacity of 39.40 GiB of which 2.10 GiB is free."
            )
            yield "(TaskRunner pid=7001) [ground_truth] exit code 137 is a SIGKILL"
            yield "(TaskRunner pid=7001) [score] 0.0"
        yield (
            f"(raylet) Spilled {2048 + n} MiB, {n + 9} objects, write throughput 1215 MiB/s. Set "
            "RAY_verbose_spill_logs=0 to disable this message."
        )
    yield "(TaskRunner pid=7001) Final validation metrics: {'val-core/math/reward/mean@1': 0.61}"


def openrlhf() -> Iterator[str]:
    yield from (
        "Namespace(pretrain='acme/base-7b', vllm_gpu_memory_utilization=0.5, vllm_enable_sleep=True, adam_offload=True, "
        "colocate_all_models=True, zero_stage=3, micro_train_batch_size=4)",
        "(LLMRayActor pid=8801) INFO 03-02 08:00:40 [worker.py:267] the current vLLM instance can use total_gpu_memory "
        "(79.11GiB) x gpu_memory_utilization (0.50) = 39.55GiB",
        "(LLMRayActor pid=8801) INFO 03-02 08:00:40 [worker.py:267] model weights take 14.27GiB; non_torch_memory takes "
        "0.22GiB; PyTorch activation peak memory takes 1.40GiB; the rest of the memory reserved for KV Cache is "
        "23.66GiB.",
    )
    for n in range(900):
        yield (
            f"(PPOTrainer pid=8700) Episode [1/20]:  {n % 100}%|####      | {n}/900 [02:10<31:02, 19.40s/it, "
            f"policy_loss=0.01{n % 9}, kl=0.0{n % 9}, reward=0.4{n % 9}]"
        )
        yield (
            "(LLMRayActor pid=8801) INFO 03-02 08:11:12 [gpu_worker.py:81] Sleep mode freed 38.91 GiB memory, 9.17 GiB "
            "memory is still in use."
        )
        yield f"(ActorModelRayActor pid=8805) Train epoch [1/1]:  {n % 100}%|## | {n % 40}/40 [00:41<00:40, 1.02s/it]"
        yield (
            "(ActorModelRayActor pid=8805) [2026-03-02 08:12:13,114] [WARNING] [stage3.py:2140:step] 2 pytorch allocator "
            "cache flushes since last step. this happens when there is high memory pressure and is detrimental to "
            "performance."
            if n % 90 == 5
            else "(ReferenceModelRayActor pid=8811) forward done"
        )
    yield "2026-03-02 12:00:00,200\tSUCC cli.py:65 -- Job 'raysubmit_a1B2c3' succeeded"


def deepspeed() -> Iterator[str]:
    yield from (
        "[2026-03-02 08:00:01,001] [INFO] [runner.py:610:main] cmd = /usr/bin/python3 -u -m deepspeed.launcher.launch "
        "train.py --deepspeed ds.json",
        "Estimated memory needed for params, optim states and gradients for a:",
        "HW: Setup with 1 node, 8 GPUs per node.",
        "SW: Model with 6738M total params, 131M largest layer params.",
        "  per CPU  |  per GPU |   Options",
        "  169.44GB |   0.49GB | offload_param=OffloadDeviceEnum.cpu, offload_optimizer=OffloadDeviceEnum.cpu, zero_init=1",
        "    0.73GB | 112.96GB | offload_param=none, offload_optimizer=none, zero_init=0",
        "[2026-03-02 08:00:30,001] [INFO] [utils.py:781:see_memory_usage] Before creating optimizer",
        "[2026-03-02 08:00:30,001] [INFO] [utils.py:782:see_memory_usage] MA 12.55 GB         Max_MA 12.55 GB         "
        "CA 12.61 GB         Max_CA 13 GB ",
        "[2026-03-02 08:00:30,002] [INFO] [utils.py:789:see_memory_usage] CPU Virtual Memory:  used = 190.1 GB, "
        "percent = 18.9%",
    )
    for n in range(1700):
        yield (
            f"[2026-03-02 08:{n // 60 % 60:02}:{n % 60:02},001] [INFO] [logging.py:128:log_dist] [Rank 0] step={n}, "
            "skipped=0, lr=[1e-05], mom=[(0.9, 0.95)]"
        )
        yield (
            f"steps: {n} loss: 1.{n % 900} iter time (s): 3.01 samples/sec: 21.2 MA 60.11 GB         Max_MA 71.30 GB"
            "         CA 74.00 GB         Max_CA 75 GB "
        )
        if n % 200 == 11:
            yield (
                "[2026-03-02 08:30:00,001] [WARNING] [stage3.py:2140:step] 4 pytorch allocator cache flushes since last "
                "step. this happens when there is high memory pressure and is detrimental to performance. if this is "
                "happening frequently consider adjusting settings to reduce memory consumption."
            )
    yield "[2026-03-02 10:00:00,001] [INFO] [launch.py:351:main] Process 24410 exits successfully."


def megatron() -> Iterator[str]:
    yield from (
        "using world size: 64, data-parallel size: 8, tensor-model-parallel size: 4, pipeline-model-parallel size: 2",
        "  exit_on_missing_checkpoint ...................... False",
        "  log_memory_to_tensorboard ....................... True",
        "  recompute_granularity ........................... selective",
        "Theoretical memory footprints: weight and optimizer=18210.44 MB, activation=30110.12 MB, total=48320.56 MB",
        "[Rank 0] (after 1 iterations) memory (MB) | allocated: 18444.9267578125 | max allocated: 62310.20654296875 | "
        "reserved: 70114.0 | max reserved: 70114.0",
    )
    for n in range(1900):
        yield (
            f" [2026-03-02 08:{n // 60 % 60:02}:{n % 60:02}] iteration {n:8}/ 500000 | consumed samples: {n * 1024:12} | "
            "elapsed time per iteration (ms): 5120.4 | throughput per GPU (TFLOP/s/GPU): 412.1 | learning rate: "
            f"1.2E-04 | global batch size: 1024 | lm loss: 2.{n % 900}E+00 | loss scale: 1.0 | grad norm: 0.31 | number "
            "of skipped iterations: 0 | number of nan iterations: 0 |"
        )
    yield from SUMMARY
    yield "  successfully saved checkpoint from iteration    1900 to /ckpt/run7"


def jax() -> Iterator[str]:
    yield from (
        "I1102 08:00:01.100000 139900100200 xla_bridge.py:889] Unable to initialize backend 'tpu': INTERNAL: Failed to "
        "open libtpu.so",
        "XLA_PYTHON_CLIENT_MEM_FRACTION=0.92 XLA_PYTHON_CLIENT_PREALLOCATE=true",
        "2026-11-02 08:00:40.100000: W external/xla/xla/tsl/framework/bfc_allocator.cc:306] Allocator (GPU_0_bfc) ran "
        "out of memory trying to allocate 12.00GiB with freed_by_count=0. The caller indicates that this is not a "
        "failure, but this may mean that there could be performance gains if more memory were available.",
        "2026-11-02 08:00:41.100000: W external/xla/xla/service/hlo_rematerialization.cc:3005] Can't reduce memory use "
        "below 61.20GiB (65713000000 bytes) by rematerialization; only reduced to 63.11GiB (67763000000 bytes), down "
        "from 70.90GiB (76128000000 bytes) originally",
    )
    for n in range(3200):
        yield (
            f"I1102 08:{n // 60 % 60:02}:{n % 60:02}.100000 139900100200 train.py:210] step = {n}, loss = 2.{n % 900}, "
            f"bytes_in_use = {70000000000 + n}, peak_bytes_in_use = 76010000000, bytes_limit = 78100000000, num_ooms = 0"
        )
    yield "I1102 10:00:00.100000 139900100200 train.py:300] done"


def tensorflow() -> Iterator[str]:
    yield from (
        "2026-11-02 08:00:01.100000: I tensorflow/core/common_runtime/gpu/gpu_device.cc:2019] Created device "
        "/job:localhost/replica:0/task:0/device:GPU:0 with 78000 MB memory:  -> device: 0, name: H100",
        "2026-11-02 08:00:02.100000: W tensorflow/core/framework/cpu_allocator_impl.cc:82] Allocation of 3145728000 "
        "exceeds 10% of free system memory.",
        "2026-11-02 08:00:05.100000: W tensorflow/core/common_runtime/bfc_allocator.cc:211] Allocator (GPU_0_bfc) ran "
        "out of memory trying to allocate 2.27GiB with freed_by_count=0. The caller indicates that this is not a "
        "failure, but may mean that there could be performance gains if more memory were available.",
        "TF_GPU_ALLOCATOR=cuda_malloc_async TF_FORCE_GPU_ALLOW_GROWTH=true",
    )
    for n in range(3300):
        yield (
            f"{n % 469 + 1}/469 [==============================] - ETA: 12s - loss: 0.3{n % 90} - accuracy: 0.91 - "
            f"val_loss: 0.41 - gpu_mem_peak: 70{n % 9}11MB - room for {n % 4} more"
        )
    yield (
        "2026-11-02 10:00:00.100000: I tensorflow/core/framework/local_rendezvous.cc:404] Local rendezvous is aborting "
        "with status: OUT_OF_RANGE: End of sequence"
    )


def lightning() -> Iterator[str]:
    yield from (
        "GPU available: True (cuda), used: True",
        "/opt/venv/lib/lightning/pytorch/trainer/connectors/data_connector.py:425: The 'train_dataloader' does not have "
        "many workers which may be a bottleneck. Consider increasing the value of the `num_workers` argument.",
        "Finding best batch size by power scaling: Batch size 64 succeeded, trying batch size 128",
        "Batch size 128 failed, trying batch size 64",
        "UserWarning: 'pin_memory' argument is set as true but no accelerator is found, then device pinned memory "
        "won't be used.",
        "Total estimated model params size (MB): 26952",
    )
    for n in range(4200):
        yield (
            f"Epoch {n // 600}:  {n % 600 // 6}%|#####     | {n % 600}/600 [01:10<01:09, 8.5it/s, v_num=7, "
            f"train_loss=0.5{n % 90}, gpu_mem=76.{n % 9}GB]"
        )
    yield "`Trainer.fit` stopped: `max_epochs=7` reached."


def transformers() -> Iterator[str]:
    yield from (
        "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being "
        "overloaded, please further tune the variable for optimal performance in your application as needed.",
        "Some parameters are on the meta device because they were offloaded to the cpu.",
        "low_cpu_mem_usage=True, auto_find_batch_size=True, torch_empty_cache_steps=None",
        "Loading checkpoint shards: 100%|##########| 4/4 [00:08<00:00,  2.10s/it]",
        "[INFO|trainer.py:2134] 2026-03-02 08:00:01,120 >> ***** Running training *****",
        "/opt/venv/lib/torch/nn/parallel/distributed.py:1204: find_unused_parameters=True was specified in DDP "
        "constructor, this flag results in an extra traversal of the autograd graph every iteration.",
    )
    for n in range(5200):
        yield f"{{'loss': 1.{n % 900}, 'grad_norm': 0.4, 'learning_rate': 2e-05, 'epoch': {n / 2600:.2f}}} mem=70.1/79.1 GiB"
    yield from (
        "***** train metrics *****",
        "  train_mem_gpu_alloc_delta  =    61201MB",
        "  train_mem_gpu_peaked_delta =    12110MB",
        "[rank0]:[W302 10:00:00.118 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not called "
        "before program exit, which can leak resources.",
        "/usr/lib/python3.11/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be "
        "2 leaked shared_memory objects to clean up at shutdown",
    )


def torchtitan() -> Iterator[str]:
    yield "[rank0]:[titan] 2026-03-02 08:00:01,100 - root - INFO - CUDA capacity: H100 with 79.11GiB memory"
    for n in range(3500):
        yield (
            f"[rank0]:[titan] 2026-03-02 08:{n // 60 % 60:02}:{n % 60:02},100 - root - INFO - step: {n}  loss: 2.{n % 900}  "
            f"memory: 76.4{n % 9}GiB(96.6{n % 9}%)  tps: 7,121  tflops: 401.11  mfu: 40.51%"
        )
        if n % 700 == 9:
            yield "[rank0]:[titan] 2026-03-02 08:30:00,100 - root - WARNING - 3 CUDA memory allocation retries."
            yield (
                "[rank0]:[W302 08:30:00.118 CUDACachingAllocator.cpp:2210] memory allocation failed with OOM on device "
                "0 while trying to allocate 1073741824 bytes (free: 887436800, total: 84986691584)."
            )
    yield "[rank0]:[titan] 2026-03-02 10:00:00,100 - root - INFO - Training completed"


def cluster() -> Iterator[str]:
    """What watches a node: dmesg, earlyoom, memory.events, Prometheus."""
    yield "earlyoom v1.7, sending SIGTERM when mem avail <= 10.00% and swap free <= 10.00%,"
    yield "        SIGKILL when mem avail <=  5.00% and swap free <=  5.00%"
    for n in range(1500):
        yield f"mem avail: {21000 + n % 400} of 31885 MiB ({66 + n % 2}.1{n % 9}%), swap free:    0 of    0 MiB ( 0.00%)"
        yield f"low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\nanon {100200300 + n}"
        yield f'container_memory_working_set_bytes{{pod="a-{n % 9}"}} 6.1e+10'
        yield f'container_oom_events_total{{pod="a-{n % 9}"}} 0'
    yield '"OOMKilled": false,'


LOGS: Final[tuple[Callable[[], Iterator[str]], ...]] = (
    vllm, sglang, verl, openrlhf, deepspeed, megatron, jax, tensorflow, lightning, transformers, torchtitan, cluster,
)  # fmt: skip
