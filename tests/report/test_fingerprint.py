"""The fingerprint is that of the crash, whatever its figures; walked over every fixture."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from reports import LOGS, ROOT, named, report_on

from oomdoctor import diagnose
from oomdoctor.families.event import Event, Frame, Surroundings
from oomdoctor.families.event import Place as EventPlace
from oomdoctor.incident.model import Crash
from oomdoctor.report.contract import Report
from oomdoctor.report.fingerprint import fingerprint, place, place_of

STORIES = sorted(ROOT.glob("fixtures/stories/*/*"))

TORCH = Frame("/opt/env/lib/python3.11/site-packages/torch/nn/modules/linear.py", 125, "forward")
STANDARD = Frame("/usr/lib/python3.11/concurrent/futures/thread.py", 58, "run")
WORKER = Frame("/opt/env/lib/python3.11/site-packages/vllm/worker/worker.py", 12, "load_model")
MAIN = Frame("/home/ana/rl/train.py", 7, "<module>")


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([TORCH, WORKER, MAIN], "worker:load_model"),
        ([TORCH, STANDARD, MAIN], "train:<module>"),
        ([TORCH], ""),
        ([], ""),
        ([Frame("", 0, "")], ""),
        ([Frame("ray", 0, "LLMActor.backload"), MAIN], "ray:LLMActor.backload"),
        ([Frame("/w/site-packages/ray/_private/worker.py", 1, "get"), MAIN], "train:<module>"),
        ([Frame("python/ray/_raylet.pyx", 1, "ray._raylet.execute_task"), MAIN], "train:<module>"),
        ([Frame("/w/site-packages/verl/single_controller/ray/base.py", 1, "dispatch"), MAIN], "base:dispatch"),
        ([Frame("/w/site-packages/verl/single_controller/ray/base.py", 1, "func"), MAIN], "train:<module>"),
        ([Frame("C:\\env\\Lib\\site-packages\\torch\\x.py", 1, "f"), Frame("C:\\job\\fit.py", 1, "fit")], "fit:fit"),
        ([Frame("/usr/local/bin/torchrun", 8, "<module>")], ""),
        ([Frame("/src/pytorch/torch/nn/x.py", 8, "f"), MAIN], "train:<module>"),
        ([Frame("/j/run_20260401.py", 8, "<listcomp>"), Frame("/j/run_20260401.py", 8, "step2")], "run_N:stepN"),
    ],
)
def test_the_place_is_the_innermost_function_that_is_their_own(frames: list[Frame], expected: str) -> None:
    assert place(frames) == expected


def test_another_print_of_the_same_shows_the_place() -> None:
    bare = Event(at=EventPlace("raylet.out", 3, 3, "killed"), role="root")
    waiting = replace(bare, role="cascade", around=Surroundings(trace=(MAIN,)))
    again = replace(bare, role="confirmation", around=Surroundings(trace=(MAIN, WORKER, TORCH)))
    for events, expected in (((bare, waiting, again), "worker:load_model"), ((bare, waiting), ""), ((bare,), "")):
        assert place_of(Crash(events=events, root=bare, pool="host_ram", stage="unknown")) == expected


@given(st.integers(0, 9999), st.integers(0, 9999), st.sampled_from(["/home/bo/x", "/mnt/7/a-b", "D:\\jobs\\3"]))
def test_lines_folders_and_what_stands_deeper_in_torch_are_no_part_of_it(line: int, deep: int, folder: str) -> None:
    moved = [
        Frame(f"{folder}/lib/python3.9/site-packages/torch/deep{deep}.py", deep, "linear"),
        Frame(f"{folder}/lib/python3.9/site-packages/vllm/worker/worker.py", line, "load_model", "x = y"),
        Frame(f"{folder}/train_other.py", line, "main"),
    ]
    first = fingerprint("activations", "gpu", "forward", place([TORCH, WORKER, MAIN]))
    assert fingerprint("activations", "gpu", "forward", place(moved)) == first
    assert re.fullmatch(r"v1:[0-9a-f]{16}", first)


def test_cause_pool_stage_and_place_are_parts_of_it() -> None:
    parts = ("activations", "gpu", "forward", "worker:load_model")
    others = [
        fingerprint("logits-spike", *parts[1:]),
        fingerprint("activations", "host_ram", "forward", "worker:load_model"),
        fingerprint("activations", "gpu", "backward", "worker:load_model"),
        fingerprint(*parts[:3], "train:<module>"),
        fingerprint(*parts[:3], ""),
        fingerprint(*parts),
    ]
    assert len(set(others)) == len(others)


def test_the_meaning_of_v1_stays() -> None:
    assert fingerprint("activations", "gpu", "forward", "worker:load_model") == "v1:face22e151ce5168"


def keys(report: Report) -> list[tuple[str, str, str]]:
    """What the fingerprints are of, but for the place."""
    return [
        (best.cause, best.pool, best.stage) if (best := next(iter(one.diagnoses), None)) else ("open", "", "")
        for one in report.incidents
    ]


def prints(report: Report) -> list[str]:
    return [one.fingerprint for one in report.incidents]


def other_pids(text: str) -> str:
    return re.sub(r"(\b[Pp][Ii][Dd][=: ]{1,2}|PID )(\d{2,7})", lambda m: f"{m[1]}{int(m[2]) + 13}", text)


def other_times(text: str) -> str:
    text = re.sub(r"\b20\d\d-\d\d-\d\d\b", "2031-11-17", text)
    return re.sub(r"\b(\d\d):(\d\d):(\d\d)\b", lambda m: f"{m[1]}:{m[2]}:{(int(m[3]) + 7) % 60:02}", text)


def other_hosts(text: str) -> str:
    text = re.sub(r"\b10\.(\d{1,3}\.\d{1,3}\.\d{1,3})\b", r"172.\1", text)
    return re.sub(r"\b[0-9a-f]{56}\b", lambda m: m[0][::-1], text)


def other_folders(text: str) -> str:
    return re.sub(r'(File ")/(?:home|srv|opt|workspace|root|usr|mnt)/', r"\1/scratch/users/u77/", text)


def other_lines(text: str) -> str:
    return re.sub(r'(File "[^"\n]{1,200}", line )(\d{1,6})', lambda m: f"{m[1]}{int(m[2]) + 3}", text)


def later_in_the_log(text: str) -> str:
    if text.startswith("!!!"):  # the message stands as the title above all else, and no longer would
        return text
    return "".join(f"heartbeat {n} of the watcher\n" for n in range(40)) + text


def other_figures(text: str) -> str:
    """Sizes with two decimals, each a little larger: the same one the same everywhere."""
    return re.sub(r"\b(\d{1,4}\.\d)(\d)(?= ?[GM]i?B\b)", lambda m: f"{m[1]}{min(int(m[2]) + 1, 9)}", text)


def other_ranks(text: str) -> str:
    text = re.sub(r"(?i)(\[?rank[ =:_]?|local_rank[:=] ?)(\d{1,3})\b", lambda m: f"{m[1]}{int(m[2]) + 3}", text)
    return re.sub(r"\b(GPU |cuda:)(\d)\b", lambda m: f"{m[1]}{(int(m[2]) + 3) % 10}", text)


def with_stamps(text: str) -> str:
    """As a container's log is printed with its times."""
    lines = text.splitlines(keepends=True)
    if re.match(r"\d{4}-\d\d-\d\dT", text) or text.lstrip()[:1] in "{[":
        return text
    return "".join(f"2026-03-09T04:{n // 60 % 60:02}:{n % 60:02}.123456789Z {line}" for n, line in enumerate(lines))


# What is told by the times of its own lines is another log with a container's times before them.
OF_ITS_TIMES = {"near-full-of-another-day"}

CHANGES = [
    other_ranks,
    with_stamps,
    other_pids,
    other_times,
    other_hosts,
    other_folders,
    other_lines,
    later_in_the_log,
    other_figures,
]


@pytest.mark.parametrize("one_in", [9, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: str(change.__name__))
def test_the_same_crash_in_another_run(change: Callable[[str], str], one_in: int, tmp_path: Path) -> None:
    changed, kept, differ = 0, 0, []
    for log in [*LOGS, *STORIES][::one_in]:
        text = log.read_text(encoding="utf-8", errors="surrogateescape")
        if (other := change(text)) == text or (change is with_stamps and log.stem in OF_ITS_TIMES):
            continue
        path = tmp_path / log.name
        path.write_text(other, encoding="utf-8", errors="surrogateescape")
        then, now = report_on(log), diagnose(path)
        changed += 1
        if keys(then) == keys(now):  # a figure may well decide between causes; then the fingerprint is another, too
            kept += 1
            if prints(then) != prints(now):
                differ.append(named(log))
    assert changed > 20 / one_in
    assert differ == []
    assert changed - kept <= max(1, changed // 100)


def test_different_stories_have_different_fingerprints() -> None:
    found = {log: prints(report_on(log))[0] for log in STORIES}
    assert [(a, b) for a, b in combinations(found, 2) if found[a] == found[b]] == []


def test_different_causes_have_different_fingerprints() -> None:
    of: dict[str, set[str]] = {}
    for log in [*LOGS, *STORIES]:
        for incident, key in zip(report_on(log).incidents, keys(report_on(log)), strict=True):
            of.setdefault(incident.fingerprint, set()).add(key[0])
    assert [causes for causes in of.values() if len(causes) > 1] == []
    assert len(of) > 100
