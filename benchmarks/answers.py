"""What is answered on all labelled logs, and what changed since an earlier dump.

    python -m benchmarks.answers dump BEFORE.json [--cases FOLDER ...] [--match TEXT]
    python -m benchmarks.answers diff BEFORE.json [--cases FOLDER ...] [--match TEXT] [--only causes,stage]

Labelled are the fixtures and the folders of cases: of `diagnose`'s --cases option each, by default ../shared/cases and
../shared/real where they lie beside the checkout. `diff` answers them anew and prints each log whose verdict, causes,
confidence, pool, stage, remedies or fingerprint differ, and how many are right first before and after.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import oomdoctor
from oomdoctor.training.cases import cases_in

ROOT = Path(__file__).parent.parent
BESIDE = (ROOT.parent / "shared" / "cases", ROOT.parent / "shared" / "real")
NO_FAILURE = "not-oom"
FIELDS = ("verdict", "causes", "confidence", "pool", "stage", "remedies", "fingerprint")

Answer = dict[str, Any]


class Log:
    """A labelled log: its files, and the causes that are right first; none where its label leaves it open."""

    def __init__(self, name: str, files: Iterable[Path], right: Iterable[str]) -> None:
        self.name, self.files, self.right = name, [str(file) for file in files], sorted(right)


def logs(folders: Iterable[Path], match: str) -> list[Log]:
    """The fixtures and the cases whose name holds the text."""
    every = [*_fixtures(), *(log for folder in folders for log in _cases(folder))]
    return [log for log in every if match in log.name]


def _fixtures() -> Iterator[Log]:
    for file in sorted(ROOT.glob("fixtures/*/*.log")):
        beside = file.with_suffix(".json")
        cause = json.loads(beside.read_text(encoding="utf-8")).get("cause") if beside.exists() else None
        yield Log(f"{file.parent.name}/{file.stem}", [file], [cause] if cause not in (None, "inconclusive") else [])


def _cases(folder: Path) -> Iterator[Log]:
    for case in cases_in(folder):
        yield Log(case.name, case.logs, case.fair if case.decided else ())


def answer(log: Log) -> tuple[str, Answer]:
    """What matters of the report on a log."""
    body = oomdoctor.diagnose(*log.files).as_json()
    return log.name, {
        "right": log.right,
        "verdict": body["verdict"],
        "incidents": [_incident(incident) for incident in body["incidents"]],
    }


def _incident(incident: Answer) -> Answer:
    shown = incident["diagnoses"]
    return {
        "verdict": incident["verdict"],
        "causes": [one["cause"] for one in shown],
        "confidence": [one["confidence"] for one in shown],
        "pool": [one["pool"] for one in shown],
        "stage": [one["stage"] for one in shown],
        "remedies": [[remedy["knob"] for remedy in one["remedies"]] for one in shown],
        "texts": [[(r["action"], r["snippet"]) for r in one["remedies"]] for one in shown],
        "fingerprint": incident["fingerprint"],
    }


def answers(chosen: list[Log], jobs: int) -> dict[str, Answer]:
    with ProcessPoolExecutor(jobs) as pool:
        return dict(pool.map(answer, chosen, chunksize=8))


def is_right(of: Answer) -> bool | None:
    """Whether the first answer is right; None where the label leaves it open."""
    if not of["right"]:
        return None
    first = of["incidents"][0]["causes"] if of["incidents"] else []
    return (first[0] if first and of["verdict"] != "no-oom" else NO_FAILURE) in of["right"]


def differences(before: Answer, after: Answer, fields: Iterable[str]) -> list[str]:
    """What differs between two answers on one log, a line each."""
    lines = [f"verdict: {before['verdict']} -> {after['verdict']}"] if before["verdict"] != after["verdict"] else []
    if len(before["incidents"]) != len(after["incidents"]):
        return [*lines, f"incidents: {len(before['incidents'])} -> {len(after['incidents'])}"]
    for old, new in zip(before["incidents"], after["incidents"], strict=True):
        lines += [f"{name}: {old[name]} -> {new[name]}" for name in fields if old[name] != new[name]]
    return lines


def compare(before: dict[str, Answer], after: dict[str, Answer], fields: tuple[str, ...]) -> int:
    changed = 0
    turned: Counter[str] = Counter()
    for name in sorted(before.keys() & after.keys()):
        was, now = is_right(before[name]), is_right(after[name])
        lines = differences(before[name], after[name], fields)
        if was != now and now is not None:
            turned["gained" if now else "lost"] += 1
            lines.insert(0, "now right" if now else f"NO LONGER RIGHT, want {' or '.join(after[name]['right'])}")
        if lines:
            changed += 1
            print(f"{name}\n  " + "\n  ".join(lines))
    for name in sorted(before.keys() ^ after.keys()):
        print(f"{name}: only {'before' if name in before else 'now'}")
    rights = [(is_right(before[name]), is_right(after[name])) for name in before.keys() & after.keys()]
    decided = [(was, now) for was, now in rights if was is not None]
    print(
        f"{len(rights)} logs, {changed} differ; right first {sum(bool(was) for was, _ in decided)} -> "
        f"{sum(bool(now) for _, now in decided)} of {len(decided)} ({turned['gained']} gained, {turned['lost']} lost)"
    )
    return changed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.answers", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("dump", "diff"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--cases", type=Path, action="append", help="a folder of cases; may be repeated")
    parser.add_argument("--match", default="", help="only logs with this in their name")
    parser.add_argument("--only", default=",".join(FIELDS), help=f"what to compare, of {', '.join((*FIELDS, 'texts'))}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    folders = options.cases or [folder for folder in BESIDE if folder.is_dir()]
    now = answers(logs(folders, options.match), options.jobs)
    if options.what == "dump":
        options.file.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
        return 0
    before = json.loads(options.file.read_text(encoding="utf-8"))
    before = {name: one for name, one in before.items() if options.match in name}
    now = json.loads(json.dumps(now))
    return 1 if compare(before, now, tuple(options.only.split(","))) else 0


if __name__ == "__main__":
    sys.exit(main())
