from __future__ import annotations

import os

import pytest

# The tests read what is printed in English, wherever their machine stands.
for name in ("OOMDOCTOR_LANG", "LC_ALL", "LC_MESSAGES"):
    os.environ.pop(name, None)
os.environ["LANG"] = "C.UTF-8"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update", action="store_true", help="write what the fixtures give now as expected; review the diff"
    )


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update"))
