"""Test which attention patterns an encoding can express, and up to what length."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from posenc_cli.analysis.head_patterns.head_targets import target_of
from posenc_cli.analysis.head_patterns.heads import USUAL_L2, HeadResult, HeadsRequest
from posenc_cli.api.arguments import (
    ArgumentError,
    argument_text,
    checked_choice,
    checked_count,
    checked_number,
    choice_of,
    in_arguments,
)
from posenc_cli.api.notebooks import NotebookReport
from posenc_cli.formulas.context_extension.stretches import NONE, ROPE_STRETCH_NAMES
from posenc_cli.records import Record
from posenc_cli.render.reports.heads import heads_fields, heads_text
from posenc_cli.render.typesetting import Typesetter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.api.arguments import EncodingLike


class HeadsReport(NotebookReport, Record):
    """The head patterns of an encoding, one result per context extension.

    ``str()`` is the command's table. A result has its ``lengths``, each with ``mass`` and
    ``right``, and its ``head`` with the learned values.
    """

    results: tuple[HeadResult, ...]

    def as_json(self) -> dict[str, Any]:
        """The output of ``posenc heads --json``, as a dict of plain values."""
        return {"schema": "posenc/heads/1", **heads_fields(self.results, ())}

    @property
    def in_short(self) -> str:
        """The number of results."""
        return f"{len(self.results)} result{'s' * (len(self.results) != 1)}"

    def __str__(self) -> str:
        return heads_text(self.results, (), Typesetter(spelled=argument_text))


@in_arguments
def heads(
    encoding: EncodingLike,
    target: str | os.PathLike[str] = "previous",
    *,
    train: int = 100,
    test: Sequence[int] | None = None,
    stretch: str | Sequence[str] = NONE,
    l2: float = USUAL_L2,
    head: int | None = None,
    **parameters: object,
) -> HeadsReport:
    """Fit one attention head that sees only positions to a target pattern.

    The head is fitted on positions below ``train`` and then tested at longer lengths. The problem
    is convex with one optimum, so there is no seed.

    Args:
        encoding: as for `encode`.
        target: ``previous``, ``back:K``, ``first``, ``same:K``, ``window:W``, or the path of a file
            of 0 and 1, queries by keys.
        train, test: the number of positions to fit on, and the longer lengths to test; by default
            2, 4 and 8 times as many.
        stretch: the context extension of RoPE, at test time only: ``none``, ``linear``, ``ntk``,
            ``dynamic``, ``yarn``, ``llama3``, or several of them.
        l2: the weight of the penalty on the learned values.
        head: one head of a bias.
        parameters: of the encoding: ``dim=32``, ``base=5e5``.

    Raises: ValueError if an argument is wrong.

    >>> report = heads("rope", dim=32, stretch=("none", "linear"))
    >>> [[length.right for length in result.lengths] for result in report.results]
    [[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]]
    """
    names = [stretch] if isinstance(stretch, str) else list(stretch)
    stretches = tuple(checked_choice("stretch", name, ROPE_STRETCH_NAMES) for name in names)
    trained = checked_count("train", train, 2)
    asked = () if test is None else test if hasattr(test, "__iter__") else (test,)
    lengths = {checked_count("test", length) for length in asked}
    if not checked_number("l2", l2) > 0:
        raise ArgumentError(f"l2 {l2:g}: must be above 0")
    choice = choice_of(encoding, None, parameters)
    if choice.parts:
        raise ArgumentError(f"encoding {choice.name}: is several, and this takes one")
    request = HeadsRequest(
        (target_of(os.fspath(target)),),
        trained,
        tuple(sorted({2 * trained, 4 * trained, 8 * trained} if test is None else lengths)),
        tuple(dict.fromkeys(stretches)) or (NONE,),
        float(l2),
        head,
    )
    return HeadsReport(tuple(request.results([choice])))
