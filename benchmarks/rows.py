"""The labelled cases of a folder as rows of signs and labels, without a word of their logs.

    python -m benchmarks.rows ../shared/cases [FOLDER ...]

Writes fixtures/cases.jsonl anew, which `oomdoctor train` learns from in a checkout: a line for each case with a crash,
with its id, its project, its label, what each table said of it (grade and signs) and its features but for words.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from oomdoctor.training.cases import Case, cases_in
from oomdoctor.training.examples import ROWS, of_case


def row(case: Case) -> str | None:
    example = of_case(case)
    return json.dumps(example.as_row(), separators=(",", ":")) if example is not None else None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rows", description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    cases = [case for folder in parser.parse_args().folders for case in cases_in(folder)]
    with ProcessPoolExecutor() as pool:
        lines = [line for line in pool.map(row, cases, chunksize=8) if line is not None]
    ROWS.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{len(lines)} of {len(cases)} cases have a crash: {ROWS}")


if __name__ == "__main__":
    main()
