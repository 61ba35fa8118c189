"""What a dataset, a prompt or a model's answer says: it may quote every message there is, and none of them happened."""

from __future__ import annotations

from typing import Final

import msgspec

from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Page

SPOKEN: Final = mark("text of a dataset, a prompt or a model's answer, not a message of a program")
CHARACTERS: Final = 4000
BLOCK_LINES: Final = 60  # a printed sample, from its prompt to its score

# Begins as a record of a conversation or a dataset does, or is one in JSON.
_RECORD = late(
    r"^\W{0,8}<\|(?:im_start\|>)?(?:user|assistant|system)\b|^(?:<s>)?\[INST\]|^<start_of_turn>"
    r"|^\[(?:prompt|response|question|answer|ground_truth|completion|chosen|rejected)\]"
    r"|^(?!user: (?:emerg|alert|crit|err|warning|notice|info|debug): \[)"  # the kernel's log as Talos prints it
    r"(?:Q|Question|[Uu]ser|[Hh]uman|[Aa]ssistant|Prompt|Completion|Ground[ _]truth|Generated text): "
    r"|^(?:input|target|source|prompt|question|answer|response|completion)(?:_text|_str)?: ?[\"']"
    r"|^#{2,3} (?:Instruction|Response|Question|Answer):"
    r"|^.{0,400}[{,] {0,2}[\"'](?:question|answer|prompt|completion|instruction|chosen|rejected|ground_truth|solution)"
    r"[\"']: {0,2}[\"'\[]"
    r"|^.{0,400}[{,] {0,2}[\"'](?:text|content|sentence|document)[\"']: {0,2}[\"'].{0,3000}"
    r"[\"'](?:labels?|score|split|lang|topic)[\"']: {0,2}[\"'\d\[]"
    r"|^INSERT INTO \S{1,80} ?(?:\(|VALUES\b)"
    r"|^.{0,400}[\"']role[\"']: {0,2}[\"'](?:user|assistant|system)[\"']"
)
# A row of data in JSON; a program's record has one of these keys for what it says.
_ROW = late(r"\s{0,8}\{\s?\"[^\n]{2,4000}\}[,\]]{0,2}\s{0,4}$")
_SAYS = late(
    r"(?i)[\"'](?:[\w@.]{0,20}(?:error|err|exc|exception|message|msg|detail|reason|log|event|stderr|stdout|stack|traceback"
    r"|level|lvl|severity|status|fault|panic|oom|exit|flight|output|note|warn|info|body|raw|line|data)[\w.]{0,20}"
    r"|cause|type|state)[\"']\s?:"
)
# A server's answer to a request may repeat the prompt beside its own failure.
_FAILED = late(r"[\"'](?:error|exception|traceback|detail)[\"']: ")
# A sample over several lines, as verl prints it or in a chat's template.
_OPENS = late(r"^\[(?:prompt|response|question|answer|ground_truth)\]|^\W{0,4}<\|im_start\|>")
_CLOSES = late(r"^\[(?:response|answer|ground_truth|score|reward)\]|<\|(?:im_end|endoftext|eot_id)\|>")


def _is_a_row(text: str) -> bool:
    """Whether the line is one object of JSON and nothing else, none of whose keys says what happened."""
    if not text.lstrip().startswith('{"') or _ROW.match(text) is None or _SAYS.search(text) is not None:
        return False
    try:
        msgspec.json.decode(text.strip().rstrip(",]"))
    except msgspec.DecodeError:
        return False
    return True


def spoken(page: Page, index: int) -> bool:
    """Whether the line is no program's message but the text of a record, or of one that is printed around it."""
    text = page.lines[index].text[:CHARACTERS]
    if _RECORD.search(text):
        return _FAILED.search(text) is None
    if _is_a_row(text):
        return True
    for line in reversed(page.before(index, BLOCK_LINES)):
        shown = line.text[:CHARACTERS]
        if not shown.startswith("[") and "<|" not in shown:
            continue
        if _OPENS.search(shown):
            # Only what is closed again is a sample: after the last one printed, the program itself may speak.
            return any(_CLOSES.search(below.text[:CHARACTERS]) for below in page.after(index, BLOCK_LINES)[1:])
        if _CLOSES.search(shown):
            return False
    return False
