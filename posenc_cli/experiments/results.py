"""What an experiment found: plain values, which a run folder keeps and reports are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

DIGITS = 6
"""Decimals of a loss that are kept."""


class LengthLosses(Record):
    """How a trained model does at a length: losses in nats a token, over what a task scores.

    ``loss`` is the mean over sequences that do not overlap, ``last`` that over their last places,
    which of a text are windows that slide by as many. ``by_position`` has the mean at each place of
    the task's axis. ``accuracy`` is the share of right answers, of a task that has some: of
    sequences that are right as a whole, or of symbols at the last places. ``untrained`` names what
    of a learned table is met there and never was in training.
    """

    length: int
    loss: float
    last: float
    by_position: tuple[float, ...]
    accuracy: float | None = None
    untrained: str | None = None


class RunResult(Record):
    """How the model of one seed does at each length, under a stretch.

    ``learnt`` is whether it crossed what its task asks of a model that is to be judged: ``reason``
    says its value and what it was held to. ``induction`` is by how many nats it foretells a piece
    of text better where it stands a second time.
    """

    encoding: str
    scheme: str
    stretch: str
    task: str
    seed: int
    learnt: bool
    reason: str
    induction: float | None
    lengths: tuple[LengthLosses, ...]

    def at(self, length: int) -> LengthLosses:
        """The result at a length that was asked for."""
        return next(result for result in self.lengths if result.length == length)


class JobResult(Record):
    """What a job found: its runs, the training losses of its seeds, and what it ran with.

    ``training`` has a row for every tenth step: the step, then each seed's loss.
    """

    key: str
    trained: int
    runs: tuple[RunResult, ...]
    training: tuple[tuple[float, ...], ...]
    environment: Mapping[str, str]

    def fields(self) -> dict[str, Any]:
        """The result as JSON has it."""
        runs = [
            run.as_dict() | {"lengths": [result.as_dict() for result in run.lengths]}
            for run in self.runs
        ]
        return self.as_dict() | {"runs": runs}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> JobResult:
        """The result that `fields` gave.

        Raises: KeyError, TypeError, ValueError where that is no result.
        """
        runs = tuple(
            RunResult(
                **{
                    **run,
                    "lengths": tuple(
                        LengthLosses(**{**item, "by_position": tuple(item["by_position"])})
                        for item in run["lengths"]
                    ),
                }
            )
            for run in fields["runs"]
        )
        training = tuple(tuple(row) for row in fields["training"])
        result = cls(**{**fields, "runs": runs, "training": training})
        _check_types(result)
        return result


def _check_types(result: JobResult) -> None:
    """Check the types of what a result holds, of which a file may have any.

    Raises: TypeError.
    """
    lengths = [item for run in result.runs for item in run.lengths]
    texts = [result.key, *result.environment.values()]
    texts += [text for run in result.runs for text in (run.encoding, run.scheme, run.stretch)]
    texts += [text for run in result.runs for text in (run.task, run.reason)]
    texts += [item.untrained for item in lengths if item.untrained is not None]
    numbers = [number for row in result.training for number in row]
    numbers += [number for item in lengths for number in (item.loss, item.last, *item.by_position)]
    numbers += [item.accuracy for item in lengths if item.accuracy is not None]
    numbers += [run.induction for run in result.runs if run.induction is not None]
    whole = [result.trained, *(run.seed for run in result.runs), *(item.length for item in lengths)]
    if not (
        all(isinstance(text, str) for text in texts)
        and all(type(number) in (int, float) for number in numbers)
        and all(type(number) is int for number in whole)
        and all(type(run.learnt) is bool for run in result.runs)
    ):
        raise TypeError
