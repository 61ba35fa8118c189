"""A job that Snakemake submits: its rule asks for the memory, and no batch script of anybody does."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body


def asks(rule: str, megabytes: int | None) -> str:
    memory = f"mem_mb={megabytes}, mem_mib={megabytes}, " if megabytes else ""
    return f"{rule}:\n    input: a.txt\n    jobid: 3\n    resources: {memory}disk_mb=1000, tmpdir=/tmp\n"


STEP = "slurmstepd: error: Detected 1 oom_kill event in StepId=51.0. Some of the step tasks have been OOM Killed.\n"
FAILED = "Error in rule {}:\n    jobid: 3\n"
SBATCH = "sacct"  # what a job had, before its batch script is changed


@pytest.mark.parametrize(
    ("log", "first"),
    [
        (asks("rule fold", 3000) + STEP + FAILED.format("fold"), "snakemake --set-resources fold:mem_mb=6000"),
        (asks("localrule fold", 3000) + STEP, "snakemake --set-resources fold:mem_mb=6000"),
        (asks("checkpoint fold", 3000) + STEP, "snakemake --set-resources fold:mem_mb=6000"),
        (
            asks("rule fold", 3000) + asks("rule pair", 500) + STEP + FAILED.format("fold"),
            "snakemake --set-resources fold:mem_mb=6000",
        ),
        (
            asks("rule fold", 3000) + asks("rule fold", 9000) + STEP + FAILED.format("fold"),
            "snakemake --set-resources fold:mem_mb=18000",  # tried again, with more
        ),
        (asks("rule pair", 500) + STEP + FAILED.format("fold"), SBATCH),  # of another rule
        (asks("rule fold", 3000) + asks("rule pair", 500) + STEP, SBATCH),  # of either
        (FAILED.format("fold") + asks("rule fold", 3000) + asks("rule pair", 500) + STEP, SBATCH),
        (asks("rule fold", None) + STEP + FAILED.format("fold"), SBATCH),
        ("    resources: mem_mb=3000, tmpdir=/tmp\n" + STEP, SBATCH),
        (STEP, SBATCH),
        ("srun --mem=3000 ./fold\n" + STEP, "sacct"),
    ],
)
def test_who_writes_the_batch_script_is_asked_for_more(tmp_path: Path, log: str, first: str) -> None:
    remedy = body(tmp_path, log)["diagnoses"][0]["remedies"][0]
    assert remedy["knob"] == "raise-container-limit"
    assert (first in remedy["snippet"].splitlines()[0]) or (first == SBATCH and "#SBATCH" in remedy["snippet"])
    assert ("snakemake" in remedy["snippet"]) == first.startswith("snakemake")


def test_the_headline_names_the_rule_and_what_it_asked_for(tmp_path: Path) -> None:
    step = STEP.replace("StepId=51.0", "StepId=JOB")
    for log, words in (
        (asks("rule fold", 3000) + step, "The Slurm job of rule fold (mem_mb=3000) hit its memory limit"),
        (asks("rule fold", 3000) + asks("rule pair", 500) + step, "The Slurm job hit its memory limit"),
    ):
        assert words in body(tmp_path, log)["diagnoses"][0]["headline"]
