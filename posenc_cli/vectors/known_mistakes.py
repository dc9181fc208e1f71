"""A known mistake, and what it makes of the values of a golden pack.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.errors import PosencError
from posenc_cli.formulas.inverse import KNOWN_BASES
from posenc_cli.inference.candidates import is_number, usual_values
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.formats import HALVES, round_to_half
from posenc_cli.inference.position_maps import usual_maps
from posenc_cli.inference.tolerance import smallest
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from posenc_cli.formulas.declare import Bound
    from posenc_cli.numerics.arrays import Integers, RealRows

_SHAPE = ("dim", "heads", "seed")
"""Parameters that say how large a table is, or which of many it is."""
_STEPS = (2.0, 0.5)
"""Times a number that no model gives."""


class WrongValues(Record):
    """What a mistake makes of values, and what code in float32 may err by that makes it.

    Both are (rows, columns).
    """

    values: RealRows
    tolerance: RealRows


class KnownMistake(Record):
    """A mistake: its cause, what it is, and what it makes of the values.

    ``wrong`` is None where it cannot be made of this encoding; ``reason`` says why.
    """

    cause: str
    message: str
    wrong: WrongValues | None
    reason: str = ""


def made(
    cause: str, message: str, make: Callable[..., WrongValues], *given: Integers
) -> KnownMistake:
    """A mistake whose values are made of what is given, or the reason why they cannot be."""
    try:
        return KnownMistake(cause, message, make(*given))
    except PosencError as error:
        return KnownMistake(cause, message, None, error.message)


def usual_moves(at: Integers, context: int) -> Iterator[tuple[Cause, str, Integers]]:
    """As which positions those at (n,) are taken, in a model of so many: causes and messages."""
    for rule in usual_maps(context):
        yield Cause.POSITION_OFFSET, rule.message, rule.at(at)
    for half in HALVES:
        rounded = round_to_half(at.astype(np.float64), half)
        if np.isfinite(rounded).all():
            yield Cause.POSITION_PRECISION, f"positions were {half}", rounded.astype(np.int64)


def fixed_tolerance(values: RealRows, fixed: float) -> RealRows:
    """A number that all values may be off by, above 0: errors are told as shares of it."""
    return np.full_like(values, max(fixed, smallest("float32")))


def without_idle(mistakes: Iterable[KnownMistake], right: RealRows) -> Iterator[KnownMistake]:
    """The mistakes; those that change nothing, at positions that show most, as none of these."""
    for mistake in mistakes:
        if mistake.wrong is not None and np.array_equal(mistake.wrong.values, right):
            reason = "it changes no value at the positions that show most"
            yield KnownMistake(mistake.cause, mistake.message, None, reason)
        else:
            yield mistake


def other_parameters(bound: Bound) -> Iterator[tuple[str, dict[str, Any]]]:
    """What one parameter of a scheme may be instead, in words, and all the parameters then."""
    given = {name: value for name, value in bound.params.items() if value is not None}
    for name, parameter in bound.scheme.parameters.items():
        right = given.get(name)
        if name in _SHAPE or right is None or parameter.is_list or parameter.rules.follows_length:
            continue
        values: list[Any] = []
        if parameter.type is bool:
            values = [not right]
        elif parameter.choices:
            values = list(parameter.choices)
        elif is_number(parameter):
            near = [parameter.type(right * step) for step in _STEPS]
            values = [*(KNOWN_BASES if name == "base" else usual_values(parameter)), *near]
        for value in dict.fromkeys(values):
            if value != right:
                shown = [
                    str(one).lower() if isinstance(one, bool) else one for one in (value, right)
                ]
                texts = [f"{one:.7g}" if isinstance(one, float) else str(one) for one in shown]
                yield f"{name} is {texts[0]}, not {texts[1]}", {**given, name: value}
