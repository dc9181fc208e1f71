"""A user's function as a subject: read by what it does to every unit vector, at every position.

A linear map is known once its values at d unit vectors are; that it is linear, and that a row of
its result follows from that row and its position alone, is tried on the way.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.budget import check_size
from posenc_cli.checks.codes import SubjectKind
from posenc_cli.checks.exchange import Exchange, Lateness, Silence
from posenc_cli.checks.subject import Subject
from posenc_cli.errors import InvalidInput, PosencError, Unavailable, abbreviated
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.turning import ColumnPairing, PositionRows, SubjectBlock, Turning
from posenc_cli.transaction import note_read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.turning import Progress, SomeRows
    from posenc_cli.numerics.arrays import Float32Rows, Integers, NumberArray, Reals, UnitMatrices
    from posenc_cli.positions import Positions

_CELLS = 1 << 22
"""Values of one call: enough to be fast, few enough for any machine."""

_LARGE = 1 << 15
"""Positions from which factors are kept in single precision, which holds float32 results."""

_ALIKE = 1e-4
"""Relative: two ways to ask for the same values agree to this, in any format but a half one."""


IGNORES = "ignores the positions it is given: it counts rows"
"""Of a function whose mistake is known."""


SECONDS = 300.0
"""How long one call of a function may take."""


class Implementation:
    """A user's function in a process of its own; a context manager, which ends that process.

    With a ``last`` position every call has a row of it at its end, of which nothing is returned:
    what a function does may depend on the largest position it sees.
    """

    def __init__(self, target: str, *, dim: int, last: int | None = None) -> None:
        place, colon, name = target.rpartition(":")
        if not colon or not place or not name:
            raise InvalidInput(
                f"--impl {abbreviated(target)}: must be module:function or ./file.py:function"
            )
        if place.endswith(".py") and not Path(place).is_file():
            raise Unavailable(f"--impl {abbreviated(target)}: there is no file {place!r}")
        if place.endswith(".py"):
            note_read(place)
        self.target, self.dim = target, dim
        self._last = np.array([] if last is None else [last], np.int64)
        worker = Path(__file__).with_name("worker.py")
        # -P: neither the current folder nor posenc's own is put on the path.
        self._exchange = Exchange([sys.executable, "-P", str(worker), target])

    def __enter__(self) -> Implementation:
        return self

    def __exit__(self, *_: object) -> None:
        self._exchange.end()

    def matrices(self, positions: Integers) -> tuple[UnitMatrices, str]:
        """The values at all unit vectors: [k, j, o] is column o of unit vector j at position k.

        Shape: (positions, dim, dim).
        Raises: InvalidInput when the function does not give them.
        """
        values, dtype = self._ask(np.concatenate([positions, self._last]), None)
        return values[: positions.size], dtype

    def values(self, x: Float32Rows, positions: Integers) -> NumberArray:
        """The values at some vectors, a row each.

        Raises: InvalidInput when the function does not give them.
        """
        more = np.ones((self._last.size, self.dim), np.float32)
        values, _ = self._ask(
            np.concatenate([positions, self._last]), np.concatenate([x, more], dtype=np.float32)
        )
        return values[: positions.size]

    def _ask(self, positions: Integers, x: Float32Rows | None) -> tuple[NumberArray, str]:
        header = {"rows": int(positions.size), "dim": self.dim, "basis": x is None}
        parts = [json.dumps(header).encode() + b"\n", positions.tobytes()]
        shape: tuple[int, ...] = (positions.size, self.dim, self.dim)
        if x is not None:
            shape = x.shape
            parts.append(np.ascontiguousarray(x, np.float32).tobytes())
        try:
            return self._answer(b"".join(parts), positions, shape)
        except Lateness:
            raise self._invalid(f"gave no answer within {SECONDS:g} seconds") from None
        except Silence as silence:
            raise self._invalid(_ending(silence.ended)) from None
        except (ValueError, KeyError, TypeError):
            raise self._invalid("wrote where its answers go: they cannot be read") from None

    def _answer(
        self, request: bytes, positions: Integers, shape: tuple[int, ...]
    ) -> tuple[NumberArray, str]:
        """The answer to a request: values of this shape, and their number format.

        Raises: ValueError, KeyError or TypeError for one that is none.
        """
        deadline = time.monotonic() + SECONDS
        self._exchange.send(request, deadline=deadline)
        answer = json.loads(self._exchange.line(deadline=deadline))
        if "error" in answer:
            raise self._refusal(str(answer["error"]), str(answer["why"]), positions)
        data = self._exchange.bytes(answer["bytes"], deadline=deadline)
        values = np.frombuffer(data, np.dtype(answer["stored"])).reshape(shape)
        return values, str(answer["dtype"])

    def _refusal(self, error: str, why: str, positions: Integers) -> PosencError:
        """What to tell the user of an error that the worker reports."""
        if why == "needs":
            return Unavailable(f"--impl {abbreviated(self.target)}: {error}")
        hints = {
            "missing": "the current folder is not searched; PYTHONPATH=. adds it",
            "raised": f"it was called with {positions.size} positions up to "
            f"{positions.max()}; --len N asks for fewer",
        }
        return self._invalid(error, hint=hints.get(why))

    def _invalid(self, what: str, *, hint: str | None = None) -> InvalidInput:
        return InvalidInput(f"--impl {abbreviated(self.target)}: {what}", hint=hint)


def _ending(status: int | None) -> str:
    """How a process came to say no more."""
    if status is None:
        return "closed the pipe that its answers go by"
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"crashed ({signal.Signals(-status).name})"
    return f"ended its process with status {status}"


@dataclass
class _CallCache:
    """What is kept of a function's matrices, under one pairing."""

    pairing: ColumnPairing
    turned: NumberArray
    mirrored: NumberArray
    rest: Reals

    @classmethod
    def empty(
        cls, pairing: ColumnPairing, count: int, kind: type[np.complexfloating]
    ) -> _CallCache:
        shape = (count, pairing.pairs)
        return cls(pairing, np.empty(shape, kind), np.zeros(shape, kind), np.zeros(count))

    def turning(self, places: PositionRows, dtype: str) -> Turning:
        mirrors, strays = bool(np.any(self.mirrored)), bool(np.any(self.rest))

        def read(rows: SomeRows) -> SubjectBlock:
            return SubjectBlock(
                places.at(rows),
                self.turned[rows].astype(np.complex128),
                self.mirrored[rows].astype(np.complex128) if mirrors else None,
                self.rest[rows] if strays else None,
            )

        return Turning(places, self.pairing.pairs, dtype, 3, self.pairing, read)


def implementation(
    target: str,
    reference: Reference,
    positions: Positions,
    *,
    whole: bool = False,
    progress: Progress | None = None,
) -> Subject:
    """A user's function ``f(x, positions) → y`` as a subject.

    ``whole`` says that what it does may depend on the largest position, which is then part of
    every call.

    Raises: InvalidInput when the head is too wide to try every unit vector, or the function cannot
    be loaded, raises, crashes, changes its input, or returns anything but real numbers of the shape
    of x.
    """
    dim, places = reference.head, PositionRows.of(positions)
    check_size(f"--dim {dim}", dim * dim, _CELLS, "values of the function at each position")
    with Implementation(target, dim=dim, last=positions.last if whole else None) as function:
        few = places.at(places.sample()[:: max(1, min(places.count, 768) // 12)])
        few = few[:: -(-few.size * dim**2 // (8 * _CELLS))]
        matrices, dtype = function.matrices(few)
        broken = list(_irregularities(function, few, matrices))
        if not np.isfinite(matrices).all():
            broken.insert(
                0, f"returned values that are not finite at position {_first_bad(few, matrices)}"
            )
        own = _pairing_of(matrices, reference)
        pairings = [own]
        if own.layout != reference.content.layout and own.pairs == reference.pairs:
            pairings.append(reference.pairing)
        single = places.count > _LARGE and dtype != "float64"
        kind = np.complex64 if single else np.complex128
        caches = [_CallCache.empty(pairing, places.count, kind) for pairing in pairings]
        step = max(1, _CELLS // dim**2)
        for start in range(0, places.count, step):
            rows = slice(start, min(start + step, places.count))
            matrices, _ = function.matrices(places.at(rows))
            for cache in caches:
                cache.turned[rows], cache.mirrored[rows], cache.rest[rows] = read_as(
                    matrices, cache.pairing
                )
            if progress is not None:
                progress(rows.stop, places.count)
    turnings = [cache.turning(places, dtype) for cache in caches]
    mismatch = None
    if own.pairs != reference.pairs:
        mismatch = f"{2 * own.pairs} columns turn, {2 * reference.pairs} of the reference"
    return Subject(
        SubjectKind.IMPL,
        target,
        turnings[0],
        None if mismatch else turnings[-1],
        mismatch,
        broken=tuple(broken),
        broken_by=Cause.POSITION_OFFSET if broken == [IGNORES] else Cause.UNKNOWN,
    )


def read_as(
    matrices: UnitMatrices, pairing: ColumnPairing
) -> tuple[NumberArray, NumberArray, Reals]:
    """Turned and mirrored parts of the pairs of a pairing, and the norm of all else.

    ``matrices`` is [k, j, o]: column o of what becomes of unit vector j. Columns without a pair
    are meant to stay as they are.
    """
    first, second = list(pairing.first), list(pairing.second)
    out_first, out_second = list(pairing.out_first), list(pairing.out_second)
    a, b = matrices[:, first, out_first], matrices[:, second, out_first]
    c, d = matrices[:, first, out_second], matrices[:, second, out_second]
    a, b, c, d = (entries.astype(np.float64) for entries in (a, b, c, d))
    turned = ((a + d) + 1j * (c - b)) / 2  # (k, pairs)
    mirrored = ((a - d) + 1j * (c + b)) / 2
    rest = matrices.astype(np.float64)  # (k, columns, columns)
    for inside in (first, second):
        for outside in (out_first, out_second):
            rest[:, inside, outside] = 0
    others = sorted(set(range(matrices.shape[1])) - set(first) - set(second))
    rest[:, others, others] -= 1
    return turned, mirrored, np.sqrt(np.einsum("kjo,kjo->k", rest, rest))


def _pairing_of(matrices: UnitMatrices, reference: Reference) -> ColumnPairing:
    """How a function pairs columns: the first of the known ways that leaves little over.

    Where none does, each column's partner is the one that it mixes with most.
    """
    candidates = reference.likely_pairings(reference.head)
    finite = np.where(np.isfinite(matrices), matrices, 0)
    strays = [_stray(finite, candidate) for candidate in candidates]
    best = int(np.argmin(strays))
    # The reference's own way is kept where float32 leaves no more, or no other is nearer.
    if strays[0] <= max(1e-3, 1.001 * strays[best]):
        return candidates[0]
    # More than a half precision leaves over: none of the known ways it is.
    if strays[best] > 1e-2:
        by_partners = _by_partners(finite)
        if by_partners is not None and _stray(finite, by_partners) < 0.5 * strays[best]:
            return by_partners
    return candidates[best]


def _stray(matrices: UnitMatrices, pairing: ColumnPairing) -> float:
    _, mirrored, rest = read_as(matrices, pairing)
    return float(np.abs(mirrored).max(initial=0) + rest.max(initial=0))


def _by_partners(matrices: UnitMatrices) -> ColumnPairing | None:
    mixing = np.abs(matrices).max(axis=0)  # (columns, columns)
    mixing = np.maximum(mixing, mixing.T)
    np.fill_diagonal(mixing, 0)
    partners = mixing.argmax(axis=1)
    # Less is the rounding of a product that should be 0.
    moved = [j for j in range(partners.size) if mixing[j, partners[j]] > 1e-6]
    if not moved or any(partners[partners[j]] != j for j in moved):
        return None
    first = tuple(j for j in moved if j < partners[j])
    second = tuple(int(partners[j]) for j in first)
    return ColumnPairing(first, second, first, second, None, None)


def _irregularities(
    function: Implementation, positions: Integers, matrices: UnitMatrices
) -> Iterator[str]:
    """What a function does that no map of each row by its position alone does."""
    generator = np.random.default_rng(20)
    dim = function.dim
    x = generator.standard_normal((positions.size, dim)).astype(np.float32)
    expected = np.einsum("kj,kjo->ko", x.astype(np.float64), matrices.astype(np.float64))
    size = np.abs(expected).max(initial=1e-30)

    def differs(values: NumberArray, wanted: NumberArray) -> bool:
        if not np.isfinite(wanted).all():
            return False
        coarse = 64 if values.dtype.itemsize < 4 or _is_half(matrices) else 1
        return not bool(np.abs(values - wanted).max(initial=0) <= coarse * _ALIKE * size)

    def counts_rows() -> bool:
        own = values.astype(np.float64)
        return (
            not differs(function.values(x, positions[::-1]), own)
            and not differs(function.values(x * np.float32(1024), positions) / 1024, own)
            and differs(function.values(x[::-1], positions)[::-1], own)
        )

    values = function.values(x, positions)
    if np.isfinite(expected).all() and not np.isfinite(values).all():
        yield "returned values that are not finite"
        return
    if differs(values, expected):
        yield IGNORES if counts_rows() else "is not linear in x, mixes rows, or changes by itself"
        return
    scaled = function.values(x * np.float32(1024), positions) / 1024
    if differs(scaled, expected):
        yield "is not linear in x: 1024 times x gives another result"
    backwards = function.values(x[::-1], positions[::-1])[::-1]
    if differs(backwards, expected):
        yield "depends on the order of the rows, not on their positions alone"
    ends = [0, positions.size - 1]
    alone = np.concatenate([function.values(x[[k]], positions[[k]]) for k in ends])
    if differs(alone, expected[ends]):
        yield "depends on how many rows it is given, not on their positions alone"


def _is_half(matrices: UnitMatrices) -> bool:
    """Whether all values lie on the grid of bfloat16 or coarser: torch's come widened."""
    if matrices.dtype != np.float32:
        return matrices.dtype.itemsize < 4
    return not bool((np.ascontiguousarray(matrices).view(np.uint32) & np.uint32(0xFFFF)).any())


def _first_bad(positions: Integers, matrices: UnitMatrices) -> int:
    bad = ~np.isfinite(matrices).all(axis=(1, 2))
    return int(positions[int(np.argmax(bad))])
