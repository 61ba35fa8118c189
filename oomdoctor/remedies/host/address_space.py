"""Limits on memory that is promised: of a scheduler, of Windows, of the kernel."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.container import LimitKill
from oomdoctor.families.sysctl import KernelSettings
from oomdoctor.incident.model import Crash
from oomdoctor.language import filled, say
from oomdoctor.remedies import A_CHOICE
from oomdoctor.remedies.host.limits import MORE, in_units_of
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Skip
from oomdoctor.remedies.settings import spelling
from oomdoctor.signs import set_limits
from oomdoctor.signs.address_space import a_fork_was_refused, kill_at_a_virtual_limit, the_program_is_of_32_bits
from oomdoctor.units import gib_up, show

_ALWAYS: Final = 1  # vm.overcommit_memory: Documentation/mm/overcommit-accounting.rst of Linux


def more_address_space(case: Case) -> Answer:
    """At a scheduler's limit what it is asked for; on Windows, which promises RAM and page file, the latter; elsewhere
    the knob's own words say it."""
    kill = kill_at_a_virtual_limit(case.crash)
    if kill is not None:
        return _without_yarns_check(case.crash) if kill.manager == "yarn" else _more_of_the_scheduler(kill, case.crash)
    if the_program_is_of_32_bits(case.crash) is not None:
        return Proposal(action=say("Install the program built for 64 bits"), setting="", cost="")
    if set_limits.address_limit(case.crash) is None and a_fork_was_refused(case.crash) is not None:
        return _promise_to_a_fork(case.crash)
    if case.row is not None and case.row.framework == "linux" and set_limits.address_limit(case.crash) is not None:
        return Proposal(suggested=case.row.value, assumes=(say("the RAM is there: else a kill takes its place"),))
    if case.row is None or case.row.framework != "windows":
        return None
    return Proposal(
        action=say("Let Windows manage the page file (as administrator), then restart"),
        suggested=True,
        cost=say("disk space"),
    )


def _promise_to_a_fork(crash: Crash) -> Answer:
    """A child shares its parent's memory at first, and with 1 the kernel promises it without counting. No policy helps
    where it was 1 before."""
    stated = next((one.overcommit_memory for one in crash.every(KernelSettings)), None)
    if stated in (_ALWAYS, set_limits.NEVER_BEYOND):
        return Skip() if stated == _ALWAYS else None
    return Proposal(
        action=say("Let the kernel promise memory without a check, so that a large process can start a child"),
        setting="vm.overcommit_memory",
        current=stated,
        suggested=_ALWAYS,
        derivation=filled(A_CHOICE, {"value": _ALWAYS}),
        snippet=f"sudo sysctl vm.overcommit_memory={_ALWAYS}   # and in /etc/sysctl.d/, to keep it",
    )


def _without_yarns_check(crash: Crash) -> Proposal:
    """yarn-default.xml of Hadoop: the check is on, and allows vmem-pmem-ratio times the container's memory."""
    row = spelling("more-address-space", crash.context, "yarn")
    return Proposal(
        action=say(
            "Turn off YARN's check of address space in yarn-site.xml (it checks the RAM as before), or raise "
            "yarn.nodemanager.vmem-pmem-ratio"
        ),
        setting=row.setting if row is not None else "",
        suggested=False,
        snippet=row.snippet("false") if row is not None else None,
        cost=say("a restart of the cluster's NodeManagers"),
    )


def _more_of_the_scheduler(kill: LimitKill, crash: Crash) -> Answer:
    """Beyond what the job had reached, where that or the limit is printed."""
    knobs = ("more-address-space", "raise-container-limit")
    row = next((row for knob in knobs if (row := spelling(knob, crash.context, kill.manager)) is not None), None)
    action = say("Request more virtual memory of the scheduler for this job")
    used = max(kill.used_bytes or 0, kill.limit_bytes or 0)
    if row is None or not used:
        return Proposal(action=action, setting=row.setting if row is not None else "")
    amount = in_units_of(kill.manager, f"{gib_up(MORE * used)}G")
    return Proposal(
        action=action,
        current=kill.limit_bytes,
        suggested=amount,
        setting=row.setting,
        snippet=row.snippet(amount),
        derivation=say("{formula}, rounded up", formula=f"{show(used)} x {MORE} = {show(MORE * used)}"),
        assumes=(say("25 % more is a guess: the peak is unknown"),),
        cost=say("may wait longer for a node"),
    )
