"""What a node is declared to have: Ray compares a request with that, and not with the machine. The options:
doc/source/ray-core/scheduling/resources.md and doc/source/cluster/kubernetes/user-guides/config.md of Ray."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Final

from oomdoctor.families.ray_schedule import Unschedulable
from oomdoctor.incident.model import Crash
from oomdoctor.language import listed, say
from oomdoctor.remedies.proposal import Proposal
from oomdoctor.signs.scheduling import CLUSTER_YAML, KUBERAY, custom, of_one_node

_OF_RAY: Final = {"CPU": "num-cpus", "GPU": "num-gpus"}


def node_type(crash: Crash, request: Unschedulable) -> Proposal:
    """Of an autoscaler, as the log shows it configured, else in both ways."""
    what, own = of_one_node(request), custom(request)
    plain = {name: amount for name, amount in request.on_one_node.items() if name in _OF_RAY}
    lines = (
        (CLUSTER_YAML, _of_the_cluster_launcher(_whole(plain | own))),
        (KUBERAY, _of_kuberay(_whole(plain), _whole(own))),
    )
    shown = [line for pattern, line in lines if crash.mentions(pattern)] or [line for _, line in lines]
    return Proposal(
        action=say(
            "Declare {what} in one node type of the autoscaler whose machine has as much, and let it start one more "
            "(max_workers; KubeRay: maxReplicas): requests are compared with what is declared",
            what=what,
        ),
        subject=what,
        setting="",
        snippet="\n".join(shown) if plain or own else None,
        derivation=_rounded(plain | own),
    )


def custom_resource(crash: Crash, request: Unschedulable, have: Mapping[str, float]) -> Proposal | None:
    """On some node, where the log shows none that declares it."""
    own = {name: amount for name, amount in custom(request).items() if name not in have}
    if not own or any(crash.mentions(rf"--resources\b.{{0,200}}\b{name}\b") for name in own):
        return None
    return Proposal(
        action=say(
            "Declare {names} where Ray starts on a node that has it, or leave it out of the request: Ray does not find "
            "custom resources by itself",
            names=listed(own),
        ),
        subject=listed(own),
        setting="--resources",
        snippet=f"ray start --address=HEAD:PORT --resources='{json.dumps(_whole(own))}'",
        derivation=_rounded(own),
    )


def _of_the_cluster_launcher(amounts: Mapping[str, int]) -> str:
    return f"available_node_types: {{TYPE: {{resources: {json.dumps(amounts)}}}}}   # ray up"


def _of_kuberay(plain: Mapping[str, int], own: Mapping[str, int]) -> str:
    """Custom resources stand in two pairs of quotes there."""
    pairs = [f'{_OF_RAY[name]}: "{amount}"' for name, amount in plain.items()]
    if own:
        pairs.append(f"resources: '{json.dumps(json.dumps(own))}'")
    return f"rayStartParams: {{{', '.join(pairs)}}}   # KubeRay, workerGroupSpecs"


def _whole(amounts: Mapping[str, float]) -> dict[str, int]:
    return {name: math.ceil(amount) for name, amount in amounts.items()}


def _rounded(amounts: Mapping[str, float]) -> str | None:
    parts = {name: amount for name, amount in amounts.items() if amount % 1}
    if not parts:
        return None
    return say(
        "{amounts}, rounded up = {whole}",
        amounts=listed(f"{amount:g} {name}" for name, amount in parts.items()),
        whole=listed(f"{math.ceil(amount)}" for amount in parts.values()),
    )
