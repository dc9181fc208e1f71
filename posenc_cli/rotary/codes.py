"""The codes of rope-check's subjects and findings, which scripts rely on.

Each is defined here once, with its meaning. JSON, the tables of docs/ and the tests derive from it.
Causes are in :mod:`posenc_cli.inference.causes`.
"""

from __future__ import annotations

from posenc_cli.inference.causes import Code


class SubjectKind(Code):
    """The kind of a subject."""

    POSENC = "posenc", "posenc's own tables, if you name no subject"
    TABLES = "tables", "tables of cosines and sines (`--tables COS SIN`)"
    INV_FREQ = "inv-freq", "inverse frequencies (`--inv-freq FILE`)"
    ROTATED = "rotated", "vectors before and after the rotation (`--rotated X Y`)"
    IMPL = "impl", "a function, a class or an ONNX graph (`--impl NAME`)"


class FindingName(Code):
    """The property that a finding is about."""

    RELATIVE = "relative", "q·k depends only on m − n, for all q and k and all pairs of positions"
    NORM = "norm", "norms are kept, or multiplied by the reference's attention factor"
    IDENTITY = "identity", "position 0 is not rotated"
    REFERENCE = "reference", "every rotation equals the reference"
