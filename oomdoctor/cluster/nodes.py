"""The nodes of a Ray cluster, as its control service lists them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from oomdoctor.language import mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.sources.trouble import shown

# A task that is pinned to anything else, "ff" and so on among it, ends the whole process in Ray 2.40 by a C++ check.
_ID = late(r"(?!f+$)[0-9a-f]{56}")
_HEAD: Final = "node:__internal_head__"
_NUMBERS = late(r"(\d{1,9})")

# `GcsNodeInfo.DeathReason`s (Ray 2.9 and later) of which nobody wonders: ended as asked, drained because it was idle.
_AS_ASKED: Final = (1, 4)
_REASONS: Final = {
    2: mark("ended unexpectedly"),
    3: mark("preempted"),
}
MOST_NAMED: Final = 20


class Node(Struct, frozen=True):
    """One node, alive or dead."""

    id: str
    label: str  # under which the report speaks of it: its address, and where others have the same, its id's beginning
    address: str
    alive: bool
    as_asked: bool = False  # it is dead because somebody ended it
    why_dead: str = ""


def listed(rows: Iterable[Mapping[str, Any]]) -> tuple[Node, ...]:
    """The nodes of `ray.nodes()` by their addresses, the head last: who was killed, a node's own raylet tells best."""
    known = [row for row in rows if _ID.fullmatch(str(row.get("NodeID", "")))]
    of_address = Counter(_address(row) for row in known)
    return tuple(_node(row, unique=of_address[_address(row)] == 1) for row in sorted(known, key=_place))


def _node(row: Mapping[str, Any], *, unique: bool) -> Node:
    address, node_id = _address(row), str(row["NodeID"])
    reason = row.get("DeathReason", 0)
    message = shown(str(row.get("DeathReasonMessage", "")))
    return Node(
        id=node_id,
        label=address if unique else f"{address}-{node_id[:8]}",
        address=address,
        alive=bool(row.get("Alive")),
        as_asked=reason in _AS_ASKED,
        why_dead=message or translated(_REASONS.get(reason, "")),
    )


def _place(row: Mapping[str, Any]) -> tuple[bool, list[tuple[int, str]], str]:
    return _HEAD in row.get("Resources", ()), _natural(_address(row)), row["NodeID"]


def _address(row: Mapping[str, Any]) -> str:
    return shown(str(row.get("NodeManagerAddress", ""))) or "?"


def _natural(address: str) -> list[tuple[int, str]]:
    """10.0.0.9 before 10.0.0.10."""
    return [(int(part), "") if index % 2 else (0, part) for index, part in enumerate(_NUMBERS.split(address))]


def of_the_dead(nodes: Sequence[Node], read_elsewhere: Mapping[str, str]) -> list[str]:
    """What to say of the nodes that are dead; of some, the logs lie in a folder that another node has read."""
    dead = [node for node in nodes if not node.alive]
    wondered_at = [node for node in dead if not node.as_asked]
    told = [_of_one(node, read_elsewhere.get(node.id)) for node in wondered_at[:MOST_NAMED]]
    if len(wondered_at) > MOST_NAMED:
        told.append(say("{count} more nodes are dead", count=f"{len(wondered_at) - MOST_NAMED:,}"))
    if as_asked := len(dead) - len(wondered_at):
        told.append(say("nodes shut down on request: {count}; their logs were not read", count=f"{as_asked:,}"))
    return told


def _of_one(node: Node, reader: str | None) -> str:
    why = f" ({node.why_dead})" if node.why_dead else ""
    if reader is not None:
        return say("node {node} is dead{why}; its logs were found on {other}", node=node.label, why=why, other=reader)
    return say(
        "node {node} is dead{why}: its own logs were not read; add them with --archived if they were kept",
        node=node.label,
        why=why,
    )
