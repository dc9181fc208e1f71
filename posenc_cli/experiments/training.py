"""Train with AdamW, all seeds of an encoding at once.

A step's random draws depend only on the seed and the step. So models of different encodings see the
same data.

Imports torch: import it only where something is trained.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.optim.adamw import adamw

from posenc_cli.formulas.context_extension.stretches import NONE

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.experiments.request import Job
    from posenc_cli.experiments.tasks import Task, TokenBatch
    from posenc_cli.experiments.transformer import Transformer
    from posenc_cli.numerics.arrays import Integers

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


class ModelTraining:
    """The parameters of a job's models, and the progress of their training.

    ``losses`` has a row for every tenth step: the number of steps done, then each seed's loss.
    """

    def __init__(self, job: Job, model: Transformer, task: Task, trained: int) -> None:
        self._job, self._model, self._task, self._trained = job, model, task, trained
        self._device = torch.device(job.request.device)
        first = model.first_parameters(list(job.seeds))
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

    def run(self, progress: Callable[[int], object]) -> None:
        """Train to the end; ``progress`` gets the number of steps done."""
        request = self._job.request
        columns = self._task.tokens(self._trained)
        at = self._model.at(request.positions or columns, NONE, columns, self._device)
        while self.step < request.steps:
            if request.positions is not None:
                at.set_positions(drawn_positions(request.positions, columns, self.step))
            batch = self._batch()
            inputs, targets, weights = (value.to(self._device) for value in batch)
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
        request = self._job.request
        batches: list[TokenBatch] = []
        for seed in self._job.seeds:
            generator = np.random.default_rng([seed, self.step, _DATA])
            batches.append(self._task.training(generator, self._trained, request.batch))
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
