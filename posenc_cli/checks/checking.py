"""A whole rope-check: positions and lengths, the subject, and the report."""

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
from posenc_cli.inference.causes import Cause
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
from posenc_cli.rotary.codes import FindingName
from posenc_cli.rotary.lengths import length_rule
from posenc_cli.rotary.rotated import vectors
from posenc_cli.rotary.verdict import (
    Examination,
    Explanation,
    Report,
    accepting_rule,
    axis_notes,
    examine,
    merge_reports,
    order_notes,
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
"""Positions that are probed where nothing says how long the context is."""

_CONTEXT_NAMES = ("max_position_embeddings", "original_max_position_embeddings")


_ADDED, _COMPARED = 2, 4
"""What an entry costs, as entries that are only computed: rows that are looked at; two factors, of
the subject and of the reference, that are compared. About 17 million of these a second."""

_FEWER = "--positions start:stop:step selects some; without --len, posenc takes a sample"

_KEPT = 1 << 27
"""Numbers that are kept of a function, in single precision: 512 MiB."""

_COORDINATES = (
    "not checked beyond text positions: the function was given the row numbers, the same on every "
    "axis; to check coordinates, wrap it in a function that looks them up by row number"
)
"""What is said of a function that follows axes and was given no coordinates."""

_TEXT_BEFORE = 5
"""Tokens of text before a video, where there is room for them."""

_DUMP = (
    "save its values: np.save its cos and sin for --tables cos.npy sin.npy, or x and its result "
    "for --rotated x.npy y.npy"
)
"""A hint for functions that cannot be called."""

_FEW_ENOUGH = 1 << 16
"""Positions of a grid that are all looked at unasked: a second or two."""


class GivenSubject:
    """What was given to be checked, by option."""

    calling: CallRequest

    @property
    def options(self) -> Mapping[str, Any]:
        """What may be given, None where it was not."""
        raise NotImplementedError

    def flags(self) -> list[str]:
        """The options that were given."""
        return [flag for flag, value in self.options.items() if value is not None]

    def _parts(self) -> tuple[Any, ...]:
        value = self.options[self.flags()[0]]
        return value if isinstance(value, tuple) else (value,)

    @property
    def text(self) -> str:
        """What is checked, for a reader."""
        if not self.flags():
            return "posenc's own tables"
        from posenc_cli.calls.function_process import name_of_function

        names = [
            name_of_function(each) if callable(each) else subjects.name_of(each)
            for each in self._parts()
        ]
        return f"{self.flags()[0].removeprefix('--').lower()} {' '.join(dict.fromkeys(names))}"

    @property
    def place(self) -> SourcePlace | None:
        """The file of the subject, the first of two; of a function where it is defined."""
        from posenc_cli.checks.definition import SourcePlace, definition_place

        first = self._parts()[0] if self.flags() else None
        if not isinstance(first, str):
            return None
        if self.flags() == ["--impl"]:
            return definition_place(first)
        return SourcePlace(first)


class CheckRequest(GivenSubject, Record):
    """What to check: at most one of the files and the function; none means posenc's own tables.

    ``calling`` says how the function is to be called.
    """

    tables: tuple[GivenArray, GivenArray] | None = None
    inv_freq: GivenArray | None = None
    rotated: tuple[GivenArray, GivenArray] | None = None
    impl: FunctionTarget | None = None
    calling: CallRequest = CallRequest()

    @property
    def options(self) -> Mapping[str, Any]:
        """What may be given, None where it was not."""
        return {
            "--tables": self.tables,
            "--inv-freq": self.inv_freq,
            "--rotated": self.rotated,
            "--impl": self.impl,
        }


class SubjectError(Exception):
    """A subject that gave nothing to judge: it cannot be read, raised, hung or ended its process.

    ``error`` says why, as a user is told it.
    """

    def __init__(self, error: InvalidInput | Unavailable) -> None:
        super().__init__(error.message)
        self.error = error


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Tell what is wrong with a subject from what is wrong with the command."""
    try:
        yield
    except (InvalidInput, Unavailable) as error:
        raise SubjectError(error) from error


class Check(Record):
    """A check to be made: the reference by length of sequence, the positions, and the tolerance.

    ``encoding(seq_len)`` is the reference for a length, ``engine(request)`` what computes it.
    ``positions`` are those asked for, None for the ones that suit the subject.
    """

    asked: CheckRequest
    encoding: Callable[[int | None], Encoding]
    engine: Callable[[Request], Engine]
    positions: Positions | None
    rule: ToleranceRule
    progress: Progress | None = None

    def report(self) -> Report:
        """The findings, the causes of those that fail, and how long it took to find them.

        Raises: SubjectError when the subject cannot be read; InvalidInput when there are several.
        """
        began = time.perf_counter()
        report = self._report()
        return replace(report, seconds=time.perf_counter() - began)

    def _report(self) -> Report:
        flags = self.asked.flags()
        if len(flags) > 1:
            raise InvalidInput(f"{flags[1]} cannot go with {flags[0]}; one subject is checked")
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

            with np.errstate(all="ignore"):  # a learned table may hold any numbers
                report = additive_report(request, self.rule, progress=self.progress)
            return replace(report, of=self._sample_size(where))
        if self.asked.tables or self.asked.rotated:
            return self._report_of_rows()
        if self.asked.impl or not flags:
            lengths = self._switch_lengths(bound)
            if positions is not None:
                lengths = tuple(n for n in lengths if n < positions.last + 1)
                lengths += (positions.last + 1,) if lengths else ()
            if lengths:
                return self._report_of_lengths(lengths)
        return self._report_of_axes(encoding, positions or self._default(encoding))

    def _report_of_axes(self, encoding: Encoding, where: Positions) -> Report:
        """The report at positions, which may lie on several axes."""
        on_video = self._report_on_video(encoding, where)
        if isinstance(on_video, Report):
            return on_video
        report = self._report_on(self._reference(encoding, where), where)
        if on_video and _takes_positions(report):
            return _with_text_alone(report, on_video)
        return self._report_on_text(report, encoding, where) or report

    def _report_on_video(self, encoding: Encoding, positions: Positions) -> Report | str:
        """The report on a function that takes coordinates, where none were given.

        They are those of text around a video, within the positions asked for where these have room
        for it. Why only text positions can be given, in words; empty of a scheme of one axis.
        """
        room = _room_for_video(positions)
        first = positions.last + 1 if room is None else room
        video = video_encoding(encoding, first) if self.asked.impl else None
        if video is None:
            return ""
        try:
            report = self._report_on(self._reference(video, positions), positions)
        except (InvalidInput, SubjectError) as error:  # which text positions raise as well, or not
            return _one_number(error)
        call = report.subject.get("call") or {}
        if not call.get("coordinates"):
            return _one_number(
                call.get("refused_coordinates") or "no call with coordinates was tried"
            )
        if room is None:
            why = (
                f"the requested positions have no {VIDEO_POSITIONS} in a row, on which posenc "
                "places a video; --set axes=FILE gives coordinates"
            )
            return _with_text_alone(report, why)
        note = (
            f"coordinates differ by axis: positions {first} to {first + VIDEO_POSITIONS - 1} are "
            "a video of 2 frames with 4 rows and 6 columns, the others are text; "
            "--set axes=FILE sets others"
        )
        return self._at_text(report, encoding, positions) or replace(
            report, notes=(note, *report.notes)
        )

    def _at_text(self, report: Report, text: Encoding, positions: Positions) -> Report | None:
        """The report at text positions, where it says more than one of several axes.

        None where that holds, or speaks of coordinates that the function finds itself; of
        coordinates that it was given, where these show what is wrong.
        """
        coordinates = report.subject["call"]["coordinates"]
        if report.ok or (coordinates and _explained(report)):
            return None
        try:
            own = self._report_on(self._reference(text, positions), positions)
        except (InvalidInput, SubjectError):  # of what takes coordinates alone
            return None
        named = _explained(own) and not _explained(report)
        consistent = any(one.check == FindingName.RELATIVE and one.ok for one in own.findings)
        says_more = (named and not own.ok) if coordinates else (named or consistent)
        return own if says_more else None

    def _report_on_text(
        self, report: Report, encoding: Encoding, positions: Positions
    ) -> Report | None:
        """The report at text positions, where it says more of a function that takes positions."""
        roles = _roles(report)
        placed = "positions" in roles and not roles & {*TABLES}
        text = text_encoding(encoding) if placed and not report.ok else None
        own = None if text is None else self._at_text(report, text, positions)
        if own is None:
            return None
        return replace(
            own,
            reference=report.reference,
            title=report.title,
            notes=(_COORDINATES, *own.notes),
            unchecked=_COORDINATES,
        )

    def _switch_lengths(self, bound: Bound) -> tuple[int, ...]:
        """The lengths around which the rotation changes; none where its length was given.

        None of one that is another at every length, from the first on, either.
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
        if len(distinct) > 1 and self._params(distinct[0]) == self._params(distinct[-1]):
            return ()
        return distinct if len(distinct) > 1 else ()

    def _params(self, length: int) -> Mapping[str, Any]:
        return self.encoding(length).bound.params

    def _files(self) -> subjects.Matrices:
        """The two files that have a row a position."""
        if self.asked.rotated:
            return subjects.matrix_pair(*self.asked.rotated, "--rotated")
        first, second = self.asked.tables or ("", "")
        if first is second or (isinstance(first, str) and first == second):
            return subjects.tables_side_by_side(first)
        return subjects.matrix_pair(first, second, "--tables")

    def _report_of_rows(self) -> Report:
        """The report on files that have a row a position."""
        probe = self.encoding(self.positions.last + 1 if self.positions else None)
        positions = self.positions
        with reading():
            files = self._files()
        if positions is None:
            rows = files[0].shape[0]
            positions = Positions.contiguous(0, rows)
            probe = self.encoding(rows)
        reference = self._reference(probe, positions)
        return self._report_on(reference, positions, files=files)

    def _report_of_lengths(self, lengths: tuple[int, ...]) -> Report:
        """One report of a scheme that changes with the length of the sequence."""
        if self.positions is not None:
            last = self._reference(self.encoding(lengths[-1]), self.positions)
            self._check_work(last, self.positions)
        reports = []
        for length in lengths:
            encoding = self.encoding(length)
            where = Positions.contiguous(0, length)
            if self.positions is None:
                where = probing_positions(length)
            elif length == self.positions.last + 1:
                where = self.positions
            report = self._report_on(self._reference(encoding, where), where, whole=True)
            reports.append(_at_length(report, length))
        return replace(
            merge_reports(reports, last=True),  # the longest shows most
            notes=(f"sequences of {', '.join(map(str, lengths))} positions", *reports[0].notes),
        )

    def _default(self, encoding: Encoding) -> Positions:
        waves = encoding.bound.rotation.waves
        if waves.capacity is not None:
            count = waves.capacity.positions
            return (
                Positions.contiguous(0, count) if count <= _FEW_ENOUGH else probing_positions(count)
            )
        if waves.growth is not None:
            return probing_positions(2048)
        return probing_positions(context_of(encoding.bound.params))

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
        # What others computed may be no number, or too large for any product.
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
        where = subject.own.places
        diagnosis = () if examination.ok else _diagnosis(examination)
        unevaluated = subject.far_wider(reference) and not any(why.residual for why in diagnosis)
        notes = (*subject.notes, *self._sample_notes(where), *_call_notes(subject))
        if examination.ok:
            notes = (*order_notes(subject), *axis_notes(reference, where), *notes)
        elif not examination.others_differ:
            notes += tuple(f"besides: {one.text}" for one in subject.other_calls)
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
            positions=str(where.positions),
            count=0 if unevaluated else where.count,
            pairs=subject.own.pairs,
            findings=examination.findings,
            diagnosis=diagnosis,
            notes=notes,
            tolerance=examination.tolerance.reason,
            title=reference.text,
            curve=tuple(examination.survey.errors) if examination.survey else (),
            shares=tuple(examination.survey.shares) if examination.survey else (),
            of=self._sample_size(where.positions),
            accepted_by=accepting_rule(examination, diagnosis),
        )

    def _sample_size(self, positions: Positions) -> int | None:
        """How many positions these are a sample of, None where they were asked for or are all."""
        last = positions.last
        return None if self.positions is not None or positions.count > last else last + 1

    def _check_work(self, reference: Reference, positions: Positions) -> None:
        """Refuse more positions than a check gets through in minutes, or keeps in memory.

        Rows of files are there, however many.
        """
        if self.asked.tables or self.asked.rotated:
            return
        _check_work(positions, _COMPARED, 2 * reference.pairs)
        if self.asked.impl:
            # Of each pair its rotated and its mirrored part, complex numbers both.
            most = _KEPT // (4 * reference.pairs)
            check_size(positions.option, positions.count, most, "positions", hint=_FEWER)

    def _sample_notes(self, where: PositionRows) -> tuple[str, ...]:
        """What to know where a function was not asked for every position."""
        if self.positions is not None or not self.asked.impl or where.count > where.positions.last:
            return ()
        tried = f"{where.count} positions up to {where.positions.last} were tried"
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


def _diagnosis(examination: Examination) -> tuple[Explanation, ...]:
    """The causes of findings that fail."""
    from posenc_cli.diagnosis.diagnose import diagnose  # slow to import, and most checks hold

    return diagnose(examination)


def _roles(report: Report) -> set[str]:
    """The roles of what a function was given."""
    return {*((report.subject.get("call") or {}).get("form") or "").split(", ")}


def _takes_positions(report: Report) -> bool:
    """Whether a function rotates by positions that it is given or counts, not by given tables."""
    roles = _roles(report)
    return bool(roles & {"x", "q", "k", "positions", "length"}) and not roles & {*TABLES}


def _with_text_alone(report: Report, why: str) -> Report:
    """A report that says that coordinates that differ by axis were not given, and why."""
    told = "not checked beyond text positions: each is the same number on every axis"
    unchecked = f"{told}; {why}"
    return replace(report, notes=(unchecked, *report.notes), unchecked=unchecked)


def _one_number(why: Exception | str) -> str:
    """That a function takes no coordinates, with the first line of its error."""
    return f"the function takes one number for each row ({str(why).partition(chr(10))[0]})"


def _room_for_video(positions: Positions) -> int | None:
    """The first position of a video within positions, some text before it; None: no room."""
    for indices in positions.ranges:
        room = len(indices) - VIDEO_POSITIONS
        if room >= 0 and indices.step == 1:
            return indices.start + min(_TEXT_BEFORE, room)
    return None


def _explained(report: Report) -> bool:
    """Whether the first cause leaves nothing over."""
    return any(
        why.cause != Cause.UNKNOWN and (why.residual is None or why.residual.whole)
        for why in report.diagnosis[:1]
    )


def _call_notes(subject: Subject) -> tuple[str, ...]:
    """How a function was called."""
    if subject.call is None:
        return ()
    call = subject.call
    notes = [f"called as {call['text']}"]
    if call["python"] != sys.executable:
        notes[0] += f"; by {quoted_name(call['python'])}"
    if call["patterns"]:
        notes.append(f"it was also called in {', '.join(call['patterns'])}")
    if call["untried"]:
        notes.append(f"not tried: {', '.join(call['untried'])}")
    return tuple(notes)


def _check_work(positions: Positions, cost: int, width: int) -> None:
    """Refuse more positions, of ``width`` entries that cost so much, than take some minutes."""
    most = COMPUTED_CELLS // (cost * width)
    check_size(positions.option, positions.count, most, "positions", hint=_FEWER)


def _request(encoding: Encoding, positions: Positions) -> Request:
    request = Request(encoding, positions, Precision.of(FLOAT64, None))
    request.plan()  # which refuses positions that the scheme does not have
    return request


def _at_length(report: Report, length: int) -> Report:
    """The report, with the length of the sequence in each failed finding."""
    findings = tuple(
        finding
        if finding.ok
        else replace(finding, message=f"at {length} positions: {finding.message}")
        for finding in report.findings
    )
    return replace(report, findings=findings)


def probing_positions(context: int) -> Positions:
    """Positions that find most mistakes within ``context``, at the cost of a few hundred.

    The first in a row; then those around which number formats run out of integers and contexts
    end: the powers of two; and the last.

    >>> str(probing_positions(300))
    '0:64,127:130,255:259,298:300'
    """
    numbers = {*range(64), context - 2, context - 1}
    for power in (1 << k for k in range(7, context.bit_length() + 1)):
        # 257 and 2049 are the first whole numbers that bfloat16 and float16 lack.
        numbers |= {*range(power - 1, power + (3 if power in (256, 2048) else 2))}
    return Positions(consecutive_ranges(sorted(n for n in numbers if 0 <= n < context)))


def context_of(params: Mapping[str, Any]) -> int:
    """How long the context is that parameters speak of.

    >>> context_of({"original_max_position_embeddings": 8192, "factor": 8.0})
    65536
    """
    contexts = [int(params[name]) for name in _CONTEXT_NAMES if params.get(name)]
    if not contexts:
        return CONTEXT
    stretched = int(min(contexts) * (params.get("factor") or 1))
    return max(64, min(max(*contexts, stretched), 2**40))


def _suitable_positions(encoding: Encoding) -> Positions:
    """Positions that suit an encoding that rotates nothing, and that it has."""
    content = encoding.bound.content
    if encoding.bound.scheme.kind == "relative":
        return Positions.contiguous(0, 64)
    capacity = content.capacity
    return probing_positions(min(capacity.positions if capacity else 4096, 4096))
