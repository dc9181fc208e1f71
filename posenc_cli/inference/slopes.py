"""Whether slopes that someone computed are ALiBi's, and if not, whose they are."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput, Unavailable, quoted_name
from posenc_cli.formulas.alibi import exact_slopes, rules_of
from posenc_cli.formulas.parameters import as_text
from posenc_cli.numerics import exact
from posenc_cli.numerics.dtypes import FLOAT32, REAL_DTYPES
from posenc_cli.records import Record
from posenc_cli.transaction import open_input

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.formulas.alibi import SlopesRule


_MORE_HEADS = (8, 16, 32, 64, 128, 12, 24, 40, 48, 96, 112)
"""Numbers of heads that models have, of which a device or a mistake may leave some."""

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
    which rule or known mistake gives all of these slopes, if one does, and how nearly; where
    several do, two of them.
    """

    ok: bool
    worst: float
    tolerance: float
    at: int
    expected: float
    given: float
    explanation: str | None


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
    given: Sequence[float],
    *,
    heads: int,
    max_bias: float,
    rule: SlopesRule,
    dtype: str,
    expected: Sequence[float],
) -> SlopesCheck:
    """The comparison of ``given`` slopes, held in ``dtype``, with those ``expected`` of the rule.

    Raises: InvalidInput when their number is not ``heads``.
    """
    if len(given) != heads:
        raise InvalidInput(f"--check: the file holds {len(given)} slopes, but --heads is {heads}")
    allowed = tolerance(heads, dtype)
    worst, at = _difference(given, expected)
    ok = worst <= allowed
    differences = (
        (reason, _difference(given, wrong)[0])
        for reason, wrong in _mistakes(given, max_bias, rule, allowed)
        if len(wrong) == heads
    )
    reasons = (
        f"{reason}, within {apart:.2g}" if apart else reason
        for reason, apart in differences
        if apart <= allowed
    )
    return SlopesCheck(
        ok=ok,
        worst=worst,
        tolerance=allowed,
        at=at,
        expected=expected[at],
        given=given[at],
        explanation=None if ok else ", or ".join(islice(dict.fromkeys(reasons), 2)) or None,
    )


def _difference(given: Sequence[float], expected: Sequence[float]) -> tuple[float, int]:
    """The largest relative difference, NaN and infinity counted as infinite, and where it is."""
    differences = [abs(f - e) / abs(e) for f, e in zip(given, expected, strict=True)]
    finite = [d if d == d else float("inf") for d in differences]  # noqa: PLR0124 - NaN
    worst = max(finite)
    return worst, finite.index(worst)


def _mistakes(
    given: Sequence[float], max_bias: float, rule: SlopesRule, error: float
) -> Iterator[tuple[str, list[float]]]:
    """What is known to go wrong with slopes, and the slopes it gives."""
    heads = len(given)
    right = exact_slopes(heads, max_bias=max_bias, rule=rule)
    other: SlopesRule = "naive" if rule == "press" else "press"
    yield (
        f"these are the slopes of --convention {other}",
        exact_slopes(heads, max_bias=max_bias, rule=other),
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
    for bias, own, expected in rules_of(given, error):
        convention = "" if own == rule else f" --convention {own}"
        yield f"these are the slopes of --max-bias {as_text(bias)}{convention}", expected
    for more in _MORE_HEADS:
        if more > heads:
            every = exact_slopes(more, max_bias=max_bias, rule=rule)
            for first in (0, *range(heads, more - heads + 1, heads)):
                heads_text = f"heads {first} to {first + heads - 1} of {more}"
                yield f"these are the slopes of {heads_text}", every[first : first + heads]
