"""The border between a log's bytes and everything a person looks at: text that no terminal, page or reader obeys."""

from __future__ import annotations

import re
from typing import Final

from oomdoctor.patterns import late

# CSI, then OSC/DCS/SOS/PM/APC up to their terminator, then the two-byte escapes. None crosses a line's end, and each
# run stops at the next ESC, so a text made of beginnings only is still read once.
SEQUENCE = (
    r"\x1b\[[0-?]*[ -/]*[@-~]?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[()*+#%][0-9A-Za-z]"
    r"|\x1b[0-~]?"
)

_SEQUENCE = late(SEQUENCE)

# Other ways to end a line, for some readers.
BREAK = "[\x0b\x0c\x85\u2028\u2029]"
_BREAK = late(BREAK)

# What is left of C0 and C1 but tab, line feed and carriage return; interlinear anchors; and what Unicode lets a reader
# leave out of sight (Default_Ignorable_Code_Point): soft hyphen, fillers, bidirectional and zero-width signs, tags and
# variation selectors, which may hold a text of their own. U+FE0F is left, it makes an emoji of a sign.
_UNSEEN = (
    "\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
INVISIBLE = f"[\x00-\x08\x0e-\x1f{_UNSEEN}]"
_INVISIBLE = late(INVISIBLE)
_SURROGATE = late("[\ud800-\udfff]")

# One look decides for most text that there is nothing to do. A whole page of ASCII is long, and no set is slow.
_UNSAFE_ASCII = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
# What becomes of these, as of all such signs below: the sets of all take a millisecond to compile
_SAFE_ASCII: Final = dict.fromkeys((*range(0x09), *range(0x0E, 0x20), 0x7F), "") | dict.fromkeys((0x0B, 0x0C), " ")
_UNSAFE = late(f"[\x00-\x08\x0b\x0c\x0e-\x1f\u2028\u2029\ud800-\udfff{_UNSEEN}]")


def disarm(text: str) -> str:
    """The text without escape sequences, control, bidirectional and zero-width characters; \\t, \\n and \\r stay."""
    unsafe = _UNSAFE_ASCII if text.isascii() else _UNSAFE
    if unsafe.search(text) is None:
        return text
    text = _SEQUENCE.sub("", text)
    if unsafe is _UNSAFE_ASCII:
        return text.translate(_SAFE_ASCII)
    text = _BREAK.sub(" ", text)
    text = _INVISIBLE.sub("", text)
    return _SURROGATE.sub("\ufffd", text)


def sanitize(text: str, limit: int | None = None) -> str:
    """One line that is safe to print anywhere: as `disarm`, line ends are blanks, and no longer than the limit."""
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    return disarm(text).replace("\r", " ").replace("\n", " ")
