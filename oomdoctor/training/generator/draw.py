"""What a log is drawn from: figures, names and places. All of it is invented, and the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

CARDS = (15.77, 22.17, 23.65, 31.74, 39.39, 44.52, 79.15, 79.25, 93.1, 139.8)  # GiB, as PyTorch prints them
NODES = (62.8, 125.7, 188.4, 251.6, 503.5, 1007.6, 2015.3)  # GiB of RAM
ACTORS = ("RolloutWorker", "ActorModelRayActor", "CriticModelRayActor", "WorkerDict", "TaskRunner", "LearnerActor")
TASKS = ("tokenize_shard", "collect_batch", "score_answers", "read_parquet_part", "simulate")
REWARD_SERVERS = (
    "python -m serve_reward --port 5000",
    "/opt/env/bin/python rm_server.py",
    "python reward_model_server.py",
)
STRANGERS = ("/opt/env/bin/python export_index.py", "java -Xmx90g -jar search.jar", "python3 label_studio.py")


@dataclass(slots=True)
class Draw:
    """One log's dice."""

    dice: random.Random
    ip: str = field(init=False)
    node: str = field(init=False)
    actor: str = field(init=False)
    pid: int = field(init=False)
    card: float = field(init=False)
    ram: float = field(init=False)

    def __post_init__(self) -> None:
        self.ip = f"10.{self.whole(2, 250)}.{self.whole(0, 250)}.{self.whole(2, 250)}"
        self.node = self.hexadecimal(56)
        self.actor = self.one(ACTORS)
        self.pid = self.whole(700, 190000)
        self.card = self.one(CARDS)
        self.ram = self.one(NODES)

    def one(self, choices: Sequence[T]) -> T:
        return self.dice.choice(choices)

    def whole(self, least: int, most: int) -> int:
        return self.dice.randint(least, most)

    def between(self, least: float, most: float) -> float:
        return self.dice.uniform(least, most)

    def often(self, share: float) -> bool:
        return self.dice.random() < share

    def hexadecimal(self, digits: int) -> str:
        return "".join(self.dice.choice("0123456789abcdef") for _ in range(digits))


def size(gib: float) -> str:
    """As PyTorch prints it: two decimals, MiB below a GiB."""
    return f"{gib:.2f} GiB" if gib >= 1 else f"{gib * 1024:.2f} MiB"


__all__ = ["REWARD_SERVERS", "STRANGERS", "TASKS", "Draw", "size"]
