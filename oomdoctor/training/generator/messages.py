"""The messages of the families in their versions' wordings: the inverse of the grammars."""

from __future__ import annotations

from collections.abc import Sequence

from oomdoctor.training.generator.draw import Draw, size

Row = tuple[int, float, str]  # PID, GiB, command
FrameOf = tuple[str, str, str]  # file, function, code


def refused(
    draw: Draw,
    tried: float,
    *,
    free: float | None = None,
    unallocated: float | None = None,
    others: Sequence[float] = (),
    allowed: float | None = None,
    device: str = "CUDA",
) -> str:
    """The allocator's sentence, in the wording of one of PyTorch's generations; the figures add up to the card."""
    total = draw.card
    free = draw.between(0.02, 0.9) * min(tried, 1.0) if free is None else free
    own = max(total - free - sum(others), 0.4)
    unallocated = own * draw.between(0.001, 0.02) if unallocated is None else unallocated
    allocated = max(own - unallocated - draw.between(0.3, 0.6), 0.05)
    generation = draw.whole(1, 8)
    if others or allowed is not None:
        generation = draw.whole(5 if others else 6, 8)
    name = _class_of(draw, generation)
    gpu = draw.whole(0, 7)
    if generation <= 3:
        last = (
            f"{size(unallocated)} cached"
            if generation == 1
            else (f"{size(allocated + unallocated)} reserved in total by PyTorch")
        )
        hint = (
            (
                " If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See "
                "documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
            )
            if generation == 3
            else ""
        )
        return (
            f"{name}: {device} out of memory. Tried to allocate {size(tried)} (GPU {gpu}; {size(total)} total "
            f"capacity; {size(allocated)} already allocated; {size(free)} free; {last}){hint}"
        )
    capacity = "capacty" if generation == 4 else "capacity"
    named = "".join(f"Process {draw.whole(900, 99999)} has {size(other)} memory in use. " for other in others)
    mine = f"Including non-PyTorch memory, this process has {size(own)} memory in use. "
    limit = f"{size(allowed)} allowed; " if allowed is not None else ""
    variable = "PYTORCH_ALLOC_CONF" if generation == 7 else "PYTORCH_CUDA_ALLOC_CONF"
    hint = (
        "max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
        if generation == 4
        else f"{variable}=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management"
    )
    return (
        f"{name}: {device} out of memory. Tried to allocate {size(tried)}. GPU {gpu} has a total {capacity} of "
        f"{size(total)} of which {size(free)} is free. {named}{mine}{limit}Of the allocated memory {size(allocated)} "
        f"is allocated by PyTorch, and {size(unallocated)} is reserved by PyTorch but unallocated. If reserved but "
        f"unallocated memory is large try setting {hint}"
    )


def _class_of(draw: Draw, generation: int) -> str:
    if draw.often(0.1):
        return "OutOfMemoryError"
    if generation <= 3:
        return "RuntimeError"
    return "torch.cuda.OutOfMemoryError" if generation <= 5 else "torch.OutOfMemoryError"


def bare(draw: Draw) -> str:
    """A refusal without a figure."""
    return draw.one(
        (
            "RuntimeError: CUDA error: out of memory",
            "torch.AcceleratorError: CUDA error: out of memory",
            "RuntimeError: CUDA out of memory.",
            "RuntimeError: CUDA driver error: out of memory",
        )
    )


def traceback(draw: Draw, frames: Sequence[FrameOf], last: str) -> list[str]:
    """A traceback with these frames, innermost last."""
    lines = ["Traceback (most recent call last):"]
    home = draw.one(("/opt/env/lib/python3.10/site-packages", "/usr/local/lib/python3.12/dist-packages", "/app"))
    for file, function, code in frames:
        lines.append(f'  File "{home}/{file}", line {draw.whole(12, 3900)}, in {function}')
        lines.append(f"    {code}")
        if draw.often(0.2):
            lines.append("    " + "^" * min(len(code), 40))
    return [*lines, last]


def ray_kill(draw: Draw, rows: Sequence[Row], *, victim: str | None = None, own: float = 4.2) -> list[str]:
    """Ray's kill of a worker in the wording of one of its versions, with the node's table where there are rows."""
    used = draw.ram * draw.between(0.951, 0.985)
    victim = victim or f"{draw.actor}.__init__"
    ids = (draw.hexadecimal(32), draw.hexadecimal(56))
    if draw.often(0.12):  # before 2.0
        head = (
            f"ray._private.memory_monitor.RayOutOfMemoryError: More than 95% of the memory on node {draw.ip} is used "
            f"({used:.2f} / {draw.ram:.2f} GB). The top 10 memory consumers are:"
        )
        return [head, "", "PID\tMEM\tCOMMAND", *(f"{pid}\t{gib:.2f}GiB\t{name[:60]}" for pid, gib, name in rows)]
    policy = draw.one(
        ("it was the most recently scheduled task", "it was the most recently scheduled task", "of its group")
    )
    lines = [
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        f"Memory on the node (IP: {draw.ip}, ID: {draw.node}) where the task (actor ID: {ids[0]}, name={victim}, "
        f"pid={draw.pid}, memory used={own:.2f}GB) was running was {used:.2f}GB / {draw.ram:.2f}GB "
        f"({used / draw.ram:.6f}), which exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: "
        f"{ids[1]}) because {policy}; to see more information about memory usage on this node, use `ray logs "
        f"raylet.out -ip {draw.ip}`. To see the logs of the worker, use `ray logs worker-{ids[1]}*out -ip {draw.ip}.",
    ]
    if rows:
        lines[-1] += " Top 10 memory users:"
        lines += ["PID\tMEM(GB)\tCOMMAND", *(f"{pid}\t{gib:.2f}\t{name}" for pid, gib, name in rows)]
    return lines


def kernel_kill(draw: Draw, name: str, gib: float, *, group: str | None = None) -> list[str]:
    """The kernel's record of a kill: the whole machine's, or a group's at its limit."""
    stamp = f"[{draw.between(900, 90000):.6f}] "
    kib = int(gib * 1024 * 1024)
    what = "Memory cgroup out of memory" if group else "Out of memory"
    lines = [f"{stamp}{name} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"]
    if group:
        limit = int(kib * 1.02)
        lines += [
            f"{stamp}memory: usage {limit}kB, limit {limit}kB, failcnt {draw.whole(9, 9000)}",
            f"{stamp}oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0-1,oom_memcg={group},"
            f"task_memcg={group},task={name},pid={draw.pid},uid=0",
        ]
    else:
        pages = int(draw.ram * 1024 * 256)
        lines += [
            f"{stamp}{pages} pages RAM",
            f"{stamp}[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
            f"{stamp}[{draw.pid:7d}]  1000 {draw.pid} {kib // 3} {kib // 4} {kib * 2} 0 0 {name}",
            f"{stamp}[{draw.pid + 9:7d}]  1000 {draw.pid + 9} 90000 40000 900000 0 0 dockerd",
        ]
    return [
        *lines,
        f"{stamp}{what}: Killed process {draw.pid} ({name}) total-vm:{int(kib * 1.4)}kB, anon-rss:{kib}kB, "
        "file-rss:4096kB, shmem-rss:0kB, UID:0 pgtables:70112kB oom_score_adj:0",
    ]


def bare_kill(draw: Draw) -> list[str]:
    """A process is gone, and nothing says why."""
    rank = draw.whole(0, 7)
    return draw.one(
        (
            ["Killed"],
            [f"bash: line 1: {draw.pid} Killed                  python train.py"],
            [
                f"torch.multiprocessing.spawn.ProcessExitedException: process {rank} terminated with signal SIGKILL",
            ],
            [
                f"E0812 09:00:11.120000 {draw.pid} torch/distributed/elastic/multiprocessing/api.py:869] failed "
                f"(exitcode: -9) local_rank: {rank} (pid: {draw.pid + 4}) of binary: /opt/env/bin/python",
            ],
            [
                f"RuntimeError: DataLoader worker (pid {draw.pid}) is killed by signal: Killed. ",
            ],
            [
                "ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task. Check "
                "python-core-worker-*.log files for more information.",
            ],
            [f"[INFO] [launch.py:319:sigkill_handler] Killing subprocess {draw.pid}", "exits with return code = -9"],
        )
    )


__all__ = ["FrameOf", "Row", "bare", "bare_kill", "kernel_kill", "ray_kill", "refused", "traceback"]
