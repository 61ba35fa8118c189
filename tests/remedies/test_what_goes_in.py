"""What goes into a model: texts are made shorter, pictures smaller, and where nobody knows, one sentence says both."""

from __future__ import annotations

import pytest
from remedy_logs import advise, cuda

LENGTH, SIZE = "shorter-sequences", "smaller-input"
OF_ANYTHING = '  File "/srv/job/fit.py", line 41, in step\n    y = net(x)\n'
OF_TEXTS = '  File "/srv/job/fit.py", line 41, in step\n    y = net(x, attention_mask=mask)\n'
OF_PICTURES = '  File "/srv/job/net.py", line 9, in forward\n    x = F.conv2d(x, w)\n'
OF_AN_ENGINE = '  File "/opt/vllm/worker/model_runner.py", line 9, in execute_model\n    return self.model(x)\n'
OF_TABLES = '  File "/opt/cudf/core/dataframe.py", line 9, in merge\n    return self._merge(right)\n'
TRACE = "Traceback (most recent call last):\n"


@pytest.mark.parametrize(
    ("said", "knob"),
    [
        (TRACE + OF_ANYTHING, SIZE),
        (TRACE + OF_PICTURES, SIZE),
        ("image 2048 * 1536\n" + TRACE + OF_ANYTHING, SIZE),
        (TRACE + OF_TEXTS, LENGTH),
        ("loading llama-7b\n" + TRACE + OF_ANYTHING, LENGTH),
        ("max_seq_length=4096\n" + TRACE + OF_ANYTHING, LENGTH),
    ],
)
def test_texts_are_shortened_and_all_else_made_smaller(said: str, knob: str) -> None:
    found = advise(
        f"{said.replace(OF_ANYTHING, '')}{TRACE}{OF_ANYTHING if OF_ANYTHING in said else said}{cuda()}", LENGTH, SIZE
    )[0]
    assert list(found) == [knob]


def test_a_line_that_resizes_pictures_is_for_pictures() -> None:
    unknown, known = (advise(TRACE + frame + cuda(), SIZE)[0][SIZE] for frame in (OF_ANYTHING, OF_PICTURES))
    assert (unknown.snippet, unknown.setting) == (None, None)
    assert known.snippet is not None
    assert "interpolate" in known.snippet


@pytest.mark.parametrize("line", [OF_AN_ENGINE, OF_TABLES])
def test_engines_and_tables_have_no_such_inputs(line: str) -> None:
    assert SIZE not in advise(TRACE + line + cuda(), LENGTH, SIZE)[0]
