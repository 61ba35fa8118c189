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
# ... and in words: "CUDA runtime implicit initialization on GPU:0", "could not create the CUDA context"
_CARDS: Final = r"(?:cuda|hip|rocm|musa|gpu|device|driver|runtime|primary)"
_IN_WORDS: Final = (
    rf"{_CARDS} (?:(?:driver|runtime|device|primary|implicit) ){{0,3}}(?:initiali[sz]ation|context creation)"
    rf"|(?:creat|retain|initiali[sz]|open|acquir)\w{{1,3}} (?:(?:the|an?) )?(?:{_CARDS} ){{1,3}}context"
    rf"|initiali[sz](?:ation of|ing|e) (?:the )?(?:cuda|hip|rocm|gpu|device)"
)
A_CONTEXT: Final = late(rf"(?i)\b{_OPENING}\b|\b{_LOOKING}\b|\b(?:{_IN_WORDS})\b")
