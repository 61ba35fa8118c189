from __future__ import annotations

from gpu_logs import BACKWARD, finding, ranking, refused, says, trace

from oomdoctor.causes.gpu_memory_exhausted import CAUSE


def test_not_before_anything_that_tells_more() -> None:
    for lines in (
        [*trace(BACKWARD), refused()],
        [refused(own="9.00 GiB", allocated="8.00 GiB", others=((1, "69.00 GiB"),))],
    ):
        assert ranking(*lines)[0] != "gpu-memory-exhausted"
        assert "gpu-memory-exhausted" in ranking(*lines)


def test_weaker_still_where_a_frame_or_a_stage_is_known() -> None:
    assert finding(CAUSE, *trace(BACKWARD), refused()).weight < finding(CAUSE, refused()).weight <= 0.25


def test_not_a_hint_that_does_not_speak_of_memory() -> None:
    assert says(CAUSE, "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR") is None


def test_a_bare_refusal_is_all_there_is() -> None:
    line = (
        "RuntimeError: CUDA out of memory. Tried to allocate 16.00 MiB (GPU 0; 3.94 GiB total capacity; 3.50 GiB "
        "already allocated; 13.81 MiB free; 3.55 GiB reserved in total by PyTorch)"
    )
    assert ranking(line) == ["gpu-memory-exhausted"]
