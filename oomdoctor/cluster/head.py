"""What runs where the command was given: which node reads what, and one reading of all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from msgspec import Struct, field

from oomdoctor import __version__
from oomdoctor.cluster import part, probe
from oomdoctor.cluster.connection import ClosedError, connected
from oomdoctor.cluster.evidence import failures, nodes_named, of_machine
from oomdoctor.cluster.nodes import Node, listed, of_the_dead
from oomdoctor.cluster.part import Part, Task
from oomdoctor.cluster.shipping import packages
from oomdoctor.cluster.tasks import Failed, asked
from oomdoctor.language import in_use, say
from oomdoctor.language import listed as names
from oomdoctor.reading import Reading
from oomdoctor.sources import Trouble, shown
from oomdoctor.units import show

Tell = Callable[[str], None]


class Folder(Struct, frozen=True):
    """A folder of logs, and the living nodes that can read it."""

    logs: str
    readers: tuple[Node, ...]
    raylets: frozenset[str] = frozenset()  # the nodes that write there, also dead ones, where there are several

    def task(self, nodes: Sequence[Node]) -> Task:
        reader = self.readers[0]
        writers = [node for node in nodes if node.id in self.raylets]
        of_one_machine = len({node.address for node in writers}) <= 1
        return Task(
            logs=self.logs,
            label=reader.address if writers and of_one_machine else reader.label,
            labels={node.id: node.label for node in writers},
            language=in_use(),
        )


class Whole(Struct):
    """What all nodes read, in the order of the nodes, and what to say of those that did not."""

    parts: list[Part] = field(default_factory=list)
    machines: list[Reading] = field(default_factory=list)  # what those of the failures still know of them
    errors: list[Trouble] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read(address: str, session: str | None, seconds: float, kept: Reading, tell: Tell) -> Whole:
    """Every node's logs, read by the node; one that does not answer within so many seconds is named and left out."""
    with connected(address) as ray:
        scan = _Scan(listed(ray.nodes()), session, seconds, kept, tell)
        scan.find(ray)
        scan.read(ray, scan.ready)
        if not scan.lacking:
            scan.ask_machines(ray)
    if scan.lacking:
        try:
            with packages() as folder, connected(address, folder) as ray:
                scan.read(ray, scan.lacking)
                scan.ask_machines(ray)
        except ClosedError as error:
            scan.give_up(scan.lacking, str(error))
    return scan.whole()


class _Scan:
    def __init__(self, nodes: tuple[Node, ...], session: str | None, seconds: float, kept: Reading, tell: Tell) -> None:
        self.ready: list[Folder] = []
        self.lacking: list[Folder] = []  # their nodes have another version of oomdoctor, or none
        self._nodes = nodes
        self._session = session
        self._seconds = seconds
        self._kept = kept  # what logs of elsewhere say, which may tell of a failure on one of these nodes
        self._tell = tell
        self._places: dict[Node, Mapping[str, Any]] = {}
        self._failed: dict[Node, str] = {}
        self._parts: dict[Node, Part] = {}
        self._machines: list[Reading] = []
        self._folders: list[Folder] = []

    def find(self, ray: Any) -> None:
        """Ask every living node where its logs are."""
        ray.cloudpickle.register_pickle_by_value(probe)
        alive = {node: (self._session,) for node in self._nodes if node.alive}
        for node, place in asked(ray, probe.probe, alive, self._seconds):
            if isinstance(place, Failed):
                self._fails(node, place.why)
            elif not place["there"]:
                self._fails(node, _not_there(place))
            else:
                self._places[node] = place
        found = [node for node in self._nodes if node in self._places]
        self._folders = folders(
            {node: self._places[node] for node in sorted(found, key=lambda node: not self._has_it(node))}
        )
        for folder in self._folders:
            (self.ready if self._has_it(folder.readers[0]) else self.lacking).append(folder)

    def _has_it(self, node: Node) -> bool:
        return bool(self._places[node]["version"] == __version__)

    def read(self, ray: Any, given: Iterable[Folder]) -> None:
        """Let the folders be read, each by one of its nodes; by the next one where that fails."""
        waiting = list(given)
        while waiting:
            of_reader = {folder.readers[0]: folder for folder in waiting}
            tasks = {node: (folder.task(self._nodes),) for node, folder in of_reader.items()}
            waiting = []
            for node, result in asked(ray, part.read, tasks, self._seconds):
                if not isinstance(result, Failed):
                    self._reads(node, result)
                    continue
                self._fails(node, result.why)
                if others := of_reader[node].readers[1:]:
                    waiting.append(Folder(of_reader[node].logs, others, of_reader[node].raylets))

    def ask_machines(self, ray: Any) -> None:
        """The records of the machines on which something failed, each machine once."""
        failed = {node: failures(part.reading) for node, part in self._parts.items()}
        named = nodes_named(chain(failures(self._kept), *failed.values()))
        machines = {node.address: node for node in self._places if failed.get(node) or {node.address, node.id} & named}
        tasks = {node: (node.label, in_use()) for node in machines.values()}
        for node, records in asked(ray, of_machine, tasks, self._seconds):
            if isinstance(records, Failed):
                self._failed[node] = records.why
            else:
                self._machines.append(records)

    def give_up(self, given: Iterable[Folder], why: str) -> None:
        """Name the nodes that cannot be asked any more."""
        for folder in given:
            self._fails(folder.readers[0], why)

    def _reads(self, node: Node, result: Part) -> None:
        self._parts[node] = result
        self._tell(
            say(
                "{node}: {count} logs, {size}, {events} events, {seconds} s",
                node=node.label, count=f"{result.files:,}", size=show(result.bytes), events=f"{result.events:,}",
                seconds=f"{result.seconds:.1f}",
            )
        )  # fmt: skip

    def _fails(self, node: Node, why: str) -> None:
        self._failed[node] = why
        self._tell(say("{node}: not read", node=node.label))

    def whole(self) -> Whole:
        """All of it, in the order of the nodes."""
        read_by = {
            writer: reader.label
            for folder in self._folders
            for reader in folder.readers
            if reader in self._parts
            for writer in folder.raylets
        }
        parts = [self._parts[node] for node in self._nodes if node in self._parts]
        return Whole(
            parts=parts,
            machines=self._machines,
            errors=[
                *(Trouble(node.label, self._failed[node]) for node in self._nodes if node in self._failed),
                *(trouble for one in parts for trouble in one.errors),
            ],
            notes=[
                self._summary(parts),
                *self._shared(),
                *of_the_dead(self._nodes, read_by),
                *(note for one in parts for note in one.notes),
            ],
        )

    def _summary(self, parts: Sequence[Part]) -> str:
        alive = sum(node.alive for node in self._nodes)
        return say(
            "nodes alive: {nodes}; log folders read: {count}",
            nodes=f"{alive:,}",
            count=f"{len(parts):,}",
        )

    def _shared(self) -> list[str]:
        return [
            say("{nodes} share one log folder", nodes=names([node.label for node in folder.readers]))
            for folder in self._folders
            if len(folder.readers) > 1
        ]


def _not_there(place: Mapping[str, Any]) -> str:
    if others := place["sessions"]:
        return say(
            "folder {folder} does not exist; the newest there: {others}",
            folder=shown(place["logs"]),
            others=names([shown(name) for name in others]),
        )
    return say("folder {folder} does not exist", folder=shown(place["logs"]))


def folders(places: Mapping[Node, Mapping[str, Any]]) -> list[Folder]:
    """Which folders there are: nodes of one machine may share one, and a file system that is mounted everywhere, too.

    Two nodes see one folder where its path is one and both find in it the logs of the same raylets: their ids are
    given once.
    """
    seen: dict[tuple[str, frozenset[str]], list[Node]] = {}
    for node, place in places.items():
        raylets = frozenset(place["raylets"].values()) or frozenset({node.id})
        seen.setdefault((place["logs"], raylets), []).append(node)
    return [
        Folder(logs, tuple(nodes), raylets if len(raylets) > 1 else frozenset())
        for (logs, raylets), nodes in seen.items()
    ]
