"""Whether a model has learnt what it was trained on: only then is it judged at longer lengths.

Models that were stopped too soon all look as if they held: what fails past the trained length is
what they had not learnt yet. So each task says what must be reached at the trained length.

Of a text that is a loss: what counts of short contexts reach on the same characters. The induction
score is told beside it and nothing is asked of it: no model of the usual size learns from some
thousand steps of prose to copy from afar, whatever its encoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.experiments.ngrams import ngram_losses
from posenc_cli.experiments.tasks import SEQUENCES, Text
from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.experiments.results import LengthLosses
    from posenc_cli.experiments.tasks import Task

CONTEXT = 2
"""Characters that the counts see which a language model must do better than."""
LEAST_ACCURACY = 0.9
"""Share of answers that must be right at the trained length."""


class LearningRule(Record):
    """What a model must reach at the trained length: a loss over the last places, or a share."""

    loss: float | None = None
    accuracy: float | None = None

    @classmethod
    def of(cls, task: Task, last: int) -> LearningRule:
        """What a task asks for, where so many last places are averaged."""
        if isinstance(task, Text):
            told = min(SEQUENCES * last, len(task.corpus.held_out) - 1)
            return cls(loss=ngram_losses(task.corpus, longest=CONTEXT, last=told)[CONTEXT])
        return cls(accuracy=LEAST_ACCURACY)

    def verdict(self, result: LengthLosses) -> tuple[bool, str]:
        """Whether it was reached at the trained length, and the value with what it was held to."""
        if self.loss is not None:
            ok, place = result.last <= self.loss, f"{result.last:.3f} nats at {result.length}"
            rule = f"at most {self.loss:.3f}, as counts after {CONTEXT} characters reach"
        else:
            assert self.accuracy is not None
            share = result.accuracy or 0.0
            ok, place = share >= self.accuracy, f"{share:.2f} of answers right at {result.length}"
            rule = f"at least {self.accuracy:.2f}"
        return ok, f"{place}; needs {rule}"
