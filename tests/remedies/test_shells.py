"""A line for one shell is a line for another only where each has its own words for it."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from remedy_logs import advise, cuda

from oomdoctor.remedies import shells
from oomdoctor.remedies.settings import rows
from oomdoctor.spellings import frameworks

EXPORTS = sorted({row.shown for name in frameworks() for row in rows(name) if row.write.startswith("export ")})
WITH_A_COMMENT = "export CUDA_VISIBLE_DEVICES=N,N   # their numbers"
# `$env:NAME = "VALUE"`, several behind semicolons, and at most one comment, which stands outside all quotation marks
STATEMENT = re.compile(r"""\$env:\w+ = (?:"(?:[^"`$#]|\$env:\w+)*"|'(?:[^']|'')*')""")


def is_of_powershell(line: str) -> bool:
    code, _, _ = line.partition("   #")
    return all(STATEMENT.fullmatch(one) for one in code.split("; "))


@pytest.mark.parametrize(
    ("line", "there"),
    [
        ("ulimit -v unlimited", "ulimit -v unlimited"),
        ("python fit.py --export A=1", "python fit.py --export A=1"),
        ("# export A=1", "# export A=1"),
        ("export A=1", '$env:A = "1"'),
        ('echo "$A"; nvidia-smi -L', 'echo "$env:A"; nvidia-smi -L'),
        ('nvcc --version; echo "$A"', 'nvcc --version; echo "$env:A"'),
        ('python fit.py --echo "$A"', 'python fit.py --echo "$A"'),
        ('echo "$env:A"', 'echo "$env:A"'),
        ('grep "$A" log', 'grep "$A" log'),
        ("export A=N   # its number", '$env:A = "N"   # its number'),
        ("export A=a#b", '$env:A = "a#b"'),
        ("export A='two words'", '$env:A = "two words"'),
        ("export A=$LOCAL_RANK", '$env:A = "$env:LOCAL_RANK"'),
        ("export A=4 B=5", '$env:A = "4"; $env:B = "5"'),
        ("export A='say \"x\"'", "$env:A = 'say \"x\"'"),
    ],
)
def test_a_line_in_powershell(line: str, there: str) -> None:
    assert shells.in_powershell(line) == there


def test_a_comment_inside_quotation_marks_would_be_the_value() -> None:
    assert not is_of_powershell('$env:CUDA_VISIBLE_DEVICES = "N   # its number"')
    assert not is_of_powershell('$env:A = "4 B=5; $env:C"')


@pytest.mark.parametrize("line", [*EXPORTS, WITH_A_COMMENT])
def test_each_line_of_the_tables_is_one_of_each_shell(line: str) -> None:
    assert is_of_powershell(shells.in_powershell(line)), shells.in_powershell(line)
    told = shells.in_a_dockerfile(line).split("\n")
    assert told[-1].startswith("ENV ")
    assert " #" not in told[-1]
    assert all(one.startswith("# ") for one in told[:-1])


def test_bash_takes_them_as_they_stand() -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    script = "\n".join([*EXPORTS, WITH_A_COMMENT])
    assert subprocess.run([bash, "-n"], input=script, text=True, capture_output=True, check=False).returncode == 0


def test_a_free_gpu_is_named_in_the_machines_own_shell() -> None:
    full = cuda(total="8.00 GiB", free="4.00 MiB", own="500.00 MiB", tried="32.00 MiB")
    for folder, line in (("C:\\x\\", '$env:CUDA_VISIBLE_DEVICES = "N"   # its number'),
                         ("/x/", "export CUDA_VISIBLE_DEVICES=N   # its number")):  # fmt: skip
        log = (
            f'Traceback (most recent call last):\n  File "{folder}fit.py", line 3, in <module>\n    net.cuda()\n{full}'
        )
        assert advise(log, "fix-placement", cause="gpu-shared")[0]["fix-placement"].snippet == line
