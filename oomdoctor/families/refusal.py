"""Tools that could not look: what they would have shown is unknown, which is not the same as none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Read, Role
from oomdoctor.families.lines import place_of
from oomdoctor.patterns import late
from oomdoctor.streams import Page

CHARACTERS: Final = 400
# util-linux 2.38, systemd 252, docker 29, kubectl 1.35, Slurm 15.08 to 26.05
_REFUSALS: Final = tuple(
    (tool, late("|".join(patterns)))
    for tool, *patterns in (
        ("dmesg", r"^dmesg: read kernel buffer failed: "),
        (
            "journalctl",
            r"^No journal files were (?:found|opened due to insufficient permissions)",
            r"^Hint: You are currently not seeing messages from other users and the system",
            r"^-- No entries --$",
        ),
        ("systemctl", r"^System has not been booted with systemd as init system", r"^Failed to connect to bus: "),
        ("coredumpctl", r"^No coredumps found\.?$"),
        ("cgroup", r"^(?:cat|grep|head|tail): \S{0,200}/?memory\.\S{1,60} (?:No such file|Permission denied)"),
        (
            "docker",
            r"Cannot connect to the Docker daemon at ",
            r"^(?:Error(?: response from daemon)?: )No such (?:object|container): ",
        ),
        (
            "kubectl",
            r"^Error from server \((?:NotFound|Forbidden)\): ",
            r"^error: Metrics API not available",
            r"^No resources found(?: in \S{1,80} namespace)?\.?$",
            r"memcache\.go:\d{1,4}\] \"Unhandled Error\" err=",
        ),
        (
            "Slurm",
            r"^Slurm accounting storage is disabled",
            r"^slurm_load_jobs error: Invalid job id specified",
            r"^Job not found\.$",
        ),
    )
)


class Refusal(Event, frozen=True, kw_only=True):
    """A command that was to show how a process ended, and could not."""

    family = "refusal"
    kind = "refusal"

    role: Role = "context"

    tool: str


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    text = line.text[:CHARACTERS].strip()
    tool = next((tool for tool, pattern in _REFUSALS if pattern.search(text)), None)
    if tool is not None:
        yield Refusal(at=place_of(page, line), tool=tool)


FAMILY = Family(
    name="refusal",
    anchors=(),
    triggers=(
        "dmesg: read kernel",
        "No journal files",
        "not seeing messages from",
        "-- No entries --",
        "not been booted with systemd",
        "Failed to connect to bus",
        "No coredumps found",
        ": No such file or directory",
        "Docker daemon",
        "No such object: ",
        "No such container: ",
        "Error from server (",
        "Metrics API not available",
        "No resources found",
        "memcache.go:",
        "accounting storage is disabled",
        "Invalid job id specified",
        "Job not found.",
    ),
    read=read,
)
