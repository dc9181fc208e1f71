"""``posenc check`` for encodings that do not rotate: subject, reference, report."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.budget import check_size
from posenc_cli.calls.signature import CallRequest
from posenc_cli.checks.checking import GivenSubject, reading
from posenc_cli.checks.expected import ValuePlaces
from posenc_cli.checks.subjects import Asked, ValueSubject, read_subject
from posenc_cli.checks.values import ValueReport, value_report
from posenc_cli.encoding.arrays import position_array
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.request import Encoding, Request
from posenc_cli.errors import InvalidInput
from posenc_cli.files.reading import Loaded
from posenc_cli.formulas.declare import Scheme
from posenc_cli.inference.tolerance import unit
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.positions import Positions
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from posenc_cli.checks.expected import Form
    from posenc_cli.checks.functions import FunctionTask, FurtherCall
    from posenc_cli.numerics.arrays import NumberArray
    from posenc_cli.rotary.subject import GivenArray

_TRIED = 64
"""Positions that a function or frequencies are compared at where nothing says how many."""

_MOST_VALUES = 1 << 24
"""Numbers of a function's rows, which are held several times over: within 2 GiB."""

_RELATIVE = Positions.contiguous(-600, 1201)
"""Relative positions past the last that usual rules for buckets tell apart."""


class ValueCheck(GivenSubject, Asked):
    """A check to be made: the reference, and exactly one of the subjects.

    ``file`` holds rows or scores, ``vectors`` are x and x + rows; ``inv_freq`` are frequencies of
    waves. ``rounding`` is the format that right slopes are rounded to.
    """

    file: GivenArray | None = None
    vectors: tuple[GivenArray, GivenArray] | None = None
    inv_freq: GivenArray | None = None
    slopes: GivenArray | None = None
    buckets: GivenArray | None = None
    impl: str | Callable[..., Any] | None = None
    calling: CallRequest = CallRequest()
    rounding: str = ""

    @property
    def options(self) -> Mapping[str, Any]:
        """What may be given, None where it was not."""
        return {
            "FILE": self.file,
            "--rotated": self.vectors,
            "--inv-freq": self.inv_freq,
            "--slopes": self.slopes,
            "--buckets": self.buckets,
            "--impl": self.impl,
        }

    def report(self) -> ValueReport:
        """The report on the subject.

        Raises: SubjectError when it cannot be read or called; InvalidInput when there is none, or
        there are several, or the reference cannot be had.
        """
        if isinstance(self.source, Scheme):
            length = self.positions.length if self.positions else None
            encoding = Encoding.of(self.source, self.given, seq_len=length)
            if self._has_no_table(encoding) and (self.file or self.vectors):
                numbered = encoding.bound.content.heads is not None
                raise InvalidInput(
                    f"{self.source.name} has a learned table, but none is given",
                    hint="--set weights=FILE reads it, --set seed=N draws posenc's own"
                    + ("; --buckets FILE checks which row each pair reads" if numbered else ""),
                )
            if self.positions is not None and self.buckets is None:
                Request(encoding, self.positions, Precision.of(FLOAT64, None)).row_positions()
        else:
            self.source.bind(self.given)
        flags = self.flags()
        if not flags:
            raise InvalidInput(
                "FILE, --slopes, --buckets or --impl: give the values to check",
                hint="posenc inspect reports properties of an encoding itself",
            )
        if len(flags) > 1:
            raise InvalidInput(f"{flags[1]} cannot go with {flags[0]}; one subject is checked")
        with reading():
            subject, kind = self._subject()
        return value_report(subject, kind)

    def _has_no_table(self, encoding: Encoding) -> bool:
        """Whether values would be compared with a table that nobody trained."""
        drawn = encoding.bound.content.weights is not None
        return drawn and not {"seed", "weights"} & {*self.given}

    def _subject(self) -> tuple[ValueSubject, str]:
        if self.vectors is not None:
            return self._of_vectors(*map(_loaded, self.vectors)), "vectors"
        if self.inv_freq is not None:
            return self._of_frequencies(_loaded(self.inv_freq)), "frequencies"
        if self.impl is not None:
            return self._of_function(self.impl), "function"
        if self.slopes is not None:
            subject = replace(self, form="slopes").subject(_loaded(self.slopes))
            expected = replace(subject.expected, rounding=self.rounding)
            return replace(subject, expected=expected), "slopes"
        if self.buckets is not None:
            return replace(self, form="buckets").subject(_loaded(self.buckets)), "buckets"
        assert self.file is not None
        return self.subject(_loaded(self.file)), "file"

    def _of_vectors(self, x: Loaded, y: Loaded) -> ValueSubject:
        """What was added to vectors."""
        if x.values.shape != y.values.shape:
            raise InvalidInput("--rotated: x and its result have different shapes")
        added = np.asarray(y.values, np.float64) - np.asarray(x.values, np.float64)
        dtype = max(x.dtype, y.dtype, "float32", key=unit)
        subject = replace(self, form="rows").subject(Loaded(added, dtype, y.path))
        size = float(np.abs(x.values).max())
        e = subject.expected
        vectors = np.asarray(x.values, np.float64).reshape(-1, e.found.shape[-1])
        expected = replace(e, slack=4 * unit(dtype) * size, vectors=vectors[: len(e.found)])
        return replace(subject, expected=expected)

    def _of_frequencies(self, loaded: Loaded) -> ValueSubject:
        """The rows of waves that have these frequencies, at the first positions."""
        found = np.asarray(loaded.values, np.float64).reshape(-1)
        where = self.positions or Positions.contiguous(0, _TRIED)
        asked = replace(self, form="rows", positions=where)
        empty = np.zeros((1, 1))
        probe = asked.expected(
            "rows", loaded, where, places=ValuePlaces(position_array(where)), found=empty
        )
        if not probe.is_waves or probe.is_offset:
            raise InvalidInput(f"--inv-freq: {probe.source.name} has no frequencies to compare")
        right = probe.frequencies
        if found.size != right.size:
            raise InvalidInput(
                f"--inv-freq holds {found.size} frequencies, but the reference has {right.size}"
            )
        rows = probe.waves(probe.followed() * found)
        return asked.subject(replace(loaded, values=rows))

    def _of_forms(self) -> tuple[list[Form], Mapping[str, Any], Positions, int]:
        """The forms that a function may give values in, the settings, positions and columns."""
        source, where = self.source, self.positions
        if not isinstance(source, Scheme):
            return ["buckets"], source.bind(self.given)[0], where or _RELATIVE, 1
        encoding = Encoding.of(source, self.given, seq_len=where.length if where else None)
        params, content = encoding.bound.params, encoding.bound.content
        capacity = content.capacity
        count = _TRIED if capacity is None else min(_TRIED, capacity.positions)
        if capacity is not None and (params.get("grid") or params.get("window_size")):
            count = capacity.positions
        forms: list[Form] = ["scores" if source.kind == "bias" else "rows"]
        if source.name == "alibi":
            forms.append("slopes")
        if source.name in ("t5", "t5-clipped", "swin"):
            forms = ["buckets"] if self._has_no_table(encoding) else ["scores", "buckets"]
        return forms, params, where or Positions.contiguous(0, count), content.width or 1

    def tasks(self) -> Iterator[tuple[FunctionTask, Asked]]:
        """What a function may be asked for, in each form that it may give values in."""
        from posenc_cli.checks.functions import FunctionTask

        forms, params, where, width = self._of_forms()
        sides = tuple(params.get("grid") or params.get("window_size") or ())
        check_size(where.option, where.count * width, _MOST_VALUES, "values of rows")
        places: NumberArray = position_array(where)
        if where.denominator > 1:
            places = places / float(where.denominator)
        if isinstance(self.source, Scheme) and self.source.kind == "relative":
            places = position_array(where.offsets())
        for own in forms:
            given = {**self.given, "heads": params["heads"]} if own == "slopes" else self.given
            asked, at = replace(self, form=own, given=given, positions=where), places
            count = where.count
            if own in ("slopes", "buckets"):
                whole = self.positions is None or (where.first, where.step) == (0, 1)
                asked = replace(asked, positions=None if whole else self.positions)
                around = _RELATIVE if self.positions is None else where.offsets()
                at = position_array(around) if whole and not sides else at
                count = -around.first if where is _RELATIVE else count
            yield FunctionTask(at, count, params, sides, width, own), asked

    def _of_function(self, impl: str | Callable[..., Any]) -> ValueSubject:
        """What a function returns for the reference's settings, and in the calls of models."""
        from posenc_cli.checks.functions import function_values

        failures = []
        for task, asked in self.tasks():
            further = partial(self._further, task, asked)
            try:
                subject, text = function_values(impl, task, asked.subject, self.calling, further)
            except InvalidInput as error:
                failures.append(error)
                continue
            told: ValueSubject = replace(subject, notes=(*subject.notes, f"called as {text}"))
            return told
        raise failures[0]

    def _further(self, task: FunctionTask, asked: Asked) -> Iterator[FurtherCall]:
        """The calls that models make beside the first."""
        from posenc_cli.checks.other_calls import (
            calls_after_fewer,
            calls_of_buckets,
            calls_of_rows,
            calls_of_scores,
            calls_with_settings,
        )

        if task.form == "rows":
            yield from calls_of_rows(task, asked)
        if task.form == "scores":
            yield from calls_of_scores(task, asked)
        if task.form == "buckets":
            yield from calls_of_buckets(task, asked)

        def of_settings(given: dict[str, Any]) -> tuple[FunctionTask, Asked]:
            tasks = replace(self, given=given).tasks()
            return next(own for own in tasks if own[0].form == task.form)

        yield from calls_with_settings(task, asked.given, of_settings)
        yield from calls_after_fewer(task, asked)


def _loaded(given: GivenArray) -> Loaded:
    return read_subject(given) if isinstance(given, str) else given
