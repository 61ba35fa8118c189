"""What leaves the machine leaves it without secrets and without names: keys, passwords, hosts, users, addresses.

One `Redactor` per output: the same host is `<HOST-1>` all over it. An error in here must stop the output, so nothing
is caught.
"""

from __future__ import annotations

from oomdoctor.redaction.redactor import Redactor
from oomdoctor.redaction.search import Found, find

__all__ = ["Found", "Redactor", "find"]
