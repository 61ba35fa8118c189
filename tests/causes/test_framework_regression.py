from __future__ import annotations

import pytest
from gpu_logs import BACKWARD, LOADING, finding, ranking, refused, ruled_out, says, trace

from oomdoctor.causes import Finding, NotEnough
from oomdoctor.causes.framework_regression import CAUSE
from oomdoctor.regressions import REGRESSIONS, Range, Regression, version

LAUNCH = "python3 -m openrlhf.cli.train_ppo_ray --zero_stage 3 --gradient_checkpointing --pretrain /models/llama-3-70b"
BANNER = (
    "[2025-02-24 08:16:41,119] [INFO] [logging.py:128:log_dist] [Rank 0] DeepSpeed info: version={}, git-hash=unknown"
)


def job(version: str, launch: str = LAUNCH) -> list[str]:
    return [launch, BANNER.format(version), *trace(BACKWARD), refused()]


@pytest.mark.parametrize("version", ["0.15.4", "0.16.8", "0.17.5"])
def test_not_a_version_that_is_not_affected(version: str) -> None:
    assert version in ruled_out(CAUSE, *job(version))


def test_not_without_checkpointing() -> None:
    launch = "python3 -m openrlhf.cli.train_ppo_ray --zero_stage 3 --pretrain /models/llama-3-70b"
    assert not isinstance(says(CAUSE, *job("0.16.3", launch)), Finding)


def test_not_with_another_zero_stage() -> None:
    launch = (
        "python3 -m openrlhf.cli.train_ppo_ray --zero_stage 2 --gradient_checkpointing --pretrain /models/llama-3-8b"
    )
    assert not isinstance(says(CAUSE, *job("0.16.3", launch)), Finding)


def test_not_while_the_weights_are_loaded() -> None:
    assert not isinstance(says(CAUSE, LAUNCH, BANNER.format("0.16.3"), *trace(LOADING), refused()), Finding)


def test_an_unknown_version_is_asked_for() -> None:
    judgement = says(CAUSE, LAUNCH, *trace(BACKWARD), refused())
    assert isinstance(judgement, NotEnough)
    assert judgement.next_evidence == ("pip show deepspeed",)


@pytest.mark.parametrize("version", ["0.16.0", "0.16.3", "0.16.7"])
def test_symptom_and_version_together_decide(version: str) -> None:
    found = finding(CAUSE, *job(version))
    assert found.weight >= 0.9
    assert "deepspeed>=0.16.8" in found.why
    assert ranking(*job(version))[:2] == ["framework-regression", "activations"]


def test_its_own_line_tells_it_where_no_version_is_printed() -> None:
    line = "Invalidate trace cache @ step 1447 and module 2893: cache has only 1447 modules"
    assert 0.4 <= finding(CAUSE, LAUNCH, line, *trace(BACKWARD), refused()).weight <= 0.6


@pytest.mark.parametrize("regression", REGRESSIONS, ids=lambda regression: regression.id)
def test_every_row_of_the_table_has_a_symptom_and_a_cure(regression: Regression) -> None:
    assert regression.stages or regression.trace or regression.grows
    assert regression.cure
    assert regression.references
    first, fixed = version(regression.affected.first), version(regression.affected.fixed)
    assert first is None or fixed is None or first < fixed


def test_versions_are_compared_as_numbers() -> None:
    deepspeed = Range("deepspeed", "0.16.0", "0.16.8")
    held = [
        text
        for text in ("0.9.5", "0.16.0", "0.16.7+cu124", "0.16.8", "0.16.10")
        if deepspeed.holds(version(text) or ())
    ]
    assert held == ["0.16.0", "0.16.7+cu124"]
    assert version("unknown") is None


MASK = ("transformers/models/llama/modeling_llama.py", "_update_causal_mask", "causal_mask = {}")


def test_the_failing_source_may_be_that_of_the_affected_versions_alone() -> None:
    whole = (MASK[0], MASK[1], MASK[2].format("self.causal_mask[None, None, :, :].repeat(rows, 1, 1, 1)"))
    assert finding(CAUSE, *trace(whole), refused(tried="8.00 GiB")).weight >= 0.8


def test_not_the_mask_of_later_versions() -> None:
    later = (MASK[0], MASK[1], MASK[2].format("torch.full((length, total), fill_value=lowest)"))
    assert not isinstance(says(CAUSE, *trace(later), refused(tried="8.00 GiB")), Finding)
