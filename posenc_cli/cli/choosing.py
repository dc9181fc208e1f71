"""The encoding and the positions that a command line chooses, and the options that choose them."""

from __future__ import annotations

import os
import re
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli import catalogue
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import (
    OptionGroup,
    Setting,
    one_of,
    option,
    settings_of,
    settings_option,
    whole_number,
    whole_option,
)
from posenc_cli.errors import InvalidInput, abbreviated, nearest
from posenc_cli.positions import Positions
from posenc_cli.records import Record, fresh, replace
from posenc_cli.schemes.parameters import OWN_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from inspect import Parameter

    from posenc_cli.backends.base import Arithmetic
    from posenc_cli.encode.engine import Engine
    from posenc_cli.encode.precision import Precision
    from posenc_cli.encode.request import Encoding, Plan, Request
    from posenc_cli.schemes.declare import Scheme

LARGEST_THREADS = 256


class Choice(Record):
    """The encoding and the positions that a command line chooses.

    A hybrid ``A+B`` has a choice for each of its ``parts``. Of a config or a model, ``origin`` says
    which it was and how it was read, ``warnings`` what a reader of the result should know, and
    ``context`` how many positions the model takes and where that is said.
    """

    scheme: Scheme
    given: Mapping[str, object]
    positions: Positions | None
    backend: str = "auto"
    device: str | None = None
    threads: int | None = None
    parts: tuple[Choice, ...] = ()
    warnings: tuple[str, ...] = ()
    origin: Mapping[str, str] = fresh(dict)
    context: tuple[int, str] | None = None

    @property
    def source(self) -> str:
        """The config or the model that was named, if one was."""
        return self.origin.get("config") or self.origin.get("model", "")

    @property
    def name(self) -> str:
        """What names the encoding: its scheme, or those of its parts joined by ``+``."""
        return "+".join(part.scheme.name for part in self.parts) or self.scheme.name

    def engine(self, plan: Plan, *, arithmetic: Arithmetic = "exact") -> Engine:
        """What computes a plan: the backend asked for, or the one that suits it.

        Raises: InvalidInput, Unavailable: it does not exist, or cannot be used here.
        """
        from posenc_cli.backends.registry import choose, find
        from posenc_cli.encode.engine import Engine, threads_for

        values = plan.long_waves if arithmetic == "exact" else None
        backend = choose(self.backend, device=self.device, values=values).backend
        if plan.computed_as != "waves":
            # Asked for by name or device, it must exist; but rows and scores are NumPy's.
            backend = find("numpy")
        return Engine(
            backend=backend,
            arithmetic=arithmetic,
            device=self.device,
            threads=threads_for(plan.values, self.threads),
        )

    def encoding(self, seq_len: int | None = None) -> Encoding:
        """The scheme with its parameters settled, for its positions unless a length is said.

        Raises: InvalidInput where the choice is a hybrid: each of its parts has its own.
        """
        from posenc_cli.encode.request import Encoding

        if self.parts:
            raise InvalidInput(
                f"--scheme {self.name}: is {len(self.parts)} encodings, and this takes one",
                hint=f"--scheme {self.scheme.name}",
            )
        if seq_len is None and self.positions is not None:
            seq_len = self.positions.last + 1
        return Encoding.of(self.scheme, self.given, seq_len=seq_len)

    def at_first(self, count: int) -> Choice:
        """The choice at its first positions: so many, or as many as it has."""
        capacity = self.encoding().bound.content.capacity
        count = min(count, capacity.positions) if capacity else count
        return replace(self, positions=Positions.contiguous(0, count))

    def requests(
        self, precision: Precision, *, table: str | None = None, head: int | None = None
    ) -> list[Request]:
        """What is asked for of each part: the table of a rotary one, the head of a bias.

        Raises: InvalidInput where a hybrid has no part that a table or a head is of.
        """
        from posenc_cli.encode.request import Request

        kinds = [part.scheme.kind for part in self.parts]
        for flag, value, kind in (("--table", table, "rotary"), ("--head", head, "bias")):
            if kinds and value is not None and kind not in kinds:
                raise InvalidInput(f"{flag} {value}: no part of {self.name} is {kind}")
        return [
            Request(
                part.encoding(),
                part.positions,
                precision,
                table=table if not kinds or part.scheme.kind == "rotary" else None,
                head=head if not kinds or part.scheme.kind == "bias" else None,
            )
            for part in self.parts or (self,)
        ]


def check_subject(choice: Choice | None, source: str | None) -> None:
    """Refuse neither, or both, of an encoding and the file of ``--in``.

    Raises: InvalidInput.
    """
    if choice is not None and source is not None:
        raise InvalidInput("--in: cannot go with --scheme, --config or --model; give one of them")
    if choice is None and source is None:
        raise InvalidInput(
            "--scheme, --config, --model or --in: give one of them",
            hint="posenc schemes and posenc models list what there is",
        )


class SourceOptions(OptionGroup):
    """What names an encoding, and how a config is read."""

    scheme: Annotated[
        list[str] | None,
        option(
            "--scheme",
            "-s",
            metavar="NAME",
            help="a name that posenc schemes lists, or package.module:attribute; A+B, or the "
            "option repeated, for several",
        ),
    ] = None
    config: Annotated[
        str | None,
        option(
            "--config",
            metavar="FILE",
            help="the encoding of a Hugging Face config.json, or of the folder that holds one",
        ),
    ] = None
    model: Annotated[
        str | None,
        option(
            "--model",
            "-m",
            metavar="NAME",
            help="the encoding of a model that posenc models lists",
        ),
    ] = None
    layer_type: Annotated[
        str | None,
        option("--layer-type", metavar="NAME", help="which layers of a config, where they differ"),
    ] = None
    runtime: Annotated[
        str | None,
        option(
            "--as",
            metavar="ENGINE",
            help="read a config as vllm, vllm-0.11, llama.cpp or transformers-4.50 does",
        ),
    ] = None

    @property
    def names(self) -> dict[str, str]:
        """The encodings that are named, by the option that names each."""
        schemes = "+".join(self.scheme) if self.scheme else None
        sources = {"--scheme": schemes, "--config": self.config, "--model": self.model}
        return {flag: name for flag, name in sources.items() if name is not None}

    @property
    def reading(self) -> dict[str, str]:
        """What is said of how a config is read, by option."""
        options = {"--as": self.runtime, "--layer-type": self.layer_type}
        return {flag: name for flag, name in options.items() if name is not None}


def _positions(_flag: str, text: str) -> Positions:
    return Positions.parse(text).within_exact_range()


class PositionOptions(OptionGroup):
    """Which positions."""

    length: Annotated[
        int | None,
        whole_option("--len", "-l", minimum=1, help="how many positions"),
    ] = None
    start: Annotated[
        int | None,
        whole_option("--start", minimum=0, help="the first position [default: 0]"),
    ] = None
    positions: Annotated[
        Positions | None,
        option(
            "--positions",
            metavar="SPEC",
            help="0:4096, 0:1000000:1000 or 5,17,4096 (half-open), in place of --len",
            parse=_positions,
        ),
    ] = None

    @property
    def texts(self) -> dict[str, str]:
        """What is given, by option."""
        options = {"--len": self.length, "--start": self.start, "--positions": self.positions}
        return {flag: str(value) for flag, value in options.items() if value is not None}

    def resolve(self) -> Positions | None:
        """The positions asked for, None where the options say nothing.

        Raises: InvalidInput where they contradict each other, or reach past the last exact one.
        """
        if self.positions is not None:
            flag, text = next(iter(self.texts.items()))
            if flag != "--positions":
                raise InvalidInput(f"{flag} {abbreviated(text)}: cannot go with --positions")
            return self.positions
        if self.length is None:
            if self.start is not None:
                raise InvalidInput(f"--start {abbreviated(str(self.start))}: needs --len")
            return None
        wanted = Positions.contiguous(self.start or 0, self.length)
        return wanted.within_exact_range(option=wanted.option)


class ParameterOptions(OptionGroup):
    """The parameters of a scheme, whose declaration reads their texts."""

    dim: Annotated[str | None, option(*OWN_OPTIONS["dim"])] = None
    heads: Annotated[str | None, option(*OWN_OPTIONS["heads"])] = None
    base: Annotated[str | None, option(*OWN_OPTIONS["base"])] = None
    layout: Annotated[str | None, option(*OWN_OPTIONS["layout"])] = None
    settings: Annotated[
        list[Setting] | None,
        settings_option("any other parameter, repeatable; posenc schemes NAME documents them"),
    ] = None

    @property
    def own(self) -> dict[str, str]:
        """The parameters that are given by an option of their own."""
        values = self.as_dict()
        return {name: values[name] for name in OWN_OPTIONS if values[name] is not None}

    @property
    def texts(self) -> dict[str, str]:
        """What is given, by option; of several settings the first."""
        settings = [("--set", setting.text) for setting in (self.settings or ())[:1]]
        own = [(OWN_OPTIONS[name][0], value) for name, value in self.own.items()]
        return dict([*settings, *own])


def _device(flag: str, name: str) -> str | None:
    """A device, None for the CPU, which every backend has."""
    if name in ("cpu", "cpu:0"):
        return None
    if not re.fullmatch(r"[a-z]+(:[0-9]{1,3})?", name) or name.startswith("cpu"):
        raise InvalidInput(
            f"{flag} {abbreviated(name)}: must be a device such as cpu, cuda, cuda:1 or mps",
            hint=nearest(name.lower(), ["cpu", "cuda", "mps"]),
        )
    return name


def _threads(flag: str, text: str) -> int:
    count = whole_number(flag, text, minimum=1)
    if count > LARGEST_THREADS:
        raise InvalidInput(f"{flag} {count}: must be at most {LARGEST_THREADS}")
    return count


class ComputeOptions(OptionGroup):
    """What computes, where an option or else the environment says so."""

    backend: Annotated[
        str | None,
        option(
            "--backend",
            metavar="NAME",
            help="auto|numpy|fast|torch|…; posenc backends lists them [default: auto]",
        ),
    ] = None
    device: Annotated[
        str | None, option("--device", metavar="NAME", help="cpu|cuda|mps…", parse=_device)
    ] = None
    threads: Annotated[
        int | None,
        option("--threads", metavar="N", help="[default: by the size]", parse=_threads),
    ] = None

    def resolve(self) -> dict[str, Any]:
        """What a choice holds of it.

        Raises: InvalidInput where the environment names what is not there.
        """
        threads = self.threads
        if threads is None and (text := os.environ.get("POSENC_THREADS")):
            threads = _threads("POSENC_THREADS", text)
        backend = self.backend or _environments_backend()
        return {"backend": backend, "device": self.device, "threads": threads}


def _environments_backend() -> str:
    """The backend that the environment names, else auto."""
    name = os.environ.get("POSENC_BACKEND") or "auto"
    if name == "auto":
        return name
    from posenc_cli.backends.registry import names

    return one_of("POSENC_BACKEND", name, ["auto", *names()])


def choice_of(
    source: SourceOptions,
    where: PositionOptions,
    parameters: ParameterOptions,
    computing: ComputeOptions,
    console: Console,
) -> Choice | None:
    """The choice that the options of a command line make, None where none names an encoding.

    Raises: InvalidInput where several do, or an option says something of one that is not named.
    """
    names = source.names
    if len(names) > 1:
        raise InvalidInput(f"{' and '.join(names)}: give one of them")
    if not names:
        for flag, text in (where.texts | source.reading | parameters.texts).items():
            raise InvalidInput(
                f"{flag} {abbreviated(text)}: says how to encode, and nothing says what",
                hint="name an encoding by --scheme, --config or --model",
            )
        return None
    given: dict[str, object] = {**parameters.own}
    given |= settings_of(parameters.settings, given)
    fields = {"positions": where.resolve(), **computing.resolve()}
    if "--scheme" in names:
        for flag, text in source.reading.items():
            raise InvalidInput(f"{flag} {abbreviated(text)}: goes with --config or --model")
        return _of_schemes(names["--scheme"], given, **fields)
    choice = _of_config(source, given, **fields)
    for warning in choice.warnings:
        console.warning(warning)
    return choice


def required_choice(choice: Choice | None) -> Choice:
    """The choice, for a command that cannot do without one.

    Raises: InvalidInput where there is none.
    """
    if choice is None:
        raise InvalidInput(
            "--scheme, --config or --model: one of them is needed",
            hint="posenc schemes and posenc models list what there is",
        )
    return choice


MAKERS: Mapping[object, Callable[..., Any]] = {Choice: required_choice, Choice | None: choice_of}
"""What makes a command's parameter of such a type, of options and of other such parameters."""


def _of_config(source: SourceOptions, given: Mapping[str, object], **fields: Any) -> Choice:
    """The choice of a config or a model, whose parameters those ``given`` replace."""
    from posenc_cli.models.config import read_config, resolve
    from posenc_cli.models.library import find as find_model

    ((flag, name),) = source.names.items()
    config = read_config(name) if flag == "--config" else find_model(name).config
    resolved = resolve(config, runtime=source.runtime or "transformers", name=name)
    layers = resolved.layer(source.layer_type)
    scheme = catalogue.find(layers.scheme)
    warnings = list(resolved.warnings)
    if scheme.weights and not {"weights", "seed"} & {*given}:
        warnings.append(
            f"{name}: says how large its table is, and not what was trained: the values are "
            "drawn at random (--set weights=FILE reads them)"
        )
    origin = {flag.removeprefix("--"): name, "layer_type": source.layer_type, "as": source.runtime}
    context = layers.derived.get("context")
    return Choice(
        scheme,
        {**layers.values(), **given},
        **fields,
        warnings=tuple(warnings),
        origin={key: text for key, text in origin.items() if text is not None},
        context=None if context is None else (int(context.value), context.source),
    )


def _of_schemes(name: str, given: dict[str, object], **fields: Any) -> Choice:
    """The choice of a scheme, or of the parts of a hybrid ``A+B``.

    A part takes the parameters it has, and ``part.name`` is a parameter of that part alone.
    """
    if not all(name.split("+")):
        raise InvalidInput(f"--scheme {abbreviated(name)}: must be A+B, with a name on either side")
    schemes = [catalogue.find(part) for part in name.split("+")]
    if len(schemes) == 1:
        return Choice(schemes[0], given, **fields)
    names = [scheme.name for scheme in schemes]
    for part in names:
        if names.count(part) > 1:
            raise InvalidInput(f"--scheme {abbreviated(name)}: {part} is in it twice")
    parts = []
    taken: set[str] = set()
    for scheme in schemes:
        # Dashes in the names of parameters are underscores to --set, and so in these.
        own = {key: f"{scheme.name}.{key}".replace("-", "_") for key in scheme.parameters}
        mine = {
            key: given[full] if full in given else given[key]
            for key, full in own.items()
            if full in given or key in given
        }
        taken |= {*mine, *own.values()}
        parts.append(Choice(scheme, mine, **fields))
    for key in given:
        if key not in taken:
            raise InvalidInput(
                f"--set {key}: none of {', '.join(names)} has a parameter {key!r}",
                hint=nearest(key, chain.from_iterable(scheme.parameters for scheme in schemes)),
            )
    return Choice(schemes[0], {}, **fields, parts=tuple(parts))


def documented_option(name: str) -> Parameter:
    """The option of schemes' parameters of a name, with what their declarations say of it."""
    declared = {
        scheme.name: scheme.parameters[name]
        for scheme in catalogue.BUILT_IN.values()
        if name in scheme.parameters
    }
    first = next(iter(declared.values()))
    schemes_of_choices: dict[tuple[str, ...], list[str]] = {}
    for scheme, parameter in declared.items():
        if parameter.choices:
            schemes_of_choices.setdefault(parameter.choices, []).append(scheme)
    choices = "; ".join(
        f"{'|'.join(choices)} ({_called_together(schemes)})"
        for choices, schemes in schemes_of_choices.items()
    )
    defaults = Counter(
        parameter.default_text for parameter in declared.values() if parameter.default_text
    )
    usual = next((text for text, _ in defaults.most_common(1)), "")
    others = ", or the scheme's own" if defaults[usual] < len(declared) else ""
    default = f" [default: {usual}{others}]" if usual else ""
    documented = option(
        *OWN_OPTIONS[name],
        help=f"{choices or first.rules.help}{default}",
        metavar="NAME" if choices else {int: "N", float: "X"}[first.type],
    )
    own = ParameterOptions.parameters()[name]
    return own.replace(annotation=Annotated[str | None, documented])


def _called_together(names: list[str]) -> str:
    """Schemes by name, or by their kind where they are many."""
    kinds = {catalogue.BUILT_IN[name].kind for name in names}
    return f"{kinds.pop()} schemes" if len(names) > 3 and len(kinds) == 1 else ", ".join(names)
