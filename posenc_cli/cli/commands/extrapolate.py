"""``posenc extrapolate``: small transformers trained short and tested long, one an encoding."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from posenc_cli import interrupts
from posenc_cli.budget import check_size
from posenc_cli.cli.console import Console
from posenc_cli.cli.experiment_options import FolderOptions, RunningOptions, TrainingOptions
from posenc_cli.cli.options import option
from posenc_cli.cli.pictures import PictureOptions, PlotOutput
from posenc_cli.cli.progress import steps_shown
from posenc_cli.cli.trained_encodings import TrainedEncodings, default_encodings
from posenc_cli.errors import InvalidInput, Unavailable
from posenc_cli.experiments.request import ExperimentRequest
from posenc_cli.files.atomic import STANDARD_OUTPUT, check_apart, preflight, replacing
from posenc_cli.files.formats import check_suffix
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from posenc_cli.experiments.folder import RunFolder
    from posenc_cli.experiments.request import Job
    from posenc_cli.experiments.results import JobResult
    from posenc_cli.experiments.schedulers import DaskScheduler, LocalScheduler


class ExperimentOutput(PlotOutput):
    """Where results go beside the run folder, which is what --out names here.

    A picture goes where ``--picture`` says.
    """

    file_flag: ClassVar[str] = "--picture"

    out: Annotated[
        str | None,
        option("--picture", metavar="FILE", help="draw a picture to a .png, .svg or .pdf file"),
    ] = None
    csv: Annotated[
        str | None,
        option(
            "--csv", metavar="FILE", help="write the loss at every position of every run as CSV"
        ),
    ] = None

    def prepare(self) -> None:
        """Refuse, before anything is computed, files that could not be written.

        Raises: InvalidInput, Unavailable.
        """
        super().prepare()
        if self.csv is None:
            return
        if self.csv == STANDARD_OUTPUT:
            raise InvalidInput("--csv -: must be a file", hint="--json goes to standard output")
        preflight(self.csv, clobber=self.clobber)
        check_suffix(self.csv, ".csv", "the losses as CSV", flag="--csv")
        check_apart("--csv", self.csv, self.file_flag, self.out)


def extrapolate(
    encodings: TrainedEncodings,
    console: Console,
    *,
    training: TrainingOptions,
    unit: Annotated[
        str, option("--unit", known=("nats", "bits"), help="unit of losses: nats|bits")
    ] = "nats",
    picture: PictureOptions,
    where: FolderOptions,
    output: ExperimentOutput,
    running: RunningOptions,
) -> None:
    """Train small transformers short and test them long.

    posenc trains the same small causal transformer once for each encoding and seed, at one length,
    and tests it at that length and at longer ones. --stretch applies a context extension at test
    time, without training. The report shows the loss over the last positions of each length, with
    its 95% interval over seeds; --plot and --picture draw the loss at every position.

    A model is judged only if it has learned its task: at the trained length, its loss on a text or
    its share of right answers must reach a threshold. Otherwise the report gives no verdict.
    Encodings are not ranked, since the best one depends on the task.

    On the same machine with the same versions, the same request gives the same bytes. Other
    machines stay within the printed spread. --resume continues a stopped run and ends with the same
    bits.

    Examples:
      posenc extrapolate -s rope -s alibi --size 1x2x8 --train 24 --steps 10 --seeds 1
      posenc extrapolate -s rope --stretch none,yarn --size 1x1x8 --train 16 --steps 5 --seeds 2
      posenc extrapolate -s rope+t5 --task copy --size 1x1x8 --train 5 --steps 5 --out run
      posenc extrapolate --out run --resume --csv losses.csv
    """
    output.check(picture)
    where.check(running)
    said = {**training.fields(), **running.fields()}
    if encodings.requests is not None:
        said["encodings"] = encodings.requests
    with ExitStack() as stack:
        if where.merge:
            request, results = _merged(where, said)
        else:
            request, results = _run(stack, where, running, said, console, draws=output.draws)
        _report(request, results, picture, output, console, unit=unit)


def _merged(
    where: FolderOptions, said: Mapping[str, Any]
) -> tuple[ExperimentRequest, Sequence[JobResult]]:
    """The request and the results of folders, kept in another where one is named."""
    from posenc_cli.experiments.folder import RunFolder, merged

    paths = [Path(path) for path in where.merge or ()]
    request, results = merged(paths)
    RunFolder(paths[0], request).check_same(replace(request, **said))
    if where.folder is not None:
        folder = RunFolder.made(Path(where.folder), request)
        for job, result in zip(request.jobs(), results, strict=True):
            folder.keep(job, result)
    return request, results


def _run(
    stack: ExitStack,
    where: FolderOptions,
    running: RunningOptions,
    said: Mapping[str, Any],
    console: Console,
    *,
    draws: bool,
) -> tuple[ExperimentRequest, Sequence[JobResult]]:
    """Run the jobs that have no result yet: the request, and the results of those asked for."""
    from posenc_cli.experiments.folder import RunFolder, shard
    from posenc_cli.experiments.schedulers import scheduler_of
    from posenc_cli.experiments.setting import settings_of_jobs
    from posenc_cli.experiments.sources import check_names_no_code
    from posenc_cli.render.reports.extrapolation import check_pictured

    scheduler = scheduler_of(running.scheduler or "local", running.workers)
    if where.resume:
        folder = RunFolder.found(Path(where.folder or ""))
        request = folder.request
        if "encodings" not in said:
            check_names_no_code(request, folder.request_path)
        folder.check_same(replace(request, **said))
    else:
        request = ExperimentRequest(**{"encodings": default_encodings(), **said})
    jobs = request.jobs()
    if running.shard is not None:
        check_size("--shard {}/{}".format(*running.shard), running.shard[1], len(jobs), "parts")
        jobs = shard(jobs, running.shard)
    settings = settings_of_jobs(jobs)
    if draws:
        check_pictured([(setting.task.name, len(setting.stretches)) for setting in settings])
    if not where.resume:
        _check_torch(scheduler, request.device)
        path = stack.enter_context(_folder(where, console))
        folder = RunFolder.made(path, request)
    with folder.locked() as lock:
        missing = folder.missing(jobs)
        if missing:
            _check_torch(scheduler, request.device)
            with steps_shown(console, "steps") as progress:
                scheduler.run(missing, folder, progress, lock=lock, warn=console.warning)
        return request, _results(folder, jobs)


def _results(folder: RunFolder, jobs: Sequence[Job]) -> list[JobResult]:
    results = [folder.result(job) for job in jobs]
    return [result for result in results if result is not None]


@contextmanager
def _folder(where: FolderOptions, console: Console) -> Iterator[Path]:
    """The folder of a new run: one that is gone at the end where none is named."""
    if where.folder is not None:
        yield Path(where.folder)
        return
    console.summary("this run is not saved; --out FOLDER saves it for --resume")
    path = Path(tempfile.mkdtemp(prefix="posenc-"))

    def remove() -> None:
        # Under another name: a worker that still puts its checkpoint away finds no folder for it.
        removed = path.with_name(f"{path.name}.removed")
        with suppress(OSError):
            path.rename(removed)
        for folder in (removed, path):
            shutil.rmtree(folder, ignore_errors=True)

    interrupts.clean_up_by(remove)
    try:
        yield path
    finally:
        remove()
        interrupts.clean_up_no_more_by(remove)


def _check_torch(scheduler: LocalScheduler | DaskScheduler, device: str) -> None:
    """Refuse to run jobs here where there is no torch, or not the device; a cluster has its own.

    Raises: Unavailable, InvalidInput.
    """
    from posenc_cli.backends import torch_device
    from posenc_cli.experiments.schedulers import LocalScheduler

    if not isinstance(scheduler, LocalScheduler):
        return
    if not torch_device.installed("torch"):
        raise Unavailable(
            "extrapolate needs torch, which is not installed",
            hint="pip install torch; posenc heads runs without it",
        )
    if device != "cpu":
        torch_device.device(torch_device.library(), device)


def _report(
    request: ExperimentRequest,
    results: Sequence[JobResult],
    picture: PictureOptions,
    output: ExperimentOutput,
    console: Console,
    *,
    unit: str,
) -> None:
    """Print what was found, and write and draw it where that is asked for."""
    from posenc_cli.render.reports import extrapolation

    report = extrapolation.ExperimentReport.of(request, results, unit)
    if output.csv is not None:
        with replacing(output.csv, clobber=output.clobber) as stream:
            for block in report.csv():
                stream.write(block)
    output.present(
        "extrapolate",
        report.text(console.typesetter),
        report.figure,
        report.fields,
        look=picture,
        console=console,
    )
