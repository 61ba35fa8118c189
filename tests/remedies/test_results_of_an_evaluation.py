"""What an evaluation keeps in host memory: numbers instead of tensors, thresholds instead of every score."""

from __future__ import annotations

from remedy_logs import advise

KILLED = "run.sh: line 3:    71 Killed                  python -u rate.py --batch_size 16\nexit code: 137"
PRINTS = "\n".join(f"validation batch {10 * at}/90 rss {700 + 60 * at} MB" for at in range(6))
KNOBS = ("smaller-buffers", "clear-references")


def test_tensors_become_numbers() -> None:
    chosen, _ = advise(f"{PRINTS}\n{KILLED}", *KNOBS, cause="eval-accumulation")
    assert chosen["smaller-buffers"].snippet == "predictions.append(logits.argmax(dim=-1))"
    assert chosen["clear-references"].action == "Keep numbers of each batch (counts, sums), not its tensors"


def test_a_curve_takes_thresholds_where_one_is_in_the_log() -> None:
    curve = "| 1 | roc | BinaryROC | 0 | train |\n"
    chosen, _ = advise(f"{curve}{PRINTS}\n{KILLED}", *KNOBS, cause="eval-accumulation")
    assert chosen["smaller-buffers"].snippet == "BinaryROC(..., thresholds=200)"
