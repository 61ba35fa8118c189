"""Every command that a report asks for has an output here that a family reads.

The commands are found by code: the constants and the functions of `signs/commands.py`, and nowhere else may one be
spelled. `OUTPUTS` names for each what it prints and who reads that.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import oomdoctor
from oomdoctor.families import Event, found_in
from oomdoctor.families import families as all_families
from oomdoctor.reading import pages
from oomdoctor.signs import commands
from oomdoctor.sources import Source

PACKAGE = Path(oomdoctor.__file__).parent
FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
# What one command prints, by its first words, and the families that read it.
OUTPUTS: dict[str, tuple[str, set[str]]] = {
    "dmesg -T | grep -i": ("pairs/dmesg-machine-full/evidence.txt", {"kernel"}),
    "dmesg -T | grep -B": ("pairs/dmesg-machine-full/evidence.txt", {"kernel"}),
    "for boot in -1 0; do journalctl -t kernel": ("pairs/journal-of-the-container/evidence.txt", {"kernel"}),
    "grep -n -A 60 'Traceback": ("asked/traceback-by-grep.txt", {"cuda"}),
    "grep -n -A 40 RESOURCE_EXHAUSTED": ("asked/account-of-xla-by-grep.txt", {"jax_tf"}),
    "grep -n -iE 'model weights": ("asked/account-of-vllm-by-grep.txt", {"vllm_figures", "nvidia_smi"}),
    "Select-String -Path": ("asked/traceback-by-select-string.txt", {"cuda"}),
    "Get-CimInstance Win32_OperatingSystem": ("asked/memory-of-windows.txt", {"machine_memory"}),
    "CUDA_LAUNCH_BLOCKING=1": ("asked/one-call-at-a-time.txt", {"cuda"}),
    "NCCL_DEBUG=INFO": ("asked/nccl-in-full.txt", {"gpu_library"}),
    "grep -n -i -B 40 'out of memory'": ("asked/workers-by-grep.txt", {"cuda"}),
    "ps aux": ("asked/ps-aux.txt", {"machine_memory"}),
    "ps -eo": ("asked/ps-eo.txt", {"machine_memory"}),
    "free -h": ("asked/free-h.txt", {"machine_memory"}),
    "free -m; df -h -t tmpfs; grep": ("asked/outside-processes.txt", {"machine_memory", "df"}),
    "df -h /dev/shm": ("asked/df-shm.txt", {"df"}),
    "ipcs -lm": ("asked/ipcs.txt", set()),  # for a person to look at: nobody's limit is a size
    "ray memory --stats-only": ("asked/ray-memory.txt", {"ray_store"}),
    "ray status -v": ("asked/ray-status.txt", {"ray_schedule"}),
    "grep -A 10 'MEM(GB)'": ("asked/rays-rows-by-grep.txt", {"ray_kill"}),
    "grep -A 12 'memory consumers are'": ("asked/rays-consumers-by-grep.txt", {"ray_kill"}),
    "grep -n -A 3 'Try to allocate'": ("asked/tokens-of-sglang-by-grep.txt", set()),  # for a person: the error is above
    "grep -n -m 5 -E 'Error": ("asked/first-errors-by-grep.txt", {"cuda"}),
    "oomdoctor diagnose /tmp/ray/session_latest/logs/raylet.out": ("ray_kill/g2-2.40-raylet.log", {"ray_kill"}),
    "oomdoctor diagnose (Get-ChildItem": ("ray_kill/g2-2.40-raylet.log", {"ray_kill"}),
    "ray logs raylet.out": ("ray_kill/g2-2.40-raylet.log", {"ray_kill"}),
    "nvidia-smi -L": ("asked/nvidia-smi-l.txt", {"nvidia_smi"}),
    "nvidia-smi --query-compute-apps": ("asked/compute-apps.txt", {"nvidia_smi"}),
    "nvidia-smi": ("asked/nvidia-smi.txt", {"nvidia_smi"}),
    "rocm-smi": ("asked/rocm-smi.txt", {"nvidia_smi"}),
    "npu-smi info": ("asked/npu-smi.txt", {"nvidia_smi"}),
    "xpu-smi ps": ("asked/xpu-smi.txt", {"nvidia_smi"}),
    "hl-smi": ("asked/hl-smi.txt", {"nvidia_smi"}),
    "cnmon": ("asked/cnmon.txt", {"nvidia_smi"}),
    "sudo lsof -w /dev/accel*": ("asked/lsof.txt", {"nvidia_smi"}),
    "sudo lsof -w /dev/tenstorrent": ("asked/lsof-tenstorrent.txt", {"nvidia_smi"}),
    "ps aux -m": ("asked/ps-of-a-mac.txt", {"machine_memory"}),
    "ulimit -a | grep -i locked": ("asked/ulimit-locked.txt", {"process_limits"}),
    "ulimit -a": ("asked/ulimit-a.txt", {"process_limits"}),
    "sysctl vm.max_map_count": ("asked/max-map-count.txt", {"sysctl"}),
    "sysctl vm.overcommit_memory; grep -i commit": ("asked/overcommit.txt", {"sysctl", "machine_memory"}),
    "grep . /sys/fs/cgroup": ("pairs/cgroup2-by-grep/evidence.txt", {"container"}),
    "kubectl describe pod": ("pairs/pod-by-grep/evidence.txt", {"container"}),
    "kubectl get events": ("asked/kubectl-events.txt", {"container"}),
    "kubectl describe node": ("asked/kubectl-node.txt", {"container"}),
    "log show --last": ("asked/log-show.txt", {"kernel"}),
    "dmesg | grep 'was killed'": ("asked/dmesg-of-freebsd.txt", {"kernel"}),
    "systemd-cgtop": ("systemd_cgtop/services.log", {"systemd_cgtop"}),
    "docker inspect": ("pairs/docker-template-in-the-command/evidence.txt", {"container"}),
    "sacct -j": ("pairs/sacct-cut-state/evidence.txt", {"container"}),
    "grep -n -E 'context_window_size": ("asked/mlc-config-by-grep.txt", set()),  # for a person to look at
    "grep -i huge /proc/meminfo": ("asked/huge-pages.txt", set()),  # the same
    "neuron-ls": ("asked/neuron-ls.txt", set()),  # the same
    "pip show": ("asked/pip-show.txt", {"pip_show"}),
}
# Public strings of the module that are no commands
_PATTERNS = {"IN_A_POD", "CONTAINERS", "KUBELET", "BEFORE_KILLS", "SIGBUS"}
_PACKAGE_ASKED = "deepspeed"


def _flat(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _flat(each)


def _constants() -> Iterator[str]:
    for name, value in vars(commands).items():
        if name.isupper() and not name.startswith("_") and name not in _PATTERNS:
            yield from _flat(value)


def _written_by_functions() -> Iterator[str]:
    """The text of each function that returns commands, with its slots as "{}"."""
    for function in vars(commands).values():
        if inspect.isfunction(function) and function.__module__ == commands.__name__:
            if inspect.signature(function).return_annotation not in ("str", "tuple[str, ...]"):
                continue
            yield from _texts(ast.parse(inspect.getsource(function)).body[0])


def _texts(function: ast.AST) -> Iterator[str]:
    """What its return statements spell; constants of the module are asked for by themselves."""
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            for text in ast.walk(node.value):
                if isinstance(text, ast.JoinedStr):
                    parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in text.values)
                    yield "".join(str(part) for part in parts)


ASKED = sorted({*_constants(), *_written_by_functions()})


def _output_of(command: str) -> tuple[str, set[str]] | None:
    known = [words for words in OUTPUTS if command.startswith(words)]
    return OUTPUTS[max(known, key=len)] if known else None


@pytest.mark.parametrize("command", ASKED)
def test_what_a_command_prints_is_read(command: str) -> None:
    output = _output_of(command)
    assert output is not None, f"no output of {command!r} is a fixture: nobody shows that it is read"
    path, families = output
    assert families <= {family.name for family in all_families()}
    source = Source(path, FIXTURES / path)
    read = {item.family for page, _ in pages(source) for _, item in found_in(page) if isinstance(item, Event)}
    assert families <= read, f"{command!r} prints what {sorted(families - read)} should read"


def test_all_outputs_are_of_commands_that_are_asked_for() -> None:
    used = {words for words in OUTPUTS for command in ASKED if command.startswith(words)}
    assert set(OUTPUTS) - used == set()
    assert len(ASKED) >= 25


def _strings(value: ast.AST) -> Iterator[str]:
    """Commands that a value spells itself; what it compares with is none."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value:
        yield value.value
    elif not isinstance(value, ast.Compare):
        for child in ast.iter_child_nodes(value):
            yield from _strings(child)


def test_no_command_is_spelled_elsewhere() -> None:
    spelled = [
        (path.relative_to(PACKAGE).as_posix(), text)
        for path in PACKAGE.rglob("*.py")
        if path.name != "commands.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.keyword) and node.arg == "next_evidence"
        for text in _strings(node.value)
    ]
    assert spelled == []
