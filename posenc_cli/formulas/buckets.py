"""The rules that map a relative position to a bucket, in exact arithmetic.

Each near position has a bucket of its own. Farther buckets widen with the logarithm of the
distance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from posenc_cli.errors import InvalidInput, nearest
from posenc_cli.formulas import learned
from posenc_cli.formulas.declare import parameters_of
from posenc_cli.formulas.parameters import Param, Parameter, flag
from posenc_cli.records import Record

Buckets = Callable[[Any, Any], Any]
"""Buckets over an array namespace: xp and relative positions (n,) → (n,)."""

_DEBERTA = "He et al. 2020, arXiv:2006.03654; DeBERTa-v2"

_EQUAL = 1e-60
_ERROR = 1e-11
"""Error of float64 estimates. With 4096 buckets, a ratio of logarithms loses 11 of its 53 bits; the
margin is ten times that.
"""


class BucketRule(Record):
    """A rule for buckets: its parameters, the sign of its relative positions, and its builder."""

    name: str
    relative: str
    parameters: Mapping[str, Parameter]
    build: Callable[..., Buckets]

    def bind(self, given: Mapping[str, object]) -> tuple[dict[str, Any], Buckets]:
        """Return the parameters, with defaults for those not given, and the buckets they make.

        Raises: InvalidInput for an unknown name or an invalid value.
        """
        for name in given:
            if name not in self.parameters:
                known = ", ".join(self.parameters)
                raise InvalidInput(
                    f"{flag(name)}: the buckets of {self.name} have no parameter {name!r} "
                    f"(they have: {known})",
                    hint=nearest(name, self.parameters),
                    code="parameter",
                )
        params = {
            name: declared.value(given[name]) if name in given else declared.default
            for name, declared in self.parameters.items()
        }
        return params, self.build(**params)


def deberta(
    *,
    bucket_size: Annotated[
        int,
        Param("buckets on both sides together", minimum=2, maximum=4096, source=_DEBERTA),
    ] = 256,
    max_position: Annotated[
        int,
        Param(
            "distance, plus 1, of the last bucket of a side",
            minimum=3,
            maximum=2**20,
            source=_DEBERTA,
        ),
    ] = 512,
) -> Buckets:
    """DeBERTa's buckets of r = query − key: r itself nearby, then ever wider ones.

    With M = ⌊bucket_size/2⌋ and N = max_position − 1: the bucket is r up to |r| = M, and beyond it
    sign(r) times M + ⌈ln(|r|/M) / ln(N/M) · (M − 1)⌉. Positions beyond max_position continue to
    farther buckets, as in transformers; the authors' own code clamps them first.

    >>> import numpy as np
    >>> deberta(bucket_size=8, max_position=32)(np, np.array([-40, -9, 4, 5, 31]))
    array([-8, -6,  4,  5,  7])

    Raises: InvalidInput if no distances would share a bucket.
    """
    middle, last = bucket_size // 2, max_position - 1
    if last <= middle:
        raise InvalidInput(
            f"--set bucket_size={bucket_size} max_position={max_position}: distances up to "
            f"{middle} have buckets of their own; max_position must be above {middle + 1}"
        )

    def smallest_step(distance: int, estimate: float) -> int:
        """Return the smallest k ≥ ln(distance/M) / ln(N/M) · (M − 1), near an estimate."""
        from posenc_cli.numerics import exact

        k = round(estimate)
        logarithms = exact.log([distance, middle, last])
        far = (logarithms[0:1] - logarithms[1]) * (middle - 1)
        # Equal integer powers agree to all digits, others to far fewer.
        return k + 1 if far - (logarithms[2:3] - logarithms[1]) * k > _EQUAL else k

    def bucket(xp: Any, relative: Any) -> Any:
        distance = xp.abs(relative)
        beyond = distance > middle
        far = xp.asarray(xp.where(beyond, distance, middle + 1), dtype=xp.float64)
        estimate = xp.log(far / middle) / xp.log(xp.asarray(last / middle)) * (middle - 1)
        steps = xp.ceil(estimate)
        near = xp.abs(estimate - xp.round(estimate)) <= _ERROR * (estimate + middle)
        for index in xp.nonzero(near & beyond)[0].tolist():
            steps[index] = smallest_step(int(distance[index]), float(estimate[index]))
        widened = middle + xp.asarray(steps, dtype=xp.int64)
        return xp.where(beyond, xp.where(relative < 0, -widened, widened), relative)

    return bucket


RULES: Mapping[str, BucketRule] = {
    rule.name: rule
    for rule in (
        BucketRule(
            "t5",
            "key − query",
            {
                name: learned.t5.parameters[name]
                for name in ("num_buckets", "max_distance", "bidirectional")
            },
            learned.t5_buckets,
        ),
        BucketRule("deberta", "query − key", parameters_of(deberta), deberta),
    )
}
"""The rules by name."""
