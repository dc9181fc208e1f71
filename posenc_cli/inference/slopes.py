"""Whether slopes that someone computed are ALiBi's, and if not, whose they are."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput, Unavailable, quoted_name
from posenc_cli.numerics import exact
from posenc_cli.numerics.dtypes import FLOAT32, REAL_DTYPES
from posenc_cli.records import Record
from posenc_cli.schemes.alibi import slopes_of_heads
from posenc_cli.transaction import open_input

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.schemes.alibi import SlopesRule


_LARGEST_JSON = 8 << 20  # three times the slopes of the most heads; a device never ends


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


def read_slopes(path: str) -> tuple[list[float], str]:
    """The slopes in a file that someone wants checked, and the number format they are stored in.

    Raises: InvalidInput, Unavailable: it cannot be read, or holds something else.
    """
    from posenc_cli.files.reading import read_array

    if PurePath(path).suffix.lower() == ".json":
        return _slopes_of_json(path), "float64"
    loaded = read_array(path)
    values = loaded.values
    if max(values.shape) != values.size or values.dtype.kind != "f":
        shape = "×".join(map(str, values.shape))
        raise InvalidInput(
            f"--check {quoted_name(path)}: holds a {shape} array, not a row of slopes"
        )
    return values.reshape(-1).tolist(), loaded.dtype


def _slopes_of_json(path: str) -> list[float]:
    """The slopes in what ``--json`` wrote, or in a list of numbers."""
    try:
        with open_input(path) as file:
            text = file.read(_LARGEST_JSON + 1)
        if len(text) > _LARGEST_JSON:
            raise InvalidInput(
                f"--check {quoted_name(path)}: is larger than {_LARGEST_JSON >> 20} MiB"
            )
        document = json.loads(text)
        slopes = document["slopes"] if isinstance(document, dict) else document
        return [float(slope) for slope in slopes]
    except OSError as error:
        raise Unavailable(f"cannot read {quoted_name(path)}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"--check {quoted_name(path)}: holds no slopes as JSON") from error


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
