"""`python -m oomdoctor`, where the command itself is not on the path."""

import os
import sys
from contextlib import suppress

with suppress(OSError):
    if sys.path[0] == os.getcwd():  # noqa: PTH109  (where the logs are there may be a yaml.py, too)
        del sys.path[0]

from oomdoctor.cli import main

main()
