"""Calls of a GPU's driver and runtime, by what memory they take."""

from __future__ import annotations

from typing import Final

from oomdoctor.patterns import late

# They look at a card or choose it and allocate nothing: what is refused is the context that the first of them opens
# (CUDA's programming guide, "Initialization"; since 12.0 cudaSetDevice opens it, too).
_LOOKING: Final = (
    r"(?:cuda|hip|musa)(?:MemGetInfo|SetDevice(?:Flags)?|InitDevice|GetDeviceCount|GetDeviceProperties"
    r"|DeviceGetAttribute)"
)
_OPENING: Final = r"(?:cu|hip)(?:DevicePrimaryCtxRetain|CtxCreate|Init\b)(?:_v2|_v3|_v4)?"
OPENS_A_CONTEXT: Final = late(rf"\s{{0,8}}(?:{_OPENING}|{_LOOKING})\(")
A_CONTEXT: Final = late(rf"(?i)\b{_OPENING}\b|\b{_LOOKING}\b")
