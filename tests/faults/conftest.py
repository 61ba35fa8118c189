from __future__ import annotations

from started import logs, shim

__all__ = ["logs", "shim"]
