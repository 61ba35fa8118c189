"""Logs to measure with: what healthy jobs print all day, and one kill at the end.

python -m benchmarks.logs PATH BYTES sparse|metrics|dense     one log
python -m benchmarks.logs PATH BYTES failures|files NUMBER    with so many failures, or a folder of so many logs
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

MIB = 1024**2

Writer = Callable[[random.Random], str]


def _engine(r: random.Random) -> str:
    return (
        f"\x1b[36m(EngineActor pid={r.randrange(2000, 400000)}, ip=10.0.{r.randrange(9)}.{r.randrange(255)})\x1b[0m "
        f"INFO 03-04 {_clock(r)} [loggers.py:118] Engine 000: "
        f"Avg prompt throughput: {r.uniform(0, 9000):.1f} tokens/s, "
        f"Avg generation throughput: {r.uniform(0, 4000):.1f} tokens/s, Running: {r.randrange(256)} reqs, "
        f"Waiting: {r.randrange(40)} reqs, GPU KV cache usage: {r.uniform(0, 90):.1f}%, "
        f"Prefix cache hit rate: {r.uniform(0, 70):.1f}%"
    )


def _raylet(r: random.Random) -> str:
    return (
        f"[2026-03-04 {_clock(r)},{r.randrange(1000):03d} I {r.randrange(2000, 400000)} {r.randrange(2000, 400000)}] "
        f"(raylet) node_manager.cc:{r.randrange(300, 3000)}: Leased worker {r.getrandbits(224):056x} "
        f"on port {r.randrange(10000, 60000)}"
    )


def _step(r: random.Random) -> str:
    return (
        f"(TaskRunner pid={r.randrange(2000, 400000)}) step:{r.randrange(9000)} - actor/entropy:{r.random():.6f} - "
        f"actor/grad_norm:{r.uniform(0, 3):.4f} - critic/score/mean:{r.random():.4f} - "
        f"timing_s/gen:{r.uniform(20, 90):.3f} - response_length/mean:{r.uniform(200, 4000):.1f}"
    )


def _bar(r: random.Random) -> str:
    done = r.randrange(4000)
    bars = (
        f"Train epoch [1/2]: {n * 100 // 4000:3d}%|{'#' * (n // 400):<10}| {n}/4000 [{r.randrange(60):02d}:"
        f"{r.randrange(60):02d}<1:{r.randrange(60):02d}:{r.randrange(60):02d}, {r.uniform(1, 5):.2f}s/it]"
        for n in range(done, done + 3)
    )
    return "\r".join(bars)


def _clock(r: random.Random) -> str:
    return f"{r.randrange(24):02d}:{r.randrange(60):02d}:{r.randrange(60):02d}"


HEALTHY: tuple[Writer, ...] = (_engine, _raylet, _raylet, _step, _bar)


def _memory(r: random.Random) -> str:
    return (
        f"(TaskRunner pid={r.randrange(2000, 400000)}) step:{r.randrange(9000)} - "
        f"perf/max_memory_allocated_gb:{r.uniform(20, 70):.3f} - perf/cpu_memory_used_gb:{r.uniform(90, 400):.3f}"
    )


def _refusal(r: random.Random) -> str:
    return (
        f"(Worker pid={r.randrange(2000, 400000)}) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
        f"{r.uniform(0.01, 9):.2f} GiB. GPU {r.randrange(8)} has a total capacity of 79.15 GiB of which "
        f"{r.uniform(0, 900):.2f} MiB is free. Process {r.randrange(2000, 400000)} has {r.uniform(40, 79):.2f} GiB "
        f"memory in use. Of the allocated memory {r.uniform(30, 70):.2f} GiB is allocated by PyTorch, and "
        f"{r.uniform(0, 9):.2f} GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is "
        "large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
    )


# What is hard for us: figures on every line that stand for memory, and a failure on every fourth line.
METRICS: tuple[Writer, ...] = (_engine, _memory)
DENSE: tuple[Writer, ...] = (_engine, _raylet, _step, _refusal)

KILL = """\
[2026-03-04 09:14:55,217 E 812 812] (raylet) node_manager.cc:3064: 1 Workers (tasks / actors) killed due to memory \
pressure (OOM), 0 Workers crashed due to other reasons at node (ID: {node}, IP: 10.0.3.4) over the last time period. \
To see more information about the Workers killed on this node, use `ray logs raylet.out -ip 10.0.3.4`
Memory on the node (IP: 10.0.3.4, ID: {node}) where the task (actor ID: {actor}, \
name=RolloutActor.__init__, pid=81724, memory used=12.40GB) was running was 482.91GB / 503.51GB (0.959087), which \
exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: {worker}) because it was the most recently \
scheduled task; to see more information about memory usage on this node, use `ray logs raylet.out -ip 10.0.3.4`. \
Top 10 memory users:
PID\tMEM(GB)\tCOMMAND
4117\t301.22\tpython serve_reward.py --port 5000
81724\t12.40\tray::RolloutActor
"""


def some_of(size: int, writers: tuple[Writer, ...], seed: int = 1) -> bytes:
    """About this many bytes of these lines."""
    r = random.Random(seed)
    lines: list[str] = []
    length = 0
    while length < size:
        lines.append(r.choice(writers)(r) + "\n")
        length += len(lines[-1])
    return "".join(lines).encode()


def healthy(size: int, seed: int = 1) -> bytes:
    """A job to which nothing happens."""
    return some_of(size, HEALTHY, seed)


def write_killed(path: Path, size: int, writers: tuple[Writer, ...] = HEALTHY) -> None:
    """A log of this size with one kill at its end."""
    day = some_of(min(size, 32 * MIB), writers)
    r = random.Random(2)
    with path.open("wb") as file:
        written = 0
        while written < size:
            written += file.write(day[: size - written])
        file.write(b"\n")
        ids = {name: f"{r.getrandbits(224):056x}" for name in ("node", "actor", "worker")}
        file.write(KILL.format(**ids).encode())
        file.write(healthy(20_000, seed=3))


def write_failing(path: Path, size: int, failures: int) -> None:
    """A log of this size with so many failures all over it."""
    r = random.Random(4)
    day = healthy(min(size // failures, 32 * MIB))
    with path.open("wb") as file:
        for _ in range(failures):
            file.write(day + _refusal(r).encode() + b"\n")


def write_folder(folder: Path, size: int, files: int) -> None:
    """So many logs of this size together, one of them with a kill."""
    folder.mkdir()
    for number in range(files - 1):
        (folder / f"worker-{number:04}.log").write_bytes(healthy(size // files, seed=number))
    write_killed(folder / "raylet.log", size // files)


KINDS = {"sparse": HEALTHY, "metrics": METRICS, "dense": DENSE}
MANY = {"failures": write_failing, "files": write_folder}

if __name__ == "__main__":
    to, length, kind, *number = sys.argv[1:]
    if kind in MANY:
        MANY[kind](Path(to), int(length), int(*number))
    else:
        write_killed(Path(to), int(length), KINDS[kind])
