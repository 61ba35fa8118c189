"""What a bare "Killed" stands below: the command that ran, and what had ended or was counted last."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_logs import crash

import oomdoctor
from oomdoctor.signs.above_a_kill import before_its_first_step, last_done, the_weights_were_ready
from oomdoctor.signs.kills import as_reported

COMMAND = "python -m weave.fit --dataset loom --batch-size 24 --epochs 9"
BAR = "100%|##########| 41200/41200 [00:31<00:00, 1310.22it/s]"
BUILT = "[02/03/2031-04:05:06] [TRT] [I] Engine generation completed in 7.25 seconds."
CONVERTED = "Total time of reading and converting 41.5 s"
QUANTIZED = "Quantization done. Total time used: 61.25s"


@pytest.mark.parametrize(
    ("lines", "said", "batches"),
    [
        ((COMMAND, BAR), "after its progress bar ended at 41200/41200", False),
        ((COMMAND, BAR, "", "labels", "[]"), "after its progress bar ended at 41200/41200", False),
        ((COMMAND, CONVERTED), "after the weights were converted", False),
        ((COMMAND, QUANTIZED), "after the weights were quantized", False),
        ((BUILT, "[TRT] [I] Peak memory usage of the allocators: CPU 3 MiB"), "after the engine was built", False),
        ((COMMAND, BAR, "iter 72: total 0.31, instances: 4"), "after iter 72", True),
        ((COMMAND, "Epoch: [3] acc 0.5"), "after epoch 3", True),
        ((COMMAND, "global_step=500 lr 0.1"), "after global_step 500", True),
        ((COMMAND, "Fit 100%|####| 500/500 [00:10<00:00, loss=0.4]"), "after its progress bar ended at 500/500", True),
        ((COMMAND, "mean_loss 0.4", BAR), "after its progress bar ended at 41200/41200", True),
        ((COMMAND, " 99%|#########9| 41199/41200 [00:31<00:00]"), None, True),
        ((COMMAND, "100% of 41200/41300 read"), None, True),
        ((COMMAND, "step 0.5 of the grid"), None, True),
        ((COMMAND, "  Num update steps per epoch = 32"), None, True),
        ((COMMAND, "Batches per epoch: 128, per step 4"), None, True),
        ((COMMAND, "n_step 5", "multistep: 4"), None, True),
        ((COMMAND,), None, True),
        ((BAR, *["a word"] * 12), None, True),
    ],
)
def test_what_had_ended_before_a_kill(lines: tuple[str, ...], said: str | None, batches: bool) -> None:
    died = crash(*lines, "Killed")
    done = last_done(died)
    assert (done.words if done is not None else None) == said
    assert (before_its_first_step(died) is None) is batches
    assert (the_weights_were_ready(died) is not None) is not {CONVERTED, QUANTIZED}.isdisjoint(lines)


def test_what_is_known_to_be_under_way_needs_nothing_that_ended() -> None:
    assert last_done(crash(BAR, "Saving the checkpoint to /srv/loom", "Killed")) is None
    assert last_done(crash(BAR, "run.sh: line 2: 71 Bus error python fit.py")) is None


@pytest.mark.parametrize(
    ("lines", "who"),
    [
        ((COMMAND, BAR, "Killed"), "python -m weave.fit"),
        (("me@box:~/loom# python3 src/fit.py --lr 1", "Killed"), "python3 fit.py"),
        (("python3 ${LOOM_SCRIPT} --dir ${LOOM}", "Killed"), "python3 ${LOOM_SCRIPT}"),
        (("python3 ${LOOM} --dir ${LOOM}", "Killed"), "python3"),
        (("python old.py", "python new.py", "Killed"), "python new.py"),
        (("Killed", COMMAND), "A process"),  # what ran next
        ((COMMAND, "run.sh: line 1: 9 Killed    torchrun fit.py"), "torchrun fit.py (PID 9)"),
        ((COMMAND, "make: *** [Makefile:3: train] Killed"), "A process"),
        (("the python of the loom", "Killed"), "A process"),
    ],
)
def test_a_bare_word_is_of_the_command_above_it(lines: tuple[str, ...], who: str) -> None:
    assert as_reported(crash(*lines).root) == who  # type: ignore[arg-type]


def test_a_batch_is_halved_where_there_was_one(tmp_path: Path) -> None:
    def knobs(*lines: str) -> set[str]:
        log = tmp_path / "fit.log"
        log.write_text("\n".join((COMMAND, *lines, "Killed", "")), encoding="utf-8")
        report = oomdoctor.diagnose(log).as_json()
        assert report["verdict"] == "inconclusive"
        return {one["knob"] for one in report["diagnoses"][0]["remedies"]}

    assert "smaller-microbatch" in knobs(BAR, "iter 72: total 0.31")
    assert "smaller-microbatch" not in knobs(BAR)
    assert "stream-data" in knobs(BAR)
    assert "low-memory-loading" not in knobs(BAR)


TOO_LONG = (
    "Token indices sequence length is longer than the specified maximum sequence length for this model (704 > 512). "
    "Running this sequence through the model will result in indexing errors"
)


@pytest.mark.parametrize(
    ("lines", "streams"),
    [
        ((TOO_LONG,), True),
        ((COMMAND, TOO_LONG), True),
        ((TOO_LONG, "step 3 loss 0.41"), False),
        ((TOO_LONG, "generating answer 12 of 40"), False),
        (("The sequence is longer than the maximum",), False),
    ],
)
def test_texts_that_were_tokenized_stay_in_memory(tmp_path: Path, lines: tuple[str, ...], *, streams: bool) -> None:
    log = tmp_path / "fit.log"
    log.write_text("\n".join((*lines, "Killed", "")), encoding="utf-8")
    report = oomdoctor.diagnose(log).as_json()
    assert report["verdict"] == "inconclusive"
    assert ("stream-data" in {one["knob"] for one in report["diagnoses"][0]["remedies"]}) is streams
