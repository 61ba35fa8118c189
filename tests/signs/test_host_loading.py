from __future__ import annotations

import pytest
from gpu_logs import crash

from oomdoctor.signs import host_loading

BAR = "Loading checkpoint shards:  {}%|######    | {}/5 [00:09<00:06,  3.01s/it]"
REFUSED = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:117] data. DefaultCPUAllocator: not enough memory: you tried "
    "to allocate 20401094656 bytes."
)


@pytest.mark.parametrize(("done", "in_the_middle"), [(4, True), (5, False)])
def test_a_bar_at_its_end_is_no_loading_under_way(done: int, in_the_middle: bool) -> None:
    killed = crash(BAR.format(done * 20, done) + "Killed")
    assert (host_loading.killed_in_the_middle_of_loading(killed) is not None) == in_the_middle
    assert host_loading.killed_behind_the_loading(killed) is not None


def test_a_kill_at_a_later_step_is_none_behind_the_loading() -> None:
    later = "Saving model checkpoint to /ckpt/step_20"
    assert host_loading.killed_behind_the_loading(crash(BAR.format(100, 5), later, "Killed")) is None


def test_a_refusal_in_no_traceback_is_none_while_loading() -> None:
    assert host_loading.refused_while_loading_weights(crash(REFUSED)) is None


def test_ollamas_sum_of_what_the_host_needs() -> None:
    line = "model requires more system memory (5.6 GiB) than is available (3.2 GiB)"
    assert host_loading.more_of_the_model_than_the_host_has(crash(f"Error: {line}")) is not None
    assert host_loading.more_of_the_model_than_the_host_has(crash(REFUSED)) is None


@pytest.mark.parametrize(("function", "is_loading"), [("_create_inference_session", True), ("run", False)])
def test_a_refusal_while_a_model_is_loaded(function: str, is_loading: bool) -> None:
    frame = f'  File "/srv/onnxruntime/capi/onnxruntime_inference_collection.py", line 5, in {function}'
    lines = ("Traceback (most recent call last):", frame, "    sess.start(x)", "RuntimeError: std::bad_alloc")
    assert (host_loading.refused_at_the_time_of_loading(crash(*lines)) is not None) is is_loading
