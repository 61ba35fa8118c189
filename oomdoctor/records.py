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
from functools import cache, partial
from types import MemberDescriptorType
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
def _compared(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in _fields(cls) if field.compare)


class _Plan:
    """How the instances of a class are filled: each field with what puts its value in."""

    def __init__(self, cls: Any) -> None:
        known = _fields(cls)
        puts = {field.name: _putting(cls, field.name) for field in known}
        missing = dataclasses.MISSING
        self.positional = tuple(field.name for field in known if not field.kw_only)
        self.with_default = [(f.name, puts[f.name], f.default) for f in known if f.default is not missing]
        self.made = [(f.name, puts[f.name], f.default_factory) for f in known if f.default_factory is not missing]
        self.required = [(f.name, puts[f.name]) for f in known if f.default is missing and f.default_factory is missing]


_plan = cache(_Plan)


def _putting(cls: Any, name: str) -> Any:
    slot = getattr(cls, name, None)
    return slot.__set__ if isinstance(slot, MemberDescriptorType) else partial(_put, name)


def _put(name: str, self: Any, value: Any) -> None:
    object.__setattr__(self, name, value)


def _init(self: Any, *values: Any, **named: Any) -> None:
    kind: Any = type(self)
    plan = _plan(kind)
    if values:
        _name(kind.__name__, values, plan.positional, named)
    take = named.pop
    try:
        for name, put in plan.required:
            put(self, take(name))
    except KeyError as missing:
        raise TypeError(f"{kind.__name__}() misses {missing}") from None
    for name, put, default in plan.with_default:
        put(self, take(name, default))
    for name, put, make in plan.made:
        put(self, take(name) if name in named else make())
    if named:
        raise TypeError(f"{kind.__name__}() got unknown arguments: {sorted(named)}")


def _name(kind: str, values: tuple[Any, ...], positional: tuple[str, ...], named: dict[str, Any]) -> None:
    """Put the values among the named ones."""
    if len(values) > len(positional):
        raise TypeError(f"{kind}() takes {len(positional)} positional arguments, {len(values)} were given")
    for name, value in zip(positional, values, strict=False):
        if name in named:
            raise TypeError(f"{kind}() got {name!r} twice")
        named[name] = value


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
