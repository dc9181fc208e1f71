"""The bucket of each relative position as a curve of steps.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.analysis.sampling import steps
from posenc_cli.formulas.parameters import as_text
from posenc_cli.render.figure import Curve, Curves

if TYPE_CHECKING:
    from posenc_cli.encoding.scores import Bucketed
    from posenc_cli.formulas.buckets import BucketRule


def buckets_figure(rule: BucketRule, assigned: Bucketed) -> Curves:
    """The buckets over the relative positions, parted where positions were left out.

    Within a run the bucket stays, or goes by ones with the position: its ends say it all.
    """
    runs, usual = [*assigned.runs()], steps(assigned.positions.tolist()) or 1
    points = np.array(
        [end for run in runs for end in zip(*run, strict=True)], np.float64
    )  # (2 · runs, 2)
    breaks = [
        2 * index
        for index, (before, after) in enumerate(pairwise(runs), start=1)
        if not 0 < after.positions[0] - before.positions[1] <= usual
    ]
    own = [
        f"{name}={as_text(value)}"
        for name, value in assigned.params.items()
        if value != rule.parameters[name].default
    ]
    count = len(assigned.positions)
    positions = f"{count} relative position{'s' if count > 1 else ''}"
    return Curves(
        (Curve.parted(points[:, 0], points[:, 1], np.array(breaks, np.intp)),),
        f"{rule.name}: buckets of {positions}" + (f" ({', '.join(own)})" if own else ""),
        x_label=f"{rule.relative}, in positions",
        y_label="bucket",
    )
