"""What functions of libraries make in one piece, and what their sizes depend on: near misses first."""

from __future__ import annotations

from math import isqrt

import pytest
from gpu_logs import TRACEBACK, crash, frame, refused

from oomdoctor.causes import Cause, causes
from oomdoctor.decision.diagnosis import decide
from oomdoctor.incident.model import Crash
from oomdoctor.remedies.knobs import KNOBS as ALL_KNOBS
from oomdoctor.report.headline import headline
from oomdoctor.signs import made, sizes
from oomdoctor.signs.made import FLOAT32, KINDS, KNOBS, as_broadcast, made_of, nodes_of, nodes_that_fit, table

NETWORK = frame("torch/nn/modules/module.py", "_call_impl", "return forward_call(*args, **kwargs)")
CONVOLUTION = frame("torch/nn/modules/conv.py", "_conv_forward", "return F.conv3d(input, weight, bias)")
ADJACENCY = frame("torch_geometric/utils/_to_dense_adj.py", "to_dense_adj", "adj = scatter(edge_attr, idx, dim=0)")
FIT = ['  File "/home/ann/fit.py", line 7, in fit', "    s = to_dense_adj(data.edge_index)[0]"]


def failing(*frames: list[str], **figures: str) -> Crash:
    return crash(TRACEBACK, *(line for each in frames for line in each), refused(**figures))  # type: ignore[arg-type]


def first(it: Crash) -> Cause:
    return decide(it).answers[0].cause


@pytest.mark.parametrize(
    "frames",
    [
        # a function of the same name elsewhere, or of one that only ends like it
        [frame("mine/flows.py", "follow_flows", "p = steps(p)")],
        [frame("mycellpose/dynamics.py", "follow_flows", "p = steps(p)")],
        [frame("cellpose/dynamics.py", "follow_flows_of_mine", "p = steps(p)")],
        [frame("cellpose/core.py", "run_net", "y = net(x)")],
        [frame("robot/utils.py", "dist", "d = a - b")],
        # what runs within the windows is the network
        [frame("monai/inferers/utils.py", "sliding_window_inference", "seg = predictor(patch)")],
        [frame("monai/inferers/utils.py", "sliding_window_inference", "seg = predictor(patch)"), NETWORK, CONVOLUTION],
        [ADJACENCY, NETWORK, CONVOLUTION],
        # too far out
        [ADJACENCY, *([frame("mine/a.py", "g", "return h()")] * 4)],
        # DDP does more in its constructor than to lay out buckets
        [frame("torch/nn/parallel/distributed.py", "__init__", "_sync_module_states(")],
        # batches matter here: as many masks at once as there are points in a batch
        [frame("segment_anything/utils/amg.py", "batched_mask_to_box", "in_height, _ = torch.max(masks, dim=-1)")],
        [frame("mine/model.py", "forward", "x = weights.to_dense()")],
        # a call stands in the innermost line, else it came back already
        [frame("mine/a.py", "run", "adj = adj.to_dense()"), frame("mine/b.py", "train", "y = x * 2")],
    ],
)
def test_what_makes_something_else(frames: list[list[str]]) -> None:
    assert made_of(failing(*frames)) is None


@pytest.mark.parametrize(
    ("at", "kind"),
    [
        (("cellpose/dynamics.py", "masks_to_flows_gpu", "T = torch.zeros(shape)"), "picture"),
        (("detectron2/layers/mask_ops.py", "_do_paste_mask", "gx = img_x.expand(N, h, w)"), "masks"),
        (("detectron2/modeling/postprocessing.py", "sem_seg_postprocess", "result = F.interpolate("), "picture"),
        (("torchvision/models/detection/roi_heads.py", "paste_masks_in_image", "ret = torch.stack(res)"), "masks"),
        (("mmdet/models/roi_heads/mask_heads/fcn_mask_head.py", "_do_paste_mask", "grid = torch.stack("), "masks"),
        (("ultralytics/utils/ops.py", "process_mask_native", "masks = scale_masks(masks)"), "masks"),
        (("monai/inferers/utils.py", "sliding_window_inference", "out.append(new_tensor(output_shape"), "output"),
        (("monai/inferers/merger.py", "__init__", "self.values = torch.zeros(self.merged_shape)"), "output"),
        (
            (
                "nnunetv2/inference/predict_from_raw_data.py",
                "_internal_predict_sliding_window_return_logits",
                "a = torch.zeros((n,",
            ),
            "output",
        ),
        (("realesrgan/utils.py", "tile_process", "self.output = self.img.new_zeros(output_shape)"), "output"),
        (("demucs/apply.py", "apply_model", "out = th.zeros(batch, channels, length)"), "output"),
        (("torch_geometric/utils/to_dense_adj.py", "to_dense_adj", "adj = torch.zeros(size)"), "square"),
        (("networkx/convert_matrix.py", "to_numpy_array", "A = np.full((nlen, nlen))"), "square"),
        (("mine/gae.py", "loss", "target = self.adjacency().to_dense()"), "square"),
        (("torch/functional.py", "cdist", "return _VF.cdist(x1, x2, p, None)"), "pairs"),
        (("sentence_transformers/util.py", "cos_sim", "return torch.mm(a_norm, b_norm.transpose(0, 1))"), "pairs"),
        (("pytorch_metric_learning/distances/lp_distance.py", "compute_mat", "return torch.cdist(a, b)"), "pairs"),
        (("dgl/transforms/functional.py", "pairwise_squared_distance", "return x2s + x2s.t()"), "pairs"),
        (("gpytorch/kernels/kernel.py", "covar_dist", "res = dist_func(x1, x2)"), "pairs"),
        (("geomloss/utils.py", "squared_distances", "D_xy = torch.matmul(x, y.permute(0, 2, 1))"), "pairs"),
        (("ot/utils.py", "euclidean_distances", "c = -2 * nx.dot(X, Y.T)"), "pairs"),
        (
            ("torchvision/ops/boxes.py", "_box_inter_union", "lt = torch.max(boxes1[:, None, :2], boxes2[:, :2])"),
            "boxes",
        ),
        (("torchvision/ops/boxes.py", "nms", "return torch.ops.torchvision.nms(boxes, scores, t)"), "suppression"),
        (("raft/core/corr.py", "corr", "corr = torch.matmul(fmap1.transpose(1,2), fmap2)"), "pixels"),
        (("torch/nn/parallel/distributed.py", "_ddp_init_helper", "self.reducer = dist.Reducer("), "gradients"),
        (
            ("megatron/core/distributed/param_and_grad_buffer.py", "__init__", "self.grad_data = torch.zeros("),
            "gradients",
        ),
    ],
)
def test_what_a_function_makes(at: tuple[str, str, str], kind: str) -> None:
    found = made_of(failing(frame(*at)))
    assert found is not None
    assert (found.kind, found.function) == (kind, at[1])


def test_rows_are_of_a_kind_with_words_and_knobs() -> None:
    assert {row.kind for row in table()} <= KINDS.keys() == KNOBS.keys()
    assert {knob for knobs in KNOBS.values() for knob in knobs} | {row.knob for row in table()} <= ALL_KNOBS.keys()
    assert all(row.instead or row.knob == KNOBS[row.kind][0] for row in table())


# --- Matrices of graphs ---


@pytest.mark.parametrize(("tried", "nodes"), [("100.00 GiB", 163_000), ("37.25 GiB", 99_900), ("4.00 MiB", 1_020)])
def test_the_nodes_of_a_dense_matrix_follow_from_its_bytes(tried: str, nodes: int) -> None:
    it = failing(FIT, ADJACENCY, tried=tried)
    assert nodes_of(it) == nodes
    seen = made.of_all_pairs(it)
    assert seen is not None
    assert f"About {nodes:,} nodes = sqrt(" in seen.words
    assert nodes <= isqrt((it.root.figures("usage")["tried_bytes"]) // FLOAT32) < nodes * 1.01


def test_how_many_nodes_fit_follows_from_what_is_free() -> None:
    assert nodes_that_fit(failing(FIT, ADJACENCY, tried="100.00 GiB", free="10.00 GiB")) == (51_800, 10 << 30)
    assert nodes_that_fit(failing(FIT, ADJACENCY, tried="100.00 GiB", free="0 bytes")) is None


def test_other_pairs_have_no_nodes() -> None:
    it = failing(frame("torch/functional.py", "cdist", "return _VF.cdist(x1, x2, p, None)"), tried="100.00 GiB")
    assert nodes_of(it) is None
    assert made.of_all_pairs(it) is not None


@pytest.mark.parametrize(("frames", "is_right"), [([FIT, ADJACENCY], True), ([FIT], False)])
def test_a_value_for_every_pair_is_no_wrong_shape(frames: list[list[str]], is_right: bool) -> None:
    it = failing(*frames, tried="900.00 GiB", total="15.77 GiB", free="14.00 GiB", own="1.50 GiB", allocated="1.00 GiB")
    assert (made.as_large_as_all_pairs(it) is not None) is is_right
    assert first(it).id == ("activations" if is_right else "absurd-size")


# --- One input ---


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("count_map_list.append(torch.zeros(output_shape))", "activations"),
        ("outs = torch.cat(all_preds)", "eval-accumulation"),
    ],
)
def test_what_windows_are_put_together_in_is_no_prediction_of_many_batches(code: str, cause: str) -> None:
    main = [
        '  File "/home/ann/test.py", line 7, in validation',
        "    pred = sliding_window_inference(image, roi, 1, model)",
    ]
    it = failing(main, frame("monai/inferers/utils.py", "sliding_window_inference", code))
    assert first(it).id == cause


# --- Two models ---


@pytest.mark.parametrize(
    ("size", "found"),
    [
        (640**4 * 2, (640, 2)),
        (320**4 * 4, (320, 4)),
        (640**4 * 2 + 2, None),
        (640**4, None),
        (640 * 640 * 1280 * 2, None),
        (63**4 * 2, None),
        (32**4 * 2, None),
    ],
)
def test_a_broadcast_has_four_equal_axes(size: int, found: tuple[int, int] | None) -> None:
    assert as_broadcast(size) == found


def merging(size: int, function: str = "weighted_sum") -> Crash:
    return crash(
        TRACEBACK,
        f'  File "/opt/webui/modules/extras.py", line 97, in {function}',
        "    return ((1 - alpha) * theta0) + (alpha * theta1)",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you "
        f"tried to allocate {size} bytes. Error code 12 (Cannot allocate memory)",
    )


def test_two_models_of_different_kinds_are_named() -> None:
    assert made.of_two_models(merging(320**4 * 2 + 64)) is None
    assert made.of_two_models(merging(320**4 * 2, "run_pnginfo")) is None
    it = merging(320**4 * 2)
    seen = made.of_two_models(it)
    assert seen is not None
    assert "320^4 x 2 bytes" in seen.words
    assert first(it).id == "absurd-size"
    assert headline(first(it), it).startswith("A merged weight (weighted_sum) would take 19.5 GiB")


# --- Gradients, plans, layouts ---


@pytest.mark.parametrize(("code", "said"), [("self.reducer = dist.Reducer(", True), ("_verify_param_shape(", False)])
def test_gradients_of_all_ranks_are_no_weights(code: str, said: bool) -> None:
    it = failing(
        frame("torch/nn/parallel/distributed.py", "_ddp_init_helper", code),
        tried="20.00 GiB",
        free="9.00 GiB",
        total="39.39 GiB",
        own="30.10 GiB",
        allocated="20.10 GiB",
    )
    cause = next(one for one in causes() if one.id == "model-does-not-fit")
    assert ("DDP's gradient buckets beside the weights: 20.00 GiB" in headline(cause, it)) is said
    assert (made.of_all_gradients(it) is not None) is said


@pytest.mark.parametrize(
    ("last", "function"),
    [("plan_fft! at src/fft/highlevel.jl:10 [inlined]", "plan_fft!"), ("fft! at src/definitions.jl:51", None)],
)
def test_a_plan_is_told_from_other_calls_of_the_library(last: str, function: str | None) -> None:
    it = crash("CUFFTError(code 2, cuFFT failed to allocate GPU or CPU memory)", "Stacktrace:", f" [3] {last}")
    found = made_of(it)
    assert (found.function if found is not None else None) == function
    assert (made.of_a_plan(it) is not None) is (function is not None)


@pytest.mark.parametrize(("array", "is_known"), [("pmeGrid2", True), ("interactingTiles", True), ("velm", False)])
def test_a_simulation_names_its_array(array: str, is_known: bool) -> None:
    it = crash(f"openmm.OpenMMException: Error creating array {array}: CUDA_ERROR_OUT_OF_MEMORY (2)")
    seen = made.of_a_layout(it)
    assert (seen is not None) is is_known
    assert seen is None or array in seen.words


def test_a_negative_size_is_no_broadcast() -> None:
    frames = (
        "Traceback (most recent call last):",
        '  File "/srv/modules/extras.py", line 97, in weighted_sum',
        "    a + b",
    )
    line = "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate -64424509440 bytes."
    assert made.of_two_models(crash(*frames, line)) is None


@pytest.mark.parametrize(("tried", "possible"), [("3901.00 GiB", True), ("67109892.01 GiB", False)])
def test_all_pairs_take_no_more_than_a_machine_has(tried: str, possible: bool) -> None:
    lines = (
        "Traceback (most recent call last):",
        '  File "/opt/torch/functional.py", line 1336, in cdist',
        "    return _VF.cdist(x1, x2, p, None)",
        refused(tried=tried),
    )
    assert made.as_large_as_all_pairs(crash(*lines)) is not None
    assert (sizes.size_of_all_pairs(crash(*lines)) is not None) is possible
