"""What functions look at together: encodings and arrays, one or a list of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.api.arguments import ArgumentError, GivenPositions, check_unused, choice_of
from posenc_cli.api.arrays import is_array
from posenc_cli.api.checking import loaded_array
from posenc_cli.choice import parameters_by_scheme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.api.arguments import PositionsLike
    from posenc_cli.choice import Choice
    from posenc_cli.files.reading import Loaded


def choice_at(
    encoding: object, positions: PositionsLike | None, parameters: Mapping[str, Any]
) -> Choice:
    """The choice of an encoding at positions as callers give both.

    Raises: InvalidInput where there is no such encoding, or no such positions.
    """
    given = None if positions is None else GivenPositions.of(positions)
    return choice_of(encoding, given.positions if given else None, parameters)


def arrays_and_choices(
    subject: object, positions: PositionsLike | None, parameters: Mapping[str, Any]
) -> tuple[dict[int, tuple[str, Loaded]], dict[int, Choice]]:
    """The arrays, each with a name, and the encodings of one subject or a list, by their places."""
    several = isinstance(subject, list | tuple)
    items = dict(enumerate(subject if isinstance(subject, list | tuple) else (subject,)))
    if not items:
        raise ArgumentError("subject: is an empty list")
    arrays = {
        place: (f"array {place}" if several else "array", loaded_array(item, "array"))
        for place, item in items.items()
        if is_array(item)
    }
    named = {place: item for place, item in items.items() if place not in arrays}
    choices = {
        place: choice_at(item, positions, {} if several else parameters)
        for place, item in named.items()
    }
    if several and choices:
        schemes = [choice.scheme for choice in choices.values()]
        given = dict(zip(choices, parameters_by_scheme(schemes, parameters), strict=True))
        choices = {place: choice_at(item, positions, given[place]) for place, item in named.items()}
    elif not choices:
        check_unused(**parameters)
    return arrays, choices
