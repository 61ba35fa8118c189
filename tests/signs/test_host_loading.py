from __future__ import annotations

import pytest
from gpu_logs import crash

from oomdoctor.signs import host_loading
from oomdoctor.signs.host_engines import an_engine_computes_on_the_host

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


WALK = tuple(f"enc.{n}.mlp.fc1.weight, 2 dims, bfloat16 -> float16" for n in range(3))


@pytest.mark.parametrize(
    ("lines", "is_loading"),
    [
        (WALK, True),
        (("step 7 took 3 s", *WALK), True),
        (WALK[:2], False),  # a line may name a tensor for many reasons
        ((*WALK[:2], "step 7 took 3 s"), False),
        (("saved run.3.log", "saved run.4.log", "saved run.5.log"), False),
        (tuple(f"grad norm of body weight {n}" for n in range(3)), False),
    ],
)
def test_a_kill_on_the_way_from_tensor_to_tensor(lines: tuple[str, ...], is_loading: bool) -> None:
    assert (host_loading.killed_behind_the_loading(crash(*lines, "Killed")) is not None) is is_loading


@pytest.mark.parametrize(
    ("line", "is_loading"),
    [
        ('level=ERROR msg="error loading llama server" error="llama runner process has terminated: signal: killed"', 1),
        ('level=ERROR msg="predict failed" error="llama runner process has terminated: signal: killed"', 0),
    ],
)
def test_a_message_that_names_the_loading_itself(line: str, is_loading: int) -> None:
    assert (host_loading.killed_behind_the_loading(crash(line)) is not None) is bool(is_loading)


UNIT = "Mar 03 09:00:00 box systemd[1]: llm.service: A process of this unit has been killed by the OOM killer."


@pytest.mark.parametrize(
    ("before", "is_loading"),
    [
        ("load_tensors: loading model tensors, this can take a while... (mmap = false)", True),
        ("Loading weights from /models/base", True),
        ("listening on 0.0.0.0:8000", False),
        ("", False),
    ],
)
def test_a_unit_that_was_killed_while_it_loaded(before: str, is_loading: bool) -> None:
    assert (host_loading.a_unit_was_killed_while_loading_weights(crash(before, UNIT)) is not None) is is_loading


MODELS = tuple(f"Loading checkpoint runs/{name}.pt ({n}20 MiB)" for n, name in enumerate(("ada", "bea", "cid"), 1))


@pytest.mark.parametrize(
    ("lines", "are_several"),
    [
        (MODELS, True),
        (tuple(f"loaded fold {n} of 5 from fold-{n}.onnx" for n in range(3)), True),
        (MODELS[:2], False),
        ((MODELS[0],) * 3, False),  # one, said three times
        ((*MODELS, "evaluating 400 images"), False),  # they were all there, and it went on
        (tuple(f"Loading weights from part {n}-of-7.safetensors" for n in range(3)), False),  # shards of one
        (tuple(f"loading optimizer state {n}.pt" for n in range(3)), False),
        (tuple(f"Loading table {n}.parquet" for n in range(3)), False),
    ],
)
def test_models_that_are_kept_one_beside_the_other(lines: tuple[str, ...], are_several: bool) -> None:
    assert (host_loading.several_models_were_loaded(crash(*lines, "Killed")) is not None) is are_several


@pytest.mark.parametrize(
    ("behind", "is_loading"),
    [
        ("system_info: n_threads = 4 / 8 | AVX = 1", False),
        ("generate: n_ctx = 512, n_batch = 8", False),
        ("INFO:     Application startup complete.", False),
        ("llm_load_tensors: offloading 0 layers", True),
        ("warming up the tokenizer", True),
    ],
)
def test_a_model_that_is_at_work_is_loaded(behind: str, is_loading: bool) -> None:
    killed = crash("llama_model_load: loading tensors from 'm.gguf'", behind, "Killed")
    assert (host_loading.killed_behind_the_loading(killed) is not None) is is_loading


LOADS = "[09-02 08:11:20] Loading model from 2 safetensors files: ['/m/a-00001-of-00002.safetensors']"
SERVES = "[09-02 08:12:30] Decode batch. #running-req: 3, #token: 812, token usage: 0.04, gen throughput (token/s): 61"


@pytest.mark.parametrize(("last", "is_loading"), [(LOADS, True), (SERVES, False)])
def test_an_engines_process_that_was_killed_while_it_loaded(last: str, is_loading: bool) -> None:
    dead = "[09-02 08:14:02] Rank 0 scheduler is dead. Please check if there are relevant logs."
    died = crash(last, dead, "[09-02 08:14:04] Exit code: -9")
    assert (host_loading.killed_behind_the_loading(died) is not None) is is_loading
    assert an_engine_computes_on_the_host(died) is None


JOURNAL = "Feb 03 09:10:{} box {}\n"
LOADS = JOURNAL.format(20, "ollama[812]: load_tensors:          CPU model buffer size =  3811.50 MiB")
WAITS = JOURNAL.format(
    31, 'ollama[812]: time=2026-02-03T09:10:31.4Z level=INFO msg="waiting" status="llm server loading model"'
)
IS_UP = JOURNAL.format(
    33, 'ollama[812]: time=2026-02-03T09:10:33.4Z level=INFO msg="llama runner started in 13.1 seconds"'
)
ASKED = JOURNAL.format(35, 'ollama[812]: [GIN] 2026/02/03 - 09:10:35 | 200 |  2.1s | 127.0.0.1 | POST "/api/chat"')
ENDED = JOURNAL.format(40, "systemd[1]: ollama.service: Failed with result 'oom-kill'.")


@pytest.mark.parametrize(
    ("log", "loading"),
    [
        (LOADS + ENDED, True),
        (LOADS + WAITS + ENDED, True),
        (WAITS + ENDED, True),
        (ENDED, False),
        (LOADS + WAITS + IS_UP + ENDED, False),
        (LOADS + WAITS + IS_UP + ASKED + ENDED, False),
        (LOADS.replace("ollama[", "other[") + ENDED, False),
        (ASKED + ENDED, False),
    ],
)
def test_a_kill_of_a_unit_takes_the_stage_of_what_the_unit_had_printed(log: str, *, loading: bool) -> None:
    killed = crash(*log.splitlines())
    assert (killed.stage == "model_load") is loading
    assert (host_loading.a_unit_was_killed_while_loading_weights(killed) is not None) is loading
