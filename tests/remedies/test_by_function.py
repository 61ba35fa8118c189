"""Remedies in the words of the function that made the array, and those that change nothing in it."""

from __future__ import annotations

import pytest
from remedy_logs import advise, crashes_of, cuda

from oomdoctor import diagnose
from oomdoctor.remedies.by_function import ahead

AT = '  File "/v/lib/python3.11/site-packages/{}", line 7, in {}\n    {}\n'


def log(file: str, function: str, code: str, **figures: str) -> str:
    return "Traceback (most recent call last):\n" + AT.format(file, function, code) + cuda(**figures)


GRAPH = ("torch_geometric/utils/to_dense_adj.py", "to_dense_adj", "adj = torch.zeros(size)")
FLOWS = ("cellpose/dynamics.py", "masks_to_flows_gpu", "T = torch.zeros(shape)")
WINDOWS = ("monai/inferers/utils.py", "sliding_window_inference", "out.append(torch.zeros(output_shape))")
SCORES = ("sentence_transformers/util.py", "cos_sim", "return torch.mm(a, b)")
DISTANCES = ("torch/functional.py", "cdist", "return _VF.cdist(x1, x2, p, None)")
BOXES = ("mmdet/core/bbox/geometry.py", "bbox_overlaps", "ious = overlap / (area1[:, None] + area2 - overlap)")
ORDINARY = ("mine/model.py", "forward", "x = self.layer(x)")


@pytest.mark.parametrize(
    ("at", "knob"),
    [
        (FLOWS, "smaller-microbatch"),
        (FLOWS, "gradient-checkpointing"),
        (WINDOWS, "smaller-microbatch"),
        (GRAPH, "memory-efficient-attention"),
        (GRAPH, "mixed-precision"),
        (DISTANCES, "mixed-precision"),
        (DISTANCES, "shorter-sequences"),
    ],
)
def test_what_changes_nothing_is_not_advised(at: tuple[str, str, str], knob: str) -> None:
    assert knob not in advise(log(*at), knob, cause="activations")[0]


def test_an_ordinary_pass_keeps_its_remedies() -> None:
    kept = advise(log(*ORDINARY), "smaller-microbatch", "gradient-checkpointing", cause="activations")[0]
    assert list(kept) == ["smaller-microbatch", "gradient-checkpointing"]


def test_a_smaller_graph_has_room_for_so_many_nodes() -> None:
    remedy = advise(log(*GRAPH, tried="100.00 GiB", free="10.00 GiB"), "smaller-input", cause="activations")[0]
    assert remedy["smaller-input"].action == "Hand on a smaller graph: sample fewer than 51,800 of its nodes"
    assert remedy["smaller-input"].derivation == "sqrt(10.00 GiB free / 4 bytes) = 51,800"
    bare = advise(log(*GRAPH).replace("of which 1.00 GiB is free", "of which 0 bytes is free"), "smaller-input")[0]
    assert bare["smaller-input"].derivation is None


@pytest.mark.parametrize(
    ("at", "knob", "words", "cost"),
    [
        (FLOWS, "offload-activations", "Compute the flows on the CPU", "slower"),
        (WINDOWS, "tiled-processing", "sliding_window_inference(..., device='cpu')", "slower"),
        (SCORES, "smaller-microbatch", "semantic_search(", "slower"),
        (DISTANCES, "smaller-microbatch", "in blocks of rows", "slower"),
        (BOXES, "cap-primitives", "Crop the images with the most boxes", "fewer crowded images to learn from"),
    ],
)
def test_the_function_says_what_to_do_instead(at: tuple[str, str, str], knob: str, words: str, cost: str) -> None:
    remedy = advise(log(*at), knob, cause="activations")[0][knob]
    assert words in remedy.action
    assert (remedy.snippet, remedy.setting, remedy.cost) == (None, None, cost)


def test_its_own_remedy_goes_first_and_the_others_keep_their_order() -> None:
    text = log(*WINDOWS)
    kept = list(advise(text, "clear-references", "tiled-processing", "smaller-input", cause="activations")[0].values())
    assert [one.knob for one in ahead(kept, crashes_of(text)[0])] == [
        "tiled-processing", "clear-references", "smaller-input",
    ]  # fmt: skip
    assert ahead(kept, crashes_of(log(*ORDINARY))[0]) == kept


def test_a_graph_in_whole(tmp_path: object) -> None:
    file = tmp_path / "fit.log"  # type: ignore[operator]
    file.write_text(log(*GRAPH, tried="600.00 GiB", total="15.77 GiB", free="12.00 GiB", own="3.50 GiB"))
    first = diagnose(str(file)).incidents[0].diagnoses[0]
    assert first.headline.startswith("GPU 0 has no room for a dense adjacency matrix of about 401,000 x 401,000")
    assert first.remedies[0].knob == "smaller-input"


NODE = ("custom_nodes/upscale/nodes.py", "execute")
ALL_FRAMES = "out = torch.empty((n, h * scale, w * scale, c), dtype=torch.float32)"
REFUSED = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:117] data. DefaultCPUAllocator: not enough memory: you tried to "
)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ALL_FRAMES, True),
        ("result = torch.zeros([images.shape[0], height, width, 3])", True),
        ("out = torch.empty((h, w, c))", False),
        ("out = torch.empty((n, dim))", False),
        ("mask = torch.ones((seq, seq, heads, width))", False),
    ],
)
def test_a_node_that_makes_one_array_of_all_frames_gets_fewer_at_once(code: str, *, told: bool) -> None:
    text = f"Traceback (most recent call last):\n{AT.format(*NODE, code)}{REFUSED}allocate 24883200000 bytes.\n"
    chosen, _ = advise(text, "smaller-buffers", cause="address-space-limit")
    remedy = chosen.get("smaller-buffers")
    assert (remedy is not None and "fewer frames at once" in remedy.action) is told
    if told and remedy is not None:
        assert (
            remedy.derivation == "24,883,200,000 bytes / 12 = 2,073,600,000 pixels, as in 1,000 frames of 1920 x 1080"
        )
        assert remedy.assumes == ("three channels in float32",)


def test_pictures_of_another_size_of_pixels_are_not_counted() -> None:
    text = f"Traceback (most recent call last):\n{AT.format(*NODE, ALL_FRAMES)}{REFUSED}allocate 24883200001 bytes.\n"
    assert advise(text, "smaller-buffers", cause="address-space-limit")[0]["smaller-buffers"].derivation is None


def test_a_gpu_takes_them_in_tiles() -> None:
    chosen, _ = advise(log(*NODE, ALL_FRAMES), "smaller-buffers", cause="activations")
    assert all("frames at once" not in remedy.action for remedy in chosen.values())
