"""How well a wording that no version prints is still understood: the fixtures with their failure's line changed.

    python -m benchmarks.mutated [--each 3] [--json] [--show]

Of every fixture with a memory failure, the line of one root message is changed: a word is swapped for one of a like
meaning (or, where we know none, for a word without one), a word is left out, or a clause is put in. Right is what
gives the first cause of the unchanged fixture. "Rules alone" reads the same logs with the grammars and the rules,
without the reader of unknown words and without the classifier. The same seed gives the same changes.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from oomdoctor import families, street
from oomdoctor.decision.judgement import Finding, judgements
from oomdoctor.families import unfamiliar
from oomdoctor.street import Facts

FIXTURES = Path(__file__).parent.parent / "fixtures"
SEED = 7
CLAUSES = (" once more", " (see the notes)", " in this run", ", as seen by the runtime,", " [code 17]")
LIKE = {
    "allocate": ("reserve", "obtain", "get"), "allocated": ("reserved", "obtained"), "allocating": ("reserving",),
    "allocation": ("reservation", "request"), "alloc": ("malloc",), "memory": ("mem", "RAM", "storage"),
    "cannot": ("could not", "can not"), "failed": ("was unable", "did not manage"), "fail": ("break",),
    "unable": ("not able",), "tried": ("attempted", "wanted"), "trying": ("attempting",), "out": ("short",),
    "exceeds": ("is above", "is over"), "exceed": ("go over",), "exceeded": ("passed",), "killed": ("ended", "stopped"),
    "available": ("free", "left"), "free": ("available", "unused"), "total": ("overall",), "capacity": ("size",),
    "requested": ("wanted",), "required": ("needed",), "needs": ("requires",), "needed": ("required",),
    "size": ("amount",), "buffer": ("block",), "device": ("card",), "error": ("problem",), "enough": ("sufficient",),
    "insufficient": ("too little",), "larger": ("bigger",), "limit": ("bound", "cap"), "node": ("host", "machine"),
    "process": ("program", "task"), "worker": ("process",), "space": ("room",), "full": ("exhausted",),
    "low": ("short",), "running": ("getting",), "loading": ("reading",), "model": ("network",),
    "terminated": ("ended",),
    "exhausted": ("used up",), "resource": ("resources",), "resources": ("resource",), "reserved": ("kept",),
    "task": ("job",), "usage": ("use",), "used": ("in use", "taken"), "threshold": ("limit",), "cache": ("store",),
    "while": ("when",), "because": ("as", "since"), "during": ("in",), "exit": ("end",), "died": ("ended",),
}  # fmt: skip
KINDS = ("swapped", "left out", "clause")
NO_OOM = "not-oom"
NO_WORD = ("frobbed", "quux", "lorem", "blip")


@dataclass(frozen=True)
class Changed:
    fixture: str
    kind: str
    line: str
    text: str
    label: str


def changed(each: int) -> Iterator[Changed]:
    for log in sorted(FIXTURES.glob("*/*.log")):
        beside = log.with_suffix(".json")
        known = json.loads(beside.read_text(encoding="utf-8")) if beside.exists() else {}
        roots = [event["line"] for event in known.get("events", ()) if event["role"] == "root"]
        if not roots or known.get("cause") in (None, NO_OOM, "inconclusive"):
            continue
        text = log.read_bytes().decode("utf-8", "replace")
        for number in range(each):
            dice = random.Random(f"{SEED} {log.parent.name}/{log.stem} {number}")
            made = _changed(text, dice.choice(roots), dice)
            if made is not None:
                yield Changed(f"{log.parent.name}/{log.stem}", *made, known["cause"])


def _changed(text: str, line: int, dice: random.Random) -> tuple[str, str, str] | None:
    lines = text.split("\n")
    words = list(re.finditer(r"(?<![\w./_-])[A-Za-z][a-z]{2,}(?![\w./_-])", lines[line - 1]))
    if not words:
        return None
    word = dice.choice(words)
    kind = dice.choice(KINDS)
    if kind == "swapped":
        new = dice.choice(LIKE.get(word[0].lower(), NO_WORD))
    else:
        new = "" if kind == "left out" else word[0] + dice.choice(CLAUSES)
    was = lines[line - 1]
    lines[line - 1] = was[: word.start()] + new + was[word.end() :]
    return kind, lines[line - 1], "\n".join(lines)


def answer(one: Changed) -> str:
    """The first cause that is said."""
    report = street.report_of(_facts(one.text))
    if not report.incidents:
        return NO_OOM
    return next((diagnosis.cause for diagnosis in report.incidents[0].diagnoses), "nothing")


def by_rules(one: Changed) -> str:
    """The first cause that the rules say; `only_grammars` has to be called before."""
    facts = _facts(one.text)
    if not facts.crashes:
        return NO_OOM
    said = [
        (cause.id, judgement) for cause, judgement in judgements(facts.crashes[0]) if isinstance(judgement, Finding)
    ]
    return max(said, key=lambda pair: pair[1].grade or 0, default=("nothing", None))[0]


def only_grammars() -> None:
    """From now on no word is read that no family knows."""
    unfamiliar.FAMILY = replace(unfamiliar.FAMILY, read=lambda _page, _index: ())
    families.families.cache_clear()


def _facts(text: str) -> Facts:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "job.log"
        log.write_text(text, encoding="utf-8")
        return street.facts_of(*street.gather([str(log)]))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--each", type=int, default=3, help="changes of each fixture")
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--show", action="store_true", help="each that went wrong")
    given = arguments.parse_args()
    logs = list(changed(given.each))
    together = [answer(one) for one in logs]
    only_grammars()
    rules = [by_rules(one) for one in logs]
    if given.show:
        for one, said in zip(logs, together, strict=True):
            if said != one.label:
                print(f"{one.fixture} ({one.kind}): {one.label} -> {said}\n    {one.line.strip()[:300]}")
    table = {kind: _row(logs, together, rules, kind) for kind in ("all", *KINDS)}
    if given.json:
        print(json.dumps(table, indent=1))
        return
    for kind, row in table.items():
        print(
            f"{kind:>9}: {row['logs']} logs, right together {row['together']:.1%}, rules alone {row['rules alone']:.1%}"
        )


def _row(logs: Sequence[Changed], together: Sequence[str], rules: Sequence[str], kind: str) -> dict[str, float]:
    picked = [n for n, one in enumerate(logs) if kind in ("all", one.kind)]

    def right(said: Sequence[str]) -> float:
        return round(sum(said[n] == logs[n].label for n in picked) / len(picked), 3)

    return {"logs": len(picked), "together": right(together), "rules alone": right(rules)}


if __name__ == "__main__":
    main()
