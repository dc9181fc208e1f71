"""Run one job: train its models with AdamW, all seeds at once, then test them at each length.

A step's random draws depend only on the seed and the step. So models of different encodings see the
same data.

Models that stop training too soon all seem to hold at longer lengths, because they have not yet
learned the skills that fail there. So each task sets a threshold at the trained length. For a text
it is the loss of n-gram counts with short contexts on the same characters. The induction score is
reported without a threshold: after some thousand steps of prose, no model of the usual size learns
to copy from far back, whatever its encoding.

Imports torch: import it only where something is trained.
"""

from __future__ import annotations

import contextlib
import math
import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional
from torch.optim.adamw import adamw

from posenc_cli.experiments.corpus import ngram_losses
from posenc_cli.experiments.request import DIGITS, Job, JobResult, LengthLosses, RunResult
from posenc_cli.experiments.setting import JobSetting
from posenc_cli.experiments.tasks import SEQUENCES, Answers, Task, TestSet, Text, TokenBatch
from posenc_cli.experiments.transformer import LengthModel, Transformer
from posenc_cli.formulas.context_extension.stretches import NONE
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

    from posenc_cli.numerics.arrays import Integers, RealRows, Reals


CONTEXT = 2
"""Characters of context of the n-gram counts that a language model must beat."""
LEAST_ACCURACY = 0.9
"""The share of answers that must be right at the trained length."""
_SCORES = 1 << 21
"""Largest number of scores to hold at once."""
WARM_UP = 50
"""Warm-up steps of the learning rate."""
LEAST_RATE = 0.1
"""Learning rate at the last step, reached by cosine decay, as a share of the largest one."""
BETAS, DECAY, EPSILON = (0.9, 0.99), 0.01, 1e-8
MOMENTS = ("exp_avg", "exp_avg_sq")
LARGEST_NORM = 1.0
"""Largest norm of a seed's gradient."""
STEPS_A_RECORD = 10
"""Steps from one record of the losses to the next."""

_DATA, _POSITIONS = 0, 1
"""Separate random streams of a step."""


class BatchLosses:
    """The losses of the models of some seeds on a batch.

    ``losses`` and ``right`` (seeds, sequences, columns): the loss of each target in nats, and
    whether the model ranks it first.
    """

    def __init__(
        self, model: LengthModel, parameters: Mapping[str, Tensor], batch: TokenBatch
    ) -> None:
        seeds = len(parameters["tokens"])
        device = parameters["tokens"].device
        sequences, columns = batch.inputs.shape
        size = max(1, _SCORES // (seeds * model.heads * columns * min(columns, 128)))
        losses, right = [], []
        with torch.no_grad():
            for start in range(0, sequences, size):
                part = slice(start, start + size)
                inputs = torch.from_numpy(np.ascontiguousarray(batch.inputs[part])).to(device)
                targets = torch.from_numpy(np.ascontiguousarray(batch.targets[part])).to(device)
                logits = model.logits(parameters, inputs.expand(seeds, -1, -1))
                wanted = targets.expand(seeds, -1, -1)
                each = functional.cross_entropy(
                    logits.flatten(0, 2), wanted.flatten(), reduction="none"
                )
                losses.append(each.view(wanted.shape).double().cpu().numpy())
                right.append((logits.argmax(-1) == wanted).cpu().numpy())
        self.losses = np.concatenate(losses, axis=1)
        self.right = np.concatenate(right, axis=1)

    def mean(self, batch: TokenBatch) -> Reals:
        """Return the mean loss over the scored targets of a batch. Shape: (seeds,)."""
        return np.asarray(self.losses[:, batch.scored].mean(axis=1))

    def by_point(self, batch: TokenBatch) -> RealRows:
        """Return the mean loss at each point of the axis; none is empty. Shape: (seeds, extent)."""
        points = batch.axis[batch.scored]
        counts = np.bincount(points, minlength=batch.extent)
        sums = [np.bincount(points, seed[batch.scored], batch.extent) for seed in self.losses]
        return np.asarray(sums) / counts

    def right_sequences(self, batch: TokenBatch) -> Reals:
        """Return the share of sequences whose targets all rank first. Shape: (seeds,)."""
        return np.asarray((self.right | ~batch.scored).all(axis=2).mean(axis=1))

    def right_symbols(self, batch: TokenBatch) -> Reals:
        """Return the share of targets that rank first. Shape: (seeds,)."""
        return np.asarray(self.right[:, batch.scored].mean(axis=1))


def length_results(
    model: LengthModel,
    parameters: Mapping[str, Tensor],
    tests: TestSet,
    *,
    length: int,
    answers: Answers | None,
    untrained: str | None,
) -> Sequence[LengthLosses]:
    """Return the result of each seed at a length."""
    curve = BatchLosses(model, parameters, tests.curve)
    whole = curve if tests.whole is tests.curve else BatchLosses(model, parameters, tests.whole)
    losses, lasts = whole.mean(tests.whole), curve.mean(tests.last)
    points = curve.by_point(tests.curve)
    accuracy = None
    if answers is not None:
        symbols = answers == "symbols"
        accuracy = (
            curve.right_symbols(tests.last) if symbols else whole.right_sequences(tests.whole)
        )
    return [
        LengthLosses(
            length,
            round(float(losses[seed]), DIGITS),
            round(float(lasts[seed]), DIGITS),
            tuple(round(loss, DIGITS) for loss in points[seed].tolist()),
            None if accuracy is None else round(float(accuracy[seed]), DIGITS),
            untrained,
        )
        for seed in range(len(losses))
    ]


def induction_scores(
    model: LengthModel, parameters: Mapping[str, Tensor], repeated: TokenBatch
) -> Reals:
    """Return by how many nats a piece is predicted better the second time. Shape: (seeds,)."""
    first, second = BatchLosses(model, parameters, repeated).by_point(repeated).T
    return np.asarray(first - second)


class LearningRule(Record):
    """The threshold at the trained length: a loss over the last positions, or an accuracy."""

    loss: float | None = None
    accuracy: float | None = None

    @classmethod
    def of(cls, task: Task, last: int) -> LearningRule:
        """Return the threshold of a task, for ``last`` averaged positions."""
        if isinstance(task, Text):
            last_count = min(SEQUENCES * last, len(task.corpus.held_out) - 1)
            return cls(loss=ngram_losses(task.corpus, longest=CONTEXT, last=last_count)[CONTEXT])
        return cls(accuracy=LEAST_ACCURACY)

    def verdict(self, result: LengthLosses) -> tuple[bool, str]:
        """Return whether the result meets the threshold, and its value with the threshold."""
        if self.loss is not None:
            ok, place = result.last <= self.loss, f"{result.last:.3f} nats at {result.length}"
            rule = f"at most {self.loss:.3f}, the trigram baseline"
        else:
            assert self.accuracy is not None
            share = result.accuracy or 0.0
            ok, place = share >= self.accuracy, f"{share:.2f} of answers right at {result.length}"
            rule = f"at least {self.accuracy:.2f}"
        return ok, f"{place}; needs {rule}"


_REPEATED = 32
"""The number of pieces that an induction score averages."""


def run_job(
    job: Job, progress: Callable[[int, int], object] = lambda _done, _steps: None
) -> JobResult:
    """Train the models of a job, and test them.

    ``progress`` gets the number of steps done and of all steps; tests count as the last steps.

    Raises: InvalidInput if the request names something that does not exist.
    """
    setting = JobSetting.of(job)
    with reproducible():
        return _JobRun(job, setting).result(progress)


class _JobRun:
    """The models of a job during training and tests.

    ``losses`` has a row for every tenth step: the number of steps done, then each seed's loss.
    """

    def __init__(self, job: Job, setting: JobSetting) -> None:
        self._job, self._setting = job, setting
        self._device = torch.device(job.request.device)
        self._model = Transformer(job.request.size, setting.task.vocabulary, setting.parts)
        first = self._model.first_parameters(list(job.seeds))
        self.parameters = {
            name: value.to(self._device).requires_grad_() for name, value in first.items()
        }
        self._moments = {
            f"{name}/{moment}": torch.zeros_like(value, requires_grad=False)
            for name, value in self.parameters.items()
            for moment in MOMENTS
        }
        self.losses: list[tuple[float, ...]] = []
        self.step = 0

    def result(self, progress: Callable[[int, int], object]) -> JobResult:
        request, setting = self._job.request, self._setting
        # Judging needs the results without context extension.
        names = list(dict.fromkeys([NONE, *setting.stretches]))
        tests = [(name, length) for name in names for length in setting.lengths]
        steps = request.steps + len(tests)

        self._train(lambda done: progress(done, steps))
        results: dict[str, list[Sequence[LengthLosses]]] = {name: [] for name in names}
        for done, (name, length) in enumerate(tests, 1):
            results[name].append(self._results_at(length, name))
            progress(request.steps + done, steps)
        inductions = self._inductions()
        at_trained = results[NONE][setting.lengths.index(setting.trained)]
        rule = LearningRule.of(setting.task, setting.last)
        runs = tuple(
            RunResult(
                self._job.encoding.label,
                self._job.encoding.name,
                name,
                self._job.task,
                seed,
                *rule.verdict(at_trained[place]),
                inductions[place],
                tuple(each[place] for each in results[name]),
            )
            for name in names
            if name in request.stretches
            for place, seed in enumerate(self._job.seeds)
        )
        losses = tuple(
            (int(step), *(round(loss, DIGITS) for loss in row)) for step, *row in self.losses
        )
        return JobResult(self._job.key, setting.trained, runs, losses, environment(self._device))

    def _train(self, progress: Callable[[int], object]) -> None:
        """Train to the end; ``progress`` gets the number of steps done."""
        request, setting = self._job.request, self._setting
        columns = setting.task.tokens(setting.trained)
        at = self._model.at(request.positions or columns, NONE, columns, self._device)
        while self.step < request.steps:
            if request.positions is not None:
                at.set_positions(drawn_positions(request.positions, columns, self.step))
            inputs, targets, weights = (value.to(self._device) for value in self._batch())
            logits = at.logits(self.parameters, inputs)
            each = functional.cross_entropy(
                logits.flatten(0, 2), targets.flatten(), reduction="none"
            )
            losses = (each.view(targets.shape) * weights).sum(dim=(1, 2))  # (seeds,)
            losses.sum().backward()
            self._limit_norms()
            self._descend()
            self.step += 1
            if self.step % STEPS_A_RECORD == 0:
                self.losses.append((self.step, *losses.detach().double().tolist()))
            progress(self.step)
        self.parameters = {name: value.detach() for name, value in self.parameters.items()}

    def _rate(self) -> float:
        request = self._job.request
        warm = min(1.0, (self.step + 1) / WARM_UP)
        falling = 0.5 * (1 + math.cos(math.pi * self.step / request.steps))
        return request.learning_rate * warm * (LEAST_RATE + (1 - LEAST_RATE) * falling)

    def _batch(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the inputs, targets and loss weights of each seed: (seeds, sequences, columns)."""
        request, setting = self._job.request, self._setting
        batches = [
            setting.task.training(
                np.random.default_rng([seed, self.step, _DATA]), setting.trained, request.batch
            )
            for seed in self._job.seeds
        ]
        inputs, targets, scored = (
            torch.from_numpy(np.stack([getattr(batch, name) for batch in batches]))
            for name in ("inputs", "targets", "scored")
        )
        weights = scored.float()
        return inputs, targets, weights / weights.sum(dim=(1, 2), keepdim=True)

    def _limit_norms(self) -> None:
        """Clip each seed's gradient to the largest norm."""
        gradients = [value.grad for value in self.parameters.values() if value.grad is not None]
        squares = sum(gradient.square().sum(dim=(1, 2)) for gradient in gradients)
        factors = (LARGEST_NORM / (torch.as_tensor(squares).sqrt() + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factors[:, None, None])

    def _descend(self) -> None:
        """Do a step of AdamW by torch's function.

        Its class would import a compiler, which takes a second.
        """
        moved = {name: value for name, value in self.parameters.items() if value.grad is not None}
        adamw(
            [value.detach() for value in moved.values()],
            [value.grad for value in moved.values() if value.grad is not None],
            *([self._moments[f"{name}/{moment}"] for name in moved] for moment in MOMENTS),
            [],
            [torch.tensor(float(self.step), device=self._device) for _ in moved],
            fused=True,
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=self._rate(),
            weight_decay=DECAY,
            eps=EPSILON,
            maximize=False,
        )
        for value in moved.values():
            value.grad = None

    def _results_at(self, length: int, stretch: str) -> Sequence[LengthLosses]:
        """Return the result of each seed at a length, under a context extension."""
        setting, request = self._setting, self._job.request
        task, trained = setting.task, setting.trained
        columns, trained_columns = task.tokens(length), task.tokens(trained)
        untrained = None
        if request.positions is None:
            notes = [part.untrained(columns, trained_columns, stretch) for part in setting.parts]
            untrained = "; ".join(filter(None, notes)) or None
        return length_results(
            self._model_at(columns, stretch, trained_columns),
            self.parameters,
            task.test(length, setting.last),
            length=length,
            answers=task.answers,
            untrained=untrained,
        )

    def _model_at(self, columns: int, stretch: str, trained: int) -> LengthModel:
        """Return the model for ``columns`` tokens, at random positions if training used them."""
        request = self._job.request
        model = self._model.at(request.positions or columns, stretch, trained, self._device)
        if request.positions is not None:
            model.set_positions(drawn_positions(request.positions, columns, request.steps))
        return model

    def _inductions(self) -> list[float | None]:
        setting = self._setting
        batch = setting.task.repeated(setting.trained, _REPEATED)
        if batch is None:
            return [None] * len(self._job.seeds)
        columns = batch.inputs.shape[1]
        scores = induction_scores(self._model_at(columns, NONE, columns), self.parameters, batch)
        return [round(float(score), DIGITS) for score in scores]


def environment(device: torch.device) -> dict[str, str]:
    """Return the environment that a result may depend on."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "posenc": version("posenc-cli"),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "device": f"{device.type} ({name})",
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }


def drawn_positions(below: int, count: int, draw: int) -> Integers:
    """Draw ``count`` distinct positions below a number, in ascending order. Shape: (count,)."""
    generator = np.random.default_rng([draw, _POSITIONS])
    return np.sort(generator.choice(below, count, replace=False)).astype(np.int64)


@contextlib.contextmanager
def reproducible() -> Any:
    """Run torch on one thread in the block, with algorithms that give the same bits each time."""
    threads, before = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("error")  # use_deterministic_algorithms imports a compiler
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode(before)
