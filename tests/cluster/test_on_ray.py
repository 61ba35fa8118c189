"""On real clusters of two nodes: a kill on the second one is found with its node, its victim and the hog."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from ray_lab import SECOND, Lab, wait_for

from lab.cell import group

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="two nodes of one machine need Linux")

LARGE: Final = 24 * 2**30  # bytes of a log that takes seconds to read, nearly all of them a hole in the file


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python that has Ray and all its dependencies, and neither oomdoctor nor what it needs."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (there,) = folder.glob("lib/python*/site-packages")
    for path in Path(ray.__file__).parent.parent.iterdir():
        ours = any(word in path.name.lower() for word in ("oomdoctor", "lark", "regex", "ahocorasick", "msgspec"))
        if not ours and path.suffix != ".pth":
            (there / path.name).symlink_to(path)
    return str(folder / "bin" / "python")


@pytest.fixture(scope="module")
def pair(bare: str) -> Iterator[tuple[Lab, dict[str, Any]]]:
    lab = Lab(second=bare)
    try:
        yield lab.pair(), lab.provoke()
    finally:
        lab.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Lab, dict[str, Any]]]:
    lab = Lab()
    try:
        yield lab.shared(), lab.provoke()
    finally:
        lab.close()


def run(lab: Lab, *arguments: str) -> tuple[dict[str, Any], str, int]:
    """The report, what was said meanwhile, and the exit code."""
    command = lab.oomdoctor("--format", "json", *arguments)
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=lab.folder, env=lab.environment, timeout=300
    )
    return json.loads(done.stdout), done.stderr, done.returncode


def root(report: dict[str, Any]) -> dict[str, Any]:
    (incident,) = report["incidents"]
    roots = [event for event in report["events"] if event["id"] in incident["events"] and event["role"] == "root"]
    return min(roots, key=lambda event: str(event["id"]))


def names_hog_and_victim(report: dict[str, Any], pids: dict[str, Any]) -> None:
    assert report["verdict"] == "oom"
    kill = root(report)
    assert kill["kind"] == "node-out-of-memory"
    assert pids["victim"] in [victim["pid"] for victim in kill["fields"]["victims"]]
    incident = report["incidents"][0]
    rows = [row["what"] for ledger in incident["ledger"] for row in ledger["rows"]]
    assert f"cache_server.py (pid {pids['hog']})" in rows
    # What else runs on this machine is in the table, too: beside much of it, nobody holds the most.
    assert incident["diagnoses"][0]["cause"] in ("process-ram-hog", "host-memory-exhausted")


def test_two_nodes_with_a_folder_each(pair: tuple[Lab, dict[str, Any]]) -> None:
    """The second node has no oomdoctor: it is sent."""
    lab, pids = pair
    report, said, code = run(lab)
    names_hog_and_victim(report, pids)
    assert code == 1
    kill = root(report)
    assert kill["process"]["node"] == SECOND
    assert kill["file"] == f"{SECOND}/raylet{'.1' if lab.folders == 1 else ''}.out"
    assert said.count(" logs, ") == lab.folders  # each is read once
    assert report["errors"] == []
    assert f"nodes alive: 2; log folders read: {lab.folders}" in report["notes"]


def test_a_driver_s_log_is_joined(pair: tuple[Lab, dict[str, Any]]) -> None:
    lab, pids = pair
    without, _, _ = run(lab)
    report, _, _ = run(lab, "--archived", str(pids["log"]))
    names_hog_and_victim(report, pids)
    assert root(report)["file"] == root(without)["file"]  # told once more
    assert root(report)["repeats"] > root(without)["repeats"]


def test_two_raylets_with_one_folder(shared: tuple[Lab, dict[str, Any]]) -> None:
    lab, pids = shared
    report, said, code = run(lab)
    names_hog_and_victim(report, pids)
    assert code == 1
    kill = root(report)
    address = lab.address.rsplit(":", 1)[0]
    node, _, file = kill["file"].partition("/")
    assert file == "raylet.1.out"
    assert node == f"{address}-{kill['process']['node_id'][:8]}" if "node_id" in kill["process"] else node != address
    assert said.count(" logs, ") == 1  # read once
    assert sum("share one log folder" in note for note in report["notes"]) == 1


def test_another_session_that_is_not_there(shared: tuple[Lab, dict[str, Any]]) -> None:
    lab, _ = shared
    report, _, code = run(lab, "--session", "session_2020-01-01_00-00-00_000000_1")
    assert code == 2
    assert report["incidents"] == []
    assert len(report["errors"]) == 2
    assert all("the newest there: session_20" in error["why"] for error in report["errors"])


def test_a_node_that_dies_while_it_reads_is_named_and_the_others_are_read(pair: tuple[Lab, dict[str, Any]]) -> None:
    lab, pids = pair
    if lab.folders == 1:
        pytest.skip("this version of Ray has both nodes write to one folder")
    (logs,) = lab.folder.glob("2/session_2*/logs")
    report, said, code = run_and_kill(lab, logs, f"--node_ip_address={SECOND}")
    assert [error["file"] for error in report["errors"]] == [SECOND]
    assert "died" in report["errors"][0]["why"]
    assert f"{SECOND}: not read" in said
    assert code == 1  # from what the head has
    names_hog_and_victim(report, pids)
    assert root(report)["file"].endswith("/gcs_server.out")


def test_afterwards_the_node_is_dead_and_what_is_kept_of_it_is_joined(pair: tuple[Lab, dict[str, Any]]) -> None:
    lab, pids = pair
    if lab.folders == 1:
        pytest.skip("this version of Ray has both nodes write to one folder")
    (server,) = lab.folder.glob("1/session_2*/logs/gcs_server.out")
    wait_for(lambda: "marked dead" in server.read_text(errors="replace"))
    (logs,) = lab.folder.glob("2/session_2*/logs")
    report, _, code = run(lab, "--archived", str(logs.parent.parent))
    assert code == 1
    names_hog_and_victim(report, pids)
    assert report["errors"] == []
    assert sum(note.startswith(f"node {SECOND} is dead (") for note in report["notes"]) == 1
    assert any(event["file"].startswith("2/session_2") for event in report["events"])


def test_another_node_reads_the_folder_that_they_share(shared: tuple[Lab, dict[str, Any]]) -> None:
    """The last test of this cluster."""
    lab, pids = shared
    (logs,) = lab.folder.glob("ray/session_2*/logs")
    report, _, code = run_and_kill(lab, logs, "/sockets/raylet.1")
    assert code == 1
    names_hog_and_victim(report, pids)
    assert root(report)["file"].endswith("/raylet.1.out")
    (error,) = report["errors"]
    assert "died" in error["why"]


def tasks(logs: Path) -> int:
    """How many folders the workers there have begun to read: each names its tasks."""
    return sum(path.read_bytes().count(b"oomdoctor read") for path in logs.glob("worker-*[0-9].out"))


def run_and_kill(lab: Lab, logs: Path, raylet: str) -> tuple[dict[str, Any], str, int]:
    """As `run`, and the node that reads these logs dies meanwhile."""
    hole = logs / "long.log"  # by no name that Ray itself would follow, line by line
    with hole.open("wb") as log:
        log.write(b"a line of some log\n" * 500)
        log.truncate(LARGE)
    before = tasks(logs)
    reading = subprocess.Popen(
        lab.oomdoctor("--format", "json"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=lab.folder, env=lab.environment,
    )  # fmt: skip

    wait_for(lambda: tasks(logs) > before)
    lab.kill_node(raylet)
    time.sleep(3)
    os.truncate(hole, 1000)  # whoever reads it next is done soon
    hole.unlink()
    out, said = reading.communicate(timeout=120)
    return json.loads(out), said, reading.returncode


def test_a_kill_by_the_kernel_is_found_in_the_log_of_the_node_s_machine(bare: str) -> None:
    """Ray only sees that the worker is gone; it took no part, and no log of its own says why."""
    if not readable("dmesg"):
        pytest.skip("the kernel's log cannot be read here")
    lab = Lab(second=bare)
    try:
        with limited(96) as limit:
            pids = lab.pair().outgrow(limit)
        report, _, code = run(lab, "--archived", str(pids["log"]))
    finally:
        lab.close()
    assert code == 1
    (kill,) = [event for event in report["events"] if event["kind"] == "oom-kill" and event["role"] == "root"]
    assert kill["process"]["pid"] == pids["victim"]
    assert kill["file"].endswith("/evidence/kernel.txt")
    first = report["incidents"][0]["diagnoses"][0]
    assert first["cause"] == "container-limit"
    assert "96 MiB" in first["headline"]


@contextmanager
def limited(mib: int) -> Iterator[Path]:
    """A memory cgroup of so many MiB; without one, the test is left out."""
    try:
        with group(f"oomdoctor-test-{os.getpid()}-ray", mib * 2**20) as it:
            yield it.path
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")


def readable(command: str) -> bool:
    return subprocess.run([command], check=False, capture_output=True).returncode == 0


def test_a_cluster_that_wants_a_token(tmp_path: Path) -> None:
    if not hasattr(ray.exceptions, "AuthenticationError"):
        pytest.skip("Ray before 2.52 knows no tokens")
    lab = Lab()
    lab.environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
    try:
        lab.head()
        without = {**lab.environment, "RAY_AUTH_MODE": "disabled", "HOME": str(tmp_path)}
        del without["RAY_AUTH_TOKEN"]
        done = subprocess.run(
            lab.oomdoctor(), check=False, capture_output=True, text=True, cwd=lab.folder, env=without, timeout=120
        )
        report, _, code = run(lab)
    finally:
        lab.close()
    assert done.returncode == 2
    assert "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN" in done.stderr
    assert (report["verdict"], code) == ("no-oom", 0)


def test_where_no_cluster_is(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "oomdoctor", "cluster", "--address", "127.0.0.1:9"],
        check=False, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "no Ray cluster answers at" in done.stderr
    assert done.stdout == ""
    assert time.monotonic() - begun < 30


def test_where_none_is_on_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from ray._private import services

    from oomdoctor.cluster.connection import ClosedError, connected

    monkeypatch.setattr(services, "find_gcs_addresses", set)  # others may have one running
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ClosedError, match="no Ray cluster runs here"), connected("auto"):
        pass
