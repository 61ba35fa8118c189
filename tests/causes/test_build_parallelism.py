from __future__ import annotations

from pathlib import Path

import pytest
from system_logs import crash_of, quiet

import oomdoctor
from oomdoctor.causes.build_parallelism import CAUSE
from oomdoctor.decision.judgement import Finding, judgement_of
from oomdoctor.signs import Grade

KILLED = "Out of memory: Killed process 71 ({}) total-vm:9000000kB, anon-rss:6000000kB, file-rss:0kB, shmem-rss:0kB\n"


def test_a_crashed_compiler_is_quiet() -> None:
    assert quiet("nvcc error   : 'cicc' died due to signal 11 (Invalid memory reference)\nninja: build stopped.\n")


def test_a_killed_trainer_is_no_build() -> None:
    assert judgement_of(CAUSE, crash_of(KILLED.format("python3"))) is None
    assert judgement_of(CAUSE, crash_of("epoch 3 loss 0.1\nKilled\n")) is None


def test_a_compiler_in_the_name_of_a_script_is_no_compiler() -> None:
    assert judgement_of(CAUSE, crash_of(KILLED.format("my_cc1plus_test"))) is None


def test_the_driver_names_the_killed_compiler() -> None:
    judgement = judgement_of(CAUSE, crash_of("c++: fatal error: Killed signal terminated program cc1plus\n"))
    assert isinstance(judgement, Finding)
    assert judgement.why.startswith("cc1plus was killed during the build")


def test_the_kernel_names_the_compiler_and_its_sisters() -> None:
    rows = "".join(
        f"[  {pid}]  1000  {pid}  1500000  1400000  11004096        0             0 cicc\n" for pid in range(7100, 7108)
    )
    header = "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name\n"
    judgement = judgement_of(CAUSE, crash_of(header + rows + KILLED.format("cicc")))
    assert isinstance(judgement, Finding)
    assert "8 compilers ran in parallel" in judgement.why


def test_a_kill_amid_build_output_is_a_hint() -> None:
    judgement = judgement_of(CAUSE, crash_of("building 'flash_attn_2_cuda' extension\nKilled\n"))
    assert isinstance(judgement, Finding)
    assert judgement.grade is Grade.POINTS
    assert judgement.next_evidence


COMMAND = "/opt/cuda/bin/nvcc -I/src/csrc -c /src/csrc/bwd_hdim96.cu -o build/bwd_hdim96.o\n"


@pytest.mark.parametrize(
    "above", [COMMAND, "[7/60] " + COMMAND, "FAILED: build/bwd_hdim96.o\n", "clang++ -O2 -c scan.cpp -o scan.o\n"]
)
def test_a_kill_under_a_compilers_command_shows_that_memory_failed(above: str) -> None:
    judgement = judgement_of(CAUSE, crash_of(above + "Killed\n"))
    assert isinstance(judgement, Finding)
    assert judgement.grade is Grade.NAMES
    assert judgement.shows_memory


@pytest.mark.parametrize(
    "above",
    [
        COMMAND + "[8/60] linked\n" + "test 1 passed\n" * 4,  # it was something else that ran
        "nvcc --version\n",
        "building with gcc, as CC says\n",
        "FAILED: unit test of the loader\n",
    ],
)
def test_a_kill_under_anything_else_does_not(above: str) -> None:
    judgement = judgement_of(CAUSE, crash_of(above + "Killed\n"))
    assert not isinstance(judgement, Finding) or not judgement.shows_memory


def verdict(folder: Path, text: str) -> str:
    log = folder / "build.log"
    log.write_text(text, encoding="utf-8")
    answer: str = oomdoctor.diagnose(log).as_json()["verdict"]
    return answer


def test_a_kill_right_below_an_object_that_failed_was_a_compilers(tmp_path: Path) -> None:
    failed = "[4/85] c++ -O3 -c bwd.cpp -o bwd.o\nFAILED: bwd.o\nKilled\nninja: build stopped: subcommand failed.\n"
    assert verdict(tmp_path, failed) == "oom"


def test_a_kill_further_below_may_be_anothers(tmp_path: Path) -> None:
    later = "[4/85] c++ -O3 -c bwd.cpp -o bwd.o\nFAILED: bwd.o\nninja: build stopped: subcommand failed.\n"
    assert verdict(tmp_path, later) == "no-oom"
    assert verdict(tmp_path, f"{later}running the tests\nwaiting\nstep 1\nKilled\n") == "inconclusive"


def test_a_log_that_begins_with_the_kill_has_the_command_below_it(tmp_path: Path) -> None:
    assert verdict(tmp_path, f"Killed\n[7/60] {COMMAND}") == "oom"
    assert verdict(tmp_path, f"Killed\nstep 1\n[7/60] {COMMAND}") == "inconclusive"
    assert verdict(tmp_path, f"running the tests\nKilled\n[7/60] {COMMAND}") == "inconclusive"


CRATE = (
    "error: could not compile `tables` (lib)\n\nCaused by:\n"
    "  process didn't exit successfully: `rustc` (signal: 9, SIGKILL: kill)\n"
)


@pytest.mark.parametrize(
    ("command", "snippet"),
    [
        ("+ cargo build --release -j 8", "cargo build -j 1"),
        ("$ cargo test --jobs=16 --all", "cargo test --jobs=1"),
        ("+ make -j16 all", "make -j1"),
        ("+ cmake --build build -j 12", "cmake --build build -j 1"),
        ("+ cargo build --release", None),
    ],
)
def test_the_number_on_the_command_line_is_the_one_that_counts(
    tmp_path: Path, command: str, snippet: str | None
) -> None:
    path = tmp_path / "job.log"
    path.write_text(f"{command}\n   Compiling tables v0.1.0\n{CRATE}", encoding="utf-8")
    remedy = oomdoctor.diagnose(path).as_json()["diagnoses"][0]["remedies"][0]
    assert remedy["knob"] == "fewer-build-jobs"
    assert (remedy["snippet"] == snippet) is (snippet is not None)
