"""Failures of memory in the words of programs that do not exist, each with a twin that tells of none.

A row: what is printed, the pool that ran out, who refused ("" where the text leaves it open), the figures that it
states, and the twin. They were written before the reader was, and from no program's source.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

MIB: Final = 1024**2
GIB: Final = 1024**3


class Wording(NamedTuple):
    text: str
    pool: str
    refuser: str
    figures: dict[str, Any]
    twin: str


def _row(text: str, twin: str, pool: str, refuser: str = "", **figures: Any) -> Wording:
    return Wording(text, pool, refuser, figures, twin)


DEVICE: Final = (
    _row(
        "Traceback (most recent call last):\n"
        '  File "/srv/fit.py", line 88, in step\n'
        "    out = net(batch)\n"
        "tessera.DeviceMemoryError: could not reserve 1.2 GiB on accelerator 3",
        "INFO tessera: reserved 1.2 GiB on accelerator 3",
        "gpu",
        tried_bytes=round(1.2 * GIB),
    ),
    _row(
        "ERROR: Could not allocate 4096 MB of video memory",
        "WARNING: Could not allocate 4096 MB of video memory, using system memory instead",
        "gpu",
        tried_bytes=4096 * MIB,
    ),
    _row(
        "ferrite::CudaPoolAllocator: unable to obtain 58982400 Bytes from the device\nfatal: ferrite aborted",
        "ferrite::CudaPoolAllocator: obtained 58982400 Bytes from the device",
        "gpu",
        "library",
        tried_bytes=58982400,
    ),
    _row(
        "[2026-02-03 10:11:12.101] [sim] [error] PbdDeviceHeap refused a block of 335544320 bytes (150994944 bytes free)",
        "[2026-02-03 10:11:12.101] [sim] [info] PbdDeviceHeap gave a block of 335544320 bytes (850994944 bytes free)",
        "gpu",
        "library",
        tried_bytes=335544320,
        free_bytes=150994944,
    ),
    _row(
        "2026-05-06T07:08:09.123456Z ERROR corvid::device: buffer does not fit: needs 6.50 GiB, 2.25 GiB available on gpu0",
        "2026-05-06T07:08:09.123456Z INFO corvid::device: buffer fits: needs 1.50 GiB, 2.25 GiB available on gpu0",
        "gpu",
        tried_bytes=round(6.5 * GIB),
        free_bytes=round(2.25 * GIB),
    ),
    _row(
        "E1203 04:05:06.789012 4242 device_arena.cc:118] Not enough HBM: 3221225472 bytes requested, 1073741824 bytes "
        "remaining",
        "I1203 04:05:06.789012 4242 device_arena.cc:118] HBM: 1221225472 bytes requested, 3073741824 bytes remaining",
        "gpu",
        tried_bytes=3 * GIB,
        free_bytes=GIB,
    ),
    _row(
        "drvMapPages: ERR_NO_DEVICE_MEMORY while mapping 0x8000000 bytes",
        "drvMapPages: mapped 0x8000000 bytes",
        "gpu",
        "driver",
        tried_bytes=0x8000000,
    ),
    _row(
        "RuntimeError: The GPU driver ran out of memory while creating a context",
        "RuntimeError: The GPU driver was reloaded while creating a context",
        "gpu",
        "driver",
    ),
    _row(
        "Out of memory: DRAM bank 5 holds 1073741824 B, tensor of 1610612736 B cannot be placed",
        "DRAM bank 5 holds 1073741824 B, tensor of 161061273 B placed",
        "gpu",
        tried_bytes=1610612736,
    ),
    _row(
        "Out of Memory: no 2097152 B buffer can be had on device 0",
        "Out of Memory handler installed for device 0",
        "gpu",
        tried_bytes=2 * MIB,
    ),
    _row(
        "Sampling:  36%|###6      | 9/25 [00:41<01:13,  4.61s/it]Error: no device memory left at line 77 of pool.cu",
        "Sampling:  36%|###6      | 9/25 [00:41<01:13,  4.61s/it, no device memory warnings]",
        "gpu",
        "library",
    ),
    _row(
        "Traceback (most recent call last):\n"
        '  File "/srv/serve.py", line 5, in <module>\n'
        "fennel.NoRoom: the card has 512 MiB left and 2 GiB were asked for",
        "Traceback (most recent call last):\n"
        '  File "/srv/serve.py", line 5, in <module>\n'
        "fennel.NoRoute: the card is at slot 3 and slot 2 was asked for",
        "gpu",
        tried_bytes=2 * GIB,
        free_bytes=512 * MIB,
    ),
    _row(
        "2026-03-04 05:06:07 | ERROR | stderr | RuntimeError: device reports that its memory is exhausted",
        "2026-03-04 05:06:07 | ERROR | stderr | RuntimeError: device reports that its clock is throttled",
        "gpu",
    ),
    _row(
        "fatal: failed to fit parameters to free device memory (short by 5120 MiB)",
        "parameters fit to free device memory (5120 MiB to spare)",
        "gpu",
    ),
    _row(
        "GlyphRenderer: vertexBufferAlloc(805306368) failed, VRAM budget exceeded\nfatal error: cannot continue",
        "GlyphRenderer: vertexBufferAlloc(805306368) succeeded, VRAM budget kept",
        "gpu",
        "library",
    ),
    _row(
        "tensor store: 12.0 GiB larger than the 8.0 GiB that cuda:1 can give\nFATAL: stopping",
        "tensor store: 12.0 GiB, smaller than the 18.0 GiB that cuda:1 can give",
        "gpu",
        tried_bytes=12 * GIB,
    ),
    _row(
        "RuntimeError: workspace of 6442450944 bytes exceeds the 4294967296 bytes free on device 2",
        "RuntimeError: workspace of 6442450944 bytes is not aligned to 4096 bytes on device 2",
        "gpu",
        tried_bytes=6442450944,
        free_bytes=4294967296,
    ),
    _row(
        "lumenAllocDevice -> LUMEN_ERROR_OUT_OF_DEVICE_MEMORY (size=1342177280)",
        "lumenAllocDevice -> LUMEN_SUCCESS (size=1342177280)",
        "gpu",
        "driver",
        tried_bytes=1342177280,
    ),
    _row(
        "ERROR 2026-01-02 03:04:05 solver: cuFactorize needs a scratch buffer of 9.1GB but only 3.3GB of VRAM are free",
        "INFO 2026-01-02 03:04:05 solver: cuFactorize needs a scratch buffer of 1.1GB and 3.3GB of VRAM are free",
        "gpu",
        "library",
        tried_bytes=round(9.1 * GIB),
        free_bytes=round(3.3 * GIB),
    ),
    _row(
        "Exception: model weights require 48.2 GB of GPU memory; the GPU has 23.6 GB",
        "model weights require 8.2 GB of GPU memory; the GPU has 23.6 GB",
        "gpu",
        tried_bytes=round(48.2 * GIB),
    ),
    _row(
        "terminate called after throwing an instance of 'pike::DeviceOutOfMemory'\n"
        "  what():  hipPoolTake(1073741824): pool drained",
        "terminate called after throwing an instance of 'pike::DeviceLost'\n  what():  hipPoolTake: device lost",
        "gpu",
        "library",
    ),
    _row(
        "F0000 00:00:1760000000.123456 991 stream_pool.cc:71] Check failed: ptr != nullptr accelerator memory depleted "
        "after 77 allocations",
        "I0000 00:00:1760000000.123456 991 stream_pool.cc:71] accelerator memory returned after 77 allocations",
        "gpu",
    ),
    _row(
        "[rank3]: ring setup: insufficient device memory for 16 channels (need 268435456, have 67108864)\n"
        "[rank3]: ring setup failed",
        "[rank3]: ring setup: device memory for 16 channels reserved (268435456)",
        "gpu",
        "library",
        tried_bytes=268435456,
        free_bytes=67108864,
    ),
    _row(
        "RuntimeError: [quill] image batch too large for the graphics card: 14.1 GiB required, 11.9 GiB usable",
        "RuntimeError: [quill] image batch too small for batch norm: 14 required, 11 given",
        "gpu",
        tried_bytes=round(14.1 * GIB),
    ),
    _row(
        "error: npuMalloc returned code 7: no space on device",
        "error: npuMalloc returned code 9: bad alignment on device",
        "gpu",
        "driver",
    ),
    _row(
        "[E] metal backend: heap refused 2.0 GiB, recommended working set is 10.7 GiB and 10.1 GiB are taken",
        "[I] metal backend: heap gave 0.2 GiB, recommended working set is 10.7 GiB and 1.1 GiB are taken",
        "gpu",
        "driver",
        tried_bytes=2 * GIB,
    ),
    _row(
        "java.lang.RuntimeException: device allocation of 512 MB denied by the pool\n"
        "\tat io.larch.Device.take(Device.java:91)\n\tat io.larch.Main.main(Main.java:12)",
        "java.lang.RuntimeException: device registration denied by the server\n"
        "\tat io.larch.Device.take(Device.java:91)\n\tat io.larch.Main.main(Main.java:12)",
        "gpu",
        tried_bytes=512 * MIB,
    ),
    _row(
        "panic: vram: want 3758096384 have 1879048192\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:31 +0x1d",
        "vram: want 1758096384 have 3879048192",
        "gpu",
        tried_bytes=3758096384,
        free_bytes=1879048192,
    ),
)

CACHE: Final = (
    _row(
        "RuntimeError: Remaining 36000 cache tokens, but this prompt requires 96000",
        "INFO Remaining 96000 cache tokens, this prompt requires 36000",
        "kv_cache",
        "engine",
        unit="tokens",
        needed=96000,
        available=36000,
    ),
    _row(
        "ERROR engine: request r-17 needs 300 KV blocks, 120 free, aborting the request",
        "INFO engine: request r-17 needs 30 KV blocks, 120 free",
        "kv_cache",
        "engine",
        unit="blocks",
        needed=300,
        available=120,
    ),
    _row(
        "ValueError: context window of 65536 tokens is larger than the 20480 tokens that the KV cache can store",
        "ValueError: context window of 65536 tokens is larger than the 20480 tokens that the tokenizer allows",
        "kv_cache",
        "engine",
        unit="tokens",
        needed=65536,
    ),
    _row(
        "thread 'scheduler' panicked at src/paged.rs:210:9:\nkv cache exhausted: 0 of 4096 pages free",
        "thread 'scheduler' panicked at src/paged.rs:210:9:\nindex out of bounds: the len is 4096 but the index is 4097",
        "kv_cache",
        "engine",
    ),
    _row(
        "decode: failed to find a free cell for a batch of 512 (kv cells: 8192, used: 8192)\nerror: decode failed",
        "decode: found cells for a batch of 512 (kv cells: 8192, used: 1192)",
        "kv_cache",
        "engine",
    ),
    _row(
        '{"level":"error","msg":"paged cache cannot hold the sequence","needed_blocks":901,"free_blocks":344}',
        '{"level":"info","msg":"paged cache holds the sequence","needed_blocks":301,"free_blocks":344}',
        "kv_cache",
        "engine",
        unit="blocks",
        needed=901,
        available=344,
    ),
    _row(
        "AssertionError: prompt length 12000 exceeds kv cache capacity 8192",
        "AssertionError: prompt length 12000 exceeds the tokenizer's maximum 8192",
        "kv_cache",
        "engine",
    ),
    _row(
        "ERROR 04-05 06:07:08 [engine.py:301] No KV slots available for 16 sequences; 9 slots remain",
        "INFO 04-05 06:07:08 [engine.py:301] KV slots available for 6 sequences; 9 slots remain",
        "kv_cache",
        "engine",
        available=9,
    ),
    _row(
        "RuntimeError: after loading the weights nothing remains for the KV cache (-2.3 GiB)",
        "INFO after loading the weights 22.3 GiB remain for the KV cache",
        "kv_cache",
        "engine",
    ),
    _row(
        "FATAL: KvCachePool too small: one sequence of max_len takes 10.0 GiB, pool has 6.4 GiB",
        "KvCachePool: one sequence of max_len takes 1.0 GiB, pool has 6.4 GiB",
        "kv_cache",
        "engine",
        tried_bytes=10 * GIB,
    ),
    _row(
        "ValueError: num_blocks=3 but at least 17 cache blocks are required for max_model_len",
        "ValueError: num_blocks=3 but a multiple of 17 is required for the mesh",
        "kv_cache",
        "engine",
        needed=17,
        available=3,
    ),
    _row(
        "E [batcher] request of 18000 tokens can never be scheduled: total kv budget is 16384 tokens",
        "I [batcher] request of 8000 tokens scheduled: total kv budget is 16384 tokens",
        "kv_cache",
        "engine",
        unit="tokens",
        needed=18000,
    ),
)

HOST: Final = (
    _row(
        "ERROR shard 4: unable to get 17179869184 bytes of RAM for the sample index",
        "INFO shard 4: got 17179869184 bytes of RAM for the sample index",
        "host_ram",
        tried_bytes=16 * GIB,
    ),
    _row(
        'time="2026-01-01T00:00:01Z" level=error msg="worker: cannot map 8 GiB: out of memory"',
        'time="2026-01-01T00:00:01Z" level=info msg="worker: mapped 8 GiB"',
        "host_ram",
        tried_bytes=8 * GIB,
    ),
    _row(
        'level=ERROR ts=2026-01-01T00:00:01Z component=spill err="host memory exhausted: asked for 2.5GiB, 310MiB left"',
        'level=INFO ts=2026-01-01T00:00:01Z component=spill msg="host memory: asked for 2.5GiB, 31GiB left"',
        "host_ram",
        tried_bytes=round(2.5 * GIB),
        free_bytes=310 * MIB,
    ),
    _row(
        '{"severity":"ERROR","message":"buffer pool could not grow by 4 GiB: system memory is gone"}',
        '{"severity":"INFO","message":"buffer pool grew by 4 GiB: system memory is fine"}',
        "host_ram",
        tried_bytes=4 * GIB,
    ),
    _row(
        "thread 'main' panicked at src/index.rs:40:9:\nhost allocation of 21474836480 bytes failed",
        "thread 'main' panicked at src/index.rs:40:9:\nhost lookup of node-17 failed",
        "host_ram",
        tried_bytes=20 * GIB,
    ),
    _row(
        'Exception in thread "main" com.sedge.MemoryLimitException: query needs 12884901888 bytes, limit is 8589934592 '
        "bytes\n\tat com.sedge.Plan.run(Plan.java:310)\n\tat com.sedge.Main.main(Main.java:44)",
        'Exception in thread "main" com.sedge.RowLimitException: query returns 12884901888 rows, limit is 8589934592 '
        "rows\n\tat com.sedge.Plan.run(Plan.java:310)\n\tat com.sedge.Main.main(Main.java:44)",
        "host_ram",
        tried_bytes=12884901888,
        limit_bytes=8589934592,
    ),
    _row(
        "loom: fatal: malloc(4294967296) returned null\nloom: aborting",
        "loom: malloc(4294967296) returned 0x7f2a10000000",
        "host_ram",
        tried_bytes=4 * GIB,
    ),
    _row(
        "RuntimeError: join would take 220 GiB of memory but the machine has 125 GiB",
        "INFO join takes 20 GiB of memory and the machine has 125 GiB",
        "host_ram",
        tried_bytes=220 * GIB,
    ),
    _row(
        "ERROR: heap of the tokenizer service is full (8192 MB of 8192 MB), request dropped, shutting down",
        "heap of the tokenizer service: 819 MB of 8192 MB",
        "host_ram",
    ),
    _row(
        "sort: FATAL cannot extend the arena from 48.0 GiB to 64.0 GiB: Cannot allocate memory",
        "sort: extended the arena from 48.0 GiB to 64.0 GiB",
        "host_ram",
    ),
    _row(
        "Traceback (most recent call last):\n"
        '  File "/srv/prep.py", line 9, in load\n'
        "    table = read_all(path)\n"
        "osier.errors.RamShortage: reading 'train.bin' wants 310 GB, 251 GB of RAM available",
        "Traceback (most recent call last):\n"
        '  File "/srv/prep.py", line 9, in load\n'
        "    table = read_all(path)\n"
        "osier.errors.ColumnShortage: reading 'train.bin' wants 310 columns, 251 available",
        "host_ram",
        tried_bytes=310 * GIB,
        free_bytes=251 * GIB,
    ),
    _row(
        "fatal: parameter server: insufficient RAM (wanted: 64G, available: 41G)",
        "parameter server: RAM checked (wanted: 24G, available: 41G)",
        "host_ram",
        tried_bytes=64 * GIB,
        free_bytes=41 * GIB,
    ),
    _row(
        "ERROR arena_realloc: request for 3221225472 bytes could not be served, process at 98% of memory",
        "DEBUG arena_realloc: request for 3221225472 bytes served, process at 38% of memory",
        "host_ram",
        tried_bytes=3 * GIB,
    ),
    _row(
        "2026-07-08 09:10:11.123 ERROR 17 --- [pool-2] c.t.Loader : Not enough heap to decode batch: 900 MB needed, "
        "211 MB free",
        "2026-07-08 09:10:11.123  INFO 17 --- [pool-2] c.t.Loader : heap to decode batch: 100 MB needed, 211 MB free",
        "host_ram",
        tried_bytes=900 * MIB,
        free_bytes=211 * MIB,
    ),
    _row(
        "larkd[881]: swap and memory are both exhausted, giving up\nlarkd[881]: exit 1",
        "larkd[881]: swap and memory are both monitored",
        "host_ram",
    ),
    _row(
        "fork of worker 12 failed: the system has no memory for it\nERROR launcher stopped",
        "fork of worker 12 failed: too many processes for this user\nERROR launcher stopped",
        "host_ram",
    ),
    _row(
        "Error: the in-memory shuffle requires at least 96 GiB, this host has 62.5 GiB",
        "the in-memory shuffle requires at least 16 GiB, this host has 62.5 GiB",
        "host_ram",
        tried_bytes=96 * GIB,
    ),
    _row(
        "CRITICAL - Memory use of 61.2 GiB surpasses the budget of 60 GiB; terminating the process",
        "INFO - Memory use of 41.2 GiB stays within the budget of 60 GiB",
        "host_ram",
        limit_bytes=60 * GIB,
    ),
)

CONTAINER: Final = (
    _row(
        'E0615 12:13:14.151617    2211 pod_workers.go:77] container "fit" went over its memory limit of 32Gi and was ended',
        'I0615 12:13:14.151617    2211 pod_workers.go:77] container "fit" was given its memory limit of 32Gi',
        "cgroup",
        "scheduler",
        limit_bytes=32 * GIB,
    ),
    _row(
        'time="2026-06-15T12:13:14Z" level=warning msg="stopping task: cgroup memory ceiling (16384 MiB) breached"\n'
        'time="2026-06-15T12:13:15Z" level=error msg="task failed"',
        'time="2026-06-15T12:13:14Z" level=info msg="starting task: cgroup memory ceiling (16384 MiB) set"',
        "cgroup",
    ),
    _row(
        "batchd: job 771 terminated: resident size 70.2 GB exceeds the 64.0 GB memory limit of the allocation",
        "batchd: job 771 runs: resident size 30.2 GB, memory limit of the allocation 64.0 GB",
        "cgroup",
        "scheduler",
        limit_bytes=64 * GIB,
    ),
    _row(
        "ERROR sandbox: the container's memory (8.00 GiB) is used up\nERROR sandbox: killed",
        "INFO sandbox: the container's memory (8.00 GiB) is monitored",
        "cgroup",
    ),
)

PINNED_AND_SHARED: Final = (
    _row(
        "RuntimeError: unable to pin 24.0 GiB of host memory for offloading",
        "INFO pinned 24.0 GiB of host memory for offloading",
        "pinned",
        tried_bytes=24 * GIB,
    ),
    _row(
        "ERROR: could not lock 1073741824 bytes: page-locked memory limit is 67108864 bytes",
        "could lock 10737418 bytes: page-locked memory limit is 67108864 bytes",
        "pinned",
        tried_bytes=GIB,
        limit_bytes=64 * MIB,
    ),
    _row(
        "fatal: staging: no pinned buffers left for 8 readers",
        "staging: 12 pinned buffers left for 8 readers",
        "pinned",
    ),
    _row(
        "OSError: shared memory segment of 4.0 GiB cannot be created, /dev/shm has 64 MiB",
        "OSError: shared memory segment psm_a1 cannot be opened: No such file or directory",
        "shm",
        tried_bytes=4 * GIB,
    ),
    _row(
        "ERROR ring buffer: shm is full (used 64 MB of 64 MB)",
        "INFO ring buffer: shm in use (used 14 MB of 64 MB)",
        "shm",
    ),
    _row(
        "fatal error: not enough room in /dev/shm: 2.0 GB wanted, 0.5 GB there",
        "room in /dev/shm: 0.2 GB wanted, 0.5 GB there",
        "shm",
        tried_bytes=2 * GIB,
    ),
)

SCHEDULING: Final = (
    _row(
        "ValueError: tensor parallel size (8) must be <= the number of visible GPUs (2)",
        "ValueError: tensor parallel size (8) must divide the number of attention heads (12)",
        "scheduling",
        "scheduler",
        unit="devices",
        needed=8,
        available=2,
    ),
    _row(
        "RuntimeError: requested 16 accelerators, only 4 are visible",
        "RuntimeError: requested 16 accelerators, peer 4 is unreachable",
        "scheduling",
        "scheduler",
        unit="devices",
        needed=16,
        available=4,
    ),
    _row(
        "ERROR placement: job train-7 wants 6 nodes but the cluster has 4 nodes",
        "INFO placement: job train-7 wants 3 nodes and the cluster has 4 nodes",
        "scheduling",
        "scheduler",
        unit="nodes",
        needed=6,
        available=4,
    ),
    _row(
        "Exception: not enough devices: mesh (4, 4) needs 16 devices, 8 devices found",
        "mesh (4, 2) needs 8 devices, 8 devices found",
        "scheduling",
        "scheduler",
        unit="devices",
        needed=16,
        available=8,
    ),
    _row(
        "fatal: device index 5 requested but only 4 GPUs are available",
        "fatal: device index 5 requested but the name is reserved",
        "scheduling",
        "scheduler",
    ),
    _row(
        "AssertionError: world size 64 is larger than the 32 GPUs of the resource pool",
        "AssertionError: world size 64 is no multiple of 48",
        "scheduling",
        "scheduler",
        needed=64,
        available=32,
    ),
    _row(
        "INFO launcher: 8 workers asked for\nINFO launcher: waiting for 8 GPUs to become free\n"
        "INFO launcher: still waiting for 8 GPUs to become free (3 free)",
        "INFO launcher: waiting for 8 GPUs to become free\nINFO launcher: 8 GPUs assigned\nstep 1 loss 3.1\nstep 2 loss 3.0",
        "scheduling",
        "scheduler",
    ),
    _row(
        "ERROR scheduler: no node has 1.5 TB of memory for task prep-3, the largest has 512 GB",
        "INFO scheduler: node n7 has 1.5 TB of memory for task prep-3",
        "scheduling",
        "scheduler",
    ),
)

MORE: Final = (
    _row(
        "fatal: unable to secure a contiguous region of 768 MiB (largest hole: 200 MiB) in device memory",
        "secured a contiguous region of 768 MiB (largest hole: 2000 MiB) in device memory",
        "gpu",
        tried_bytes=768 * MIB,
    ),
    _row(
        "mossDeviceAlloc: rc=2 (out of device memory), bytes=11811160064",
        "mossDeviceAlloc: rc=0 (success), bytes=11811160064",
        "gpu",
        tried_bytes=11811160064,
    ),
    _row(
        "ERROR: VAE decode ran the card out of memory at 2048x2048",
        "INFO: VAE decode ran at 2048x2048, no tiling needed",
        "gpu",
    ),
    _row(
        "error: could not create a tensor of 3.00 GiB: accelerator memory is full",
        "error: could not create a tensor of rank 9: accelerator supports 8",
        "gpu",
        tried_bytes=3 * GIB,
    ),
    _row(
        "RuntimeError: Activation checkpointing buffer (18.4 GiB) won't fit on cuda:0 (6.1 GiB unused)",
        "INFO Activation checkpointing buffer (1.4 GiB) fits on cuda:0 (6.1 GiB unused)",
        "gpu",
        "framework",
        tried_bytes=round(18.4 * GIB),
        free_bytes=round(6.1 * GIB),
    ),
    _row(
        "CRITICAL:root:tensor allocator gave up: 2.75 GiB not obtainable from the GPU",
        "DEBUG:root:tensor allocator woke up: 2.75 GiB obtained from the GPU",
        "gpu",
        "framework",
        tried_bytes=round(2.75 * GIB),
    ),
    _row(
        "xblasGemm failed: XBLAS_NOT_ENOUGH_DEVICE_MEMORY",
        "xblasGemm failed: XBLAS_NOT_SUPPORTED",
        "gpu",
        "library",
    ),
    _row(
        "fftPlanMany: work area of 5368709120 bytes rejected by device 1\nRuntimeError: plan was not created",
        "fftPlanMany: work area of 5368709120 bytes accepted by device 1",
        "gpu",
        "library",
        tried_bytes=5 * GIB,
    ),
    _row(
        "engine stopped: gpu memory headroom is 0.4 GiB, capture of graphs needs 1.9 GiB\nERROR exit",
        "engine: gpu memory headroom is 10.4 GiB, capture of graphs needs 1.9 GiB",
        "gpu",
        tried_bytes=round(1.9 * GIB),
    ),
    _row(
        "ERR device=1 op=alloc size=1879048192 result=NOMEM",
        "OK device=1 op=alloc size=1879048192 result=DONE",
        "gpu",
        tried_bytes=1879048192,
    ),
    _row(
        "RuntimeError: exceeded device memory: peak 81.5 GiB, capacity 79.2 GiB",
        "peak device memory 71.5 GiB, capacity 79.2 GiB",
        "gpu",
    ),
    _row(
        "2026-04-04 04:04:04,404 CRITICAL rollout.py:90 the object store ran full: 12 objects (30 GiB) cannot be stored",
        "2026-04-04 04:04:04,404 INFO rollout.py:90 the object store: 12 objects (30 GiB) stored",
        "object_store",
    ),
    _row(
        "ERROR checkpoint: gathering 140 GiB of state exceeds the 96 GiB of RAM on this host",
        "INFO checkpoint: gathering 40 GiB of state on this host with 96 GiB of RAM",
        "host_ram",
        tried_bytes=140 * GIB,
    ),
    _row(
        "Killed preprocess step: it wanted more memory than the machine has",
        "Skipped preprocess step: it wanted more columns than the table has",
        "host_ram",
    ),
    _row(
        "ERROR: the reader is starved of memory and cannot proceed",
        "ERROR: the reader is starved of batches and cannot proceed",
        "host_ram",
    ),
    _row(
        "fatal: memory could not be obtained for 4 stages",
        "fatal: credentials could not be obtained for 4 stages",
        "host_ram",
    ),
    _row(
        "RuntimeError: GPU 0 lacks the 2.2 GiB that layer 31 needs",
        "RuntimeError: GPU 0 lacks the instruction that layer 31 needs",
        "gpu",
    ),
    _row(
        "ERROR vkDeviceHeap: VK_HEAP_FULL, 3 of 3 heaps",
        "ERROR vkDeviceHeap: VK_HEAP_LOST, 3 of 3 heaps",
        "gpu",
        "driver",
    ),
    _row(
        "Error: gpu allocator hit its ceiling: limit 70.0 GiB, in use 69.8 GiB, requested 0.5 GiB",
        "gpu allocator below its ceiling: limit 70.0 GiB, in use 39.8 GiB, requested 0.5 GiB",
        "gpu",
        tried_bytes=round(0.5 * GIB),
        limit_bytes=70 * GIB,
    ),
    _row(
        "kernel: ebb_worker: could not get 2097152 bytes, system memory is exhausted",
        "kernel: ebb_worker: got 2097152 bytes of system memory",
        "host_ram",
        "kernel",
    ),
    _row(
        "std::runtime_error: embedding table (61 GiB) doesn't fit into the remaining 44 GiB of GPU memory",
        "embedding table (31 GiB) fits into the remaining 44 GiB of GPU memory",
        "gpu",
        tried_bytes=61 * GIB,
        free_bytes=44 * GIB,
    ),
    _row(
        "[ERR] tiles: request=2048MiB avail=1024MiB pool=vram status=denied",
        "[INF] tiles: request=1024MiB avail=2048MiB pool=vram status=granted",
        "gpu",
        tried_bytes=2048 * MIB,
        free_bytes=1024 * MIB,
    ),
    _row(
        "ERROR rollout worker 5: paged attention pool drained, 0 pages for 3 sequences",
        "INFO rollout worker 5: paged attention pool ready, 4096 pages for 3 sequences",
        "kv_cache",
        "engine",
    ),
    _row(
        "RuntimeError: cannot enlarge memory mapping to 0x2000000000 bytes",
        "RuntimeError: cannot open memory mapping of 0x2000000000: invalid handle",
        "host_ram",
        tried_bytes=0x2000000000,
    ),
)

# What stands around the words: who passes them on, what is above them, what they are the name of
AROUND: Final = (
    _row(
        "2026-02-11 08:31:04,117 ERROR relay stderr: packer: could not reserve 3 GiB of RAM",
        "2026-02-11 08:31:04,117 ERROR relay stderr: packer: warning: could not reserve 3 GiB of RAM",
        "host_ram",
        tried_bytes=3 * GIB,
    ),
    _row(
        "packer: error: could not reserve 3 GiB of huge pages",
        "packer: warning: could not reserve 3 GiB of huge pages",
        "pinned",  # of a pool that is never swapped
        tried_bytes=3 * GIB,
    ),
    _row(
        "Error using packGrid\nMaximum grid size allowed on the device is exceeded.",
        "Notes on packGrid\nMaximum grid size allowed on the device is exceeded.",
        "gpu",
    ),
    _row(
        "pack.lua:31: memory allocation error: block of 61 GiB",
        "pack.lua:31: memory allocation errors are listed below: none",
        "host_ram",
        tried_bytes=61 * GIB,
    ),
    _row(
        "ERROR could not allocate arena (bytes=8589934592, align=64)",
        "ERROR could not allocate port (number=8589, tries=64)",
        "host_ram",
        tried_bytes=8 * GIB,
    ),
    _row(
        "the packer has run out of memory",
        "the packer has run out of work; memory is fine",
        "host_ram",
    ),
    _row(
        "ERROR packer: memory usage limit reached",
        "ERROR packer: memory usage report not sent",
        "host_ram",
    ),
    _row(
        "ERROR launcher: packer left: OutOfMemory",
        "ERROR launcher: unknown flag, known are --dumpOnOutOfMemory --exitOnOutOfMemoryError",
        "host_ram",
    ),
    _row(
        "02/11/2026 08:31:04;0001;packd;Svr;packd;Out of memory sorting rows",
        "02/11/2026 08:31:04;0001;packd;Svr;packd;Sorting rows, out of which memory holds half",
        "host_ram",
    ),
    _row(
        "Warning  PackFailed  12s  packd  failed to place rows, no host with enough memory",
        "Warning: rows are packed twice, no host lacks memory",
        "host_ram",
    ),
    _row(
        "Error: failed to allocate message copies",
        "Error: failed to allocate port numbers",
        "host_ram",
    ),
    _row(
        "packd::sort rows by key: cannot allocate memory",
        "packd::sort rows by key: cannot allocate a port",
        "host_ram",
    ),
    _row(
        "ERROR packer: heap is exhausted",
        "ERROR packer: stack overflow in heap walk",
        "host_ram",
    ),
    _row(
        "##[error]packer: the maximum allowed memory size was exceeded",
        "## packer: when the maximum allowed memory size is exceeded",
        "host_ram",
    ),
)

PLACES: Final = (
    _row(
        "Error: this network does not fit on the accelerators here, and exceeds what they hold by 6 GiB",
        "Error: this label does not fit on the page, and exceeds it by 6 mm",
        "gpu",
        missing_bytes=6 * GIB,
    ),
    _row(
        "Error: device gpu0 cannot fit its weights, buffers and caches within 5120 MB of usable memory",
        "Error: device gpu0 cannot parse its weights, buffers and caches within 5 s",
        "gpu",
    ),
    _row(
        "ERROR render: out of GPU and host memory, frame 12 dropped",
        "INFO render: out of frames, host memory is fine",
        "gpu",
    ),
    _row(
        "AssertionError: impossible to place another sequence in the KV cache",
        "AssertionError: impossible to name another sequence in the report",
        "kv_cache",
        "engine",
    ),
    _row(
        "ValueError: the KV pool's budget 2147483648 cannot fit one long sequence of this batch",
        "ValueError: the KV pool's budget 2147483648 cannot be negative",
        "kv_cache",
        "engine",
    ),
)
OWN_WORDS: Final = (
    _row(
        "BlockError: allocator has 12 free blocks, but 20 were requested",
        "INFO allocator has 20 free blocks, but 12 were requested",
        "kv_cache",
        "engine",
        needed=20,
        available=12,
        unit="blocks",
    ),
    _row(
        "AssertionError: alloc: need_size 4096 left_size 1201",
        "AssertionError: alloc: need_size 1201 left_size 4096 of another type",
        "host_ram",
    ),
    _row(
        "RuntimeError: insufficient workspace for the device's factorization",
        "RuntimeError: insufficient permissions for the device's workspace",
        "gpu",
    ),
    _row(
        "RuntimeError: insufficient hugepages: 12 free, 512 required",
        "INFO hugepages: 512 free, 12 required",
        "host_ram",
    ),
    _row(
        "Error: loading was stopped due to insufficient system resources, 41 GB of memory are required",
        "Error: loading was stopped by the user, 41 GB of memory are required",
        "host_ram",
    ),
    _row(
        "E20260203 10:11:12.101331 88121 grid.cc:14] could not reserve 3 GiB of device memory",
        "W20260203 10:11:12.101331 88121 grid.cc:14] could not reserve 3 GiB of device memory, it is tried later",
        "gpu",
        tried_bytes=3 * GIB,
    ),
    _row(
        "RuntimeError: Exception from src/plugin.cpp:54:\n"
        "Check 'fits(size)' failed at src/plugin.cpp:96:\n"
        "the scratch block is larger than the available host memory",
        "RuntimeError: Exception from src/plugin.cpp:54:\n"
        "Check 'fits(name)' failed at src/plugin.cpp:96:\n"
        "the name is longer than the column",
        "host_ram",
    ),
    _row(
        "/build/src/heap.cpp (160) : out of memory : PinnedArena: overflowing its first size",
        "/build/src/heap.cpp (160) : warning : PinnedArena: growing beyond its first size",
        "pinned",
    ),
    _row(
        "Error: Out of memory in HIP queue copy_in (Invalid value)",
        "Error: Invalid value for the policy out_of_memory in HIP queue",
        "gpu",
    ),
    _row(
        "RuntimeError: could not allocate 3221225472 bytes on device 'cpu'",
        "RuntimeError: could not find 3221225472 on device 'cpu'",
        "host_ram",
        tried_bytes=3 * GIB,
    ),
    _row(
        "RuntimeError: failed to register memory 0x7f2a40000000: Cannot allocate memory [12]",
        "RuntimeError: failed to register handler 0x7f2a40000000: already exists",
        "pinned",
        tried_bytes=None,
    ),
    _row(
        "ValueError: tile 7 needs 6 GiB of shared memory but only 2 GiB are available",
        "ValueError: tile 7 needs 245760 B of shared memory but only 232448 B are available",
        "shm",
        tried_bytes=6 * GIB,
    ),
    _row(
        "ValueError: not enough resources to reserve 4 placement groups",
        "INFO enough resources to reserve 4 placement groups",
        "scheduling",
        "scheduler",
    ),
    _row(
        "RuntimeError: no node of this ring has enough memory",
        "RuntimeError: no node of this ring has enough votes",
        "host_ram",
    ),
    _row(
        "terminate called after throwing an instance of 'std::runtime_error'\n  what():  posix_memalign failed",
        "terminate called after throwing an instance of 'std::runtime_error'\n  what():  posix_spawn failed",
        "host_ram",
    ),
    _row(
        "[ERROR] tensor.cc(119)::Resize: allocate cpu memory error",
        "[ERROR] tensor.cc(119)::Resize: shape error, cpu memory is allocated",
        "host_ram",
    ),
    _row(
        "RuntimeError: the allocated workspace of the device is too small",
        "RuntimeError: the device of the workspace is too slow",
        "gpu",
    ),
    _row(
        "error(llm): not enough KV cache tokens remaining (12 available, 40 needed)",
        "warning(llm): not enough KV cache tokens remaining (12 available, 40 needed)",
        "kv_cache",
        "engine",
    ),
    _row(
        "RuntimeError: driver error while trying to pin memory. error: 2, size: 4294967296",
        "RuntimeError: driver error while trying to open memory. error: 2, size: 4294967296",
        "pinned",
        tried_bytes=4294967296,
    ),
    _row(
        "ERROR Malloc returns null: len=4294967296 in frames",
        "ERROR lookup returns null: len=4294967296 in frames",
        "host_ram",
        tried_bytes=4 * GIB,
    ),
)

COUNTED: Final = (
    _row(
        "kiln.BakeError: request 12 | no dough slots available",
        "kiln.BakeError: request 12 | no dough name given",
        "kv_cache",
    ),
    _row(
        "RuntimeError: No loaf fits into device memory with this oven",
        "RuntimeError: No loaf fits the name of this oven",
        "gpu",
    ),
    _row(
        "ERROR kiln: the KV cache has no free blocks left",
        "WARNING kiln: Failed to register loaf 'rye' in KV store: refused",
        "kv_cache",
    ),
    _row(
        "RuntimeError: Insufficient memory for the bake on device 0. Available: 1.2 GB, required: 2.4 GB",
        "kiln/bake.py:56: UserWarning: Insufficient memory for a quick bake on device 0. Going slowly.",
        "gpu",
    ),
    _row(
        "ERROR: device OutOfMemoryError encountered while merging loaves.",
        "WARNING: device OutOfMemoryError encountered while merging loaves. Switching to a merge on the CPU.",
        "gpu",
    ),
    _row(
        "kiln.TrayError: tray pool out of device memory: cannot allocate a tray of 2 GiB. Consider a larger pool when "
        "calling pin_memory",
        "kiln.TrayError: tray pool named twice. Consider another name when calling pin_memory",
        "gpu",
        tried_bytes=2 * GIB,
    ),
    _row(
        "AssertionError: num_gpus 6 > available_gpu 4",
        "AssertionError: num_gpus 4 > configured_gpu 6",
        "scheduling",
        "scheduler",
    ),
    _row(
        "kiln.ShardError: Not enough GPUs for the kiln's shards in this cluster",
        "INFO kiln: skipping the sharded bake, not enough GPUs",
        "scheduling",
        "scheduler",
    ),
    _row(
        "kiln.PlacementError: the cluster cannot meet the required number of nodes",
        "kiln.PlacementError: the cluster cannot read the required file",
        "scheduling",
        "scheduler",
    ),
    _row(
        "Kiln: RuntimeError: A context of 9,000 tokens does not fit here. The largest that fits is 4,096 tokens, and "
        "there is nothing to move",
        "Kiln: RuntimeError: A context of 9,000 tokens was asked for. The largest that fits is 12,288 tokens",
        "kv_cache",
        needed=9000,
        available=4096,
    ),
    _row(
        "ValueError: the memory on this node available for bakers and glazers (0.4 GB) is less than 5% of it",
        "ValueError: the memory of this bank available for bakers is less interesting",
        "host_ram",
    ),
    _row(
        "NotImplementedError: can not find a block from the device memory pool",
        "NotImplementedError: finding a block from the device memory pool",
        "gpu",
    ),
    _row(
        'Traceback (most recent call last):\n  File "/srv/engine/inference/contexts/round.py", line 12, in __init__\n'
        "AssertionError: Not enough memory for 8 bakers. Need 24.5 GB, but total buffer is 20.0 GB.",
        'Traceback (most recent call last):\n  File "/srv/engine/inference/contexts/round.py", line 12, in __init__\n'
        "AssertionError: Not enough names for 8 bakers.",
        "kv_cache",
    ),
    _row(
        'Traceback (most recent call last):\n  File "/srv/kiln/swap_tensor/bins.py", line 12, in take\n'
        "AssertionError: Not enough bins: Not enough buffers 1 for swapping 4",
        'Traceback (most recent call last):\n  File "/srv/kiln/swap_tensor/bins.py", line 12, in take\n'
        "AssertionError: 4 buffers for swapping 4",
        "pinned",
    ),
    _row(
        "MemoryError: the loaf needs 20 GiB, and only 16 GiB of host memory are free",
        "INFO the loaf needs 12 GiB, and 16 GiB of host memory are free",
        "host_ram",
        tried_bytes=20 * GIB,
        free_bytes=16 * GIB,
    ),
    _row(
        "RuntimeError: oven out of device memory: 3.2 GiB asked for",
        "V0511 14:01:22.118000 8811 oven/heat.py:342] [0/0] Insufficient memory even for 2 loaves: 3.21GB > 2.40GB",
        "gpu",
    ),
    _row(
        "kiln.OvenError: out of host memory, 3 GiB were asked for",
        "WARNING kiln.py:12 -- More than 4.1GB of host memory used for loaves. This job may exit if memory is insufficient.",
        "host_ram",
    ),
    _row(
        "ERROR kiln: Failed to allocate tray 14, out of device memory",
        "WARNING:kiln:Failed to allocate tray 14 from the device memory pool. It will be lazily allocated.",
        "gpu",
    ),
    _row(
        "kiln.RackError: the rack needs 2147483648 bytes of device memory, 1073741824 bytes are free",
        "kiln.RackError: get_tray: the requested size (2147483648 bytes) exceeds the allocated size (1073741824 bytes)",
        "gpu",
    ),
)

WORDINGS: Final = (
    *COUNTED, *AROUND, *DEVICE, *CACHE, *HOST, *CONTAINER, *PINNED_AND_SHARED, *SCHEDULING, *MORE, *PLACES, *OWN_WORDS
)  # fmt: skip
