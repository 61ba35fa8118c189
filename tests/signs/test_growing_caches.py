"""A cache that grows from print to print without a bound, and near misses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_logs import crash

import oomdoctor
from oomdoctor.signs import growing_caches

GROWN = (
    "request 100: cache 5000 items, 120 MiB",
    "request 200: cache 9000 items, 216 MiB",
    "request 300: cache 14000 items, 336 MiB",
)
BARE = tuple(line.rsplit(",", 1)[0] for line in GROWN)
KILL = (
    "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "memory: usage 614400kB, limit 614400kB, failcnt 0",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/job,task_memcg=/job,task=python,pid=712,uid=0",
    "Memory cgroup out of memory: Killed process 712 (python) total-vm:2329060kB, anon-rss:608192kB",
)


def cache_of(command: str, *prints: str) -> growing_caches.Cache | None:
    return growing_caches.unbounded_cache(crash(f"+ {command}", *prints, *KILL))


@pytest.mark.parametrize(
    ("option", "known"),
    [
        ("--cache-max-items 0", True),
        ("--max-cache-entries -1", True),
        ("--lru-capacity none", True),
        ("--cache-limit unlimited", True),
        ("--cache-max-items 20000", False),
        ("--max-items 0", False),  # of anything
        ("--cache-dir none", False),
        ("--kv-cache-max-items 0", False),
        ("--cache-ttl-max 0", False),
        ("--no-cache", False),
    ],
)
def test_the_bound_is_one_of_a_cache(option: str, *, known: bool) -> None:
    assert (cache_of(f"python serve.py {option}", *GROWN) is not None) == known


@pytest.mark.parametrize(
    ("prints", "grows"),
    [
        (GROWN, True),
        (BARE, True),
        (GROWN[:2], False),
        ((*GROWN, "request 400: cache 14000 items, 336 MiB"), False),  # it is full
        ((*GROWN, "request 400: cache 900 items, 21 MiB"), False),
        (tuple(line.replace("cache", "kv cache") for line in GROWN), False),
        (tuple(line.replace("cache", "cache hits") for line in GROWN), False),
        (tuple(line.replace("cache", "batch") for line in GROWN), False),
        (tuple(line.replace(" items", "%") for line in GROWN), False),
    ],
)
def test_it_grows_in_each_of_several_prints(prints: tuple[str, ...], *, grows: bool) -> None:
    assert (cache_of("python serve.py --cache-max-items 0", *prints) is not None) == grows


def test_its_growth_is_counted_by_entries_and_steps() -> None:
    cache = cache_of("python serve.py --cache-max-items 0", *GROWN)
    assert cache is not None
    assert (cache.step, cache.steps, cache.each_bytes) == ("request", 200, 216 * 2**20 // 9000)
    log = crash("+ python serve.py --cache-max-items 0", *GROWN, *KILL)
    seen = growing_caches.an_unbounded_cache_fills_much(log)
    assert seen is not None
    assert "1.1 MiB per request" in seen.words
    assert "--cache-max-items 0 gives it no bound" in seen.words


@pytest.mark.parametrize(
    "prints",
    [BARE, tuple(line.replace(" MiB", " KiB") for line in GROWN), (*GROWN[:2], GROWN[2].replace("336", "217"))],
)
def test_a_little_growth_proves_nothing(prints: tuple[str, ...]) -> None:
    log = crash("+ python serve.py --cache-max-items 0", *prints, *KILL)
    assert growing_caches.an_unbounded_cache_fills_much(log) is None
    assert growing_caches.an_unbounded_cache_grows(log) is not None


def diagnosis(tmp_path: Path, option: str) -> dict[str, Any]:
    log = "\n".join((f"+ python serve.py --batch-size 64 {option}", *GROWN, *KILL, ""))
    (tmp_path / "job.log").write_text(log, encoding="utf-8")
    first: dict[str, Any] = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]
    return first


def test_the_bound_goes_first(tmp_path: Path) -> None:
    first = diagnosis(tmp_path, "--cache-max-items 0")
    assert first["cause"] == "host-memory-leak"
    assert "120 MiB to 336 MiB" in first["headline"]
    one = first["remedies"][0]
    assert (one["knob"], one["snippet"]) == ("smaller-buffers", "--cache-max-items 9800")
    assert "9800 x 25 KiB = 235 MiB" in one["derivation"]


def test_with_a_bound_it_is_no_leak(tmp_path: Path) -> None:
    assert diagnosis(tmp_path, "--cache-max-items 20000")["cause"] != "host-memory-leak"


OPEN = tuple(f'{{"event": "metrics", "polls": {n}, "open_sessions": {70000 * n}}}' for n in range(1, 5))
START = '{{"event": "{}", "topic": "clicks", "{}": {}}}'


@pytest.mark.parametrize(
    ("event", "name", "value", "known"),
    [
        ("starting", "max_open_sessions", "0", True),
        ("config", "max_open_sessions", "-1", True),
        ("starting", "max_open_sessions", "90000", False),
        ("metrics", "max_open_sessions", "0", False),  # no start
        ("starting", "max_polls", "0", False),  # what is done is not held
        ("starting", "max_open_files", "0", False),  # which nobody counts
    ],
)
def test_what_a_service_holds_without_a_bound(event: str, name: str, value: str, *, known: bool) -> None:
    found = growing_caches.unbounded_cache(crash(START.format(event, name, value), *OPEN, *KILL))
    assert (found is not None) is known
    if found is not None:
        assert (found.what, found.first, found.last) == ("open sessions", 70000, 280000)


def test_it_is_bounded_first(tmp_path: Path) -> None:
    lines = (START.format("starting", "max_open_sessions", "0"), *OPEN, *KILL, "")
    (tmp_path / "job.log").write_text("\n".join(lines), encoding="utf-8")
    found = oomdoctor.diagnose(tmp_path).as_json()["diagnoses"][0]
    assert found["cause"] == "host-memory-leak"
    assert (found["remedies"][0]["knob"], found["remedies"][0]["suggested"]) == ("smaller-buffers", 190000)


@pytest.mark.parametrize(
    ("counts", "known"),
    [((100, 100, 200, 200, 300, 300), True), ((100, 100, 200, 200), False), ((100, 300, 200, 400), False)],
)
def test_two_processes_that_print_in_turn(counts: tuple[int, ...], *, known: bool) -> None:
    prints = (f"tiles[{8 + n % 2}] requests={count} cached={count}" for n, count in enumerate(counts))
    assert (cache_of("python serve.py --cache-max-items 0", *prints) is not None) is known
