from __future__ import annotations

import pytest
from gpu_logs import LOADING, crash, refused, trace

from oomdoctor.job.checkpoint_names import billions
from oomdoctor.signs import loading
from oomdoctor.signs.model_size import its_states_are_little_of_the_tensors

SWIFT = "swift sft --model_type {} --sft_type {} --output_dir out"
FULL = refused("2.00 GiB", total="80.00 GiB", own="78.00 GiB", allocated="76.00 GiB")


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("org/model-7b-chat", 7.0),
        ("m-1_5B", 1.5),
        ("m-0.6B", 0.6),
        ("m-8x7B", None),
        ("7b/model", None),
        ("m-7bit", None),
    ],
)
def test_what_a_name_says_of_the_parameters(name: str, size: float | None) -> None:
    assert billions((name,)) == size


@pytest.mark.parametrize(
    ("model", "tuner", "is_little"),
    [
        ("demo-7b-instruct", "lora", True),
        ("demo-9b-instruct", "lora", True),
        ("demo-10b-instruct", "lora", False),  # 10 x 4.4 bytes are more than 38 GiB
        ("demo-2b-instruct", "full", True),
        ("demo-3b-instruct", "full", False),
        ("demo-instruct", "lora", False),
    ],
)
def test_what_the_parameters_take_beside_the_tensors(model: str, tuner: str, is_little: bool) -> None:
    it = crash(SWIFT.format(model, tuner), FULL)
    assert (its_states_are_little_of_the_tensors(it) is not None) is is_little
    assert (loading.live_tensors_before_any_step(it) is None) is is_little


def test_what_is_loading_or_has_other_models_beside_it_is_not_judged_by_its_name() -> None:
    launch = SWIFT.format("demo-7b-instruct", "lora")
    assert its_states_are_little_of_the_tensors(crash(launch, *trace(LOADING), FULL)) is None
    ppo = "python -m openrlhf.cli.train_ppo_ray --pretrain org/m-7b --lora_rank 8"
    assert its_states_are_little_of_the_tensors(crash(ppo, FULL)) is None


def test_several_named_models_count_together() -> None:
    launch = "python tune.py --model_name_or_path org/a-7b --ref_pretrain org/b-7b --lora_rank 8"
    assert its_states_are_little_of_the_tensors(crash(launch, FULL)) is None
