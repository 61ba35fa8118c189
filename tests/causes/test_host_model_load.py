from __future__ import annotations

from system_logs import crash_of

from oomdoctor.causes.host_model_load import CAUSE
from oomdoctor.decision.judgement import Finding, judgement_of
from oomdoctor.signs import Grade

SHARDS = "Loading checkpoint shards:  60%|######    | 3/5 [00:09<00:06,  3.01s/it]"
RECORD = (
    "Out of memory: Killed process 71 (python) total-vm:90000000kB, anon-rss:54525952kB, file-rss:0kB, shmem-rss:0kB\n"
)


def test_a_kill_in_training_is_not_loading() -> None:
    assert judgement_of(CAUSE, crash_of("step 10 loss 0.5\nstep 11 loss 0.4\nKilled\n")) is None


def test_the_kernels_record_alone_does_not_say_what_was_done() -> None:
    assert judgement_of(CAUSE, crash_of(RECORD)) is None


def test_a_refusal_elsewhere_is_not_loading() -> None:
    assert (
        judgement_of(CAUSE, crash_of('  File "/home/u/prep.py", line 3, in tokenize\n    x = y\nMemoryError\n')) is None
    )


def test_a_kill_some_lines_after_loading_is_a_hint() -> None:
    judgement = judgement_of(CAUSE, crash_of(SHARDS.replace("60%", "100%") + "\nprompt:\nKilled\n"))
    assert isinstance(judgement, Finding)
    assert judgement.grade is Grade.HINTS


def test_a_kill_in_the_middle_of_the_bar_is_reason_enough() -> None:
    judgement = judgement_of(CAUSE, crash_of(SHARDS + "Killed\n"))
    assert isinstance(judgement, Finding)
    assert judgement.grade is Grade.POINTS
    assert judgement.stage == "model_load"


def test_with_the_kernels_record_it_is_more() -> None:
    judgement = judgement_of(CAUSE, crash_of(SHARDS + "Killed\n\n" + RECORD))
    assert isinstance(judgement, Finding)
    assert judgement.grade is Grade.PROVES
    assert "python (PID 71), which held 52.00 GiB" in judgement.why


def test_a_refusal_in_from_pretrained() -> None:
    judgement = judgement_of(
        CAUSE,
        crash_of(
            "Traceback (most recent call last):\n"
            '  File "/opt/transformers/modeling_utils.py", line 4000, in from_pretrained\n'
            "    state_dict = load_state_dict(file)\n"
            "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: "
            "you tried to allocate 1073741824 bytes. Error code 12 (Cannot allocate memory)\n"
        ),
    )
    assert isinstance(judgement, Finding)
    assert "from_pretrained" in judgement.why
    assert "1.00 GiB" in judgement.why
