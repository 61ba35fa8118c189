"""A variable that a program could not read is written as it reads it, where it is about the memory that ran out."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose
from oomdoctor.report.contract import Diagnosis

STAMP = "time=2026-03-04T05:06:07.800Z level={level} source=x.go:9 msg="
IGNORED = STAMP.format(level="WARN") + (
    '"invalid environment variable, using default" key={key} value={value} default=0\n'
)
PLAN = (
    STAMP.format(level="INFO") + '"offload to cuda" layers.requested=-1 layers.model={layers} layers.offload={planned} '
    'memory.available="[{there}]" memory.required.full="96.0 GiB" memory.required.partial="30.0 GiB" '
    'memory.weights.total="90.0 GiB"\n'
)
REFUSED = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 40960.00 MiB on device 0: "
    "cudaMalloc failed: out of memory\n"
    "llama_model_load: error loading model: unable to allocate CUDA0 buffer\n"
)
NAME = "OLLAMA_GPU_OVERHEAD"


def first(tmp_path: Path, *lines: str) -> Diagnosis:
    log = tmp_path / "serve.log"
    log.write_text("".join(lines))
    return diagnose(log).incidents[0].diagnoses[0]


def plan(planned: int = 12, layers: int = 48, there: str = "31.4 GiB") -> str:
    return PLAN.format(planned=planned, layers=layers, there=there)


@pytest.mark.parametrize(
    ("value", "size"), [("3G", 3 << 30), ("6GiB", 6 << 30), ("512m", 512 << 20), ("700KB", 700 << 10)]
)
def test_a_size_with_its_unit_is_said_in_bytes(tmp_path: Path, value: str, size: int) -> None:
    found = first(tmp_path, IGNORED.format(key=NAME, value=value), plan(), REFUSED).remedies[1]
    assert (found.knob, found.setting, found.current) == ("fix-environment", NAME, value)
    assert found.snippet == f"export {NAME}={size}"
    assert f"{value} was not understood (line 1)" in found.action
    assert (found.derivation or "").startswith(value.rstrip("GiBKmM") + " x 1024")
    assert (found.derivation or "").endswith(f"= {size}")


def test_the_last_try_counts(tmp_path: Path) -> None:
    tries = (IGNORED.format(key=NAME, value=value) for value in ("2G", "5G"))
    assert first(tmp_path, *tries, plan(), REFUSED).remedies[1].snippet == f"export {NAME}={5 << 30}"


@pytest.mark.parametrize(
    "line",
    [
        "",
        IGNORED.format(key="OLLAMA_NUM_PARALLEL", value="4G"),  # a number, of requests
        IGNORED.format(key=NAME, value="much"),
        IGNORED.format(key=NAME, value="1.5"),
        IGNORED.format(key=NAME, value="3G;reboot"),
        STAMP.format(level="INFO") + f'"server config" env="map[{NAME}:3221225472]"\n',
        f"{NAME}=3G is what we set\n",
    ],
)
def test_what_is_no_such_size_is_left_alone(tmp_path: Path, line: str) -> None:
    found = first(tmp_path, line, plan(), REFUSED)
    assert all("was not understood" not in one.action for one in found.remedies)


def test_room_on_the_gpu_is_no_room_in_ram(tmp_path: Path) -> None:
    short = (
        STAMP.format(level="ERROR")
        + '"load failed" error="model requires more system memory (52.0 GiB) than is available (30.1 GiB)"\n'
    )
    found = first(tmp_path, IGNORED.format(key=NAME, value="3G"), short)
    assert found.pool == "host_ram"
    assert all(one.setting != NAME for one in found.remedies)


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        (plan(), True),
        (plan(planned=48), False),  # the whole model
        (plan(there="31.4 GiB 31.4 GiB"), False),  # whose share on this one is not printed
        ("", False),
    ],
)
def test_the_headline_says_whose_weights_they_are(tmp_path: Path, text: str, layers: bool) -> None:
    headline = first(tmp_path, text, REFUSED).headline
    assert headline.startswith(
        "The weights of 12 of 48 layers (40.00 GiB)" if layers else "The model's weights (40.00 GiB)"
    )


def test_ollamas_runner_takes_none_of_llama_cpps_flags(tmp_path: Path) -> None:
    written = {one.snippet for one in first(tmp_path, plan(), REFUSED).remedies}
    assert "ollama pull MODEL:SMALLER_SIZE" in written
    assert not any("llama-quantize" in (line or "") for line in written)
    alone = {one.snippet for one in first(tmp_path, "llama_model_load: loading model\n", REFUSED).remedies}
    assert any("llama-quantize" in (line or "") for line in alone)
