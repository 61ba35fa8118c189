"""What the figures stand beside: a keyword grep and a bag of words, against the rules, on the same labelled logs.

    python -m benchmarks.baseline [--cases FOLDER] [--json]

Without a folder: this project's fixtures, each labelled with its cause in the JSON beside it; the bag of words (TF-IDF
and logistic regression) is cross-validated over them. The rules are not: the tests hold them to these labels. With a
folder of labelled cases (each a folder with case.json and log.txt) all three answer for these, and the bag of words is
trained on the fixtures. Needs the extra `train`.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline

import oomdoctor

FIXTURES = Path(__file__).parent.parent / "fixtures"
NO_OOM = "not-oom"
FOLDS = 5
LEAST = 5  # logs of a cause, for it to count in the macro average

# What somebody greps for, and what they take it for; the first that matches is the answer.
KEYWORDS: tuple[tuple[str, str], ...] = (
    (r"cannot be scheduled right now|No available node types", "ray-unschedulable"),
    (r"ObjectStoreFullError|object store is full", "object-store-full"),
    (r"No available memory for the cache blocks", "kv-cache-no-room"),
    (r"larger than the maximum number of tokens|model's max seq len", "max-model-len-too-long"),
    (r"expandable_segments|max_split_size_mb|fragmentation", "allocator-fragmentation"),
    (r"CUDA out of memory|OutOfMemoryError: CUDA|HIP out of memory", "gpu-memory-exhausted"),
    (r"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_NOT_INITIALIZED|NCCL.*out of memory", "non-torch-memory"),
    (r"Bus error|shared memory|/dev/shm", "shm-too-small"),
    (r"OOMKilled|oom-kill event|oom_kill event|Memory cgroup out of memory", "container-limit"),
    (r"running low on memory|Out of memory: Kill|MemoryError|bad_alloc|DefaultCPUAllocator", "host-memory-exhausted"),
    (r"SIGKILL|exitcode: -9|exit code:? 137|\bKilled\b", "killed-without-evidence"),
    (r"(?i)out of memory|\boom\b", "gpu-memory-exhausted"),
)  # fmt: skip


@dataclass(frozen=True)
class Labelled:
    name: str
    text: str
    logs: tuple[Path, ...]
    fair: frozenset[str]  # the label first of all, and other answers that are right as well
    label: str

    @property
    def is_failure(self) -> bool:
        return self.label != NO_OOM


def fixtures() -> list[Labelled]:
    found = []
    for log in sorted(FIXTURES.glob("*/*.log")):
        beside = log.with_suffix(".json")
        cause = json.loads(beside.read_text(encoding="utf-8")).get("cause") if beside.exists() else None
        if cause is not None:
            found.append(_labelled(f"{log.parent.name}/{log.stem}", (log,), cause, ()))
    return found


def cases(folder: Path) -> list[Labelled]:
    found = []
    for path in sorted(folder.glob("*/case.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        inputs = [path.parent / name for name in case.get("inputs", ["log.txt"])]
        logs = tuple(log for given in inputs for log in (sorted(given.rglob("*")) if given.is_dir() else [given]))
        found.append(_labelled(path.parent.name, logs, case["root_cause"], case.get("also_acceptable", ())))
    return found


def _labelled(name: str, logs: tuple[Path, ...], cause: str, others: Iterable[str]) -> Labelled:
    text = "\n".join(log.read_text(encoding="utf-8", errors="replace") for log in logs if log.is_file())
    return Labelled(name, text, logs, frozenset({cause, *others}), cause)


def by_keyword(logs: Sequence[Labelled]) -> list[str]:
    return [next((c for pattern, c in KEYWORDS if re.search(pattern, one.text)), NO_OOM) for one in logs]


def by_rules(logs: Sequence[Labelled]) -> list[str]:
    answers = []
    for one in logs:
        report = oomdoctor.diagnose(*one.logs).as_json()
        answers.append(report["diagnoses"][0]["cause"] if report["diagnoses"] else NO_OOM)
    return answers


def _words(text: str) -> str:
    """Numbers and ids say nothing about the next log."""
    return re.sub(r"0x[0-9a-f]+|\b[0-9a-f]{8,}\b|\d+(?:\.\d+)?", "0", text[-20_000:])


def _bag() -> Any:
    return make_pipeline(
        TfidfVectorizer(preprocessor=_words, ngram_range=(1, 2), sublinear_tf=True, max_features=50_000),
        LogisticRegression(C=10.0, max_iter=2000, class_weight="balanced"),
    )


def by_words_held_back(logs: Sequence[Labelled]) -> list[str]:
    """Each fifth of the logs is answered by a model that has seen the other four."""
    folds = KFold(FOLDS, shuffle=True, random_state=0)
    answers = cross_val_predict(_bag(), [one.text for one in logs], [one.label for one in logs], cv=folds)
    return [str(answer) for answer in answers]


def by_words(logs: Sequence[Labelled]) -> list[str]:
    known = fixtures()
    model = _bag().fit([one.text for one in known], [one.label for one in known])
    return [str(answer) for answer in model.predict([one.text for one in logs])]


def figures(logs: Sequence[Labelled], answers: Sequence[str]) -> dict[str, float]:
    pairs = list(zip(logs, answers, strict=True))
    failures = [(one, answer) for one, answer in pairs if one.is_failure]
    healthy = [(one, answer) for one, answer in pairs if not one.is_failure]
    return {
        "detected": _share(answer != NO_OOM or NO_OOM in one.fair for one, answer in failures),
        "quiet": _share(answer in one.fair for one, answer in healthy),
        "right": _share(answer in one.fair for one, answer in failures),
        "macro_f1": _macro_f1(failures),
    }


def _share(right: Iterable[bool]) -> float:
    told = list(right)
    return sum(told) / len(told) if told else float("nan")


def _macro_f1(pairs: Sequence[tuple[Labelled, str]]) -> float:
    labels = Counter(one.label for one, _ in pairs)
    answers = [(one.label, one.label if answer in one.fair else answer) for one, answer in pairs]
    scores = []
    for label in (label for label, count in labels.items() if count >= LEAST):
        hit = sum(want == got == label for want, got in answers)
        scores.append(2 * hit / (labels[label] + sum(got == label for _, got in answers)))
    return sum(scores) / len(scores) if scores else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=Path, help="a folder of labelled cases instead of the fixtures")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    logs = cases(args.cases) if args.cases else fixtures()
    words = by_words if args.cases else by_words_held_back
    ways: dict[str, Callable[[Sequence[Labelled]], list[str]]] = {
        "keyword grep": by_keyword,
        "TF-IDF + logistic regression": words,
        **({"oomdoctor": by_rules} if args.cases else {}),
    }
    table = {name: figures(logs, answer(logs)) for name, answer in ways.items()}
    if args.json:
        print(json.dumps({"logs": len(logs), "ways": table}, indent=1))
        return
    print(f"{len(logs)} logs, {sum(one.is_failure for one in logs)} of them of a memory failure")
    for name, row in table.items():
        print(f"{name:>30}  " + "  ".join(f"{what} {value:6.1%}" for what, value in row.items()))


if __name__ == "__main__":
    main()
