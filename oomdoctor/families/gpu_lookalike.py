"""What sounds like GPU memory running out and is something else: on-chip limits, faults, caught requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oomdoctor.families import Family
from oomdoctor.families.event import Lookalike, Read
from oomdoctor.families.lines import place_of
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Page

ON_CHIP = mark("on-chip memory of one kernel, not GPU memory: the kernel's blocks are larger than it")
# jax/docs/pallas/tpu: HBM is the device's memory; VMEM and SMEM are caches at its cores, for blocks and scalars
TPU_BLOCKS = mark("on-chip memory of a TPU core (vmem), not HBM: the blocks of one kernel are larger than it")
TPU_SCALARS = mark(
    "scalar memory of a TPU core (smem), not HBM: the scalars that a kernel takes, such as tables of indices that it "
    "prefetches, are larger than it"
)
TPU_OTHER = mark("on-chip memory of a TPU core, not HBM: what the program puts there is larger than it")
ON_THE_CHIP: Final = (ON_CHIP, TPU_BLOCKS, TPU_SCALARS, TPU_OTHER)
FAULT = mark("a fault of the program or the GPU (a bad address, a failed check), not a lack of memory")
NEAR: Final = 60  # lines
HIDDEN = mark(
    "NCCL says that a CUDA call failed, but not which one nor why: memory or something else; a run with "
    "NCCL_DEBUG=INFO prints it"
)
# NCCL's user guide, troubleshooting: "refer to the NCCL warning message", and on shared memory of containers
OF_THE_SYSTEM = mark(
    "NCCL says that a system call failed, but not which one; often it is shared memory (/dev/shm, a container's "
    "--shm-size) or the network; a run with NCCL_DEBUG=INFO prints it"
)
UNTOLD: Final = (HIDDEN, OF_THE_SYSTEM)
CHIPS = mark(
    "memory chips of the GPU are faulty (an ECC error that cannot be corrected), never the program and no lack of "
    "memory: `nvidia-smi -q -d ECC,PAGE_RETIREMENT` shows them, and the GPU needs a reset or a replacement"
)
HARDWARE = mark("the driver reports a fault of the GPU or of the program, not a lack of memory")

# The first that fits says why. "out of memory" sentences with figures are other families'.
SAYS_NO_FAILURE: Final = mark(
    "the message itself says that this is no failure: the step runs without this memory, perhaps slower"
)
_LOOKALIKES = tuple(
    (late("|".join(patterns)), why)
    for why, *patterns in (
        (
            TPU_BLOCKS,
            r"(?:in|of) memory space vmem\b",
            r"exceeded scoped vmem limit",
            r"would exceed memory \(size=\d{1,15}\).{0,300}\bspace=vmem\b",
        ),
        (TPU_SCALARS, r"(?:in|of) memory space smem\b"),
        (TPU_OTHER, r"(?:in|of) memory space (?:cmem|sflag)\b"),
        (
            ON_CHIP,
            r"out of resource: ",
            r"uses too much shared data|allowed dynamic shared memory size|Shared memory size limit exceeded",
            r"dynamic smem \d{1,9} exceeds",
            r"\.cuh?\b.{0,120}(?i:not enough|insufficient|exceeds?|bytes of) shared memory",
            r"(?i:shared memory)\b.{0,40}\bexceeds (?:the )?device limit|requires \d{1,9} bytes of shared memory",
            # by the name of the property, in bytes: NCCL's src/enqueue.cc
            (
                r"\b\w{0,30}(?:[sS]hared_?[mM]em|[sS]mem)\w{0,40}[^\n\w]{1,4}\d{3,6}\b"
                r"(?:[^\n\d]{0,40}\bexceeds?\b|[^\n\d]{0,20}\b(?:larger|greater|more) than\b|\s?>\s?)"
                r"[^\n\d]{0,60}\d{3,6}\b(?!\.?\d)"
                r"|\b\d{3,6} (?:bytes|B)(?: of)? (?:[sS]hared_?[mM]em|[sS]mem)\w{0,20}[^\n\d]{0,40}\bexceeds?\b"
            ),
            r"Triton Error \[\w{2,5}\]: out of resource|LAUNCH_OUT_OF_RESOURCES",
        ),
        (  # stream_executor/cuda/cuda_driver.cc and rocm_driver.cc, UnifiedMemoryAllocate
            mark(
                "the driver takes no request for unified memory here, whatever its size: unset TF_FORCE_UNIFIED_MEMORY "
                "(ColabFold: --disable-unified-memory); not a lack of memory"
            ),
            r"bytes unified memory; result: (?!.{0,80}OUT_?OF_?MEMORY|.{0,80}OutOfMemory)",
        ),
        (
            # Vulkan, vkAllocateDescriptorSets: the pool was made for so many sets
            mark("a pool of descriptors is used up, of a size that the program chose; no memory ran out"),
            r"VK_ERROR_(?:OUT_OF_POOL_MEMORY|FRAGMENTED_POOL)\b",
        ),
        (mark("a kernel needs more registers than a block has"), r"too many resources requested for launch"),
        (CHIPS, r"(?i:uncorrectable ECC error|ECC_?Uncorrectable)|unrecoverable hardware memory error"),
        (HARDWARE, r"NVRM: Xid\b|uncorrectable (?:NVLink )?error"),
        (
            FAULT,
            r"illegal memory access|ILLEGAL READ OR WRITE TO A BUFFER|misaligned address|unspecified launch failure",
            r"device-side assert triggered",
            r"ERROR_ILLEGAL_ADDRESS|(?:cuda|hip)ErrorIllegalAddress|Memory access fault by GPU",
            # what the next call, even one that allocates, reports of an earlier kernel
            (
                r"(?:CUDA|HIP)_ERROR_(?:LAUNCH_FAILED|LAUNCH_TIMEOUT|ASSERT|MISALIGNED_ADDRESS|ILLEGAL_INSTRUCTION|INVALID_PC"
                r"|INVALID_ADDRESS_SPACE|HARDWARE_STACK_ERROR)\b|\b(?:cuda|hip)Error(?:LaunchFailure|LaunchTimeOut|Assert"
                r"|MisalignedAddress|IllegalInstruction|InvalidPc|InvalidAddressSpace|HardwareStackError)\b"
                r"|\bcu(?:da)?Mem?[Aa]lloc\w{0,12} (?:results in|returned|failed with)[^\n]{0,20}\b7(?:00|1[0-9])\b"
                r"|\bcu[A-Z]\w{2,40} failed with error 7(?:00|1[0-9])\b"  # PhysX's words, by the number in cuda.h
            ),
        ),
        (HIDDEN, r"(?i:nccl)[^\n]{0,160}[:,] unhandled cuda error|ncclUnhandledCudaError"),
        (OF_THE_SYSTEM, r"(?i:nccl)[^\n]{0,160}[:,] unhandled system error|ncclSystemError"),
        (
            mark("the GPU was reset after a fault and lost its memory's content; the GPU was not full"),
            r"VRAM (?:is )?lost\b",
        ),
        (
            mark("the driver or the GPU does not answer; memory is not short"),
            r"Failed to initialize NVML|Unable to determine the device handle for|GPU is lost",
        ),
        (
            # nv.c and nv-pci.c of open-gpu-kernel-modules, src/nvidia/src/kernel/gpu/gpu.c
            mark("the GPU fell off the bus: hardware, power or driver; memory is not short"),
            r"\bfallen off the bus\b",
        ),
        (mark("the kernel asks the graphics driver for pages; no process was killed"), r"Purging GPU memory"),
        (mark("XLA warns that a program may not fit; no allocation has failed yet"), r"Can't reduce memory use below"),
        (
            SAYS_NO_FAILURE,
            r"caller indicates that this is not a failure",
        ),
        (
            mark("caught: the work moves to the CPU and continues"),
            r"to CPU due to CUDA OOM\b|OutOfMemoryError in \w{1,60}, using CPU",
        ),
        (mark("caught: the batch is skipped and training continues"), r"OOM in all workers, skipping"),
        (mark("a search for the largest batch that fits"), r"Batch size \d{1,9} failed, trying batch size \d"),
    )
)


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    text = line.text[:1200]
    why = next((why for pattern, why in _LOOKALIKES if pattern.search(text)), None)
    if why is not None and not (why in UNTOLD and _is_told(page, index)):
        yield Lookalike(place_of(page, line), why)


def _is_told(page: Page, index: int) -> bool:
    """Whether NCCL names its error all the same, in a line of its own."""
    return any("Cuda failure" in line.text for line in (*page.before(index, NEAR), *page.after(index, NEAR)))


FAMILY = Family(
    name="gpu_lookalike",
    anchors=(),
    triggers=(
        "out of resource: ",
        ": out of resources",
        "OUT_OF_RESOURCES",
        "unhandled cuda error",
        "nhandledCudaError",
        "unhandled system error",
        "ncclSystemError",
        "memory space ",
        "bytes unified memory; ",
        "scoped vmem limit",
        "space=vmem",
        "memory size limit",
        "resources requested for launch",
        "ERROR_OUT_OF_POOL_MEMORY",
        "ERROR_FRAGMENTED_POOL",
        "NVRM: Xid",
        "fallen off the bus",
        "uncorrectable ",
        "illegal memory access",
        "ILLEGAL READ OR WRITE",
        "ECC_UNCORRECTABLE",
        "failed with error 7",
        "misaligned address",
        "unspecified launch failure",
        "device-side assert triggered",
        "this is not a failure",
        "due to CUDA OOM",
        "OOM in all workers",
        "failed, trying batch size",
        "shared data",
        " smem ",
        "Smem",
        "haredMem",
        "hared_mem",
        " shared memory",
        "device limit",
        "hardware memory error",
        "ECCUncorrectable",
        "llegalAddress",
        "ERROR_LAUNCH_",
        "ERROR_ASSERT",
        "ERROR_MISALIGNED",
        "ERROR_INVALID_PC",
        "ERROR_INVALID_ADDRESS",
        "ERROR_HARDWARE_STACK",
        "ILLEGAL_INSTRUCTION",
        "ErrorLaunch",
        "ErrorAssert",
        "ErrorMisaligned",
        "ErrorIllegalInst",
        "ErrorInvalidPc",
        "ErrorInvalidAddressSpace",
        "ErrorHardwareStack",
        "ILLEGAL_ADDRESS",
        "Memory access fault",
        "VRAM",
        "initialize NVML",
        "the device handle for",
        "GPU is lost",
        "Purging GPU memory",
        "reduce memory use below",
        "OutOfMemoryError in ",
    ),
    read=read,
    last=True,
)
