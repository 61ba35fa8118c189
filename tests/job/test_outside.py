"""Launch scripts, configurations and assumptions: what they add to a log, and where the log wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import oomdoctor
from oomdoctor.job import outside, plain_yaml, script
from oomdoctor.job.outside import OutsideError

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacity of 23.60 GiB "
    "of which 1.25 GiB is free. Including non-PyTorch memory, this process has 22.30 GiB memory in use. Of the "
    "allocated memory 21.00 GiB is allocated by PyTorch, and 900.00 MiB is reserved by PyTorch but unallocated.\n"
)
SCRIPT = """\
#!/bin/bash
#SBATCH --mem=64G
##SBATCH --mem=32G
TP=2
export VLLM_USE_V1=1   # the new engine
# --zero_stage 1
read -r -d '' training_commands <<EOF
openrlhf.cli.train_ppo_ray \\
   --vllm_gpu_memory_utilization 0.6 --vllm_tensor_parallel_size ${TP} \\
   --zero_stage 3 --micro_train_batch_size ${MBS:-8} \\
   --pretrain "meta-llama/Llama-3-8B" --save_path /ckpt/$USER --seed $(date +%s) \\
   --adam_offload
EOF
python3 -m $training_commands
"""


def read_script(text: str) -> dict[str, Any]:
    return {flag.name: flag.value for flag in script.flags(text)}


def read_yaml(text: str) -> dict[str, Any]:
    return {stated.name: stated.value for stated in plain_yaml.read(text)}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text(OOM)
    return path


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


# scripts


def test_a_script_is_read_where_it_is_written_out() -> None:
    assert read_script(SCRIPT) == {
        "mem": "64G",
        "VLLM_USE_V1": 1,
        "vllm_gpu_memory_utilization": 0.6,
        "vllm_tensor_parallel_size": 2,
        "zero_stage": 3,
        "pretrain": "meta-llama/Llama-3-8B",
        "adam_offload": True,
    }
    lines = {flag.name: flag.line for flag in script.flags(SCRIPT)}
    assert lines["vllm_tensor_parallel_size"] == 9
    assert lines["adam_offload"] == 12


@pytest.mark.parametrize(
    "text",
    [
        "TP=2\nTP=4\npython t.py --tp_size $TP\n",
        "for TP in 2 4; do\npython t.py --tp_size $TP\ndone\n",
        "TP=$(nproc)\npython t.py --tp_size $TP\n",
        "TP=`nproc`\npython t.py --tp_size ${TP}\n",
        "TP=${1:-2}\npython t.py --tp_size=$TP\n",
        "python t.py --tp_size '$TP'\n",
        "python t.py --tp_size $((2*2))\n",
        "read -p tp: TP\npython t.py --tp_size $TP\n",
        "# python t.py --tp_size 2\n",
        "echo done # --tp_size 2\n",
    ],
)
def test_what_a_shell_would_have_to_be_run_for_is_left_out(text: str) -> None:
    assert "tp_size" not in read_script(text)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("TP=2\npython t.py --tp_size $TP\n", "tp_size", 2),
        ('export TP="4"\npython t.py --tp_size=${TP}\n', "tp_size", 4),
        ("python t.py --note 'a # b' --tp_size 2 # why\n", "tp_size", 2),
        ("N=8\npython3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.n=$N\n", "actor_rollout_ref.rollout.n", 8),
        ("python t.py --tp_size 2; echo done\n", "tp_size", 2),
        ("ARGS=(\n  --tp-size 2\n)\npython t.py ${ARGS[@]}\n", "tp_size", 2),
        ("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python t.py\n", "PYTORCH_CUDA_ALLOC_CONF",
         "expandable_segments:True"),
    ],
)  # fmt: skip
def test_flags_overrides_and_the_environment(text: str, name: str, value: object) -> None:
    assert read_script(text)[name] == value


def test_an_endless_line_is_read_in_no_time() -> None:
    for piece in ("$(", "`", '"', "'", "${A", "--a=", "\\", "; ", "# "):
        list(script.flags(f"python t.py --tp_size 2 {piece * 40_000}\n"))


# configurations


def test_nested_keys_become_dotted_names() -> None:
    text = (
        "---\n# ours\nactor:\n  micro_batch_size: 4  # small\n  fsdp: {param_offload: yes, n: 2}\n"
        "  'path': \"a # b\"\nhooks:\n- name: x\n  n: 9\ntext: |\n  n: 7\n  m\nl: [1, 2]\nnone:\nlast: ~\nlr: 1e-5\n"
    )
    assert read_yaml(text) == {
        "actor.micro_batch_size": 4,
        "actor.fsdp.param_offload": True,
        "actor.fsdp.n": 2,
        "actor.path": "a # b",
        "last": None,
        "lr": 1e-5,
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a:\n\tb: 1\n", "line 2: a tab"),
        ("a: &x 1\n", "line 1: an anchor"),
        ("a: 1\nb: *x\n", "line 2: an alias"),
        ("b:\n  <<: *x\n", "line 2: a merged key"),
        ("a: !!python/name:os.system 1\n", "line 1: a tag"),
        ("a: 1\n---\na: 2\n", "line 2: a second document"),
        ("a: {b: 1,\n  c: 2}\n", "line 1: a { that is not closed"),
        ("a: 'b\n", "line 1: a quoted text"),
        ("just words\n", "line 1: no `key: value`"),
        ("".join(f"{' ' * n}k:\n" for n in range(40)), "line 33: more than 32"),
    ],
)
def test_what_the_reader_does_not_know_it_says(text: str, told: str) -> None:
    with pytest.raises(plain_yaml.UnreadableYamlError, match=told.replace("{", r"\{")):
        list(plain_yaml.read(text))


def test_json_with_its_lines(tmp_path: Path) -> None:
    config = written(tmp_path, "ds.json", '{"zero_optimization": {\n "stage": 2,\n "on": true}, "hf_token": "x"}')
    told = outside.read(config=[config])
    assert [(s.name, s.value, s.outside) for s in told.settings] == [
        ("zero_optimization.stage", 2, "ds.json line 2"),
        ("zero_optimization.on", True, "ds.json line 3"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("x.json", '{"a": 1,\n}', "x.json line 2: no JSON"),
        ("x.json", "[1]", "a JSON object with names"),
        ("x.json", '{"a":' * 100_000, "nested too deeply"),
        ("x.toml", "a = 1", "TOML is not read"),
        ("x.yaml", "a: *b", "x.yaml line 1: an alias"),
        ("x.yaml", "a: \0", "NUL"),
    ],
)
def test_an_unreadable_configuration_says_where_and_what_to_do(tmp_path: Path, name: str, text: str, told: str) -> None:
    with pytest.raises(OutsideError, match=told) as caught:
        outside.read(config=[written(tmp_path, name, text)])
    assert caught.value.kind == "config"


# assumptions


@pytest.mark.parametrize(
    ("one", "told"),
    [
        ("vllm", "no NAME=VALUE"),
        ("=3", "no NAME=VALUE"),
        ("zero_stage=", "no NAME=VALUE"),
        ("a b=3", "no NAME=VALUE"),
        ("vllm=new", "no version of vllm"),
    ],
)
def test_a_slip_of_an_assumption_is_explained(one: str, told: str) -> None:
    with pytest.raises(OutsideError, match=told):
        outside.read(assume=[one])


def test_versions_and_settings_are_told_apart() -> None:
    told = outside.read(assume=["vllm=v0.8.3", "--zero-stage=3", "bf16=true", "liger_kernel=0.5.2"])
    assert told.versions == (("vllm", "0.8.3"), ("liger-kernel", "0.5.2"))
    assert {s.name: s.value for s in told.settings} == {"zero_stage": 3, "bf16": True}


# joined with a log


def test_everything_from_outside_is_marked(log: Path, tmp_path: Path) -> None:
    run = written(tmp_path, "run.sh", SCRIPT)
    report = oomdoctor.diagnose(log, launch=run, assume=["micro_train_batch_size=8", "vllm=0.8.3"]).as_json()
    context = report["context"]
    assert context["frameworks"]["vllm"] == "0.8.3"
    assert context["frameworks"]["openrlhf"] is None
    assert context["settings"]["zero_stage"] == 3
    assert context["outside"]["zero_stage"] == "from run.sh line 10, not from the log"
    assert context["outside"]["vllm"] == "from --assume, not from the log"
    assert context["outside"]["meta-llama/Llama-3-8B"] == "from run.sh line 11, not from the log"
    remedies = [remedy for diagnosis in report["diagnoses"] for remedy in diagnosis["remedies"]]
    halved = next(remedy for remedy in remedies if remedy["knob"] == "smaller-microbatch")
    assert halved["suggested"] == 4
    assert "micro_train_batch_size=8 from --assume, not from the log" in halved["assumes"]
    assert "openrlhf from run.sh, not from the log" in halved["assumes"]


def test_without_anything_from_outside_nothing_is_marked(log: Path) -> None:
    report = oomdoctor.diagnose(log).as_json()
    assert "outside" not in report["context"]
    assert "not from the log" not in str(report)


def test_the_log_wins_and_a_contradiction_is_said(log: Path, tmp_path: Path) -> None:
    log.write_text("python t.py --zero_stage 3 --bf16 true\n" + OOM)
    run = written(tmp_path, "run.sh", "python t.py --zero_stage 2 --bf16 True --num_workers 4\n")
    report = oomdoctor.diagnose(log, launch=run)
    assert report.context["settings"]["zero_stage"] == 3
    assert report.context["settings"]["num_workers"] == 4
    assert list(report.context["outside"]) == ["num_workers"]
    assert report.notes == ("zero_stage is 3 in the log (train.log:1) and 2 in run.sh line 1: the log counts",)


def test_what_an_engine_prints_of_itself_wins_too(tmp_path: Path) -> None:
    log = written(
        tmp_path,
        "serve.log",
        "ValueError: Free memory on device (34.2/79.1 GiB) on startup is less than desired GPU memory utilization "
        "(0.9, 71.19 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n",
    )
    report = oomdoctor.diagnose(log, assume={"gpu_memory_utilization": 0.5})
    assert "gpu_memory_utilization" not in report.context["settings"]
    assert "gpu_memory_utilization is 0.9 in the log (serve.log:1) and 0.5 in --assume: the log counts" in report.notes


def test_versions_of_the_log_win(log: Path) -> None:
    log.write_text("vllm==0.9.1\n" + OOM)
    report = oomdoctor.diagnose(log, assume=["vllm=0.8.3"])
    assert report.context["frameworks"]["vllm"] == "0.9.1"
    assert report.notes == ("vllm is 0.9.1 in the log and 0.8.3 in --assume: the log counts",)


def test_two_values_in_one_script_are_none(log: Path, tmp_path: Path) -> None:
    run = written(tmp_path, "run.sh", "python a.py --zero_stage 2\npython b.py --zero_stage 3\n")
    report = oomdoctor.diagnose(log, launch=run)
    assert "zero_stage" not in report.context["settings"]
    assert report.notes == (
        "zero_stage is 2 (run.sh line 1) and 3 (run.sh line 2): neither is used; --assume says which",
    )


def test_a_third_value_is_not_told_again(log: Path, tmp_path: Path) -> None:
    run = written(tmp_path, "run.sh", "".join(f"python {n}.py --zero_stage {n}\n" for n in (1, 2, 3)))
    assert len(oomdoctor.diagnose(log, launch=run).notes) == 1


def test_a_version_that_the_log_prints_as_well_is_no_contradiction(log: Path) -> None:
    log.write_text("vllm==0.9.1\n" + OOM)
    assert oomdoctor.diagnose(log, assume=["vllm=0.9.1"]).notes == ()


def test_a_log_in_the_place_of_a_script_is_not_read_whole(tmp_path: Path) -> None:
    run = tmp_path / "train.log"
    with run.open("wb") as file:
        file.truncate(outside.LARGEST_FILE + 1)
    with pytest.raises(OutsideError, match=r"train\.log: larger than 4 MiB; name the script, not the log"):
        outside.read(launch=[run])


def test_a_launch_line_beats_a_configuration_and_an_assumption_both(log: Path, tmp_path: Path) -> None:
    config = written(tmp_path, "c.yaml", "zero_stage: 1\n")
    run = written(tmp_path, "run.sh", "python a.py --zero_stage 2\n")
    assert oomdoctor.diagnose(log, launch=run, config=config).context["settings"]["zero_stage"] == 2
    report = oomdoctor.diagnose(log, launch=run, config=config, assume=["zero_stage=3"])
    assert report.context["settings"]["zero_stage"] == 3
    assert len(report.notes) == 2


def test_a_script_of_another_framework_is_asked_about(log: Path, tmp_path: Path) -> None:
    log.write_text("python3 -m verl.trainer.main_ppo trainer.nnodes=1\n" + OOM)
    run = written(tmp_path, "run.sh", "deepspeed --module openrlhf.cli.train_sft --max_len 2048\n")
    report = oomdoctor.diagnose(log, launch=run)
    assert "openrlhf" not in report.context["frameworks"]
    assert "run.sh starts openrlhf, and the log is of verl: is it the right script?" in report.notes


def test_a_script_that_says_nothing_is_told(log: Path, tmp_path: Path) -> None:
    run = written(tmp_path, "run.sh", "echo hello\n")
    assert oomdoctor.diagnose(log, launch=run).notes == ("nothing that says how the job was set stands in run.sh",)


def test_keys_never_travel_and_escapes_end_here(log: Path, tmp_path: Path) -> None:
    run = written(tmp_path, "run.sh", "export HF_TOKEN=hf_abcdefghijklmnopqrst\npython t.py --run_name a\x1b[31mb\n")
    report = oomdoctor.diagnose(log, launch=run)
    assert report.context["settings"] == {"run_name": "ab"}
