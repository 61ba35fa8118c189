"""The files of `oomdoctor/job/frameworks/`: what they may say, and that nothing of it is said elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import oomdoctor
from oomdoctor.job import frameworks as module
from oomdoctor.job.frameworks import (
    BY_METHOD,
    FOLDER,
    Engine,
    Framework,
    Layer,
    Style,
    Task,
    Trait,
    World,
    among,
    engine_printing,
    engines,
    framework,
    frameworks,
    hallmarks,
    has_versions,
    launched_by,
    layers,
    learners,
    logged_by,
    packages,
    programs,
    some,
    text_of,
    trainers,
    written_by,
)

NAMES = [each.name for each in frameworks()]
ROLES = {
    "policy", "ref", "reward", "critic", "engine", "driver", "environment", "data_loader", "object_store", "ray",
}  # fmt: skip
EACH = pytest.mark.parametrize("one", frameworks(), ids=NAMES)


def test_one_file_each() -> None:
    assert sorted(NAMES) == sorted(path.stem for path in FOLDER.glob("*.txt"))
    assert len(NAMES) > 40


# what a file says


@EACH
def test_a_file_says_who_it_is_and_what_was_read(one: Framework) -> None:
    first, second, *_ = text_of(one.name).splitlines()
    assert re.fullmatch(r"# \S.{1,60}: https://\S+", first), "the first line is its name and its address"
    assert first.startswith(f"# {one.title}: ")
    assert second.startswith("# read: "), "the second line says what was read, and when"


@EACH
def test_a_head_is_plain(one: Framework) -> None:
    head = text_of(one.name).partition(module.TABLE)[0]
    assert head.count("\n\n") == 1, "one blank line, behind the remarks"
    for line in head.splitlines():
        assert line == line.rstrip(), line
        assert len(line) <= 140, line
        assert "\t" not in line
        assert line.startswith(("#", "  ")) or re.fullmatch(r"|[a-z_]+:(?: .+)?", line), line


@EACH
def test_what_it_says_is_of_the_lists(one: Framework) -> None:
    assert one.world in get_args(World)
    assert one.task in get_args(Task)
    assert one.layer in get_args(Layer)
    assert one.engine in get_args(Engine)
    assert one.style in get_args(Style)
    assert {*one.traits} <= {*get_args(Trait)}
    assert one.share is not None or one.share_by == ""
    assert one.share is None or (one.engine != "never" and 0 < one.share <= 1)
    assert bool(one.roots) <= (one.style in ("overrides", "yaml"))


@EACH
def test_whom_it_names_has_a_file(one: Framework) -> None:
    inside = [engine for _, _, *engine in (*one.actors, *one.writers) if engine]
    pinned = [pin.partition(" ")[0] for pin in one.pins]
    for name in (*one.builds_on, *one.before, *one.borrows, *one.replaces, *pinned, *(name for (name,) in inside)):
        assert framework(name) is not None, name
        assert name != one.name


@EACH
def test_its_rows_are_whole(one: Framework) -> None:
    for _, role, *_ in (*one.actors, *one.writers, *one.titles, *one.methods, *one.commands):
        assert role in {*ROLES, BY_METHOD}
    assert any(role == BY_METHOD for _, role, *_ in (*one.actors, *one.titles)) == bool(one.methods)
    for expression in (
        *(row[0] for row in (*one.titles, *one.methods, *one.commands)),
        *(row[-1] for row in one.banners),
        *(row[0] for row in (*one.wordings, *one.layouts)),
    ):
        re.compile(expression.replace("{version}", r"(\d+)").replace("{build}", r"(\d+)"))
    for *_, expression in one.banners:
        assert expression.count("{version}") + expression.count("{build}") == 1
    for path in (*one.files, *one.trains_in):
        re.compile(path)


@EACH
def test_a_sign_is_long_enough_to_be_its_own(one: Framework) -> None:
    for sign in hallmarks().get(one.name, ()):
        assert len(sign) >= 4 or not sign.isascii(), sign
        assert not sign.isalpha() or not sign.islower() or sign in KNOWN_WORDS, f"a plain word is anybody's: {sign}"


KNOWN_WORDS = {"isaacgym", "jaxlib", "koboldcpp", "ollama", "oobabooga"}  # nobody else's


@EACH
def test_its_world_fits_its_task(one: Framework) -> None:
    if one.trains:
        assert one.world in ("torch", "jax", "tensorflow", "own") or one.layer == "base"  # whose arrays are a library's
        assert one.layer in ("program", "states", "local", "base")
    if one.layer == "engine":
        assert (one.world, one.task) == ("engine", "serving")
    if one.layer == "program":
        assert one.trains
    if one.layer == "states":
        assert one.task == "training"
    if one.layer == "host":
        assert (one.world, one.task) == ("none", "system")
        assert not (one.prints or one.actors or one.packages), "nothing of a job shows it"
    if one.task in ("data", "system"):
        assert one.world == "none"


def test_nobody_has_two_roles() -> None:
    roles: dict[str, set[str]] = {}
    for each in frameworks():
        for name, role, *_ in (*each.actors, *each.writers, *each.titles):
            roles.setdefault(name, set()).add(role)
    assert {name: of_name for name, of_name in roles.items() if len(of_name) > 1} == {}


@pytest.mark.parametrize(
    "value",
    ["worlds: torch", "world: torch\nbuilds on: ray", "prints: a\nprinted: b"],
    ids=["worlds", "blank", "printed"],
)
def test_a_key_that_there_is_not_is_refused(value: str) -> None:
    with pytest.raises(TypeError, match=r"x\.txt: there is no (worlds|builds on|printed)"):
        module._framework("x", f"# X: https://x.example\n# read: nothing\n\n{value}\n")


def test_a_head_is_read() -> None:
    one = module._framework(
        "x",
        "# X: Y: https://x.example\n# read: all, 2026-11\n\n"
        "world: jax\ntask: training\nlayer: base\nshare: 0.5  # config.py v1\nbefore: a, b\n"
        'prints:  # wherever a line holds them\n  [x] | "loss":  # since 1.2\n  "a blank "\n  # 3\n'
        "actors:\n  Worker | policy | vllm  # since 2\n",
    )
    assert (one.title, one.world, one.share, one.before) == ("X", "jax", 0.5, ("a", "b"))
    assert one.prints == ('[x] | "loss":', "a blank ", "# 3")
    assert one.actors == (("Worker", "policy", "vllm"),)
    assert (one.layer, one.engine, one.titles, one.share_by) == ("base", "never", (), "")
    with pytest.raises((AttributeError, TypeError)):
        one.world = "torch"


# asking


def test_outermost_first() -> None:
    place = {name: index for index, name in enumerate(NAMES)}
    for each in frameworks():
        for inner in (*each.builds_on, *each.before):
            assert place[each.name] < place[inner], (each.name, inner)
    order = get_args(Layer)
    ranks = [order.index(each.layer) for each in frameworks()]
    assert ranks == sorted(ranks)
    assert len({*NAMES}) == len(NAMES)


def test_lookups() -> None:
    verl = framework("verl")
    assert verl is not None
    assert (verl.world, verl.task, verl.engine, verl.style) == ("torch", "rl", "shared cards", "overrides")
    assert framework("no such thing") is None
    assert [each.name for each in among({"torch": None, "ray": "2.9", "verl": None, "peft": "0.1"})] == [
        "verl",
        "ray",
        "torch",
    ]
    assert {"vllm", "sglang", "lmdeploy", "tensorrt-llm"} <= engines()
    assert not engines() & {"ollama", "llama.cpp", "torch", "ray", "transformers"}
    assert {"verl", "trl", "deepspeed", "fsdp"} <= trainers()
    assert not trainers() & {"transformers", "torch", "ray", "vllm"}
    assert "verl" in learners()
    assert "trl" not in learners()
    assert "trl" in programs()
    assert "deepspeed" not in programs()
    assert some(["torch", "verl"], "brings states back")
    assert not some(["torch", "openrlhf", "no such thing"], "brings states back")
    assert has_versions("peft")
    assert not has_versions("docker")
    assert engine_printing("vllm_figures") == "vllm"
    assert engine_printing("cuda") is None
    assert "torch_npu" in packages()
    assert launched_by("+ vllm serve m\n+ python -m verl.trainer.main_ppo") == {"vllm", "verl"}
    assert launched_by("cat vllm.log") == set()
    assert logged_by("llamafactory.hparams.parser:401") == "llamafactory"
    assert logged_by("llama.factory:1") is None
    assert logged_by("distributed.worker.memory") == "dask"
    assert logged_by("mmdet") == "mmengine"
    assert set(written_by("SGLangEngine")) == {"slime", "sglang"}
    assert list(written_by("EngineCore_DP0")) == ["vllm"]
    assert list(written_by("Engine")) == []
    assert layers({"skyrl", "openrlhf"}) == ["skyrl", "ray"]  # borrowed names
    assert layers({"vllm-ascend", "peft"}) == ["vllm-ascend", "vllm", "peft"]


# nothing of it is said elsewhere

# What is left in each room. A family reads its program's own messages, and says whose they are.
REMAINING = {
    "arithmetic": {"vllm"},  # whose arithmetic it is
    "cli": {"ray"},  # the package to import
    "helpers": {"torch"},  # what forms call PyTorch
    "incident": {"ray"},  # what stands for the file of a remote call
    # the same, a role, a world, and sections and keys of configurations
    "job": {"deepspeed", "ray", "sglang", "torch", "trl", "vllm"},
    "remedies": {  # worlds, and whose arithmetic or arguments they are
        "deepspeed", "diffusers", "fsdp", "jax", "keras", "llama.cpp", "mlx", "optax", "ray", "sglang", "snakemake",
        "tensorflow", "torch", "transformers", "unsloth",
    },
    "report": {  # folders of libraries
        "cupy", "deepspeed", "java", "jax", "llama.cpp", "numba", "numpy", "pandas", "postgresql", "pyarrow", "ray",
        "sqlite", "tensorflow", "torch", "transformers",
    },
    "redaction": {"mysql"},  # a scheme of addresses
    "signs": {
        "deepspeed", "fsdp", "java", "jax", "lmdeploy", "megatron", "numpy", "postgresql", "ray", "redis", "spark",
        "sqlite", "tensorflow", "tensorrt-llm", "text-generation-inference", "torch",
    },
}  # fmt: skip
PACKAGE = Path(oomdoctor.__file__).parent


def _literals() -> Iterator[tuple[str, str]]:
    names = {each.name for each in frameworks() if each.layer != "host"}  # those are managers of limits, too
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE).as_posix()
        if not place.startswith(("families/", "training/", "job/frameworks/")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and node.value in names:
                    yield place.partition("/")[0], node.value


def test_no_framework_is_named_where_nobody_looks_for_it() -> None:
    assert [(room, name) for room, name in _literals() if name not in REMAINING.get(room, ())] == []
