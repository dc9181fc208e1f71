"""Judge the values of an encoding that does not rotate: right or wrong, and why.

In: a `ValueSubject`, whose reference computes the expected values. Out: a `ValueReport`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.checks.expected import blocks_of
from posenc_cli.checks.known_bugs.bug import BugCode
from posenc_cli.checks.measured import count_nonfinite
from posenc_cli.checks.search import Explained, NamedBug, explanations
from posenc_cli.errors import quoted_name
from posenc_cli.formulas.parameters import brief_text
from posenc_cli.positions import range_texts
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from posenc_cli.checks.expected import Expected
    from posenc_cli.checks.subjects import ValueSubject
    from posenc_cli.numerics.arrays import Flags

_AXES = {
    "rows": ("rows", "columns"),
    "scores": ("heads", "queries", "keys"),
    "slopes": ("heads",),
    "buckets": ("entries",),
}
"""Axes of the values of each form."""
_SINGULAR = {"queries": "query", "entries": "entry"}
_ARGUMENTS = ("values", "y", "frequencies", "slopes", "buckets")
"""Names of arrays that callers of the library pass; all other names are those of files."""
_WRONG_ROWS = 6
"""Rows that differ, at which each bug is tried first."""
_MOST_RANGES = 6
"""Most ranges of rows or columns that are listed; above it, only their number is."""


class WorstValue(Record):
    """The value that differs most: its place, the reference, and the found value."""

    at: dict[str, int | float]
    expected: float
    found: float
    allowed: float


OVERWRITTEN = "the next call overwrites the result of a call"


class ValueReport(Record):
    """Result of a check of values: ``ok``, and the reasons if it failed.

    ``explained`` holds the equally good explanations, each with one or two known bugs. It is empty
    if all values are right, or no known bug gives them. ``where`` maps each axis of the subject to
    the places with values that differ: ``differing`` of the ``compared``. ``rounding`` says that
    values are not exact, but pass the default tolerance.
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
        """Code of the likeliest cause; None if all values are right."""
        if self.ok:
            return None
        return self.explained[0][0].code if self.explained else str(BugCode.UNKNOWN)

    @property
    def cause_text(self) -> str | None:
        """Sentence on the cause, or on all possible causes; None if all values are right."""
        if self.ok:
            return None
        if not self.explained:
            more = f"; values that are NaN or infinite: {self.nonfinite}" if self.nonfinite else ""
            return f"{BugCode.UNKNOWN}: {BugCode.UNKNOWN.meaning}{more}"
        sentences = [" and ".join(bug.text for bug in bugs) for bugs in self.explained]
        return sentences[0] if len(sentences) == 1 else "either " + ", or ".join(sentences)

    @property
    def next_step(self) -> str | None:
        """Advice on what to do; None if all values are right."""
        if self.ok:
            return None
        if self.rounding:
            return (
                "compute with more bits and round once, or leave out --tol exact: the values pass "
                "the default tolerance"
            )
        if not self.explained:
            places = [_axis_text(*each) for each in self.where.items() if "all" not in each[1]]
            if places and 4 * self.differing <= self.compared:
                return f"check what writes {', '.join(places)}; the other values are right"
            return "compare the first differing row by hand, or run posenc identify on the table"
        steps = (dict.fromkeys(bug.remedy for bug in bugs) for bugs in self.explained)
        return "; or ".join(dict.fromkeys(", and ".join(filter(None, each)) for each in steps))

    @property
    def verdict(self) -> str:
        """The verdict in a sentence."""
        kind, own = str(self.subject["kind"]), str(self.subject["name"])
        name = own if kind == "function" or own in _ARGUMENTS else quoted_name(own)
        name = name if kind in ("file", own) else f"{kind} {name}"
        several = own == "values" or kind not in ("file", "function")
        if self.ok:
            exception = f"; not tested: {self.untested}" if self.untested else ""
            matches = f"{name} match{'' if several else 'es'} {self.title}"
            return f"ok: {matches} ({self.compared} values){exception}"
        name = f"{name}, called for {self.call}," if self.call else name
        failure = f"FAILED: {name} {'do' if several else 'does'} not match {self.title}"
        if self.misfit:
            return f"{failure}: {self.misfit}"
        worst = ""
        if self.worst is not None and np.isfinite(self.worst.found):
            worst = f", by up to {abs(self.worst.found - self.worst.expected):.3g}"
        return f"{failure}: {self.differing} of {self.compared} values differ{worst}"


def value_report(subject: ValueSubject, kind: str) -> ValueReport:
    """Return the report on a subject; ``kind`` is its name in the report."""
    began = time.perf_counter()
    e = subject.expected
    with np.errstate(all="ignore"):
        differing, worst, marked = _differences(e)
        wrong = bool(differing) or bool(subject.misfit)
        found_bugs = _explanations(subject, differing, marked) if wrong else []
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
        where=_places_by_axis(subject, marked) if differing else {},
        explained=tuple(found_bugs),
        notes=(*subject.notes, *_random_weights(e)),
        tolerance="given" if isinstance(e.rule, float) else f"{e.rule} ({e.dtype})",
        misfit=subject.misfit,
        call=subject.call,
        untested=subject.untested,
        nonfinite=count_nonfinite(e),
        rounding=wrong
        and not found_bugs
        and e.rule == "exact"
        and is_right(replace(subject, expected=replace(e, rule="auto"))),
        seconds=time.perf_counter() - began,
    )


def is_right(subject: ValueSubject) -> bool:
    """Return whether a subject has the reference's values and shape."""
    return not (subject.misfit or _differences(subject.expected)[0])


def _explanations(subject: ValueSubject, differing: int, marked: list[Flags]) -> list[Explained]:
    """Return why a subject differs; a mismatch of shapes counts as a bug."""
    e = subject.expected
    rows = np.flatnonzero(marked[1 if e.form == "scores" else 0])
    if subject.sequences > 1:  # right sequences hide the bugs of the others
        length = e.places.at.size // subject.sequences
        wrong = np.unique(rows // length)
        kept = (wrong[:, None] * length + np.arange(length)).ravel()
        e, rows = e.at_places(kept), np.flatnonzero(np.isin(kept, rows))
    wrong = rows[:: max(1, rows.size // _WRONG_ROWS)]
    further: list[Explained] = explanations(e, wrong) if differing else [()]
    if not subject.misfit:
        return further
    if subject.misfit == OVERWRITTEN:
        return [(NamedBug("unknown", OVERWRITTEN, "return a new array from each call", ""),)]
    shape = NamedBug(
        str(BugCode.SHAPE),
        f"{subject.misfit}; the values in both " + ("differ" if differing else "are right"),
        "compute the same number of values, or give the reference your size (such as --dim)",
        "",
    )
    return [(shape, *bugs) for bugs in further or [()]]


def _axis_text(axis: str, places: str) -> str:
    """Return an axis and its places that differ, in words."""
    one = places.split(" of ", maxsplit=1)[0].isdecimal() and ", from " not in places
    return f"{_SINGULAR.get(axis, axis.removesuffix('s')) if one else axis} {places}"


def _title(e: Expected, params: dict[str, Any]) -> str:
    """Return the reference in a few words: its scheme and its non-default parameters."""
    settings = [
        f"{name}={brief_text(value, separator=e.parameters[name].rules.separator)}"
        for name, value in params.items()
        if name in ("dim", "heads", "grid", "window_size") or value != e.parameters[name].default
    ]
    shown = [text for text in settings if not text.startswith(("seq_len=", "weights="))]
    title = f"{e.source.name} ({', '.join(shown)})" if shown else e.source.name
    return title if e.head is None else f"head {e.head} of {title}"


def _random_weights(e: Expected) -> list[str]:
    """Return a note if the learned table is randomly initialized."""
    if e.form in ("slopes", "buckets") or e.content.weights is None:
        return []
    text = e.content.weights.random_text()
    return [] if text is None else [f"the reference has {text} (--set weights=FILE reads a table)"]


def _differences(e: Expected) -> tuple[int, WorstValue | None, list[Flags]]:
    """Return how many values differ, the one that differs most, and flags of each axis."""
    blocks: list[list[Flags]] = []
    differing, largest, worst = 0, (False, -1.0), None
    for part in blocks_of(e):
        right = part.right()
        allowed = part.tolerated(right)
        found = np.asarray(part.found, np.float64)
        same = (found == right) | (np.isnan(found) & np.isnan(right)) | part.absent
        errors = np.abs(np.where(same, 0, found - right))
        errors[np.isnan(errors)] = np.inf
        wrong = errors > allowed
        differing += int(wrong.sum())
        blocks.append(_flags_by_axis(wrong))
        farthest = int(np.argmax(np.where(wrong, errors, -1.0) if wrong.any() else errors))
        index = np.unravel_index(farthest, errors.shape)
        size = bool(wrong[index]), float(errors[index])
        if size > largest:
            largest = size
            worst = WorstValue(
                at=_place(part, index),
                expected=float(right[index]),
                found=float(found[index]),
                allowed=float(np.broadcast_to(allowed, right.shape)[index]),
            )
    divided = 1 if e.form == "scores" else 0
    marked = [
        np.concatenate(flags) if axis == divided else np.any(flags, axis=0)
        for axis, flags in enumerate(zip(*blocks, strict=True))
    ]
    return differing, worst, marked


def _flags_by_axis(flags: Flags) -> list[Flags]:
    """Return which rows, columns … have a flag, for each axis."""
    return [
        np.asarray(flags.any(axis=tuple({*range(flags.ndim)} - {axis})))
        for axis in range(flags.ndim)
    ]


def _places_by_axis(subject: ValueSubject, marked: list[Flags]) -> dict[str, str]:
    """Return the rows, columns … with values that differ, in words."""
    e, places = subject.expected, {}
    if subject.sequences > 1:
        of_sequences = marked[0].reshape(subject.sequences, -1)
        places["sequences"] = _ranges_text(np.asarray(of_sequences.any(axis=1)))
        marked = [np.asarray(of_sequences.any(axis=0)), *marked[1:]]
    places |= {name: _ranges_text(flags) for name, flags in zip(_AXES[e.form], marked, strict=True)}
    return places if e.head is None else {**places, "heads": str(e.head)}


def _place(e: Expected, index: tuple[Any, ...]) -> dict[str, int | float]:
    """Return the place of a value, by names of its axes."""
    at, keys = e.places.at, e.places.keys
    if e.form == "rows":
        position = at[index[0]] / e.parts if e.parts > 1 else int(at[index[0]])
        name = "offset" if e.is_offset else "position"
        return {name: position, "column": int(index[1])}
    if e.form == "slopes":
        return {"head": int(at[index[0]])}
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


def _ranges_text(flags: Flags) -> str:
    """Return rows, columns or heads that differ, in a few words."""
    if flags.all():
        return f"all {flags.size}"
    texts = range_texts(np.flatnonzero(flags).tolist())
    if len(texts) <= _MOST_RANGES:
        return ", ".join(texts) + f" of {flags.size}"
    return f"{int(flags.sum())} of {flags.size}, from {texts[0]} on"
