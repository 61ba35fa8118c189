"""What the log says of an engine: who asked, what it was doing, what its share is."""

from __future__ import annotations

import pytest
from engine_logs import NO_BLOCKS, RUNNER, WARMUP, crash_of, refusal, started, traceback, v0_account

from oomdoctor.incident.engine_facts import facts, phase
from oomdoctor.job.frameworks import hallmarks, packages
from oomdoctor.signs import library
from oomdoctor.units import GIB

FULL = refusal("96.00 MiB", 23.55, 0.05, 23.4, 22.7)


@pytest.mark.parametrize(
    ("functions", "doing"),
    [
        (("determine_available_memory", "profile_run", "_dummy_run"), "profiling"),
        (("compile_or_warm_up_model", "capture_model", "_dummy_run"), "capturing"),
        (("compile_or_warm_up_model", "_dummy_sampler_run"), "warming"),
        (("_initialize_kv_caches", "initialize_from_config", "_allocate_kv_cache_tensors"), "allocating"),
        (("_initialize_kv_caches", "determine_available_memory"), "profiling"),
        (("init_device", "load_model", "load_weights"), "loading"),
        (("run_busy_loop", "execute_model", "forward"), "serving"),
        (("wake_up", "load_weights"), "waking"),
        (("update_weights", "load_weights"), "syncing"),
    ],
)
def test_the_frames_tell_what_the_engine_was_doing(functions: tuple[str, ...], doing: str) -> None:
    assert phase(crash_of(traceback(*((RUNNER, function) for function in functions), end=FULL))) == doing


def test_layers_under_construction_are_loading() -> None:
    log = traceback(("vllm/model_executor/models/llama.py", "__init__"), ("torch/nn/modules/linear.py", "f"), end=FULL)
    assert phase(crash_of(log)) == "loading"


def test_the_warm_ups_own_message_tells() -> None:
    assert phase(crash_of(WARMUP)) == "warming"


def test_a_remote_call_tells_when_its_frames_are_missing() -> None:
    log = traceback(
        ("orz/ppo/trainer.py", "train"),
        end="ray.exceptions.RayTaskError(OutOfMemoryError): ray::LLMActor.backload_to_gpu() (pid=9, ip=10.0.0.4)",
    )
    crash = crash_of(log + FULL + "\n")
    assert crash.job.in_reserving_engine
    assert phase(crash) == "waking"


@pytest.mark.parametrize(
    ("log", "engine"),
    [
        (traceback((RUNNER, "execute_model"), end=FULL), True),
        (f"(EngineCore_DP0 pid=4) {FULL}\n", True),
        (f"(LLMRayActor pid=4) {FULL}\n", True),
        (NO_BLOCKS, True),
        (f"(ActorModelRayActor pid=4) {FULL}\n", False),
        (traceback(("transformers/trainer.py", "training_step"), end=FULL), False),
        (traceback(("openrlhf/trainer/ppo.py", "fit"), ("torch/nn/modules/linear.py", "forward"), end=FULL), False),
        (FULL + "\n", False),
    ],
)
def test_who_asked(log: str, engine: bool) -> None:
    assert crash_of(log).job.in_reserving_engine is engine


def test_a_setting_shows_an_engine_beside() -> None:
    assert not crash_of(FULL + "\n").job.runs_engine
    assert crash_of(f"INFO vllm_gpu_memory_utilization=0.7\n{FULL}\n").job.runs_engine


def test_the_account_of_the_last_start() -> None:
    crash = crash_of(v0_account(23.6, 0.8, 14.0, 2.0) + v0_account(23.6, 0.5, 14.0, 2.0) + NO_BLOCKS)
    known = facts(crash)
    assert known.share == 0.5
    assert known.reserved_bytes == round(11.8 * GIB)
    assert known.kv_bytes is not None
    assert known.kv_bytes < 0


def test_without_an_account_the_setting_counts() -> None:
    log = f"INFO gpu_memory_utilization=0.85\n{traceback((RUNNER, 'execute_model'), end=FULL)}"
    known = facts(crash_of(log))
    assert known.share == 0.85
    assert known.share_setting is not None
    assert known.reserved_bytes == round(0.85 * round(23.55 * GIB))


def test_what_the_log_does_not_say_is_missing() -> None:
    known = facts(crash_of(FULL + "\n"))
    assert known.share is None
    assert known.reserved_bytes is None
    assert known.era is None


@pytest.mark.parametrize(
    ("log", "engine"),
    [
        (started("0.8.5") + NO_BLOCKS, "V1"),
        (started("0.8.5").replace("V1", "V0") + NO_BLOCKS, "V0"),
        ("INFO [executor_base.py:112] # cuda blocks: 0, # CPU blocks: 4681\n" + NO_BLOCKS, "V0"),
        (NO_BLOCKS, None),
    ],
)
def test_which_engine(log: str, engine: str | None) -> None:
    assert facts(crash_of(log)).engine == engine


def test_frameworks_are_asked_for_by_the_names_they_are_known_under() -> None:
    known = {*hallmarks(), *(name.replace("_", "-") for name in packages())}
    asked_for = set(library.TAKERS)
    assert asked_for <= known
