"""Run a whole rope-check: choose positions and lengths, read the subject, write the report.

In: a `CheckRequest` and a reference. Out: a `Report`. Start reading at `Check.report`.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.budget import COMPUTED_CELLS, check_size
from posenc_cli.calls.roles import TABLES
from posenc_cli.calls.signature import CallRequest
from posenc_cli.checks.queries_and_keys import report_of_both
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.request import Encoding, Request
from posenc_cli.errors import InvalidInput, Unavailable, quoted_name
from posenc_cli.inference.codes import Cause, FindingName
from posenc_cli.inference.reference import (
    VIDEO_POSITIONS,
    Reference,
    text_encoding,
    video_encoding,
)
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.positions import Positions, consecutive_ranges
from posenc_cli.records import Record, replace
from posenc_cli.rotary import subject as subjects
from posenc_cli.rotary.lengths import length_rule
from posenc_cli.rotary.rotated import vectors
from posenc_cli.rotary.verdict import (
    Explanation,
    Report,
    accepting_rule,
    axis_notes,
    examine,
    merge_reports,
    order_notes,
    with_prefix,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from posenc_cli.calls.serving import FunctionTarget
    from posenc_cli.checks.definition import SourcePlace
    from posenc_cli.encoding.engine import Engine
    from posenc_cli.formulas.declare import Bound
    from posenc_cli.inference.tolerance import ToleranceRule
    from posenc_cli.inference.turning import PositionRows, Progress
    from posenc_cli.rotary.subject import GivenArray, Subject

CONTEXT = 131072
"""Length within which positions are sampled if no parameter gives a context length."""

_CONTEXT_NAMES = ("max_position_embeddings", "original_max_position_embeddings")


_ADDED, _COMPARED = 2, 4
"""Costs in units of one computed entry: to inspect an entry of a row, and to compare two factors.

The factors are the subject's and the reference's: about 17 million comparisons a second."""

_FEWER = "--positions start:stop:step selects some; without --len, posenc takes a sample"

_MOST_KEPT = 1 << 27
"""Most float32 values of a function that are kept in memory: 512 MiB."""

_COORDINATES = (
    "not checked beyond text positions: the function was given the row numbers, the same on every "
    "axis; to check coordinates, wrap it in a function that looks them up by row number"
)
"""Note on a function that follows axes but got no coordinates."""

_TEXT_BEFORE = 5
"""Tokens of text before a video, if there is room for them."""

_DUMP = (
    "save its values: np.save its cos and sin for --tables cos.npy sin.npy, or x and its result "
    "for --rotated x.npy y.npy"
)
"""Hint for functions that cannot be called."""

_FEW_ENOUGH = 1 << 16
"""Most positions of a grid that are all checked by default, in a second or two."""


class GivenSubject:
    """Subject of a check, given by an option."""

    calling: CallRequest

    @property
    def options(self) -> Mapping[str, Any]:
        """Subjects by option; None for options that were not given."""
        raise NotImplementedError

    def flags(self) -> list[str]:
        """Return the options that were given: one, or none.

        Raises: InvalidInput if several were given.
        """
        given = [flag for flag, value in self.options.items() if value is not None]
        if len(given) > 1:
            raise InvalidInput(f"{given[1]} cannot go with {given[0]}; one subject is checked")
        return given

    def _parts(self) -> tuple[Any, ...]:
        value = self.options[self.flags()[0]]
        return value if isinstance(value, tuple) else (value,)

    @property
    def text(self) -> str:
        """Option and names of the subject, for a reader."""
        if not self.flags():
            return "posenc's own tables"
        parts = self._parts()
        names = [subjects.name_of(each) for each in parts if not callable(each)]
        if not names:
            from posenc_cli.calls.function_process import name_of_function  # slow to import

            names = [*map(name_of_function, parts)]
        return f"{self.flags()[0].removeprefix('--').lower()} {' '.join(dict.fromkeys(names))}"

    @property
    def place(self) -> SourcePlace | None:
        """File of the subject, the first of two; for a function, the place of its definition."""
        from posenc_cli.checks.definition import SourcePlace, definition_place

        first = self._parts()[0] if self.flags() else None
        if not isinstance(first, str):
            return None
        if self.flags() == ["--impl"]:
            return definition_place(first)
        return SourcePlace(first)


class CheckRequest(GivenSubject, Record):
    """A subject to check: files or a function; posenc's own tables if nothing is given.

    At most one option may be given. ``calling`` says how to call the function.
    """

    tables: tuple[GivenArray, GivenArray] | None = None
    inv_freq: GivenArray | None = None
    rotated: tuple[GivenArray, GivenArray] | None = None
    impl: FunctionTarget | None = None
    calling: CallRequest = CallRequest()

    @property
    def options(self) -> Mapping[str, Any]:
        """Subjects by option; None for options that were not given."""
        return {
            "--tables": self.tables,
            "--inv-freq": self.inv_freq,
            "--rotated": self.rotated,
            "--impl": self.impl,
        }


class SubjectError(Exception):
    """A subject that cannot be judged: it cannot be read, raised, hung or ended its process.

    ``error`` holds the message for users.
    """

    def __init__(self, error: InvalidInput | Unavailable) -> None:
        super().__init__(error.message)
        self.error = error


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Run a block that reads the subject; its errors become SubjectError."""
    try:
        yield
    except (InvalidInput, Unavailable) as error:
        raise SubjectError(error) from error


class Check(Record):
    """A check to run: the reference for each sequence length, the positions, and the tolerance.

    ``encoding(seq_len)`` returns the reference for a length, ``engine(request)`` the engine that
    computes it. ``positions`` are the requested ones; None chooses some that suit the subject and
    the ``context`` of a model.
    """

    asked: CheckRequest
    encoding: Callable[[int | None], Encoding]
    engine: Callable[[Request], Engine]
    positions: Positions | None
    rule: ToleranceRule
    context: int = 0
    progress: Progress | None = None

    def report(self) -> Report:
        """Return the findings, the causes of failures, and the time it took.

        Raises: SubjectError if the subject cannot be read; InvalidInput if several are given.
        """
        began = time.perf_counter()
        report = self._report()
        return replace(report, seconds=time.perf_counter() - began)

    def _report(self) -> Report:
        flags = self.asked.flags()
        positions = self.positions and self.positions.counted("rope-check")
        encoding = self.encoding(positions.last + 1 if positions else None)
        bound = encoding.bound
        if bound.scheme.kind != "rotary":
            if flags:
                raise InvalidInput(
                    f"{flags[0]}: {bound.scheme.name} is {bound.scheme.kind_text}; it does not "
                    "rotate vectors",
                    hint="posenc check compares the values of any encoding",
                )
            where = positions or _suitable_positions(encoding)
            request = _request(encoding, where)
            if bound.scheme.kind == "absolute":
                width = request.plan().shape[-1]
                _check_work(where, _ADDED, width)
            from posenc_cli.checks.additive import additive_report

            with np.errstate(all="ignore"):  # a learned table may hold NaN or infinity
                report = additive_report(request, self.rule, progress=self.progress)
            return replace(report, of=self._sample_size(where))
        if self.asked.tables or self.asked.rotated:
            return self._report_of_rows()
        if self.asked.impl or not flags:
            lengths = self._lengths_at_switches(bound)
            if positions is not None:
                lengths = tuple(n for n in lengths if n < positions.last + 1)
                lengths += (positions.last + 1,) if lengths else ()
            if lengths:
                return self._report_of_lengths(lengths)
        return self._report_of_axes(encoding, positions or self._default_positions(encoding))

    def _report_of_axes(self, encoding: Encoding, positions: Positions) -> Report:
        """Return the report at positions, also with coordinates on several axes."""
        on_video = self._report_on_video(encoding, positions)
        if isinstance(on_video, Report):
            return on_video
        report = self._report_on(self._reference(encoding, positions), positions)
        if on_video and _takes_positions(report):
            return _with_text_positions_only(report, on_video)
        return self._report_on_text(report, encoding, positions) or report

    def _report_on_video(self, encoding: Encoding, positions: Positions) -> Report | str:
        """Return the report on a function that is given the coordinates of a video.

        The coordinates are those of text around a video, placed within the requested positions if
        these have room for it. Returns a reason, in words, if only text positions can be given, and
        "" for a scheme with one axis.
        """
        room = _room_for_video(positions)
        first = positions.last + 1 if room is None else room
        video = video_encoding(encoding, first) if self.asked.impl else None
        if video is None:
            return ""
        try:
            report = self._report_on(self._reference(video, positions), positions)
        except (InvalidInput, SubjectError) as error:  # text positions may still work
            return _one_number_text(error)
        call = report.subject.get("call") or {}
        if not call.get("coordinates"):
            return _one_number_text(
                call.get("refused_coordinates") or "no call with coordinates was tried"
            )
        if room is None:
            why = (
                f"the requested positions have no {VIDEO_POSITIONS} in a row, on which posenc "
                "places a video; --set axes=FILE gives coordinates"
            )
            return _with_text_positions_only(report, why)
        note = (
            f"coordinates differ by axis: positions {first} to {first + VIDEO_POSITIONS - 1} are "
            "a video of 2 frames with 4 rows and 6 columns, the others are text; "
            "--set axes=FILE sets others"
        )
        return self._better_report_at_text(report, encoding, positions) or replace(
            report, notes=(note, *report.notes)
        )

    def _better_report_at_text(
        self, report: Report, text: Encoding, positions: Positions
    ) -> Report | None:
        """Return the report at text positions if it says more than ``report`` on several axes.

        Returns None if ``report`` is right, or if the function got coordinates and the cause is
        known.
        """
        coordinates = report.subject["call"]["coordinates"]
        if report.ok or (coordinates and _is_fully_explained(report)):
            return None
        try:
            at_text = self._report_on(self._reference(text, positions), positions)
        except (InvalidInput, SubjectError):  # it may take only coordinates
            return None
        named = _is_fully_explained(at_text) and not _is_fully_explained(report)
        consistent = any(one.check == FindingName.RELATIVE and one.ok for one in at_text.findings)
        says_more = (named and not at_text.ok) if coordinates else (named or consistent)
        return at_text if says_more else None

    def _report_on_text(
        self, report: Report, encoding: Encoding, positions: Positions
    ) -> Report | None:
        """Return the report at text positions if it says more, for a function of positions."""
        roles = _roles(report)
        uses_positions = "positions" in roles and not roles & {*TABLES}
        text = text_encoding(encoding) if uses_positions and not report.ok else None
        at_text = None if text is None else self._better_report_at_text(report, text, positions)
        if at_text is None:
            return None
        return replace(
            at_text,
            reference=report.reference,
            title=report.title,
            notes=(_COORDINATES, *at_text.notes),
            unchecked=_COORDINATES,
        )

    def _lengths_at_switches(self, bound: Bound) -> tuple[int, ...]:
        """Return sequence lengths around which the rotation changes; none if the length is fixed.

        None either for a scheme that changes at every length from the first on.
        """
        if bound.rotation.waves.growth is not None:
            return ()
        given = {
            name: value
            for name, value in bound.params.items()
            if value is not None and not bound.scheme.parameters[name].rules.follows_length
        }
        switches = length_rule(bound.scheme, given).switches
        lengths = [n for switch in switches for n in (switch - 2, switch - 1, switch) if n > 1]
        distinct = tuple(dict.fromkeys(lengths))
        if len(distinct) < 2:
            return ()
        first, last = (self.encoding(n).bound.params for n in (distinct[0], distinct[-1]))
        return () if first == last else distinct

    def _read_row_files(self) -> subjects.Matrices:
        """Read the two files that have one row for each position."""
        if self.asked.rotated:
            return subjects.matrix_pair(*self.asked.rotated, "--rotated")
        first, second = self.asked.tables or ("", "")
        if first is second or (isinstance(first, str) and first == second):
            return subjects.tables_side_by_side(first)
        return subjects.matrix_pair(first, second, "--tables")

    def _report_of_rows(self) -> Report:
        """Return the report on files that have one row for each position."""
        with reading():
            files = self._read_row_files()
        rows = files[0].shape[0]
        encoding = self.encoding(self.positions.last + 1 if self.positions else rows)
        positions = self.positions or Positions.contiguous(0, rows)
        return self._report_on(self._reference(encoding, positions), positions, files=files)

    def _report_of_lengths(self, lengths: tuple[int, ...]) -> Report:
        """Merge reports at several lengths, for a scheme that depends on the sequence length."""
        if self.positions is not None:
            last = self._reference(self.encoding(lengths[-1]), self.positions)
            self._check_work(last, self.positions)
        reports = []
        for length in lengths:
            encoding = self.encoding(length)
            positions = Positions.contiguous(0, length)
            if self.positions is None:
                positions = probing_positions(length)
            elif length == self.positions.last + 1:
                positions = self.positions
            report = self._report_on(self._reference(encoding, positions), positions, whole=True)
            reports.append(with_prefix(report, f"at {length} positions"))
        return replace(
            merge_reports(reports, last=True),  # the longest sequence shows most
            notes=(f"sequences of {', '.join(map(str, lengths))} positions", *reports[0].notes),
        )

    def _default_positions(self, encoding: Encoding) -> Positions:
        waves = encoding.bound.rotation.waves
        if waves.capacity is not None:
            count = waves.capacity.positions
            return (
                Positions.contiguous(0, count) if count <= _FEW_ENOUGH else probing_positions(count)
            )
        if waves.growth is not None:
            return probing_positions(2048)
        known = min(self.context, CONTEXT)
        return probing_positions(max(known, context_of(encoding.bound.params)))

    def _reference(self, encoding: Encoding, positions: Positions) -> Reference:
        request = _request(encoding, positions)
        return Reference.of(encoding, self.engine(request))

    def _report_on(
        self,
        reference: Reference,
        positions: Positions,
        *,
        whole: bool = False,
        files: subjects.Matrices | None = None,
    ) -> Report:
        if self.asked.flags() and positions.last == 0 and self.asked.inv_freq is None:
            raise InvalidInput(
                f"{self.asked.flags()[0]}: position 0 alone shows nothing, as it is not rotated"
            )
        self._check_work(reference, positions)
        # The subject's values may be NaN, or overflow in products.
        with np.errstate(all="ignore"):
            with reading():
                if files is None:
                    subject = self._subject(reference, positions, whole=whole)
                else:
                    read = vectors if self.asked.tables is None else subjects.tables
                    subject = read(files, reference, positions)
            report = self._judge(subject, reference)
            if subject.key is None:
                return report
            keys = self._judge(subject.key, replace(reference, opposite=True))
            return report_of_both(subject, report, keys, alike_if_right=reference.symmetric)

    def _judge(self, subject: Subject, reference: Reference) -> Report:
        examination = examine(subject, reference, self.rule, progress=self.progress)
        bound = reference.encoding.bound
        pairing = subject.own.pairing
        rows = subject.own.places
        diagnosis: tuple[Explanation, ...] = ()
        if not examination.ok:
            from posenc_cli.diagnosis.diagnose import diagnose  # slow to import

            diagnosis = diagnose(examination)
        unevaluated = subject.far_wider(reference) and not any(why.residual for why in diagnosis)
        notes = (*subject.notes, *self._sample_notes(rows), *_call_notes(subject))
        title = reference.text
        if examination.ok:
            if subject.is_tables and pairing and pairing.layout != reference.content.layout:
                title += f", if the code reorders the columns from the layout {pairing.layout}"
                notes = ("--impl and --rotated check the order of the columns too", *notes)
            notes = (*order_notes(subject), *axis_notes(reference, rows), *notes)
        elif not examination.others_differ:
            notes += tuple(f"also wrong: {one.text}" for one in subject.other_calls)
        if unevaluated:
            pairs = f"{subject.own.pairs} pairs against {reference.pairs}"
            notes += (f"{pairs}: the widths differ too much to compare",)
        return Report(
            subject={
                "kind": subject.kind,
                "name": subject.name,
                "dtype": subject.dtype,
                "layout": None if pairing is None else pairing.layout,
                "out_layout": None if pairing is None else pairing.out_layout,
                **({} if subject.call is None else {"call": subject.call}),
            },
            reference={"scheme": bound.scheme.name, "params": dict(bound.params)},
            positions=str(rows.positions),
            count=0 if unevaluated else rows.count,
            pairs=subject.own.pairs,
            findings=examination.findings,
            diagnosis=diagnosis,
            notes=notes,
            tolerance=examination.tolerance.reason,
            title=title,
            curve=tuple(examination.survey.errors) if examination.survey else (),
            shares=tuple(examination.survey.shares) if examination.survey else (),
            of=self._sample_size(rows.positions),
            accepted_by=accepting_rule(examination, diagnosis),
        )

    def _sample_size(self, positions: Positions) -> int | None:
        """Return how many positions were sampled from; None if they are all or were requested."""
        last = positions.last
        return None if self.positions is not None or positions.count > last else last + 1

    def _check_work(self, reference: Reference, positions: Positions) -> None:
        """Refuse more positions than a check can compare in minutes, or keep in memory.

        Files are not limited: their rows exist already.
        """
        if self.asked.tables or self.asked.rotated:
            return
        _check_work(positions, _COMPARED, 2 * reference.pairs)
        if self.asked.impl:
            # Each pair has a rotated and a mirrored part, both complex.
            most = _MOST_KEPT // (4 * reference.pairs)
            check_size(positions.option, positions.count, most, "positions", hint=_FEWER)

    def _sample_notes(self, rows: PositionRows) -> tuple[str, ...]:
        """Return a note if a function was called only for a sample of the positions."""
        if self.positions is not None or not self.asked.impl or rows.count > rows.positions.last:
            return ()
        tried = f"{rows.count} positions up to {rows.positions.last} were tried"
        return (f"{tried}; --len N tries all N",)

    def _subject(self, reference: Reference, positions: Positions, *, whole: bool) -> Subject:
        asked = self.asked
        if asked.inv_freq is not None:
            return subjects.inverse_frequencies(asked.inv_freq, reference, positions)
        if asked.impl is not None:
            from posenc_cli.checks.calling import implementation

            try:
                return implementation(
                    asked.impl,
                    reference,
                    positions,
                    whole=whole,
                    sampled=self.positions is None,
                    asked=asked.calling,
                    progress=self.progress,
                )
            except (InvalidInput, Unavailable) as error:
                hint = error.hint or ""
                if error.code != "mistyped":
                    hint = f"{hint}; or {_DUMP}" if hint else _DUMP
                raise type(error)(error.message, hint=hint, code=error.code) from error.__cause__
        return subjects.own_tables(reference, positions)


def _roles(report: Report) -> set[str]:
    """Return the roles of the arguments that a function was called with."""
    return {*((report.subject.get("call") or {}).get("form") or "").split(", ")}


def _takes_positions(report: Report) -> bool:
    """Return whether a function rotates by positions it receives or counts, not by given tables."""
    roles = _roles(report)
    return bool(roles & {"x", "q", "k", "positions", "length"}) and not roles & {*TABLES}


def _with_text_positions_only(report: Report, why: str) -> Report:
    """Add a note to a report: coordinates that differ by axis were not checked, and why."""
    summary = "not checked beyond text positions: each is the same number on every axis"
    unchecked = f"{summary}; {why}"
    return replace(report, notes=(unchecked, *report.notes), unchecked=unchecked)


def _one_number_text(why: Exception | str) -> str:
    """Say that a function takes no coordinates, with the first line of its error."""
    return f"the function takes one number for each row ({str(why).partition(chr(10))[0]})"


def _room_for_video(positions: Positions) -> int | None:
    """Return the first position of a video, after some text if possible; None without room."""
    for indices in positions.ranges:
        room = len(indices) - VIDEO_POSITIONS
        if room >= 0 and indices.step == 1:
            return indices.start + min(_TEXT_BEFORE, room)
    return None


def _is_fully_explained(report: Report) -> bool:
    """Return whether the first cause explains every value."""
    return any(
        why.cause != Cause.UNKNOWN and (why.residual is None or why.residual.whole)
        for why in report.diagnosis[:1]
    )


def _call_notes(subject: Subject) -> tuple[str, ...]:
    if subject.call is None:
        return ()
    call = subject.call
    notes = [f"called as {call['text']}"]
    if call["python"] != sys.executable:
        notes[0] += f"; by {quoted_name(call['python'])}"
    if call["patterns"]:
        notes.append(f"further calls: {', '.join(call['patterns'])}")
    if call["untried"]:
        notes.append(f"not tried: {', '.join(call['untried'])}")
    return tuple(notes)


def _check_work(positions: Positions, cost: int, width: int) -> None:
    """Refuse positions that take too many minutes, each with ``width`` entries of this ``cost``."""
    most = COMPUTED_CELLS // (cost * width)
    check_size(positions.option, positions.count, most, "positions", hint=_FEWER)


def _request(encoding: Encoding, positions: Positions) -> Request:
    request = Request(encoding, positions, Precision.of(FLOAT64, None))
    request.plan()  # refuses positions that the scheme does not have
    return request


def probing_positions(context: int) -> Positions:
    """Return a few hundred positions that reveal most bugs within ``context``.

    These are the first positions in a row, those around powers of two, and the last. At powers of
    two, number formats run out of integers and contexts end.

    >>> str(probing_positions(300))
    '0:64,127:130,255:259,298:300'
    """
    numbers = {*range(64), context - 2, context - 1}
    for power in (1 << k for k in range(7, context.bit_length() + 1)):
        # 257 and 2049 are the first integers that bfloat16 and float16 cannot represent.
        numbers |= {*range(power - 1, power + (3 if power in (256, 2048) else 2))}
    return Positions(consecutive_ranges(sorted(n for n in numbers if 0 <= n < context)))


def context_of(params: Mapping[str, Any]) -> int:
    """Return the context length that parameters imply, or a default.

    >>> context_of({"original_max_position_embeddings": 8192, "factor": 8.0})
    65536
    """
    contexts = [int(params[name]) for name in _CONTEXT_NAMES if params.get(name)]
    if not contexts:
        return CONTEXT
    extended = int(min(contexts) * (params.get("factor") or 1))
    return max(64, min(max(*contexts, extended), 2**40))


def _suitable_positions(encoding: Encoding) -> Positions:
    """Return default positions for an encoding that does not rotate."""
    content = encoding.bound.content
    if encoding.bound.scheme.kind == "relative":
        return Positions.contiguous(0, 64)
    capacity = content.capacity
    return probing_positions(min(capacity.positions if capacity else 4096, 4096))
