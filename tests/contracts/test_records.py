"""Records behave as frozen dataclasses do."""

import copy
import pickle
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar

import pytest

import posenc_cli
from posenc_cli.records import Record, fresh, replace


class Point(Record):
    x: int
    y: int = 0


class Named(Point):
    places: ClassVar[int] = 2
    x: float
    name: str = "origin"
    notes: Mapping[str, Any] = fresh(dict)

    @cached_property
    def size(self) -> float:
        return abs(self.x) + abs(self.y)


@dataclass(frozen=True)
class Like:
    """What ``Point`` would be as a dataclass."""

    x: int
    y: int = 0


@pytest.mark.parametrize(
    "make",
    [
        lambda kind: kind(1),
        lambda kind: kind(1, 2),
        lambda kind: kind(y=2, x=1),
        lambda kind: kind(1, y=2),
    ],
)
def test_fields_come_in_order_or_by_name(make):
    record, like = make(Point), make(Like)
    assert (record.x, record.y) == (like.x, like.y)
    assert repr(record) == repr(like).replace("Like", "Point")
    assert record.as_dict() == vars(like)
    assert hash(record) == hash(like)


@pytest.mark.parametrize(
    ("values", "named"),
    [((), {}), ((1, 2, 3), {}), ((1,), {"x": 2}), ((1,), {"z": 2}), ((), {"y": 2})],
)
def test_fields_that_are_missing_unknown_or_given_twice_are_refused(values, named):
    for kind in (Point, Like):
        with pytest.raises(TypeError):
            kind(*values, **named)


def test_records_are_equal_by_class_and_fields():
    assert Point(1) == Point(1, 0)
    assert Point(1) != Point(2)
    assert Point(1) != Named(1)
    assert Point(1) != Like(1)
    assert len({Point(1), Point(1, 0), Point(2)}) == 2


def test_records_do_not_change():
    point = Point(1)
    with pytest.raises(AttributeError, match="Point does not change: x"):
        point.x = 2
    with pytest.raises(AttributeError, match="Point does not change: x"):
        del point.x
    assert point == Point(1)


def test_fields_of_bases_come_first_and_keep_their_place():
    assert Named(3.0, 4, "far").as_dict() == {"x": 3.0, "y": 4, "name": "far", "notes": {}}
    assert Named.places == 2
    assert Named(1).notes is not Named(1).notes


def test_what_is_derived_is_no_field():
    named = Named(-3.0, 4)
    assert named.size == 7
    assert named == Named(-3.0, 4)
    assert replace(named, y=1).size == 4
    assert named.as_dict() == Named(-3.0, 4).as_dict()


def test_replacing_a_field_that_is_not_there_is_refused():
    with pytest.raises(TypeError, match=r"Point has the fields \('x', 'y'\), not"):
        replace(Point(1), z=2)


def test_records_are_copied_and_pickled():
    named = Named(3.0, 4, "far", {"to": 1})
    assert copy.copy(named) == copy.deepcopy(named) == pickle.loads(pickle.dumps(named)) == named


def test_records_match_by_position():
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)
        case _:
            raise AssertionError


def every_record():
    for module in pkgutil.walk_packages(posenc_cli.__path__, "posenc_cli."):
        if not module.name.endswith((".__main__", ".worker")):
            import_module(module.name)
    waiting = [Record]
    while waiting:
        found = waiting.pop().__subclasses__()
        waiting += found
        yield from (each for each in found if each.__module__.startswith("posenc_cli."))


def test_defaults_are_shared_safely_and_come_last():
    records = list(every_record())
    assert len(records) > 100
    for record in records:
        given = [name for name in record.__match_args__ if not hasattr(record, name)]
        assert record.__match_args__[: len(given)] == tuple(given), record
        for name in record.__match_args__[len(given) :]:
            default = getattr(record, name)
            assert not isinstance(default, (list, dict, set, bytearray)), (record, name)
            assert not hasattr(default, "dtype"), (record, name)
