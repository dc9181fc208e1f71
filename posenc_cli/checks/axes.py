"""The cause of pairs that follow another coordinate than that of their own axis, in words.

Each pair may follow the coordinate of any axis, or the number of the token, as text has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.verdict import Explanation, Where
from posenc_cli.checks.wording import axes_text, pairs_text, spec, with_residual
from posenc_cli.errors import PosencError
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.claims import Residual
from posenc_cli.inference.differences import value_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.checks.wording import Suspect
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import Flags, Integers, RealRows


def axis_cause(suspect: Suspect) -> Explanation | None:
    """The cause where pairs turn with another coordinate than they should.

    None where no choice of coordinates, one for each pair, explains every cell, or where each pair
    goes along a line of its own.
    """
    sample = suspect.sample
    coordinates = sample.reference.coordinates
    if coordinates is None or coordinates.oblique:
        return None
    own = np.array(coordinates.axes)  # (pairs,)
    followed = _followed(sample, own)
    if followed is None or (followed == own).all():
        return None

    residual = _residual(suspect, followed)
    if not residual.whole:
        return None
    others = np.flatnonzero(followed != own)
    where = Where(None, spec(others), tuple(sorted({*own[others].tolist()})))
    parameter = _other_order(suspect)
    if parameter is not None:
        pairs = f"{pairs_text(others.tolist(), own.size)} follow other axes"
        cause = Explanation(Cause.AXIS, parameter[0], pairs, where=where)
        return with_residual(cause, parameter[1])
    token = _coordinates(sample).shape[1] - 1
    follow = "follows" if others.size == 1 else "follow"
    cause = Explanation(
        Cause.AXIS,
        f"{pairs_text(others.tolist(), own.size)} {follow} "
        f"{_exchanges_text(own, followed, token=token)}",
        "matches in every pair once this is mended",
        where=where,
    )
    return with_residual(cause, residual)


def _residual(suspect: Suspect, followed: Integers) -> Residual:
    """What is left where each pair follows one of the coordinates. Shape: (pairs,)."""

    def held() -> Iterator[tuple[Integers, RealRows, Flags]]:
        for _, piece in suspect.whole.pieces():
            yield piece.positions, *_missed(piece, followed)

    return Residual.measure(held())


def _other_order(suspect: Suspect) -> tuple[str, Residual] | None:
    """The one parameter of the scheme that gives pairs these axes, in words, and what it leaves."""
    reference = suspect.sample.reference
    scheme, params = reference.encoding.bound.scheme, reference.params
    own = reference.coordinates.axes if reference.coordinates is not None else ()
    for name, parameter in scheme.parameters.items():
        choices = (not params[name],) if parameter.type is bool else parameter.choices or ()
        for value in choices:
            try:
                waves = scheme.bind({**params, name: value}).content.waves
            except PosencError:
                continue
            axes = None if waves is None or waves.coordinates is None else waves.coordinates.axes
            if axes is None or axes == own or len(axes) != len(own):
                continue
            residual = _residual(suspect, np.array(axes))
            if residual.whole:
                meaning = parameter.rules.help
                return f"{value_text(name, value, params[name])} ({meaning})", residual
    return None


def _coordinates(sample: Sample) -> Integers:
    """What pairs may follow: the coordinate of each axis, the number of the token last.

    Shape: (n, axes + 1).
    """
    coordinates = sample.reference.coordinates
    assert coordinates is not None
    assert coordinates.at is not None
    return np.stack([*coordinates.at(sample.positions), sample.positions], axis=1)


def _followed(sample: Sample, own: Integers) -> Integers | None:
    """The coordinate that each pair follows, its own where that does; None where one follows none.

    Shape: (pairs,).
    """
    count = _coordinates(sample).shape[1]
    explained = [_missed(sample, own)[1].all(axis=0)]  # (pairs,) each
    explained += [_missed(sample, np.full_like(own, axis))[1].all(axis=0) for axis in range(count)]
    choices = np.stack(explained)  # (axes + 2, pairs)
    if not choices.any(axis=0).all():
        return None
    # What explains most pairs is likelier for each of them than what explains few.
    order = np.argsort(-choices[1:].sum(axis=1), kind="stable")
    best = order[np.argmax(choices[1:][order], axis=0)]
    return np.where(choices[0], own, best)


def _missed(piece: Sample, followed: Integers) -> tuple[RealRows, Flags]:
    """By how much cells are missed whose pairs follow these, and which are explained."""
    along = _coordinates(piece)[:, followed]  # (n, pairs)
    rates = piece.reference.frequencies
    factors = np.asarray(piece.amplitude * np.exp(1j * along * rates), np.complex128)
    missed = np.where(piece.seen, np.abs(piece.factors - factors) + piece.stray, 0.0)
    return missed, piece.explained_cells(factors, rates, along)


def _exchanges_text(own: Integers, followed: Integers, *, token: int) -> str:
    """Which coordinates pairs follow in place of which; ``token`` is the number of the token.

    >>> _exchanges_text(np.array([0, 1, 2, 2]), np.array([3, 2, 1, 3]), token=3)
    'token numbers in place of axes 0, 2, axis 2 in place of axis 1, axis 1 in place of axis 2'
    """
    lost_to: dict[int, list[int]] = {}
    for axis, other in sorted({*zip(own.tolist(), followed.tolist(), strict=True)}):
        if axis != other:
            lost_to.setdefault(other, []).append(axis)
    texts = []
    for axis, lost in lost_to.items():
        name = "token numbers" if axis == token else f"axis {axis}"
        texts.append(f"{name} in place of {axes_text(lost)}")
    return ", ".join(texts)
