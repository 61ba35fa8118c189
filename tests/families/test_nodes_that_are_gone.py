"""Nodes that Ray's head marked dead: what ended them other than memory, and what does not tell."""

from __future__ import annotations

import pytest

from oomdoctor import families
from oomdoctor.families import Event, Lookalike
from oomdoctor.streams import page

ID, OTHER = "4b" * 28, "9c" * 28
DEAD = (
    f"(raylet) The node with node id: {ID} and address: 10.4.0.7 and node name: 10.4.0.7 has been marked dead because "
    "the detector has missed too many heartbeats from it. This can happen when a \t(1) raylet crashes unexpectedly "
    "(OOM, etc.) \n\t(2) raylet has lagging heartbeats due to slow network or busy workload."
)
GONE = (
    f"(raylet, ip=10.4.0.7) Raylet is terminated: ip=10.4.0.7, id={ID}. Termination is unexpected. Possible reasons "
    "include: (1) SIGKILL by the user or system OOM killer, (2) Invalid memory access from Raylet causing SIGSEGV or "
    "SIGBUS, (3) Other termination signals. Last 20 lines of the Raylet logs:"
)
SHARES = (
    "(raylet, ip=10.4.0.7) The raylet exited immediately because one Ray agent failed, agent_name = dashboard_agent.\n"
    "The raylet fate shares with the agent. This can happen because\n- The agent is killed by the OS (out of memory)."
)


def read(text: str) -> tuple[list[str], list[str]]:
    """The kinds of failures, and the reasons of lookalikes."""
    found = list(families.read(page("driver.log", 1, text.encode() + b"\n")))
    failures = [item.kind for item in found if isinstance(item, Event) and item.role == "root"]
    return failures, [item.why for item in found if isinstance(item, Lookalike)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            (
                f"{DEAD}\n[Timeout] Exiting because this node manager has mistakenly been marked as dead by the GCS: "
                "GCS failed to check the health of this node for 7 times."
            ),
            "was alive",
        ),
        (
            (
                "[Timeout] Exiting because this node manager has mistakenly been marked dead by the monitor: GCS "
                f"did not receive heartbeats within timeout 40000 ms.\n{DEAD}"
            ),
            "was alive",
        ),
        (
            (
                f"{DEAD}\n(raylet, ip=10.4.0.7) The raylet exited immediately because the runtime env agent timed out "
                "when Raylet try to connect to it."
            ),
            "its agent",
        ),
        (f"(raylet, ip=10.4.0.7) Runtime Env Agent timed out in 60000ms. Status: NotFound\n{DEAD}", "its agent"),
        (f"(raylet, ip=10.4.0.7) Raylet received SIGTERM, shutting down...\n{DEAD}", "SIGTERM"),
        (f"{GONE}\n    [I 12 12] (raylet) main.cc:400: Raylet received SIGTERM, shutting down...", "SIGTERM"),
        (f"autoscaler: draining node {ID}: it is preempted\n{DEAD}", "drained"),
        (f"Node {ID} has been drained, reason AUTOSCALER_DRAIN_PREEMPTED\n{DEAD}", "drained"),
        (f"spot watcher: instance 10.4.0.7 was preempted\n{DEAD}", "preemption"),
        (f"spot watcher: spot interruption of i-0b77\n{DEAD}", "preemption"),
    ],
)
def test_another_line_says_what_ended_the_node(text: str, words: str) -> None:
    failures, reasons = read(text)
    assert not failures
    assert any(words in why for why in reasons)


@pytest.mark.parametrize(
    "text",
    [
        DEAD,
        GONE,
        # the agent's end has no reason either
        f"{DEAD}\n{SHARES}",
        # of another node
        f"{DEAD}\n(raylet, ip=10.4.0.9) Raylet received SIGTERM, shutting down...",
        f"{DEAD}\n(raylet, ip=10.4.0.9) Runtime Env Agent timed out in 60000ms. Status: NotFound",
        f"autoscaler: draining node {OTHER}: idle\n{DEAD}",
        f"Node {OTHER} has been drained, reason AUTOSCALER_DRAIN_IDLE\n{DEAD}",
        f"spot watcher: instance 10.4.0.9 was preempted\n{DEAD}",
        # of something else
        f"{DEAD}\nMetrics agent timed out twice, trying again",
        f"(raylet, ip=10.4.0.7) worker 881 received SIGTERM\n{DEAD}",
        f"{DEAD}\nreason UNEXPECTED_TERMINATION",
        f"the queue was drained\n{DEAD}",
        # afterwards somebody gave up
        f"{DEAD}\n^C\nKeyboardInterrupt\n$ ray stop",
    ],
)
def test_nothing_says_what_ended_the_node(text: str) -> None:
    failures, _ = read(text)
    assert "node-death" in failures
