"""What the nightly check of the tests' durations says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / ".ci" / "durations.py"
CASES = """<testsuites><testsuite>
<testcase classname="tests.test_a" name="test_quick" time="0.99"/>
<testcase classname="tests.test_a" name="test_long[x]" time="{long}"/>
<testcase classname="tests.test_b" name="test_longer" time="{longer}"/>
</testsuite></testsuites>"""

pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="only in a checkout")


@pytest.mark.parametrize(
    ("long", "longer", "named"),
    [
        (1.25, 12.5, [" 12.50 s  tests.test_b::test_longer", "  1.25 s  tests.test_a::test_long[x]"]),
        (1.0, 12.5, [" 12.50 s  tests.test_b::test_longer"]),
        (0.5, 0.25, []),
    ],
)
def test_the_long_ones_are_named_the_longest_first(
    long: float, longer: float, named: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "durations.xml").write_text(CASES.format(long=long, longer=longer))
    ended = runpy.run_path(str(SCRIPT))["main"](str(tmp_path / "durations.xml"))
    told = capsys.readouterr().out.splitlines()
    assert told[:-1] == named
    assert ended == bool(named)
    assert not named or told[-1].startswith(f"{len(named)} tests took longer than 1 s")
