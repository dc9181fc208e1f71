"""Run ``posenc check`` for encodings that do not rotate: read the subject, compare, report.

In: a reference and one subject. Out: a `ValueReport`. Start reading at `ValueCheck.report`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.budget import check_size
from posenc_cli.calls.signature import CallRequest
from posenc_cli.checks.checking import GivenSubject, reading
from posenc_cli.checks.expected import Form, ValuePlaces
from posenc_cli.checks.subjects import ValueRequest, ValueSubject, read_subject
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

    from posenc_cli.checks.functions import FunctionTask, FurtherCall
    from posenc_cli.numerics.arrays import NumberArray
    from posenc_cli.rotary.subject import GivenArray

_DEFAULT_POSITIONS = 64
"""Number of positions at which a function or frequencies are compared by default."""

_MOST_VALUES = 1 << 24
"""Most values of a function's rows; several copies of them stay within 2 GiB."""

_RELATIVE = Positions.contiguous(-600, 1201)
"""Relative positions beyond the last one that usual bucket rules distinguish."""


class ValueCheck(GivenSubject, ValueRequest):
    """A check to run: the reference, and exactly one of the subjects.

    ``file`` holds rows or scores. ``vectors`` are x and x + rows. ``inv_freq`` holds frequencies of
    waves.
    """

    file: GivenArray | None = None
    vectors: tuple[GivenArray, GivenArray] | None = None
    inv_freq: GivenArray | None = None
    slopes: GivenArray | None = None
    buckets: GivenArray | None = None
    impl: str | Callable[..., Any] | None = None
    calling: CallRequest = CallRequest()

    @property
    def options(self) -> Mapping[str, Any]:
        """Subjects by option; None for options that were not given."""
        return {
            "FILE": self.file,
            "--rotated": self.vectors,
            "--inv-freq": self.inv_freq,
            "--slopes": self.slopes,
            "--buckets": self.buckets,
            "--impl": self.impl,
        }

    def report(self) -> ValueReport:
        """Return the report on the subject.

        Raises: SubjectError if the subject cannot be read or called; InvalidInput if there is none
        or several, or the reference cannot be computed.
        """
        if isinstance(self.source, Scheme):
            length = self.positions.length if self.positions else None
            encoding = Encoding.of(self.source, self.given, seq_len=length)
            if self._lacks_table(encoding) and (self.file or self.vectors):
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
        with reading():
            subject, kind = self._subject()
        return value_report(subject, kind)

    def _lacks_table(self, encoding: Encoding) -> bool:
        """Return whether the reference's learned table would be randomly initialized."""
        drawn = encoding.bound.content.weights is not None
        return drawn and not {"seed", "weights"} & {*self.given}

    def _subject(self) -> tuple[ValueSubject, str]:
        if self.vectors is not None:
            return self._vector_subject(*map(_load, self.vectors)), "vectors"
        if self.impl is not None:
            return self._function_subject(self.impl), "function"
        readers = {
            "frequencies": (self.inv_freq, self._frequency_subject),
            "slopes": (self.slopes, replace(self, form="slopes").subject),
            "buckets": (self.buckets, replace(self, form="buckets").subject),
            "file": (self.file, self.subject),
        }
        subjects = {
            kind: read(_load(given)) for kind, (given, read) in readers.items() if given is not None
        }
        ((kind, subject),) = subjects.items()
        return subject, kind

    def _vector_subject(self, x: Loaded, y: Loaded) -> ValueSubject:
        """Return the values that were added to vectors, as a subject."""
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

    def _frequency_subject(self, loaded: Loaded) -> ValueSubject:
        """Return the rows of waves with the given frequencies, at the first positions."""
        found = np.asarray(loaded.values, np.float64).reshape(-1)
        positions = self.positions or Positions.contiguous(0, _DEFAULT_POSITIONS)
        request = replace(self, form="rows", positions=positions)
        empty = np.zeros((1, 1))
        probe = request.expected(
            "rows", loaded, positions, places=ValuePlaces(position_array(positions)), found=empty
        )
        if not probe.is_waves or probe.is_offset:
            raise InvalidInput(f"--inv-freq: {probe.source.name} has no frequencies to compare")
        right = probe.frequencies
        if found.size != right.size:
            raise InvalidInput(
                f"--inv-freq holds {found.size} frequencies, but the reference has {right.size}"
            )
        rows = probe.waves(probe.angle_positions() * found)
        return request.subject(replace(loaded, values=rows))

    def _function_forms(self) -> tuple[list[Form], Mapping[str, Any], Positions, int]:
        """Return the forms that a function may return, the settings, positions and width."""
        source, positions = self.source, self.positions
        if not isinstance(source, Scheme):
            return ["buckets"], source.bind(self.given)[0], positions or _RELATIVE, 1
        encoding = Encoding.of(source, self.given, seq_len=positions.length if positions else None)
        params, content = encoding.bound.params, encoding.bound.content
        capacity = content.capacity
        count = (
            _DEFAULT_POSITIONS if capacity is None else min(_DEFAULT_POSITIONS, capacity.positions)
        )
        if capacity is not None and (params.get("grid") or params.get("window_size")):
            count = capacity.positions
        forms: list[Form] = ["scores" if source.kind == "bias" else "rows"]
        if source.name == "alibi":
            forms.append("slopes")
        if source.name in ("t5", "t5-clipped", "swin"):
            forms = ["buckets"] if self._lacks_table(encoding) else ["scores", "buckets"]
        return forms, params, positions or Positions.contiguous(0, count), content.width or 1

    def tasks(self) -> Iterator[tuple[FunctionTask, ValueRequest]]:
        """Yield the task of a function for each form that it may return."""
        from posenc_cli.checks.functions import FunctionTask

        forms, params, positions, width = self._function_forms()
        sides = tuple(params.get("grid") or params.get("window_size") or ())
        check_size(positions.option, positions.count * width, _MOST_VALUES, "values of rows")
        places: NumberArray = position_array(positions)
        if positions.denominator > 1:
            places = places / float(positions.denominator)
        if isinstance(self.source, Scheme) and self.source.kind == "relative":
            places = position_array(positions.offsets())
        for form in forms:
            given = {**self.given, "heads": params["heads"]} if form == "slopes" else self.given
            request, at = replace(self, form=form, given=given, positions=positions), places
            count = positions.count
            if form in ("slopes", "buckets"):
                whole = self.positions is None or (positions.first, positions.step) == (0, 1)
                request = replace(request, positions=None if whole else self.positions)
                distances = _RELATIVE if self.positions is None else positions.offsets()
                at = position_array(distances) if whole and not sides else at
                count = -distances.first if positions is _RELATIVE else count
            yield FunctionTask(at, count, params, sides, width, form), request

    def _function_subject(self, impl: str | Callable[..., Any]) -> ValueSubject:
        """Call a function with the reference's settings, and in the calls that models make."""
        from posenc_cli.checks.functions import function_values

        failures = []
        for task, request in self.tasks():
            further = partial(self._further_calls, task, request)
            try:
                subject, text = function_values(impl, task, request.subject, self.calling, further)
            except InvalidInput as error:
                failures.append(error)
                continue
            described: ValueSubject = replace(subject, notes=(*subject.notes, f"called as {text}"))
            return described
        raise failures[0]

    def _further_calls(self, task: FunctionTask, request: ValueRequest) -> Iterator[FurtherCall]:
        """Yield the calls that models make after the first."""
        from posenc_cli.checks.other_calls import further_calls

        def of_settings(given: dict[str, Any]) -> tuple[FunctionTask, ValueRequest]:
            tasks = replace(self, given=given).tasks()
            return next(each for each in tasks if each[0].form == task.form)

        return further_calls(task, request, of_settings)


def _load(given: GivenArray) -> Loaded:
    return read_subject(given) if isinstance(given, str) else given
