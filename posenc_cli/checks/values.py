"""The report on values of an encoding that does not rotate: right or wrong, and why."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.checks.known_bugs.bug import BugCode
from posenc_cli.checks.measured import nonfinite
from posenc_cli.checks.search import KNOWN_BUGS, NamedBug, blocks_of, explanations
from posenc_cli.formulas.parameters import brief_text
from posenc_cli.positions import range_texts
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.checks.expected import Expected
    from posenc_cli.checks.search import Explained
    from posenc_cli.checks.subjects import ValueSubject
    from posenc_cli.numerics.arrays import Flags

_AXES = {
    "rows": ("rows", "columns"),
    "scores": ("heads", "queries", "keys"),
    "slopes": ("heads",),
    "buckets": ("entries",),
}
"""The axes of the values of each form."""
_SINGULAR = {"queries": "query", "entries": "entry"}
_WRONG = 6
"""Rows that differ, at which each bug is tried first."""
_RUNS = 6
"""Runs of rows or columns that are listed; of more, how many."""


class WorstValue(Record):
    """A value that differs most: where it stands, the reference, what was found."""

    at: dict[str, int | float]
    expected: float
    found: float
    allowed: float


class ValueReport(Record):
    """What a check of values found: ``ok``, and why not.

    ``explained`` are the equally good explanations, each of one or two known bugs that hold
    together; empty where all is right, or no known bug gives the values. ``where`` names the axes
    of the subject, and which of them hold the ``differing`` of the ``compared`` values.
    ``rounding`` says that values are not exact, but right within the default tolerance.
    """

    ok: bool
    subject: dict[str, Any]
    reference: dict[str, Any]
    title: str
    positions: str
    compared: int
    differing: int
    worst: WorstValue | None
    where: dict[str, str]
    explained: tuple[Explained, ...]
    notes: tuple[str, ...] = ()
    tolerance: str = ""
    misfit: str = ""
    call: str = ""
    untested: str = ""
    nonfinite: int = 0
    rounding: bool = False
    seconds: float = 0.0

    @property
    def cause(self) -> str | None:
        """The code of the likeliest cause, None where all is right."""
        if self.ok:
            return None
        return self.explained[0][0].code if self.explained else str(BugCode.UNKNOWN)

    @property
    def cause_text(self) -> str | None:
        """The cause in a sentence, or all that it may be; None where all is right."""
        if self.ok:
            return None
        if not self.explained:
            more = f"; values that are NaN or infinite: {self.nonfinite}" if self.nonfinite else ""
            return f"{BugCode.UNKNOWN}: {BugCode.UNKNOWN.meaning}{more}"
        told = [" and ".join(bug.text for bug in bugs) for bugs in self.explained]
        return told[0] if len(told) == 1 else "either " + ", or ".join(told)

    @property
    def next_step(self) -> str | None:
        """What to do; None where all is right."""
        if self.ok:
            return None
        if self.rounding:
            return (
                "compute with more bits and round once, or leave out --tol exact: the values pass "
                "the default tolerance"
            )
        if not self.explained:
            places = [_singular(*own) for own in self.where.items() if "all" not in own[1]]
            if places and 4 * self.differing <= self.compared:
                return f"check what writes {', '.join(places)}; the other values are right"
            return "compare the first differing row by hand, or run posenc identify on the table"
        steps = (dict.fromkeys(bug.remedy for bug in bugs) for bugs in self.explained)
        return "; or ".join(dict.fromkeys(", and ".join(filter(None, own)) for own in steps))

    @property
    def verdict(self) -> str:
        """The verdict in a sentence."""
        kind, name = str(self.subject["kind"]), str(self.subject["name"])
        name = name if kind in ("file", name) else f"{kind} {name}"
        if self.ok:
            but = f"; not tested: {self.untested}" if self.untested else ""
            return f"ok: {name} matches {self.title} ({self.compared} values){but}"
        name = f"{name}, called for {self.call}," if self.call else name
        if self.misfit:
            return f"FAILED: {name} does not match {self.title}: {self.misfit}"
        worst = ""
        if self.worst is not None and np.isfinite(self.worst.found):
            worst = f", by up to {abs(self.worst.found - self.worst.expected):.3g}"
        how = f"{self.differing} of {self.compared} values differ{worst}"
        return f"FAILED: {name} does not match {self.title}: {how}"


def value_report(subject: ValueSubject, kind: str) -> ValueReport:
    """The report on a subject; ``kind`` is what the subject is called."""
    began = time.perf_counter()
    e = subject.expected
    with np.errstate(all="ignore"):
        differing, worst, marked = _differences(e)
        wrong = bool(differing) or bool(subject.misfit) or e.transposed
        told = _explained(subject, differing, marked) if wrong else []
    params = {name: value for name, value in e.params.items() if value is not None}
    return ValueReport(
        ok=not wrong,
        subject={
            "kind": kind,
            "name": subject.name,
            "form": e.form,
            "dtype": e.dtype,
            "shape": [*e.found.shape],
        },
        reference={"scheme": e.source.name, "params": dict(e.params)},
        title=_title(e, params),
        positions=subject.positions,
        compared=subject.compared or int(e.found.size),
        differing=differing,
        worst=worst,
        where=_where(subject, marked) if differing else {},
        explained=tuple(told),
        notes=(*subject.notes, *_random_weights(e)),
        tolerance="given" if isinstance(e.rule, float) else f"{e.rule} ({e.dtype})",
        misfit=subject.misfit or _exchanged(e),
        call=subject.call,
        untested=subject.untested,
        nonfinite=nonfinite(e),
        rounding=wrong
        and not told
        and e.rule == "exact"
        and is_right(replace(subject, expected=replace(e, rule="auto"))),
        seconds=time.perf_counter() - began,
    )


def is_right(subject: ValueSubject) -> bool:
    """Whether a subject has the reference's values and shape."""
    return not (subject.misfit or subject.expected.transposed or _differences(subject.expected)[0])


def _exchanged(e: Expected) -> str:
    """How a subject that was read with rows for columns differs; empty of another."""
    return "it has {} columns, not {}".format(*e.found.shape) if e.transposed else ""


def _explained(subject: ValueSubject, differing: int, marked: list[Flags]) -> list[Explained]:
    """Why a subject differs; a misfit of shapes is a bug of its own."""
    e = subject.expected
    rows = np.flatnonzero(marked[1 if e.form == "scores" else 0])
    if subject.sequences > 1:  # those that are right hide what is wrong with the others
        length = e.places.at.size // subject.sequences
        wrong = np.unique(rows // length)
        kept = (wrong[:, None] * length + np.arange(length)).ravel()
        e, rows = e.at_places(kept), np.flatnonzero(np.isin(kept, rows))
    wrong = rows[:: max(1, rows.size // _WRONG)]
    if subject.misfit:
        shape = NamedBug(
            str(BugCode.SHAPE),
            f"{subject.misfit}; the values in both " + ("differ" if differing else "are right"),
            "compute the same number of values, or set the size of the reference by options",
            "",
        )
        further = explanations(e, wrong) if differing else []
        return [(shape, *bugs) for bugs in further] or [(shape,)]
    if e.transposed:
        own = next(bug for bug in KNOWN_BUGS if bug.code is BugCode.TRANSPOSED)
        told = NamedBug(str(own.code), "rows and columns are exchanged", own.remedy, own.seen)
        if not differing:
            return [(told,)]
        return [(told, *bugs) for bugs in explanations(replace(e, transposed=False), wrong)]
    return explanations(e, wrong)


def _singular(axis: str, places: str) -> str:
    """An axis and the places on it that differ, in words."""
    one = places.split(" of ", maxsplit=1)[0].isdecimal() and ", from " not in places
    return f"{_SINGULAR.get(axis, axis.removesuffix('s')) if one else axis} {places}"


def _title(e: Expected, params: dict[str, Any]) -> str:
    """The reference in a few words: its scheme, and the parameters that are not the default."""
    own = [
        f"{name}={brief_text(value, separator=e.parameters[name].rules.separator)}"
        for name, value in params.items()
        if name in ("dim", "heads", "grid", "window_size") or value != e.parameters[name].default
    ]
    shown = [text for text in own if not text.startswith(("seq_len=", "weights="))]
    title = f"{e.source.name} ({', '.join(shown)})" if shown else e.source.name
    return title if e.head is None else f"head {e.head} of {title}"


def _random_weights(e: Expected) -> list[str]:
    """That the learned table is drawn by a seed, where it is."""
    if e.form in ("slopes", "buckets") or e.content.weights is None:
        return []
    text = e.content.weights.random_text()
    return [] if text is None else [f"the reference has {text} (--set weights=FILE reads a table)"]


def _differences(e: Expected) -> tuple[int, WorstValue | None, list[Flags]]:
    """How many values differ, the one that differs most, and which rows, columns … hold some."""
    count, worst, start = 0, None, 0
    largest = -1.0
    marked = [np.zeros(size, bool) for size in e.found.shape]
    of_rows = 1 if e.form == "scores" else 0
    for part in blocks_of(e):
        right = part.right()
        allowed = part.judged(right)
        found = np.asarray(part.found, np.float64)
        same = (found == right) | (np.isnan(found) & np.isnan(right)) | part.absent
        apart = np.where(same, 0, found - right)
        apart = np.abs(np.where(np.isnan(apart), np.inf, apart))
        wrong = apart > allowed
        rows = part.places.at.size
        if wrong.any() or largest < 0:
            count += int(wrong.sum())
            _mark(marked, wrong, start, of_rows)
            ratio = np.where(wrong, apart, -1.0) if wrong.any() else apart
            if float(ratio.max()) > largest:
                largest = float(ratio.max())
                index = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
                worst = WorstValue(
                    _place(part, index),
                    float(right[index]),
                    float(found[index]),
                    float(np.broadcast_to(allowed, right.shape)[index]),
                )
        start += rows
    return count, worst, marked


def _where(subject: ValueSubject, marked: list[Flags]) -> dict[str, str]:
    """The rows, columns … that hold values that differ, in words."""
    e, where = subject.expected, {}
    if subject.sequences > 1:
        of_sequences = marked[0].reshape(subject.sequences, -1)
        where["sequences"] = _runs(np.asarray(of_sequences.any(axis=1)))
        marked = [np.asarray(of_sequences.any(axis=0)), *marked[1:]]
    where |= {name: _runs(flags) for name, flags in zip(_AXES[e.form], marked, strict=True)}
    return where if e.head is None else {**where, "heads": str(e.head)}


def _mark(marked: Sequence[Flags], wrong: Flags, start: int, of_rows: int) -> None:
    for axis, flags in enumerate(marked):
        others = tuple(other for other in range(wrong.ndim) if other != axis)
        seen = wrong.any(axis=others)
        first = start if axis == of_rows else 0
        flags[first : first + seen.size] |= seen


def _place(e: Expected, index: tuple[Any, ...]) -> dict[str, int | float]:
    """The place of a value, by names."""
    at, keys = e.places.at, e.places.keys
    if e.form == "rows":
        position = at[index[0]] / e.parts if e.parts > 1 else int(at[index[0]])
        name = "offset" if e.is_offset else "position"
        return {name: position, "column": int(index[1])}
    if e.form == "slopes":
        return {"head": int(at[index[0]])}
    assert keys is not None
    if e.form == "buckets":
        query, key = int(at[index[0]]), int(keys[index[0]])
        if query == 0 or key == 0:
            return {"relative position": key - query if query == 0 else query - key}
        return {"query": query, "key": key}
    return {
        "head": int(index[0]) + (e.head or 0),
        "query": int(at[index[1]]),
        "key": int(keys[index[2]]),
    }


def _runs(flags: Flags) -> str:
    """Which rows, columns or heads hold values that differ, in few words."""
    if flags.all():
        return f"all {flags.size}"
    texts = range_texts(np.flatnonzero(flags).tolist())
    if len(texts) <= _RUNS:
        return ", ".join(texts) + f" of {flags.size}"
    return f"{int(flags.sum())} of {flags.size}, from {texts[0]} on"
