"""A remedy names what to change: an option, a line, a command, a process or a model."""

from __future__ import annotations

import pytest
from remedy_logs import advise, crashes_of, cuda

from oomdoctor.remedies.backfill import enough_remedies

TABLE = (
    "Memory on the node (IP: 10.0.0.1, ID: ab) where the task (actor ID: 1, name=Keep, pid=7, memory "
    "used=9.00GB) was running was 30.00GB / 31.00GB (0.967742), which exceeds the memory usage threshold of 0.95. "
    "Ray killed this worker (ID: cd) because it was the most recently scheduled task.\n"
    "Top 10 memory users:\nPID\tMEM(GB)\tCOMMAND\n4711\t21.00\tray::Keep.hold\n7\t2.00\tray::Other.go\n"
)
BATCH = "smaller-microbatch"
TORCH = 'File "/x/fit.py", line 3, in fit\n    loss = model(x)\n'


def test_the_process_that_held_most_is_named_where_no_option_is() -> None:
    (crash,) = crashes_of(TABLE)
    (remedy,) = (
        one
        for one in enough_remedies("process-ram-hog", ["clear-references"], crash)[0]
        if one.knob == "clear-references"
    )
    assert remedy.subject is not None
    assert remedy.action.endswith("; Keep (PID 4711) held 21.00 GiB")
    assert "PID 7)" not in remedy.action, "the victim"


def test_a_process_is_not_named_beside_an_option() -> None:
    chosen, _ = advise("vllm serve m --swap-space 16\n" + TABLE, "less-swap-space", "fewer-workers")
    assert all(one.subject is None for one in chosen.values() if one.snippet)


@pytest.mark.parametrize(
    ("launch", "value"),
    [
        ("python fit.py --batch_size 8", "--batch_size 4"),
        ("python fit.py\nfor x, y in DataLoader(data):", "batch_size=1"),
        ("python fit.py\nepoch 1 batch_size unknown", "batch_size=1"),
        ("python fit.py", None),
        ("python webui.py\nbatch 3 of 7 done", None),
    ],
)
def test_a_batch_is_spelled_where_the_log_shows_who_takes_it(launch: str, value: str | None) -> None:
    log = f"{launch}\ntorch.OutOfMemoryError: " + cuda()
    remedy = advise(log, BATCH)[0][BATCH]
    assert remedy.snippet == value


def test_without_a_library_no_line_of_one_is_given() -> None:
    log = "step 3 loss 1.2\nERROR device memory exhausted: 2.00 GiB asked for, 1.00 GiB free\n"
    chosen, _ = advise(log, BATCH, "gradient-checkpointing", "mixed-precision")
    assert not any("torch" in (one.snippet or "") for one in chosen.values())


def test_what_names_nothing_falls_away_where_enough_is_named() -> None:
    log = "python fit.py --batch_size 8\n  " + TORCH + "torch.OutOfMemoryError: " + cuda()
    (crash,) = crashes_of(log)
    named = ["smaller-microbatch", "gradient-checkpointing", "mixed-precision"]
    kept = [one.knob for one in enough_remedies("activations", ["more-gpus", *named], crash)[0]]
    assert kept == named
    kept = [one.knob for one in enough_remedies("activations", ["more-gpus", *named[:2]], crash)[0]]
    assert kept[:3] == [*named[:2], "more-gpus"]


def test_evidence_is_last_whatever_it_names() -> None:
    (crash,) = crashes_of(TORCH + cuda())
    knobs = ["collect-evidence", "more-gpus", BATCH]
    kept = [one.knob for one in enough_remedies("gpu-memory-exhausted", knobs, crash)[0]]
    assert kept[-1] == "collect-evidence"


def test_the_model_is_the_object_of_a_smaller_one() -> None:
    log = "vllm serve acme/Chat-70B\nINFO vLLM API server version 0.9.1\n" + cuda()
    remedy = advise(log, "smaller-model")[0]["smaller-model"]
    assert remedy.subject == "acme/Chat-70B"
    assert remedy.subject in remedy.action


def test_a_quantization_that_is_on_is_not_advised() -> None:
    log = "vllm serve m --quantization {}\nINFO vLLM API server version 0.9.1\n" + cuda()
    chosen, rejected = advise(log.format("fp8"), "quantize-weights")
    assert not chosen
    assert "already" in rejected["quantize-weights"].why
    assert advise(log.format("None"), "quantize-weights")[0]["quantize-weights"].snippet == "--quantization fp8"
    script = "python serve.py --quantization {}\ntorch.OutOfMemoryError: " + cuda()
    assert not advise(script.format("awq"), "quantize-weights")[0]
    assert advise(script.format("none"), "quantize-weights")[0]
