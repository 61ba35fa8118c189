"""Frozen dataclasses that cost little to define.

`dataclasses.dataclass(frozen=True, slots=True)` writes and compiles half a dozen methods per class, 0.8 ms on a machine
of 2020. A hundred kinds of events would be a third of the time a small log takes. Here the methods are shared and
look at `dataclasses.fields`; making an instance takes a few microseconds more. `fields`, `replace` and `asdict` work.

For a class with an instance per line of the log, take the original.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen, slots=False, kw_only=False):
        """As `dataclasses.dataclass`, for frozen classes."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, slots=slots, kw_only=kw_only)
        if not frozen:
            raise TypeError(f"{cls.__name__} must be frozen")
        for name, method in _METHODS.items():
            if name not in cls.__dict__:
                setattr(cls, name, method)
        cls.__doc__ = cls.__doc__ or cls.__name__  # or the original puts together a signature nobody reads
        with _unfrozen(cls.__mro__[1:]):
            made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
        made.__dataclass_params__.frozen = True
        return made


@contextmanager
def _unfrozen(bases: Iterable[Any]) -> Iterator[None]:
    """The original lets no class that it does not freeze itself inherit from a frozen one. These are frozen by us, and
    say so outside of this block, so that its frozen classes may inherit from ours and ours from them."""
    frozen = [params for base in bases if (params := getattr(base, "__dataclass_params__", None)) and params.frozen]
    for params in frozen:
        params.frozen = False
    try:
        yield
    finally:
        for params in frozen:
            params.frozen = True


@cache
def _fields(cls: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls)


@cache
def _defaults(cls: Any) -> tuple[tuple[str, Any, Any], ...]:
    return tuple((field.name, field.default, field.default_factory) for field in _fields(cls))


@cache
def _by_name(cls: Any) -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in _fields(cls)}


@cache
def _positional(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in _fields(cls) if not field.kw_only)


@cache
def _compared(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in _fields(cls) if field.compare)


def _init(self: Any, *values: Any, **named: Any) -> None:
    cls: Any = type(self)
    positional = _positional(cls)
    if len(values) > len(positional):
        raise TypeError(f"{cls.__name__}() takes {len(positional)} positional arguments, {len(values)} were given")
    given = dict(zip(positional, values, strict=False))
    if given.keys() & named.keys():
        raise TypeError(f"{cls.__name__}() got {sorted(given.keys() & named.keys())} twice")
    given.update(named)
    left = len(given)
    put = object.__setattr__
    for name, default, factory in _defaults(cls):
        if name in given:
            put(self, name, given[name])
            left -= 1
        elif default is not dataclasses.MISSING:
            put(self, name, default)
        elif factory is not dataclasses.MISSING:
            put(self, name, factory())
        else:
            raise TypeError(f"{cls.__name__}() misses {name!r}")
    if left:
        raise TypeError(f"{cls.__name__}() got unknown arguments: {sorted(given.keys() - _by_name(cls).keys())}")


def _repr(self: Any) -> str:
    cls: Any = type(self)
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in _fields(cls) if field.repr)
    return f"{cls.__qualname__}({', '.join(shown)})"


def _key(self: Any) -> tuple[Any, ...]:
    cls: Any = type(self)
    return tuple(getattr(self, name) for name in _compared(cls))


def _eq(self: Any, other: object) -> Any:
    return _key(self) == _key(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_key(self))


def _refuse_to_set(self: Any, name: str, value: object) -> None:
    del value
    raise dataclasses.FrozenInstanceError(f"cannot assign to {name!r} of {type(self).__name__}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete {name!r} of {type(self).__name__}")


def _reduce(self: Any) -> Any:
    cls: Any = type(self)
    return _restored, (cls, {field.name: getattr(self, field.name) for field in _fields(cls)})


def _restored(cls: type, values: dict[str, Any]) -> Any:
    return cls(**values)


_METHODS = {
    "__init__": _init,
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _refuse_to_set,
    "__delattr__": _refuse_to_delete,
    "__reduce__": _reduce,
}

__all__ = ["dataclass"]
