from __future__ import annotations

from pathlib import Path

import pytest
from gpu_logs import BACKWARD, FORWARD, LOSS, finding, missing, ranking, refused, ruled_out, trace

import oomdoctor
from oomdoctor.causes.allocator_fragmentation import CAUSE
from oomdoctor.signs import Grade

HINT = (
    " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to "
    "avoid fragmentation."
)


def test_not_the_hint_that_is_always_printed() -> None:
    why = ruled_out(CAUSE, refused(tried="2.00 GiB", allocated="77.90 GiB", unallocated="46.00 MiB") + HINT)
    assert "46 MiB reserved but unallocated (0.1% of the GPU)" in why


def test_not_a_rest_that_would_not_do_in_one_piece_either() -> None:
    assert "less than the requested 8.36 GiB" in ruled_out(
        CAUSE, refused(tried="8.36 GiB", allocated="40.30 GiB", unallocated="4.91 GiB")
    )


def test_not_an_ordinary_cache() -> None:
    assert "a normal cache" in ruled_out(
        CAUSE, refused(tried="1.00 GiB", allocated="60.00 GiB", unallocated="2.00 GiB")
    )


def test_not_when_the_card_itself_has_room() -> None:
    line = refused(
        tried="2.00 MiB",
        free="201.75 GiB",
        total="287.98 GiB",
        own=None,
        allocated="69.40 GiB",
        unallocated="15.62 GiB",
    )
    assert "is free outside PyTorch's cache" in ruled_out(CAUSE, line)


def test_not_when_the_cure_is_set_already() -> None:
    lines = (
        "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        refused(tried="3.00 GiB", allocated="31.66 GiB", unallocated="4.11 GiB"),
    )
    assert "already on" in ruled_out(CAUSE, *lines)


def test_a_cut_message_is_not_enough() -> None:
    assert "reserved but unallocated" in missing(CAUSE, refused(unallocated=None))


def test_graph_pools_of_old_versions_speak_against_it() -> None:
    graphs = trace(("vllm/worker/model_runner.py", "capture", "with torch.cuda.graph(self._graph):"))
    found = finding(CAUSE, *graphs, refused(tried="1.00 GiB", allocated="31.00 GiB", unallocated="6.00 GiB"))
    assert found.grade == Grade.HINTS
    assert found.against


def test_more_idle_than_asked_for_decides() -> None:
    for tried, grade in (("1.15 GiB", Grade.PROVES), ("3.15 GiB", Grade.HINTS)):
        line = refused(tried=tried, allocated="31.66 GiB", unallocated="4.11 GiB")
        found = finding(CAUSE, *trace(FORWARD), line)
        assert found.grade == grade
        assert "4.11 GiB" in found.why
        assert tried in found.why


@pytest.mark.parametrize(
    ("frame", "second"),
    [
        (FORWARD, "smaller-microbatch"),
        (BACKWARD, "smaller-microbatch"),
        (("store/rows.py", "write", "rows = torch.cat(rows)"), "smaller-microbatch"),
        (LOSS, "chunked-logits"),
        (
            ("nets/attention.py", "forward", "scores = (q @ k.transpose(-2, -1)).softmax(-1)"),
            "memory-efficient-attention",
        ),
    ],
)
def test_less_of_what_asked_for_the_piece_comes_second(frame: tuple[str, str, str], second: str) -> None:
    line = refused(tried="3.15 GiB", allocated="31.66 GiB", unallocated="4.11 GiB")
    assert finding(CAUSE, *trace(frame), line).knobs[:2] == ("allocator-config", second)


def test_the_old_messages_reserved_figure_gives_the_idle_part() -> None:
    line = (
        "RuntimeError: CUDA out of memory. Tried to allocate 3.25 GiB (GPU 2; 23.69 GiB total capacity; 14.40 GiB "
        "already allocated; 1.98 GiB free; 20.71 GiB reserved in total by PyTorch)"
    )
    assert "6.31 GiB" in finding(CAUSE, line).why


def test_it_comes_before_the_pass_that_it_happened_in_where_much_lies_idle() -> None:
    for tried, first in (("1.15 GiB", "allocator-fragmentation"), ("3.15 GiB", "activations")):
        line = refused(tried=tried, total="39.39 GiB", own="36.30 GiB", allocated="31.66 GiB", unallocated="4.11 GiB")
        assert ranking(*trace(FORWARD), line)[0] == first
        assert set(ranking(*trace(FORWARD), line)[:2]) == {"allocator-fragmentation", "activations"}


def test_neighbours_that_hold_more_than_lies_idle_come_first() -> None:
    others = ((41, "3.10 GiB"), (42, "4.20 GiB"))
    line = refused(
        tried="1.80 GiB",
        free="1.20 GiB",
        total="15.77 GiB",
        own="7.10 GiB",
        allocated="5.00 GiB",
        unallocated="1.90 GiB",
        others=others,
    )
    assert finding(CAUSE, line).against
    assert ranking(*trace(FORWARD), line)[0] == "gpu-shared"


def test_a_small_neighbour_does_not_explain_what_lies_idle() -> None:
    line = refused(
        tried="1.80 GiB",
        free="0.60 GiB",
        total="31.70 GiB",
        own="28.10 GiB",
        allocated="18.00 GiB",
        unallocated="9.50 GiB",
        others=((41, "3.00 GiB"),),
    )
    assert not finding(CAUSE, line).against


DUMP = (
    "W bfc_allocator.cc:482] Allocator (GPU_0_bfc) ran out of memory trying to allocate {}requested by op conv",
    "I bfc_allocator.cc:1110] Sum Total of in-use chunks: 3.00GiB",
    "I bfc_allocator.cc:1112] total_region_allocated_bytes_: 8589934592 memory_limit_: 8589934592 available bytes: 0",
)


def test_tensorflows_pool_with_room_in_pieces() -> None:
    found = finding(CAUSE, DUMP[0].format("2.00GiB (rounded to 2147483648)"), *DUMP[1:])
    assert (
        "pool has 8.00 GiB, of which 3.00 GiB is in use. The other 5.00 GiB is more than requested (2.00 GiB)"
        in found.why
    )


def test_not_tensorflows_pool_that_is_too_small() -> None:
    assert "less than requested (6.00 GiB)" in ruled_out(
        CAUSE, DUMP[0].format("6.00GiB (rounded to 6442450944)"), *DUMP[1:]
    )


SUMMARY = (
    "|                  PyTorch CUDA memory summary, device ID 0                 |",
    "| Allocated memory      |   9321 MiB |  15012 MiB |    412 GiB |    403 GiB |",
    "| GPU reserved memory   |  15240 MiB |  15240 MiB |  30480 MiB |  15240 MiB |",
    "|===========================================================================|",
    "",
)


def test_the_last_memory_summary_stands_in_for_the_cut_sentence() -> None:
    found = finding(CAUSE, *SUMMARY, *trace(FORWARD), refused(tried="4.50 GiB", own=None, allocated=None))
    assert "PyTorch has 5.78 GiB reserved but unallocated" in found.why
    assert [event.kind for event in found.evidence] == ["out-of-memory", "memory-summary"]


def test_not_by_the_summary_of_another_card() -> None:
    other = SUMMARY[0].replace("ID 0", "ID 1")
    missing(CAUSE, other, *SUMMARY[1:], *trace(FORWARD), refused(tried="4.50 GiB", own=None, allocated=None))


def test_not_what_lies_idle_in_any_pool() -> None:
    small = DUMP[0].format("512.00MiB (rounded to 536870912)")
    why = ruled_out(CAUSE, small, DUMP[1].replace("3.00GiB", "7.00GiB"), DUMP[2])
    assert "1.00 GiB unused is normal" in why
    assert "not in one piece" in finding(CAUSE, small, *DUMP[1:]).why


@pytest.mark.parametrize(("function", "capped"), [("densify_and_prune", True), ("_grow_gs", True), ("render", False)])
def test_a_scene_that_grows_is_capped(tmp_path: Path, function: str, capped: bool) -> None:
    log = (
        "Training progress:  36%|####      | 10800/30000 [12:12<29:36, 10.8it/s]\n"
        "Traceback (most recent call last):\n"
        f'  File "/x/gaussian-splatting/scene/gaussian_model.py", line 394, in {function}\n    self.prune(mask)\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 372.00 MiB. GPU 0 has a total capacity of "
        "7.78 GiB of which 168.00 MiB is free. Including non-PyTorch memory, this process has 7.11 GiB memory in use. "
        "Of the allocated memory 5.10 GiB is allocated by PyTorch, and 1.85 GiB is reserved by PyTorch but "
        "unallocated.\n"
    )
    (tmp_path / "job.log").write_text(log, encoding="utf-8")
    found = oomdoctor.diagnose(tmp_path).as_json()["diagnoses"][0]
    assert found["cause"] == "allocator-fragmentation"
    assert ("cap-primitives" in [one["knob"] for one in found["remedies"][:3]]) is capped
