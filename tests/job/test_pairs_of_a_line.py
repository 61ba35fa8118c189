"""Settings that a program prints as pairs on one line."""

from __future__ import annotations

import pytest

from oomdoctor import streams
from oomdoctor.job.context import ContextBuilder


def settings_of(log: str) -> dict[str, object]:
    job = ContextBuilder()
    job.add(streams.page("job.log", 1, log.encode()))
    return {name: setting.value for name, setting in job.build().settings.items()}


TRAINER = (
    "engine/trainer: task=detect, mode=train, model=a.yaml, epochs=100, batch=36, cache=True, device=0,1, workers=8"
)


@pytest.mark.parametrize("head", ["", "\x1b[34m\x1b[1m"])
def test_each_pair_is_a_setting(head: str) -> None:
    told = settings_of(f"{head}{TRAINER}\n")
    assert (told["batch"], told["workers"], told["device"], told["cache"]) == (36, 8, "0,1", True)


def test_a_value_may_be_empty() -> None:
    told = settings_of("train: weights=a.pt, cfg=, data=b.yaml, epochs=3, batch_size=16, imgsz=640\n")
    assert (told["batch_size"], told["cfg"]) == (16, "")


@pytest.mark.parametrize(
    "line",
    ["engine/trainer: batch=36, workers=8", "train: loss=0.3, lr=0.1, step=3, epoch=1", "engine/trainer: see batch=36"],
)
def test_a_few_pairs_are_no_settings(line: str) -> None:
    assert "batch" not in settings_of(f"{line}\n")
    assert "lr" not in settings_of(f"{line}\n")


TEMPLATE = "python3 tools/fill_template.py -i repo/trt/config.pbtxt "


@pytest.mark.parametrize(
    ("log", "name", "value"),
    [
        (TEMPLATE + "max_queue_size:8,kv_cache_free_gpu_mem_fraction:0.35,batching_mode:", "max_queue_size", 8),
        (TEMPLATE + "max_queue_size:8,kv_cache_free_gpu_mem_fraction:0.35", "kv_cache_free_gpu_mem_fraction", 0.35),
        (TEMPLATE + "kv_cache_free_gpu_mem_fraction:0.35", "kv_cache_free_gpu_mem_fraction", 0.35),
        (TEMPLATE + "\\\n  engine_dir:/repo/trt/1,\\\nmax_beam_width:2,\\\nmax_queue_size:8\n", "max_queue_size", 8),
        (TEMPLATE + "\\\n  engine_dir:/repo/trt/1,\\\nmax_beam_width:2", "engine_dir", "/repo/trt/1"),
        ("python fit.py --fast true warm_up:20,peak_rate:0.3", "peak_rate", 0.3),
    ],
)
def test_a_list_of_pairs_behind_a_script_is_settings(log: str, name: str, value: object) -> None:
    assert settings_of(log)[name] == value


@pytest.mark.parametrize(
    "log",
    [
        "python fit.py --fast true my_image:20\n",  # one pair, as an image has
        "docker run -v /a_b:/c_d my_image:3 python fit.py\n",
        "python fit.py --fast true node-1:2379,node-2:2379\n",
        "python fit.py --fast true node1:2379,node2:2379\n",
        "python fit.py --fast true a_b:1,c_d\n",
        "it was told max_queue_size:8,max_beam_width:2\n",
        "max_queue_size:8\n",
        "python fit.py \\\n  my_image:20\n",
    ],
)
def test_what_only_looks_like_pairs_is_none(log: str) -> None:
    assert (
        not {"my_image", "node1", "node_1", "a_b", "c_d", "max_queue_size", "max_beam_width"} & settings_of(log).keys()
    )
