"""A record that somebody forged, or that a disk or a copy damaged: no error, and no figure that nobody can print."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import oomdoctor
from oomdoctor.report import as_json, text

RECORDS = sorted((Path(__file__).parent.parent.parent / "fixtures" / "flight_record").glob("*.log"))
ODD: tuple[object, ...] = (
    -1,
    0,
    10**30,
    2**63,
    1e308,
    -0.5,
    None,
    "",
    "\x1b[2J",
    "../../etc/passwd",
    [],
    {},
    True,
    "9" * 5000,
)


def _paths(entry: object, at: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    inner = entry.items() if isinstance(entry, dict) else enumerate(entry) if isinstance(entry, list) else ()
    return [path for key, value in inner for path in [(*at, key), *_paths(value, (*at, key))]]


def _with(entry: object, path: tuple[object, ...], value: object) -> str:
    changed = json.loads(json.dumps(entry))
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return json.dumps(changed, separators=(",", ":"))


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(n, marks=pytest.mark.slow) for n in range(6, 150))])
def test_no_figure_of_a_record_breaks_a_report(seed: int, tmp_path: Path) -> None:
    choice = random.Random(seed)
    record = choice.choice([path for path in RECORDS if "flight" in path.read_text()[:12] or path.stat().st_size > 900])
    lines = record.read_text().splitlines()
    for _ in range(choice.randint(1, 4)):
        at = choice.choice([0, len(lines) - 1, len(lines) - 2, choice.randrange(len(lines))])
        try:
            entry = json.loads(lines[at])
        except ValueError:
            continue
        if paths := _paths(entry):
            lines[at] = _with(entry, choice.choice(paths), choice.choice(ODD))
    path = tmp_path / "flight.jsonl"
    path.write_text("\n".join(lines)[: choice.choice([None, choice.randrange(1, 4000)])])
    report = oomdoctor.diagnose(path)
    assert json.loads(as_json.document(report))["verdict"] in ("oom", "no-oom", "inconclusive")
    assert "\x1b" not in text.rendered(report, width=100, color=False, unicode=False, verbose=True)
