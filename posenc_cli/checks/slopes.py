"""Whether slopes that someone computed are ALiBi's, and if not, whose they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput
from posenc_cli.numerics import exact
from posenc_cli.numerics.dtypes import FLOAT32, REAL_DTYPES
from posenc_cli.records import Record
from posenc_cli.schemes.alibi import slopes_of_heads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.schemes.alibi import SlopesRule


def tolerance(heads: int, dtype: str) -> float:
    """The relative difference that right slopes may show.

    Peers raise a base rounded to float32 to the powers 1 … heads, which multiplies its error as
    often; storing the result rounds it once more.
    """
    stored = REAL_DTYPES.get(dtype, FLOAT32)
    storing = 2.0**-stored.precision if stored.precision < FLOAT32.precision else 0.0
    return (heads + 4) * 2.0**-FLOAT32.precision + storing


class SlopesCheck(Record):
    """How given slopes compare with the exact ones.

    ``worst`` is the largest relative difference, at head ``at`` (from 0). ``explanation`` says
    which known mistake gives exactly these slopes, if one does.
    """

    ok: bool
    worst: float
    tolerance: float
    at: int
    expected: float
    given: float
    explanation: str | None


def slopes(heads: int, *, max_bias: float, rule: SlopesRule) -> list[float]:
    """The slope of each head, correctly rounded to float64."""
    return [float(m) for m in slopes_of_heads(exact, heads, max_bias=max_bias, rule=rule)]


def check_slopes(
    given: Sequence[float], *, heads: int, max_bias: float, rule: SlopesRule, dtype: str
) -> SlopesCheck:
    """The comparison of ``found`` slopes, held in ``dtype``, with the exact ones.

    Raises: InvalidInput when their number is not ``heads``.
    """
    if len(given) != heads:
        raise InvalidInput(f"--check: the file holds {len(given)} slopes, but --heads is {heads}")
    allowed = tolerance(heads, dtype)
    expected = slopes(heads, max_bias=max_bias, rule=rule)
    worst, at = _difference(given, expected)
    ok = worst <= allowed
    reasons = (
        reason
        for reason, wrong in _mistakes(heads, max_bias, rule)
        if len(wrong) == heads and _difference(given, wrong)[0] <= allowed
    )
    return SlopesCheck(
        ok=ok,
        worst=worst,
        tolerance=allowed,
        at=at,
        expected=expected[at],
        given=given[at],
        explanation=None if ok else next(reasons, None),
    )


def _difference(given: Sequence[float], expected: Sequence[float]) -> tuple[float, int]:
    """The largest relative difference, NaN and infinity counted as infinite, and where it is."""
    differences = [abs(f - e) / abs(e) for f, e in zip(given, expected, strict=True)]
    finite = [d if d == d else float("inf") for d in differences]  # noqa: PLR0124 - NaN
    worst = max(finite)
    return worst, finite.index(worst)


def _mistakes(heads: int, max_bias: float, rule: SlopesRule) -> Iterator[tuple[str, list[float]]]:
    """What is known to go wrong with slopes, and the slopes it gives."""
    right = slopes(heads, max_bias=max_bias, rule=rule)
    other: SlopesRule = "naive" if rule == "press" else "press"
    yield (
        f"these are the slopes of --convention {other}",
        slopes(heads, max_bias=max_bias, rule=other),
    )
    yield "these are the right slopes in reverse order", right[::-1]
    yield "these are the right slopes with the sign of the bias", [-m for m in right]
    yield (
        "these are the right slopes sorted; the order of heads matters",
        sorted(right, reverse=True),
    )
    yield (
        "the exponents start at 0, not at 1 (the first slope is 1)",
        [float(m) for m in 2 ** (-max_bias * exact.arange(0, heads, 1) / heads)],
    )
    for bias in (4.0, 8.0, 16.0):
        if bias != max_bias:
            yield (
                f"these are the slopes of --max-bias {bias:g}",
                slopes(heads, max_bias=bias, rule=rule),
            )
