"""``posenc extrapolate``: train small transformers at a short length, test them at longer ones."""

from __future__ import annotations

import re
import shutil
import tempfile
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from posenc_cli import catalogue, interrupts
from posenc_cli.budget import check_size
from posenc_cli.choice import parameters_by_scheme, part_names
from posenc_cli.cli.choosing import ParameterOptions, SchemesOptions, device_name
from posenc_cli.cli.console import Console, steps_shown
from posenc_cli.cli.options import (
    OptionGroup,
    TestLengths,
    option,
    some_of,
    whole_option,
)
from posenc_cli.cli.pictures import PictureOptions, PlotOutput
from posenc_cli.errors import InvalidInput, Unavailable, abbreviated
from posenc_cli.experiments.request import (
    LARGEST_SIZE,
    MOST_BATCH,
    MOST_SEEDS,
    MOST_STEPS,
    STRETCH_NAMES,
    TRAINED,
    EncodingRequest,
    ExperimentRequest,
    JobResult,
    ModelSize,
)
from posenc_cli.formulas.parameters import Parameter, as_text
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from posenc_cli.formulas.declare import Scheme


DEFAULTS = ("nope", "sinusoidal", "rope", "alibi", "t5")
"""The default schemes: one of each way to encode positions, and none."""
_SAID_BY_SIZE = ("dim", "heads")
"""Parameters that the size of the model sets, so labels omit them."""


class SchemeOptions(SchemesOptions):
    """Which schemes; configs and models are not offered, because none is small enough."""

    config: str | None = None
    model: str | None = None
    layer_type: str | None = None
    runtime: str | None = None


class TrainedEncodings(Record):
    """The encodings that a command line names, in order; None if it names none."""

    requests: tuple[EncodingRequest, ...] | None

    @staticmethod
    def of_options(source: SchemeOptions, parameters: ParameterOptions) -> TrainedEncodings:
        """Return the encodings that the options name; letters count the parts of hybrids too.

        Raises: InvalidInput if a scheme or a parameter does not exist, or an encoding is given
        twice.
        """
        given = parameters.given
        if not source.scheme and not given:
            return TrainedEncodings(None)
        named = [part_names(name) for name in source.scheme or DEFAULTS]
        parts = [part for names in named for part in names]
        schemes = [catalogue.find(part) for part in parts]
        values = parameters_by_scheme(schemes, given)
        by_part = iter(zip(parts, schemes, values, strict=True))
        return TrainedEncodings(_requests([[next(by_part) for _ in names] for names in named]))


def _requests(
    encodings: Sequence[Sequence[tuple[str, Scheme, Mapping[str, object]]]],
) -> tuple[EncodingRequest, ...]:
    """Return encodings with distinct labels.

    Raises: InvalidInput if two encodings are the same.
    """
    requests = [
        EncodingRequest(
            _label(parts),
            tuple(
                (_anywhere(name), _plain(scheme.parameters, given)) for name, scheme, given in parts
            ),
        )
        for parts in encodings
    ]
    for place, request in enumerate(requests):
        if any(request.parts == other.parts for other in requests[:place]):
            raise InvalidInput(
                f"--scheme {request.label} is given twice",
                hint="--set a.NAME=VALUE applies only to the first, b.NAME=VALUE to the second",
            )
    from posenc_cli.experiments.setting import source_digest
    from posenc_cli.render.figure import distinct_names

    labels = distinct_names([request.label for request in requests])
    labelled = map(lambda request, label: replace(request, label=label), requests, labels)
    return tuple(replace(request, digest=source_digest(request)) for request in labelled)


def _anywhere(name: str) -> str:
    """Return a scheme's name, with an absolute path so that any process finds its file."""
    place, colon, attribute = name.rpartition(":")
    return f"{Path(place).absolute()}{colon}{attribute}" if place.endswith(".py") else name


def _plain(parameters: Mapping[str, Parameter], given: Mapping[str, object]) -> dict[str, Any]:
    """Return parameters as JSON values, with absolute paths of files.

    Parameters equal to their defaults are left out.
    """
    values = {}
    for name, text in given.items():
        rule = parameters[name]
        value = rule.value(text)
        if rule.rules.is_file:
            value = str(Path(value).absolute())
        elif rule.is_list:
            value = as_text(value, separator=rule.rules.separator)
        if rule.required or value != rule.default:
            values[name] = value
    return values


def _label(parts: Sequence[tuple[str, Scheme, Mapping[str, object]]]) -> str:
    """Return the names of schemes, and their parameters that differ from the defaults.

    >>> from posenc_cli.formulas.rotary import rope
    >>> _label([("rope", rope, {"base": "5e5", "dim": "16"})])
    'rope base=500000'
    """
    said = []
    for _, scheme, given in parts:
        for name, value in _plain(scheme.parameters, given).items():
            if name not in _SAID_BY_SIZE:
                rule = scheme.parameters[name].rules
                said.append(f"{name}={Path(value).name if rule.is_file else as_text(value)}")
    return " ".join(["+".join(scheme.name for _, scheme, _ in parts), *said])


MOST_WORKERS = 256


def _size(flag: str, text: str) -> ModelSize:
    numbers = re.fullmatch(r"([1-9][0-9]*)[x×]([1-9][0-9]*)[x×]([1-9][0-9]*)", text, re.ASCII)
    if numbers is None:
        raise InvalidInput(f"{flag} {abbreviated(text)}: must be LAYERSxHEADSxDIM, as in 2x4x16")
    size = ModelSize(*(int(number[:20]) for number in numbers.groups()))
    for name, unit in (
        ("layers", "layers"),
        ("heads", "heads"),
        ("head_dim", "dimensions per head"),
    ):
        check_size(
            f"{flag} {abbreviated(text)}", getattr(size, name), getattr(LARGEST_SIZE, name), unit
        )
    check_size(f"{flag} {size}", size.width, 4096, "columns")
    return size


class RunningOptions(OptionGroup):
    """How jobs run."""

    heading = "Running"

    workers: Annotated[
        int | None,
        whole_option(
            "--workers",
            minimum=1,
            most=MOST_WORKERS,
            help="number of local processes, one thread each [default: one per core]",
        ),
    ] = None
    device: Annotated[
        str | None,
        option(
            "--device",
            metavar="NAME",
            help="cpu|cuda|mps… [default: cpu]",
            parse=lambda flag, text: device_name(flag, text) or "cpu",
        ),
    ] = None


class FolderOptions(OptionGroup):
    """The folder of a run."""

    heading = "Output"

    folder: Annotated[
        str | None,
        option(
            "--out",
            "-o",
            metavar="FOLDER",
            help="a new folder for the run; with --resume, an existing one",
        ),
    ] = None
    resume: Annotated[bool, option("--resume", help="continue the run in --out")] = False

    def check(self) -> None:
        """Reject options that do not go together.

        Raises: InvalidInput.
        """
        if self.folder is None and self.resume:
            raise InvalidInput("--resume needs --out with the folder of the run")


class ExperimentOutput(PlotOutput):
    """Where results go besides the run folder, which ``--out`` names in this command.

    ``--picture`` names the file of a picture.
    """

    file_flag: ClassVar[str] = "--picture"

    out: Annotated[
        str | None,
        option("--picture", metavar="FILE", help="draw a picture to a .png, .svg or .pdf file"),
    ] = None


def extrapolate(
    encodings: TrainedEncodings,
    console: Console,
    *,
    stretches: Annotated[
        Any,  # tuple[str, ...] | None, which Typer would split into words
        option(
            "--stretch",
            metavar="NAMES",
            help=f"context extension at test time: {'|'.join(STRETCH_NAMES)}; comma-separated "
            "[default: none]",
            parse=partial(some_of, known=STRETCH_NAMES),
        ),
    ] = None,
    tasks: Annotated[
        Any,  # tuple[str, ...] | None
        option(
            "--task",
            metavar="NAMES",
            help=f"tasks, comma-separated: {'|'.join(TRAINED)} [default: text]",
            parse=partial(some_of, known=TRAINED),
        ),
    ] = None,
    trained: Annotated[
        int | None,
        whole_option(
            "--train",
            minimum=1,
            help="trained length, in characters, symbols or numbers [default: "
            f"{', '.join(f'{name} {length}' for name, length in TRAINED.items())}]",
        ),
    ] = None,
    tests: TestLengths = None,
    seeds: Annotated[
        int | None,
        whole_option(
            "--seeds", minimum=1, most=MOST_SEEDS, help="number of models per encoding [default: 3]"
        ),
    ] = None,
    steps: Annotated[
        int | None,
        whole_option("--steps", minimum=1, most=MOST_STEPS, help="training steps [default: 1000]"),
    ] = None,
    batch: Annotated[
        int | None,
        whole_option(
            "--batch", minimum=1, most=MOST_BATCH, help="sequences per step [default: 16]"
        ),
    ] = None,
    size: Annotated[
        ModelSize | None,
        option(
            "--size",
            metavar="SIZE",
            help="LAYERSxHEADSxDIM, with DIM per head [default: 2x4x16]",
            parse=_size,
        ),
    ] = None,
    last: Annotated[
        int | None,
        whole_option(
            "--last",
            minimum=1,
            help="average the loss over the last N positions [default: half of --train]",
        ),
    ] = None,
    positions: Annotated[
        int | None,
        whole_option(
            "--randomize",
            minimum=1,
            help="train with random ascending positions below N (Ruoss et al.)",
        ),
    ] = None,
    picture: PictureOptions,
    where: FolderOptions,
    output: ExperimentOutput,
    running: RunningOptions,
) -> None:
    """Train small models, and test them at longer lengths.

    posenc trains the same small causal transformer for each encoding and seed, at one length. It
    tests each model at the trained length and at longer lengths. --stretch applies a context
    extension at test time, without training. The report shows the loss over the last positions of
    each length, with its 95% interval over seeds. --plot and --picture draw the loss at every
    position.

    posenc judges a model only if it has learned its task at the trained length. On text, its loss
    must be below that of the trigram baseline. On each other task, its accuracy must be at least
    0.9. If a model has not learned its task, the report gives no verdict. posenc does not rank
    encodings, because the best encoding depends on the task.

    --out stores the request, seeds, versions and losses. --resume continues a stopped run, and
    produces the same bytes as an uninterrupted run. On one machine, with the same versions of torch
    and NumPy, a request always produces the same bytes. On other machines, results stay within the
    printed 95% intervals.

    Examples:
      posenc extrapolate -s rope -s alibi --size 1x2x8 --train 24 --steps 10 --seeds 1
      posenc extrapolate -s rope --stretch none,yarn --size 1x1x8 --train 16 --steps 5 --seeds 2
      posenc extrapolate -s rope+t5 --task copy --size 1x1x8 --train 5 --steps 5 --out run
      posenc extrapolate --out run --resume --picture losses.svg
    """
    output.check(picture)
    where.check()
    training = {"stretches": stretches, "tasks": tasks, "trained": trained, "tests": tests}
    training |= {"seeds": seeds, "steps": steps, "batch": batch, "size": size, "last": last}
    training |= {"positions": positions, "device": running.device}
    said = {name: value for name, value in training.items() if value is not None}
    if encodings.requests is not None:
        said["encodings"] = encodings.requests
    with ExitStack() as stack:
        request, results = _run(
            stack, where, said, console, workers=running.workers, draws=output.draws
        )
        from posenc_cli.render.reports.extrapolation import ExperimentReport

        report = ExperimentReport.of(request, results)
        output.present(
            "extrapolate",
            report.text(console.typesetter),
            report.figure,
            report.fields,
            look=picture,
            console=console,
        )


def _run(
    stack: ExitStack,
    where: FolderOptions,
    said: Mapping[str, Any],
    console: Console,
    *,
    workers: int | None,
    draws: bool,
) -> tuple[ExperimentRequest, Sequence[JobResult]]:
    """Run the jobs that lack a result; return the request and the results of all jobs."""
    from posenc_cli.experiments.folder import RunFolder
    from posenc_cli.experiments.job_processes import run_jobs
    from posenc_cli.experiments.setting import JobSetting, check_names_no_code
    from posenc_cli.render.reports.extrapolation import check_pictured

    if where.resume:
        folder = RunFolder.found(Path(where.folder or ""))
        request = folder.request
        if "encodings" not in said:
            check_names_no_code(request, folder.request_path)
        folder.check_same(replace(request, **said))
    else:
        usual = tuple(EncodingRequest(name, ((name, {}),)) for name in DEFAULTS)
        request = ExperimentRequest(**{"encodings": usual, **said})
    jobs = request.jobs()
    each = {(job.task, job.place): job for job in jobs}.values()  # check all before any runs
    settings = [JobSetting.of(job) for job in each]
    if draws:
        check_pictured([(setting.task.name, len(setting.stretches)) for setting in settings])
    if not where.resume:
        _check_torch(request.device)
        folder = RunFolder.made(stack.enter_context(_folder(where, console)), request)
    folder.make_room()
    missing = folder.missing(jobs)
    if missing:
        _check_torch(request.device)
        with steps_shown(console, "steps") as progress:
            run_jobs(missing, folder, progress, workers=workers)
    results = [folder.result(job) for job in jobs]
    return request, [result for result in results if result is not None]


@contextmanager
def _folder(where: FolderOptions, console: Console) -> Iterator[Path]:
    """Yield the folder of a new run; without ``--out`` it is temporary and removed at the end."""
    if where.folder is not None:
        yield Path(where.folder)
        return
    console.summary("this run is not saved; --out FOLDER saves it for --resume")
    path = Path(tempfile.mkdtemp(prefix="posenc-"))
    remove = partial(shutil.rmtree, path, ignore_errors=True)
    interrupts.clean_up_by(remove)
    try:
        yield path
    finally:
        remove()
        interrupts.clean_up_no_more_by(remove)


def _check_torch(device: str) -> None:
    """Reject a run if torch or the device is missing.

    Raises: Unavailable, InvalidInput.
    """
    from posenc_cli.backends import torch

    if not torch.installed("torch"):
        raise Unavailable(
            "extrapolate needs torch, which is not installed",
            hint="pip install torch; posenc heads runs without it",
        )
    if device != "cpu":
        torch.device_of(torch.library(), device)
