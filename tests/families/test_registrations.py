"""Registrations of memory with a network adapter, and BPF's maps, that were refused for lack of memory; each beside
what is nearly one: another error, another thing that is registered, another way that was taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

NOTICE = """{frame}
{head}
This error is fatal, your job will abort

  Buffer Type: {kind}
  Buffer Address: 0x2aaad4000000
  Buffer Length: 3221225472
  Error: {error}
{frame}"""
FRAME = "-" * 74
UNREGISTERED = "Open MPI failed to register your buffer."
NO_MEMORY = "Cannot allocate memory (18446744073709551604)"
OFI = (
    "tc02:5120:5377 [3] reg_mr_pool:288 NCCL WARN NET/OFI Unable to register memory (type = {kind}) for device 1. "
    "RC: {rc}"
)


def notice(head: str = UNREGISTERED, kind: str = "host", error: str = NO_MEMORY) -> str:
    return NOTICE.format(frame=FRAME, head=head, kind=kind, error=error)


PINNED = (
    notice(),
    notice(kind="cuda"),
    OFI.format(kind=1, rc="-12, Error: Cannot allocate memory"),
    "ERROR fi_mr_regv failed: -12 (Cannot allocate memory)",
    "RuntimeError: fi_mr_reg returned -12: Cannot allocate memory",
    "RuntimeError: registration of the region by ibv_reg_dmabuf_mr failed: errno 12",
    "ERROR ucp_mem_map failed: Out of memory",
    "ERROR link.cc:77 could not register buffer of 5368709120 bytes with the NIC: ENOMEM",
    "E20310403 10:14:07.120331 88121 rdma.cpp:18] Failed to register memory 0x7f2a48000000: Cannot allocate memory",
    "[ERROR] transfer_engine_py.cpp:88 registering 3 memory regions: Cannot allocate memory",
    "agentd: error: load_prog: BPF load error (Cannot allocate memory). Please check your system limits (MEMLOCK).",
    "slurmstepd: error: attach_ebpf: map create (Cannot allocate memory). Raise the limit (MEMLOCK).",
    'level=fatal msg="loading probes: map create: cannot allocate memory (MEMLOCK may be too low)"',
)
OTHERS = (
    (notice(error="Invalid argument (18446744073709551594)"), "no-oom", None),
    (notice("Open MPI failed to start your job."), "oom", "host_ram"),
    (f"{notice(error='Permission denied (13)')}\n  Error: Cannot allocate memory (12)", "oom", "host_ram"),
    (OFI.format(kind=2, rc="-22, Error: Invalid argument"), "no-oom", None),
    ("ERROR fi_mr_regv failed: -22 (Invalid argument)", "no-oom", None),
    ("ERROR registering the signal handler of the NIC failed: Cannot allocate memory", "oom", "host_ram"),
    ("ERROR cannot register the RDMA driver: Cannot allocate memory", "oom", "host_ram"),
    ("ERROR failed to register shared memory region with the NIC: Cannot allocate memory", "oom", "host_ram"),
    ("ERROR failed to register segment: Cannot allocate memory", "oom", "host_ram"),
    ("ERROR link.cc:77 using TCP since registering 3 memory regions failed: Cannot allocate memory", "no-oom", None),
    ("INFO registered 12 memory regions with the NIC", "no-oom", None),
    ("agentd: error: load_prog: BPF load error (Operation not permitted). Please check your system limits (MEMLOCK).",
     "no-oom", None),
    ("agentd: error: load_prog: BPF load error (Argument list too long). See the limits (MEMLOCK).", "no-oom", None),
    ("libbpf: Error in bpf_create_map(hits):Cannot allocate memory(-12). Retrying without BTF.", "no-oom", None),
    ("slurmstepd: error: task 3: memory limit exceeded. Please check your system limits.", "oom", "cgroup"),
)  # fmt: skip


@pytest.mark.parametrize("text", PINNED)
def test_it_was_page_locked_memory(tmp_path: Path, text: str) -> None:
    report = body(tmp_path, text)
    first = report["diagnoses"][0]
    assert (report["verdict"], first["cause"], first["pool"]) == ("oom", "pinned-memory-exhausted", "pinned")


@pytest.mark.parametrize(("text", "verdict", "pool"), OTHERS)
def test_it_was_not(tmp_path: Path, text: str, verdict: str, pool: str | None) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == verdict
    assert next((one["pool"] for one in report["diagnoses"]), None) == pool


def test_what_an_adapter_refuses_names_no_limit(tmp_path: Path) -> None:
    first = body(tmp_path, notice(kind="cuda"))["diagnoses"][0]
    assert first["headline"] == "Memory (3 GiB) could not be registered with the network adapter"
    assert "the message does not say which of them it was" in first["against"]
    assert first["remedies"][0]["knob"] == "raise-memlock"


def test_what_the_limit_is_named_for_is_locked(tmp_path: Path) -> None:
    first = body(tmp_path, PINNED[10])["diagnoses"][0]
    assert first["headline"] == "eBPF could not lock memory: the limit on locked memory (ulimit -l) was hit"
