"""Training with AdamW, all seeds of an encoding at once, resumable at any step.

A step's random draws depend only on the seed and the step. So models of different encodings see the
same data, and a run resumed from a checkpoint gives the same bits as one that never stopped.

Imports torch: import it only where something is trained.
"""

from __future__ import annotations

import contextlib
import json
import math
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from torch.nn import functional
from torch.optim.adamw import adamw

from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.files.atomic import replacing
from posenc_cli.formulas.context_extension.stretches import NONE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from posenc_cli.experiments.request import Job
    from posenc_cli.experiments.tasks import Task, TokenBatch
    from posenc_cli.experiments.transformer import Transformer
    from posenc_cli.numerics.arrays import Integers

WARM_UP = 50
"""Warm-up steps of the learning rate."""
LEAST_RATE = 0.1
"""The share of the learning rate at the last step, reached by cosine decay."""
BETAS, DECAY, EPSILON = (0.9, 0.99), 0.01, 1e-8
MOMENTS = ("exp_avg", "exp_avg_sq")
LARGEST_NORM = 1.0
"""The most that a seed's gradient may have."""
STEPS_A_CHECKPOINT = 100
STEPS_A_RECORD = 10
"""Losses of the seeds are recorded once in this many steps."""

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
        self._first = {name: value.to(self._device) for name, value in first.items()}
        self.parameters = self._first
        self.losses: list[tuple[float, ...]] = []
        self.step = 0

    def run(self, checkpoint: Path | None, progress: Callable[[int], object] | None = None) -> None:
        """Train to the end, from the checkpoint if there is one.

        ``progress`` gets the number of steps done. If it raises, a checkpoint is saved first.
        """
        request = self._job.request
        self.parameters = {
            name: value.clone().requires_grad_() for name, value in self._first.items()
        }
        self._moments = {
            f"{name}/{moment}": torch.zeros_like(value, requires_grad=False)
            for name, value in self.parameters.items()
            for moment in MOMENTS
        }
        if checkpoint is not None and checkpoint.exists():
            self._restore(checkpoint)
        columns = self._task.tokens(self._trained)
        at = self._model.at(request.positions or columns, NONE, columns, self._device)
        try:
            while self.step < request.steps:
                if request.positions is not None:
                    at.taken(drawn_positions(request.positions, columns, self.step))
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
                if checkpoint is not None and self.step % STEPS_A_CHECKPOINT == 0:
                    self._save(checkpoint)
                if progress is not None:
                    progress(self.step)
        except BaseException:
            if checkpoint is not None:
                self._save(checkpoint)
            raise
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

    def _save(self, path: Path) -> None:
        values = {f"{name}/value": value.detach() for name, value in self.parameters.items()}
        tensors = {**values, **self._moments}
        header = {
            **self._identity(),
            "step": str(self.step),
            "losses": json.dumps(self.losses),
        }
        content = save({name: value.cpu().contiguous() for name, value in tensors.items()}, header)
        with replacing(path) as stream:
            stream.write(content)

    def _identity(self) -> dict[str, str]:
        """Return what must match for a checkpoint to be resumed."""
        request = self._job.request
        versions = f"posenc {version('posenc-cli')}, torch {torch.__version__}"
        return {"job": self._job.key, "request": request.fingerprint, "versions": versions}

    def _restore(self, path: Path) -> None:
        """Resume from a checkpoint.

        Raises: InvalidInput if the file is not a checkpoint, or belongs to another job.
        """
        try:
            with safe_open(path, "pt") as file:
                header = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if {name: header[name] for name in self._identity()} != self._identity():
                raise InvalidInput(
                    f"{quoted_name(path)}: is a checkpoint of another job, or of another version",
                    hint="remove it to start training again",
                )
            self.step = int(header["step"])
            self.losses = [tuple(row) for row in json.loads(header["losses"])]
            values = {f"{name}/value": value.detach() for name, value in self.parameters.items()}
            for name, value in (values | self._moments).items():
                value.copy_(tensors[name])
        except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
            raise InvalidInput(
                f"{quoted_name(path)}: is not a checkpoint of this job",
                hint="remove it to start training again",
            ) from error


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
