"""What a message itself advises is read as the knobs that it names, placed, quoted and, where it is wrong, refuted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from effort import seconds
from msgspec.structs import replace
from remedy_logs import crashes_of, cuda, kill

from oomdoctor import diagnose
from oomdoctor.families.event import Surroundings
from oomdoctor.incident.model import Crash
from oomdoctor.remedies import Remedy
from oomdoctor.remedies.advised import Advised, advised, placed, table
from oomdoctor.remedies.knobs import KNOBS

HICACHE = (
    "ValueError: Not enough host memory available. Requesting {tried} GB but only have {free} GB free. Please reduce "
    "the size of the hierarchical cache.\n"
)


def crash_with(words: str, pool: str = "gpu", launch: str = "") -> Crash:
    """A crash whose message ends with these words."""
    (crash,) = crashes_of(launch + cuda(free="1.00 GiB"))
    root = replace(crash.root, at=replace(crash.root.at, text=words), around=Surroundings())
    return replace(crash, root=root, events=(root,), pool=pool)


def named(words: str, pool: str = "gpu", launch: str = "") -> list[tuple[str, str]]:
    return [(one.knob, one.turn) for one in advised(crash_with(words, pool, launch))]


@pytest.mark.parametrize(
    ("words", "pool", "knobs"),
    [
        ("No room. Try lowering --gpu-memory-utilization.", "gpu", ["lower-engine-reservation"]),
        ("Try lowering --max-num-seqs, decreasing max_model_len", "gpu", ["fewer-sequences", "shorter-context"]),
        ("No room. Try increasing `gpu_memory_utilization`.", "kv_cache", ["raise-engine-reservation"]),
        ("Please try lowering `max_num_seqs` or `max_num_batched_tokens`.", "gpu", ["fewer-sequences"]),
        ("Out of memory: decrease max_num_seqs, and/or enable eager mode.", "gpu", ["fewer-sequences", "eager-mode"]),
        ("set --mem-fraction-static to a smaller value", "gpu", ["lower-engine-reservation"]),
        ("set --mem-fraction-static to a larger value", "kv_cache", ["raise-engine-reservation"]),
        ("You should reduce the batch size.", "gpu", ["smaller-microbatch"]),
        ("Increase the swap space, or reduce the swap space", "host_ram", ["less-swap-space"]),
        ("reduce the size of the hierarchical cache", "host_ram", ["less-offload"]),
        ("Bus error. Please increase --shm-size of docker run.", "shm", ["bigger-shm"]),
        ("raise your shared memory limit", "shm", ["bigger-shm"]),
        ("Consider reducing the number of workers.", "host_ram", ["fewer-workers"]),
        ("max_model_len (131072) is too large", "kv_cache", ["shorter-context"]),
        ("Reduce GPU memory used by other processes.", "gpu", ["free-the-gpu"]),
        ("please increase spark.executor.memory, or raise the memory limit", "cgroup", ["raise-container-limit"]),
    ],
)
def test_a_verb_and_what_it_is_about(words: str, pool: str, knobs: list[str]) -> None:
    found = [knob for knob, _ in named(words, pool)]
    assert found[: len(knobs)] == knobs


@pytest.mark.parametrize(
    ("words", "pool"),
    [
        # printed whatever happened
        ("If reserved memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "gpu"),
        ("If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.", "gpu"),
        ("To adjust the kill threshold, set the environment variable `RAY_memory_usage_threshold`.", "host_ram"),
        ("Consider provisioning more memory on this node or reducing task parallelism by more CPUs.", "host_ram"),
        ("Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit", "gpu"),
        # the other way round, or of another pool
        ("Try increasing max_num_seqs.", "gpu"),
        ("Try lowering `gpu_memory_utilization`.", "kv_cache"),
        ("raise your shared memory limit", "gpu"),
        ("Please increase the batch size.", "gpu"),
        # told, not advised
        ("The batch size was reduced to 4.", "gpu"),
        ("The engine lowers max_num_seqs by itself and goes on.", "gpu"),
        ("gpu_memory_utilization is 0.9", "gpu"),
        ("using --max-num-seqs 256 as given", "gpu"),
        ("", "gpu"),
        # about nothing that we know
        ("Try another day.", "gpu"),
        ("Please set CUDA_LAUNCH_BLOCKING=1 for debugging.", "gpu"),
        ("Please use the issue tracker.", "gpu"),
    ],
)
def test_what_is_no_advice(words: str, pool: str) -> None:
    assert named(words, pool) == []


def test_rays_kill_advises_the_same_each_time() -> None:
    (crash,) = crashes_of(kill(60.0, 62.0, "1\t58.00\tpython train.py\n"))
    assert advised(crash) == ()


def test_to_ask_for_less_is_no_answer_where_there_was_room() -> None:
    (crash,) = crashes_of(cuda(tried="44.00 MiB", free="15.41 GiB"))
    root = replace(crash.root, at=replace(crash.root.at, text="Try lowering --gpu-memory-utilization."))
    assert advised(replace(crash, root=root, events=(root,))) == ()


def test_the_engine_that_prints_it_knows_its_own_options() -> None:
    """SGLang's --max-running-requests is no other engine's option of that name."""
    (crash,) = crashes_of(
        "RuntimeError: Capture cuda graph failed: CUDA out of memory. Tried to allocate 224.00 MiB.\n"
        "Possible solutions:\n1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
        "2. set --cuda-graph-max-bs to a smaller value (e.g., 16)\n"
    )
    assert [(one.knob, one.quote) for one in advised(crash)] == [
        ("lower-engine-reservation", '"set --mem-fraction-static to a smaller value"'),
        ("eager-mode", '"set --cuda-graph-max-bs to a smaller value"'),
    ]


def test_the_quotation_ends_with_its_line() -> None:
    words = "Try lowering `max_num_seqs`\nwarmup{max_input=4095}: text_client: router/client/src/lib.rs"
    assert [one.quote for one in advised(crash_with(words))] == ['"lowering max_num_seqs"']


@pytest.mark.parametrize("head", ["[1700000001.118566] [n07:811:0] ", "2026-03-01 10:22:31,118 WARN ", "[10:22:31] "])
def test_a_sentence_ends_where_another_record_begins(head: str) -> None:
    assert named(f"Please set the limit to 'unlimited' (current: 64)\n{head}max_num_seqs of the scheduler") == []
    assert named("Please set the limit to\n2 or lower max_num_seqs of the scheduler") == [("fewer-sequences", "lower")]


def test_the_table_names_knobs_and_turns() -> None:
    rows = [row for row in table() if row.knob != "never"]
    assert {row.knob for row in rows} <= KNOBS.keys()
    assert {row.turn for row in rows} == {"lower", "raise", "use"}
    assert all(word == word.lower() for row in rows for word in row.words)


@pytest.mark.parametrize("words", ["a_" * 1900, "please reduce " * 250, "--" * 1900, "a." * 1900 + " is", "(" * 3900])
def test_no_text_keeps_it_busy(words: str) -> None:
    assert named(words) == []
    assert seconds(lambda: named(words)) < 5


# where it stands


def remedy(knob: str, suggested: Any = None, setting: str | None = None) -> Remedy:
    return Remedy(knob=knob, action=knob, suggested=suggested, setting=setting)


def said(*knobs: str, what: str = "words for it") -> list[Advised]:
    event = crash_with("").root
    return [Advised(knob, "lower", what, f'"{knob}"', event) for knob in knobs]


LISTED = [remedy(knob) for knob in ("a", "b", "c")]


def order(remedies: list[Remedy], *knobs: str) -> list[str]:
    return [one.knob for one in placed(remedies, said(*knobs))]


def test_what_has_a_value_leads() -> None:
    assert order([*LISTED, remedy("fewer-sequences", 8)], "fewer-sequences") == ["fewer-sequences", "a", "b", "c"]


def test_what_has_none_stands_among_the_first_three() -> None:
    assert order([*LISTED, remedy("fewer-sequences")], "fewer-sequences") == ["a", "b", "fewer-sequences", "c"]


def test_what_stands_there_already_stays() -> None:
    assert order([remedy("a"), remedy("fewer-sequences"), remedy("b")], "fewer-sequences") == [
        "a", "fewer-sequences", "b",
    ]  # fmt: skip


def test_what_has_to_be_bought_does_not_lead() -> None:
    assert order([*LISTED, remedy("tensor-parallel", 2)], "tensor-parallel") == ["a", "b", "tensor-parallel", "c"]


def test_two_lead_at_most() -> None:
    values = [remedy(knob, 1) for knob in ("x", "y", "z")]
    assert order([*LISTED, *values], "x", "y", "z")[:4] == ["x", "y", "z", "a"]
    assert order(LISTED) == ["a", "b", "c"]


def test_it_is_quoted_unless_the_remedy_turns_another_option() -> None:
    (one,) = placed(
        [remedy("eager-mode", True, "--disable-cuda-graph")], said("eager-mode", what="--cuda-graph-max-bs")
    )
    assert one.action == "eager-mode"
    (one,) = placed([remedy("fewer-sequences", 8, "--max-num-seqs")], said("fewer-sequences", what="max_num_seqs"))
    assert one.action == 'fewer-sequences (log: "fewer-sequences")'


# the engine's own figures


@pytest.mark.parametrize(
    ("release", "tried", "free", "fits"),
    [
        ("0.4.6", "40.00", "44.87", 32),  # 44.87 GB - 10 GiB, and 5 % to spare
        ("0.5.3", "80.00", "44.87", 42),  # they are taken off what is printed
    ],
)
def test_the_hierarchical_cache_with_its_computed_size(
    tmp_path: Path, release: str, tried: str, free: str, fits: int
) -> None:
    path = tmp_path / "serve.log"
    path.write_text(f"sglang=={release}\n" + HICACHE.format(tried=tried, free=free))
    (incident,) = diagnose(path).as_json()["incidents"]
    first = incident["diagnoses"][0]["remedies"][0]
    assert (first["knob"], first["suggested"], first["snippet"]) == ("less-offload", fits, f"--hicache-size {fits}")
    assert '"reduce the size of the hierarchical cache"' in first["action"]


def test_a_hierarchical_cache_for_which_no_room_is_left(tmp_path: Path) -> None:
    path = tmp_path / "serve.log"
    path.write_text("sglang==0.4.6\n" + HICACHE.format(tried="40.00", free="10.90"))
    report = diagnose(path).as_json()
    (incident,) = report["incidents"]
    assert all(one["knob"] != "less-offload" for one in incident["diagnoses"][0]["remedies"])
    assert any("no room for the KV cache's host part" in one["why"] for one in report["advice_rejected"])


LOADING = (
    "(Worker_TP1 pid=61) ERROR [gpu_model_runner.py:4877] Failed to load model - not enough GPU memory. Try lowering "
    "--gpu-memory-utilization to free memory for weights, increasing --tensor-parallel-size, or using --quantization. "
    "(original error: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 1 has a total capacity of 23.55 GiB of "
    "which 98.00 MiB is free. Including non-PyTorch memory, this process has 23.40 GiB memory in use. Of the allocated "
    "memory 23.00 GiB is allocated by PyTorch, and 20.65 MiB is reserved by PyTorch but unallocated.)\n"
)


def test_a_share_that_is_taken_later_is_refuted(tmp_path: Path) -> None:
    path = tmp_path / "serve.log"
    path.write_text("vllm serve acme/chat --tensor-parallel-size 2 --gpu-memory-utilization 0.95\n" + LOADING)
    report = diagnose(path).as_json()
    first = report["incidents"][0]["diagnoses"][0]["remedies"]
    assert "lower-engine-reservation" not in [one["knob"] for one in first]
    assert any("takes its share later" in one["why"] for one in report["advice_rejected"])
