"""The cause of pairs that follow another coordinate than that of their own axis, in words.

Each pair may follow the coordinate of any axis, or the number of the token, as text has it.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.diagnosis.wording import axes_text, pairs_text, spec, with_residual
from posenc_cli.errors import PosencError
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.parameter_differences import value_text
from posenc_cli.numerics import exact
from posenc_cli.records import replace
from posenc_cli.rotary.residual import Residual
from posenc_cli.rotary.verdict import Explanation, Where

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.diagnosis.wording import Suspect
    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import Flags, Integers, RealRows, Reals


def axis_cause(suspect: Suspect) -> Explanation | None:
    """The cause where pairs turn with another coordinate than they should.

    None where neither a choice of coordinates, one for each pair, nor of their rates explains every
    cell, or where each pair goes along a line of its own.
    """
    sample = suspect.sample
    coordinates = sample.reference.coordinates
    if coordinates is None or coordinates.oblique:
        return None
    own, right = np.array(coordinates.axes), sample.reference.frequencies  # (pairs,) both
    for message, axes, rates in _candidates(sample, own):
        others = np.flatnonzero((axes != own) | (rates != right))
        if not others.size or not _missed(sample, axes, rates)[1].all():
            continue
        residual = _residual(suspect, axes, rates)
        if not residual.whole:
            continue
        pairs = pairs_text(others.tolist(), own.size)
        where = Where(None, spec(others), tuple(sorted({*own[others].tolist()})))
        cause = Explanation(Cause.AXIS, message, f"{pairs} follow other axes", where=where)
        if not message:
            follow = "follows" if others.size == 1 else "follow"
            token = _coordinates(sample).shape[1] - 1
            text = f"{pairs} {follow} {_exchanges_text(own, axes, token=token)}"
            cause = replace(
                cause, message=text, evidence="matches in every pair once this is mended"
            )
        return with_residual(cause, residual)
    return None


def _candidates(sample: Sample, own: Integers) -> Iterator[tuple[str, Integers, Reals]]:
    """What may be wrong in words, and the axes and rates that pairs have then.

    One parameter; then the axis of each pair, without words; then the order of the axes, each with
    its own pairs and rates.
    """
    right = sample.reference.frequencies
    yield from _other_parameters(sample.reference)
    followed = _followed(sample, own)
    if followed is not None:
        yield "", followed, right
    blocks = {int(axis): np.flatnonzero(own == axis) for axis in own}
    for order in permutations(blocks):
        pairs = np.concatenate([blocks[axis] for axis in order])
        text = f"pairs follow axes in the order {order}, not {tuple(blocks)}"
        yield text, own[pairs], right[pairs]


def _residual(suspect: Suspect, followed: Integers, rates: Reals) -> Residual:
    """What is left where each pair follows one of the coordinates at a rate. Shape: (pairs,)."""

    def held() -> Iterator[tuple[Integers, RealRows, Flags]]:
        for _, piece in suspect.whole.pieces():
            yield piece.positions, *_missed(piece, followed, rates)

    return Residual.measure(held())


def _other_parameters(reference: Reference) -> Iterator[tuple[str, Integers, Reals]]:
    """What one other value of a parameter gives: it in words, the axes of pairs, and their rates.

    Of flags, of words, and of the shares that axes have of the pairs, in every order; what other
    models do is no mistake of one parameter.
    """
    scheme, coordinates = reference.encoding.bound.scheme, reference.coordinates
    assert coordinates is not None
    params = {name: value for name, value in reference.params.items() if value is not None}
    if "grid" not in params:  # else it may leave out which axes pairs follow
        params.setdefault("axes", "some")
    for name, parameter in scheme.parameters.items():
        own = params.get(name)
        choices: tuple[Any, ...] = () if name == "convention" else parameter.choices or ()
        if parameter.type is bool:
            choices = (not own,)
        if name == "sections":
            own = own or tuple(np.bincount(coordinates.axes).tolist())
            choices = tuple(permutations(own))
        for value in choices:
            try:
                waves = scheme.bind({**params, name: value}).rotation.waves
            except PosencError:
                continue
            axes = () if waves.coordinates is None else waves.coordinates.axes
            if own in (None, value) or len(axes) != len(coordinates.axes):
                continue
            rates = reference.frequencies
            if name == "sections":  # an axis may have a ladder of its own, as long as its share
                exactly = [float(rate) for rate in waves.frequencies(exact)]
                rates = np.array(exactly) / coordinates.denominator
            yield f"{value_text(name, value, own)} ({parameter.rules.help})", np.array(axes), rates


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
    choices_of_all = [own, *(np.full_like(own, axis) for axis in range(count))]
    rates = sample.reference.frequencies
    explained = [_missed(sample, axes, rates)[1].all(axis=0) for axes in choices_of_all]
    choices = np.stack(explained)  # (axes + 2, pairs)
    if not choices.any(axis=0).all():
        return None
    # What explains most pairs is likelier for each of them than what explains few.
    order = np.argsort(-choices[1:].sum(axis=1), kind="stable")
    best = order[np.argmax(choices[1:][order], axis=0)]
    return np.where(choices[0], own, best)


def _missed(piece: Sample, followed: Integers, rates: Reals) -> tuple[RealRows, Flags]:
    """By how much cells are missed whose pairs follow these, and which are explained."""
    along = _coordinates(piece)[:, followed]  # (n, pairs)
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
