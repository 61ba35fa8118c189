"""A piece of host memory that a training's pass needed: near misses first."""

from __future__ import annotations

import pytest
from gpu_logs import TRACEBACK, crash, ranking

from oomdoctor.signs.passes import a_piece_of_a_training_on_the_cpu

BAR = "Epoch 4:  62%|######2   | 930/1500 [31:07<19:04,  2.01s/it, loss=0.812, v_num=3]"
ENDS = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate {} bytes. Error code 12 (Cannot allocate memory)"
)
FIRST = "Epoch 0:   0%|          | 0/1500 [00:00<?, ?it/s]"
END = ENDS.format(38654705664)
OWN = [TRACEBACK, '  File "/home/ann/fit.py", line 20, in main', "    trainer.fit(model, data)"]
TRAINER = ['  File "/opt/env/lib/python3.9/site-packages/{}", line 756, in _run', "    self.dispatch()"]


def trainer(file: str) -> list[str]:
    return [TRAINER[0].format(file), TRAINER[1]]


@pytest.mark.parametrize(
    "lines",
    [
        [END],
        [BAR, ENDS.format(2**30 - 1)],
        # what the job's own line makes is told by that line
        [BAR, *OWN, '  File "/home/ann/data.py", line 7, in pack', "    x = pack(rows)", END],
        # a collator, a checkpoint, an evaluation of nothing that trains
        [BAR, *OWN, *trainer("torch/utils/data/_utils/collate.py"), END],
        [BAR, *OWN, *trainer("torch/serialization.py"), END],
        ["Encoding:  62%|######2   | 930/1500 [31:07<19:04,  2.01s/it]", END],
        [BAR, *OWN, *trainer("pytorch_lightning/trainer/trainer.py"), "MemoryError"],
        # no step was done: the model may be built or placed, or the optimizer makes its states
        [*OWN, *trainer("pytorch_lightning/trainer/trainer.py"), END],
        [*OWN, '  File "/opt/env/lightning/pytorch/trainer/call.py", line 9, in _call_setup_hook', "    hook()", END],
        [*OWN, *trainer("transformers/trainer.py"), END],
        [FIRST, *OWN, *trainer("pytorch_lightning/trainer/trainer.py"), END],
        [FIRST, END],
    ],
)
def test_not_what_may_be_anything(lines: list[str]) -> None:
    assert a_piece_of_a_training_on_the_cpu(crash(*lines)) is None


@pytest.mark.parametrize(
    "lines",
    [
        [BAR, *OWN, *trainer("pytorch_lightning/trainer/trainer.py"), END],
        [BAR, *OWN, *trainer("lightning/pytorch/trainer/trainer.py"), END],
        [BAR, *OWN, *trainer("transformers/trainer.py"), END],
        [BAR, *OWN, *trainer("fastai/learner.py"), END],
        [BAR, ENDS.format(2**30)],
        [BAR, *OWN, *trainer("ignite/engine/engine.py"), END],
    ],
)
def test_a_training_that_was_under_way(lines: list[str]) -> None:
    assert a_piece_of_a_training_on_the_cpu(crash(*lines)) is not None
    assert ranking(*lines)[0] == "activations"


def test_a_size_alone_does_not_tell_weights_from_activations() -> None:
    seen = a_piece_of_a_training_on_the_cpu(crash(BAR, END))
    assert seen is not None and "weights" not in seen.words
