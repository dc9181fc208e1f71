"""Read subjects that do not rotate into the form of their reference.

In: the array of a file or function. Out: a `ValueSubject`, with the reference at its places.
"""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.checks.expected import Expected, Form, ValuePlaces
from posenc_cli.encoding.arrays import position_array
from posenc_cli.encoding.request import Encoding
from posenc_cli.errors import InvalidInput, PosencError, Unavailable, quoted_name, sizes_text
from posenc_cli.files.reading import Loaded, read_array, read_headers
from posenc_cli.formulas.declare import Scheme
from posenc_cli.positions import Positions
from posenc_cli.records import Record, replace
from posenc_cli.transaction import open_input

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.formulas.buckets import BucketRule
    from posenc_cli.inference.tolerance import ToleranceRule
    from posenc_cli.numerics.arrays import NumberArray

MASKED = -1e4
"""Largest value that masks add to hidden scores: −10000 in BERT's code, −65504 for float16."""


_LARGEST_JSON = 8 << 20
"""Bytes: three times the slopes of the most heads. Limited because a device never ends."""


class ValueSubject(Record):
    """Values of a subject with their reference, and notes for readers.

    ``misfit`` says how its shape differs from the reference's; ``compared`` then counts the values
    that both have. The rows are those of ``sequences``, one after another. ``call`` describes the
    call of a function, unless it is the first. ``untested`` says what further calls did not test.
    """

    name: str
    expected: Expected
    positions: str
    notes: tuple[str, ...] = ()
    misfit: str = ""
    compared: int = 0
    sequences: int = 1
    call: str = ""
    untested: str = ""


class ValueRequest(Record):
    """A request to check values: the reference is a scheme with parameters, or a rule for buckets.

    ``form`` is the form of the values if an option sets it; None means the scheme's. ``rounding``
    is the format to which right slopes are rounded.
    """

    source: Scheme | BucketRule
    given: Mapping[str, Any]
    positions: Positions | None = None
    rule: ToleranceRule = "auto"
    form: Form | None = None
    head: int | None = None
    causal: bool = False
    rounding: str = ""

    def subject(self, loaded: Loaded) -> ValueSubject:
        """Read an array as a subject.

        Raises: InvalidInput if it cannot be a subject of this reference.
        """
        kind = self.source.kind if isinstance(self.source, Scheme) else "bias"
        form = self.form or ("scores" if kind == "bias" else "rows")
        if self.head is not None and form != "scores":
            raise InvalidInput(f"--head {self.head} applies only to scores (heads, queries, keys)")
        if loaded.values.dtype.kind == "c":
            raise InvalidInput(f"{quoted_name(loaded.path)} holds complex numbers, not real ones")
        values = loaded.values
        least = {"scores": 3, "rows": 2}.get(form, 1)
        while values.ndim > least and values.shape[0] == 1:
            values = values[0]
        loaded = replace(loaded, values=values)
        if kind == "relative" and values.ndim == 3 and values.shape[0] == values.shape[1]:
            return _pair_rows(self, loaded)
        read = {"rows": _rows, "scores": _scores, "slopes": _slopes, "buckets": _buckets}[form]
        return read(self, loaded)

    def expected(
        self, form: Form, loaded: Loaded, positions: Positions | None, **fields: Any
    ) -> Expected:
        """Return the reference for values of a form.

        Raises: InvalidInput for parameters that are not allowed.
        """
        common = {"dtype": loaded.dtype, "rule": self.rule, "rounding": self.rounding, **fields}
        if not isinstance(self.source, Scheme):
            params, _ = self.source.bind(self.given)
            return Expected(form, self.source, params, **common)
        length = positions.length if positions else None
        encoding = Encoding.of(self.source, self.given, seq_len=length)
        return Expected(
            form,
            self.source,
            encoding.bound.params,
            seq_len=length,
            lookup=encoding.lookup,
            other_tables=partial(_tables_beside, encoding.bound.params.get("weights")),
            **common,
        )


def read_subject(path: str) -> Loaded:
    """Read the numbers of a file; a .json file holds a list.

    Raises: InvalidInput, Unavailable.
    """
    if PurePath(path).suffix.lower() == ".json":
        return Loaded(np.array(_slopes_of_json(path)), "float64", path)
    return read_array(path)


def _slopes_of_json(path: str) -> list[float]:
    """Return the slopes in a file that ``--json`` wrote, or in a list of numbers."""
    try:
        with open_input(path) as file:
            text = file.read(_LARGEST_JSON + 1)
        if len(text) > _LARGEST_JSON:
            raise InvalidInput(f"{quoted_name(path)} is larger than {_LARGEST_JSON >> 20} MiB")
        document = json.loads(text)
        slopes = document["slopes"] if isinstance(document, dict) else document
        return [float(slope) for slope in slopes]
    except OSError as error:
        raise Unavailable(f"cannot read {quoted_name(path)}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"{quoted_name(path)} holds no slopes as JSON") from error


def _one_row_error(request: ValueRequest, loaded: Loaded) -> InvalidInput:
    has_frequencies = isinstance(request.source, Scheme) and request.source.inverse is not None
    hint = "--inv-freq FILE compares frequencies" if has_frequencies else None
    return InvalidInput(f"{quoted_name(loaded.path)} holds one row, not a table", hint=hint)


def _rows(request: ValueRequest, loaded: Loaded) -> ValueSubject:
    """Read rows (n, d), or (rows, columns, d) of a grid."""
    values = loaded.values
    if values.ndim < 2:
        raise _one_row_error(request, loaded)
    probe = request.expected(
        "rows", loaded, request.positions, places=ValuePlaces(np.arange(1)), found=values
    )
    batch = _sequence_count(probe, values, request.positions)
    values = values.reshape(-1, values.shape[-1])
    width = probe.content.width
    if values.shape[1] != width and "dim" in probe.parameters and "dim" not in request.given:
        dim = values.shape[1]
        subject = _rows(replace(request, given={**request.given, "dim": dim}), loaded)
        note = f"the subject has {dim} columns: compared with dim={dim}, not the default {width}"
        return replace(subject, notes=(*subject.notes, note))
    values, positions, notes = _table_positions(request, probe, values, batch)
    at = _offsets_of_rows(probe, positions, values) if probe.is_offset else positions
    places = position_array(at)
    if batch > 1:
        notes.append(f"{batch} sequences of {places.size} rows: each is compared with {at}")
        places = np.tile(places, batch)
    sides = (values.shape[0], places.size), (values.shape[1], width)
    rows, columns = (min(pair) for pair in sides)
    expected = request.expected(
        "rows",
        loaded,
        positions,
        places=ValuePlaces(places[:rows]),
        found=values[:rows, :width],
        parts=at.denominator,
    )
    if columns < width:  # missing columns count as right
        found = expected.right()
        found[:, :columns] = values[:rows]
        expected = replace(expected, found=found)
    batch = 1 if (misfit := _misfit_text(*sides)) else batch
    return ValueSubject(loaded.path, expected, str(at), tuple(notes), misfit, rows * columns, batch)


def _table_positions(
    request: ValueRequest, probe: Expected, values: NumberArray, batch: int
) -> tuple[NumberArray, Positions, list[str]]:
    """Return rows without a class token's row, their positions, and notes.

    Without given positions, a table with a grid or weights has all its rows; others have as many as
    the subject.
    """
    capacity, rows, notes = probe.content.capacity, values.shape[0] // batch, list[str]()
    if request.positions is not None:
        return values, request.positions, notes
    if probe.is_offset or capacity is None:
        return values, Positions.contiguous(0, (rows + 1) // 2 if probe.is_offset else rows), notes
    count = capacity.positions
    if rows == count + 1 and probe.params.get("grid") and not np.any(values[0]):
        values = values[1:]
        notes.append("row 0 is zeros: read as a class token, which has no place on the grid")
    has_fixed_rows = probe.params.get("grid") or probe.params.get("weights")
    return values, Positions.contiguous(0, count if has_fixed_rows else min(count, rows)), notes


def _pair_rows(request: ValueRequest, loaded: Loaded) -> ValueSubject:
    """Read rows of a relative scheme for every pair of a query and a key: (n, n, d)."""
    count, _, width = loaded.values.shape
    positions, at = _key_positions(request, loaded, count, count)
    offsets = (at[None, :] - at[:, None]).reshape(-1)
    found = loaded.values.reshape(-1, width)
    e = request.expected("rows", loaded, positions, places=ValuePlaces(offsets), found=found)
    if width != e.content.width:
        raise InvalidInput(
            f"{quoted_name(loaded.path)} has {width} columns, but the reference has "
            f"{e.content.width}"
        )
    note = f"rows of {count} queries × {count} keys, each compared by its offset"
    return ValueSubject(loaded.path, e, str(positions.offsets()), (note,), "", found.size)


def _sequence_count(e: Expected, values: NumberArray, positions: Positions | None) -> int:
    """Return how many sequences rows (sequences, n, d) belong to; 1 for a grid."""
    rows, capacity = values.shape[-2], e.content.capacity
    short = capacity is not None and rows > capacity.positions
    if values.ndim < 3 or "grid" in e.params or e.is_offset or short:
        return 1
    return values[..., 0, 0].size if positions is None or positions.count == rows else 1


def _misfit_text(rows: tuple[int, int], columns: tuple[int, int]) -> str:
    """State the numbers of rows and columns that differ from the reference's."""
    parts = [
        f"{found} {noun.removesuffix('s') if found == 1 else noun}, not {right}"
        for noun, (found, right) in (("rows", rows), ("columns", columns))
        if found != right
    ]
    return f"the subject has {' and '.join(parts)}" if parts else ""


def _offsets_of_rows(e: Expected, positions: Positions, values: NumberArray) -> Positions:
    """Return the offsets of a relative scheme's rows, from their number and the first row.

    They are the offsets between all positions, or those to the left only (Transformer-XL), or one
    more to the left (XLNet), or the given numbers themselves, most likely if some are negative.
    """
    rows = values.shape[0]
    all_offsets = positions.offsets(e.content.farthest)
    readings = [
        *(all_offsets, positions.offsets()),
        *(Positions.contiguous(first, rows) for first in (1 - rows, -(rows // 2))),
        positions,
    ][:: -1 if positions.ranges[0].start < 0 else 1]
    fitting = [each for each in readings if each.count == rows]
    for each in fitting:
        first = replace(e, places=ValuePlaces(position_array(each)[:1]), found=values[:1])
        right = first.right()
        width = min(right.shape[1], values.shape[1])
        error = np.abs(right[:, :width] - values[:1, :width])
        if (error <= first.allowed(right)[:, :width]).all():
            return each
    return next(iter(fitting), all_offsets)


def _scores(request: ValueRequest, loaded: Loaded) -> ValueSubject:
    """Read scores (heads, queries, keys), or (queries, keys) of one head."""
    values = loaded.values
    if values.ndim == 2:
        values = values[None]
    if values.ndim != 3:
        raise InvalidInput(
            f"{quoted_name(loaded.path)} holds an array of shape "
            f"{sizes_text(loaded.values.shape)}, not scores (heads, queries, keys)",
            hint="--slopes FILE or --buckets FILE name other subjects",
        )
    heads, queries, keys = values.shape
    head = request.head
    positions, at = _key_positions(request, loaded, queries, keys)
    expected = request.expected(
        "scores", loaded, positions, places=ValuePlaces(at[keys - queries :], at), found=values
    )
    of_scheme = expected.content.heads or 0
    if head is not None and head >= of_scheme:
        raise InvalidInput(f"--head {head}: the heads are 0 to {of_scheme - 1}")
    if heads == of_scheme and head is not None:
        expected = replace(expected, head=head, found=values[head : head + 1])
    elif heads != of_scheme:
        if heads != 1 or head is None:
            raise InvalidInput(
                f"{quoted_name(loaded.path)} has scores of {heads} head{'s' * (heads != 1)}, but "
                f"the reference has {of_scheme}",
                hint="--heads N, or --head H for the scores of one head",
            )
        expected = replace(expected, head=head)
    return _without_mask(request, ValueSubject(loaded.path, expected, str(positions)))


def _key_positions(
    request: ValueRequest, loaded: Loaded, queries: int, keys: int
) -> tuple[Positions, NumberArray]:
    """Return the positions of keys; the last of them are those of queries."""
    positions = request.positions or Positions.contiguous(0, keys)
    at = position_array(positions)
    if at.size != keys or queries > keys:
        raise InvalidInput(
            f"{quoted_name(loaded.path)} has {queries} queries and {keys} keys, but there are "
            f"{at.size} positions"
        )
    return positions, at


def _without_mask(request: ValueRequest, subject: ValueSubject) -> ValueSubject:
    """Exclude the scores of keys after the query if all of them are masked."""
    e = subject.expected
    later = np.broadcast_to(e.places.later, e.found.shape)
    with np.errstate(invalid="ignore"):
        masked = bool((e.found[later] <= MASKED).all())
    hidden = later & (request.causal or masked)
    if not hidden.any():
        return subject
    numbers = np.where(np.isnan(e.found), np.inf, np.asarray(e.found, np.float64))
    expected = replace(e, found=np.where(hidden, np.nan, numbers), gaps=True)
    note = "scores of keys after the query are not compared" + (
        "" if request.causal else ": masked"
    )
    compared = int(hidden.size - np.count_nonzero(hidden))
    untested = "" if request.causal else _LATER_KEYS
    notes = (*subject.notes, note)
    return replace(subject, expected=expected, notes=notes, compared=compared, untested=untested)


_LATER_KEYS = "keys after the query (they are masked)"


def _slopes(request: ValueRequest, loaded: Loaded) -> ValueSubject:
    if not isinstance(request.source, Scheme) or "max_bias" not in request.source.parameters:
        raise InvalidInput(f"--slopes: {request.source.name} has no slopes; only alibi has")
    values = loaded.values.reshape(-1)
    if values.size != max(loaded.values.shape):
        raise InvalidInput(
            f"{quoted_name(loaded.path)} holds an array of shape "
            f"{sizes_text(loaded.values.shape)}, not a row of slopes"
        )
    given = request.given if "heads" in request.given else {**request.given, "heads": values.size}
    whole = replace(request, given=given)
    e = whole.expected(
        "slopes", loaded, None, places=ValuePlaces(np.arange(values.size)), found=values
    )
    misfit = ""
    if values.size != e.params["heads"]:
        misfit = f"the subject has {values.size} slopes, not {e.params['heads']}"
        count = min(values.size, e.params["heads"])
        e = replace(e, places=ValuePlaces(np.arange(count)), found=values[:count])
    return ValueSubject(loaded.path, e, "any", misfit=misfit)


def _buckets(request: ValueRequest, loaded: Loaded) -> ValueSubject:
    """Read buckets (n,) of relative positions, or (queries, keys) of pairs."""
    values = np.asarray(loaded.values, np.float64)
    name = quoted_name(loaded.path)
    if values.ndim == 2 and 1 not in values.shape:
        queries, keys = values.shape
        positions, at = _key_positions(request, loaded, queries, keys)
        pairs = np.broadcast_arrays(at[keys - queries :][:, None], at[None])
        places = ValuePlaces(*(each.reshape(-1) for each in pairs))
    else:
        positions = request.positions or Positions.contiguous(-(values.size // 2), values.size)
        if values.size != positions.count and values.size == (offsets := positions.offsets()).count:
            positions = offsets
        relative = position_array(positions)
        if relative.size != values.size:
            raise InvalidInput(
                f"{name} holds {values.size} buckets, but there are {relative.size} positions",
                hint="--positions start:stop gives the relative positions of a row of buckets",
            )
        source, zero = request.source, np.zeros_like(relative)
        key_first = isinstance(source, Scheme) or source.relative.startswith("key")
        places = ValuePlaces(zero, relative) if key_first else ValuePlaces(relative, zero)
        if isinstance(source, Scheme) and source.name.startswith("swin"):
            raise InvalidInput(f"{name}: the offsets of a window are (places, places)")
    e = request.expected("buckets", loaded, None, places=places, found=values.reshape(-1))
    return ValueSubject(loaded.path, e, str(positions))


def _tables_beside(weights: str | None) -> dict[str, NumberArray]:
    """Return the other tables of a file whose names differ only in the layer number."""
    if weights is None or ":" not in weights:
        return {}
    path, _, member = weights.rpartition(":")
    pattern = re.sub(r"\d+", r"\\d+", re.escape(member))
    try:
        names = [
            header.name
            for header in read_headers(path)
            if header.name != member and re.fullmatch(pattern, header.name or "")
        ]
        return {name: read_array(f"{path}:{name}").values for name in names}
    except PosencError:
        return {}
