"""What a log names beside a refusal: the logits, a container that Kubernetes evicts, files of rows, what draws."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_logs import crash, refused, trace
from reports import body

from oomdoctor.signs import held_data, limits, neighbours, other_words

LOW = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 88140Ki. Container {} was using {}, "
ABORTED = ("memory allocation of 17179869184 bytes failed", "Aborted (core dumped)")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("RuntimeError: not enough GPU memory for the logits of one chunk", "logits"),
        ("RuntimeError: not enough device memory for the log-softmax", "log-softmax"),
        ("RuntimeError: no GPU memory left for fused cross entropy", "fused cross entropy"),
        ("RuntimeError: no GPU memory left for the logbook", None),
        ("RuntimeError: no GPU memory left for the cross attention", None),
        ("RuntimeError: not enough host memory for the logits", None),
        ("RuntimeError: not enough GPU memory. Use --chunked-logits", None),
        ("RuntimeError: not enough GPU memory for the vocabulary of the search", None),
    ],
)
def test_a_message_that_names_the_logits(line: str, named: str | None) -> None:
    seen = other_words.logits_by_the_message(crash("step 3 loss 2.1", line))
    assert (seen is not None) == (named is not None)
    assert seen is None or str(named) in seen.words


@pytest.mark.parametrize(
    ("used", "request_", "held"),
    [
        ("121634816Ki", "16Gi", True),
        ("3Gi", "1Gi", True),
        ("2Gi", "1Gi", False),  # no more than half is beyond it
        ("204800Ki", "64Mi", False),
        ("33554432Ki", "30Gi", False),
        ("33554432Ki", "0", False),  # evicted first, whatever it used
        ("8Gi", "16Gi", False),
    ],
)
def test_an_evicted_container_far_over_its_request(tmp_path: Path, used: str, request_: str, *, held: bool) -> None:
    line = f"{LOW.format('finetune', used)}request is {request_}, has larger consumption of memory."
    assert (limits.an_evicted_container_held_it(crash(line)) is not None) == held
    found = body(tmp_path, line)["diagnoses"][0]
    assert (found["cause"] == "process-ram-hog") == held
    assert ("container finetune: it held" in found["headline"]) == held


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (("left: orders.csv, 91204411 rows", "right: items.csv, 4120441 rows"), True),
        (("scan trips.parquet: 810 M rows", "group_by(zone).agg(quantiles)"), True),
        (("scan trips.parquet", "a", "b", "c"), False),
        (("wrote trips.parquet",), False),
        (("trips.parquet done",), False),
        (("reading model.csv", "loading the weights of the model"), False),
        (("scan trips.parquet", "step 12 loss 0.4"), False),
        (("scan trips.bin",), False),
    ],
)
def test_a_file_of_rows_in_the_last_lines(lines: tuple[str, ...], *, named: bool) -> None:
    assert (held_data.refused_at_a_file(crash(*lines, *ABORTED)) is not None) == named


def test_a_traceback_names_the_work_itself() -> None:
    code = trace(("grid/core.py", "solve", "return self.solver.run(x)"))
    log = crash("scan trips.parquet", *code, "MemoryError: std::bad_alloc")
    assert held_data.refused_at_a_file(log) is None


@pytest.mark.parametrize(
    ("place", "engine"),
    [
        ("sglang/multimodal_gen/runtime/models/dits/flux.py", False),
        ("vllm_omni/diffusion/models/dit.py", False),
        ("sglang/srt/models/llama.py", True),
    ],
)
def test_what_draws_has_no_share_of_the_card(place: str, *, engine: bool) -> None:
    log = crash(*trace((place, "forward", "x = self.ffn(x)")), refused(tried="5.00 GiB", free="3.00 GiB"))
    assert log.job.in_engine == engine


@pytest.mark.parametrize(
    ("code", "first"),
    [
        ('out = net(x.to("cuda"))', False),
        ("loss = self.model(**batch.to(device))", False),
        ("y = policy(obs, state.cuda())", False),
        ('x = x.to("cuda")', True),
        ("model = nn.DataParallel(model.cuda())", True),
        ("net.to(device)", True),
        ("show(net.to(device))", True),
    ],
)
def test_what_goes_into_a_model_is_no_first_touch(code: str, *, first: bool) -> None:
    log = crash(
        "Traceback (most recent call last):", '  File "bench.py", line 9, in <module>', f"    {code}",
        "RuntimeError: CUDA error: out of memory",
    )  # fmt: skip
    assert (neighbours.refused_at_the_first_touch(log) is not None) == first
