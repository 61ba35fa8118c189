"""The decision: every cause's table read, the answers ranked, the verdict and how sure it is. Nobody else decides."""

from __future__ import annotations

from typing import Literal

Verdict = Literal["oom", "inconclusive", "no-oom"]
