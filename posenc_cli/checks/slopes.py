"""Whether slopes that someone computed are ALiBi's, and if not, whose they are."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput, Unavailable, quoted_name
from posenc_cli.records import Record
from posenc_cli.transaction import open_input

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.analysis.slopes import Slopes


_LARGEST_JSON = 8 << 20  # three times the slopes of the most heads; a device never ends


class SlopesCheck(Record):
    """How given slopes compare with the exact ones.

    ``worst`` is the largest relative difference, at head ``at`` (from 0). ``explanation`` says
    which rule or known bug gives all of these slopes, if one does, and how nearly; where
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
        return slopes_of_json(path), "float64"
    loaded = read_array(path)
    values = loaded.values
    if max(values.shape) != values.size or values.dtype.kind != "f":
        shape = "×".join(map(str, values.shape))
        raise InvalidInput(
            f"--check {quoted_name(path)}: holds a {shape} array, not a row of slopes"
        )
    return values.reshape(-1).tolist(), loaded.dtype


def slopes_of_json(path: str) -> list[float]:
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


def check_slopes(given: Sequence[float], dtype: str, own: Slopes) -> SlopesCheck:
    """The comparison of ``given`` slopes, held in ``dtype``, with those of a rule.

    Raises: InvalidInput when their number is another.
    """
    import numpy as np

    from posenc_cli.checks.expected import Expected, ValuePlaces, slope_tolerance
    from posenc_cli.checks.search import explanations
    from posenc_cli.formulas.alibi import alibi

    heads = own.heads
    if len(given) != heads:
        raise InvalidInput(f"--check: the file holds {len(given)} slopes, but --heads is {heads}")
    allowed = slope_tolerance(heads, "auto", dtype)
    found, expected = np.asarray(given), np.asarray(own.values)
    with np.errstate(all="ignore"):
        apart = np.nan_to_num(np.abs(found / expected - 1), nan=np.inf, posinf=np.inf)
    at = int(np.argmax(apart))
    params = {"heads": heads, "max_bias": own.max_bias, "slopes": own.convention}
    e = Expected("slopes", alibi, params, ValuePlaces(np.arange(heads)), found, dtype)
    ok = bool(apart[at] <= allowed)
    told = [] if ok else explanations(e, np.flatnonzero(apart > allowed))
    return SlopesCheck(
        ok=ok,
        worst=float(apart[at]),
        tolerance=allowed,
        at=at,
        expected=own.values[at],
        given=float(given[at]),
        explanation=", or ".join(" and ".join(bug.message for bug in bugs) for bugs in told)
        or None,
    )
