"""Options of experiments: what is trained, where it is tested, and what runs it."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from posenc_cli.budget import check_size
from posenc_cli.cli.choosing import device_name
from posenc_cli.cli.options import (
    OptionGroup,
    TestLengths,
    option,
    refuse,
    some_of,
    whole_option,
)
from posenc_cli.errors import InvalidInput, abbreviated
from posenc_cli.experiments.request import (
    LARGEST_SIZE,
    MOST_BATCH,
    MOST_SEEDS,
    MOST_STEPS,
    STRETCH_NAMES,
    ModelSize,
)
from posenc_cli.experiments.tasks import TASKS
from posenc_cli.files.atomic import STANDARD_OUTPUT

MOST_WORKERS = 256


def _size(flag: str, text: str) -> ModelSize:
    numbers = re.fullmatch(r"([1-9][0-9]*)[x×]([1-9][0-9]*)[x×]([1-9][0-9]*)", text, re.ASCII)
    if numbers is None:
        raise InvalidInput(f"{flag} {abbreviated(text)}: must be LAYERSxHEADSxDIM, as in 2x4x16")
    size = ModelSize(*(int(number[:20]) for number in numbers.groups()))
    for name, unit in (("layers", "layers"), ("heads", "heads"), ("head_dim", "columns of a head")):
        check_size(
            f"{flag} {abbreviated(text)}", getattr(size, name), getattr(LARGEST_SIZE, name), unit
        )
    check_size(f"{flag} {size}", size.width, 4096, "columns")
    return size


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
            help="context extension at test time, comma-separated: "
            f"{'|'.join(STRETCH_NAMES)} [default: none]",
            parse=partial(some_of, known=STRETCH_NAMES),
        ),
    ] = None
    tasks: Annotated[
        Any,  # tuple[str, ...] | None
        option(
            "--task",
            metavar="NAMES",
            help=f"tasks to learn, comma-separated: {'|'.join(TASKS)} [default: text]",
            parse=partial(some_of, known=TASKS),
        ),
    ] = None
    trained: Annotated[
        int | None,
        whole_option(
            "--train",
            minimum=1,
            help="trained length, in characters, symbols, numbers or digits [default: depends "
            f"on the task: {', '.join(f'{name} {task.trained}' for name, task in TASKS.items())}]",
        ),
    ] = None
    tests: TestLengths = None
    seeds: Annotated[
        int | None,
        whole_option(
            "--seeds", minimum=1, most=MOST_SEEDS, help="number of models per encoding [default: 3]"
        ),
    ] = None
    steps: Annotated[
        int | None,
        whole_option("--steps", minimum=1, most=MOST_STEPS, help="training steps [default: 1000]"),
    ] = None
    batch: Annotated[
        int | None,
        whole_option(
            "--batch", minimum=1, most=MOST_BATCH, help="sequences per step [default: 16]"
        ),
    ] = None
    size: Annotated[
        ModelSize | None,
        option(
            "--size",
            metavar="SIZE",
            help="LAYERSxHEADSxDIM, with DIM per head [default: 2x4x16]",
            parse=_size,
        ),
    ] = None
    last: Annotated[
        int | None,
        whole_option(
            "--last",
            minimum=1,
            help="number of last positions to average the loss over [default: half of --train]",
        ),
    ] = None
    text: Annotated[
        str | None,
        option("--text", metavar="FILE", help="text to train on instead of posenc's own"),
    ] = None
    positions: Annotated[
        int | None,
        whole_option(
            "--randomize",
            minimum=1,
            help="train at random positions below N, sorted (Ruoss et al.)",
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

    heading = "Running"

    scheduler: Annotated[
        str | None,
        option(
            "--scheduler",
            metavar="NAME",
            help="local, or dask://HOST:PORT (needs the extra dask) [default: local]",
        ),
    ] = None
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
    seeds_per_job: Annotated[
        int | None,
        whole_option(
            "--seeds-per-job",
            minimum=1,
            most=MOST_SEEDS,
            help="seeds to train together as one batched model [default: 5]",
        ),
    ] = None
    shard: Annotated[
        Any,  # tuple[int, int] | None
        option(
            "--shard",
            metavar="K/N",
            help="run part K of N, for job arrays; --merge joins the parts",
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
        running = {"--shard": shard, "--scheduler": self.scheduler, "--workers": self.workers}
        refuse(running, "nothing runs with --merge")


class FolderOptions(OptionGroup):
    """The folder of a run, and the folders of others that are joined."""

    heading = "Output"

    folder: Annotated[
        str | None,
        option(
            "--out",
            "-o",
            metavar="FOLDER",
            help="folder to keep the run in (request, seeds, versions, losses): a new one, or use "
            "--resume",
        ),
    ] = None
    resume: Annotated[bool, option("--resume", help="continue the run in --out")] = False
    merge: Annotated[
        list[str] | None,
        option(
            "--merge",
            metavar="FOLDER",
            help="train nothing; join the results of a run's shards; repeatable",
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
