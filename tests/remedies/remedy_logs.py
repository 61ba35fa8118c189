"""Logs in parts, and what is advised for them: for the tests of the remedies."""

from __future__ import annotations

from oomdoctor import families, streams
from oomdoctor.incident.assemble import Gathered, crashes
from oomdoctor.incident.model import Crash
from oomdoctor.incident.trajectory import TrajectoryBuilder
from oomdoctor.job.context import ContextBuilder
from oomdoctor.remedies import Rejected, Remedy
from oomdoctor.remedies.advise import remedies


def crashes_of(text: str) -> tuple[Crash, ...]:
    page = streams.page("job.log", 1, text.encode())
    gathered, job, memory = Gathered(), ContextBuilder(), TrajectoryBuilder()
    job.add(page)
    memory.add(page)
    for found in families.read(page):
        gathered.add(found)
    return crashes(gathered, job.build(), memory.build())


def advise(text: str, *knobs: str, cause: str = "") -> tuple[dict[str, Remedy], dict[str, Rejected]]:
    chosen, rejected = remedies(cause, knobs, crashes_of(text)[0])
    return {r.knob: r for r in chosen}, {r.knob: r for r in rejected}


CUDA = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of {total} of "
    "which {free} is free. Including non-PyTorch memory, this process has {own} memory in use. Of the allocated memory "
    "{own} is allocated by PyTorch, and {unused} is reserved by PyTorch but unallocated. If reserved but unallocated "
    "memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.\n"
)


def cuda(
    tried: str = "2.00 GiB",
    total: str = "79.15 GiB",
    free: str = "1.00 GiB",
    own: str = "70.00 GiB",
    unused: str = "100.00 MiB",
) -> str:
    return CUDA.format(tried=tried, total=total, free=free, own=own, unused=unused)


def kill(used: float, total: float, rows: str, threshold: str = "0.95") -> str:
    return (
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
        f"Memory on the node (IP: 10.1.2.3, ID: {'ab' * 28}) where the task (actor ID: {'cd' * 16}, "
        f"name=LLMRayActor.__init__, pid=8805, memory used=8.80GB) was running was {used:.2f}GB / {total:.2f}GB "
        f"({used / total:.6f}), which exceeds the memory usage threshold of {threshold}. Ray killed this worker "
        f"(ID: {'ef' * 28}) because it was the most recently scheduled task; to see more information about memory "
        "usage on this node, use `ray logs raylet.out -ip 10.1.2.3`. Top 10 memory users:\n"
        f"PID\tMEM(GB)\tCOMMAND\n{rows}"
        "Refer to the documentation on how to address the out of memory issue: https://docs.ray.io/x. To adjust the "
        "kill threshold, set the environment variable `RAY_memory_usage_threshold` when starting Ray. To disable "
        "worker killing, set the environment variable `RAY_memory_monitor_refresh_ms` to zero.\n"
    )


HOG = kill(
    239.02,
    251.56,
    "14\t176.97\tpython train/reward_server.py --reward_pretrain /m/rm\n8805\t8.80\tray::LLMRayActor.update_weight\n"
    "9529\t8.30\tray::RayWorkerWrapper\n",
)
OPENRLHF = (
    "python3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes 1 --actor_num_gpus_per_node 4 --zero_stage 2 "
    "--remote_rm_url http://localhost:5000/get_reward --pretrain Qwen/Qwen2.5-7B-Instruct {}\n"
)
