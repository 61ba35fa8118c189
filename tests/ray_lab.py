"""A cluster of two nodes on this machine, with a memory limit of its own on the second: for tests, and by hand.

    python tests/ray_lab.py      starts the nodes, provokes a kill and waits for Enter

Both raylets see the machine's memory; the second one's monitor is set to a little more than what is in use now. What
is allocated stays below 4 GB, and only for seconds.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

GIB: Final = 2**30
HELD: Final = 1.4  # GiB of the program that holds the memory
MARGIN: Final = 2.0  # GiB between what is in use at the start and the limit
MOST: Final = 2.0  # GiB at which the one that grows gives up
SECOND: Final = "127.0.0.2"
STORE: Final = 80_000_000  # bytes; the least that Ray takes

# A program beside Ray holds the memory; the only worker asks for the last of it, and is killed.
HOG: Final = """
import sys, time
kept = [bytearray(b"x") * (128 << 20) for _ in range(int(float(sys.argv[1]) * 8))]
print("ready", flush=True)
time.sleep(120)
"""
DRIVER: Final = """
import json, os, subprocess, sys, time
import ray

address, held, most, told = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]
ray.init(address=address)

@ray.remote(num_cpus=0, resources={"second": 0.1}, max_restarts=0)
class Rollout:
    def pid(self):
        return os.getpid()

    def grow(self, gib):
        kept = []
        for _ in range(int(gib * 16)):
            kept.append(bytearray(b"x") * (64 << 20))
            time.sleep(0.05)
        time.sleep(5)

rollout = Rollout.remote()
victim = ray.get(rollout.pid.remote())
hog = subprocess.Popen([sys.executable, "cache_server.py", held], stdout=subprocess.PIPE)
with open(told, "w") as file:
    json.dump({"hog": hog.pid, "victim": victim}, file)
try:
    hog.stdout.readline()
    ray.get(rollout.grow.remote(most))
finally:
    hog.kill()
"""

# A worker goes into a memory cgroup as a container's would, and outgrows its limit: the kernel kills it, not Ray.
LIMITED: Final = """
import json, os, sys
import ray

address, group, told = sys.argv[1:4]
ray.init(address=address)

@ray.remote(num_cpus=0, resources={"second": 0.1}, max_restarts=0)
class Scorer:
    def enter(self, group):
        with open(f"{group}/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
        return os.getpid()

    def grow(self):
        kept = []
        while True:
            kept.append(bytearray(b"x") * (16 << 20))

scorer = Scorer.remote()
victim = ray.get(scorer.enter.remote(group))
with open(told, "w") as file:
    json.dump({"victim": victim}, file)
ray.get(scorer.grow.remote())
"""

# The second node of `ray.cluster_utils`: a raylet beside the first one's, in the same session folder.
SHARED: Final = """
import json, sys
from ray.cluster_utils import Cluster

store = int(sys.argv[2])
cluster = Cluster(
    initialize_head=True,
    head_node_args={"num_cpus": 1, "object_store_memory": store, "include_dashboard": False},
)
cluster.add_node(
    num_cpus=1, object_store_memory=store, resources={"second": 1},
    env_vars={"RAY_memory_usage_threshold": sys.argv[1], "RAY_memory_monitor_refresh_ms": "100"},
)
print("address", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


def limit() -> str:
    """The share of the memory at which the second node's monitor kills."""
    sizes = {row.split(":")[0]: int(row.split()[1]) * 1024 for row in Path("/proc/meminfo").read_text().splitlines()}
    in_use = sizes["MemTotal"] - sizes["MemAvailable"]
    return f"{(in_use + MARGIN * GIB) / sizes['MemTotal']:.4f}"


class Lab:
    """Two nodes, from two `ray start` or from `ray.cluster_utils`."""

    def __init__(self, second: str = sys.executable) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="oom", dir="/tmp"))  # a socket's path has at most 107 characters
        self.address = ""
        self._second = second
        self._running: list[subprocess.Popen[str]] = []
        # Ray takes the nodes of this machine for each other's where a variable names one.
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        self.environment |= {
            "RAY_TMPDIR": str(self.folder),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "disabled",
        }
        (self.folder / "ray").mkdir()  # where `cluster_utils` writes its address

    def head(self) -> list[str]:
        """One `ray start`; what a second node is started with, too."""
        port = _free_port()
        own = _address()
        self.address = f"{own}:{port}"
        common = ["--num-cpus=1", f"--object-store-memory={STORE}", "--block", "--disable-usage-stats"]
        of_head = ["--include-dashboard=false", f"--ray-client-server-port={_free_port()}"]
        self._start(
            sys.executable,
            ["--head", f"--port={port}", f"--node-ip-address={own}", f"--temp-dir={self.folder}/1", *common, *of_head],
        )
        wait_for(lambda: self.nodes() == 1)
        return common

    def pair(self) -> Lab:
        """Two `ray start`, as on two machines."""
        # One after the other, or both may take one name for their sockets, where they share a folder
        common = [*self.head(), '--resources={"second": 1}']
        self._start(
            self._second,
            [f"--address={self.address}", f"--node-ip-address={SECOND}", f"--temp-dir={self.folder}/2", *common],
            RAY_memory_usage_threshold=limit(),
            RAY_memory_monitor_refresh_ms="100",
        )
        wait_for(lambda: self.nodes() == 2)
        return self

    def shared(self) -> Lab:
        """Two raylets of `ray.cluster_utils`."""
        program = subprocess.Popen(
            [sys.executable, "-c", SHARED, limit(), str(STORE)],
            cwd=self.folder, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        )  # fmt: skip
        self._running.append(program)
        assert program.stdout is not None
        for line in program.stdout:
            if line.startswith("address "):
                self.address = line.split()[1]
                break
        wait_for(lambda: self.nodes() == 2)
        return self

    def provoke(self) -> dict[str, Any]:
        """A kill on the second node; who held the memory, who was killed, and what the driver printed."""
        (self.folder / "cache_server.py").write_text(HOG)
        return self._drive(DRIVER, str(HELD), str(MOST))

    def outgrow(self, group: Path) -> dict[str, Any]:
        """The kernel kills a worker of the second node at the limit of this memory cgroup."""
        return self._drive(LIMITED, str(group))

    def _drive(self, driver: str, *arguments: str) -> dict[str, Any]:
        told = self.folder / "pids.json"
        done = subprocess.run(
            [sys.executable, "-c", driver, self.address, *arguments, str(told)],
            cwd=self.folder, env=self.environment, check=False, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        log = self.folder / "driver.log"
        log.write_text(done.stdout + done.stderr)
        assert done.returncode != 0, "nothing was killed"
        assert told.exists(), log.read_text()
        return {**json.loads(told.read_text()), "log": log}

    def nodes(self) -> int:
        """How many raylets of this cluster are ready."""
        logs = [log for log in self.folder.rglob("raylet*.out") if not log.parent.parent.is_symlink()]
        return sum("Raylet of id" in log.read_text(errors="replace") for log in logs)

    @property
    def folders(self) -> int:
        """How many session folders the nodes write to: older Rays ignore the --temp-dir of a second node."""
        return len(list(self.folder.rglob("session_2*/sockets")))

    def kill_node(self, at: str) -> None:
        """End a raylet, told by a part of its command line, and its workers, which may outlive it."""
        for pid, words in _processes():
            line = " ".join(words)
            if words[0].endswith("/raylet") and str(self.folder) in line and at in line:
                for one in [pid, *_children(pid)]:
                    os.kill(one, signal.SIGKILL)
                return
        raise AssertionError(f"no raylet has {at} in its command line")

    def oomdoctor(self, *arguments: str) -> list[str]:
        """The command line of `oomdoctor cluster` on this cluster."""
        return [sys.executable, "-m", "oomdoctor", "cluster", "--address", self.address, *arguments]

    def close(self) -> None:
        """End every process of it, and take its folder away."""
        for program in self._running:
            program.terminate()
        for program in self._running:
            with suppress(subprocess.TimeoutExpired):
                program.communicate(timeout=10)
        for pid, words in _processes():
            if str(self.folder) in " ".join(words):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for program in self._running:
            program.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, python: str, arguments: list[str], **variables: str) -> None:
        program = subprocess.Popen(
            [python, "-m", "ray.scripts.scripts", "start", *arguments],
            cwd=self.folder, env={**self.environment, **variables}, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        )  # fmt: skip
        self._running.append(program)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _processes() -> list[tuple[int, list[str]]]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
                found.append((int(folder.name), words))
    return found


def wait_for(ready: Any, seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "the cluster does not start"
        time.sleep(0.3)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("", 0))
        return int(listener.getsockname()[1])


def _address() -> str:
    """This machine's own address: Ray refuses two nodes at a head that is at 127.0.0.1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        with suppress(OSError):
            out.connect(("192.0.2.1", 9))  # sends nothing
        return str(out.getsockname()[0])


if __name__ == "__main__":
    lab = Lab().pair()
    try:
        print(lab.address, lab.folder, lab.provoke())
        input()
    finally:
        lab.close()
