"""A table that an encoding makes wide: a column for each category, word or value, and a number in each cell.

How large it is before it exists: the rows that a print above counts, times the columns that the encoding's own line
counts, times the bytes of a number.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from msgspec import Struct

from oomdoctor.incident.model import Crash
from oomdoctor.incident.prints import LAST, number, own_lines, type_stated
from oomdoctor.patterns import late

_NUMBER: Final = r"\d{1,3}(?:[,_]\d{3}){1,4}|\d{1,12}"
_ONE_HOT: Final = r"(?:one|multi)[- _]?hot(?:[- _]?encod(?:ing|ed))?|(?:get_)?dumm(?:y|ies)|binari[sz]\w{1,6}"
_OF_VALUES: Final = (
    r"onehotencoder|pivot\w*|unstack\w*|cross_?tab\w*|(?:count|tfidf|hashing)vectorizer|bag[- ]of[- ]words|tf-?idf"
    r"|(?:document|doc)-term|(?:to|into) (?:a )?dense|densif\w{1,6}|dense (?:matrix|table|array)|toarray|todense"
    r"|polynomial features"
)
_ENCODING: Final = late(rf"(?i)\b(?:(?P<one>{_ONE_HOT})|(?P<values>{_OF_VALUES}))\b")
_COLUMNS: Final = late(
    rf"(?i)(?<![\d.,])(?P<before>{_NUMBER}) (?:(?:new|output|binary|dummy|distinct) )?"
    r"(?:column|feature|dumm(?:y|ie)|term)s?\b"
    r"|\b(?:columns|features|dummies|terms|vocabulary(?: size)?|n_features)[:= ]{1,3}"
    rf"(?P<behind>{_NUMBER})(?![\d.]|\s?%)"
)
# "(81200, 7)", "[81200 rows x 7 columns]", "shape: (81_200, 7)", "read 81200 rows"
_SHAPE: Final = late(
    rf"(?:\((?P<rows>{_NUMBER}), ?(?P<columns>{_NUMBER})\)|\[(?P<of>\d{{1,12}}) rows x \d{{1,6}} columns\])"
)
_ROWS: Final = late(
    rf"(?i)(?<![\d.,])(?P<before>{_NUMBER}) (?:row|record|sample|document|customer|user)s?\b"
    rf"|\brows[:= ]{{1,3}}(?P<behind>{_NUMBER})(?![\d.])"
)
_LEAST_ROWS: Final = 1000
_ENCODED: Final = frozenset({"dummy", "dummies", "onehot", "hot", "encoding", "encoder", "encoded"})
_OF_FLAGS: Final = "onehotencoder"
# pandas/core/reshape/encoding.py, since 2.0 get_dummies makes bool, of uint8 before; int64 of CountVectorizer, float64
# of OneHotEncoder (sklearn/preprocessing/_encoders.py), of pivots and of numpy
_BYTE: Final = 1
_WORD: Final = 8
_SPARSE: Final = late(r"(?i)\bsparse\b(?!\W{1,3}(?:false|no|off|0)\b)|\bcsr\b")


class Table(Struct, frozen=True):
    """The table that the encoding makes, whole."""

    encoding: str  # the line's own word for it
    rows: int
    columns: int
    width: int  # bytes of a number
    dtype: str | None  # None where nothing prints it
    has_flags: bool  # its cells are 0 or 1

    @property
    def bytes(self) -> int:
        return self.rows * self.columns * self.width

    @property
    def formula(self) -> str:
        return f"{self.rows} x {self.columns} x {self.width}"


def encoded_table(crash: Crash) -> Table | None:
    """By the last lines of the job."""
    lines = list(own_lines(crash))
    for place, line in enumerate(islice(lines, LAST)):
        match, columns = _ENCODING.search(line), _columns(line)
        if match is None or columns is None or _SPARSE.search(line):
            continue
        rows = rows_printed(lines[place:])
        if rows is None:
            return None
        width, dtype = type_stated(line, crash, of=_ENCODED) or (_BYTE if match["one"] else _WORD, None)
        flags = match["one"] is not None or match[0].lower() == _OF_FLAGS
        return Table(match[0].lower(), rows, columns, width, dtype, flags)
    return None


def rows_printed(lines: Iterable[str]) -> int | None:
    """Those of the table of which these lines, the last first, tell first."""
    for line in lines:
        shape, rows = _SHAPE.search(line), _ROWS.search(line)
        found = (
            shape["rows"] or shape["of"] if shape is not None else rows["before"] or rows["behind"] if rows else None
        )
        if found is not None and number(found) >= _LEAST_ROWS:
            return number(found)
    return None


def _columns(line: str) -> int | None:
    """By the count of them, else by the shape that the line prints."""
    match, shape = _COLUMNS.search(line), _SHAPE.search(line)
    if match is not None:
        return number(match["before"] or match["behind"])
    return number(shape["columns"]) if shape is not None and shape["columns"] else None


__all__ = ["Table", "encoded_table", "rows_printed"]
