"""Memory that a program pins for others than itself: for a network adapter, which reads and writes it without the
processor, and for the kernel's own virtual machine. What is refused there is page-locked memory, whoever holds it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from oomdoctor.patterns import late
from oomdoctor.streams import Page

# libfabric's fi_mr_reg() and its kin, verbs' ibv_reg_mr(), UCX' ucp_mem_map() and uct_md_mem_reg()
_CALLS = late(
    r"\b(?:fi_mr_reg\w{0,8}|ibv_(?:exp_)?reg_\w{2,16}|ucp_mem_map|uct_md_mem_reg\w{0,4}|\w{0,20}_reg_mr\w{0,8}"
    r"|\w{0,12}_mr_reg\w{0,12})\b"
)
# "failed to register your buffer", "registration of 2 memory regions"; a program registers names and handlers, too
_WORDS = late(
    r"(?i)\bregist(?:er(?:ing)?|ration (?:of|for)) (?!shared\b)(?:[\w.()=-]{1,20} ){0,4}?"
    r"(?:memory(?! (?:callback|hook|handler|type|manager|allocator))|buffers?|(?:memory )?regions?|MRs?|segments?)\b"
)
# With whom; a kernel registers device memory, and a server shared memory
_WITH = late(
    r"(?i)(?<![a-z])(?:nics?|hcas?|rdma|rocev?\d?|infiniband|verbs|(?:network|fabric) adapters?|(?:lib)?fabric|ofi"
    r"|efa|cxi|ucx|nccl|rccl|open ?mpi|nixl|mooncake|transfer[ _]engine|mrs?|memory regions?)(?![a-z])"
)
_NO_MEMORY = late(
    r"[Cc]annot allocate memory|\bENOMEM\b|\bRC: ?-12\b|\b(?:errno|error|ret\w{0,3}|rc|status)[ :=]{1,3}-?12\b"
)
# Up to Linux 5.10 the maps and programs of BPF count against the limit on locked memory (kernel/bpf/syscall.c,
# bpf_charge_memlock), and whoever loads them names it
_OF_BPF = late(r"(?i)\be?bpf\b.{0,240}(?:cannot allocate memory|\bENOMEM\b).{0,120}\bMEMLOCK\b")
_SIZE = late(r"(?i)\blength: {1,12}(\d{1,20})\b|\b(\d{1,20}) bytes\b")

# Open MPI frames its notices (opal/util/show_help.c); a list at the end names the error
_FRAME = late(r"-{40,120}\s{0,4}$")
_OF_A_LIST = late(r"\s{1,8}(?:[A-Z][\w ]{0,20} )?[Ee]rror: {1,24}\S")
_LINES: Final = 12
_CHARACTERS: Final = 400


class Registration(Struct, frozen=True):
    """A registration that was refused for lack of memory."""

    by: str  # "bpf", "adapter"
    size: int | None = None


def registration(page: Page, index: int, text: str) -> Registration | None:
    """The registration of which the line, or the notice that it ends, says that there was no memory for it."""
    if _OF_BPF.search(text) is not None:
        return Registration("bpf")
    if _NO_MEMORY.search(text) is None:
        return None
    mark = page.lines[index].mark
    said = f"{_head(page, index, text)}{text}"
    if not registers(said, f"{mark.source or ''} {mark.name or ''}"):
        return None
    size = _SIZE.search(said)
    return Registration("adapter", int(size[1] or size[2]) if size is not None else None)


def registers(text: str, where: str = "") -> bool:
    """Whether memory was to be registered with a network adapter."""
    if _CALLS.search(text) is not None:
        return True
    return _WORDS.search(text) is not None and _WITH.search(f"{where} {text}") is not None


def _head(page: Page, index: int, text: str) -> str:
    """What a notice says above the list in which the line names its error."""
    if _OF_A_LIST.match(text) is None:
        return ""
    head = ""
    for line in reversed(page.lines[max(0, index - _LINES) : index]):
        if _FRAME.match(line.text) is not None:
            break
        head = f"{line.text[:_CHARACTERS].strip()} {head}"
    return head


__all__ = ["Registration", "registers", "registration"]
