"""Plain functions as schemes: ``f(positions)`` returns d numbers for each of n positions.

What the function returns is not known here, nor how wide its rows are: `posenc_cli.encoding.called`
calls it.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import Rows, Scheme

if TYPE_CHECKING:
    from collections.abc import Callable

_TYPES: dict[str, type] = {"int": int, "float": float, "bool": bool, "str": str}
"""What options can give, by the name of its type."""

HOW_IT_IS_CALLED = "it is called as f(positions), an array of n numbers, and returns n rows: (n, d)"


def scheme_of_function(function: Callable[..., Any], *, name: str, origin: str) -> Scheme:
    """A function of positions as an absolute scheme, whose other parameters are the function's.

    ``origin`` is how the user named it.

    Raises: InvalidInput where positions, and what options can give, are not all that it requires.
    """
    if isinstance(function, type):
        raise InvalidInput(
            f"--scheme {origin}: is a class, not a scheme or a function",
            hint="name an object of it: pe = Name(…) in the file, then file.py:pe",
        )
    declared = _declared(function, origin)

    def build(**given: Any) -> Rows:
        return Rows(0, partial(function, **given), positions="indices", domain="real")

    build.__doc__ = getattr(function, "__doc__", None) or f"The function {origin}."
    build.__annotations__ = {each.name: each.annotation for each in declared}
    build.__signature__ = inspect.Signature(declared)  # type: ignore[attr-defined]
    return Scheme(
        name=name.replace("_", "-"),
        kind="absolute",
        source=origin,
        formula=f"PE[p] = the row that {name}(positions) returns for p: its own value, not exact",
        build=build,
        origin=origin,
        as_given=True,
    )


def _declared(function: Callable[..., Any], origin: str) -> list[inspect.Parameter]:
    """The parameters beside positions that options can give: numbers, texts, true or false.

    Raises: InvalidInput where it takes no positions, or requires what no option can give.
    """
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):  # one of C, whose signature is not known
        return []
    if not parameters or parameters[0].kind in (
        inspect.Parameter.KEYWORD_ONLY,
        inspect.Parameter.VAR_KEYWORD,
    ):
        raise InvalidInput(f"--scheme {origin}: takes no positions", hint=HOW_IT_IS_CALLED)
    declared = []
    for other in parameters[1:]:
        type_given = _TYPES.get(
            str(getattr(other.annotation, "__name__", other.annotation)), type(other.default)
        )
        if type_given in _TYPES.values() and other.kind in (
            other.POSITIONAL_OR_KEYWORD,
            other.KEYWORD_ONLY,
        ):
            declared.append(other.replace(kind=other.KEYWORD_ONLY, annotation=type_given))
        elif other.default is other.empty and not str(other).startswith("*"):
            raise InvalidInput(
                f"--scheme {origin}: requires {other.name}, which has neither a type nor a default",
                hint=f"with {other.name}: int in its signature, an option gives it",
            )
    return declared
