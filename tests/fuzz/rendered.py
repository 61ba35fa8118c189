"""Messages of known content: what a program would print of figures that are drawn, and what has to be read from it.

One strategy per shape of a message, in the words that the programs print them in. Where a clause is printed sometimes,
it is here drawn sometimes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

BINARY = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "GB": 1024**3, "MB": 1024**2, "kB": 1024}
ADVICE = (
    "If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
    "fragmentation."
)


class Size(NamedTuple):
    text: str
    bytes: int


class Rendered(NamedTuple):
    text: str
    kind: str
    told: dict[str, Any]  # fields of the event, and of its process


Draw = Callable[[SearchStrategy[Any]], Any]

counts = st.integers(0, 10**7)
pids = st.integers(1, 4_194_304)
hexes = st.text("0123456789abcdef", min_size=56, max_size=56)
ips = st.tuples(*[st.integers(1, 254)] * 4).map(lambda parts: ".".join(map(str, parts)))
words = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_", min_size=1, max_size=15)
commands = st.builds(
    "{} {}".format,
    st.sampled_from(["ray::PolicyTrainer.fit", "python", "/opt/env/bin/python3 serve.py", "ray::IDLE", "gcs_server"]),
    words,
)


def sizes(
    *units: str, gap: str = " ", most: int = 4000, digits: int = 2, base: dict[str, int] = BINARY
) -> SearchStrategy[Size]:
    def made(unit: str, hundredths: int) -> Size:
        number = f"{hundredths / 10**digits:.{digits}f}"
        return Size(f"{number}{gap}{unit}", round(float(number) * base[unit]))

    return st.builds(made, st.sampled_from(units), st.integers(0, most * 10**digits))


gib = sizes("GiB", "MiB")
ray_gb = sizes("GB", gap="")
shares = st.integers(1, 9999).map(lambda n: n / 10000)


def known(**told: Any) -> dict[str, Any]:
    return {name: value for name, value in told.items() if value is not None}


# --- PyTorch ---------------------------------------------------------------------------------------------------------


@st.composite
def cuda_now(draw: DrawFn) -> Rendered:
    """2.1 and later."""
    tried, total, free, own, allocated, unallocated = (draw(gib) for _ in range(6))
    gpu = draw(st.integers(0, 15))
    others = draw(st.lists(st.tuples(pids, gib), max_size=6))
    private, allowed = draw(st.none() | gib), draw(st.none() | gib)
    pools = f", with {private.text} allocated in private pools (e.g., CUDA Graphs)," if private else ""
    text = (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried.text}. GPU {gpu} has a total capacity of "
        f"{total.text} of which {free.text} is free. "
        + "".join(f"Process {pid} has {held.text} memory in use. " for pid, held in others)
        + f"Including non-PyTorch memory, this process has {own.text} memory in use. "
        + (f"{allowed.text} allowed; " if allowed else "")
        + f"Of the allocated memory {allocated.text} is allocated by PyTorch{pools}, and {unallocated.text} is reserved by "
        f"PyTorch but unallocated. {draw(st.sampled_from(['', ADVICE]))}"
    )
    return Rendered(
        text,
        "out-of-memory",
        known(
            device="CUDA", gpu=gpu, tried_bytes=tried.bytes, total_bytes=total.bytes, free_bytes=free.bytes,
            in_use_bytes=own.bytes, allocated_bytes=allocated.bytes, unallocated_bytes=unallocated.bytes,
            private_pools_bytes=private and private.bytes, allowed_bytes=allowed and allowed.bytes,
            others=tuple((pid, held.bytes) for pid, held in others),
        ),
    )  # fmt: skip


@st.composite
def cuda_before(draw: DrawFn) -> Rendered:
    """1.0 to 2.0, and Ascend's."""
    tried, total, already, free, reserved = (draw(gib) for _ in range(5))
    allowed, active = draw(st.none() | gib), draw(st.none() | gib)
    device = draw(st.sampled_from(["CUDA", "HIP"])) if active is None else "NPU"
    gpu = draw(st.integers(0, 15))
    text = (
        f"RuntimeError: {device} out of memory. Tried to allocate {tried.text} ({'NPU' if active else 'GPU'} {gpu}; "
        f"{total.text} total capacity; {already.text} already allocated; "
        + (f"{active.text} current active; " if active else "")
        + f"{free.text} free; "
        + (f"{allowed.text} allowed; " if allowed else "")
        + f"{reserved.text} reserved in total by PyTorch)"
    )
    return Rendered(
        text,
        "out-of-memory",
        known(
            device=device, gpu=gpu, tried_bytes=tried.bytes, total_bytes=total.bytes, allocated_bytes=already.bytes,
            free_bytes=free.bytes, reserved_bytes=reserved.bytes, allowed_bytes=allowed and allowed.bytes,
            active_bytes=active and active.bytes,
        ),
    )  # fmt: skip


@st.composite
def mps(draw: DrawFn) -> Rendered:
    allocated, others, allowed, tried = (draw(sizes("GB", "GiB", "MiB")) for _ in range(4))
    text = (
        f"RuntimeError: MPS backend out of memory (MPS allocated: {allocated.text}, other allocations: {others.text}, max "
        f"allowed: {allowed.text}). Tried to allocate {tried.text} on private pool. Use "
        "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure)."
    )
    told = known(
        device="MPS", limit="watermark", allocated_bytes=allocated.bytes, other_allocations_bytes=others.bytes,
        allowed_bytes=allowed.bytes, tried_bytes=tried.bytes,
    )  # fmt: skip
    return Rendered(text, "out-of-memory", told)


# --- Ray's memory monitor --------------------------------------------------------------------------------------------


def _table(draw: Draw, between: str) -> tuple[str, tuple[tuple[int, int, str], ...]]:
    rows = draw(st.lists(st.tuples(pids, ray_gb, commands), max_size=10, unique_by=lambda row: row[0]))
    lines = [f"{pid}\t{held.text.removesuffix('GB')}\t{command}" for pid, held, command in rows]
    return between.join(["PID\tMEM(GB)\tCOMMAND", *lines]), tuple(
        (pid, held.bytes, command) for pid, held, command in rows
    )


@st.composite
def ray_kill_one(draw: DrawFn) -> Rendered:
    """2.2 to 2.54."""
    used, total, victims = draw(ray_gb), draw(ray_gb), draw(ray_gb)
    ip, node, worker, pid = draw(ips), draw(hexes), draw(hexes), draw(pids)
    name, fraction = f"{draw(words)}.{draw(words)}", draw(shares)
    actor = draw(st.none() | hexes.map(lambda digits: digits[:32]))
    who = f"actor ID: {actor}" if actor else f"task ID: {node[:48]}"
    table, rows = _table(draw, "\n")
    text = (
        "Task was killed due to the node running low on memory.\n"
        f"Memory on the node (IP: {ip}, ID: {node}) where the task ({who}, name={name}, pid={pid}, memory used={victims.text}) "
        f"was running was {used.text} / {total.text} ({fraction}), which exceeds the memory usage threshold of 0.95. Ray "
        f"killed this worker (ID: {worker}) because it was the most recently scheduled task; to see more information about "
        f"memory usage on this node, use `ray logs raylet.out -ip {ip}`. Top 10 memory users:\n{table}\n"
        "Refer to the documentation on how to address the out of memory issue: "
        "https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html."
    )
    told = known(
        generation="G2", node=ip, node_id=node, pid=pid, name=name, used_bytes=used.bytes, total_bytes=total.bytes,
        used_fraction=fraction, fraction=0.95, rows=rows, victims=((pid, name, victims.bytes, worker),),
    )  # fmt: skip
    return Rendered(text, "node-out-of-memory", told)


@st.composite
def ray_kill_many(draw: DrawFn) -> Rendered:
    """2.56 on one line, 2.57 and later on many."""
    end = draw(st.sampled_from(["\n", "; "]))
    used, total = draw(ray_gb), draw(ray_gb)
    ip, node = draw(ips), draw(hexes)
    over, limit, store = (
        draw(st.integers(10**9, 10**12)),
        draw(st.integers(10**9, 10**12)),
        draw(st.integers(0, 10**12)),
    )
    percent = draw(st.integers(1, 999)) / 10
    workers = draw(
        st.lists(
            st.tuples(st.booleans(), pids, words, ray_gb, hexes), min_size=1, max_size=5, unique_by=lambda row: row[1]
        )
    )
    table, rows = _table(draw, end)
    listed = [
        f"{'Selected to kill: ' if chosen else ''}(Task: job ID=01000000, lease ID={worker}, task name={name}, required "
        f"resources={{CPU: 1}}, pid={pid}, actual memory used={held.text}, worker ID={worker})"
        for chosen, pid, name, held, worker in workers
    ]
    text = end.join(
        [
            f"{len(workers)} worker(s) were killed due to the node running low on memory. Memory on the node (IP: {ip}, ID: "
            f"{node}) was {used.text} / {total.text} ({percent}%)",
            f"OOM kill reason: Memory usage {over}B exceeded threshold of {limit}B (95.0% of {limit + 7}B total)",
            f"Object store memory usage: [- objects spillable: 0{end}- bytes in use: {store}{end}(global lru) capacity: "
            f"{store + 1}{end}(global lru) bytes evicted: 0]",
            f"Ray killed {len(workers)} worker(s) based on the killing policy",
            f"Considered workers: [{end}{end.join(listed)}{end}]",
            f"Top 10 memory users: {table}",
            "Refer to the documentation on how to address the out of memory issue: https://docs.ray.io/",
        ]
    )
    chosen = [one for one in workers if one[0]] or workers
    told = known(
        generation="G5" if end == "\n" else "G4", node=ip, node_id=node, used_bytes=used.bytes, total_bytes=total.bytes,
        trigger_bytes=over, bytes=limit, fraction=0.95, reason="threshold", object_store_bytes=store,
        object_store_capacity_bytes=store + 1, rows=rows,
        victims=tuple((pid, name, held.bytes, worker) for _, pid, name, held, worker in chosen),
    )  # fmt: skip
    return Rendered(text, "node-out-of-memory", told)


@st.composite
def ray_reading(draw: DrawFn) -> Rendered:
    used, limit, total = (draw(st.integers(0, 10**13)) for _ in range(3))
    text = (
        f"[2025-06-01 10:11:12,345 I 71 71] (raylet) node_manager.cc:2896: Node memory usage above threshold, used: {used}, "
        f"threshold_bytes: {limit}, total bytes: {total}, threshold fraction: 0.95"
    )
    return Rendered(
        text, "usage-above-threshold", known(used_bytes=used, bytes=limit, total_bytes=total, fraction=0.95)
    )


@st.composite
def ray_count(draw: DrawFn) -> Rendered:
    killed, crashed = draw(st.integers(1, 10**6)), draw(st.integers(0, 10**6))
    node, ip = draw(hexes), draw(ips)
    text = (
        f"(raylet, ip={ip}) {killed} Workers (tasks / actors) killed due to memory pressure (OOM), {crashed} Workers crashed "
        f"due to other reasons at node (ID: {node}, IP: {ip}) over the last time period."
    )
    return Rendered(text, "kill-count", known(killed=killed, crashed=crashed, node_id=node, node=ip))


# --- vLLM ------------------------------------------------------------------------------------------------------------


@st.composite
def vllm_no_blocks(draw: DrawFn) -> Rendered:
    front = draw(
        st.sampled_from(
            ["", "(EngineCore_DP0 pid=31) ERROR 10-08 12:02:41 [core.py:708] ", "ERROR 02-12 12:59:07 engine.py:68] "]
        )
    )
    end = "Try increasing `gpu_memory_utilization` when initializing the engine."
    return Rendered(
        f"{front}ValueError: No available memory for the cache blocks. {end}", "no-cache-blocks", {"pool": "kv_cache"}
    )


@st.composite
def vllm_context(draw: DrawFn) -> Rendered:
    needed, there = draw(sizes("GiB", "MiB")), draw(sizes("GiB", "MiB"))
    length, fits = draw(st.integers(1, 10**7)), draw(st.none() | st.integers(0, 10**7))
    estimate = (
        f" Based on the available memory, the estimated maximum model length is {fits}." if fits is not None else ""
    )
    text = (
        f"ValueError: To serve at least one request with the models's max seq len ({length}), ({needed.text} KV cache is "
        f"needed, which is larger than the available KV cache memory ({there.text}).{estimate} Try increasing "
        "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
    )
    told = known(max_model_len=length, needed_bytes=needed.bytes, kv_bytes=there.bytes, estimated_tokens=fits)
    return Rendered(text, "context-does-not-fit", told)


@st.composite
def vllm_free(draw: DrawFn) -> Rendered:
    free, total, wanted = (draw(sizes("GiB")) for _ in range(3))
    share, gpu = draw(st.integers(1, 99)) / 100, draw(st.integers(0, 15))
    text = (
        f"ValueError: Free memory on device cuda:{gpu} ({free.text.removesuffix(' GiB')}/{total.text}) on startup is less than "
        f"desired GPU memory utilization ({share}, {wanted.text}). Decrease GPU memory utilization or reduce GPU memory used by "
        "other processes."
    )
    told = known(
        gpu=gpu, free_bytes=free.bytes, total_bytes=total.bytes, utilization=share, requested_bytes=wanted.bytes
    )
    return Rendered(text, "not-enough-free", told)


@st.composite
def vllm_states(draw: DrawFn) -> Rendered:
    asked, blocks = draw(counts), draw(counts)
    text = (
        f"ValueError: max_num_seqs ({asked}) exceeds available Mamba cache blocks ({blocks}). Each sequence needs one block. "
        f"Please lower max_num_seqs to at most {blocks} or increase gpu_memory_utilization."
    )
    return Rendered(text, "sequences-exceed-state", known(max_num_seqs=asked, state_blocks=blocks))


# --- the kernel and Slurm --------------------------------------------------------------------------------------------

kilobytes = st.integers(0, 10**10)


@st.composite
def kernel_kill(draw: DrawFn) -> Rendered:
    """One line since 5.1."""
    pid, uid, score = draw(pids), draw(st.integers(0, 65535)), draw(st.integers(-1000, 1000))
    name = draw(words)
    vm, anon, file, shmem, tables = (draw(kilobytes) for _ in range(5))
    group = draw(st.booleans())
    front = draw(
        st.sampled_from(["", "[  722.423903] ", "Mar 04 02:11:37 gpu-07 kernel: ", "[Tue Mar  4 02:11:37 2025] "])
    )
    text = (
        f"{front}{'Memory cgroup out' if group else 'Out'} of memory: Killed process {pid} ({name}) total-vm:{vm}kB, "
        f"anon-rss:{anon}kB, file-rss:{file}kB, shmem-rss:{shmem}kB, UID:{uid} pgtables:{tables}kB oom_score_adj:{score}"
    )
    told = known(
        pid=pid, name=name, uid=uid, oom_score_adj=str(score), total_vm_bytes=vm * 1024, anon_rss_bytes=anon * 1024,
        file_rss_bytes=file * 1024, shmem_rss_bytes=shmem * 1024, pgtables_bytes=tables * 1024,
        pool="cgroup" if group else "host_ram",
    )  # fmt: skip
    return Rendered(text, "oom-kill", told)


@st.composite
def kernel_dump(draw: DrawFn) -> Rendered:
    """The limit of a control group, with the table of its tasks."""
    used, limit = draw(st.integers(1, 10**10)), draw(st.integers(1, 10**10))
    rows = draw(
        st.lists(
            st.tuples(pids, words, st.integers(0, 10**8), st.integers(0, 10**6)),
            min_size=1,
            max_size=8,
            unique_by=lambda row: row[0],
        )
    )
    pid, name, pages, _ = rows[0]
    path = f"/kubepods.slice/{draw(words)}.scope"
    table = "\n".join(
        f"[{pid:7}]  1000 {pid:5} {pages + 9:8} {pages:8}   245760 {swapped:8}             0 {name}"
        for pid, name, pages, swapped in rows
    )
    text = (
        f"python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
        f"CPU: 1 PID: {pid} Comm: python3 Not tainted 6.1.0 #1\n"
        f"memory: usage {used}kB, limit {limit}kB, failcnt 74\n"
        "Tasks state (memory values in pages):\n"
        "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name\n"
        f"{table}\n"
        f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg={path},task_memcg={path},"
        f"task={name},pid={pid},uid=1000\n"
        f"Memory cgroup out of memory: Killed process {pid} ({name}) total-vm:{pages * 4 + 36}kB, anon-rss:{pages * 4}kB, "
        "file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:240kB oom_score_adj:0"
    )
    told = known(
        pid=pid, name=name, constraint="CONSTRAINT_MEMCG", cgroup=path, used_bytes=used * 1024, limit_bytes=limit * 1024,
        invoker="python3", invoker_pid=pid, tasks_listed=len(rows), pool="cgroup", uid=1000,
        anon_rss_bytes=pages * 4096, total_vm_bytes=pages * 4096 + 36 * 1024, file_rss_bytes=0, shmem_rss_bytes=0,
        pgtables_bytes=240 * 1024,
        tasks=tuple(sorted((pid, name, pages * 4096, swapped * 4096) for pid, name, pages, swapped in rows)),
    )  # fmt: skip
    return Rendered(text, "oom-kill", told)


@st.composite
def slurm_kill(draw: DrawFn) -> Rendered:
    job, step = draw(st.integers(1, 10**8)), draw(st.sampled_from(["batch", "0", "1", "extern"]))
    kills = draw(st.integers(1, 10**4))
    shape = draw(
        st.sampled_from(
            [
                "Detected {kills} oom-kill event(s) in step {job}.{step} cgroup. Some of your processes may have been killed by "
                "the cgroup out-of-memory handler.",
                "Detected {kills} oom-kill event(s) in StepId={job}.{step} cgroup. Some of your processes may have been killed "
                "by the cgroup out-of-memory handler.",
                "Detected {kills} oom_kill events in StepId={job}.{step}. Some of the step tasks have been OOM Killed.",
            ]
        )
    )
    text = "slurmstepd: error: " + shape.format(kills=kills, job=job, step=step)
    return Rendered(text, "limit-kill", known(manager="slurm", kills=kills, job=f"{job}.{step}", pool="cgroup"))


@st.composite
def slurm_task(draw: DrawFn) -> Rendered:
    first, last = draw(st.integers(0, 500)), draw(st.none() | st.integers(501, 999))
    tasks = f"tasks {first}-{last}" if last else f"task {first}"
    text = f"srun: error: node{draw(st.integers(1, 999)):03}: {tasks}: Out Of Memory"
    told = known(manager="slurm", tasks=f"{first}-{last}" if last else str(first))
    return Rendered(text, "limit-kill", told)


# --- DeepSpeed, Megatron ---------------------------------------------------------------------------------------------


@st.composite
def deepspeed(draw: DrawFn) -> Rendered:
    held, most, cached = (draw(sizes("GB")) for _ in range(3))
    rounded, host = draw(st.integers(0, 200)), draw(sizes("GB"))
    percent = draw(st.integers(0, 1000)) / 10
    front = draw(st.sampled_from(["", "[2024-05-05 10:00:01,101] [INFO] [utils.py:801:see_memory_usage] "]))
    text = (
        f"{front}after the step\n"
        f"{front}MA {held.text}         Max_MA {most.text}         CA {cached.text}         Max_CA {rounded} GB \n"
        f"{front}CPU Virtual Memory:  used = {host.text}, percent = {percent}%"
    )
    told = known(
        reporter="deepspeed", allocated_bytes=held.bytes, max_allocated_bytes=most.bytes, reserved_bytes=cached.bytes,
        max_reserved_bytes=rounded * 1024**3, host_used_bytes=host.bytes, host_used_fraction=round(percent / 100, 6),
    )  # fmt: skip
    return Rendered(text, "memory-report", told)


@st.composite
def megatron(draw: DrawFn) -> Rendered:
    rank, step = draw(st.integers(0, 4095)), draw(st.integers(0, 10**6))
    figures = [draw(sizes("MB", most=200_000)) for _ in range(4)]
    held, most, cached, reserved = (one.text.removesuffix(" MB") for one in figures)
    text = (
        f"[Rank {rank}] (after {step} iterations) memory (MB) | allocated: {held} | max allocated: {most} | reserved: {cached} | "
        f"max reserved: {reserved}"
    )
    names = ("allocated_bytes", "max_allocated_bytes", "reserved_bytes", "max_reserved_bytes")
    told = known(
        reporter="megatron", rank=rank, iterations=step, **dict(zip(names, [one.bytes for one in figures], strict=True))
    )
    return Rendered(text, "memory-report", told)


# --- SGLang ----------------------------------------------------------------------------------------------------------


@st.composite
def sglang_step(draw: DrawFn) -> Rendered:
    rank = draw(st.integers(0, 15))
    free, keys, entries = (draw(sizes("GB")) for _ in range(3))
    tokens = draw(counts)
    shape, told = draw(
        st.sampled_from(
            [
                (f"Load weight begin. avail mem={free.text}", known(step="before-weights", free_bytes=free.bytes)),
                (
                    f"Load weight end. type=DemoForCausalLM, dtype=torch.bfloat16, avail mem={free.text}, mem usage={keys.text}.",
                    known(step="weights", free_bytes=free.bytes, used_bytes=keys.bytes),
                ),
                (
                    f"KV Cache is allocated. #tokens: {tokens}, K size: {keys.text}, V size: {entries.text}",
                    known(step="kv-pool", tokens=tokens, keys_bytes=keys.bytes, values_bytes=entries.bytes),
                ),
                (f"Memory pool end. avail mem={free.text}", known(step="memory-pool", free_bytes=free.bytes)),
            ]
        )
    )
    return Rendered(f"[2025-07-02 07:40:31 TP{rank}] {shape}", "engine-step", {**told, "rank": rank})


@st.composite
def sglang_pool(draw: DrawFn) -> Rendered:
    batch, asked, free = draw(st.sampled_from(["Prefill", "Decode"])), draw(counts), draw(counts)
    typo = draw(st.sampled_from(["Available", "Avaliable"]))
    text = (
        f"RuntimeError: {batch} out of memory. Try to lower your batch size.\nTry to allocate {asked} tokens.\n"
        f"{typo} tokens: {free}\n"
    )
    return Rendered(text, "pool-exhausted", known(batch=batch.lower(), tried_tokens=asked, free_tokens=free))


@st.composite
def sglang_host(draw: DrawFn) -> Rendered:
    decimal = {"GB": 10**9}
    wanted, free = draw(sizes("GB", base=decimal)), draw(sizes("GB", base=decimal))
    text = (
        f"ValueError: Not enough host memory available. Requesting {wanted.text} but only have {free.text} free. Please reduce "
        "the size of the hierarchical cache."
    )
    return Rendered(text, "host-cache-too-large", known(tried_bytes=wanted.bytes, free_bytes=free.bytes))


# --- XGBoost ---------------------------------------------------------------------------------------------------------


@st.composite
def xgboost(draw: DrawFn) -> Rendered:
    """Bytes before 3.0, units since; the exception's own print or its repr()."""
    whole = st.integers(0, 2**37).map(lambda n: Size(str(n), n))
    size = st.one_of(whole, sizes("GB", "MB", gap="", most=900, digits=3, base={"GB": 1024**3, "MB": 1024**2}))
    tried, free = draw(size), draw(size)
    worker = draw(st.integers(0, 99))
    reason = draw(
        st.sampled_from(
            (
                "std::bad_alloc: cudaErrorMemoryAllocation: out of memory",
                "std::bad_alloc: out_of_memory: RMM failure at:/rmm/pool_memory_resource.hpp:257: Maximum pool size exceeded",
                "Caching allocator",
            )
        )
    )
    end = draw(st.sampled_from(("\n", "\\n")))
    text = f"xgboost.core.XGBoostError: [07:31:44] /src/common/device_vector.cu:23: Memory allocation error on worker {worker}: "
    text += f"{reason}{end}- Free memory: {free.text}{end}- Requested memory: {tried.text}{end}"
    told = known(library="XGBoost", rank=worker, tried_bytes=tried.bytes, free_bytes=free.bytes)
    return Rendered(text, "library-out-of-memory", told)


SHAPES = {
    "cuda": (cuda_now, cuda_before, mps),
    "gpu_library": (xgboost,),
    "ray_kill": (ray_kill_one, ray_kill_many, ray_reading, ray_count),
    "vllm_error": (vllm_no_blocks, vllm_context, vllm_free, vllm_states),
    "kernel": (kernel_kill, kernel_dump),
    "container": (slurm_kill, slurm_task),
    "memory_report": (deepspeed, megatron),
    "sglang": (sglang_step, sglang_pool, sglang_host),
}
