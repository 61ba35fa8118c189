"""Failures of the host's memory, one recipe per way that a cause shows."""

from __future__ import annotations

from typing import Final

from oomdoctor.training.generator.draw import REWARD_SERVERS, STRANGERS, TASKS, Draw
from oomdoctor.training.generator.messages import Row, bare_kill, kernel_kill, ray_kill, refused, traceback
from oomdoctor.training.generator.scene import Recipe, Scene

FULL: Final = "host-memory-exhausted"
HOG: Final = "process-ram-hog"


def _rows(draw: Draw, *held: tuple[float, str]) -> list[Row]:
    """Rows of the node's table, the largest first, with Ray's own small processes below."""
    rows: list[Row] = [(draw.whole(400, 99999), gib, name) for gib, name in sorted(held, reverse=True)]
    small = ("ray::IDLE", "/opt/env/ray/core/src/ray/gcs/gcs_server --log_dir=/tmp/ray", "python -m ray.dashboard")
    return [*rows, *((draw.whole(400, 99999), 0.2 - n / 20, name) for n, name in enumerate(small))]


def reward_server(draw: Draw) -> Scene:
    held = draw.ram * draw.between(0.6, 0.85)
    actors = [(draw.ram * 0.03, f"ray::{draw.actor}.fit") for _ in range(3)]
    return Scene(tuple(ray_kill(draw, _rows(draw, (held, draw.one(REWARD_SERVERS)), *actors))), also=(HOG,))


def hog_in_the_table(draw: Draw) -> Scene:
    held = draw.ram * draw.between(0.55, 0.9)
    return Scene(
        tuple(ray_kill(draw, _rows(draw, (held, draw.one(STRANGERS)), (draw.ram * 0.04, f"ray::{draw.actor}"))))
    )


def hog_in_the_kernel(draw: Draw) -> Scene:
    return Scene(
        tuple(kernel_kill(draw, draw.one(("python3", "java", "pt_main_thread")), draw.ram * draw.between(0.7, 0.93)))
    )


def many(draw: Draw) -> Scene:
    count = draw.whole(5, 9)
    each = draw.ram * 0.9 / count
    name = draw.one(TASKS)
    rows = _rows(draw, *((each * draw.between(0.97, 1.0), f"ray::{name}") for _ in range(count)))
    return Scene(tuple(ray_kill(draw, rows, victim=name, own=each)))


def grows(draw: Draw) -> Scene:
    first = draw.ram * draw.between(0.15, 0.3)
    steps = draw.whole(4, 9)
    step = (draw.ram * 0.93 - first) / steps
    lines = tuple(
        f"(main_task pid={draw.pid}) [step {n}] memory used = {first + step * (n - 1):.2f} GiB"
        for n in range(1, steps + 1)
    )
    return Scene(tuple(ray_kill(draw, ())), before=lines, also=("cpu-offload-overcommit",))


def offloaded(draw: Draw) -> Scene:
    each = draw.ram * 0.22
    setting = draw.one(
        ("Namespace(adam_offload=True, zero_stage=3)", "Namespace(zero_stage=3, adam_offload=True, n_gpus_per_node=8)")
    )
    rows = _rows(draw, *((each, f"ray::{draw.actor}.fit") for _ in range(4)))
    return Scene(tuple(ray_kill(draw, rows)), before=(setting,), also=("too-many-workers", "host-model-load"))


def swap_space(draw: Draw) -> Scene:
    total = draw.between(30, 500)
    return Scene(
        (
            f"ValueError: Too large swap space. {total * draw.between(0.75, 1.3):.2f} GiB out of the {total:.2f} GiB "
            "total CPU memory is allocated for the swap space.",
        )
    )


def host_cache(draw: Draw) -> Scene:
    free = draw.between(30, 600)
    return Scene(
        (
            f"ValueError: Not enough host memory available. Requesting {free * 1.3:.2f} GB but only have {free:.2f} GB "
            "free. Please reduce the size of the hierarchical cache.",
        )
    )


def group_limit(draw: Draw) -> Scene:
    group = draw.one(
        ("/kubepods.slice/pod9", "/docker/0c1f", "/slurm/uid_1000/job_77/step_0", "/system.slice/job.scope")
    )
    return Scene(
        tuple(
            kernel_kill(draw, draw.one(("python3", "ray::IDLE", "pt_data_worker")), draw.between(4, 200), group=group)
        )
    )


def scheduler_limit(draw: Draw) -> Scene:
    job = draw.whole(1000, 900000)
    return Scene(
        draw.one(
            (
                (
                    f"slurmstepd: error: Detected 1 oom_kill event in StepId={job}.0. Some of the step tasks have been OOM Killed.",
                ),
                ("    Last State:     Terminated", "      Reason:       OOMKilled", "      Exit Code:    137"),
                ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", "Exited with exit code 130."),
                (
                    f"slurmstepd: error: Detected 1 oom-kill event(s) in StepId={job}.batch cgroup. Some of your processes "
                    "may have been killed by the cgroup out-of-memory handler.",
                ),
            )
        )
    )


def store_full(draw: Draw) -> Scene:
    size = draw.whole(2, 60) * 10**9
    return Scene(
        (
            f"ray.exceptions.ObjectStoreFullError: Failed to put object {draw.hexadecimal(56)} in object store because it "
            f"is full. Object size is {size} bytes.",
            "Plasma store status:",
            f"(global lru) capacity: {int(size * 0.6)}",
            f"(global lru) used: {draw.whole(0, 90)}%",
        )
    )


def disk_full(draw: Draw) -> Scene:
    return Scene(
        draw.one(
            (
                (
                    "(raylet) An unexpected internal error occurred while the IO worker was spilling objects: [Errno 28] "
                    "No space left on device",
                ),
                (
                    f"(raylet) [2026-02-03 07:14:20,501 E {draw.pid} {draw.pid}] (raylet) file_system_monitor.cc:116: "
                    f"/scratch/ray/session_9 is over 95% full, available space: {draw.between(1, 40):.2f} GB; capacity: "
                    f"{draw.between(900, 2000):.2f} GB. Object creation will fail if spilling is required.",
                    "OSError: [Errno 28] No space left on device: '/scratch/ray/session_9/ray_spilled_objects/7'",
                ),
            )
        )
    )


def shm(draw: Draw) -> Scene:
    return Scene(
        draw.one(
            (
                (
                    f"RuntimeError: DataLoader worker (pid {draw.pid}) is killed by signal: Bus error. It is possible that "
                    "dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
                ),
                (
                    f"RuntimeError: unable to allocate shared memory(shm) for file </torch_{draw.pid}_9_1>: No space left "
                    "on device (28)",
                ),
                (
                    "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory "
                    "(shm).",
                ),
            )
        )
    )


def saving(draw: Draw) -> Scene:
    frames = (("verl/trainer/ppo/ray_trainer.py", "_save_checkpoint", "self.actor_rollout_wg.save_checkpoint("),)
    if draw.often(0.5):
        return Scene(tuple(traceback(draw, frames, "")[:-1] + ray_kill(draw, ())), also=(FULL,))
    gather = ("torch/distributed/fsdp/_state_dict_utils.py", "_full_post_state_dict_hook", "tensor = tensor.cpu()")
    return Scene(tuple(traceback(draw, (*frames, gather), refused(draw, draw.between(0.3, 3)))))


def dataset(draw: Draw) -> Scene:
    done = draw.whole(20, 90)
    line = draw.one(
        (
            f"Running tokenizer on dataset (num_proc={draw.one((8, 32, 64))}):  {done}%|###   | {done * 900}/90000 [01:10<00:28]",
            f"train: Caching images ({draw.ram * 0.8:.1f}GB ram):  {done}%|####  | {done * 300}/30000 [04:40<02:37]",
            f"Generating train split: {done * 1000} examples [00:40, 9000.00 examples/s]",
        )
    )
    crash = ray_kill(draw, ()) if draw.often(0.5) else kernel_kill(draw, "python3", draw.ram * 0.9)
    return Scene((line, *crash), also=(FULL, HOG))


def load_on_the_host(draw: Draw) -> Scene:
    frames = (
        (
            "transformers/modeling_utils.py",
            "load_state_dict",
            "return torch.load(checkpoint_file, map_location=map_location)",
        ),
    )
    line = f"Loading checkpoint shards:  {draw.whole(10, 80)}%|####      | 3/8 [00:40<01:10,  9.1s/it]"
    refusal = (
        f"RuntimeError: [enforce fail at alloc_cpu.cpp:{draw.whole(60, 130)}] err == 0. DefaultCPUAllocator: can't allocate "
        f"memory: you tried to allocate {draw.whole(1, 30) << 29} bytes. Error code 12 (Cannot allocate memory)"
    )
    if draw.often(0.5):
        return Scene((line, *traceback(draw, frames, refusal)), also=(HOG,))
    return Scene((line, *kernel_kill(draw, "python3", draw.ram * 0.9)), also=(HOG, FULL))


def pinned(draw: Draw) -> Scene:
    return Scene(
        draw.one(
            (
                (
                    "RuntimeError: Caught RuntimeError in pin memory thread for device 0.",
                    *traceback(
                        draw,
                        (("torch/utils/data/_utils/pin_memory.py", "pin_memory", "return data.pin_memory(device)"),),
                        draw.one(
                            ("RuntimeError: CUDA error: invalid argument", "RuntimeError: CUDA error: out of memory")
                        ),
                    ),
                ),
                ("RuntimeError: cudaHostAlloc failed: out of memory",),
                (f"ERROR: failed to allocate {draw.whole(1, 40) << 30} bytes of pinned memory",),
                (
                    "n17:4410:4502 [0] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
                ),
            )
        )
    )


def address_space(draw: Draw) -> Scene:
    return Scene(
        draw.one(
            (
                ("terminate called after throwing an instance of 'std::bad_alloc'", "  what():  std::bad_alloc"),
                ("bash: fork: Cannot allocate memory",),
                ("OSError: [WinError 1455] The paging file is too small for this operation to complete.",),
                tuple(
                    traceback(
                        draw,
                        (("job/run.py", "main", "m = mmap.mmap(-1, 8 << 30)"),),
                        "OSError: [Errno 12] Cannot allocate memory",
                    )
                ),
            )
        ),
        before=("$ ulimit -v 16777216",) if draw.often(0.5) else (),
        also=(HOG, FULL),
    )


def build(draw: Draw) -> Scene:
    return Scene(
        draw.one(
            (
                (
                    "c++: fatal error: Killed signal terminated program cc1plus",
                    "ninja: build stopped: subcommand failed.",
                ),
                (
                    "nvcc error   : 'cicc' died due to signal 9 (Kill signal)",
                    "ninja: build stopped: subcommand failed.",
                ),
                tuple(kernel_kill(draw, draw.one(("cc1plus", "cicc")), draw.between(2, 9))),
            )
        )
    )


def nobody_named(draw: Draw) -> Scene:
    if draw.often(0.5):
        return Scene(tuple(ray_kill(draw, ())), also=(HOG,))
    return Scene(
        draw.one(
            (
                ("[300.100200] Out of memory and no killable processes...",),
                (
                    f"(raylet) [2025-06-02 11:20:41,118 E 4100 4100] (raylet) node_manager.cc:3065: {draw.whole(1, 60)} Workers "
                    f"(tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: "
                    f"{draw.node}, IP: {draw.ip}) over the last time period.",
                ),
                ("message: 'The node was low on resource: memory. '", "reason: Evicted"),
            )
        )
    )


def array_of_no_machine(draw: Draw) -> Scene:
    return Scene(
        (
            f"RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you "
            f"tried to allocate {draw.whole(20, 900) * 10**12} bytes. Error code 12 (Cannot allocate memory)",
        )
    )


def killed(draw: Draw) -> Scene:
    return Scene(tuple(bare_kill(draw)), also=("not-oom",))


RECIPES: Final[dict[str, tuple[Recipe, ...]]] = {
    "reward-model-ram-hog": (reward_server,),
    "process-ram-hog": (hog_in_the_table, hog_in_the_kernel),
    "too-many-workers": (many,),
    "host-memory-leak": (grows,),
    "cpu-offload-overcommit": (offloaded, swap_space, host_cache),
    "container-limit": (group_limit, scheduler_limit),
    "object-store-full": (store_full,),
    "spill-disk-full": (disk_full,),
    "shm-too-small": (shm,),
    "checkpoint-spike": (saving,),
    "dataset-in-ram": (dataset,),
    "host-model-load": (load_on_the_host,),
    "pinned-memory-exhausted": (pinned,),
    "address-space-limit": (address_space,),
    "build-parallelism": (build,),
    "host-memory-exhausted": (nobody_named,),
    "absurd-size": (array_of_no_machine,),
    "killed-without-evidence": (killed,),
}

__all__ = ["RECIPES"]
