"""Schemes of a user's own: tests copy this file to where a command finds it."""

from __future__ import annotations

from typing import Any

from posenc_cli.formulas.declare import Bias, Rotation, Rows, Waves, absolute, bias, rotary


@rotary(source="mine", formula="2^−i")
def halving(*, dim: int = 8, rate: float = 2.0) -> Rotation:
    """Each pair turns half as fast as the one before it."""
    return Rotation(Waves(dim // 2, lambda xp: 1 / xp.asarray(2) ** xp.arange(0, dim // 2)), "half")


@rotary(source="mine", formula="1")
def unit(*, dim: int = 2) -> Rotation:
    """A radian a position."""
    return Rotation(Waves(1, lambda xp: xp.asarray([1.0])), "half")


@absolute(source="mine", formula="p/2")
def added(*, dim: int = 16) -> Rows:
    """Half the position, of whole positions, as rows are unless they say more."""
    return Rows(dim, lambda xp, places, _: xp.ones(dim) * (places / 2)[:, None])


@absolute(source="mine", formula="2p")
def twice(*, dim: int = 2) -> Rows:
    """Any positions, twice."""

    def rows(xp: Any, positions: Any, table: Any, denominator: Any) -> Any:
        return xp.zeros((positions.size, dim)) + 2 * positions[:, None] / denominator

    return Rows(dim, rows, domain="real")


@bias(source="mine", formula="−h·|j − i|/8")
def near(*, heads: int = 2) -> Bias:
    """Near keys weigh more."""
    slopes = (lambda xp: xp.arange(1, heads + 1) / 8, lambda xp, m, apart: -(m * xp.abs(apart)))
    return Bias(heads, "offset", *slopes)


@bias(source="mine", formula="1/0")
def broken(*, heads: int = 1) -> Bias:
    """Raises."""
    return Bias(heads, "offset", lambda xp: xp.arange(1, 2), lambda *_: 1 / 0)
