"""What is typed at a prompt, and what only looks like it."""

from __future__ import annotations

import pytest

from oomdoctor.job.session import source


@pytest.mark.parametrize(
    ("line", "typed"),
    [
        (">>> t = read(path)", "t = read(path)"),
        ("In [12]: t = read(path)", "t = read(path)"),
        ("In [12]: %time t = read(path)", "t = read(path)"),
        ("In [12]: %timeit -n 3 read(path)", "read(path)"),
        ("In [12]: %memit -r 1 read(path)", "read(path)"),
        ("    ...: t = read(path)", "t = read(path)"),
        ("... t = read(path)", "t = read(path)"),
        ("In [12]: %%time", ""),
        ("me@n1:~$ python3 -c \"import lib; lib.read('rows')\"", "lib.read('rows')"),
        ("# time python -c 'from lib import read; t = read(); fit(t)'", "t = read(); fit(t)"),
        ("python -u -c 'read()'", "read()"),
    ],
)
def test_what_was_typed(line: str, typed: str) -> None:
    assert source(line) == typed


@pytest.mark.parametrize(
    "line",
    [
        "t = read(path)",
        ">> t = read(path)",  # a quotation
        "In [x]: read(path)",
        "In [12] we read(path)",
        "Out[12]: read(path)",
        "$ python read.py",
        "$ python read.py -c 'read()'",  # the script's own
        "run python -c 'read()'",
        "$ python -c 'read()' | tee log",
        "$ bash -c 'read()'",
        "$ pythonista -c 'read()'",
        "....: read(path)",
        "5 %time read(path)",
    ],
)
def test_what_was_not_typed(line: str) -> None:
    assert source(line) is None
