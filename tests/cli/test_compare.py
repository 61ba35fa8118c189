"""`oomdoctor compare`, as people type it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from oomdoctor.cli.app import app

CRASHED = (Path(__file__).parent.parent.parent / "fixtures/stories/simplerl-third-rollout/log.txt").read_text()
BEFORE_THE_CRASH = CRASHED[: CRASHED.index("Error executing job")]
REFUSED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 79.15 GiB "
    "of which 1.12 GiB is free. Including non-PyTorch memory, this process has 78.02 GiB memory in use. Of the "
    "allocated memory 75.50 GiB is allocated by PyTorch, and 1.20 GiB is reserved by PyTorch but unallocated.\n"
)

AS_PRINTED = """\
In BAD the node's memory (RAM) ran out during the rollout (bad.log:65)

Changes that can explain it (GOOD -> BAD):
  1. actor_rollout_ref.rollout.swap_space: 4 -> 40  (line 25 -> 25)
     4 would have saved 392.00 GiB, enough to fit
     40 -> 4 GiB, in pinned buffers (powers of two) for 28 layers x 8 GPUs: 448.00 GiB -> 56.00 GiB

Other differences (GOOD -> BAD):
  actor_rollout_ref.rollout.temperature: 0.9 -> 1.0  (line 26 -> 26)

Peak of each figure
                       GOOD           BAD   more in BAD
  memory used    250.10 GiB    719.42 GiB   +469.32 GiB

Where the memory was: node 10.30.4.44
                                            GOOD           BAD   more in BAD
  8 x WorkerDict                                    902.20 GiB
  main_task (PID 51203)                              11.34 GiB
  gcs_server (PID 50011)                               727 MiB
  other memory (not in Ray's list)                   43.37 GiB
  free                                               49.91 GiB
  total                                            1007.53 GiB
"""


def compared(folder: Path, good: str, bad: str, *options: str) -> Result:
    for name, text in (("good.log", good), ("bad.log", bad)):
        (folder / name).write_text(text)
    arguments = ["compare", str(folder / "good.log"), str(folder / "bad.log"), *options]
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})


def body(done: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.output)
    return found


def healthy(**changed: str) -> str:
    text = BEFORE_THE_CRASH.replace("719.42", "250.10").replace("480.75", "245.00")
    for name, value in changed.items():
        before, _, after = text.partition(f"'{name}': ")
        text = f"{before}'{name}': {value}{after[after.index(',') :]}"
    return text


def test_the_whole_text(tmp_path: Path) -> None:
    done = compared(tmp_path, healthy(swap_space="4", temperature="0.9"), CRASHED)
    assert done.output == AS_PRINTED
    assert done.exit_code == 1


def test_json(tmp_path: Path) -> None:
    done = compared(tmp_path, healthy(swap_space="4", temperature="0.9"), CRASHED, "--format", "json")
    found = body(done)
    (explains,) = found["explains"]
    assert (explains["name"], explains["good"], explains["bad"]) == ("actor_rollout_ref.rollout.swap_space", 4, 40)
    assert explains["less_bytes"] == 392 * 1024**3
    assert [one["name"] for one in found["differences"]] == ["actor_rollout_ref.rollout.temperature"]
    assert found["crash"]["line"] == 65
    assert done.exit_code == 1


def test_what_would_have_taken_more_explains_nothing(tmp_path: Path) -> None:
    done = compared(tmp_path, healthy(swap_space="80"), CRASHED)
    assert "No change that both logs show can explain it" in done.output
    assert "swap_space: 80 -> 40" in done.output
    assert done.exit_code == 0


def test_an_engines_share_explains_a_full_card_and_its_longest_request_does_not(tmp_path: Path) -> None:
    args = (
        "INFO 03-01 10:00:01 [api_server.py:1034] vLLM API server version 0.8.4\n"
        "INFO 03-01 10:00:01 [api_server.py:1035] args: Namespace(model='Qwen/Qwen2.5-7B-Instruct', max_model_len={}, "
        "gpu_memory_utilization={}, max_num_seqs=64)\n"
    )
    failed = (
        "ERROR 03-01 10:02:01 [core.py:396] EngineCore failed to start.\n"
        "Traceback (most recent call last):\n"
        '  File "/venv/vllm/v1/worker/gpu_model_runner.py", line 1600, in capture_model\n'
        "    self._dummy_run(num_tokens)\n"
    )
    bad = args.format(131072, 0.98) + failed + REFUSED
    first, *others = body(compared(tmp_path, args.format(4096, 0.85), bad, "--format", "json"))["explains"]
    assert (first["name"], first["good"], first["bad"]) == ("gpu_memory_utilization", 0.85, 0.98)
    assert first["less_bytes"] == pytest.approx(0.13 * 79.15 * 1024**3, rel=0.01)
    assert [one["less_bytes"] for one in others] == [None] * len(others)


def test_the_same_settings_explain_nothing(tmp_path: Path) -> None:
    done = compared(tmp_path, healthy(), CRASHED)
    assert "->" not in done.output
    assert done.exit_code == 0


def test_without_a_failure_there_is_nothing_to_explain(tmp_path: Path) -> None:
    done = compared(tmp_path, healthy(swap_space="4"), healthy())
    assert done.output.startswith("BAD shows no failure: nothing to explain\n")
    assert "swap_space: 4 -> 40" in done.output
    assert done.exit_code == 0


def test_of_an_end_that_the_log_does_not_explain_nothing_is_claimed(tmp_path: Path) -> None:
    settings = "args: Namespace(swap_space={}, gpu_memory_utilization=0.9, temperature={})\n"
    done = compared(tmp_path, settings.format(4, 0.9) + "step 1\n", settings.format(40, 1.0) + "step 1\nKilled\n")
    assert done.output.startswith("In BAD something died, and the log does not show of what (bad.log:3)\n")
    assert done.exit_code == 3
    found = body(compared(tmp_path, "step 1\n", "Killed\n", "--format", "json"))
    assert found["crash"]["verdict"] == "inconclusive"
    assert body(compared(tmp_path, healthy(), CRASHED, "--format", "json"))["crash"]["verdict"] == "oom"


def test_what_may_explain_an_end_that_may_be_of_memory_says_so(tmp_path: Path) -> None:
    good, bad = "MemTotal:       1056964608 kB\n", "MemTotal:       528482304 kB\nKilled\n"
    done = compared(tmp_path, good, bad)
    assert "If host RAM ran out, these changes can explain it (GOOD -> BAD):\n  1. ram_bytes: " in done.output
    assert "What can explain it" not in done.output
    assert done.exit_code == 3


def test_a_good_run_that_failed_is_said_to(tmp_path: Path) -> None:
    done = compared(tmp_path, CRASHED, CRASHED)
    assert "Note: GOOD failed, too" in done.output
    assert body(compared(tmp_path, CRASHED, CRASHED, "--format", "json"))["good_failed"] is True


@pytest.mark.parametrize(
    ("good", "bad", "kind", "explains"),
    [
        ("vllm==0.8.2\n", "vllm==0.8.3\n", "version", False),
        ("NVIDIA H200\n| 0  NVIDIA H200\n", "| 0  NVIDIA H200\n", "hardware", False),
    ],
)
def test_versions_without_known_trouble_do_not_explain(
    tmp_path: Path, good: str, bad: str, kind: str, explains: bool
) -> None:
    found = body(compared(tmp_path, good + "step 1\n", bad + REFUSED, "--format", "json"))
    assert any(one["kind"] == kind for one in found["explains"]) is explains


IN_BACKWARD = (
    "python -m openrlhf.cli.train_ppo_ray --zero_stage 3 --gradient_checkpointing --pretrain /m/llama3_70b\n"
    '  File "/x/torch/autograd/graph.py", line 1, in _engine_run_backward\n' + REFUSED
)


@pytest.mark.parametrize(
    ("good", "bad", "explains"), [("0.15.4", "0.16.3", 1), ("0.16.3", "0.16.4", 0), ("0.16.3", "0.16.8", 0)]
)
def test_a_release_with_a_known_regression_explains_it(tmp_path: Path, good: str, bad: str, explains: int) -> None:
    info = "DeepSpeed info: version={}, git-hash=unknown\n"
    found = body(compared(tmp_path, info.format(good) + "step 1\n", info.format(bad) + IN_BACKWARD, "--format", "json"))
    named = [one["why"] for one in found["explains"] if one["kind"] == "version"]
    assert len(named) == explains
    assert all(why.startswith("deepspeed >=0.16.0 <0.16.8: ") for why in named)


@pytest.mark.parametrize(
    ("good", "bad", "why"),
    [("NVIDIA H200", "NVIDIA A10G", "another GPU"), ("NVIDIA H200", "NVIDIA H200", None)],
)
def test_another_card_explains_a_full_card(tmp_path: Path, good: str, bad: str, why: str | None) -> None:
    card = "|   0  {}          On  | 00000000:00:04.0 Off |                    0 |\n"
    found = body(compared(tmp_path, card.format(good), card.format(bad) + REFUSED, "--format", "json"))
    assert [one["why"] for one in found["explains"] if one["kind"] == "hardware"] == ([why] if why else [])


def test_more_memory_in_the_machine_explains_nothing(tmp_path: Path) -> None:
    good, bad = "MemTotal:       528482304 kB\n", "MemTotal:       1056964608 kB\n"
    host = compared(tmp_path, good + healthy(), bad + CRASHED)
    assert [
        one["name"] for one in body(compared(tmp_path, good + healthy(), bad + CRASHED, "--format", "json"))["explains"]
    ] == []
    assert "ram_bytes: 504.00 GiB -> 1008.00 GiB" in host.output


def test_what_would_have_taken_less_and_not_fitted(tmp_path: Path) -> None:
    args = "vllm serve m --gpu-memory-utilization {}\nTraceback (most recent call last):\n"
    frames = '  File "/venv/vllm/v1/worker/gpu_model_runner.py", line 1600, in capture_model\n    self._dummy_run()\n'
    bad = args.format(0.98) + frames + REFUSED
    (one,) = body(compared(tmp_path, args.format(0.97), bad, "--format", "json"))["explains"]
    assert one["why"] == "0.97 would have saved 810 MiB"
    (one,) = body(compared(tmp_path, args.format(0.9), bad, "--format", "json"))["explains"]
    assert one["why"] == "0.9 would have saved 6.33 GiB, enough to fit"


def test_a_value_that_means_something_else_explains_nothing(tmp_path: Path) -> None:
    found = body(compared(tmp_path, healthy(swap_space="'auto'"), CRASHED, "--format", "json"))
    assert found["explains"] == []
    assert ["auto", 40] in [[one["good"], one["bad"]] for one in found["differences"]]


def test_of_many_differences_a_terminal_is_shown_some(tmp_path: Path) -> None:
    options = " ".join(f"--own_option_{number} {{0}}" for number in range(14))
    launch = f"python fit.py {options}\n"
    done = compared(tmp_path, launch.format(1), launch.format(2) + REFUSED)
    shown = done.output.count("own_option_")
    assert 0 < shown < 14
    assert f"and {14 - shown} more; --format json lists all" in done.output


def test_less_memory_in_the_machine_explains_a_failure_of_the_host_only(tmp_path: Path) -> None:
    good, bad = "MemTotal:       1056964608 kB\n", "MemTotal:       528482304 kB\n"
    host = body(compared(tmp_path, good + healthy(), bad + CRASHED, "--format", "json"))
    assert [(one["name"], one["why"]) for one in host["explains"]] == [("ram_bytes", "BAD has less")]
    card = body(compared(tmp_path, good, bad + REFUSED, "--format", "json"))
    assert card["explains"] == []
    assert [one["name"] for one in card["differences"]] == ["ram_bytes"]


def test_another_model_can_explain_it(tmp_path: Path) -> None:
    good = healthy().replace("Qwen2.5-Math-7B", "Qwen2.5-Math-1.5B")
    found = body(compared(tmp_path, good, CRASHED, "--format", "json"))
    assert ("model", "Qwen2.5-Math-1.5B", "Qwen2.5-Math-7B") in [
        (one["kind"], one["good"], one["bad"]) for one in found["explains"]
    ]


def test_the_same_model_from_another_folder_is_no_difference(tmp_path: Path) -> None:
    good = healthy().replace("/models/Qwen2.5-Math-7B", "/scratch/Qwen2.5-Math-7B")
    found = body(compared(tmp_path, good, CRASHED, "--format", "json"))
    assert all(one["kind"] != "model" for one in (*found["explains"], *found["differences"]))


def test_what_cannot_be_read(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "no.log"), str(tmp_path / "none.log")])
    assert done.exit_code == 2
    assert "no.log" in done.output
    assert CliRunner().invoke(app, ["compare", "-", "-"]).exit_code == 2
