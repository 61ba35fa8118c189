"""What an engine requests of the cluster for its ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oomdoctor.arithmetic import vllm
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.remedies.cluster import states
from oomdoctor.remedies.conditions import LOCAL_RAY
from oomdoctor.remedies.engine.known import in_python
from oomdoctor.remedies.proposal import Answer, Proposal
from oomdoctor.remedies.settings import Spelling, spelling
from oomdoctor.signs import commands, releases
from oomdoctor.signs.scheduling import Group, amounts_in_words

_GPUS: Final = "GPUS"
# ray/_private/worker.py, `init`
_JOINED: Final = late(r"\bto existing Ray cluster at address: (\d{1,3}(?:\.\d{1,3}){3}):\d{1,5}\b")


def cards_of_vllm(crash: Crash, short: Sequence[tuple[str, float, float]]) -> Proposal | None:
    """vLLM waits for one bundle per rank of its world: initialize_ray_cluster in vllm/v1/executor/ray_utils.py."""
    row = spelling("tensor-parallel", crash.context, vllm.NAME)
    wanted, there = next(((wanted, there) for kind, wanted, there in short if kind == "GPU"), (0.0, 0.0))
    if row is None or there < 1:
        return None
    fit = 2 ** (int(there).bit_length() - 1)
    return Proposal(
        action=say(
            "Let vLLM use no more GPUs than the cluster has (its tensor and pipeline parallel sizes multiply), or show "
            "Ray the GPUs that are missing there (--num-gpus of `ray start`)"
        ),
        setting=row.setting,
        suggested=fit,
        snippet=row.snippet(fit),
        derivation=say(
            "{asked:g} GPU > {there:g}; {fit} is the largest power of two not above {there:g}",
            asked=wanted, there=there, fit=fit,
        ),
        assumes=(say("a pipeline parallel size of 1 (not in the log)"),),
    )  # fmt: skip


def of_vllms_own_node(crash: Crash, group: Group, node: str) -> Proposal:
    """vLLM binds a worker to the address of its own machine, which Ray may know by another one: "No available node
    types can fulfill resource request" in docs/serving/distributed_troubleshooting.md of vLLM."""
    if (head := _head(crash)) not in (None, node):
        return Proposal(
            action=say(
                "Set VLLM_HOST_IP to the address that Ray has of this machine, on each node its own: vLLM needs one of "
                "its {count} on {node}, and the cluster's head is {head}",
                count=group.count,
                node=node,
                head=head,
            ),
            subject=node,
            setting="VLLM_HOST_IP",
            snippet=f"export VLLM_HOST_IP={head}   # if vLLM starts on the head\n{states.of_each_node(crash)}",
        )
    return Proposal(
        action=say(
            "See whether Ray lists this machine as {node} with {what}: vLLM needs one of its {count} there; where Ray "
            "has another address of it, set VLLM_HOST_IP to that one",
            node=node,
            what=amounts_in_words(group.bundle),
            count=group.count,
        ),
        subject=node,
        setting="VLLM_HOST_IP",
        snippet=states.of_each_node(crash),
    )


def _head(crash: Crash) -> str | None:
    """The address by which the driver found the cluster; a loopback is every machine's."""
    line = crash.mentions(_JOINED.pattern)
    match = _JOINED.search(line) if line else None
    return match[1] if match and not match[1].startswith("127.") else None


def of_the_engine(crash: Crash) -> Answer:
    """It checks its own size against the cluster before it asks Ray for anything."""
    row, seen = split_of_the_engine(crash), crash.root
    if row is None:
        return None
    if isinstance(seen, Shortage) and seen.needed and seen.available and seen.unit == "devices":
        return _over_the_nodes(crash, row, seen.needed, seen.available)
    look = commands.CARDS if crash.shows(LOCAL_RAY) else states.scheduled(crash)  # that Ray is gone with its driver
    return Proposal(
        action=say("Lower {option} to the number of GPUs that Ray sees, or show Ray more of them", option=row.setting),
        setting=row.setting,
        snippet=f"{look}\n{row.write.format(_GPUS)}   # {_GPUS}: as many as the first line shows",
    )


def split_of_the_engine(crash: Crash) -> Spelling | None:
    if not (crash.job.engine or vllm.NAME in crash.context.frameworks):
        return None
    own = spelling("tensor-parallel", crash.context, crash.job.world)
    row = own or spelling("tensor-parallel", crash.context, vllm.NAME)
    return row.as_argument if row is not None and row.framework == vllm.NAME and in_python(crash) else row


def smaller_group(crash: Crash, row: Spelling) -> Proposal:
    """The engine requests one bundle for each of its GPUs: vllm/executor/ray_utils.py, initialize_ray_cluster."""
    return Proposal(
        action=say("Lower {option} to the number of GPUs that Ray has free, or free more of them", option=row.setting),
        setting=row.setting,
        snippet=states.scheduled(crash),
    )


def _over_the_nodes(crash: Crash, row: Spelling, needed: int, visible: int) -> Proposal:
    """Tensor parallelism within a node, the rest as a pipeline over the nodes: docs of vLLM, parallelism_scaling. A
    release that is known to count the ranks wrongly counts those of the pipeline, too (vllm-project/vllm#28873)."""
    nodes, rest = divmod(needed, visible)
    lines = [row.snippet(visible)]
    of_vllm = row.framework == vllm.NAME and _over_ray(crash)
    if of_vllm and rest == 0 and nodes > 1 and releases.likely(crash) is None:
        lines.append(f"--pipeline-parallel-size {nodes}")
    return Proposal(
        action=say(
            "Lower {option} to the GPUs that one node shows: {visible} instead of {needed}",
            option=row.setting,
            visible=visible,
            needed=needed,
        ),
        setting=row.setting,
        current=needed,
        suggested=visible,
        snippet=" ".join(line for line in lines if line),
        derivation=f"{visible} x {nodes} = {needed}" if len(lines) > 1 else None,
    )


def _over_ray(crash: Crash) -> bool:
    backend = crash.setting("distributed_executor_backend")
    return "ray" in crash.context.frameworks or (backend is not None and backend.value == "ray")
