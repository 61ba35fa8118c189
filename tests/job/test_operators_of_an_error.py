"""An operator that an error itself names says what was done; where its graph was defined says nothing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from test_doing import event, stage_of

TEXT = "Can't allocate 1610612736 bytes on device 0."
DEFINED = "pretrain.py build_model"


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("Error in MIXED operator `nvidia.dali.fn.experimental.decoders.video`,", "data_load"),
        ("Error in GPU operator `nvidia.dali.fn.resize`,", "data_load"),
        ("Error when executing Mixed operator decoders__Image encountered:", "data_load"),
        ("Error when executing CPU operator readers__TFRecord encountered:", "data_load"),
        ("Error in operator conv2d_backward: see below", "backward"),
        ("Error in operator of the plan: see below", "model_load"),
        ("the operator `nvidia.dali.fn.resize` was used", "model_load"),
        ("Error in GPU operator `x7`,", "model_load"),
        ("no error in GPU operator, nvidia.dali.fn.resize done", "model_load"),
    ],
)
def test_an_error_names_its_operator(line: str, stage: str) -> None:
    told = replace(event(DEFINED, before=(line, "which was used in the pipeline definition"), text=TEXT), pool="gpu")
    assert stage_of(told) == stage


def test_an_operator_far_above_is_of_another_error() -> None:
    before = ("Error in GPU operator `nvidia.dali.fn.resize`,", *("batch done" for _ in range(8)))
    assert stage_of(replace(event(DEFINED, before=before, text=TEXT), pool="gpu")) == "model_load"


@pytest.mark.parametrize(
    ("function", "stage"),
    [
        ("create_dali_pipeline", "data_load"),
        ("build_data_pipeline", "data_load"),
        ("make_datapipe", "data_load"),
        ("build_dataset", "data_load"),
        ("create_pipeline", "model_load"),
        ("build_model_pipeline", "model_load"),
        ("create_text_pipeline", "model_load"),
        ("dali_version", "unknown"),
    ],
)
def test_a_pipeline_of_input_loads_no_weights(function: str, stage: str) -> None:
    assert stage_of(replace(event(f"job.py {function}"), pool="gpu")) == stage
