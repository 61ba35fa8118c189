"""What a ledger's row and a figure of memory are called for a reader.

Other rooms know them by their ids: in JSON, and to compare them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oomdoctor.language import GPU, counted, filled, mark, say, translated
from oomdoctor.patterns import late

SMALLER: Final = "smaller processes of the table"  # the id of that row, behind their number
EACH: Final = " each"  # the end of the id of a row for several processes of one size
ON_THE_NODE: Final = "memory used on the node"
ON_THE_CARD: Final = "memory used on the card"  # the id of that figure, behind it the card's number
IN_THE_CGROUP: Final = "memory used in the cgroup"
AT_KILLS: Final = " at each kill"  # behind the node's name

_ROWS: Final[Mapping[str, str]] = {
    "free": mark("free"),
    "in use": mark("used"),
    "in use by all processes": mark("used by all processes"),
    "in use by others": mark("other processes"),
    "in use before loading": mark("in use before the model is loaded"),
    "in use before the engine started": mark("used before the engine started"),
    "in use, in no row of the table": mark("other memory (not in Ray's list)"),
    "in use, in no row of the log": mark("other memory (not among the rows in the log)"),
    "in use, by no process of the table": mark("other memory (not in nvidia-smi's list)"),
    "object store": mark("Ray object store"),
    "live tensors": mark("PyTorch tensors"),
    "reserved but unallocated": mark("reserved by PyTorch, unused"),
    "private pools (CUDA graphs)": mark("CUDA graphs (private pools)"),
    "this process": mark("this process"),
    "the rest of this process": mark("rest of this process"),
    "this process outside PyTorch": mark("non-PyTorch memory (CUDA context, NCCL)"),
    "outside PyTorch": mark("non-PyTorch memory"),
    "outside PyTorch, and other processes": mark("non-PyTorch memory and other processes"),
    "processes the driver does not list": mark("not in the message (driver, others)"),
    "freed, in use by another stream": mark("freed, in use by another stream"),
    "optimizer states": mark("optimizer states"),
    "optimizer step": mark("temporary memory of the optimizer step"),
    "parameters": mark("parameters"),
    "gathered parameters": mark("gathered parameters"),
    "parameters and gradients": mark("parameters and gradients"),
    "gradients": mark("gradients"),
    "backward pass": mark("backward pass (gradients and temporary memory)"),
    "temporary memory": mark("temporary memory"),
    "logits and loss": mark("logits and loss"),
    "input batches": mark("input batches"),
    "other allocations": mark("other allocations"),
    "smaller other allocations": mark("smaller allocations"),
    "allocated without a stack": mark("allocations without a recorded stack"),
    "outside the engine's share": mark("outside the engine's share"),
    "weights": mark("weights"),
    "weights and outside PyTorch": mark("weights and non-PyTorch memory"),
    "activations": mark("activations"),
    "activation peak": mark("activation peak"),
    "CUDA graphs": mark("CUDA graphs"),
    "KV cache": mark("KV cache"),
    "KV cache of one state": mark("KV cache of one state"),
    "recurrent state": mark("recurrent state"),
    "engine": mark("engine"),
    "execution context": mark("execution context"),
    "decoder": mark("decoder"),
    "compute graph": mark("compute graph"),
    "compute buffers": mark("compute buffers"),
    "output buffer": mark("output buffer"),
    "runtime buffers": mark("runtime buffers"),
    "temporary buffers": mark("temporary buffers"),
    "outputs": mark("outputs of the program"),
    "arguments": mark("arguments of the program"),
    "constants": mark("constants of the program"),
    "all the model needs": mark("total for the model"),
    "of this on the card": mark("of which on the GPU"),
}
_FIGURES: Final[Mapping[str, str]] = {
    ON_THE_NODE: mark("node memory in use"),
    ON_THE_CARD: mark("GPU memory in use"),
    IN_THE_CGROUP: mark("cgroup memory in use"),
    "memory available on the node": mark("available node memory"),
    "memory": mark("GPU memory"),
    "memory allocated": mark("allocated GPU memory"),
    "memory reserved": mark("reserved GPU memory"),
    "peak memory reserved": mark("peak reserved GPU memory"),
    "object store in use": mark("object store memory in use"),
    "still in use after the engine slept": mark("GPU memory in use after engine sleep"),
}
_CUDAS: Final = "this process outside PyTorch"  # other devices have neither its context nor NCCL

_OF_RANKS: Final = mark("{count} other ranks, {amount} each")
_OF_PROCESSES: Final = mark("{count} other processes, {amount} each")
_LISTED: Final = late(r"(.+) \(pid (\d{1,12}|None)\)")
_PROCESS: Final = late(r"process (\d{1,12})")
_SMALLER: Final = late(rf"(\d{{1,12}}) {SMALLER}")
_ALIKE: Final = late(rf"(\d{{1,12}}) other (ranks|processes), (.{{1,20}}){EACH}")
_OF_CARD: Final = late(rf"{ON_THE_CARD} (\d{{1,3}})")
_AT_KILLS: Final = late(rf"{ON_THE_NODE} (\S{{1,60}}){AT_KILLS}")


def row(what: str) -> str:
    """A ledger's row."""
    if match := _LISTED.fullmatch(what):
        return match[1] if match[2] == "None" else say("{name} (PID {pid})", name=match[1], pid=match[2])
    if match := _PROCESS.fullmatch(what):
        return say("other process (PID {pid})", pid=match[1])
    if match := _ALIKE.fullmatch(what):
        whose = _OF_RANKS if match[2] == "ranks" else _OF_PROCESSES
        return filled(whose, {"count": match[1], "amount": match[3]})
    if match := _SMALLER.fullmatch(what):
        return counted(int(match[1]), mark("{count} smaller process"), mark("{count} smaller processes"))
    if what == _CUDAS and translated(GPU) != GPU:
        return say("non-PyTorch memory of this process")
    return translated(_ROWS.get(what, what))


def figure(what: str) -> str:
    """What the log prints again and again."""
    if match := _AT_KILLS.fullmatch(what):
        return say("memory in use on node {node} at each kill", node=match[1])
    if match := _OF_CARD.fullmatch(what):
        return say("memory in use on GPU {number}", number=match[1])
    return translated(_FIGURES.get(what, what))
