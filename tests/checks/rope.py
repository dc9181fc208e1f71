"""What the tests of rope-check share: references, and subjects without files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.checks.calling import implementation
from posenc_cli.encoding.request import Encoding
from posenc_cli.inference.reference import Reference
from posenc_cli.positions import Positions
from posenc_cli.rotary.rotated import rotated_subject
from posenc_cli.rotary.subject import frequency_subject, table_subject
from posenc_cli.rotary.verdict import Examination, examine

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")

MUTANTS = Path(__file__).parents[1] / "diagnosis" / "mutants.py"


def reference(scheme: str, *, seq_len: int | None = None, **given: Any) -> Reference:
    return Reference.of(Encoding.of(catalogue.find(scheme), given, seq_len=seq_len))


def dtype_of(array: Any) -> str:
    return array.dtype.name


def readable(array: Any) -> Any:
    """As files are read: bfloat16 widened to float32."""
    return array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array


def of_tables(
    cos: Any, sin: Any, right: Reference, positions: str, tol: str = "auto"
) -> Examination:
    where = Positions.parse(positions)
    subject = table_subject(readable(cos), readable(sin), dtype_of(cos), right, where)
    return examine(subject, right, tol)


def of_rotated(x: Any, y: Any, right: Reference, positions: str) -> Examination:
    where = Positions.parse(positions)
    subject = rotated_subject(readable(x), readable(y), dtype_of(y), right, where)
    return examine(subject, right, "auto")


def of_frequencies(values: Any, right: Reference, positions: str) -> Examination:
    where = Positions.parse(positions)
    subject = frequency_subject(readable(values), dtype_of(values), right, where)
    return examine(subject, right, "auto")


def of_function(
    name: str, right: Reference, positions: str, *, file: Path = MUTANTS
) -> Examination:
    where = Positions.parse(positions)
    return examine(implementation(f"{file}:{name}", right, where), right, "auto")


def positions_array(positions: str) -> Any:
    return np.array(list(Positions.parse(positions)))


def vectors(count: int, dim: int) -> Any:
    return np.random.default_rng(7).standard_normal((count, dim)).astype(np.float32)
