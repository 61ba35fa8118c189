"""The classifier's weights, read from JSON, and its arithmetic: a softmax over sums of weights.

scikit-learn fits them (oomdoctor.training); nothing of it is needed here.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, structs

from oomdoctor.language import say
from oomdoctor.signs import Grade

SHIPPED: Final = Path(__file__).parent / "model.json"
FORMAT: Final = 3
LARGEST: Final = 1000.0  # of a weight: more is no weight that was fitted
VARIABLE: Final = "OOMDOCTOR_MODEL"


class ModelError(ValueError):
    """A file that is no model of ours; the text says why."""


GROUNDS: Final = ("first", "strength", "lead", "proven", "known", "agreement")


def grounds(
    strength: float, other: float, *, first: bool, proven: bool, known: bool, agreement: float
) -> dict[str, float]:
    """What trust goes by: the answer's strength, the best other one's, whether it stands first, whether the log shows
    that memory ran out and says so in known words, and how likely the classifier takes it."""
    return {
        "first": float(first),
        "strength": strength,
        "lead": max(strength - other, 0.0),
        "proven": float(proven),
        "known": float(known),
        "agreement": agreement,
    }


class Trust(Struct, frozen=True, kw_only=True):
    """How likely an answer is right, as a logistic curve over its grounds: it rises with what speaks for it."""

    base: float
    first: float  # whether no other answer is better, 0 or 1
    strength: float  # 0..1
    lead: float  # what the strength has over the best other one's, 0..1
    proven: float  # whether the log shows that memory ran out, 0 or 1
    known: float  # whether the failure is told in words that a family knows, 0 or 1
    agreement: float  # the classifier's probability of the cause, 0..1

    def of(self, inputs: Mapping[str, float]) -> float:
        height = sum(getattr(self, name) * value for name, value in inputs.items())
        return 1 / (1 + math.exp(min(-(self.base + height), 700.0)))


class Strength(Struct, frozen=True, kw_only=True):
    """What is known of a sign from labelled logs."""

    logs: int  # that it carried an answer in
    contested: int  # of these, with a right answer beside a wrong one
    offset: float | None  # what it is worth beyond its grade; None where too few contest it, or it changes nothing


def strength_of(grade: Grade, sign: str, strengths: Mapping[str, Strength]) -> float:
    """What an answer is worth that this sign carries."""
    fitted = strengths.get(sign)
    return grade / 100 + (fitted.offset or 0.0 if fitted is not None else 0.0)


class Model(Struct, frozen=True, kw_only=True):
    causes: tuple[str, ...]
    bias: tuple[float, ...]
    weights: Mapping[str, Mapping[str, float]]  # feature → cause → weight; what is not there is nought
    temperature: float
    trust: Trust
    strengths: Mapping[str, Strength]  # by the names of signs
    open_below: float  # the confidence under which the cause counts as open
    add_from: float  # the probability from which a cause is named that no rule names

    def probabilities(self, features: Mapping[str, float]) -> dict[str, float]:
        """Every cause it was trained on with its probability."""
        sums = dict(zip(self.causes, self.bias, strict=True))
        for name, value in features.items():
            for cause, weight in self.weights.get(name, {}).items():
                sums[cause] += weight * value
        highest = max(sums.values())
        raised = {cause: math.exp((told - highest) / self.temperature) for cause, told in sums.items()}
        whole = sum(raised.values())
        return {cause: one / whole for cause, one in raised.items()}


@cache
def used() -> Model:
    """The model of this version, or the one that OOMDOCTOR_MODEL names."""
    return loaded(Path(os.environ.get(VARIABLE) or SHIPPED))


def loaded(path: Path) -> Model:
    """The model in a file that `oomdoctor train` wrote."""
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if told["format"] != FORMAT:
            raise ModelError(
                say(
                    "{file}: format {format}; this version reads format {known}",
                    file=path.name,
                    format=repr(told["format"]),
                    known=FORMAT,
                )
            )
        return _sound(
            causes=tuple(told["causes"]),
            bias=tuple(_numbers(told["bias"].values())),
            weights=told["weights"],
            temperature=float(told["temperature"]),
            trust=Trust(**told["trust"]),
            strengths={sign: Strength(logs=n, contested=c, offset=o) for sign, (n, c, o) in told["strengths"].items()},
            open_below=float(told["open_below"]),
            add_from=float(told["add_from"]),
        )
    except OSError as error:
        raise ModelError(f"{path.name}: {error.strerror}") from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(say("{file}: not a model of oomdoctor", file=path.name)) from error


def _sound(**parts: Any) -> Model:
    """The model of these parts, where it can be reckoned with."""
    model = Model(**parts)
    figures = [*model.bias, *(weight for row in model.weights.values() for weight in row.values())]
    figures += structs.asdict(model.trust).values()
    figures += [strength.offset or 0.0 for strength in model.strengths.values()]
    named = {cause for row in model.weights.values() for cause in row}
    if not model.causes or len(model.bias) != len(model.causes) or not named <= set(model.causes):
        raise ValueError
    if model.temperature <= 0 or not all(abs(figure) < LARGEST for figure in figures):  # nan is not
        raise ValueError
    return model


def _numbers(values: Iterable[Any]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


__all__ = [
    "FORMAT",
    "GROUNDS",
    "SHIPPED",
    "Model",
    "ModelError",
    "Strength",
    "Trust",
    "grounds",
    "loaded",
    "strength_of",
    "used",
]
