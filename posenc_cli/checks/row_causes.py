"""Causes for rotated rows (``--rotated``), if they explain every row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.inference.causes import Cause
from posenc_cli.positions import Positions
from posenc_cli.rotary.rotated import rotated_subject
from posenc_cli.rotary.verdict import examine

if TYPE_CHECKING:
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Integers, NumberArray
    from posenc_cli.rotary.verdict import Explanation


def row_causes(
    x: NumberArray, values: NumberArray, dtype: str, reference: Reference, positions: Integers
) -> tuple[Explanation, ...] | None:
    """The causes of rows (n, columns) at ascending positions (n,); none where they are right.

    None where they are not known, or leave rows over.
    """
    from posenc_cli.diagnosis.diagnose import diagnose  # late: a right function needs none of it

    where = Positions(tuple(range(int(p), int(p) + 1) for p in positions))
    subject = rotated_subject(x, values, dtype, reference, where, name="calls")
    causes = diagnose(examine(subject, reference, "auto"))
    known = all(
        why.cause != Cause.UNKNOWN and (why.residual is None or why.residual.whole)
        for why in causes
    )
    return causes if known else None
