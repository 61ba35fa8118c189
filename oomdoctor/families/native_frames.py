"""The frames of other languages: what the C and C++ code of frameworks prints below an error, the tracebacks of Rust
and of Lua."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from oomdoctor.families.event import Frame
from oomdoctor.patterns import late
from oomdoctor.streams import Line

_HEAD: Final = 3  # lines between a message and the first of its frames
# c10/util/Backtrace.cpp: "frame #4: at::native::conv_backward(at::Tensor const&) + 0x15ef (0x2b13 in /lib/libtorch.so)"
_CPP: Final = late(r"\s{0,8}frame #\d{1,3}: (.{1,2000}?) \+ 0x")
# glog's src/utilities.cc, below Caffe's fatal checks: "    @     0x7fd0  caffe::Net<>::Forward()", "@ (nil)  (unknown)"
_GLOG: Final = late(r"\s{0,8}@ {1,20}(?:0x[0-9a-f]{1,16}|\(nil\)) {1,4}(\S[^\s(<]{0,300}(?:[(<].{0,1700})?)$")
# glibc's backtrace_symbols, behind the numbers of dmlc-core (MXNet) and darknet:
# "[bt] (3) /libmxnet.so(mxnet::op::ConvolutionOp::Forward(int)+0x1a) [0x7f]", "4/9: ./darknet(test_detector+0x7) [0x5]"
_GLIBC: Final = late(
    r"\s{0,8}(?:\[bt\] \(\d{1,3}\) |\d{1,3}/\d{1,3}: )?[^\s(]{1,300}\((.{0,2000}?)\+0x[0-9a-f]{1,12}\)"
    r" ?\[0x[0-9a-f]{1,16}\]"
)
# gdb's: "#4  0x00007f0a in caffe::Net<float>::Forward (this=0x7f) at net.cpp:31"
_GDB: Final = late(r"\s{0,4}#\d{1,3} {1,3}0x[0-9a-f]{1,16} in (\S.{0,1999}?) \(")
_OF_CPP: Final = (_CPP, _GLOG, _GLIBC, _GDB)
# A name as compilers write it: _ZN, the lengths of its parts before them, simple template arguments, E
_MANGLED: Final = late(r"_ZNK?")
_PART: Final = late(r"(?:I[a-z]{1,8}E)?(\d{1,3})")
# std/src/backtrace.rs, Display: "   4: candle_core::quantized::QTensor::dequantize"
_RUST: Final = late(r"\s{0,8}\d{1,3}: (?=\S{0,300}::)(\S[^\"=]{1,400})$")
_RUST_FILE: Final = late(r"\s{4,30}at \S")
# Debug, all in one line: '[{ fn: "core::ops::call", file: "./src/ops.rs", line: 31 }, ...'
_RUST_DEBUG: Final = late(r"\{ fn: \"([^\"]{1,400})\"")
_DEBUGGED: Final = 'Backtrace [{ fn: "'
# Lua's debug.traceback, innermost first: "	/torch/nn/Tanh.lua:4: in function 'Tanh_updateOutput'"
_LUA: Final = "stack traceback:"
_LUA_FRAME: Final = late(
    r"\s{1,12}(\S{1,300}\.lua|\[C\]):(?:(\d{1,7}):)? in (?:[a-z ]{1,12} ['<](\w{0,120})|main chunk)"
)
_FILLERS: Final = late(r"\(anonymous namespace\)|\{\{closure\}\}|::h[0-9a-f]{16}$")
_PARAMETERS: Final = late(r"(?<=[\w:])<[^<>]{0,300}>")
_NESTED: Final = 3
_NAME: Final = late(r"[A-Za-z_]\w{0,120}")


def native_frames(message: str, after: Sequence[Line]) -> tuple[Frame, ...]:
    """The frames in a message, or right behind it, innermost last; a method's name has its class before it."""
    if any(line.text.strip() == _LUA for line in after[:_HEAD]):
        return _of_lua(after)
    names = (match[1] for match in _RUST_DEBUG.finditer(message)) if _DEBUGGED in message else _behind(after)
    return tuple(frame for name in names if (frame := _frame(name)) is not None)[::-1]


def _of_lua(after: Sequence[Line]) -> tuple[Frame, ...]:
    found = (_LUA_FRAME.match(line.text) for line in after)
    named = (match for match in found if match is not None and match[3])
    return tuple(Frame(match[1], int(match[2] or 0), match[3]) for match in named)[::-1]


def _behind(after: Sequence[Line]) -> Iterator[str]:
    begun = False
    for position, line in enumerate(after):
        if position >= _HEAD and not begun:
            return
        match = next((found for each in (*_OF_CPP, _RUST) if (found := each.match(line.text))), None)
        if match is not None:
            begun = True
            yield match[1]
        elif begun and not _RUST_FILE.match(line.text):
            return


def _frame(text: str) -> Frame | None:
    bare = _FILLERS.sub("", _unmangled(text))
    for _ in range(_NESTED):
        bare = _PARAMETERS.sub("", bare)
    names = _NAME.findall(bare.partition("(")[0])
    if not names:
        return None
    of_class = len(names) > 1 and names[-2][0].isupper()
    return Frame("", 0, ".".join(names[-2:]) if of_class else names[-1])


def _unmangled(name: str) -> str:
    """A nested name as a compiler writes it, without its parameters: "_ZN3NetIfE7ForwardEv" is "Net::Forward"."""
    begin = _MANGLED.match(name)
    if begin is None:
        return name
    at, parts = begin.end(), []
    while part := _PART.match(name, at):
        at = part.end() + int(part[1])
        parts.append(name[part.end() : at])
    return "::".join(parts) if name[at : at + 1] == "E" else ""
