from __future__ import annotations

import time

import pytest

from oomdoctor.job.literals import entries, strings, typed


def read(text: str, *, bare: bool = False) -> dict[str, object]:
    return {e.name: e.value for e in entries(text, bare=bare)}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("0.85", 0.85),
        ("8", 8),
        ("-1", -1),
        ("5e-7", 5e-7),
        ("True", True),
        ("false", False),
        ("None", None),
        ("null", None),
        ("nan", "nan"),
        ("inf", "inf"),
        ("64G", "64G"),
        ("0,1", "0,1"),
        ("9" * 40, "9" * 40),
        ("1e999", "1e999"),
    ],
)
def test_words_are_typed_and_nothing_json_cannot_hold_comes_out(word: str, value: object) -> None:
    found = typed(word)
    assert found == value
    assert type(found) is type(value)


def test_a_namespace_in_a_namespace_gives_dotted_names() -> None:
    text = "Namespace(seed=7, vllm=Namespace(num_engines=2, gpu_memory_utilization=0.6), actor=Namespace(x=None))"
    assert read(text) == {"seed": 7, "vllm.num_engines": 2, "vllm.gpu_memory_utilization": 0.6, "actor.x": None}


def test_a_dict_over_many_lines_and_a_string_in_pieces() -> None:
    text = "{'rollout': {'n': 8,\n  'prompt': 'one '\n    'two'},\n 'trainer': {'nnodes': 2}}"
    assert read(text) == {"rollout.n": 8, "rollout.prompt": "one two", "trainer.nnodes": 2}


def test_json_and_python_spellings() -> None:
    assert read('{"zero_optimization": {"stage": 3, "overlap_comm": true, "offload": null}}') == {
        "zero_optimization.stage": 3,
        "zero_optimization.overlap_comm": True,
        "zero_optimization.offload": None,
    }


def test_keywords_without_a_bracket() -> None:
    text = "model='org/name', dtype=torch.bfloat16, max_seq_len=4096, sizes=[1, 2], extra=Foo(a=1), quantization=None"
    assert read(text, bare=True) == {
        "model": "org/name",
        "dtype": "torch.bfloat16",
        "max_seq_len": 4096,
        "sizes": "[1, 2]",
        "extra.a": 1,
        "quantization": None,
    }


def test_what_is_cut_keeps_what_stands_before_the_cut() -> None:
    assert read("Namespace(a=1, b=0.5, c='never clo") == {"a": 1, "b": 0.5}
    assert read("{'a': 1, 'b': {'c': 2, 'd'") == {"a": 1, "b.c": 2}


def test_names_inside_lists_do_not_collide_with_those_outside() -> None:
    assert read("{'a': 1, 'runs': [{'a': 2}, {'a': 3}]}")["a"] == 1


def test_brackets_and_signs_inside_strings_are_text() -> None:
    assert read("{'t': 'if (x = {1}: y', 'b': 2}") == {"t": "if (x = {1}: y", "b": 2}


def test_long_values_are_capped() -> None:
    assert len(str(read("{'a': '" + "x" * 5000 + "'}")["a"])) == 200


def test_strings_of_a_list() -> None:
    assert [s for s, _ in strings("overrides: ['a.b=1', \"c=2\"] and 'more'", 11)] == ["a.b=1", "c=2"]


@pytest.mark.parametrize("piece", ["\\'", "a=", "(", "{'a': ", "'a' 'b' ", "[", ",", "=", "'"])
def test_hostile_text_takes_linear_time(piece: str) -> None:
    begin = time.process_time()
    list(entries("Namespace(" + piece * 40_000))
    assert time.process_time() - begin < 1.0
