"""One job, from its request to its result: trained, judged, and tested at each length.

Imports torch: import it only where something is trained.
"""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
import torch

from posenc_cli.experiments.evaluation import LearningRule, induction_scores, length_results
from posenc_cli.experiments.results import DIGITS, JobResult, RunResult
from posenc_cli.experiments.setting import JobSetting
from posenc_cli.experiments.training import ModelTraining, drawn_positions, reproducible
from posenc_cli.experiments.transformer import Transformer
from posenc_cli.formulas.context_extension.stretches import NONE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from posenc_cli.experiments.request import Job
    from posenc_cli.experiments.results import LengthLosses
    from posenc_cli.experiments.transformer import LengthModel

_REPEATED = 32
"""Pieces that an induction score is of."""


def run_job(
    job: Job,
    checkpoint: Path | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> JobResult:
    """Train the models of a job, or go on from its checkpoint, and test them.

    ``progress`` is told how many of how many steps are done, tests counted as the last of them.

    Raises: InvalidInput where the request asks for what is not there.
    """
    setting = JobSetting.of(job)
    with reproducible():
        return _JobRun(job, setting).result(checkpoint, progress)


class _JobRun:
    """The models of a job, as they are trained and tested."""

    def __init__(self, job: Job, setting: JobSetting) -> None:
        self._job, self._setting = job, setting
        self._model = Transformer(job.request.size, setting.task.vocabulary, setting.parts)
        self._training = ModelTraining(job, self._model, setting.task, setting.trained)
        self._device = torch.device(job.request.device)

    def result(
        self, checkpoint: Path | None, progress: Callable[[int, int], object] | None
    ) -> JobResult:
        request, setting = self._job.request, self._setting
        # Without what is not stretched nothing could be judged.
        names = list(dict.fromkeys([NONE, *setting.stretches]))
        tests = [(name, length) for name in names for length in setting.lengths]
        steps = request.steps + len(tests)

        def told(done: int) -> None:
            if progress is not None:
                progress(done, steps)

        self._training.run(checkpoint, told)
        results: dict[str, list[Sequence[LengthLosses]]] = {name: [] for name in names}
        for done, (name, length) in enumerate(tests, 1):
            results[name].append(self._at(length, name))
            told(request.steps + done)
        inductions = self._inductions()
        at_trained = results[NONE][setting.lengths.index(setting.trained)]
        rule = LearningRule.of(setting.task, setting.last)
        runs = []
        for name in names:
            for place, seed in enumerate(self._job.seeds):
                learnt, reason = rule.verdict(at_trained[place])
                runs.append(
                    RunResult(
                        self._job.encoding.label,
                        self._job.encoding.name,
                        name,
                        self._job.task,
                        seed,
                        learnt,
                        reason,
                        inductions[place],
                        tuple(each[place] for each in results[name]),
                    )
                )
        losses = tuple(
            (int(step), *(round(loss, DIGITS) for loss in row))
            for step, *row in self._training.losses
        )
        kept = tuple(run for run in runs if run.stretch in request.stretches)
        return JobResult(self._job.key, setting.trained, kept, losses, environment(self._device))

    def _at(self, length: int, stretch: str) -> Sequence[LengthLosses]:
        setting, request = self._setting, self._job.request
        task, trained = setting.task, setting.trained
        columns, trained_columns = task.tokens(length), task.tokens(trained)
        untrained = None
        if request.positions is None:
            notes = [part.untrained(columns, trained_columns, stretch) for part in setting.parts]
            untrained = "; ".join(filter(None, notes)) or None
        return length_results(
            self._model_at(columns, stretch, trained_columns),
            self._training.parameters,
            task.test(length, setting.last),
            length=length,
            answers=task.answers,
            untrained=untrained,
        )

    def _model_at(self, columns: int, stretch: str, trained: int) -> LengthModel:
        """The model for so many columns, at positions that are drawn where training drew them."""
        request = self._job.request
        model = self._model.at(request.positions or columns, stretch, trained, self._device)
        if request.positions is not None:
            model.taken(drawn_positions(request.positions, columns, request.steps))
        return model

    def _inductions(self) -> list[float | None]:
        setting = self._setting
        batch = setting.task.repeated(setting.trained, _REPEATED)
        if batch is None:
            return [None] * len(self._job.seeds)
        columns = batch.inputs.shape[1]
        model = self._model_at(columns, NONE, columns)
        scores = induction_scores(model, self._training.parameters, batch)
        return [round(float(score), DIGITS) for score in scores]


def environment(device: torch.device) -> dict[str, str]:
    """What a result may depend on beside its request."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "posenc": version("posenc-cli"),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "device": f"{device.type} ({name})",
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }
