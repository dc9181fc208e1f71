"""The check of any encoding that others computed, as a function: what ``posenc check`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.api.arguments import (
    ArgumentError,
    GivenPositions,
    argument_text,
    checked_choice,
    checked_number,
    choice_of,
    in_arguments,
)
from posenc_cli.api.checking import given_array, pair_of_arrays, rope_check
from posenc_cli.calls.signature import CallRequest
from posenc_cli.checks.any_encoding import ValueCheck
from posenc_cli.checks.checking import SubjectError
from posenc_cli.checks.values import ValueReport
from posenc_cli.formulas.buckets import RULES as BUCKET_RULES
from posenc_cli.inference.tolerance import RULES
from posenc_cli.render.reports.value_report import value_fields, value_text
from posenc_cli.render.typesetting import Typesetter

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.api.arguments import EncodingLike, PositionsLike
    from posenc_cli.api.checking import RopeReport
    from posenc_cli.inference.tolerance import ToleranceRule


class CheckReport(ValueReport):
    """What `check` found: ``str()`` is what the command prints, in words of arguments.

    ``ok`` says whether every value is right. Where not, ``cause`` is the code of the likeliest
    known bug, ``cause_text`` says it in words, ``next_step`` what to do, and ``worst`` and
    ``where`` tell the place.
    """

    def as_json(self) -> dict[str, Any]:
        """What ``posenc check --format json`` prints, as a dict of plain values."""
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
    python: str | None = None,
    **parameters: object,
) -> CheckReport | RopeReport:
    """Whether an encoding that others computed is right, and if not, which known bug it has.

    One subject is checked. Arrays may be of any framework, or paths of files. Of a rotary encoding
    it is what `rope_check` says of ``frequencies``, ``vectors`` or ``impl``.

    Args:
        reference: the encoding that is right, as for `encode`; "deberta" for DeBERTa's buckets.
        values: rows (n, d), of a grid also (rows, columns, d), or scores (heads, queries, keys).
        vectors: x and x with rows added, (n, d) each.
        frequencies: of waves, in radians per position, (waves,).
        slopes: of ALiBi, (heads,).
        buckets: the row of a learned table that each relative position reads, (n,), or each pair
            of a query and a key, (queries, keys).
        impl: a function that gives one of these, called by the names of its parameters; one as
            ``module:function`` or ``./file.py:function`` runs in a process of its own, by
            ``python``.
        positions: of the rows, of queries and keys, or relative ones of buckets; as for `encode`.
        tol: ``auto``, ``float32``, ``float64``, ``exact``, ``float16``, ``bfloat16``, or a largest
            deviation.
        head: which head scores (queries, keys) are of.
        causal: compare no scores of keys after the query.
        parameters: of the reference: ``dim=128``, ``base=5e5``, ``grid=(14, 14)``.

    Raises: ValueError where an argument is wrong, or the subject cannot be read or called.

    >>> import numpy as np
    >>> report = check("sinusoidal", np.zeros((4, 8)), dim=8)
    >>> report.ok, report.cause
    (False, 'uninitialised')
    """
    rule = checked_choice("tol", tol, RULES) if isinstance(tol, str) else checked_number("tol", tol)
    where = None if positions is None else GivenPositions.of(positions)
    at = where.positions if where else None
    subject: dict[str, Any] = {
        "file": given_array(values, "values"),
        "vectors": pair_of_arrays(vectors, "vectors", ("x", "y")),
        "inv_freq": given_array(frequencies, "frequencies"),
        "slopes": given_array(slopes, "slopes"),
        "buckets": given_array(buckets, "buckets"),
        "impl": impl,
    }
    subject |= {"head": head, "causal": causal, "calling": CallRequest(python)}
    if reference == "deberta":
        made = ValueCheck(BUCKET_RULES["deberta"], parameters, at, rule, **subject)
    else:
        choice = choice_of(reference, at, parameters)
        if choice.scheme.kind == "rotary":
            shared = {"inv_freq": frequencies, "rotated": vectors, "impl": impl, "python": python}
            given = {**shared, "positions": positions, "tol": tol, **parameters}
            others = {"values": values, "slopes": slopes, "buckets": buckets}
            return _of_rotation(reference, given, others)
        made = ValueCheck(choice.scheme, choice.given, at, rule, **subject)
    try:
        return CheckReport(**made.report().as_dict())
    except SubjectError as failure:
        raise failure.error from None


def _of_rotation(
    reference: EncodingLike, given: dict[str, Any], others: dict[str, Any]
) -> RopeReport:
    """What `rope_check` says of a subject that both take."""
    for name, value in others.items():
        if value is not None:
            raise ArgumentError(f"{name}: a rotary encoding has none; rope_check takes tables")
    return rope_check(reference, **given)
