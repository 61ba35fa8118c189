"""What vllm.rs says of its KV cache, and what is said of a prompt that it refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose
from oomdoctor.report.contract import Diagnosis

REFUSED = (
    "ERROR vllm_rs::server::server: Chat failed: Remaining {} kvcache tokens, but your prompt requires {} new tokens, "
)
LATER = "please request later!\n"
EVICTED = (
    "ERROR xinfer::server::server: Chat failed: Remaining {} kvcache tokens, but your request requires at least {} "
    "tokens (prompt plus 256 decode budget tokens), "
)
USAGE = (
    "INFO vllm_rs::core::scheduler: GPU Kvcache: 40 blocks (2560 tokens) free, used {}% (1.00GB/{}GB); "
    "CPU swap used 0.0% (0.00GB/4.00GB)\n"
)


def first(tmp_path: Path, text: str) -> Diagnosis:
    log = tmp_path / "serve.log"
    log.write_text(text)
    return diagnose(log).incidents[0].diagnoses[0]


def test_the_last_refusal_counts(tmp_path: Path) -> None:
    log = REFUSED.format(640, 9600) + LATER + REFUSED.format(2560, 3200) + LATER
    found = first(tmp_path, log)
    assert found.cause == "kv-pool-exhausted"
    assert found.headline == "vllm.rs refused a prompt that needs 3,200 tokens of KV cache; 2,560 were free"
    assert "3,200" in found.explanation
    assert "9,600" not in found.explanation
    assert [shown.line for shown in found.evidence][:1] == [2]


@pytest.mark.parametrize(("usage", "told"), [(USAGE.format("37.5", "6.00"), True), ("", False)])
def test_how_full_the_cache_was(tmp_path: Path, usage: str, told: bool) -> None:
    found = first(tmp_path, usage + REFUSED.format(2560, 3200) + LATER)
    assert ("The cache was 38% in use (6.00 GiB)." in found.explanation) == told


def test_a_release_that_evicts_prefixes_is_named(tmp_path: Path) -> None:
    one = first(tmp_path, REFUSED.format(2560, 3200) + LATER).remedies[0]
    assert one.knob == "pin-version"
    assert "vllm.rs to 0.11.0 or later" in one.action


def test_who_evicts_already_is_not_told_to_upgrade(tmp_path: Path) -> None:
    found = first(tmp_path, EVICTED.format(128, 4096) + LATER)
    assert found.cause == "kv-pool-exhausted"
    assert found.headline.startswith("xInfer refused a prompt that needs 4,096 tokens")
    assert [one.knob for one in found.remedies][:2] == ["quantize-kv-cache", "raise-engine-reservation"]
    assert found.remedies[0].snippet == "--kvcache-dtype fp8"


@pytest.mark.parametrize(("prefix", "line"), [(REFUSED, "--fp8-kvcache"), (EVICTED, "--kvcache-dtype fp8")])
def test_each_is_told_its_own_flags(tmp_path: Path, prefix: str, line: str) -> None:
    assert line in {one.snippet for one in first(tmp_path, prefix.format(64, 512) + LATER).remedies}


@pytest.mark.parametrize(
    "text",
    [
        'bail!("Remaining {} kvcache tokens, but your prompt requires {} new tokens, please request later!")\n',
        USAGE.format("99.9", "6.00"),
        "INFO vllm_rs::core::scheduler: Remaining 640 kvcache tokens for the next prompt\n",
        "WARN xinfer::core::engine: Evicted 12 prefix cache block(s) to reserve 4096 KV tokens for request admission\n",
    ],
)
def test_a_healthy_server_refuses_nothing(tmp_path: Path, text: str) -> None:
    log = tmp_path / "serve.log"
    log.write_text(text)
    assert diagnose(log).verdict == "no-oom"
