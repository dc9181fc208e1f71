"""``posenc extrapolate``: small transformers trained short and tested long, one an encoding."""

from __future__ import annotations

import re
import shutil
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from posenc_cli import catalogue, interrupts
from posenc_cli.budget import HELD_VALUES, check_size
from posenc_cli.choice import LETTERS, parameters_by_scheme, part_names
from posenc_cli.cli.choosing import SourceOptions, device_name
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import (
    OptionGroup,
    one_of,
    option,
    settings_of,
    whole_number,
    whole_option,
)
from posenc_cli.cli.pictures import PictureOptions, PlotOutput, show
from posenc_cli.cli.progress import steps_shown
from posenc_cli.cli.subjects import SeveralParameterOptions
from posenc_cli.errors import InvalidInput, Unavailable, abbreviated
from posenc_cli.experiments.request import EncodingRequest, ExperimentRequest, ModelSize
from posenc_cli.experiments.tasks import TASKS
from posenc_cli.files.atomic import STANDARD_OUTPUT, preflight, replacing
from posenc_cli.formulas.parameters import Param, as_text, parameter
from posenc_cli.formulas.stretches import STRETCHES
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from posenc_cli.experiments.folder import RunFolder
    from posenc_cli.experiments.request import Job
    from posenc_cli.experiments.results import JobResult
    from posenc_cli.experiments.schedulers import DaskScheduler, LocalScheduler
    from posenc_cli.experiments.setting import JobSetting
    from posenc_cli.formulas.declare import Scheme
    from posenc_cli.formulas.parameters import Parameter

DEFAULTS = ("nope", "sinusoidal", "rope", "alibi", "t5")
"""What is trained where no scheme is named: one of each way to tell positions, and none."""
STRETCH_NAMES = ("none", *STRETCHES, "window", "clip", "log-n")
MOST_SEEDS, MOST_STEPS, MOST_BATCH, MOST_WORKERS = 1000, 1 << 20, 1 << 12, 256
LARGEST_SIZE = ModelSize(16, 64, 256)
_PAIRS = 1 << 27
"""Scores of a training step: half a GiB in float32, of which a step needs a few."""
_RATE = parameter(
    "learning_rate", Annotated[float, Param("largest step", above=0, maximum=1)], default=3e-3
)
_SAID_BY_SIZE = ("dim", "heads")
"""Parameters that the size of the model settles, and no label names."""


class SchemeOptions(SourceOptions):
    """Which schemes: of a model's config none is so small."""

    config: str | None = None
    model: str | None = None
    layer_type: str | None = None
    runtime: str | None = None


class TrainedEncodings(Record):
    """The encodings that a command line names, in its order; None where it says nothing."""

    requests: tuple[EncodingRequest, ...] | None

    @staticmethod
    def of_options(source: SchemeOptions, parameters: SeveralParameterOptions) -> TrainedEncodings:
        """What the options name; letters count the parts of hybrids too.

        Raises: InvalidInput where a scheme or a parameter is not there, or one encoding is twice.
        """
        given: dict[str, object] = {**parameters.own}
        given |= settings_of(parameters.settings, given)
        if not source.scheme and not given:
            return TrainedEncodings(None)
        named = [part_names(name) for name in source.scheme or DEFAULTS]
        _check_once(named)
        parts = [part for names in named for part in names]
        schemes = [catalogue.find(part) for part in parts]
        values = parameters_by_scheme(schemes, given)
        by_part = iter(zip(parts, schemes, values, strict=True))
        encodings = [[next(by_part) for _ in names] for names in named]
        return TrainedEncodings(_requests(encodings))


def _check_once(named: Sequence[Sequence[str]]) -> None:
    for names in named:
        for part in names:
            if names.count(part) > 1:
                raise InvalidInput(
                    f"--scheme {abbreviated('+'.join(names))}: {part} is in it twice"
                )


def _requests(
    encodings: Sequence[Sequence[tuple[str, Scheme, Mapping[str, object]]]],
) -> tuple[EncodingRequest, ...]:
    """Encodings under labels of which no two are the same.

    Raises: InvalidInput where two encodings are.
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
                f"--scheme {request.label}: is asked for twice",
                hint="--set a.NAME=VALUE is of the first alone, b.NAME=VALUE of the second",
            )
    labels = [request.label for request in requests]
    return tuple(
        replace(request, label=f"{LETTERS[place % len(LETTERS)]}: {request.label}")
        if labels.count(request.label) > 1
        else request
        for place, request in enumerate(requests)
    )


def _anywhere(name: str) -> str:
    """The name of a scheme as another process, in another folder, finds it."""
    place, colon, attribute = name.rpartition(":")
    return f"{Path(place).absolute()}{colon}{attribute}" if place.endswith(".py") else name


def _plain(parameters: Mapping[str, Parameter], given: Mapping[str, object]) -> dict[str, Any]:
    """Parameters as JSON has them, and files by a path that holds in any folder.

    Those that say what is the default anyway are left out.
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
    """The names of schemes, and what they are given other than their defaults.

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


def _stretches(flag: str, text: str) -> tuple[str, ...]:
    return _names(flag, text, STRETCH_NAMES)


def _tasks(flag: str, text: str) -> tuple[str, ...]:
    return _names(flag, text, [*TASKS])


def _names(flag: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one_of(flag, part.strip(), known) for part in text.split(",")))


def _rate(flag: str, text: str) -> Any:
    return _RATE.value(text, flag=flag)


def _device(flag: str, text: str) -> str:
    return device_name(flag, text) or "cpu"


def _lengths(flag: str, text: str) -> tuple[str, ...]:
    """Lengths, or as many times the trained one: whole numbers, an x after some.

    Raises: InvalidInput.
    """
    parts = [part.strip() for part in text.split(",")]
    return tuple(
        f"{whole_number(flag, part.removesuffix('x') or part, minimum=1)}{'x' * part.endswith('x')}"
        for part in parts
    )


def _size(flag: str, text: str) -> ModelSize:
    numbers = re.fullmatch(r"([1-9][0-9]*)[x×]([1-9][0-9]*)[x×]([1-9][0-9]*)", text, re.ASCII)
    if numbers is None:
        raise InvalidInput(
            f"{flag} {abbreviated(text)}: must be LAYERSxHEADSxCOLUMNS, as in 2x4x16"
        )
    size = ModelSize(*(int(number[:20]) for number in numbers.groups()))
    for name, unit in (("layers", "layers"), ("heads", "heads"), ("head_dim", "columns of a head")):
        check_size(
            f"{flag} {abbreviated(text)}", getattr(size, name), getattr(LARGEST_SIZE, name), unit
        )
    check_size(f"{flag} {size}", size.width, 4096, "columns")
    return size


def _bounded(flag: str, most: int, unit: str, **settings: Any) -> Any:
    """An option that is a whole number from 1 to the most that is taken."""

    def parse(flag: str, text: str) -> int:
        number = whole_number(flag, text, minimum=1)
        check_size(f"{flag} {number}", number, most, unit)
        return number

    return option(flag, metavar="N", parse=parse, **settings)


def _shard(flag: str, text: str) -> tuple[int, int]:
    numbers = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text, re.ASCII)
    part, parts = map(int, numbers.groups()) if numbers else (0, 0)
    if not 1 <= part <= parts:
        raise InvalidInput(f"{flag} {abbreviated(text)}: must be K/N, K from 1 to N")
    return part, parts


class TrainingOptions(OptionGroup):
    """What is trained and where it is tested: what is not said has a default, or the folder's."""

    stretches: Annotated[
        Any,  # tuple[str, ...] | None, which Typer would read word by word
        option(
            "--stretch",
            metavar="NAMES",
            help=f"at test time alone, by commas: {'|'.join(STRETCH_NAMES)} [default: none]",
            parse=_stretches,
        ),
    ] = None
    tasks: Annotated[
        Any,  # tuple[str, ...] | None
        option(
            "--task",
            metavar="NAMES",
            help=f"what is learned, by commas: {'|'.join(TASKS)} [default: text]",
            parse=_tasks,
        ),
    ] = None
    trained: Annotated[
        int | None,
        whole_option(
            "--train",
            minimum=1,
            help="the trained length, in characters, symbols, numbers or digits [default: by the "
            f"task, {', '.join(f'{name} {task.trained}' for name, task in TASKS.items())}]",
        ),
    ] = None
    tests: Annotated[
        Any,  # tuple[str, ...] | None
        option(
            "--test",
            metavar="LENGTHS",
            help="longer lengths, by commas: 200,400 or 2x,4x [default: 2x,4x,8x]",
            parse=_lengths,
        ),
    ] = None
    seeds: Annotated[
        int | None,
        _bounded("--seeds", MOST_SEEDS, "seeds", help="models of each encoding [default: 3]"),
    ] = None
    steps: Annotated[
        int | None,
        _bounded("--steps", MOST_STEPS, "steps", help="of training [default: 1000]"),
    ] = None
    batch: Annotated[
        int | None,
        _bounded("--batch", MOST_BATCH, "sequences", help="sequences of a step [default: 16]"),
    ] = None
    size: Annotated[
        ModelSize | None,
        option(
            "--size",
            metavar="SIZE",
            help="LAYERSxHEADSxCOLUMNS, columns of a head [default: 2x4x16]",
            parse=_size,
        ),
    ] = None
    learning_rate: Annotated[
        float | None,
        option(
            "--learning-rate",
            metavar="X",
            help="the largest; it rises to it and falls again [default: 0.003]",
            parse=_rate,
        ),
    ] = None
    last: Annotated[
        int | None,
        whole_option(
            "--last", minimum=1, help="last places that are averaged [default: half of --train]"
        ),
    ] = None
    text: Annotated[
        str | None,
        option("--text", metavar="FILE", help="a text to learn in place of posenc's own"),
    ] = None
    positions: Annotated[
        int | None,
        whole_option(
            "--randomize",
            minimum=1,
            help="train at positions drawn below N, in order (after Ruoss et al.)",
        ),
    ] = None

    def fields(self) -> dict[str, Any]:
        """What of a request is said, by the names of its fields.

        Raises: InvalidInput, Unavailable where the text cannot be had.
        """
        said = {name: value for name, value in self.as_dict().items() if value is not None}
        if self.text is None:
            return said
        if self.text == STANDARD_OUTPUT:
            raise InvalidInput("--text -: must be a file, which each job reads by itself")
        if self.tasks is not None and "text" not in self.tasks:
            raise InvalidInput(f"--text {abbreviated(self.text)}: goes with --task text")
        from posenc_cli.experiments.corpus import Corpus

        digest = Corpus.of_file(self.text).digest
        return {**said, "text": str(Path(self.text).absolute()), "digest": digest}


class RunningOptions(OptionGroup):
    """What runs the jobs, and where."""

    heading = "Computing"

    scheduler: Annotated[
        str | None,
        option(
            "--scheduler",
            metavar="NAME",
            help="local, or dask://HOST:PORT (extra: dask) [default: local]",
        ),
    ] = None
    workers: Annotated[
        int | None,
        _bounded(
            "--workers",
            MOST_WORKERS,
            "processes",
            help="local processes side by side, of one thread each [default: one a core]",
        ),
    ] = None
    device: Annotated[
        str | None,
        option(
            "--device",
            metavar="NAME",
            help="cpu|cuda|mps… [default: cpu]",
            parse=_device,
        ),
    ] = None
    seeds_per_job: Annotated[
        int | None,
        _bounded(
            "--seeds-per-job",
            MOST_SEEDS,
            "seeds",
            help="seeds that are trained as one batched model [default: 5]",
        ),
    ] = None
    shard: Annotated[
        Any,  # tuple[int, int] | None
        option(
            "--shard",
            metavar="K/N",
            help="run the Kth of N parts of the jobs, for arrays of jobs; --merge joins them",
            parse=_shard,
        ),
    ] = None

    def fields(self) -> dict[str, Any]:
        """What of a request is said, by the names of its fields."""
        asked = {"device": self.device, "seeds_per_job": self.seeds_per_job}
        return {name: value for name, value in asked.items() if value is not None}

    def check_none(self) -> None:
        """Refuse what says how jobs run, where none does.

        Raises: InvalidInput.
        """
        shard = None if self.shard is None else "{}/{}".format(*self.shard)
        for flag, value in (
            ("--shard", shard),
            ("--scheduler", self.scheduler),
            ("--workers", self.workers),
        ):
            if value is not None:
                raise InvalidInput(f"{flag} {value}: nothing runs with --merge")


class FolderOptions(OptionGroup):
    """The folder of a run, and the folders of others that are joined."""

    heading = "Output"

    folder: Annotated[
        str | None,
        option(
            "--out",
            "-o",
            metavar="FOLDER",
            help="keep the run there: request, seeds, versions, losses; new, or else --resume",
        ),
    ] = None
    resume: Annotated[
        bool, option("--resume", help="go on with the run of --out, to the same bits")
    ] = False
    merge: Annotated[
        list[str] | None,
        option(
            "--merge",
            metavar="FOLDER",
            help="run nothing: join the results of a run's shards; repeatable",
        ),
    ] = None

    def check(self, running: RunningOptions) -> None:
        """Refuse options that do not go together.

        Raises: InvalidInput.
        """
        if self.merge:
            running.check_none()
            if self.resume:
                raise InvalidInput("--resume: nothing runs with --merge")
        elif self.folder is None and self.resume:
            raise InvalidInput("--resume: needs --out with the folder of the run")
        elif self.folder is None and running.shard is not None:
            raise InvalidInput("--shard: needs --out, from which --merge joins the parts")
        if self.folder == STANDARD_OUTPUT:
            raise InvalidInput("--out -: must be a folder")


class ExperimentOutput(PlotOutput):
    """Where results go beside the run folder, which is what --out names here.

    A picture goes where ``--picture`` says.
    """

    file_flag: ClassVar[str] = "--picture"

    out: Annotated[
        str | None,
        option("--picture", metavar="FILE", help="draw it to a .png, .svg or .pdf file"),
    ] = None
    markdown: Annotated[bool, option("--markdown", help="as a table in Markdown")] = False
    csv: Annotated[
        str | None,
        option("--csv", metavar="FILE", help="the loss at every position, of every run, as CSV"),
    ] = None

    def prepare(self) -> None:
        """Refuse, before anything is computed, files that could not be written.

        Raises: InvalidInput, Unavailable.
        """
        super().prepare()
        if self.markdown and self.json:
            raise InvalidInput("--markdown: cannot go with --json")
        if self.csv is None:
            return
        if self.csv == STANDARD_OUTPUT:
            raise InvalidInput("--csv -: must be a file", hint="--json goes to standard output")
        preflight(self.csv, clobber=self.clobber)


def extrapolate(
    encodings: TrainedEncodings,
    console: Console,
    *,
    training: TrainingOptions,
    unit: Annotated[
        str, option("--unit", known=("nats", "bits"), help="of losses: nats|bits")
    ] = "nats",
    picture: PictureOptions,
    where: FolderOptions,
    output: ExperimentOutput,
    running: RunningOptions,
) -> None:
    """Train small transformers short, and test them long.

    The same small causal transformer is trained once for each encoding and seed, at one length,
    and tested at it and at longer ones. --stretch changes a trained model at test time, without
    training. Shown is the loss over the last places of each length, with its 95% interval over
    seeds; --plot and --picture draw the loss at every position.

    A model is judged only where it has learnt: its loss on a text, or its share of right answers,
    must reach at the trained length what is asked there. Where not all seeds have, the report says
    so in place of a verdict. No ranking is made: which encoding does best depends on the task.

    On one machine, with the same versions, the same request gives the same bytes. Others stay
    within the printed spread. What is stopped loses nothing that --out keeps: --resume goes on, to
    the bits of a run that was not stopped.

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
            request, results = _run(stack, where, running, said, console)
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
) -> tuple[ExperimentRequest, Sequence[JobResult]]:
    """Run the jobs that have no result yet: the request, and the results of those asked for."""
    from posenc_cli.experiments.folder import RunFolder, shard
    from posenc_cli.experiments.schedulers import scheduler_of

    scheduler = scheduler_of(running.scheduler or "local", running.workers)
    if where.resume:
        folder = RunFolder.found(Path(where.folder or ""))
        request = folder.request
        folder.check_same(replace(request, **said))
    else:
        request = ExperimentRequest(**{"encodings": default_encodings(), **said})
    jobs = request.jobs()
    if running.shard is not None:
        check_size("--shard {}/{}".format(*running.shard), running.shard[1], len(jobs), "parts")
        jobs = shard(jobs, running.shard)
    _check_jobs(jobs)
    if not where.resume:
        _check_torch(scheduler, request.device)
        path = stack.enter_context(_folder(where, console))
        folder = RunFolder.made(path, request)
    with folder.locked() as lock:
        missing = folder.missing(jobs)
        if missing:
            _check_torch(scheduler, request.device)
            with steps_shown(console, "steps") as progress:
                scheduler.run(missing, folder, progress, lock=lock)
        return request, _results(folder, jobs)


def default_encodings() -> tuple[EncodingRequest, ...]:
    """The encodings that are trained where none is named."""
    return tuple(EncodingRequest(name, ((name, {}),)) for name in DEFAULTS)


def _results(folder: RunFolder, jobs: Sequence[Job]) -> list[JobResult]:
    results = [folder.result(job) for job in jobs]
    return [result for result in results if result is not None]


@contextmanager
def _folder(where: FolderOptions, console: Console) -> Iterator[Path]:
    """The folder of a new run: one that is gone at the end where none is named."""
    if where.folder is not None:
        yield Path(where.folder)
        return
    console.summary("nothing of this run is kept; --out FOLDER keeps it, for --resume")
    path = Path(tempfile.mkdtemp(prefix="posenc-"))

    def remove() -> None:
        shutil.rmtree(path, ignore_errors=True)

    interrupts.clean_up_by(remove)
    try:
        yield path
    finally:
        remove()
        interrupts.clean_up_no_more_by(remove)


def _check_jobs(jobs: Sequence[Job]) -> None:
    """Refuse what a job would refuse, before any is run.

    Raises: InvalidInput, Unavailable.
    """
    from posenc_cli.experiments.setting import JobSetting

    kinds = {(job.task, job.place): job for job in jobs}
    for job in kinds.values():
        _check_step(job, JobSetting.of(job))


def _check_step(job: Job, setting: JobSetting) -> None:
    """Refuse a step of training that would not go into memory."""
    request = job.request
    columns = setting.task.tokens(setting.trained)
    seeds = min(request.seeds, request.seeds_per_job)
    check_size(
        f"--train {setting.trained} --batch {request.batch}",
        seeds * request.batch * request.size.heads * columns**2,
        _PAIRS,
        "scores of a step",
        hint="--seeds-per-job 1 trains one seed at a time",
    )
    tables = [part.learnable for part in setting.parts]
    check_size(
        f"--scheme {job.encoding.label}",
        seeds * sum(table.rows * table.columns for table in tables if table is not None),
        HELD_VALUES,
        "learned numbers",
    )


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
            "torch is not installed, by which extrapolate trains",
            hint='pip install "posenc-cli[torch]"; posenc heads runs without it',
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
    from posenc_cli.render import extrapolation

    report = extrapolation.ExperimentReport.of(request, results, unit)
    if output.csv is not None:
        with replacing(output.csv, clobber=output.clobber) as stream:
            for block in report.csv():
                stream.write(block)
    fields = report.fields() if output.json else None
    text = report.markdown() if output.markdown else report.text(console.typesetter)
    if output.draws:
        json = None if fields is None else ("extrapolate", fields)
        look = output.look_above(text, picture, console)
        show(report.figure(), look, output, console, json=json)
    elif fields is not None:
        console.json("extrapolate", fields)
    if not output.json:
        output.report(text)
