"""The labelled cases of a folder as rows of signs and labels, without a word of their logs.

    python -m benchmarks.rows ../shared/cases [FOLDER ...]

Writes fixtures/cases.jsonl anew, which `oomdoctor train` learns from in a checkout: a line for each case with a crash,
with its id, its project, its label, what each table said of it (grade and signs) and its features but for words.

    python -m benchmarks.rows --first FOLDER [FOLDER ...]

Adds the rows of cases that nobody has looked at yet to fixtures/first_readings.jsonl. They are what the tables said on
that day, and tell how often answers are right: they are never written anew. The latest stand last, and count.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from oomdoctor.training.cases import Case, cases_in
from oomdoctor.training.examples import FIRST_READINGS, ROWS, of_case


def row(case: Case) -> str | None:
    example = of_case(case)
    return json.dumps(example.as_row(), separators=(",", ":")) if example is not None else None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rows", description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--first", action="store_true", help="add them as first readings")
    options = parser.parse_args()
    cases = [case for folder in options.folders for case in cases_in(folder)]
    with ProcessPoolExecutor() as pool:
        lines = [line for line in pool.map(row, cases, chunksize=8) if line is not None]
    path = FIRST_READINGS if options.first else ROWS
    with path.open("a" if options.first else "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    print(f"{len(lines)} of {len(cases)} cases have a crash: {path}")


if __name__ == "__main__":
    main()
