"""`oomdoctor diagnose --format html`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pages import parsed

LOG = """\
Authorization: Bearer hf_{token}
(raylet, ip=203.0.113.77) starting /home/mariella/ppo/train.py
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacity of 23.60 GiB of \
which 1.25 GiB is free. Of the allocated memory 21.00 GiB is allocated by PyTorch, and 900.00 MiB is reserved by \
PyTorch but unallocated. hf_{token} /home/mariella/ppo/train.py
""".replace("{token}", "QwErTyUiOpAsDfGhJkLzXcVbNmQwErTyUi")


def made(tmp_path: Path, *options: str) -> str:
    log = tmp_path / "train.log"
    log.write_text(LOG)
    page = tmp_path / "report.html"
    arguments = ["diagnose", str(log), "--format", "html", "-o", str(page), *options]
    program = f"import sys; sys.argv = {['oomdoctor', *arguments]!r}; from oomdoctor.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    return page.read_text(encoding="utf-8")


def test_the_file_is_there_whole_and_without_secrets(tmp_path: Path) -> None:
    page = made(tmp_path)
    assert page.endswith("</html>\n")
    assert "QwErTyUi" not in page
    assert "mariella" not in page
    assert "What looked secret or personal is replaced" in parsed(page).text


@pytest.mark.parametrize("secret", ["QwErTyUi", "mariella"])
def test_with_them_only_where_that_is_asked_for(tmp_path: Path, secret: str) -> None:
    page = made(tmp_path, "--no-redact")
    assert secret in page
    assert "Nothing in it is redacted" in parsed(page).text
