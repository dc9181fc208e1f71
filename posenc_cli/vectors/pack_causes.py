"""Why a port's result differs from test vectors: by the searches of ``rope-check`` and ``check``.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli import catalogue
from posenc_cli.checks.expected import Expected, ValuePlaces
from posenc_cli.checks.row_causes import row_causes
from posenc_cli.checks.search import explanations
from posenc_cli.encoding.request import Encoding
from posenc_cli.errors import PosencError
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.reference import Reference
from posenc_cli.inference.tolerance import unit
from posenc_cli.positions import Positions, consecutive_ranges
from posenc_cli.records import replace
from posenc_cli.rotary.rotated import rotated_subject
from posenc_cli.rotary.verdict import order_notes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posenc_cli.numerics.arrays import Integers, NumberArray, RealRows

_FEW = 6
"""Rows at which each bug is tried first."""

Causes = tuple[tuple[str, str], ...]
"""Known bugs that give every value: the cause and the message of each."""


def pack_causes(
    manifest: Mapping[str, Any], positions: Integers, x: Sequence[NumberArray], given: RealRows
) -> Causes:
    """The known bugs that give all of ``given``; none of an encoding that is not built in.

    Shapes: positions (n,), x none or one of (n, columns), given (n, columns) or (heads · n, n).
    """
    try:
        named, dtype = manifest["encoding"], str(manifest["conventions"]["dtype"])
        given_params = {name: own for name, own in named["params"].items() if own is not None}
        scheme = catalogue.BUILT_IN[named["scheme"]]
        encoding = Encoding.of(scheme, given_params, seq_len=int(positions.max()) + 1)
        with np.errstate(all="ignore"):
            if scheme.kind == "rotary":
                return _of_rotation(encoding, positions, x[0], given, dtype)
            e = _values(encoding, positions, x, given, dtype)
        wrong = np.linspace(0, positions.size - 1, min(_FEW, positions.size)).astype(np.int64)
        told = explanations(e, wrong, context=int(named["context"]))
        return tuple((bugs[0].code, " and ".join(bug.message for bug in bugs)) for bugs in told)
    except (PosencError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return ()  # a manifest that someone changed


def _of_rotation(
    encoding: Encoding, positions: Integers, x: NumberArray, given: RealRows, dtype: str
) -> Causes:
    reference = Reference.of(encoding)
    before = np.asarray(x, np.float64)
    causes = row_causes(before, given, dtype, reference, positions)
    if causes == ():  # right but for what no score of q and k can tell
        where = Positions(consecutive_ranges(positions.tolist()))
        subject = rotated_subject(before, given, dtype, reference, where)
        return tuple((str(Cause.LAYOUT), note) for note in order_notes(subject))
    return tuple((str(why.cause), why.message) for why in causes or ())


def _values(
    encoding: Encoding,
    positions: Integers,
    x: Sequence[NumberArray],
    given: RealRows,
    dtype: str,
) -> Expected:
    """What was added to vectors, or scores, beside the reference."""
    scheme, params = encoding.bound.scheme, encoding.bound.params
    scores = given.reshape(-1, positions.size, positions.size) if not x else given
    places = ValuePlaces(positions, positions)
    e = Expected("scores", scheme, params, places, scores, dtype, lookup=encoding.lookup)
    if not x:
        return e
    vectors = np.asarray(x[0], np.float64)
    slack = 4 * max(unit(dtype), unit("float32")) * float(np.abs(vectors).max())
    rows = replace(e, form="rows", places=ValuePlaces(positions), found=given - vectors)
    return replace(rows, vectors=vectors, slack=slack)
