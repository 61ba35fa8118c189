"""What a program of one's own prints of its settings, and what only looks like it."""

from __future__ import annotations

from pathlib import Path

import pytest

import oomdoctor

KILLED = "run.sh: line 2:    12 Killed     python fit.py\n"


def settings(tmp_path: Path, *lines: str) -> dict[str, object]:
    (tmp_path / "job.log").write_text("\n".join([*lines, KILLED]), encoding="utf-8")
    found: dict[str, object] = oomdoctor.diagnose(tmp_path / "job.log").as_json()["context"]["settings"]
    return found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("config: batch=256 seq=1024", {"batch": 256, "seq": 1024}),
        ("Config: batch 256, context 1024", {"batch": 256, "context": 1024}),
        ("[run] settings -> rows: 5000 | cache: memory", {"rows": 5000, "cache": "memory"}),
        ("args: --batch=256 --layers=12", {"batch": 256, "layers": 12}),
        ("hyper-parameters: {'batch': 256, 'dropout': 0.1}", {"batch": 256, "dropout": 0.1}),
        ("Namespace(batch=256, seq=1024)", {"batch": 256, "seq": 1024}),
        ("batch=256 seq=1024 layers=12", {"batch": 256, "seq": 1024, "layers": 12}),
        ("[fit] batch=256, seq=1024, layers=12", {"batch": 256, "seq": 1024, "layers": 12}),
        ("fit.py: batch=256 seq=1024 layers=12", {"batch": 256, "seq": 1024, "layers": 12}),
        ("batch=256 seq=1024", {}),  # two are as well a metric's
        ("batch=256 seq=1024 loss=0.3", {}),
        ("batch=256 seq=1024 layers=12 and more to come", {}),
        ("the config: it is read from disk", {}),
        ("config: it is read from disk, batch=256", {}),
        ("myconfig: batch=256 seq=1024", {}),
        ("config: batch=256 seq", {}),
        ("options: " + ", ".join(f"'key{n}'" for n in range(3)), {}),
        ("Model config: {" + ", ".join(f"'key{n}': {n}" for n in range(40)) + "}", {}),
        ("please set the args: batch=256 seq=1024", {}),
    ],
)
def test_pairs_of_one_line(tmp_path: Path, line: str, found: dict[str, object]) -> None:
    assert settings(tmp_path, line) == found


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["Config:", "  batch: 256", "  context : 1024", "ready"], {"batch": 256, "context": 1024}),
        (["=== Arguments ===", "batch        = 256", "=====", "depth = 4", "go"], {"batch": 256, "depth": 4}),
        (["Run settings", "- batch: 256", "ready", "depth: 4"], {"batch": 256}),
        (["The config is read", "batch: 256"], {}),
        (["Summary", "batch: 256", "depth: 4"], {}),
        (["Options", "batch: 256 or so"], {}),
    ],
)
def test_a_row_each_below_a_head(tmp_path: Path, lines: list[str], found: dict[str, object]) -> None:
    assert settings(tmp_path, *lines) == found


def test_what_is_printed_again_is_a_metric(tmp_path: Path) -> None:
    assert settings(tmp_path, *(f"shard={n} rows={n * 500} skipped={n}" for n in range(3))) == {}


@pytest.mark.parametrize(("line", "snippet"), [("config: batch=256 seq=1024", "batch=128"), ("ready", None)])
def test_a_remedy_says_it_as_it_is_printed(tmp_path: Path, line: str, snippet: str | None) -> None:
    (tmp_path / "job.log").write_text(f"{line}\nstep 1 loss 4.6\nstep 2 loss 4.5\n{KILLED}", encoding="utf-8")
    remedies = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]["remedies"]
    assert next((one["snippet"] for one in remedies if one["knob"] == "smaller-microbatch"), None) == snippet


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("llama_model_loader: - kv   3:                       llama.context_length u32              = 4096", {}),
        ("Model metadata: {'general.architecture': 'llama', 'llama.context_length': '4096'}", {}),
        ("engine args: {'context_length': 4096}", {"context_length": 4096}),
        ("context_length: 4096", {"context_length": 4096}),
    ],
)
def test_what_a_file_says_of_its_model_is_no_setting(tmp_path: Path, line: str, found: dict[str, object]) -> None:
    assert settings(tmp_path, line) == found


@pytest.mark.parametrize("line", ["Llama.generate: 9 prefix-match hit", "Llama._create_completion: cache save"])
def test_a_script_that_calls_llama_has_options_of_its_own(tmp_path: Path, line: str) -> None:
    command = "python mail.py --model m.gguf --prompt-cache-mb 512"
    log = f"+ {command}\nllama_context: n_ctx = 512\n{line}\nrun.sh: line 2:    12 Killed     {command}\n"
    (tmp_path / "job.log").write_text(log, encoding="utf-8")
    remedies = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]["remedies"]
    assert "--prompt-cache-mb" in [one["setting"] for one in remedies]


COLUMNS = ("  keep_last     12", "  num_frames    48", "  decode_chunk  0", "  seed          7")


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (COLUMNS, {"keep_last", "num_frames", "decode_chunk", "seed"}),
        (COLUMNS[:3], set()),
        ((*COLUMNS[:3], "  seed     7"), set()),  # in another column
        ((*COLUMNS, "  loss          0.5"), set()),  # a metric among them
        (("run.yaml", *COLUMNS[:2], "reads now", *COLUMNS[2:]), set()),
    ],
)
def test_two_columns_are_settings(tmp_path: Path, lines: tuple[str, ...], found: set[str]) -> None:
    assert settings(tmp_path, *lines).keys() == found


YAML = ("data:", "  source: clicks.parquet", "trees:", "  max_depth: 14", "  max_bin: 1024")


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (("+ python trees.py --config trees.yaml", *YAML), True),
        (("+ python trees.py trees.yaml", *YAML), True),
        (("Config:", *YAML), True),
        (("+ python trees.py --seed 7", *YAML), False),
        (("+ python trees.py --config trees.yaml", "it reads", *YAML), False),
    ],
)
def test_a_file_of_settings_that_is_printed(tmp_path: Path, lines: tuple[str, ...], found: bool) -> None:
    assert (settings(tmp_path, *lines).get("max_depth") == 14) is found


def test_a_size_is_a_setting_and_alone_a_metric(tmp_path: Path) -> None:
    assert settings(tmp_path, "solver=rk4 batch_size=512 remat=none")["batch_size"] == 512
    assert "solver" not in settings(tmp_path, "solver=rk4 size=512 remat=none")


def test_a_head_may_stand_right_before_its_dict(tmp_path: Path) -> None:
    assert settings(tmp_path, "Preprocessing parameters {'image_edge': 224, 'writers': 2}")["image_edge"] == 224
    assert settings(tmp_path, "Preprocessing parameters of {'image_edge': 224, 'writers': 2}") == {}
