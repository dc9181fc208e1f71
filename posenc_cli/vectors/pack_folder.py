"""Write test vectors as a folder for other languages, and check a port's results.

The arrays are .npy files of little-endian float32, positions of int64. Such a file starts with ten
bytes; the last two are the length of the header, which follows. The values come after it.
``pack.json`` describes the files. The same request gives the same bytes.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli import catalogue
from posenc_cli.encoding.request import Encoding
from posenc_cli.errors import InvalidInput, PosencError, Unavailable, quoted_name
from posenc_cli.examples import READERS, reader_text
from posenc_cli.files.atomic import new_folder, replacing
from posenc_cli.files.formats import save
from posenc_cli.files.matrix import Matrix
from posenc_cli.files.npy import FORMAT
from posenc_cli.files.reading import NoMatrix, read_array
from posenc_cli.inference.reference import Reference
from posenc_cli.inference.tolerance import unit
from posenc_cli.numerics.dtypes import FLOAT32, INT64
from posenc_cli.numerics.rounding import narrow
from posenc_cli.records import Record, replace
from posenc_cli.transaction import open_input

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from posenc_cli.checks.expected import Expected
    from posenc_cli.numerics.arrays import Integers, NumberArray, RealRows
    from posenc_cli.vectors.pack import Outcome, VectorPack

MANIFEST = "pack.json"
_SCHEMA = "posenc/pack/1"
_ARRAYS = {
    "positions": "(n,) int64: the position of each vector, or of each query and key",
    "x": "(n, columns): vectors; odd multiples of 1/32, exact in float16 and bfloat16 too",
    "y": "the encoded x, or the scores, each value {rounded}",
    "tolerance": "the allowed error of each value of y",
    "cos": "(n, pairs): cosines, the attention factor in them, {rounded}",
    "sin": "(n, pairs): sines, the attention factor in them, {rounded}",
    "inv_freq": "(pairs,): frequencies in radians per position, {rounded}",
    "rows": "(n, columns): rows added to x, {rounded}",
}
_FEW = 6
"""Rows on which each bug is tried first."""

Causes = tuple[tuple[str, str], ...]
"""Known bugs that reproduce every value: the cause and the message of each."""

_LARGEST_FILE = 64 << 20
"""Largest size of a pack's JSON file, in bytes; a usual one has some hundred thousand."""


def write_pack(pack: VectorPack, path: str, readers: Iterable[str] = ()) -> dict[str, Any]:
    """Write a complete pack to a new or empty folder, or nothing; return its manifest.

    Raises: InvalidInput if ``path`` is not such a folder; Unavailable if it cannot be written.
    """
    content = pack.content
    arrays = {
        "positions": content.positions,
        "y": content.y.reshape(content.shape),
        "tolerance": content.tolerance.reshape(content.shape),
        **content.arrays,
    }
    readers = tuple(readers)
    if readers and "x" not in arrays:
        raise InvalidInput(
            f"--reader {','.join(readers)}: readers call a function of one vector, and "
            f"{content.request.scheme.name} adds to scores"
        )
    scheme = content.request.scheme
    rounded = f"as {scheme.name} gives it, rounded once" if scheme.as_given else "correctly rounded"
    files: dict[str, dict[str, Any]] = {}
    with new_folder(path, option="--out", last=MANIFEST) as folder:
        for name, values in arrays.items():
            place = f"{name}.npy"
            saved = save(_matrix(values), str(folder / place), format=FORMAT, digest=True)
            files[place] = {
                "what": _ARRAYS[name].format(rounded=rounded),
                "shape": list(values.shape),
                "dtype": _stored_dtype(values).name,
                "sha256": saved.sha256,
            }
        for language in readers:
            digest = _write(folder / READERS[language], reader_text(language))
            what = "a reader to compile with yours"
            files[READERS[language]] = {"what": what, "sha256": digest}
        manifest = _manifest(pack, files)
        _write(folder / MANIFEST, _json_bytes(manifest))
    return manifest


def _stored_dtype(values: NumberArray) -> Any:
    return INT64 if values.dtype.kind == "i" else FLOAT32


def _matrix(values: NumberArray) -> Matrix:
    stored = values if values.dtype.kind == "i" else narrow(values, None, FLOAT32)
    return Matrix(values.shape, _stored_dtype(values), lambda: iter([stored]), {})


def _json_bytes(fields: Mapping[str, Any]) -> bytes:
    """Return strict JSON, with each list of numbers on one line."""
    text = json.dumps(fields, indent=1, allow_nan=False, ensure_ascii=False)
    text = re.sub(r"\[[-+\d.e,\s]+\]", lambda row: f"[{' '.join(row[0][1:-1].split())}]", text)
    return f"{text}\n".encode()


def _write(path: Path, content: bytes) -> str:
    from hashlib import sha256

    with replacing(path) as stream:
        stream.write(content)
    return sha256(content).hexdigest()


def _manifest(pack: VectorPack, files: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of pack.json."""
    content = pack.content
    description = content.request.description()
    return {
        "schema": _SCHEMA,
        "summary": f"{content.text}: {pack.score}",
        "encoding": {
            **{name: description[name] for name in ("scheme", "params", "positions", "weights")},
            **content.choice.origin,
            "context": content.context[0],
            "context_source": content.context[1],
            "warnings": list(content.choice.warnings),
        },
        "conventions": {
            **content.conventions,
            "dtype": content.dtype.name,
            "stored": "little-endian float32, rows one after another",
            "tolerance": {
                "rule": content.rule,
                "reason": content.reason,
                "largest": float(content.tolerance.max()),
            },
            "x": f"seed {pack.seed}" if "x" in content.arrays else None,
        },
        "score": {
            "killed": pack.detected,
            "known": len(pack.known),
            "survivors": [_outcome_fields(one) for one in pack.known if not one.detected],
            "not_applicable": [
                _outcome_fields(one) for one in pack.outcomes if one.detected is None
            ],
        },
        "files": files,
    }


def _outcome_fields(outcome: Outcome) -> dict[str, str]:
    return {"cause": outcome.cause, "message": outcome.message, "reason": outcome.reason}


class PackComparison(Record):
    """A port's result compared with a pack: the wrong values, the worst of them, and the cause.

    ``worst`` is in tolerances, and infinite if the value is not finite. ``causes`` are the known
    bugs that reproduce every value, each with its message.
    """

    pack: str
    path: str
    values: int
    wrong: int
    worst: float
    row: int
    column: int
    position: int
    given: float
    right: float
    tolerance: float
    causes: tuple[tuple[str, str], ...]

    @property
    def ok(self) -> bool:
        """Whether every value is within its tolerance."""
        return self.wrong == 0

    @property
    def fields(self) -> dict[str, Any]:
        """The comparison as JSON fields."""
        return {
            "ok": self.ok,
            "pack": self.pack,
            "path": self.path,
            "values": self.values,
            "wrong": self.wrong,
            "worst": self.worst if np.isfinite(self.worst) else None,
            "at": {"row": self.row, "column": self.column, "position": self.position},
            "given": self.given if np.isfinite(self.given) else None,
            "right": self.right,
            "tolerance": self.tolerance,
            "diagnosis": [{"cause": cause, "message": text} for cause, text in self.causes],
        }


def compare_with_pack(pack: str, path: str) -> PackComparison:
    """Compare the array in a file with the y of a pack.

    Raises: InvalidInput if the pack is not as posenc wrote it, or the array has another shape;
    Unavailable if a file cannot be read.
    """
    folder = Path(pack)
    manifest = _json(folder / MANIFEST)
    try:
        if manifest["schema"] != _SCHEMA:
            raise _no_pack(folder / MANIFEST)
        digests = {str(name): str(file["sha256"]) for name, file in manifest["files"].items()}
    except (KeyError, TypeError, AttributeError):
        raise _no_pack(folder / MANIFEST) from None
    names = ["positions.npy", "y.npy", "tolerance.npy", *(["x.npy"] if "x.npy" in digests else [])]
    for name in names:
        _check_digest(folder / name, digests.get(name))
    positions, y, tolerance, *x = (read_array(str(folder / name)).values for name in names)
    given = read_array(path).values
    if given.dtype.kind == "c":
        raise NoMatrix(quoted_name(path), "complex numbers")
    if given.size != y.size or given.shape[-y.ndim :] != y.shape:
        raise InvalidInput(
            f"{quoted_name(path)} has the shape {given.shape}, but y of the test vectors {y.shape}"
        )
    kinds = {positions.dtype.kind, y.dtype.kind, tolerance.dtype.kind}
    valid = y.shape == tolerance.shape and y.ndim and y.size and positions.size
    if not valid or "c" in kinds or not np.isfinite(positions).all():
        raise _no_pack(folder)
    y, tolerance = y.reshape(-1, y.shape[-1]), tolerance.reshape(-1, y.shape[-1])
    given = given.reshape(y.shape).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        errors = np.abs(given - y) / tolerance
    errors = np.where(np.isnan(errors), np.inf, errors)
    row, column = (int(index) for index in np.unravel_index(int(np.argmax(errors)), y.shape))
    position = int(positions[row % positions.size])
    wrong = int(np.count_nonzero(errors > 1))
    causes = _reproducing_bugs(manifest, positions, x, given) if wrong else ()
    return PackComparison(
        pack, path, y.size, wrong, float(errors[row, column]), row, column, position,
        float(given[row, column]), float(y[row, column]), float(tolerance[row, column]), causes,
    )  # fmt: skip


def _reproducing_bugs(
    manifest: Mapping[str, Any], positions: Integers, x: Sequence[NumberArray], given: RealRows
) -> Causes:
    """Return the known bugs that reproduce all of ``given``; none if the scheme is not built in.

    Shapes: positions (n,), x none or one of (n, columns), given (n, columns) or (heads · n, n).
    """
    from posenc_cli.checks.known_bugs.rotations import rotated_vectors
    from posenc_cli.checks.search import explanations

    try:
        named, dtype = manifest["encoding"], str(manifest["conventions"]["dtype"])
        given_params = {name: own for name, own in named["params"].items() if own is not None}
        scheme, context = catalogue.BUILT_IN[named["scheme"]], int(named["context"])
        vectors = [] if scheme.kind == "bias" else [np.asarray(x[0], np.float64)]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return ()  # an edited manifest
    try:
        encoding = Encoding.of(scheme, given_params, seq_len=int(positions.max()) + 1)
        with np.errstate(all="ignore"):
            if scheme.kind == "rotary":
                reference = Reference.of(encoding)
                e: Expected = rotated_vectors(reference, positions, vectors[0], given, dtype)
            else:
                e = _expected_values(encoding, positions, vectors, given, dtype)
        wrong = np.linspace(0, positions.size - 1, min(_FEW, positions.size)).astype(np.int64)
        found = explanations(e, wrong, context=context)
        return tuple((bugs[0].code, " and ".join(bug.message for bug in bugs)) for bugs in found)
    except (PosencError, ArithmeticError):
        return ()  # no encoding has these parameters


def _expected_values(
    encoding: Encoding,
    positions: Integers,
    x: Sequence[NumberArray],
    given: RealRows,
    dtype: str,
) -> Expected:
    """Return scores, or the rows added to vectors, with the reference to compare with."""
    from posenc_cli.vectors.pack import added_values

    if not x:
        scores = given.reshape(-1, positions.size, positions.size)
        return added_values(encoding, positions, scores, dtype)
    (vectors,) = x
    slack = 4 * max(unit(dtype), unit("float32")) * float(np.abs(vectors).max())
    e = added_values(encoding, positions, given - vectors, dtype, vectors=vectors)
    return replace(e, slack=slack)


def _check_digest(path: Path, digest: str | None) -> None:
    from hashlib import sha256

    if sha256(_limited_content(path)).hexdigest() != digest:
        raise InvalidInput(
            f"{quoted_name(path)} has changed since the test vectors were written",
            hint="write them again: posenc emit",
        )


def _json(path: Path) -> Any:
    try:
        return json.loads(_limited_content(path))
    except (ValueError, RecursionError):
        raise _no_pack(path) from None


def _limited_content(path: Path) -> bytes:
    try:
        with open_input(path) as file:
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise Unavailable(f"--check {quoted_name(path)}: {error.strerror}") from error
    if len(content) > _LARGEST_FILE:
        raise InvalidInput(f"{quoted_name(path)} is larger than {_LARGEST_FILE >> 20} MiB")
    return content


def _no_pack(path: Path) -> InvalidInput:
    return InvalidInput(
        f"{quoted_name(path)} is not a folder of test vectors from posenc emit",
        hint="--check takes the folder that posenc emit wrote",
    )
