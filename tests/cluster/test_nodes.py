"""What is made of the list of nodes: whose logs are whose, what the report calls them, and what is said of the dead."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from oomdoctor.cluster.connection import ClosedError, check_answers
from oomdoctor.cluster.head import Folder, folders
from oomdoctor.cluster.nodes import MOST_NAMED, Node, listed, of_the_dead
from oomdoctor.cluster.owners import Owners
from oomdoctor.cluster.part import Part, Task, read
from oomdoctor.cluster.probe import raylets
from oomdoctor.cluster.tasks import why
from oomdoctor.language import ENGLISH, use

ONE, TWO, THREE = "a1" * 28, "b2" * 28, "c3" * 28
WORKER, DRIVER = "d4" * 28, "01000000" + "f" * 48
NAMED = "[2026-03-01 10:00:00,5 I 7 7] (raylet) main.cc:711: Setting node ID node_id={node}\n"
CORE = (
    "[2026-03-01 10:00:01,5 I 9 9] core_worker_process.cc:299: Initializing worker worker_id={worker} node_id={node}\n"
)
KILLED = """\
[2026-03-01 10:41:07,120 I 311 311] (raylet) worker_killing_policy.cc:107: Sorted list of 2 workers based on the policy
Memory on the node (IP: 10.0.0.2, ID: {node}) where the task (actor ID: d4d4, name=Rewarder.__init__, pid=7712, \
memory used=1.30GB) was running was 239.20GB / 251.48GB (0.951169), which exceeds the memory usage threshold of \
0.95. Ray killed this worker (ID: {worker}) because it was the most recently scheduled task; to see more information \
about memory usage on this node, use `ray logs raylet.out -ip 10.0.0.2`. Top 10 memory users:
PID	MEM(GB)	COMMAND
7410	171.05	python reward_server.py
7712	1.30	ray::Rewarder.score
"""


def row(node: str, address: str, *, alive: bool = True, reason: int = 0, message: str = "", head: bool = False) -> Any:
    return {
        "NodeID": node,
        "NodeManagerAddress": address,
        "Alive": alive,
        "DeathReason": reason,
        "DeathReasonMessage": message,
        "Resources": {"node:__internal_head__": 1.0} if head else {"CPU": 1.0},
    }


def test_nodes_are_listed_by_their_addresses_with_the_head_last() -> None:
    rows = [row(ONE, "10.0.0.1", head=True), row(TWO, "10.0.0.10"), row(THREE, "10.0.0.9")]
    assert [node.label for node in listed(rows)] == ["10.0.0.9", "10.0.0.10", "10.0.0.1"]


def test_nodes_of_one_address_are_told_apart_by_their_ids() -> None:
    rows = [row(ONE, "10.0.0.1"), row(TWO, "10.0.0.1", alive=False), row(THREE, "10.0.0.2")]
    assert [node.label for node in listed(rows)] == ["10.0.0.1-a1a1a1a1", "10.0.0.1-b2b2b2b2", "10.0.0.2"]


@pytest.mark.parametrize("node", ["f" * 56, "", "a1" * 27, "A1" * 28, "a1" * 27 + "/x"])
def test_what_is_no_node_s_id_is_never_pinned_to(node: str) -> None:
    assert listed([row(node, "10.0.0.1")]) == ()


def test_what_a_hostile_name_would_do_to_the_terminal() -> None:
    (node,) = listed([row(ONE, "10.0.0.1\x1b[2J", alive=False, message="bye\x1b[31m\n")])
    assert "\x1b" not in node.label + node.why_dead
    assert "\n" not in node.why_dead


def test_dead_nodes_are_named_with_the_reason() -> None:
    lost = row(ONE, "10.0.0.1", alive=False, reason=2, message="health check failed")
    preempted = row(TWO, "10.0.0.2", alive=False, reason=3)
    first, second = of_the_dead(listed([lost, preempted]), {TWO: "10.0.0.3"})
    assert first.startswith("node 10.0.0.1 is dead (health check failed)")
    assert "--archived" in first
    assert second == "node 10.0.0.2 is dead (preempted); its logs were found on 10.0.0.3"


def test_nodes_that_were_ended_as_asked_are_only_counted() -> None:
    rows = [row(f"{n:056x}", f"10.0.1.{n}", alive=False, reason=1 + 3 * (n % 2)) for n in range(1, 41)]
    assert of_the_dead(listed(rows), {}) == ["nodes shut down on request: 40; their logs were not read"]


def test_few_of_many_dead_nodes_are_named() -> None:
    rows = [row(f"{n:056x}", f"10.0.1.{n}", alive=False, reason=2) for n in range(1, 101)]
    told = of_the_dead(listed(rows), {})
    assert len(told) == MOST_NAMED + 1
    assert told[-1] == "80 more nodes are dead"


def node(node_id: str, address: str) -> Node:
    return Node(id=node_id, label=f"{address}-{node_id[:8]}", address=address, alive=True)


def place(logs: str, *writers: str) -> dict[str, Any]:
    return {"logs": logs, "raylets": {f"raylet.{n}.out": writer for n, writer in enumerate(writers)}}


def test_nodes_that_find_each_other_s_logs_share_a_folder() -> None:
    one, two, three = node(ONE, "10.0.0.1"), node(TWO, "10.0.0.1"), node(THREE, "10.0.0.2")
    found = folders({one: place("/t/logs", ONE, TWO), two: place("/t/logs", ONE, TWO), three: place("/t/logs", THREE)})
    assert [(folder.readers, len(folder.raylets)) for folder in found] == [((one, two), 2), ((three,), 0)]


def test_an_older_session_s_folder_is_read_once_though_none_of_its_raylets_lives() -> None:
    one, two = node(ONE, "10.0.0.1"), node(TWO, "10.0.0.1")
    (folder,) = folders({one: place("/t/logs", THREE), two: place("/t/logs", THREE)})
    assert folder.readers == (one, two)
    assert folder.task([one, two]).labels == {}


def test_a_path_that_is_the_same_on_two_machines_is_not_one_folder() -> None:
    one, two = node(ONE, "10.0.0.1"), node(TWO, "10.0.0.2")
    assert len(folders({one: place("/t/logs", ONE), two: place("/t/logs", TWO)})) == 2
    assert len(folders({one: place("/t/logs"), two: place("/t/logs")})) == 2  # nothing tells: each is read


def test_a_raylet_that_was_started_again_writes_beside_the_dead_one() -> None:
    one = node(ONE, "10.0.0.1")
    (folder,) = folders({one: place("/t/logs", TWO, ONE)})
    assert folder.raylets == {ONE, TWO}
    dead = Node(id=TWO, label="10.0.0.1-b2b2b2b2", address="10.0.0.1", alive=False)
    task = folder.task([one, dead])
    assert task.labels == {ONE: one.label, TWO: dead.label}
    assert task.label == "10.0.0.1"


def test_logs_that_no_machine_alone_wrote_are_called_after_their_reader() -> None:
    one, two = node(ONE, "10.0.0.1"), node(TWO, "10.0.0.2")
    assert Folder("/nfs/logs", (one, two), frozenset({ONE, TWO})).task([one, two]).label == one.label


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "raylet.out").write_text(NAMED.format(node=ONE))
    (folder / "raylet.1.out").write_text(NAMED.format(node=TWO) + KILLED.format(node=TWO, worker=WORKER))
    (folder / "raylet.1.err").write_text("a line\n")
    (folder / f"python-core-worker-{WORKER}_9.log").write_text(CORE.format(worker=WORKER, node=TWO))
    (folder / f"worker-{WORKER}-01000000-9.out").write_text("a line\n")
    (folder / f"python-core-driver-{DRIVER}_8.log").write_text(CORE.format(worker=DRIVER, node=ONE))
    (folder / "monitor.log").write_text("a line\n")
    return folder


def test_the_number_of_a_raylet_s_log_says_nothing_and_its_first_lines_do(logs: Path) -> None:
    assert raylets(logs) == {"raylet.1.out": TWO, "raylet.out": ONE}


def test_whose_log_it_is_in_a_folder_that_is_shared(logs: Path) -> None:
    owners = Owners(logs, {ONE: "one", TWO: "two"}, "both")
    assert owners.of("raylet.out") == "one"
    assert owners.of("raylet.1.out") == owners.of("raylet.1.err") == "two"
    assert owners.of(f"old/worker-{WORKER}-01000000-9.out") == "two"
    assert owners.of(f"python-core-driver-{DRIVER}_8.log") == "one"
    assert owners.of("monitor.log") == owners.of("raylet.2.out") == "both"
    assert owners.of(f"worker-{THREE}-01000000-9.out") == "both"  # a worker whose own log is gone


def test_a_node_reads_its_folder_and_what_it_read_travels(logs: Path) -> None:
    (logs / "empty.log").touch()
    task = Task(logs=str(logs), label="10.0.0.1", labels={ONE: "10.0.0.1-a", TWO: "10.0.0.1-b"}, language=ENGLISH)
    part: Part = pickle.loads(pickle.dumps(read(pickle.loads(pickle.dumps(task)))))
    (event,) = [event for event in part.reading.gathered.events.values() if event.role == "root"]
    assert event.at.file == "10.0.0.1-b/raylet.1.out"
    assert (part.files, part.events) == (7, len(part.reading.gathered.events))
    assert sum(part.left_out.values()) == 1
    assert part.errors == []


def test_a_folder_of_one_node_carries_its_label_alone(logs: Path) -> None:
    part = read(Task(logs=str(logs), label="10.0.0.2", labels={}, language=ENGLISH))
    files = {event.at.file for event in part.reading.gathered.events.values()}
    assert files == {"10.0.0.2/raylet.1.out"}


def test_what_could_not_be_read_there_is_said_in_the_language_of_who_asked(tmp_path: Path) -> None:
    try:
        part = read(Task(logs=str(tmp_path / "none"), label="10.0.0.2", labels={}, language="zh"))
    finally:
        use(ENGLISH)
    (trouble,) = part.errors
    assert trouble.file.startswith("10.0.0.2/")
    assert not trouble.why.isascii()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("NodeDiedError", "the node died"),
        ("TaskUnschedulableError", "the node died"),
        ("WorkerCrashedError", "perhaps with its node"),
        ("OutOfMemoryError", "short of memory"),
        ("RuntimeEnvSetupError", "pip install oomdoctor=="),
        ("SomethingNewError", "SomethingNewError"),
    ],
)
def test_ray_s_exceptions_in_few_words(error: str, words: str) -> None:
    raised = type(error, (RuntimeError,), {})("CUDA out of memory \x1b[31m")
    assert words in why(raised)
    assert "CUDA" not in why(raised)


def test_an_error_of_the_reading_itself_is_named() -> None:
    error = RuntimeError("ray::read() ...")
    error.cause = RecursionError("deep")  # type: ignore[attr-defined]
    assert why(error) == "reading failed on the node: RecursionError"


@pytest.mark.parametrize("address", [None, "", "auto", "local", "host", "host:port", "host:99999"])
def test_an_address_without_a_port_is_left_to_ray(address: str | None) -> None:
    check_answers(address)


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "ray://127.0.0.1:9/path", "[::1]:9"])
def test_where_nobody_listens_it_is_said_at_once(address: str) -> None:
    with pytest.raises(ClosedError, match="no Ray cluster answers at"):
        check_answers(address)
