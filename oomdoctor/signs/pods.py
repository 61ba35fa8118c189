"""What a log says of the pod: its name, its namespace, what made it. A name stands in a command only as Kubernetes
allows names (RFC 1123)."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from oomdoctor.families.container import LimitKill
from oomdoctor.incident.model import Crash
from oomdoctor.patterns import late

_NAME: Final = r"[a-z0-9](?:[a-z0-9.-]{0,120}[a-z0-9])?"
# `kubectl describe`, and a command that somebody typed: "kubectl logs -n shop cart-6d57f5fd7-xk2lm -c api"
_DESCRIBED: Final = late(rf"^Name: {{3,20}}({_NAME})\s{{0,4}}$")
_TYPED: Final = late(
    r"\bkubectl (?:(?:-n|--namespace)[ =]\S{1,120} )?(?:describe|logs|exec|get|top)(?: pods?| po)?"
    rf"(?: (?:-n|--namespace)[ =]\S{{1,120}}| -[a-z]{{1,3}}){{0,4}} (?:(?:pods?|po)[ /])?({_NAME})(?=\s|$)"
)
# A row of `kubectl get pods`, of one that is down or comes back from there
_LISTED: Final = late(
    rf"^({_NAME}) {{2,}}\d{{1,3}}/\d{{1,3}} {{2,}}(?:CrashLoopBackOff|OOMKilled|Error|Evicted|ContainerStatusUnknown)\b"
)
# A row of one that does not run, or not yet; a job's own pod ends in "Error", too:
# printPod in pkg/printers/internalversion/printers.go of Kubernetes
_DOWN: Final = late(
    rf"^\s{{0,8}}({_NAME})\s{{2,}}\d{{1,3}}/\d{{1,3}}\s{{2,}}(Pending|Init:[\w/]{{1,40}}|PodInitializing|ContainerCreating|"
    r"ImagePullBackOff|ErrImagePull|CrashLoopBackOff|OOMKilled|Evicted|ContainerStatusUnknown)(?=\s|$)"
)
_SPACE_DESCRIBED: Final = late(rf"^Namespace: {{3,20}}({_NAME})\s{{0,4}}$")
_SPACE_TYPED: Final = late(rf"\bkubectl [^\n|;]{{0,200}}?(?:-n|--namespace)[ =]({_NAME})(?=\s|$)")
# Who controls it; a ReplicaSet's name is its deployment's, and the hash of its template
_CONTROLLED: Final = late(rf"^Controlled By: {{1,20}}(ReplicaSet|StatefulSet|DaemonSet)/({_NAME})\s{{0,4}}$")
_HASH: Final = r"-[bcdfghjklmnpqrstvwxz2456789]{6,10}"  # k8s.io/apimachinery/pkg/util/rand, SafeEncodeString
_OF_A_SET: Final = late(rf"({_NAME}){_HASH}")
_OF_A_POD: Final = late(rf"({_NAME}){_HASH}-[a-z0-9]{{5}}")
_OF_A_RECORD: Final = frozenset({"limits", "requests", "resources", "state", "status", "terminated", "running"})
_LIKE_A_POD: Final = late(r"-[a-z0-9]{4,10}-[a-z0-9]{5}\Z")
_NUMBERED: Final = late(rf"({_NAME})-\d{{1,4}}")
_NOT_NAMES: Final = frozenset({"pod", "pods", "po", "node", "nodes", "all", "events", "deployment", "deploy", "job"})


class Pod(Struct, frozen=True):
    """As the log names it; None where it does not."""

    name: str | None = None
    namespace: str | None = None
    kind: str | None = None  # of what made it: "deployment"
    owner: str | None = None
    container: str | None = None


def pod(crash: Crash) -> Pod:
    """The pod that the lines near the failure speak of."""
    name = next(filter(None, (_told(crash, each.pattern) for each in (_DESCRIBED, _LISTED, _TYPED))), None)
    name = None if name in _NOT_NAMES else name
    kind, owner = _owner(crash, name)
    return Pod(
        name=name,
        namespace=_told(crash, _SPACE_DESCRIBED.pattern) or _told(crash, _SPACE_TYPED.pattern),
        kind=kind,
        owner=owner,
        container=_container(crash, name),
    )


def down(crash: Crash) -> tuple[str, str] | None:
    """A pod that does not run, and its state: "Init:0/2"."""
    line = crash.mentions(_DOWN.pattern)
    match = _DOWN.search(line) if line else None
    return (match[1], match[2]) if match else None


def _told(crash: Crash, pattern: str) -> str | None:
    line = crash.mentions(pattern)
    match = late(pattern).search(line) if line else None
    return match[1] if match else None


def _owner(crash: Crash, name: str | None) -> tuple[str | None, str | None]:
    """What made the pod: as it is described, else by how such pods are called."""
    line = crash.mentions(_CONTROLLED.pattern)
    if line is not None and (said := _CONTROLLED.search(line)) is not None:
        kind, owner = said[1], said[2]
        made = _OF_A_SET.fullmatch(owner) if kind == "ReplicaSet" else None
        return ("deployment", made[1]) if made else (kind.lower(), owner)
    for kind, pattern in (("deployment", _OF_A_POD), ("statefulset", _NUMBERED)):
        if name and (match := pattern.fullmatch(name)):
            return kind, match[1]
    return None, None


def _container(crash: Crash, pod_name: str | None) -> str | None:
    """As the record of the kill says, where that is no word of its own nor the pod's name."""
    named = next((kill.container for kill in crash.every(LimitKill) if kill.container), None)
    if named is None or named == pod_name or named in _OF_A_RECORD or _LIKE_A_POD.search(named) is not None:
        return None
    return named if re.fullmatch(_NAME, named) else None


__all__ = ["Pod", "down", "pod"]
