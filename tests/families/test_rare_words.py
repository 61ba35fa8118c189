"""Failures of memory in rare words of programs that do not exist: what refused, of what, and how it is written down.

Beside each kind stand its near misses, which are more: pools of other things, lookups, watches, collectors.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

SAID = (
    # a check that quotes the call, and what it returned
    ("RuntimeError: [enforce fail at HeapSource.cpp:71] . posix_memalign(&ptr, 64, n) == 0. 12 vs 0", "host_ram"),
    ("RuntimeError: [enforce fail at slab.cc:9] mmap(nullptr, n) != MAP_FAILED. errno 12", "host_ram"),
    # the system's calls, by the number that they failed with
    ("RuntimeError: mapd: could not create the shared segment (errno=12)", "host_ram"),
    ("gridd: shmget(4 GiB) failed, errno = 12", "host_ram"),
    ("OSError: mremap of the halo failed: errno 12", "host_ram"),
    # behind what names the writer
    ("[halo] [rank 3] Could not allocate device memory", "gpu"),
    ("[  412.5] could not allocate memory", "host_ram"),
    # slurmstepd's plugin for cgroup v1, of Slurm 25
    ("[2026-09-14T03:26:40] [7.0] CGROUP: Detected 2 out-of-memory events in /sys/fs/cgroup/memory/x", "cgroup"),
    # libc's calls by their names
    ("ERROR: could not calloc!", "host_ram"),
    ("gridd: unable to malloc for the halo table, aborting", "host_ram"),
    ("ERROR error on realloc", "host_ram"),
    ("fatal: mesh_alloc failed!", "host_ram"),
    # a figure beside what it is too large for
    ('{"error":"model of 70.1 GiB is too large for this machine (62.0 GiB)"}', "host_ram"),
    ("ERROR tile of 9 GiB is too big for device memory (8 GiB)", "gpu"),
    ("RuntimeError: the CPU pool (8 GB) cannot hold the object of 9.1 GB", "host_ram"),
    ("E 2025-02-02 10:10:10.123 tracker.cpp(211): cannot charge 2 GiB to host memory", "host_ram"),
    ("Probe Error: /src/handle.cpp:78: Memory not available to allocate buffer: 4294967296", "host_ram"),
    # keys with a unit
    ('{"level":"ERROR","logger":"vram","message":"cannot place layer 31","required_mib":1820,"free_mib":640}', "gpu"),
    ('{"level":"ERROR","msg":"buffer does not fit","want_gb":18.5,"free_gb":6}', "host_ram"),
    ("ERROR alloc failed want_kb=4194304 free_kb=1048576 pool=gpu", "gpu"),
    # usage beside what was asked for
    ("Memory usage of 12288 MB is over the request of 8192 MB", "cgroup"),
    ("Memory usage of job 71 is over the request of 20 GB", "cgroup"),
    ("Job 4.0: memory use (7120 MB) exceeds requested memory (2048 MB), removing", "cgroup"),
    ("ERROR Memory usage exceeded the limit of 20 GB", "host_ram"),
    # a limit of queries, and none that is looked up; an error's name that says more than it means
    ("DB::Exception: Query memory limit exceeded: would use 9.3 GiB, maximum: 9.1 GiB", "host_ram"),
    ("InvalidArgumentError: Fail to allocate CPU memory: size = 68719476736 . at (/src/mem/host.cc:63)", "host_ram"),
    ("ERROR no enough cache need_size 8192 left_size 3011", "host_ram"),
    # a size held against another
    ("[error] [plan.cpp:71] GPU memory size 21.4G is smaller than 26.8G", "gpu"),
    ("ERROR: host memory 12 GiB is less than 16 GiB", "host_ram"),
    # what failed, and a smaller share would mend
    ("Exception: probe of the longest prompt failed, set --mem_fraction to a smaller value", "gpu"),
    ("RuntimeError: plan error: try a lower gpu_memory_utilization", "gpu"),
    # a level, a time and a message without a blank
    ("ERROR:2025-11-03 10:20:44,312:failed to reserve 3 GiB on the GPU", "gpu"),
    ("ERROR:2025-11-03T10:20:44Z:could not reserve 3 GiB of host memory", "host_ram"),
    # advice behind it is nobody's way round it
    ('{"error": "The GPU ran out of memory. Use a smaller batch."}', "gpu"),
    ('{"status": "error", "detail": "The device ran out of memory. Try a smaller size or a smaller batch."}', "gpu"),
    # what a runtime counts or was told
    ("Fatal error: cannot recover from MemoryErrors while formatting", "host_ram"),
    ('level=error msg="OOM received for container 8a1"', "cgroup"),
    # places of an engine by its tokens, locked memory by its bytes
    ("ERROR manager: can not alloc mem for 8192 tokens", "kv_cache"),
    ("ERROR engine: not enough blocks to schedule", "kv_cache"),
    ("ERROR swapper: could not pin 34359738368 bytes", "pinned"),
    # a driver's line has no level
    ("amdgpu 0000:03:00.0: amdgpu: Not enough memory for command submission!", "gpu"),
    ("ggml_grow: not enough space in the context's memory pool (needed 537461472, available 536870912)", "host_ram"),
    # what a program in C has no memory for is a structure of its own
    ("[gpu01:1234 :0] ring.c:592 VEDA  ERROR failed to allocate ring_priv", "host_ram"),
    ("[gpu01:1234 :0] peer_ep.c:427  VEDA  ERROR failed to allocate peer ep", "host_ram"),
    ("node1:22:33 [0] transport/p2p.cc:33 NCCL WARN NET/VEDA : unable to allocate subtrees", "host_ram"),
    ("[ERROR] grapher.hpp:2833 - alloc compute graph failed", "host_ram"),
    ("E20250202 10:10:10.1 12 loader.cpp:3619] Failed to allocate temp buffer for file-backed read, size: 4294967296",
     "host_ram"),
    # a call and what it gave back
    ("ERROR: cudaMalloc(8589934592) -> 2", "gpu"),
    ("ERROR: cuMemAlloc_v2 returned 2 for 1073741824", "gpu"),
    ("ERROR: vkAllocateMemory returned -2", "gpu"),
    ("ERROR: aclrtMalloc failed, ret = 207001, size = 1073741824", "gpu"),
    ("ERROR: cnrtMalloc failed: cnrtErrorNoMem", "gpu"),
    ("ERROR: resize of array to 8589934592 bytes returned NULL", "host_ram"),
    ("ERROR: buffer of 8589934592 bytes: new[] threw bad_alloc", "host_ram"),
    ("veda::interprocess::bad_alloc: segment of 1073741824 bytes has no room", "host_ram"),
    ("E: mmap() ENOMEM (size=68719476736)", "host_ram"),
    # verbs
    ("ERROR The device refuses to hand out another 3 GiB", "gpu"),
    ("ERROR we are unable to satisfy an allocation of 7 GiB", "host_ram"),
    ("ERROR allocation of 7 GiB could not be fulfilled", "host_ram"),
    ("panic: memory budget blown: 9.1GiB of 8GiB", "host_ram"),
    ("ERROR: weights (72.1 GiB) outsize the accelerator (64 GiB)", "gpu"),
    ("RuntimeError: total bytes of the tensor (9663676416) > device limit 4294967296", "gpu"),
    ("OutOfMemory: allocation of 68719476736 bytes over the memory pool's cap", "host_ram"),
    ("cuMemCreate: no physical pages left for a granule of 2 MiB on GPU 1, fatal", "gpu"),
    ("RuntimeError: Allocating 17.3 GB on HPU 0 failed, 9.1 GB available", "gpu"),
    ("RuntimeError: cannot extend slot 4: context window memory full (4096/4096 cells)", "kv_cache"),
    ("ERROR driver: cannot page-lock 68719476736 bytes of host memory", "pinned"),
    # schedulers
    ("lsb: job 4021 terminated: resident set 65.2G over MEMLIMIT 64G", "cgroup"),
    ("execd: job 71 queue limit h_rss 16G exceeded by 1.2G, sending SIGKILL", "cgroup"),
    ("job 12 removed: memory 8211 MB > requested 8192 MB", "cgroup"),
    ("E0101 10:10:10.1 99 watcher: container trainer in pod job-0 OOM killed, anon-rss 63Gi", "cgroup"),
    ('level=error msg="task killed by cgroup OOM" id=ab12 namespace=farm', "cgroup"),
    ("MemoryError: failed to allocate persistent dest buf 3 of shape [8, 7168]", "host_ram"),
    # too large for a memory, without figures
    ("ERROR: the scene is too large for the available GPU memory", "gpu"),
    ("RuntimeError: index is too big to fit in main memory", "host_ram"),
    ('level=INFO msg="model is too large for system memory" requireFull=true', "host_ram"),
    ("saving allocated state during OOM", "gpu"),
    # what was tried before, and what is guessed
    ('{"error": "Out of memory even after retracting all other tiles"}', "host_ram"),
    ("ERROR: Pool allocation failed. Most likely out of device memory.", "gpu"),
    # what was multiplied for a size, and a size that an allocator would not believe
    ("ERROR 2: mosaic.cpp: 91: Multiplication overflow : 4294967295 * 4294967295", "host_ram"),
    ("FATAL: image size overflow: 2147483647 x 2147483647 x 4", "host_ram"),
    ("ERROR: buffer size overflows in resize(): 18446744073709551615 * 16", "host_ram"),
    ("RuntimeError: integer overflow computing the buffer size: 4294967296 x 4294967296 x 8", "host_ram"),
    ("DB::Exception: Too large size (18446744073709551104) passed to allocator. It indicates an error.", "host_ram"),
    ("ERROR arena: 9223372036854775807 given to the slab allocator", "host_ram"),
    ("Error allocating 8589934592 bytes", "host_ram"),
    ("alloc_tab: allocate error, array XIJO, requested 8589934592", "host_ram"),
    # a cache of pictures, a variable by its name, a way round that failed, too
    ("tiler: pixel cache allocation failed `b4.tif' @ error/cache.c/OpenPixelCache/3845.", "host_ram"),
    ("Error in allocating m_matrix_opt in overlap_grid", "host_ram"),
    ("Problem with allocation of halo_buffer", "host_ram"),
    ("ERROR Failed to build the graph on the GPU, CPU instead of it failed. Error: out of memory", "gpu"),
    ("RuntimeError: memory pool is not available for 3 tensors of 4 GiB", "host_ram"),
    ("ERROR fit: cannot allocate the target buffer of 512 MiB", "host_ram"),
    ("RuntimeError: allocate from slab pool failed, require shape [2, 64], 512 MiB needed, 12 MiB free", "host_ram"),
    ("Mon Sep  1 10:20:44 2025 (77): Error Not enough free space in memory to allocate 1048616 bytes", "host_ram"),
    ("ERROR: pool.c: unable to resize the shared memory segment /veda.7 to size 4294967296 (errno 28)", "shm"),
    ("could not extend a shared memory object of the ring, error 28", "shm"),
    ("tile-server was stopped by the operating system (signal 9), most likely out of memory.", "host_ram"),
    ('{"detail":"Not enough free GPU memory to load it (needs ~19 GB, ~6 GB free). Wait, or try again later."}', "gpu"),
    ('level=WARN msg="runtime OOM detected; expiring loaded models to clear memory"', "gpu"),
    ("mem_heap.cpp:9: nvshmem malloc failed (hint: check if it exceeds NVSHMEM symmetric size = 1048576)", "gpu"),
)  # fmt: skip
NOT_SAID = (
    '{"title": "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", "comments": 12, "url": "https://x.example"}',
    '{"alert":"OOMKilled","expr":"terminated_total{why=\\"OOMKilled\\"} > 0"}',
    '{"name": "oomtest", "summary": "CUDA out of memory. Tried to allocate 2.00 GiB", "comments": 3}',
    '{"title": "java.lang.OutOfMemoryError: Java heap space", "votes": 12}',
    "ERROR cudaMalloc hook not installed",
    "gridError: vector.cu:21: allocation failed: bad_alloc: cudaErrorNoKernelImageForDevice: no kernel image",
    "ERROR: cudaMemcpy(8589934592) -> 1",
    "INFO cudaMalloc: 2",
    "ERROR: clCreateBuffer = CL_INVALID_CONTEXT (-34)",
    "ERROR: vkAllocateMemory trace disabled",
    "ERROR: aclrtMalloc failed, ret = 107002, context is null",
    "INFO resize of array to 8589934592 bytes returned",
    "ERROR: the device refuses to start",
    "INFO 7 GiB were carved out of GPU memory",
    "INFO allocation of 7 GiB satisfied",
    "FATAL: GPU memory clock insufficient: want 1200 MHz, have 800 MHz",
    "ERROR memory bus: parity error",
    "ERROR: hash table outgrew its 4096 rows",
    "ERROR: wanted 4 free seats, found 2",
    "ERROR: file of 12 GiB exceeds upload limit 8 GiB",
    "ERROR: download of 312 GB is bigger than disk (256 GB)",
    "WARN: memory budget nearly used up: 7.9GiB of 8GiB",
    "job 12 done: memory 8011 MB of requested 8192 MB",
    "no process was killed by the OOM killer",
    "Veda error: Failed to get memory pool on device 'cuda:0'",
    "Veda error: Failed to get amount of currently used memory from the memory pool on device 0",
    "Veda warning: failed to find memory allocation node",
    "peer_ep.c:427  ERROR failed to allocate queue pair: 22",
    "network.go:599: ERROR could not allocate VIP from the pool",
    "daemon.c:52: ERROR could not allocate name of the session",
    "sched.c:9: ERROR failed to allocate job id",
    "card.c:9: ERROR failed to allocate protection domain: Invalid argument",
    "ep.c:9: ERROR failed to allocate stream id 3",
    "limiter.cc:796] ERROR Can not allocate a model instance that is not yet staged",
    "E0202 10:10:10.1 1 alloc.cc:9] failed to allocate CPU cores to the pod",
    "net.c:9 ERROR failed to allocate local port",
    "dev.c:9 ERROR could not allocate device number",
    "RuntimeError: [enforce fail at HeapSource.cpp:71] . posix_memalign(&ptr, 3, n) == 0. 22 vs 0",
    "RuntimeError: [enforce fail at Loader.cpp:71] . open(path) == 0. 12 vs 0",
    "ERROR job_alloc failed",
    "ERROR port alloc failed",
    "ERROR: value 12 MB is too large for column of 64 bytes",
    "ERROR: attachment of 70 MB is too large for this mailbox (25 MB)",
    "INFO tile of 9 GiB is not too big for device memory (80 GiB)",
    "ERROR: cannot hold the lock of 3 jobs",
    '{"level":"ERROR","message":"upload refused","required_mib":1820,"free_mib":640}',
    '{"level":"INFO","logger":"vram","message":"placed layer 31","required_mib":640,"free_mib":1820}',
    "Memory usage of 4096 MB is under the request of 8192 MB",
    "WARN: Memory usage of 12288 MB is over the threshold of 8192 MB, flushing",
    "INFO Memory usage 12 GB exceeds the budget of 10 GB",
    "ERROR: Memory usage could not be read",
    "WARN loader: Out of memory, will use the disk instead",
    "ERROR loader: could not reserve 3 GiB on the device, will use system memory",
    "INFO recovered from MemoryErrors by a smaller chunk",
    "no OOM received",
    "INFO OOM received: 0",
    "debug:  oom-kill event count: 0",
    "ERROR pool: no free slots for backend",
    "ERROR: no free slots in thread pool",
    "ERROR: connection pool exhausted: 100 of 100 connections in use",
    "ERROR: Unable to find all necessary memory structures for cgroup /farm (family 41)",
    "ERROR: Failed to allocate loopback device: 12",
    "ERROR: failed to allocate a GPU for the task",
    "ERROR: Can't allocate slot id 4 (slot type 2) during auto allocation of resources",
    "ERROR: Can't find VM memory in Job ClassAd",
    "ERROR: Underlying thin pool is out of space and not recovering; evicting this job but not holding it.",
    "ERROR: Cannot create eventfd for monitoring OOM: 24",
    "failed to add oom watcher to container 4a1: no such file",
    "ERROR Failed to register memory with the card, error=22. Trying a different method.",
    "GC(4012) Pause Full (Allocation Failure) 4030M->4011M(4096M) 2211.1ms",
    "[GC (Allocation Failure) [PSYoungGen: 262144K->43519K(305664K)] 262144K->87123K(1005056K), 0.0612 secs]",
    "[88412.118405]  pagefault_out_of_memory+0x32/0x40",
    "ERROR: could not pin the version to 34",
    "ERROR: cannot query memory limit of device 0",
    "ERROR: failed to get the memory limits of the group",
    "InvalidArgumentError: cannot allocate a tensor of rank 9",
    "ERROR invalid argument: could not allocate 3 GiB",
    "ERROR not enough cache lines for the tile",
    "[info] GPU memory size 21.4G is smaller than 26.8G",
    "[warn] host memory 12 GiB is smaller than the recommended 16 GiB",
    "ERROR: file size 12 GiB is smaller than 16 GiB",
    "ERROR probe of the longest prompt failed, set --mem_fraction to a smaller value",
    "ValueError: probe failed: set --mem_fraction to a larger value",
    "ValueError: gpu_memory_utilization must be less than 1, not 1.3",
    "Exception: probe of the longest prompt failed, set --max_len to a smaller value",
    "INFO:2025-11-03 10:20:44,312:reserved 3 GiB on the GPU",
    # what is done instead
    "packing OOM at 4096: capped below 4096: OutOfMemoryError('CUDA out of memory. Tried to allocate 5.8 GiB.')",
    "PerformanceWarning: Plain copies, as pinned memory (4294967296 bytes) could not be allocated: out of memory",
    (
        "ERROR Failed to cache layer 4 to HBM, change to DRAM, due to NPU out of memory. Tried to allocate 896.00 MiB "
        "(NPU 3; 60.97 GiB total capacity; 58.40 GiB already allocated; 1.20 GiB free; 59.00 GiB reserved in total by "
        "PyTorch)"
    ),
    "packing OOM, it takes the padded loop: OutOfMemoryError('CUDA out of memory. Tried to allocate 5.8 GiB.')",
    "WARNING: not enough free memory for the tile workers (~3GB each); rendering in-process.",
    "ERROR drv: failed to allocate memory, trying coherent memory",
    "Could not lock memory - continuing anyway: Cannot allocate memory",
    "ERROR not enough memory for 8 readers, running sequentially",
    "ERROR: table is too large for system memory, reading in single chunks",
    "ERROR: file too large for memory card",
    "saving allocated state during OOM drills",
    "WARNING: allocation failed, retrying with half of it",
    "INFO: jobs of this size are likely to run out of memory",
    "WARNING: this is likely due to a small cache",
    "out of memory is likely if the tile grows",
    "ERROR Failed to build the graph on the GPU, using the CPU instead. Error: out of memory",
    "ERROR could not pin the pool, falling back to pageable buffers. Reason: OutOfMemory",
    "Mon Sep  1 10:20:44 2025 (77): Warning Not enough free shared space to allocate 1048616 bytes (262144 bytes free)",
    # what a device or a build does not offer
    "vedaboost.core.Error: [10:20:44] c_api.cc:223: async memory pool is not available for the current device.",
    "RuntimeError: managed memory is not supported on this platform",
    "ERROR: shared memory is not available on this system",
    "ERROR: the pooled allocator is disabled in this build",
    # a plan that goes on, and an array of another kind than the pool's
    "INFO fit: cannot meet the free memory target of 2048 MiB, must use 512 MiB less",
    "INFO plan: cannot reach all memory targets, need to use 300 MiB less in total",
    "ERROR allocate from slab pool failed, slab_shape [64, 8], dtype float16, require shape [2, 64], dtype float16",
    # what is multiplied, and no size
    "ERROR 2: mosaic.cpp: 91: Multiplication overflow : 12 * 4",
    "Out of Range Error: Overflow in multiplication of INT64 (9223372036854775807 * 2)!",
    "ERROR: multiplication overflow in expression: 9223372036854775807 * 9223372036854775807",
    "terminate: Number::multiplication overflow : exponent is 32769",
    "INFO buffer size overflow is checked: 4294967295 * 4294967295",
    "ERROR: 18446744073709551615 passed to parser",
    "RuntimeError: integer overflow computing the column width: 4294967296 x 4294967296",
    "ERROR: seek to offset 18446744073709551615 passed to allocator failed",
    "Error in allocating job_id",
    "Error allocating port 8080",
    "Error allocating a runner for the job",
    "alloc_tab: allocate errors are fatal",
    "unable to resize the shared memory object /veda.7 to size 4294967296 (errno 13)",
    "unable to open the shared memory object /veda.7 (errno 2)",
    "OSError: shmat failed (errno=121)",
    "Error creating socket (errno=12)",
    "ERROR huge pages: mmap failed (errno=12), falling back to small ones",
    "DEBUG mmap(4096): errno=12, retrying with malloc",
    "memory segment mapped; errno=12 of an earlier call",
    "I0101 10:10:10.1 7 halo.cc:9] [rank 3] could not allocate device memory, using the host's",
    "slurmstepd: Detected 0 out-of-memory events in /sys/fs/cgroup/memory/x",
    # a command line is none
    "bash PARTS=16,32 CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,1 tiled serve model --gpus 2",
)


@pytest.mark.parametrize(("text", "pool"), SAID)
def test_it_is_read_in_rare_words(text: str, pool: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "oom"
    assert report["diagnoses"][0]["pool"] == pool


@pytest.mark.parametrize("text", NOT_SAID)
def test_what_only_sounds_like_it_is_none(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] != "oom"
