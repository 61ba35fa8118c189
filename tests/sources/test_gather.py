"""Which files are read of what the user names, in which order, and under which names."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from oomdoctor.sources import Trouble, gather


def write(folder: Path, *names: str, data: bytes = b"hello\n") -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def names(*paths: Path | str, absolute: bool = False) -> list[str]:
    sources, troubles = gather([str(path) for path in paths], absolute=absolute)
    assert troubles == []
    return [source.name for source in sources]


def test_a_single_file_goes_by_its_name(tmp_path: Path) -> None:
    write(tmp_path, "deep/job.log")
    assert names(tmp_path / "deep/job.log") == ["job.log"]


def test_several_inputs_go_by_their_path_below_their_common_parent(tmp_path: Path) -> None:
    write(tmp_path, "node1/raylet.out", "node2/raylet.out", "driver.txt")
    assert names(tmp_path / "node1/raylet.out", tmp_path / "node2/raylet.out", tmp_path / "driver.txt") == [
        "driver.txt", "node1/raylet.out", "node2/raylet.out",
    ]  # fmt: skip
    assert names(tmp_path / "node1", tmp_path / "driver.txt") == ["driver.txt", "node1/raylet.out"]


def test_a_sessions_logs_have_an_order_of_their_own_and_others_that_of_the_paths(tmp_path: Path) -> None:
    write(tmp_path, "z/train.log", "a/eval.log", "worker-0a-01000000-311.err", "raylet.out", "driver.log")
    shuffled = ["worker-0a-01000000-311.err", "z/train.log", "raylet.out", "a/eval.log", "driver.log"]
    assert names(*(tmp_path / name for name in shuffled)) == [
        "driver.log", "z/train.log", "a/eval.log", "raylet.out", "worker-0a-01000000-311.err",
    ]  # fmt: skip


def test_absolute_paths_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a/x.log")
    monkeypatch.chdir(tmp_path)
    assert names("a", absolute=True) == [(tmp_path / "a/x.log").as_posix()]
    assert names("./a/../a/x.log") == ["x.log"]


def test_nothing_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.log", "b.log")
    monkeypatch.chdir(tmp_path)
    assert names("b.log", tmp_path, tmp_path / "a.log", "./b.log") == ["b.log", "a.log"]


def test_standard_input_stands_where_it_was_named(tmp_path: Path) -> None:
    write(tmp_path, "a.log")
    assert names(tmp_path / "a.log", "-") == ["a.log", "<stdin>"]


SESSION = [
    "logs/job-driver-raysubmit_x.log",
    "logs/raylet.out.2",
    "logs/raylet.out.1",
    "logs/raylet.err",
    "logs/raylet.out",
    "logs/gcs_server.out",
    "logs/events/event_AUTOSCALER.log",
    "logs/events/event_RAYLET.log",
    "logs/old/worker-0a-01000000-3.err",
    "logs/worker-0b-01000000-9.out",
    "logs/worker-0b-01000000-10.out",
    "logs/dashboard_agent.log",
    "logs/monitor.log",
    "logs/python-core-worker-0a_3.log",
]
NO_LOGS = [
    "logs/debug_state.txt",
    "logs/debug_state_gcs.txt",
    "logs/export_events/event_EXPORT_TASK.log",
    "logs/events/event_EXPORT_ACTOR.log",
    "runtime_resources/working_dir_files/train.py",
    "runtime_resources/pip/out.log",
    "metrics/prometheus/prometheus.yml",
    "session.json",
    "artifacts/model.safetensors",
    "logs/.raylet.out.swp",
]


def test_a_session_folder_of_ray(tmp_path: Path) -> None:
    write(tmp_path, *SESSION, *NO_LOGS)
    write(tmp_path, "driver.log", "train_stdout.txt", "logs/worker-0c-ffffffff-7.err", data=b"job\n")
    write(tmp_path, "logs/worker-0d-ffffffff-8.out", data=b"")
    found = names(tmp_path)
    assert sorted(found) == sorted([*SESSION, "driver.log", "train_stdout.txt", "logs/worker-0c-ffffffff-7.err"])
    assert found[:3] == ["driver.log", "logs/job-driver-raysubmit_x.log", "train_stdout.txt"]
    assert found[3:7] == ["logs/raylet.err", "logs/raylet.out.2", "logs/raylet.out.1", "logs/raylet.out"]
    assert found[7:10] == ["logs/gcs_server.out", "logs/events/event_AUTOSCALER.log", "logs/events/event_RAYLET.log"]
    assert found.index("logs/worker-0b-01000000-9.out") < found.index("logs/worker-0b-01000000-10.out")
    assert found == names(tmp_path), "the order is stable"


def test_rays_own_plumbing_is_read_only_around_its_hits(tmp_path: Path) -> None:
    write(tmp_path, *SESSION)
    sources, _ = gather([str(tmp_path)])
    assert {Path(source.name).name for source in sources if not source.ends} == {
        "dashboard_agent.log", "python-core-worker-0a_3.log",
    }  # fmt: skip
    (asked_for,), _ = gather([str(tmp_path / "logs/python-core-worker-0a_3.log")])
    assert asked_for.ends


def test_any_folder_of_logs(tmp_path: Path) -> None:
    write(tmp_path, "slurm-123.out", "rank0/stderr.txt", "rank1/stderr.txt", "run.log.1", "noext")
    write(tmp_path, "train.py", "config.yaml", "README.md", "launch.sh", "loss.png")
    write(tmp_path, "weights.dat", data=bytes(range(256)) * 50)
    write(tmp_path, "packed.log.gz", data=gzip.compress(b"hello\n"))
    write(tmp_path, "state.json", data=json.dumps({"epoch": 1, "log": [{"a": 1}]}, indent=1).encode())
    write(tmp_path, "small.json", data=b'{"epoch": 1}')
    write(tmp_path, "list.json", data=b'[\n{"epoch": 1},\n{"epoch": 2}\n]')
    write(tmp_path, "pod.json", data=b'{"log": "CUDA out of memory"}\n{"log": "Killed"}\n')
    assert names(tmp_path) == [
        "noext", "packed.log.gz", "pod.json", "rank0/stderr.txt", "rank1/stderr.txt", "run.log.1", "slurm-123.out",
    ]  # fmt: skip


def test_what_is_named_is_read_whatever_its_name(tmp_path: Path) -> None:
    write(tmp_path, "config.json", "debug_state.txt")
    assert names(tmp_path / "config.json", tmp_path / "debug_state.txt") == ["config.json", "debug_state.txt"]


def test_links_are_not_followed_below_a_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write(outside, "secret.log")
    session = tmp_path / "session"
    write(session, "raylet.out")
    (session / "loop").symlink_to(session, target_is_directory=True)
    (session / "elsewhere").symlink_to(outside, target_is_directory=True)
    (session / "link.log").symlink_to(outside / "secret.log")
    (session / "dangling.log").symlink_to("nowhere")
    assert names(session) == ["raylet.out"]


def test_a_link_that_is_named_is_followed(tmp_path: Path) -> None:
    write(tmp_path, "session_1/logs/raylet.out")
    (tmp_path / "session_latest").symlink_to("session_1", target_is_directory=True)
    assert names(tmp_path / "session_latest") == ["logs/raylet.out"]


def test_what_is_not_there_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    write(tmp_path, "good.log")
    (tmp_path / "empty").mkdir()
    write(tmp_path, "pictures/loss.png")
    gone, empty, pictures = (str(tmp_path / name) for name in ("gone.log", "empty", "pictures"))
    sources, troubles = gather([gone, str(tmp_path / "good.log"), empty, pictures, "a\0b", ""])
    assert [source.name for source in sources] == ["good.log"]
    assert troubles == [
        Trouble("gone.log", "no such file"),
        Trouble(Path(empty).as_posix(), "no logs in this folder"),
        Trouble(Path(pictures).as_posix(), "no logs in this folder"),
        Trouble("a\ufffdb", "no such file"),
        Trouble("", "no such file"),
    ]


@pytest.mark.skipif(os.name == "nt", reason="no such names there")
def test_names_from_a_hostile_archive_can_be_printed(tmp_path: Path) -> None:
    for name in (b"\xff.log", b"\xfe.log", b"a\nb\x1b[2J.log", "\u202egol.log".encode()):
        (tmp_path / os.fsdecode(name)).write_bytes(b"hello\n")
    found = names(tmp_path)
    assert len(set(found)) == 4
    assert all(character.isprintable() for name in found for character in name)
    "".join(found).encode()
