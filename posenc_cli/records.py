"""Immutable values with named fields, like frozen dataclasses, but without generated methods.

A dataclass writes and compiles its methods for each class, which takes half a millisecond. For the
classes of a short command that would be a tenth of its time. The methods of `Record` are shared and
read the names of the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, ClassVar, NoReturn, Self, TypeVar, dataclass_transform

Value = TypeVar("Value", bound="Record")
Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


class _Fresh:
    """A default that is made anew for each record."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def fresh(make: Callable[[], Any]) -> Any:
    """Return a field's default that is made anew for each record."""
    return _Fresh(make)


@dataclass_transform(frozen_default=True)
class Record:
    """A value with the fields that its class annotates, in order, after those of its bases.

    Records of one class are equal if their fields are equal, and hashable if their fields are. The
    value that a class assigns to a field is its default, shared by all records unless it is
    `fresh`. A ``ClassVar`` annotation is not a field.

    >>> class Point(Record):
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1) == Point(x=1, y=0), replace(Point(1), y=2)
    (Point(x=1, y=0), True, Point(x=1, y=2))
    >>> Point(1).x = 2
    Traceback (most recent call last):
      ...
    AttributeError: a Point does not change: x
    """

    _names: ClassVar[tuple[str, ...]] = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()
    _known: ClassVar[frozenset[str]] = frozenset()
    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = (name for name, kind in cls.__annotations__.items() if "ClassVar" not in str(kind))
        cls._names = tuple(dict.fromkeys((*cls._names, *own)))
        cls.__match_args__ = cls._names  # type: ignore[misc]
        cls._known = frozenset(cls._names)
        cls._defaults = {name: getattr(cls, name) for name in cls._names if hasattr(cls, name)}

    def __init__(self, *values: Any, **named: Any) -> None:
        names, fields = self._names, self.__dict__
        fields.update(zip(names, values, strict=False))
        fields.update(named)
        if len(values) + len(named) == len(names) and fields.keys() == self._known:
            return
        for name, default in self._defaults.items():
            if name not in fields:
                fields[name] = default.make() if isinstance(default, _Fresh) else default
        twice = not named.keys().isdisjoint(names[: len(values)])
        if fields.keys() != self._known or len(values) > len(names) or twice:
            given = [*names[: len(values)], *named]
            raise TypeError(f"{type(self).__name__} has the fields {names}, not {given}")

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, in order."""
        return dict(zip(self._names, self._fields(), strict=True))

    def _fields(self) -> tuple[Any, ...]:
        return tuple(map(self.__dict__.__getitem__, self._names))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self is other or self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        shown = (f"{name}={self.__dict__[name]!r}" for name in self._names)
        return f"{type(self).__name__}({', '.join(shown)})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} does not change: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} does not change: {name}")

    def __replace__(self, **changes: Any) -> Self:
        return type(self)(**self.as_dict() | changes)


def replace(record: Value, **changes: Any) -> Value:
    """Return a copy of a record with some fields changed."""
    return record.__replace__(**changes)


def items_by_key(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """Return the items of each key, in the order of the first of each.

    >>> items_by_key([("odd", 3), ("even", 4), ("odd", 5)])
    {'odd': [3, 5], 'even': [4]}
    """
    groups: dict[Key, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups
