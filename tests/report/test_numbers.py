"""No report holds a number that neither stands in the log nor follows from a formula that is shown beside it.

Walked over every fixture. The log's numbers count in every unit and in the precision they are printed with; a
number in a sentence of ours may also be our own words' (it stands in the source), what the formulas of the same report
come to, or one step from two numbers of the same sentence ("46 MiB of 79.10 GiB are 0.1%").
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import combinations, permutations
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest
from reports import LOGS, diagnosed, of_each

import oomdoctor

PAGES = (4096, 16384, 65536)  # kernel tables count them
FACTORS = (
    1,
    0.01,
    100,
    *PAGES,
    *(1 / page for page in PAGES),
    *(base**n for base in (1000, 1024) for n in (1, 2, 3, 4)),
)
BINARY = {f"{letter}{rest}": 1024**n for n, letter in enumerate("KMGTPE", 1) for rest in ("iB", "i", "")}
UNITS = {"bytes": 1, "%": 0.01, " B ": 1e9, **BINARY}
SIZES = 24  # figures of a report that a percentage may be of
COUNTED = 64  # whole numbers up to here may count things: ranks, rows, workers
NUMBER = re.compile(r"(?<![\w.#])(\d[\d,]*(?:\.\d+)?)(?: ?(bytes|%|[KMGTPE](?:iB?)?\b)|( B )(?=parameters))?")
IN_LOG = re.compile(r"\d[\d,]*(?:\.\d+)?|\d[\d.]*(?:,\d+)?")


class Number(NamedTuple):
    value: float
    slack: float  # half of the last digit

    def is_near(self, other: Number) -> bool:
        return abs(self.value - other.value) <= self.slack + other.slack


def number(text: str, factor: float = 1) -> Number:
    plain = text.replace(",", "")
    digits = len(plain.partition(".")[2])
    return Number(float(plain) * factor, 0.51 * 10.0**-digits * factor)


class Known:
    """Numbers to look others up in."""

    def __init__(self, numbers: Iterable[Number]) -> None:
        self.sorted = sorted(numbers)
        self.values = [one.value for one in self.sorted]
        self.widest = max((one.slack / max(abs(one.value), 1) for one in self.sorted), default=0.0)

    def holds(self, wanted: Number) -> bool:
        reach = wanted.slack + max(abs(wanted.value), 1) * 1e-2 + 1
        near = range(bisect_left(self.values, wanted.value - reach), bisect_right(self.values, wanted.value + reach))
        return any(wanted.is_near(self.sorted[n]) for n in near)


def of_log(text: str) -> Iterator[Number]:
    for token in set(IN_LOG.findall(text)):
        for plain in {token.replace(",", ""), token.replace(",", "."), token.rstrip(".,"), *token.split(",")}:
            try:
                one = number(plain)
            except ValueError:
                continue
            yield from (Number(one.value * f, max(one.slack * f, 0.5 if f >= 1 else 0)) for f in FACTORS)


def in_prose(text: str) -> list[Number]:
    return [number(m[1].rstrip(","), UNITS.get(m[2] or m[3] or "", 1)) for m in NUMBER.finditer(text)]


@cache
def our_words() -> Known:
    """The numbers that stand in the package's own strings and constants."""
    found: list[Number] = []
    for path in Path(oomdoctor.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.extend(in_prose(node.value))
            elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
                found.append(Number(float(node.value), 0))
    return Known(found)


def figures(value: Any, key: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from figures(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from figures(inner, key)
    elif isinstance(value, int | float) and not isinstance(value, bool) and value not in (0, 1):
        yield key, value


def sentences(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Where a sentence stands, and the sentence."""
    for incident in report["incidents"]:
        for diagnosis in incident["diagnoses"]:
            yield "explanation", diagnosis["explanation"]
            yield from (("against", text) for text in diagnosis["against"])
            for remedy in diagnosis["remedies"]:
                yield "action", remedy["action"]
                yield "cost", remedy["cost"]
        yield from (("ruled out", one["why"]) for one in incident["ruled_out"])
        yield from (("rejected", one["why"]) for one in incident["remedies_rejected"])
    yield from (("lookalike", one["why"]) for one in report["lookalikes"])
    yield from (("advice", one["why"]) for one in report["advice_rejected"])
    yield from (("note", text) for text in report["notes"])


def formulas(report: dict[str, Any]) -> Iterator[str]:
    for incident in report["incidents"]:
        for ledger in incident["ledger"]:
            yield from (row["derivation"] for row in ledger["rows"] if row["derivation"])
        for diagnosis in incident["diagnoses"]:
            for remedy in diagnosis["remedies"]:
                yield from (text for text in (remedy["derivation"], *remedy["assumes"]) if text)


def one_step_from(numbers: list[Number]) -> Iterator[Number]:
    """Differences, sums, products and shares of two numbers of one sentence; printed with one digit less or more."""
    for a, b in permutations(numbers[:12], 2):
        yield Number(a.value - b.value, a.slack + b.slack)
        yield Number(a.value + b.value, a.slack + b.slack)
        if b.value:
            yield Number(a.value / b.value, abs(a.value / b.value) * 0.01)
        yield Number(a.value * b.value, abs(a.value * b.value) * 0.01)
        if a.value == 2 and b.value <= COUNTED:
            yield Number(2.0**b.value, 0.5)
    for a, b, c in permutations(numbers[:6], 3):
        yield Number(abs(a.value - b.value - c.value), a.slack + b.slack + c.slack)


def unexplained(text: str, known: Known, more: list[Number], sizes: Iterable[float] = ()) -> list[float]:
    said = in_prose(text)
    others = Known([*one_step_from(said), *more])
    return [
        one.value
        for one in said
        if not (one.value <= COUNTED and one.value == int(one.value) and one.slack < 1)
        and not known.holds(one)
        and not our_words().holds(one)
        and not others.holds(one)
    ] + _loose_percentages(text, known, [*sizes, *(one.value for one in said)])


def _loose_percentages(text: str, known: Known, sizes: list[float]) -> list[float]:
    shares = [float(found) for found in re.findall(r"(?<![\d.])(\d{1,3}(?:\.\d)?)%", text)]
    return [share for share in shares if not known.holds(number(str(share))) and not is_a_part(share, sizes)]


def is_a_part(percent: float, sizes: Iterable[float]) -> bool:
    """Whether it is what one figure is of another, or what is left of one beside another ("held 87% of the card")."""
    found = sorted({size for size in sizes if size > 0})[:SIZES]
    shares = [part / whole for part in found for whole in found] + [1 - a / b for a, b in combinations(found, 2)]
    shares += [a / (c - b) for b, c in combinations(found, 2) for a in found if c - b > 0]
    return any(abs(100 * share - percent) <= 0.51 for share in shares)


def test_a_made_up_number_is_found() -> None:
    known = Known(of_log("Tried to allocate 2.50 GiB. 79.11 GiB in all, 1.31 GiB free (pid 4242)"))
    assert unexplained("2.50 GiB were refused with 1341 MiB free, and 1.19 GiB are missing", known, []) == []
    assert unexplained("the engine takes 73.41 GiB of it", known, []) == [73.41 * 1024**3]
    assert unexplained("that is 25% of it", known, [], [20.0, 80.0]) == []
    assert unexplained("that is 31% of it", known, [], [20.0, 80.0]) == [31.0]


@of_each(LOGS)
def test_every_number_is_printed_or_derived(log: Path) -> None:
    report = diagnosed(log)
    known = Known(of_log(log.read_bytes().decode("utf-8", "replace")))
    parts = [event[part] for event in report["events"] for part in ("process", "usage", "threshold", "fields")]
    printed = [
        (f"{row['what']} of the ledger", row["bytes"])
        for incident in report["incidents"]
        for ledger in incident["ledger"]
        for row in ledger["rows"]
        if row["basis"] == "printed" and row["bytes"]
    ]
    # Signs are words of their own in a log ("-9", "-0.66 GiB"), and sizes are whole bytes.
    assert [(n, v) for n, v in (*figures(parts), *printed) if not known.holds(Number(abs(v), 1.0))] == []
    shown = [one for text in formulas(report) for one in in_prose(text)]
    ledgers = [ledger for incident in report["incidents"] for ledger in incident["ledger"]]
    sizes = [value for _, value in figures([parts, ledgers])]
    wrong = {(where, text): bad for where, text in sentences(report) if (bad := unexplained(text, known, shown, sizes))}
    assert wrong == {}


@of_each(LOGS)
def test_what_is_not_printed_shows_its_formula(log: Path) -> None:
    report = diagnosed(log)
    for incident in report["incidents"]:
        for ledger in incident["ledger"]:
            derived = [row for row in ledger["rows"] if row["basis"] == "derived"]
            assert [row["what"] for row in derived if not row["derivation"]] == []
            results = [(row, in_prose(row["derivation"])[-1]) for row in derived]
            assert [row["what"] for row, result in results if not result.is_near(Number(row["bytes"], 1))] == []


RAY_KILL = (
    "(raylet) Memory on the node (IP: 10.1.0.4, ID: 7f1c) where the task (actor ID: 12, name=WorkerDict.__init__, "
    "pid=4471, memory used=80.00GB) was running was 957.60GB / 1008.00GB (0.950000), which exceeds the memory usage "
    "threshold of 0.95. Ray killed this worker (ID: 33) because it was the most recently scheduled task\n"
)
CARD_FULL = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacity of 79.11 GiB "
    "of which 1.25 GiB is free. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 900.00 MiB is reserved "
    "by PyTorch but unallocated.\n"
)
GROWING = {
    "a node": "".join(
        f"step:{n} - perf/cpu_memory_used_gb:{300 + 20 * n + n * 7 % 5}.5 - timing_s/gen:40\n" for n in range(1, 25)
    )
    + RAY_KILL,
    "a card": "".join(
        f"[Rank 0] (after {10 * n} iterations) memory (MB) | allocated: {30000 + 1500 * n + n * 331 % 97}.25 | "
        "max allocated: 71000.00 | reserved: 72000.00 | max reserved: 72000.00\n"
        for n in range(1, 25)
    )
    + CARD_FULL,
    "lows of a sawtooth": "".join(
        f"step {n} RSS: {100 + 10 * n + 300 * (n % 2)}.00 GB\n" for n in range(1, 41)
    )
    + RAY_KILL,
}  # fmt: skip


@pytest.mark.parametrize("name", GROWING)
def test_a_growth_is_the_median_of_its_slopes_and_shows_how_long_it_lasts(name: str, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(GROWING[name])
    report = oomdoctor.diagnose(log).as_json()
    figure = report["trajectory"]
    known = Known(of_log(log.read_text()))
    assert [point["bytes"] for point in figure["points"] if not known.holds(Number(point["bytes"], 1.0))] == []
    points = [(point["step"], point["bytes"]) for point in figure["points"]]
    steady = points[len(points) // 5 :]
    if name == "lows of a sawtooth":
        steady = [point for point in steady if point[0] % 2 == 0]
    slopes = [(b - a) / (to - at) for (at, a), (to, b) in combinations(steady, 2)]
    assert figure["growth_bytes"] == round(median(slopes))
    assert figure["growth_low_bytes"] <= figure["growth_bytes"] <= figure["growth_high_bytes"]
    explanation = report["diagnoses"][0]["explanation"]
    assert report["diagnoses"][0]["cause"].endswith("-memory-leak")
    assert unexplained(explanation, known, [Number(figure["growth_bytes"], 0.006 * 1024**3)]) == []
    full = figure["full"]
    if name == "lows of a sawtooth":  # one process: nobody knows what all the others leave to it
        assert full is None
        return
    limit, reached, growth, count = in_prose(full["derivation"])
    assert known.holds(limit)
    assert known.holds(reached)
    assert growth.is_near(Number(figure["growth_bytes"], 1))
    assert count.value == full["count"] == round((limit.value - reached.value) / growth.value)
    assert full["count_low"] <= full["count"] <= full["count_high"]
