"""Parameters of schemes: types, bounds, text forms, those that schemes share, and random numbers.

The random numbers of a seed are the same everywhere, and in any order: their generator uses only
integers, so no library can change its numbers, and the number at a place does not depend on earlier
ones.

Source: Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014
(SplitMix64's mixing function).
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from posenc_cli.errors import InvalidInput, Unavailable, abbreviated, nearest
from posenc_cli.positions import whole_number
from posenc_cli.records import Record
from posenc_cli.transaction import open_input

_FLOAT = r"[+-]?([0-9]+(_[0-9]+)*\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,6})?"
_BOOLEANS = {"true": True, "false": False}

_PAST_FLOATS = 2**1024  # float() of an integer this large raises

OWN_OPTIONS: dict[str, tuple[str, ...]] = {
    "dim": ("--dim", "-d"),
    "heads": ("--heads",),
    "base": ("--base",),
    "layout": ("--layout",),
}
"""Parameters with a command-line option of their own; the others use ``--set``."""


def flag(name: str) -> str:
    """Return how a parameter is given on the command line.

    >>> flag("dim"), flag("spacing")
    ('--dim', '--set spacing')
    """
    return OWN_OPTIONS[name][0] if name in OWN_OPTIONS else f"--set {name}"


def option_words(name: str, text: str) -> tuple[str, str]:
    """Return the command-line words that give a parameter a value.

    >>> option_words("dim", "64"), option_words("partial", "1")
    (('--dim', '64'), ('--set', 'partial=1'))
    """
    own = OWN_OPTIONS.get(name)
    return ("--set", f"{name}={text}") if own is None else (own[0], text)


class Param(Record):
    """The rules that an annotation declares for a parameter, besides its type.

    ``separator`` is between the numbers of a list; bounds apply to each number. ``follows_length``
    marks a parameter whose default is the length of the sequence: the last position + 1. ``source``
    says where the default comes from.
    """

    help: str
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    follows_length: bool = False
    is_file: bool = False
    separator: str = ","
    source: str = ""


class Parameter(Record):
    """A parameter as declared: name, type, default and rules.

    ``type`` is int, float, bool or str; for a list, stored as a tuple, it is the type of the items.
    ``choices`` restricts a str. ``default`` is ``inspect.Parameter.empty`` if the parameter is
    required.
    """

    name: str
    type: type
    default: Any
    choices: tuple[str, ...]
    rules: Param
    is_list: bool = False

    @property
    def flag(self) -> str:
        """The command-line option that gives the parameter."""
        return flag(self.name)

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is inspect.Parameter.empty

    @property
    def type_text(self) -> str:
        """The type, as documentation shows it."""
        if self.choices:
            return "|".join(self.choices)
        if self.rules.is_file:
            return "file"
        if self.is_list:
            kinds = {int: "integers", float: "numbers"}
            return f"{kinds[self.type]} a{self.rules.separator}b{self.rules.separator}…"
        return {int: "integer", float: "number", bool: "true|false", str: "text"}[self.type]

    @property
    def range_text(self) -> str:
        """The rule for values, as documentation and errors show it; may be empty."""
        rules = self.rules
        parts = []
        if rules.above is not None:
            parts.append(f"above {_bound(rules.above)}")
        if rules.minimum is not None and rules.maximum is not None:
            parts.append(f"from {_bound(rules.minimum)} to {_bound(rules.maximum)}")
        elif rules.minimum is not None:
            parts.append(f"at least {_bound(rules.minimum)}")
        elif rules.maximum is not None:
            parts.append(f"at most {_bound(rules.maximum)}")
        return ", ".join(parts)

    @property
    def default_text(self) -> str:
        """The default, as documentation shows it and ``--set`` reads it; empty if there is none."""
        if self.rules.follows_length:
            return "last position + 1"
        if self.required or self.default is None:
            return ""
        return as_text(self.default, separator=self.rules.separator)

    def value(self, given: object, *, flag: str | None = None) -> Any:
        """Return ``given``, parsed if it is a text, and checked.

        Raises: InvalidInput naming the parameter (by ``flag``), the value and the rule.
        """
        flag = flag or self.flag
        if self.is_list:
            return tuple(self._item(item, flag) for item in self._items(given, flag))
        parsed = self._parse(given, flag)
        if self.choices and parsed not in self.choices:
            raise InvalidInput(
                f"{flag} {abbreviated(str(parsed))}: must be one of {', '.join(self.choices)}",
                hint=nearest(str(parsed), self.choices),
            )
        if self.rules.is_file and not parsed:
            raise InvalidInput(f"{flag}: must name a file")
        if isinstance(parsed, int | float) and not isinstance(parsed, bool):
            self._check_range(parsed, str(given), flag)
        return parsed

    def _items(self, given: object, flag: str) -> Sequence[object]:
        """Return the items of a list, from a tuple, a text, or the JSON file that a text names."""
        if isinstance(given, str):
            if given.strip().endswith(".json"):
                return _list_of_file(given.strip(), flag)
            return [item.strip() for item in given.replace(self.rules.separator, ",").split(",")]
        if isinstance(given, list | tuple) and given:
            return given
        if type(given) in (int, float):
            return [given]
        raise InvalidInput(f"{flag} {abbreviated(str(given))}: must be {self.type_text}")

    def _item(self, given: object, flag: str) -> Any:
        parsed = self._parse(given, flag)
        self._check_range(parsed, str(given), flag)
        return parsed

    def _parse(self, given: object, flag: str) -> Any:
        if isinstance(given, str) and self.type is not str:
            text = given.strip()
            if self.type is bool and text.lower() in _BOOLEANS:
                return _BOOLEANS[text.lower()]
            if self.type is int and (number := whole_number(text)) is not None:
                return number
            if self.type is float and re.fullmatch(_FLOAT, text):
                return float(text)
        elif self.type is float and type(given) is int:
            return float(given) if abs(given) < _PAST_FLOATS else math.inf
        elif type(given) is self.type:
            return given
        wanted = {int: "an integer", float: "a number", bool: "true or false", str: "a text"}
        if str(given).lower().lstrip("+-") in ("inf", "infinity"):
            wanted[float] = "a finite number"
        raise InvalidInput(f"{flag} {abbreviated(str(given))}: must be {wanted[self.type]}")

    def _check_range(self, value: float, given: str, flag: str) -> None:
        rules = self.rules
        if not math.isfinite(value):
            raise InvalidInput(f"{flag} {abbreviated(given)}: must be a finite number")
        kept = (
            (rules.minimum is None or value >= rules.minimum)
            and (rules.maximum is None or value <= rules.maximum)
            and (rules.above is None or value > rules.above)
        )
        if not kept:
            raise InvalidInput(f"{flag} {as_text(value)}: must be {self.range_text}")


def parameter(name: str, annotation: Any, *, default: Any) -> Parameter:
    """Return the parameter that ``Annotated[type, Param(…)]``, or a plain type, declares.

    Raises: TypeError for a type that has no text form.
    """
    base, rules = annotation, Param("")
    if get_origin(annotation) is Annotated:
        base, *extras = get_args(annotation)
        rules = next((extra for extra in extras if isinstance(extra, Param)), rules)
    if get_origin(base) in (Union, UnionType):
        (base,) = [arg for arg in get_args(base) if arg is not NoneType]
    choices: tuple[str, ...] = ()
    is_list = get_origin(base) is tuple
    if is_list:
        base = get_args(base)[0]
    if get_origin(base) is Literal:
        choices, base = get_args(base), str
    if base not in ((int, float) if is_list else (int, float, bool, str)):
        raise TypeError(f"parameter {name!r} is of a type that --set cannot give: {base!r}")
    return Parameter(
        name=name, type=base, default=default, choices=choices, rules=rules, is_list=is_list
    )


def as_text(value: object, *, separator: str = ",") -> str:
    """Return a parameter's value in the form that ``--set`` reads.

    >>> as_text(10000.0), as_text(True), as_text(0.02), as_text((14, 16), separator="x")
    ('10000', 'true', '0.02', '14x16')
    """
    if isinstance(value, tuple):
        return separator.join(map(as_text, value))
    if isinstance(value, bool):
        return str(value).lower()
    return _number(value) if isinstance(value, float) else str(value)


_LONGEST_LIST = 24  # characters


def brief_text(value: Any, *, separator: str = ",") -> str:
    """Return a value for display: ten digits of a number, both ends of a long list.

    >>> brief_text(1 / 3), brief_text((1.0, 2.0)), brief_text(tuple(range(100, 132)))
    ('0.3333333333', '1,2', '100,101 … 131 (32)')
    """
    if value is None:
        return "none"
    text = as_text(value, separator=separator)
    if isinstance(value, float) and not value.is_integer():
        text = f"{value:.10g}"
    if isinstance(value, tuple) and len(text) > _LONGEST_LIST:
        return f"{as_text(value[:2])} … {as_text(value[-1])} ({len(value)})"
    return text


_LARGEST_FILE = 1 << 20  # 32 bytes per number, one number for each of the most pairs


def _list_of_file(path: str, flag: str) -> Sequence[object]:
    """Return the list in a JSON file.

    Raises: InvalidInput if it holds anything else; Unavailable if it cannot be read.
    """
    import json

    try:
        with open_input(path) as file:
            text = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise Unavailable(f"{flag} {abbreviated(path)}: {error.strerror or error}") from error
    if len(text) > _LARGEST_FILE:
        limit = f"{_LARGEST_FILE >> 20} MiB"
        raise InvalidInput(f"{flag} {abbreviated(path)} is larger than {limit}")
    try:
        numbers = json.loads(text)
    except (ValueError, RecursionError):
        numbers = None
    if not isinstance(numbers, list) or not numbers:
        raise InvalidInput(f"{flag} {abbreviated(path)}: must hold a JSON list of numbers")
    return numbers


def _bound(value: float) -> str:
    """Return a bound as its rule shows it: a large float in the short form that a user would type.

    >>> _bound(1e15), _bound(1e6), _bound(2**53)
    ('1e15', '1000000', '9007199254740992')
    """
    short = f"{value:g}".replace("e+", "e")
    return short if abs(value) >= 1e9 and float(short) == value else _number(value)


def _number(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() and abs(value) < 1e16 else repr(value)


_PAPER = "Vaswani et al. 2017, arXiv:1706.03762"

Dim = Annotated[
    int,
    Param(
        "dimensions of the encoding",
        minimum=1,
        maximum=65536,
        source=f"the head dimension of {_PAPER} §3.2.2",
    ),
]
Heads = Annotated[
    int, Param("attention heads", minimum=1, maximum=65536, source=f"{_PAPER} §3.2.2")
]
Base = Annotated[
    float, Param("base of the frequencies (theta in RoPE)", above=1, source=f"{_PAPER} §3.5")
]
Seed = Annotated[
    int, Param("seed of a random table (normal, std 0.02)", minimum=0, maximum=2**64 - 1)
]
WeightsFile = Annotated[
    str | None,
    Param("file or FILE:TENSOR with the learned table", is_file=True),
]
SequenceLength = Annotated[
    int | None,
    Param("length of the sequence", minimum=1, maximum=2**53 + 1, follows_length=True),
]

_MASK = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15
_BITS = 53  # bits of a random number: as many as float64 holds
_PARTS = float(1 << _BITS)


def uniform(seed: int, place: int) -> float:
    """Return the random number of a place, uniform in [0, 1), a multiple of 2^−53.

    >>> 0 <= uniform(0, 0) < 1, uniform(7, 3) == uniform(7, 3), uniform(7, 3) == uniform(7, 4)
    (True, True, False)
    """
    drawn: int = _mixed(_mixed(seed) + (place + 1) * _GAMMA)
    return (drawn >> (64 - _BITS)) / _PARTS


def _mixed(number: Any) -> Any:
    number &= _MASK
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    number = (number ^ number >> 27) * 0x94D049BB133111EB & _MASK
    return number ^ number >> 31


def uniform_parts(seed: int, places: Any, reach: float, bits: int) -> Any:
    """Return int64 numbers of places (n,), uniform from −reach to reach in units of 2^−bits.

    ``places`` are int64 of an array library, whose uint64 wrap at 2^64.
    """
    wide = 2 * int(reach * 2.0**bits) + 1
    drawn = _mixed((places.astype("uint64") + 1) * _GAMMA + _mixed(seed))
    return ((drawn >> (64 - _BITS)).astype("float64") / _PARTS * wide).astype("int64") - wide // 2
