from __future__ import annotations

import os

import pytest
from hypothesis import settings

from oomdoctor.language import GPU, call_devices

# The tests read what is printed in English, wherever their machine stands.
for name in ("OOMDOCTOR_LANG", "LC_ALL", "LC_MESSAGES"):
    os.environ.pop(name, None)
os.environ["LANG"] = "C.UTF-8"

# How fast a machine is at the moment is nothing that a test finds out.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update", action="store_true", help="write what the fixtures give now as expected; review the diff"
    )


@pytest.fixture(autouse=True)
def devices_are_gpus() -> None:
    """What the log of the test before called them is gone: in a program each report begins with its own."""
    call_devices(GPU)


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update"))
