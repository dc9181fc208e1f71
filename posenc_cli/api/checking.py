"""The checks of the library: ``check``, ``rope_check`` and ``compare``."""

from __future__ import annotations

import functools
import json
import os
from typing import TYPE_CHECKING, Any

from posenc_cli.api.arguments import (
    ArgumentError,
    EncodingLike,
    PositionsLike,
    argument_text,
    check_unused,
    checked_choice,
    checked_number,
    choice_at,
    choice_of,
    given_positions,
    in_arguments,
    model_encoding,
    number_format,
)
from posenc_cli.api.arrays import is_array, loaded_array
from posenc_cli.api.notebooks import NotebookReport
from posenc_cli.calls.roles import CALL_AXES, CALL_ROLES
from posenc_cli.calls.signature import CallRequest
from posenc_cli.catalogue import adopting
from posenc_cli.checks.any_encoding import ValueCheck
from posenc_cli.checks.checking import Check, CheckRequest, SubjectError
from posenc_cli.checks.values import ValueReport
from posenc_cli.comparison.compare import ArrayComparison, RotationComparison, Side, comparison
from posenc_cli.files.reading import read_array
from posenc_cli.formulas.buckets import RULES as BUCKET_RULES
from posenc_cli.identification.search import Identification, identify_files
from posenc_cli.inference.tolerance import RULES, ToleranceRule
from posenc_cli.render.reports.comparison import comparison_fields, comparison_text
from posenc_cli.render.reports.report import fields, report_text
from posenc_cli.render.reports.value_report import value_fields, value_text
from posenc_cli.render.typesetting import Typesetter
from posenc_cli.rotary.verdict import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from posenc_cli.inference.codes import Cause


_SUBJECTS = ("tables", "inv_freq", "rotated", "impl")


class RopeReport(NotebookReport, Report):
    """The result of `rope_check`: ``str()`` is the command's output, but names arguments.

    ``ok`` says whether all ``findings`` hold. ``diagnosis`` lists the causes of a failure, the
    likeliest first.
    """

    @property
    def cause(self) -> Cause | None:
        """The likeliest cause, or None if nothing is wrong."""
        return self.diagnosis[0].cause if self.diagnosis else None

    def as_json(self) -> dict[str, Any]:
        """Return the output of ``posenc rope-check --format json``, as a dict of plain values."""
        return {"schema": "posenc/rope-check/1", **fields(self)}

    def __str__(self) -> str:
        return report_text(self, Typesetter(spelled=argument_text))


class _ComparisonReport(NotebookReport):
    """The result of a comparison: ``str()`` is what the command prints."""

    @property
    def in_short(self: Any) -> str:
        """Whether the two are equal within the tolerance."""
        return "ok" if self.ok else "DIFFERENT"

    def as_json(self: Any) -> dict[str, Any]:
        """Return the output of ``posenc compare --json``, as a dict of plain values."""
        return {"schema": "posenc/compare/1", **comparison_fields(self)}

    def __str__(self: Any) -> str:
        return comparison_text(self, Typesetter(spelled=argument_text))


class ArrayReport(_ComparisonReport, ArrayComparison):
    """The differences between two arrays: ``str()`` is what the command prints."""


class RotationReport(_ComparisonReport, RotationComparison):
    """The differences between two rotary encodings: ``str()`` is what the command prints."""


def _refuse_nothing(subjects: Mapping[str, object]) -> None:
    """Refuse a check without values: all arguments that could hold them are None.

    Raises: ArgumentError.
    """
    if all(value is None for value in subjects.values()):
        *others, last = subjects
        raise ArgumentError(
            f"{', '.join(others)} or {last}: give the values to check", code="parameter"
        )


def _refusing_none(function: Callable[..., RopeReport]) -> Callable[..., RopeReport]:
    """Make ``function`` refuse subjects that are all None: posenc's own tables would pass."""

    @functools.wraps(function)
    def call(reference: EncodingLike, **named: Any) -> RopeReport:
        if not named.keys().isdisjoint(_SUBJECTS):
            _refuse_nothing({name: named.get(name) for name in _SUBJECTS})
        return function(reference, **named)

    return call


@in_arguments
@_refusing_none
def rope_check(
    reference: EncodingLike,
    *,
    tables: tuple[object, object] | None = None,
    inv_freq: object = None,
    rotated: tuple[object, object] | None = None,
    impl: Callable[..., Any] | str | None = None,
    positions: PositionsLike | None = None,
    tol: ToleranceRule = "auto",
    call: tuple[str, ...] = (),
    python: str | os.PathLike[str] | None = None,
    in_place: bool = False,
    axes: str | None = None,
    **parameters: object,
) -> RopeReport:
    """Check an implementation of RoPE: for all q and k, and against a reference.

    One subject is checked. Without any of these arguments, posenc checks its own tables. Arrays may
    be of any framework, or paths of files.

    Args:
        reference: the correct encoding, as for `encode`.
        tables: cosines and sines, (L, d/2) or (L, d) each.
        inv_freq: inverse frequencies, (d/2,).
        rotated: vectors before and after rotation, (L, d) each.
        impl: a function, called in this process, or a class, made with the reference's parameters.
            One as ``module:function`` or ``./file.py:function`` runs in a process of its own, with
            ``python`` if given. It is called a dozen times or more; changes that the calls make to
            your objects remain.
        call: the roles of its arguments, as ``("q", "k", "cos", "sin")``, if neither names nor
            shapes tell.
        in_place: whether it writes its result into its arguments.
        axes: the order of the axes of its vectors, as ``"bhnd"`` or ``"bnhd"``; by default the
            order that works.
        positions: of the rows, or those to look at; as for `encode`.
        tol: ``auto``, ``float32``, ``float64``, ``exact``, ``float16``, ``bfloat16``, or a maximum
            absolute error.
        parameters: of the reference: ``dim=128``, ``base=5e5``, ``layout="half"``.

    Raises: ValueError if an argument is wrong, or the subject cannot be read or called.

    >>> from posenc_cli.api.encoding import tables
    >>> report = rope_check("rope", tables=tables("rope", 64, dim=8, base=1e6), dim=8)
    >>> report.ok, str(report.cause)
    (False, 'base')
    """
    for role in call:
        checked_choice("call", role, CALL_ROLES)
    if axes is not None:
        checked_choice("axes", axes, CALL_AXES)
    rule = _tolerance(tol)
    choice = choice_at(reference, positions, parameters)
    request = CheckRequest(
        tables=pair_of_arrays(tables, "tables", ("cos", "sin")),
        inv_freq=given_array(inv_freq, "array"),
        rotated=pair_of_arrays(rotated, "rotated", ("x", "y")),
        impl=impl,
        calling=CallRequest(
            _path(python), call, in_place, axes, _plain_config(choice.config), choice.layer_type
        ),
    )
    check = Check(
        asked=request,
        encoding=choice.encoding,
        engine=lambda request: choice.engine(request.plan()),
        positions=choice.positions,
        rule=rule,
        context=choice.context[0] if choice.context else 0,
    )
    try:
        return RopeReport(**check.report().as_dict())
    except SubjectError as failure:
        raise failure.error from None


def assert_rope(reference: EncodingLike, **subject: Any) -> RopeReport:
    """Assert in a test that an implementation of RoPE is right, and return the report.

    Raises: AssertionError with the cause, then the report, if it is wrong; ValueError as
        `rope_check`, and if there is no subject to check.
    """
    __tracebackhide__ = True
    _refuse_nothing({name: subject.get(name) for name in _SUBJECTS})
    report = rope_check(reference, **subject)
    if not report.ok:
        causes = [f"cause: {argument_text(why.text)}" for why in report.diagnosis]
        raise AssertionError("\n".join([*causes, "", str(report)]))
    return report


def pair_of_arrays(given: Any, name: str, names: tuple[str, str]) -> tuple[Any, Any] | None:
    """Return two arrays that belong together, or None if none are given.

    Raises: ArgumentError if there are not two.
    """
    if given is None:
        return None
    pair = given if isinstance(given, tuple | list) else ()
    if len(pair) != 2 or any(part is None for part in pair):
        raise ArgumentError(f"{name}: must be two arrays, ({', '.join(names)})")
    return given_array(given[0], names[0]), given_array(given[1], names[1])


def given_array(value: object, name: str) -> Any:
    """Return the path of a file, or the array as loaded, or None if none is given."""
    if value is None or isinstance(value, str | os.PathLike):
        return _path(value)
    return loaded_array(value, name)


def _path(value: str | os.PathLike[str] | None) -> str | None:
    return None if value is None else os.fspath(value)


def _plain_config(config: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a config as a file would hold it: dtypes and other Python values become text."""
    if config is None:
        return None
    plain: dict[str, Any] = json.loads(
        json.dumps(config, default=lambda value: str(value).removeprefix("torch."))
    )
    return plain


class IdentificationReport(NotebookReport, Identification):
    """The result of `identify`: ``str()`` is its ``summary``."""

    @property
    def in_short(self) -> str:
        """The summary."""
        return self.summary

    def __str__(self) -> str:
        return self.summary


@in_arguments
def identify(*arrays: object, schemes: Sequence[str] = ()) -> IdentificationReport:
    """Identify an array, or a table of cosines and one of sines: arrays, tensors or paths.

    ``schemes`` are schemes of your own to try too, as ``./file.py:name`` or
    ``package.module:name``. ``match`` of the result fits every entry; it is None if nothing does.
    ``nearest`` fits all but some rows. ``summary`` is one line.

    Raises: ValueError if there are no arrays or more than two, or if they hold no numbers.

    >>> from posenc_cli.api.encoding import encode
    >>> match = identify(encode("sinusoidal", 64, dim=16)).match
    >>> match.scheme, match.params["dim"], match.exact
    ('sinusoidal', 16, True)
    """
    if not 1 <= len(arrays) <= 2:
        raise ArgumentError(f"{len(arrays)} arrays: give one table, or cos and sin")
    names = ("array",) if len(arrays) == 1 else ("cos", "sin")
    loaded = [
        read_array(value) if isinstance(value, str | os.PathLike) else loaded_array(value, name)
        for value, name in zip(arrays, names, strict=True)
    ]
    if len({array.values.shape for array in loaded}) > 1:
        raise ArgumentError("cos and sin: must have one shape")
    with adopting(schemes):
        return IdentificationReport(**identify_files(loaded).as_dict())


@in_arguments
def compare(
    a: object,
    b: object,
    positions: PositionsLike | None = None,
    *,
    tol: float = 0.0,
    table: str | None = None,
    head: int | None = None,
    dtype: object = None,
    **parameters: object,
) -> ArrayReport | RotationReport:
    """Compare two arrays or encodings; ``ok`` says whether they differ by at most ``tol``.

    Two rotary encodings without positions are compared pair by pair, at every length that matters.
    NaN equals NaN. ``parameters`` apply to both encodings; to set those of one, pass what
    `from_config` returns.

    Raises: ValueError if the two cannot be compared.

    >>> compare("llama-2-7b", "llama-3-8b").ok
    False
    """
    if is_array(a) and is_array(b):
        check_unused(**parameters)
    sides = [_side(value, name, parameters) for value, name in ((a, "a"), (b, "b"))]
    result = comparison(
        sides,
        given_positions(positions),
        table=table,
        head=head,
        dtype=None if dtype is None else number_format(dtype),
        tolerance=checked_number("tol", tol),
    )
    if isinstance(result, ArrayComparison):
        return ArrayReport(**result.as_dict())
    return RotationReport(**result.as_dict())


def _side(value: object, name: str, parameters: Mapping[str, Any]) -> Side:
    """Return one side of a comparison: an array, or else an encoding.

    Raises: InvalidInput if it is neither.
    """
    if is_array(value):
        return Side(name, loaded=loaded_array(value, name))
    choice = choice_of(value, None, parameters)
    if choice.parts:
        raise ArgumentError(f"{name}: {choice.name!r} is several encodings; compare one")
    sources: dict[str, str] = {}
    softmax = None
    if "config" in choice.origin:
        encoding = model_encoding(value)
        read, softmax = encoding.parameters, encoding.derived.get("softmax_multiplier")
        sources = {key: parameter.source for key, parameter in read.items()}
        sources |= dict.fromkeys(parameters, "argument")
    return Side(
        value if isinstance(value, str) else name,
        scheme=choice.scheme,
        given=choice.given,
        sources=sources,
        warnings=choice.warnings,
        softmax=softmax,
    )


class CheckReport(NotebookReport, ValueReport):
    """The result of `check`: ``str()`` is the command's output, but names arguments.

    ``ok`` says whether every value is right. If not, ``cause`` is the code of the likeliest known
    bug, ``cause_text`` describes it, and ``next_step`` says what to do. ``worst`` is the largest
    error and ``where`` its place.
    """

    def as_json(self) -> dict[str, Any]:
        """Return the output of ``posenc check --format json``, as a dict of plain values."""
        return {"schema": "posenc/check/1", **value_fields(self)}

    def __str__(self) -> str:
        return value_text(self, Typesetter(spelled=argument_text))


@in_arguments
def check(
    reference: EncodingLike,
    values: object = None,
    *,
    vectors: tuple[object, object] | None = None,
    frequencies: object = None,
    slopes: object = None,
    buckets: object = None,
    impl: Callable[..., Any] | str | None = None,
    positions: PositionsLike | None = None,
    tol: ToleranceRule = "auto",
    head: int | None = None,
    causal: bool = False,
    python: str | os.PathLike[str] | None = None,
    **parameters: object,
) -> CheckReport | RopeReport:
    """Check an encoding that other code computed, and name the known bug if it has one.

    One subject is checked. Arrays may be of any framework, or paths of files. For a rotary
    encoding, the result is that of `rope_check` for ``frequencies``, ``vectors`` or ``impl``.

    Args:
        reference: the correct encoding, as for `encode`; "deberta" for DeBERTa's buckets.
        values: rows (n, d), or (rows, columns, d) for a grid, or scores (heads, queries, keys).
        vectors: x, and x with the rows added, (n, d) each.
        frequencies: of waves, in radians per position, (waves,).
        slopes: of ALiBi, (heads,).
        buckets: the row of a learned table that each relative position reads, (n,), or that each
            pair of a query and a key reads, (queries, keys).
        impl: a function that returns one of these; its arguments are passed by their names. One as
            ``module:function`` or ``./file.py:function`` runs in a process of its own, with
            ``python`` if given.
        positions: of the rows, or of queries and keys, or relative ones for buckets; as for
            `encode`.
        tol: ``auto``, ``float32``, ``float64``, ``exact``, ``float16``, ``bfloat16``, or a maximum
            absolute error.
        head: the head that scores (queries, keys) belong to.
        causal: do not compare scores of keys after the query.
        parameters: of the reference: ``dim=128``, ``base=5e5``, ``grid=(14, 14)``.

    Raises: ValueError if an argument is wrong, or the subject cannot be read or called.

    >>> import numpy as np
    >>> report = check("sinusoidal", np.zeros((4, 8)), dim=8)
    >>> report.ok, report.cause
    (False, 'uninitialised')
    """
    rule = _tolerance(tol)
    at = given_positions(positions)
    subject: dict[str, Any] = {
        "file": given_array(values, "values"),
        "vectors": pair_of_arrays(vectors, "vectors", ("x", "y")),
        "inv_freq": given_array(frequencies, "frequencies"),
        "slopes": given_array(slopes, "slopes"),
        "buckets": given_array(buckets, "buckets"),
        "impl": impl,
    }
    arrays = {"frequencies": frequencies, "slopes": slopes, "buckets": buckets}
    _refuse_nothing({"values": values, "vectors": vectors, **arrays, "impl": impl})
    subject |= {"head": head, "causal": causal, "calling": CallRequest(_path(python))}
    if reference == "deberta":
        made = ValueCheck(BUCKET_RULES["deberta"], parameters, at, rule, **subject)
    else:
        choice = choice_of(reference, at, parameters)
        if choice.scheme.kind == "rotary":
            unfit = {"values": values, "slopes": slopes, "buckets": buckets, "head": head}
            for name, value in {**unfit, "causal": causal or None}.items():
                if value is not None:
                    raise ArgumentError(
                        f"{name}: a rotary encoding has none; rope_check takes tables"
                    )
            shared = {"inv_freq": frequencies, "rotated": vectors, "impl": impl, "python": python}
            given: dict[str, Any] = {**shared, "positions": positions, "tol": tol, **parameters}
            return rope_check(reference, **given)
        made = ValueCheck(choice.scheme, choice.given, at, rule, **subject)
    try:
        return CheckReport(**made.report().as_dict())
    except SubjectError as failure:
        raise failure.error from None


def _tolerance(tol: object) -> ToleranceRule:
    """Return a tolerance: the name of a rule, or a number.

    Raises: ArgumentError.
    """
    if isinstance(tol, str):
        return checked_choice("tol", tol, RULES)  # type: ignore[no-any-return]
    return checked_number("tol", tol)
