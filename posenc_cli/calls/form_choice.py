"""Find the form in which a function can be called, by calling it.

A form fits if the call succeeds, the result has the right shape, all heads are rotated alike,
lengths are kept, more than half of the rotary dimensions rotate, and each row is the same in
another call. If none fits, the first of the best forms that run is used. A form whose rows rotate,
but whose heads are rotated differently, is better than one that only keeps lengths: the function
may mix heads. A parameter that determines positions is always given; a form without it is tried
only if no form with it runs.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from math import prod
from typing import TYPE_CHECKING, Literal

import numpy as np

from posenc_cli.calls.answers import Returned, is_frequencies, table_rows
from posenc_cli.calls.call_form import (
    SIDE_BY_SIDE,
    CallForm,
    forms,
    forms_with_chosen_rows,
    group_by_position_parameters,
    missing_position_parameters,
)
from posenc_cli.calls.function_process import SECONDS
from posenc_cli.calls.payloads import Vectors
from posenc_cli.calls.roles import CALL_AXES, TABLES
from posenc_cli.errors import InvalidInput
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from posenc_cli.calls.called_function import CalledFunction
    from posenc_cli.numerics.arrays import Flags, Integers, NumberArray

    Outcome = Literal["vectors", "tables", "frequencies"]
    """What a function returns: rotated vectors, tables of cosines and sines, or frequencies."""

_KEPT_LENGTH = 0.03
"""Relative: lengths in bfloat16 are kept within this; wrong tables change them by tenths."""

_SAME_HEAD = 1e-4
"""Relative: heads with the same vector are rotated alike up to the order of additions."""

_ROUNDING = 1e-6
"""Rounding of float32 values near 1 in a rotation by 0."""

_SAME_ROW = 0.05
"""For values near 1: two ways to compute a row in a half precision differ by less."""

_PROBE_POSITIONS = (7, 3, 40, 41, 100, 9, 1, 77, 20, 5, 2, 11, 30)
"""Positions of the calls that find the form: small, so that any table has them, and unordered."""

_FITS, _HAS_BUG, _ROTATES_ALL, _ROTATES, _HEADS_DIFFER, _KEEPS_LENGTHS, _RUNS = 9, 8, 7, 6, 5, 3, 1
"""Fitness of a form: perfect; surely the right one for a function that is wrong in its heads, so
that no other is tried; tables rotate all dimensions, but change lengths; few dimensions
rotate, as with narrower tables; heads are rotated differently; only lengths are kept; the call only
runs. With 1 more, most dimensions change, or lengths change alike in all heads."""


class _Found(Record):
    """A form, what it returns, and how well it fits.

    ``untried`` is what is not tried; ``instead`` says why the form lacks the requested axes.
    """

    form: CallForm
    outcome: Outcome
    fitness: int
    untried: tuple[str, ...] = ()
    instead: str = ""


class FormChoice:
    """The form in which a function is called, and what it returns then.

    ``untried`` lists what the signature allows and no call of that form does. ``chosen_by`` are the
    parameters that choose rows of longer tables. ``calls`` is the number of forms that were tried.
    ``instead`` says why the form does not have the requested axes. ``refused_coordinates`` is the
    error of the first call with coordinates, if all of these failed. ``ran_packed`` says that a
    call with heads side by side ran, if the form has other axes. ``cosines_first`` says that tables
    are not in timm's order.

    Raises: InvalidInput if there is no form.
    """

    def __init__(self, process: CalledFunction, *, context: int) -> None:
        self._process, self._context = process, context
        self.chosen_by: list[str] = []
        self._ran_packed = False
        self._error: InvalidInput | None = None
        self.calls = 0
        self.refused_coordinates = ""
        found = self._search_frameworks()
        self.form, self.outcome = found.form, found.outcome
        self.untried, self.instead = found.untried, found.instead
        self.ran_packed = self._ran_packed and self.form.axes != "bnf"
        self.cosines_first = False
        self._choose_kind()
        if self.form.has(*TABLES) and not self.form.chosen:
            self._choose_rows()

    def _search_frameworks(self) -> _Found:
        """Return the best form with arrays of the frameworks that the function seems to use.

        If none runs, other loaded frameworks are tried. If it returns arrays of another framework,
        that one is used if it fits as well.
        """
        process, likely = self._process, self._process.signature.libraries
        found = self._best_for(likely)
        if found is None:
            others = process.other_frameworks() if process.lives else ()
            found = self._best_for(others) if others else None
            if found is None:
                raise self._error or self._no_form()
            return found
        if process.returns is None or process.returns in likely:
            return found
        with contextlib.suppress(InvalidInput):
            other = self._best_for((process.returns,))
            found = found if other is None or other.fitness < found.fitness else other
        if not process.lives:
            process.start()
        return found

    def _best_for(self, frameworks: Sequence[str]) -> _Found | None:
        """Return the best form with arrays of these frameworks, or None if none runs.

        If only a form with other axes than requested fits, it is returned, and ``instead`` says
        why.
        """
        process, asked = self._process, self._process.asked.axes
        if asked is None:
            return self._search(frameworks, CALL_AXES)
        found = self._search(frameworks, (asked,))
        if asked == "bnf" and not self._candidates:
            raise InvalidInput(
                "--axes bnf needs num_heads or head_dim in the signature, for the width of a head; "
                f"{process.signature.name} takes ({process.signature.text})"
            )
        if found is not None and (found.fitness >= _FITS or not found.form.vectors):
            return found
        why = ": its results are not one rotation of all heads"
        if found is None:
            why = next((e.message for _, e in self._refusals), ": it cannot be called")
        other = self._search(frameworks, CALL_AXES)
        if other is None or other.fitness < _FITS:
            return found
        return replace(other, instead=why.partition(": ")[2])

    def _list_candidates(self, frameworks: Sequence[str], orders: Sequence[str]) -> None:
        """List the forms for these frameworks and orders of axes, and forget earlier results."""
        process, self._orders = self._process, orders
        signature = replace(process.signature, libraries=tuple(frameworks))
        asked = process.asked
        self._candidates = forms(
            signature, process.reference, asked.roles, orders, asked.layer_type
        )
        self._refusals: list[tuple[CallForm, InvalidInput]] = []
        self._alike = False

    def _search(self, frameworks: Sequence[str], orders: Sequence[str]) -> _Found | None:
        """Return the best form with arrays of these frameworks and axes in one of these orders.

        It is in the first group in which any form runs. Return None if none does.
        """
        self._list_candidates(frameworks, orders)
        best: _Found | None = None
        deadline = time.monotonic() + SECONDS
        for group in group_by_position_parameters(self._candidates, self._process.signature):
            best = self._best_of(group, deadline)
            if best is not None or time.monotonic() > deadline:
                break
        if best is None:
            self._error = self._error or self._no_form()
            return None
        if not best.form.follows_axes:
            of_axes = (error.message for form, error in self._refusals if form.follows_axes)
            self.refused_coordinates = next(of_axes, "").partition(": ")[2]
        names = missing_position_parameters(best.form, self._process.signature)
        text = f"{names}, because each call with it raised an error"
        return replace(best, untried=(text,) if names else ())

    def _best_of(self, group: Sequence[CallForm], deadline: float) -> _Found | None:
        """Return the best form of a group, or None if none runs."""
        best: _Found | None = None
        for form in group:
            self.calls += 1
            if best and best.fitness > _RUNS and best.form.follows_axes > form.follows_axes:
                break
            suits = self._try_form(form)
            if suits is not None and (best is None or suits[0] > best.fitness):
                best = _Found(form, suits[1], suits[0])
            fits = best is not None and (
                best.fitness >= _HAS_BUG or _rotates_heads(best, form, suits)
            )
            if fits or time.monotonic() > deadline:
                break
        return best

    def _try_form(self, form: CallForm) -> tuple[int, Outcome] | None:
        """Return how well a form fits, and what it returns; None if the call fails.

        Raises: InvalidInput if the process has ended, so that no other call can succeed.
        """
        try:
            return self._fitness(form)
        except InvalidInput as error:
            if not self._process.lives:
                raise
            self._refusals.append((form, error))
            return None

    def _choose_kind(self) -> None:
        """Use tables with the two copies of a value adjacent if only one copy is read.

        Code that reads one value of each pair keeps lengths with either kind of table. For an
        interleaved encoding, code has tables of either kind; for others, tables in halves.
        """
        self._choose_order()
        kind = SIDE_BY_SIDE.get(self.form.kind)
        if kind is None or self._process.reference.content.layout != "interleaved":
            return
        form = replace(self.form, kind=kind)
        for blank in ("first", "second"):
            if (both := self._results_of_both(form, replace(form, blank=blank))) and _all_close(
                *both[1:]
            ):
                self.form = form
                return

    def _choose_order(self) -> None:
        """Use a table of cosines before sines if position 0 is rotated only with timm's order.

        Code that expects either order keeps lengths with both. Conventions of timm have its order.
        """
        of_timm = str(self._process.reference.params.get("convention")).startswith("eva")
        if of_timm or not self.form.kind.startswith("sines beside "):
            return
        scale = self._process.reference.scale
        both = self.form, replace(self.form, kind=self.form.kind.removeprefix("sines "))
        given = [
            replace(each, values=each.values[:, :1], rows=1) for each in self._probe(both[0])[1]
        ]

        def change(form: CallForm) -> float:
            results = self._process.rotated(form, np.zeros(1, np.int64), given)
            pairs = zip(results, given, strict=True)
            return sum(float(np.abs(one.values - scale * x.values).sum()) for one, x in pairs)

        size = sum(float(np.abs(x.values).sum()) for x in given)
        if change(both[1]) <= _ROUNDING * size and change(both[0]) > _SAME_ROW * size:
            self.form, self.cosines_first = both[1], True

    def _results_of_both(
        self, form: CallForm, other: CallForm
    ) -> tuple[list[Vectors], list[Returned], list[Returned]] | None:
        """Return the vectors of a form, its results, and those of the other form.

        Return None if the form does not even keep lengths.
        """
        suits = self._try_form(form)
        if suits is None or suits[0] < _KEEPS_LENGTHS or suits[0] == _ROTATES_ALL:
            return None
        positions, vectors = self._probe(form)
        call = self._process.rotated if self.outcome == "vectors" else self._process.call
        return vectors, call(form, positions, vectors), call(other, positions, vectors)

    def _choose_rows(self) -> None:
        """Use longer tables if an optional parameter chooses their rows.

        It does if results match tables that contain only the chosen rows. It also does if results
        are those of other rows, rotated in the same columns: then it chooses wrongly. A parameter
        that chooses wrongly takes precedence over one that chooses rightly.
        """
        if self.form.position_parameter:
            self.untried = (f"longer tables, whose rows {self.form.position_parameter} chooses",)
            return
        short, right, wrong = self.form, None, None
        self.untried = ()
        longer = forms_with_chosen_rows(short, self._process.signature, self._orders)
        for name, found in itertools.groupby(longer, lambda form: form.position_parameter):
            form, same = self._longer_form(short, found)
            if form is None:
                self.untried += (f"longer tables, whose rows {name} chooses",)
                continue
            self.chosen_by.append(name)
            right, wrong = (right or form, wrong) if same else (right, wrong or form)
        if right is not None and right.axes != short.axes:  # other parameters need these axes too
            self.form = replace(short, axes=right.axes, table_axes=right.table_axes)
            self._choose_rows()
            return
        self.form = wrong or right or short

    def _longer_form(
        self, short_form: CallForm, longer: Iterable[CallForm]
    ) -> tuple[CallForm | None, bool]:
        """Return a form of longer tables, and whether its results match short tables.

        If none matches, it is one that rotates vectors, if there is one.
        """
        wrong: CallForm | None = None
        still = True
        for form in longer:
            both = self._results_of_both(form, short_form)
            if both and _all_close(*both[1:]):
                return form, True
            # It may change only columns that tables of the call's rows change.
            if (
                both
                and (wrong is None or (still and not _unchanged(both[1], both[0])))
                and not any(
                    (
                        _changed_columns(one, given).any(axis=0)
                        & ~_changed_columns(other, given).any(axis=0)
                    ).any()
                    for given, one, other in zip(*both, strict=True)
                )
            ):
                wrong, still = form, _unchanged(both[1], both[0])
        return wrong, False

    def _no_form(self) -> InvalidInput:
        """Return why a function cannot be called: its error in the likeliest form."""
        refusals, signature, asked = self._refusals, self._process.signature, self._process.asked
        if not refusals:
            unsupported = ", ".join(signature.unsupported)
            unknown = [given.name for given in signature.required if not given.roles()]
            what = f": posenc does not know the use of {', '.join(unknown)}"
            what *= 0 < len(unknown) < len(signature.required)
            return self._process.invalid(
                f"needs {unsupported}, which posenc does not give"
                if unsupported
                else f"takes ({signature.text}), not a known call form{what}",
                hint="name the roles of its arguments, as --call q,k,cos,sin; or wrap it: "
                "def rope(x, positions): …",
            )
        for _, error in refusals:
            if error.code in ("changed", "left"):
                return error
        first_form, first = refusals[0]
        if first.code == "misused":
            other = next((e for form, e in refusals if form.library != first_form.library), None)
            first = other or first
        hint = f"it takes ({signature.text}); {len(refusals)} call forms were tried"
        if asked.roles and (likely := forms(signature, self._process.reference)):
            hint = f"its signature suggests --call {likely[0].roles_text.replace(' ', '')}"
        return InvalidInput(first.message, hint=hint, code=first.code)

    def _fitness(self, form: CallForm) -> tuple[int, Outcome]:
        """Return how well a form fits, and what it returns.

        Raises: InvalidInput if the call fails.
        """
        process = self._process
        positions, vectors = self._probe(form)
        results = process.call(form, positions, vectors)
        rows = positions.size * (vectors[0].heads if vectors and form.flat else 1)
        outcome = self._other_outcome(form, results, rows)
        if outcome is not None:
            return _FITS, outcome
        if not form.vectors:
            raise process.invalid(
                "returned an array of shape "
                + " and ".join(str(result.values.shape) for result in results)
                + ": neither tables nor frequencies"
            )
        rotated = process.as_vectors(results, form, vectors)
        self._ran_packed = self._ran_packed or form.axes == "bnf"
        return self._fitness_of_vectors(form, positions, vectors, rotated), "vectors"

    def _fitness_of_vectors(
        self,
        form: CallForm,
        positions: Integers,
        vectors: Sequence[Vectors],
        rotated: Sequence[Returned],
    ) -> int:
        """Return how well a form fits that returns vectors; the last head repeats the first."""
        last = positions.size - np.ones(1, np.int64)
        if form.guessed and not self._repeats(form, last, vectors, rotated):
            return _RUNS
        if form.roles_text == "x, positions" and form.flat and form.position_axes == "n":
            return _FITS  # posenc has always supported this form
        kept = all(
            _lengths_kept(result.values[0], given.values[0])
            for result, given in zip(rotated, vectors, strict=True)
        )
        first_last = [result.values[0][:, [0, -1]] for result in rotated]  # (n, 2, d)
        alike = all(
            np.ptp(heads, axis=1).max() <= _SAME_HEAD * np.abs(heads[:, 0]).max(initial=1e-30)
            for heads in first_last
        )
        if not alike:
            if not kept or not self._may_be_bug(form, positions, vectors, rotated):
                return _RUNS
            return _HAS_BUG if form.axes == "bnf" else _HEADS_DIFFER
        return self._fitness_of_equal_heads(form, positions, vectors, rotated, kept=kept)

    def _fitness_of_equal_heads(
        self,
        form: CallForm,
        positions: Integers,
        vectors: Sequence[Vectors],
        rotated: Sequence[Returned],
        *,
        kept: bool,
    ) -> int:
        """Return how well a form fits that rotates heads alike; ``kept`` says whether lengths stay.

        Heads may become equal, although they had different vectors.
        """
        whole = form.has("grid") or not self._few_rotate(rotated, vectors, positions)
        if not kept:
            equal = (np.ptp(result.values, axis=2).max() <= _ROUNDING for result in rotated)
            if vectors[0].heads > 1 and any(equal):
                return _HAS_BUG
            wide = form.has(*TABLES) and whole and self._rotates_rows(form, vectors, rotated)
            return _ROTATES_ALL if wide else _RUNS + 1
        self._alike = True
        if form.from_zero and _unchanged(rotated, vectors):
            return _RUNS + 1  # rows may be on an axis that has length 1 here
        if self._rotates_rows(form, vectors, rotated):
            return _FITS if whole else _ROTATES
        return _KEEPS_LENGTHS + whole

    def _few_rotate(
        self, rotated: Sequence[Returned], vectors: Sequence[Vectors], positions: Integers
    ) -> bool:
        """Return whether a row of each result has at most half of its rotary dimensions rotated.

        The first row is left out: it is not rotated if a function counts the rows of a call.
        """
        rows, pairs = np.flatnonzero(positions[1:]) + 1, self._process.reference.pairs
        return all(
            bool((_changed_columns(result, given)[rows].sum(axis=1) <= pairs).any())
            for result, given in zip(rotated, vectors, strict=True)
        )

    def _may_be_bug(
        self,
        form: CallForm,
        positions: Integers,
        vectors: Sequence[Vectors],
        rotated: Sequence[Returned],
    ) -> bool:
        """Return whether differently rotated heads may be a bug and not a wrong order of axes.

        They are not if another order that was tried before rotates heads alike. Nor are they if a
        function counts rows itself and rotates all rows of a head alike: then it reads heads as
        rows.
        """
        if self._alike:
            return False
        if form.axes == "bnf":
            # A function of one head's size may rotate the first dimensions of any row. Packed q, k
            # and v may be in an order that is tried later.
            same = self._equal_alone(form, positions, vectors, rotated)
            skips = any(same) and not all(same) and (form.has("heads") or any(same[1:]))
            # If (rows, heads·d) are read as (heads, rows, d), a single head is rotated rightly.
            return (skips and not form.has("qkv")) or all(
                self._equal_alone(form, positions, vectors, rotated, mixed=True)
            )
        if not self._rotates_rows(form, vectors, rotated):
            return False
        required = [given.name for given in self._process.signature.required]
        if not form.has("offset") and form.position_parameter in ("", *required):
            return True
        same_head = [Vectors(part.values[:, :1], part.rows) for part in vectors]
        results = self._process.rotated(form, positions, same_head)
        return any(np.ptp(result.values, axis=1).max() > _SAME_ROW for result in results)

    def _equal_alone(
        self,
        form: CallForm,
        positions: Integers,
        vectors: Sequence[Vectors],
        rotated: Sequence[Returned],
        *,
        mixed: bool = False,
    ) -> list[bool]:
        """Return which heads equal single calls; ``mixed`` reads (rows, heads) as (heads, rows)."""
        same, (_, rows, heads, columns) = [], vectors[0].values.shape

        def one_head(values: NumberArray, head: int) -> NumberArray:
            turned = values.reshape(1, heads, rows, columns).swapaxes(1, 2) if mixed else values
            return turned[:, :, [head]]

        for head in range(heads):
            given = [replace(part, values=one_head(part.values, head)) for part in vectors]
            in_batch = [replace(part, values=one_head(part.values, head)) for part in rotated]
            same.append(_all_close(self._process.rotated(form, positions, given), in_batch))
        return same

    def _probe(self, form: CallForm) -> tuple[Integers, list[Vectors]]:
        """Return positions and vectors of a short call; the last head repeats the first."""
        columns, reference = form.columns, self._process.reference
        pairs = reference.pairs
        used = {1, columns, columns // 2, 2 * pairs, pairs, reference.axes}
        rows = next(n for n in (5, 7, 6, 9, 11, 13) if n not in used)
        heads = next(n for n in (3, 4, 10, 12, 14) if n not in {*used, rows})
        if form.flat and not form.any_rows:
            heads = 1  # with several, positions would continue from head to head
        if form.has("grid"):
            rows = prod(reference.grid or ())
            positions = np.arange(rows)
        elif form.any_rows:
            positions = np.array(_PROBE_POSITIONS)[:rows] % max(2, self._context)
        else:
            positions = np.arange(rows) + 2 * form.has("offset")
        shape, generator = (1, rows, heads, columns), np.random.default_rng(5)
        drawn = [generator.standard_normal(shape).astype(np.float32) for _ in form.vectors]
        for values in drawn:
            values[:, :, -1] = values[:, :, 0]
        return positions, [Vectors(values, rows) for values in drawn]

    def _repeats(
        self,
        form: CallForm,
        rows: Integers,
        vectors: Sequence[Vectors],
        rotated: Sequence[Returned],
    ) -> bool:
        """Return whether the results of some rows are the same without the other rows.

        Raises: InvalidInput if the call fails.
        """
        some = [Vectors(part.values[:, rows], rows.size) for part in vectors]
        others = self._process.rotated(form, self._probe(form)[0][rows], some)
        before = [replace(part, values=part.values[:, rows]) for part in rotated]
        return _all_close(others, before)

    def _rotates_rows(
        self, form: CallForm, vectors: Sequence[Vectors], rotated: Sequence[Returned]
    ) -> bool:
        """Return whether some rows are rotated, and have the same results in another call.

        The call has another order, or leaves out the first row, or the last if all begin at 0.
        """
        if form.has("grid") or _unchanged(rotated, vectors):
            return not _unchanged(rotated, vectors)
        rows = np.arange(vectors[0].rows)
        some = np.roll(rows, 2) if form.any_rows else rows[:-1] if form.from_zero else rows[1:]
        try:
            return self._repeats(form, some, vectors, rotated)
        except InvalidInput:
            if not self._process.lives:
                raise
            return False

    def _other_outcome(self, form: CallForm, results: list[Returned], rows: int) -> Outcome | None:
        """Return "tables" or "frequencies" if the results are these, or None for vectors."""
        if len(form.vectors) > 1:
            return None
        if len(results) == 1:
            only = results[0].values
            if is_frequencies(results[0], self._process.reference.pairs):
                return "frequencies"
            if form.vectors and (only.dtype.kind == "f" or only.shape[-1:] == (form.columns,)):
                return None
        tables = table_rows(results, rows, longer=form.from_zero)
        return None if tables is None else "tables"


def _rotates_heads(best: _Found, form: CallForm, suits: tuple[int, Outcome] | None) -> bool:
    """Return whether heads differ in one order of axes, and nothing rotates in another.

    Then the function rotates by heads, and no other order is tried.
    """
    return (
        suits is not None
        and _KEEPS_LENGTHS <= suits[0] < _HEADS_DIFFER
        and best.form.roles_text == form.roles_text
        and best.fitness == _HEADS_DIFFER
    )


def _all_close(some: Sequence[Returned], others: Sequence[Returned]) -> bool:
    """Return whether two calls gave the same values, in any shape."""
    return all(
        one.values.size == other.values.size
        and np.allclose(one.values.ravel(), other.values.ravel(), rtol=0, atol=_SAME_ROW)
        for one, other in zip(some, others, strict=True)
    )


def _changed_columns(result: Returned, given: Vectors) -> Flags:
    """Return which columns of the rows change. Shape: (n, d)."""
    return np.asarray(np.abs(result.values - given.values).max(axis=(0, 2)) > _ROUNDING)


def _unchanged(rotated: Sequence[Returned], vectors: Sequence[Vectors]) -> bool:
    """Return whether all vectors are returned unchanged, or multiplied by one attention factor."""
    pairs = [(result.values, given.values) for result, given in zip(rotated, vectors, strict=True)]
    with np.errstate(all="ignore"):
        return all(
            np.allclose(y, np.vdot(x, y) / np.vdot(x, x) * x, rtol=0, atol=_SAME_ROW)
            for y, x in pairs
        )


def _lengths_kept(values: NumberArray, vectors: NumberArray) -> bool:
    """Return whether all lengths were multiplied by one factor. Shape of both: (n, h, d)."""
    before = np.linalg.norm(np.asarray(vectors, np.float64), axis=2)
    with np.errstate(all="ignore"):
        ratios = np.linalg.norm(values.astype(np.float64), axis=2) / before
    return bool(np.isfinite(ratios).all() and np.ptp(ratios) <= _KEPT_LENGTH * np.median(ratios))
