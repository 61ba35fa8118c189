"""What stands around a failure in a log: prefixes, ranks, a healthy stretch, traps, cascades, cuts and wraps."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

from oomdoctor.training.generator.draw import Draw
from oomdoctor.training.generator.scene import Scene

# Memory words of a good day, and advice that is no evidence
TRAPS: Final = (
    "INFO 10-02 08:00:58 [gpu_worker.py:298] Available KV cache memory: 57.91 GiB",
    "If you run out of memory, try reducing the batch size (see the guide on OOM errors).",
    "|            CUDA OOMs: 0            |        cudaMalloc retries: 0         |",
    "UserWarning: low_cpu_mem_usage=True may help if the host runs out of memory",
    "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 101376. "
    "Reducing block sizes or `num_stages` may help. Trying the next configuration.",
)
CASCADES: Final = (
    "[rank3]:[E ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=118)",
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    "W0812 09:00:12.000000 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 4411 closing signal SIGTERM",
)
OTHER_ERRORS: Final = (
    "KeyError: 'prompt_ids'",
    "ValueError: too many values to unpack (expected 2)",
    "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.jsonl'",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x768 and 1024x512)",
)
NARROWEST, WIDEST = 80, 140
SHORTEST_TO_CUT = 3
LONGEST_STRETCH = 40  # lines


def dressed(draw: Draw, scene: Scene) -> str:
    """The failure as a log of it may look."""
    before = [*scene.before, *_stretch(draw)]
    if draw.often(0.25):
        before.append(draw.one(TRAPS))
    crash = list(scene.crash)
    after = [draw.one(CASCADES) for _ in range(draw.whole(0, 2))]
    return _joined(draw, [*_marked(draw, [*before, *crash]), *after])


def pasted(draw: Draw, scene: Scene) -> Scene:
    """The failure without its first lines, as people cut them off; what is left may only tell what ran out."""
    if len(scene.crash) <= SHORTEST_TO_CUT:
        return scene
    also = (*scene.also, "gpu-memory-exhausted", "host-memory-exhausted")
    return Scene(scene.crash[draw.whole(1, 2) :], also=also)


def hidden(draw: Draw, scene: Scene) -> str:
    """The failure cut before the error's own words."""
    crash = list(scene.crash)
    first = next(number for number, line in enumerate(crash) if line.startswith("Traceback"))
    frames = [line for line in crash[first + 1 :] if line.startswith("  ")]
    return _joined(draw, _marked(draw, [*scene.before, *_stretch(draw), crash[first], *frames]))


def healthy(draw: Draw) -> str:
    """A log without a failure of memory."""
    lines = [*_stretch(draw), *(draw.one(TRAPS) for _ in range(draw.whole(0, 3)))]
    if draw.often(0.5):
        lines += ["Traceback (most recent call last):", '  File "train.py", line 88, in <module>', "    main()"]
        lines.append(draw.one(OTHER_ERRORS))
    else:
        lines.append("Training finished.")
    return _joined(draw, _marked(draw, lines))


def _stretch(draw: Draw) -> list[str]:
    """What a job prints while all is well."""
    kind = draw.whole(0, 2)
    start = draw.whole(1, 900)
    steps = range(start, start + draw.whole(0, LONGEST_STRETCH))
    if kind == 0:
        return [f"step {n} loss {draw.between(0.3, 3):.4f} lr 1e-06 tokens/s {draw.whole(900, 90000)}" for n in steps]
    if kind == 1:
        return [
            f"INFO 10-02 08:00:{n % 60:02d} [metrics.py:417] Running: {draw.whole(0, 90)} reqs, Waiting: 0 reqs"
            for n in steps
        ]
    return [
        f"[2025-05-11 10:{n % 60:02d}:07,120] [INFO] epoch 1 iter {n} elapsed {draw.between(0.4, 9):.2f}s"
        for n in steps
    ]


def _marked(draw: Draw, lines: Sequence[str]) -> list[str]:
    """The lines as a launcher hands them on: as they are, or with the writer's name in front."""
    lot = draw.dice.random()
    if lot < 0.5 or any(line.startswith("(") for line in lines):  # marked already
        return list(lines)
    rank = draw.whole(0, 7)
    prefix = draw.one(
        (
            f"({draw.actor} pid={draw.pid}) ",
            f"({draw.actor} pid={draw.pid}, ip={draw.ip}) ",
            f"[rank{rank}]: ",
            f"{rank}: ",
            f"[{rank}]:",
        )
    )
    marked = [prefix + line for line in lines]
    return _interleaved(draw, marked) if draw.often(0.3) else marked


def _interleaved(draw: Draw, lines: Iterable[str]) -> list[str]:
    """Another writer's lines in between."""
    mixed: list[str] = []
    for line in lines:
        mixed.append(line)
        if draw.often(0.05):
            mixed.append(f"(Monitor pid={draw.pid + 77}) heartbeat {draw.whole(1, 9999)}")
    return mixed


def _joined(draw: Draw, lines: Sequence[str]) -> str:
    """The text, now and then wrapped as a terminal or a form does."""
    if draw.often(0.1):
        width = draw.whole(NARROWEST, WIDEST)
        lines = [part for line in lines for part in (textwrap.wrap(line, width, drop_whitespace=False) or [""])]
    return "\n".join(lines) + "\n"


__all__ = ["dressed", "healthy", "hidden", "pasted"]
