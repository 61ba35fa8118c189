"""Logs of kills for the host's memory, built from a table, and read by the real street as far as the causes."""

from __future__ import annotations

from collections.abc import Sequence

NODE = "5d0be17c42f98a36e1b07d54c9a2f3681e5b90d7c4a3f8261b7e90d5"

Row = tuple[int, float, str]  # PID, GiB, command

TRAINERS: tuple[Row, ...] = tuple((4000 + n, 20.5 - n / 10, "ray::PolicyModelActor.fit") for n in range(4))
REWARD_SERVER: Row = (31207, 171.44, "python -m serve_reward_model --model /models/rm-13b --port 5005")
LEFTOVERS: tuple[Row, ...] = ((877, 0.23, "/opt/env/ray/core/src/ray/gcs/gcs_server --log_dir=/tmp/ray"),)


def kill(
    *rows: Row,
    used: float = 239.4,
    total: float = 251.6,
    victim: str = "LLMRayActor.__init__",
    pid: int = 40677,
    own: float = 6.31,
    ip: str = "10.24.0.17",
) -> list[str]:
    """Ray's message of 2.9 to 2.49 with its table; without rows, as it is cut before the table."""
    node = (
        f"Memory on the node (IP: {ip}, ID: {NODE}) where the task (actor ID: {NODE[:32]}, name={victim}, pid={pid}, "
        f"memory used={own:.2f}GB) was running was {used:.2f}GB / {total:.2f}GB ({used / total:.6f}), which exceeds "
        f"the memory usage threshold of 0.95. Ray killed this worker (ID: {NODE}) because it was the most recently "
        f"scheduled task; to see more information about memory usage on this node, use `ray logs raylet.out -ip {ip}`. "
        f"To see the logs of the worker, use `ray logs worker-{NODE}*out -ip {ip}."
    )
    lines = ["ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.", node]
    if rows:
        lines[-1] += " Top 10 memory users:"
        lines += table(rows)
    return lines


def table(rows: Sequence[Row]) -> list[str]:
    return ["PID\tMEM(GB)\tCOMMAND", *(f"{pid}\t{gib:.2f}\t{command}" for pid, gib, command in rows)]
