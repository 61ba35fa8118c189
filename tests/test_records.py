"""Our frozen dataclasses do what those of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import field
from typing import ClassVar

import pytest

from oomdoctor import records


@records.dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    kind: ClassVar[str] = ""
    at: int
    role: str = "root"
    around: list[int] = field(default_factory=list, repr=False, compare=False)


@records.dataclass(frozen=True, slots=True, kw_only=True)
class Ours(Base):
    """One kind."""

    kind = "ours"
    pool: str = "gpu"
    role: str = "cascade"
    tried_bytes: int | None = field(default=None, metadata={"part": "usage"})


@records.dataclass(frozen=True, slots=True)
class Pair:
    first: int
    second: int = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Original:
    first: int
    second: int = 2


def test_fields_defaults_and_inheritance() -> None:
    ours = Ours(at=3, tried_bytes=7)
    assert (ours.at, ours.role, ours.pool, ours.tried_bytes, ours.around) == (3, "cascade", "gpu", 7, [])
    assert ours.around is not Ours(at=3).around
    assert [f.name for f in dataclasses.fields(ours)] == ["at", "role", "around", "pool", "tried_bytes"]
    assert {f.name: f.metadata.get("part") for f in dataclasses.fields(Ours)}["tried_bytes"] == "usage"
    assert Ours.kind == "ours"
    assert Ours.__doc__ == "One kind."
    assert dataclasses.is_dataclass(ours)
    assert dataclasses.asdict(Pair(1)) == {"first": 1, "second": 2}


def test_equal_hash_and_repr() -> None:
    assert Ours(at=3, around=[1]) == Ours(at=3, around=[2])
    assert Ours(at=3) != Ours(at=4)
    assert Base(at=3, role="cascade") != Ours(at=3)
    assert hash(Pair(1)) == hash(Pair(1, 2))
    assert len({Pair(1), Pair(1, second=2), Pair(2)}) == 2
    assert repr(Pair(1)) == repr(Original(1)).replace("Original", "Pair")
    assert "around" not in repr(Ours(at=3))


def test_replace_copy_and_pickle() -> None:
    ours = Ours(at=3, tried_bytes=7)
    assert dataclasses.replace(ours, at=4) == Ours(at=4, tried_bytes=7)
    assert copy.deepcopy(ours) == ours
    assert pickle.loads(pickle.dumps(ours)) == ours


@pytest.mark.parametrize(("values", "named"), [((), {}), ((1, 2, 3), {}), ((1,), {"first": 2}), ((1,), {"third": 3})])
def test_wrong_arguments_are_turned_away_as_the_original_does(values: tuple[int, ...], named: dict[str, int]) -> None:
    for kind in (Pair, Original):
        with pytest.raises(TypeError):
            kind(*values, **named)


def test_nothing_can_be_set_or_added() -> None:
    for pair in (Pair(1), Original(1)):
        for name in ("first", "third"):
            with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
                setattr(pair, name, 5)
        with pytest.raises(dataclasses.FrozenInstanceError):
            del pair.first
        assert not hasattr(pair, "__dict__")


def test_the_original_inherits_from_ours_and_ours_from_the_original() -> None:
    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class Below(Ours):
        more: int = 1

    @records.dataclass(frozen=True, slots=True)
    class OnTop(Original):
        third: int = 3

    assert Below(at=3).role == "cascade"
    assert Below(at=3, more=2) == dataclasses.replace(Below(at=3), more=2)
    assert OnTop(1, third=5) == OnTop(1, 2, 5)
    for frozen in (Below(at=3), OnTop(1), Original(1), Ours(at=3)):
        with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
            setattr(frozen, dataclasses.fields(frozen)[0].name, 9)


def test_keyword_only_means_it() -> None:
    with pytest.raises(TypeError):
        Ours(3)  # type: ignore[call-arg]
