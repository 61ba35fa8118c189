"""GPU memory failures of the libraries beside the framework: cuBLAS, cuDNN, NCCL, RMM, CuPy, bitsandbytes, ..."""

from __future__ import annotations

from dataclasses import dataclass

from oomdoctor.families.event import Event, Role, usage


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryOutOfMemory(Event):
    """A library could not allocate, and says so."""

    family = "gpu_library"
    kind = "library-out-of-memory"

    pool: str = "gpu"  # "shm" or "pinned" where the library says so
    strength: int = 2

    library: str  # cuBLAS, cuDNN, cuSOLVER, cuFFT, cuSPARSE, NCCL, RCCL, RMM, CuPy, bitsandbytes, ggml, ...
    status: str | None = None  # CUBLAS_STATUS_ALLOC_FAILED
    tried_bytes: int | None = usage()
    allocated_bytes: int | None = usage()
    limit_bytes: int | None = usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryTrouble(Event):
    """A library failed in a way that a full card would explain, and other things too: a hint."""

    family = "gpu_library"
    kind = "library-trouble"

    role: Role = "context"
    pool: str = "gpu"
    strength: int = 1

    library: str
    status: str
