"""`oomdoctor whatif`, as people type it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from oomdoctor.cli.app import app
from oomdoctor.remedies.whatif import compare

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
SWAP = FIXTURES / "stories/simplerl-third-rollout/log.txt"
START = (
    "ValueError: Free memory on device (34.2/79.1 GiB) on startup is less than desired GPU memory utilization "
    "(0.9, 71.19 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
)

AS_PRINTED = """\
IT WOULD HAVE FITTED: 447.53 GiB to spare
  swap_space: 40 -> 0  (line 25)
  The crash: the node's memory (RAM) ran out (log.txt:65)

Host RAM: fits (447.53 GiB to spare)
  missing in the crash: 957.62 GiB in use - 957.15 GiB (0.95 x 1007.53 GiB) at the threshold = 478
    MiB
  swap space: -448.00 GiB
    40 -> 0 GiB, in pinned buffers (powers of two) for 28 layers x 8 GPUs: 448.00 GiB -> 0 bytes
    Assumes: the engine serves a Qwen2.5-7B (28 layers)
    Assumes: swap space is allocated at start or at each rollout

Memory in the crash and with the change: 1007.53 GiB of node 10.30.4.44
                                         crash             with change
  8 x WorkerDict                    902.20 GiB              454.20 GiB  assumed
  main_task (PID 51203)              11.34 GiB               11.34 GiB
  gcs_server (PID 50011)               727 MiB                 727 MiB
  other memory (not in Ray's list)   43.37 GiB               43.37 GiB  derived
  free                               49.91 GiB              497.91 GiB  derived

Note: memory used grew by 238.62 GiB per step; steps until full at this rate: 1
Note: this covers the failed allocation only, not what the job would have allocated next
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "serve.log"
    path.write_text(START)
    return path


def told(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["whatif", *map(str, arguments)], env={"COLUMNS": "100"})


def test_the_whole_text() -> None:
    done = told(SWAP, "--set", "swap_space=0")
    assert done.output == AS_PRINTED
    assert done.exit_code == 0


@pytest.mark.parametrize(
    ("settings", "code"),
    [(("gpu_memory_utilization=0.43",), 0), (("gpu_memory_utilization=0.44",), 1), (("learning_rate=1",), 3)],
)
def test_the_exit_code_is_the_answer(log: Path, settings: tuple[str, ...], code: int) -> None:
    flags = [word for one in settings for word in ("--set", one)]
    assert told(log, *flags).exit_code == code
    assert told(log, *flags, "--exit-zero").exit_code == 0


def test_a_range_is_said_as_one() -> None:
    log = FIXTURES / "stories/openrlhf-reward-server/log.txt"
    lines = told(log, "--set", "vllm_enable_sleep=true").output.splitlines()
    assert lines[0] == "IT WOULD NOT HAVE FITTED: 28.41 GiB to 56.78 GiB still missing"
    assert "  copies of sleeping engines: +28.37 GiB to +56.74 GiB" in lines
    row = (
        "  copies of sleeping engines, by               +28.37 GiB to +56.74 GiB  derived"  # there is none of them now
    )
    assert row in lines
    assert "  free                                12.54 GiB                 0 bytes  derived" in lines


def test_json(log: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    assert told(log, "--set", "gpu_memory_utilization=0.43", "-f", "json", "-o", target).exit_code == 0
    body = json.loads(target.read_text())
    assert (body["schema_version"], body["answer"], body["crash"]["pool"]) == (1, "fits", "gpu")
    assert body["changes"] == [
        {"setting": "gpu_memory_utilization", "current": 0.9, "wanted": 0.43, "stated": "line 1"}
    ]  # fmt: skip
    (pool,) = body["pools"]
    assert pool["missing"][0]["derivation"] == "71.19 GiB wanted at start - 34.20 GiB free = 36.99 GiB"
    assert pool["effects"][0]["low_bytes"] == pool["effects"][0]["high_bytes"] < -37 * 2**30
    # what was refused was never taken
    rows = {row["what"]: (row["bytes"], row["then_low_bytes"]) for row in body["ledger"][0]["rows"]}
    assert rows.keys() == {"in use before the engine started", "free"}
    assert all(now == then for now, then in rows.values())


def test_what_is_from_outside_the_log_is_marked(tmp_path: Path) -> None:
    log, run = tmp_path / "kill.log", tmp_path / "run.sh"
    text = "\n".join(line for line in SWAP.read_text().splitlines() if "swap_space" not in line)
    log.write_text(text)
    run.write_text("python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.swap_space=40\n")
    done = told(log, "--set", "swap_space=0", "--launch", run)
    assert done.exit_code == 0, done.output
    assert "swap_space: 40 -> 0  (run.sh line 1, not the log)" in done.output
    assert "swap_space=40 from run.sh line 1, not from the log" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("--set", "name at least one setting: like --set gpu_memory_utilization=0.5")),
        (("--set", "swap_space"), ("'swap_space' is no NAME=VALUE", "like --set")),
        (("--set", "gpu_memory_utilization=half"), ("must be between 0 and 1, not 'half'",)),
        (("--set", "gpu_memory_utilization=90"), ("must be between 0 and 1, not 90",)),
        (("--set", "max_model_len=-1"), ("must be 0 or more, not -1",)),
        (("--set", "a=1", "--launch", "gone.sh"), ("--launch", "gone.sh: no such file")),
        (("--set", "a=1", "--format", "html"), ("'html' is not one of text, json",)),
    ],
)
def test_a_slip_is_explained(log: Path, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    done = told(log, *arguments)
    assert done.exit_code == 2
    assert all(word in " ".join(done.output.split()) for word in words), done.output


@pytest.mark.parametrize("setting", ["zero_stage=3", "batch_size=1", "swap_space=0", "learning_rate=1"])
def test_of_an_end_that_the_log_does_not_explain_nothing_is_claimed(tmp_path: Path, setting: str) -> None:
    log = tmp_path / "k.log"
    log.write_text("Killed\n")
    done = told(log, "--set", setting)
    assert done.exit_code == 3
    assert done.output.startswith("CANNOT TELL: something died, and the log does not show of what  (k.log:1)\n")
    assert "ran out" not in done.output
    assert "fit" not in done.output
    assert told(log, "--set", setting, "--exit-zero").exit_code == 0
    body = json.loads(told(log, "--set", setting, "-f", "json").output)
    assert (body["answer"], body["crash"]["verdict"]) == ("cannot tell", "inconclusive")
    assert {pool["answer"] for pool in body["pools"]} == {"cannot tell"}


@pytest.mark.parametrize(
    ("log", "proven"),
    [
        ("kill/joblib.log", False),
        ("data_loader/connection-reset-only.log", False),
        ("training_cut/gather.log", False),
        ("kill/shells.log", True),  # its root is only a kill, and what stands around shows what it was for
        ("unfamiliar/of-no-place.log", True),
    ],
)
def test_what_is_proven_is_what_the_report_says_is(log: str, proven: bool) -> None:
    path = FIXTURES / log
    verdict = json.loads(CliRunner().invoke(app, ["diagnose", str(path), "-f", "json"]).output)["verdict"]
    assert verdict == ("oom" if proven else "inconclusive")
    done = told(path, "--set", "zero_stage=3")
    assert ("The crash: " in done.output) is proven
    assert ("ran out" in done.output) is proven
    assert proven or done.exit_code == 3
    assert json.loads(told(path, "--set", "zero_stage=3", "-f", "json").output)["crash"]["verdict"] == verdict


def test_where_the_log_does_not_say_which_memory_it_was_nothing_is_said_not_to_fit() -> None:
    verdict = compare._verdict("none", None, [], [], (), ran_out=True)
    assert verdict.answer == "cannot tell"


def test_without_a_crash_there_is_nothing_to_compare(tmp_path: Path) -> None:
    (tmp_path / "fine.log").write_text("step 1 loss 0.3\n")
    done = told(tmp_path / "fine.log", "--set", "zero_stage=3")
    assert done.exit_code == 2
    assert "no memory failure" in done.output


def test_a_hostile_value_is_only_text(log: Path) -> None:
    done = told(log, "--set", "kv_cache_dtype=\x1b[31mfp[bold]%s{}")
    assert "\x1b" not in done.output
    assert "kv_cache_dtype: (not in the log) -> fp[bold]%s{}" in done.output
