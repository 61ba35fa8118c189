"""Host allocations that are refused: PyTorch's CPU allocator, Python, numpy, Arrow, C++, Rust, Java, Windows, pinned
memory; and compilers that the build's memory use got killed."""

from __future__ import annotations

from dataclasses import dataclass

from oomdoctor.families.event import Event, usage


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAllocation(Event):
    """An allocation of host memory was refused. A full Linux machine kills instead: think of limits, overcommit and
    sizes that no machine has."""

    family = "host_alloc"
    kind = "host-allocation"

    pool: str = "host_ram"
    strength: int = 2  # 3 where the size is printed

    allocator: str  # "torch", "python", "numpy", "arrow", "c++", "rust", "os", "windows", "java", "node"
    tried_bytes: int | None = usage()
    errno: int | None = None  # 12 on Linux, 1455 on Windows (commit limit)
    shape: tuple[int, ...] = ()
    dtype: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedAllocation(Event):
    """Page-locked host memory was refused: by the driver, or by the limit on locked memory."""

    family = "host_alloc"
    kind = "pinned-allocation"

    pool: str = "pinned"
    strength: int = 2  # 3 where the size is printed

    allocator: str  # "cuda", "tensorflow", "mlock", "rdma", ...
    tried_bytes: int | None = usage()
    errno: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerKill(Event):
    """A compiler was killed while building."""

    family = "host_alloc"
    kind = "compiler-kill"

    pool: str = "host_ram"
    strength: int = 2

    program: str  # "cc1plus", "cicc", "ptxas", ...
    signal: int | None = None
