"""The options of commands.

Those that choose an encoding derive from the declarations of the schemes; a few every command has.
"""

from __future__ import annotations

import inspect
import os
import re
from collections import Counter
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posenc_cli import catalogue
from posenc_cli.cli.console import Console
from posenc_cli.cli.streams import ReaderGone
from posenc_cli.errors import InvalidInput, abbreviated, nearest
from posenc_cli.positions import Positions
from posenc_cli.records import Record, fresh
from posenc_cli.schemes.parameters import OWN_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from posenc_cli.encode.engine import Engine
    from posenc_cli.encode.request import Encoding, Plan
    from posenc_cli.schemes.declare import Scheme

ARITHMETICS = ("exact", "float64", "float32", "bfloat16")
LARGEST_THREADS = 256
COLORS = ("auto", "always", "never")


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

    def engine(self, plan: Plan, *, arithmetic: str = "exact") -> Engine:
        """What computes a plan: the backend asked for, or the one that suits it.

        Raises: InvalidInput, Unavailable: it does not exist, or cannot be used here.
        """
        from posenc_cli.backends.registry import chosen, find
        from posenc_cli.encode.engine import Engine, threads_for

        values = plan.long_waves if arithmetic == "exact" else None
        backend = chosen(self.backend, device=self.device, values=values).backend
        if plan.computed_as != "waves":
            # Asked for by name or device, it must exist; but rows and scores are NumPy's.
            backend = find("numpy")
        return Engine(
            backend=backend,
            arithmetic=arithmetic,  # type: ignore[arg-type]
            device=self.device,
            threads=threads_for(plan.values, self.threads),
        )

    def encoding(self) -> Encoding:
        """The scheme with its parameters settled.

        Raises: InvalidInput where the choice is a hybrid: each of its parts has its own.
        """
        from posenc_cli.encode.request import Encoding

        if self.parts:
            raise InvalidInput(
                f"--scheme {self.name}: is {len(self.parts)} encodings, and this takes one",
                hint=f"--scheme {self.scheme.name}",
            )
        seq_len = self.positions.last + 1 if self.positions else None
        return Encoding.of(self.scheme, self.given, seq_len=seq_len)


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


def one_of(flag: str, value: str, known: Iterable[str]) -> str:
    """``value``, after a check that it is one of the known.

    Raises: InvalidInput with the nearest known value as a hint.
    """
    names = list(known)
    if value not in names:
        raise InvalidInput(
            f"{flag} {abbreviated(value)}: must be one of {', '.join(names)}",
            hint=nearest(value, names),
        )
    return value


def whole_number(flag: str, text: str, *, minimum: int) -> int:
    """The integer that ``text`` writes in plain digits.

    Raises: InvalidInput naming the option.
    """
    if not re.fullmatch(r"[+-]?[0-9]+", text.strip()):
        raise InvalidInput(f"{flag} {abbreviated(text)}: must be an integer in plain digits")
    digits = text.strip().lstrip("+-0") or "0"
    if len(digits) > 40:
        raise InvalidInput(f"{flag} {abbreviated(text)}: is past 2^53, the last exact position")
    number = -int(digits) if text.strip().startswith("-") else int(digits)
    if number < minimum:
        raise InvalidInput(f"{flag} {number}: must be at least {minimum}")
    return number


def _chosen(
    *,
    scheme: list[str] | None,
    config: str | None,
    model: str | None,
    length: str | None,
    start: str | None,
    positions: str | None,
    settings: list[str] | None,
    backend: str | None,
    device: str | None,
    threads: str | None,
    layer_type: str | None,
    runtime: str | None,
    **own: str | None,
) -> Choice | None:
    """The choice that the options of a command line make, None where none names an encoding.

    Raises: InvalidInput where several do, or an option says something of one that is not named.
    """
    schemes = "+".join(scheme) if scheme else None
    sources = {"--scheme": schemes, "--config": config, "--model": model}
    named = {flag: text for flag, text in sources.items() if text is not None}
    if len(named) > 1:
        raise InvalidInput(f"{' and '.join(named)}: give one of them")
    given: dict[str, object] = {k: v for k, v in own.items() if v is not None}
    if not named:
        said = {"--len": length, "--start": start, "--positions": positions, "--as": runtime}
        said |= {"--layer-type": layer_type, "--set": settings[0] if settings else None}
        said |= {OWN_OPTIONS[name][0]: value for name, value in own.items()}
        for option, text in said.items():
            if text is not None:
                raise InvalidInput(
                    f"{option} {abbreviated(text)}: says how to encode, and nothing says what",
                    hint="name an encoding by --scheme, --config or --model",
                )
        return None
    given.update(settings_of(settings, given))
    ((flag, source),) = named.items()
    where = {
        "positions": positions_of(length, start, positions),
        "backend": backend or _environments_backend(),
        "device": _device(device),
        "threads": _threads(threads),
    }
    if flag == "--scheme":
        for option, text in (("--layer-type", layer_type), ("--as", runtime)):
            if text is not None:
                raise InvalidInput(f"{option} {abbreviated(text)}: goes with --config or --model")
        return _of_schemes(source, given, **where)
    from posenc_cli.models.config import read_config, resolve
    from posenc_cli.models.library import find as find_model

    content = read_config(source) if flag == "--config" else find_model(source).config
    resolved = resolve(content, runtime=runtime or "transformers", name=source)
    layers = resolved.layer(layer_type)
    found = catalogue.find(layers.scheme)
    warnings = list(resolved.warnings)
    if found.weights and not {"weights", "seed"} & {*given}:
        warnings.append(
            f"{source}: says how large its table is, and not what was trained: the values are "
            "drawn at random (--set weights=FILE reads them)"
        )
    origin = {flag.removeprefix("--"): source, "layer_type": layer_type, "as": runtime}
    context = layers.derived.get("context")
    return Choice(
        found,
        {**layers.values(), **given},
        **where,  # type: ignore[arg-type]
        warnings=tuple(warnings),
        origin={key: text for key, text in origin.items() if text is not None},
        context=None if context is None else (int(context.value), context.source),
    )


def settings_of(settings: list[str] | None, given: Iterable[str] = ()) -> dict[str, str]:
    """The parameters that ``--set`` options give, none of them twice nor ``given`` before.

    Raises: InvalidInput.
    """
    taken, found = set(given), dict[str, str]()
    for setting in settings or []:
        name, value = _setting(setting)
        if name in taken:
            raise InvalidInput(f"--set {abbreviated(setting)}: {name} is given twice")
        taken.add(name)
        found[name] = value
    return found


def _setting(text: str) -> tuple[str, str]:
    """The name and the value of one ``--set``."""
    name, equals, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or not name:
        raise InvalidInput(f"--set {abbreviated(text)}: must be NAME=VALUE")
    return name, value


def _of_schemes(name: str, given: dict[str, object], **where: Any) -> Choice:
    """The choice of a scheme, or of the parts of a hybrid ``A+B``.

    A part takes the parameters it has, and ``part.name`` is a parameter of that part alone.
    """
    if not all(name.split("+")):
        raise InvalidInput(f"--scheme {abbreviated(name)}: must be A+B, with a name on either side")
    schemes = [catalogue.find(part) for part in name.split("+")]
    if len(schemes) == 1:
        return Choice(schemes[0], given, **where)
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
        parts.append(Choice(scheme, mine, **where))
    for key in given:
        if key not in taken:
            raise InvalidInput(
                f"--set {key}: none of {', '.join(names)} has a parameter {key!r}",
                hint=nearest(key, [each for scheme in schemes for each in scheme.parameters]),
            )
    return Choice(schemes[0], {}, **where, parts=tuple(parts))


def _environments_backend() -> str:
    """The backend that the environment names, else auto."""
    name = os.environ.get("POSENC_BACKEND") or "auto"
    if name == "auto":
        return name
    from posenc_cli.backends.registry import names

    return one_of("POSENC_BACKEND", name, ["auto", *names()])


def _device(name: str | None) -> str | None:
    """A device, None for the CPU, which every backend has."""
    if name is None or name in ("cpu", "cpu:0"):
        return None
    if not re.fullmatch(r"[a-z]+(:[0-9]{1,3})?", name) or name.startswith("cpu"):
        raise InvalidInput(
            f"--device {abbreviated(name)}: must be a device such as cpu, cuda, cuda:1 or mps",
            hint=nearest(name.lower(), ["cpu", "cuda", "mps"]),
        )
    return name


def _threads(option: str | None) -> int | None:
    flag, text = "--threads", option
    if text is None:
        flag, text = "POSENC_THREADS", os.environ.get("POSENC_THREADS") or None
    if text is None:
        return None
    count = whole_number(flag, text, minimum=1)
    if count > LARGEST_THREADS:
        raise InvalidInput(f"{flag} {count}: must be at most {LARGEST_THREADS}")
    return count


def positions_of(length: str | None, start: str | None, positions: str | None) -> Positions | None:
    """The positions that ``--len`` and ``--start``, or ``--positions``, ask for.

    Raises: InvalidInput naming the option.
    """
    if positions is not None:
        for flag, value in (("--len", length), ("--start", start)):
            if value is not None:
                raise InvalidInput(f"{flag} {abbreviated(value)}: cannot go with --positions")
        return Positions.parse(positions).within_exact_range()
    if length is None:
        if start is not None:
            raise InvalidInput(f"--start {abbreviated(start)}: needs --len")
        return None
    count = whole_number("--len", length, minimum=1)
    first = whole_number("--start", start or "0", minimum=0)
    asked = Positions.contiguous(first, count)
    return asked.within_exact_range(option=asked.option)


def _option(name: str, kind: Any, default: object, *flags: str, **settings: Any) -> Parameter:
    """A parameter that Typer turns into an option."""
    return Parameter(
        name,
        Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, typer.Option(*flags, **settings)],
    )


def _own_option(name: str) -> Parameter:
    """The option of a scheme's parameter that has one."""
    return _option(name, str | None, None, *OWN_OPTIONS[name])


def _documented_option(name: str) -> Parameter:
    """The same, with what the declarations of all schemes say of it."""
    declared = {
        scheme.name: scheme.parameters[name]
        for scheme in catalogue.BUILT_IN.values()
        if name in scheme.parameters
    }
    first = next(iter(declared.values()))
    schemes_of_choices: dict[tuple[str, ...], list[str]] = {}
    for scheme, each in declared.items():
        if each.choices:
            schemes_of_choices.setdefault(each.choices, []).append(scheme)
    choices = "; ".join(
        f"{'|'.join(choices)} ({_called_together(schemes)})"
        for choices, schemes in schemes_of_choices.items()
    )
    defaults = Counter(each.default_text for each in declared.values() if each.default_text)
    usual = next((text for text, _ in defaults.most_common(1)), "")
    others = ", or the scheme's own" if defaults[usual] < len(declared) else ""
    default = f" [default: {usual}{others}]" if usual else ""
    return _option(
        name,
        str | None,
        None,
        *OWN_OPTIONS[name],
        help=f"{choices or first.rules.help}{default}",
        metavar="NAME" if choices else {int: "N", float: "X"}[first.type],
    )


def _called_together(names: list[str]) -> str:
    """Schemes by name, or by their kind where they are many."""
    kinds = {catalogue.BUILT_IN[name].kind for name in names}
    return f"{kinds.pop()} schemes" if len(names) > 3 and len(kinds) == 1 else ", ".join(names)


_CHOOSING = [
    _option(
        "scheme",
        list[str] | None,
        None,
        *("--scheme", "-s"),
        metavar="NAME",
        help="a name that posenc schemes lists, or package.module:attribute; A+B, or the option "
        "repeated, for several",
    ),
    _option(
        "config",
        str | None,
        None,
        "--config",
        metavar="FILE",
        help="the encoding of a Hugging Face config.json, or of the folder that holds one",
    ),
    _option(
        "model",
        str | None,
        None,
        *("--model", "-m"),
        metavar="NAME",
        help="the encoding of a model that posenc models lists",
    ),
    _option(
        "layer_type",
        str | None,
        None,
        "--layer-type",
        metavar="NAME",
        help="which layers of a config, where they differ",
    ),
    _option(
        "runtime",
        str | None,
        None,
        "--as",
        metavar="ENGINE",
        help="read a config as vllm, vllm-0.11, llama.cpp or transformers-4.50 does",
    ),
    _option("length", str | None, None, "--len", "-l", metavar="N", help="how many positions"),
    _option(
        "start", str | None, None, "--start", metavar="N", help="the first position [default: 0]"
    ),
    _option(
        "positions",
        str | None,
        None,
        "--positions",
        metavar="SPEC",
        help="0:4096, 0:1000000:1000 or 5,17,4096 (half-open), in place of --len",
    ),
    *map(_own_option, OWN_OPTIONS),
    _option(
        "settings",
        list[str] | None,
        None,
        "--set",
        metavar="NAME=VALUE",
        help="any other parameter, repeatable; posenc schemes NAME documents them",
    ),
    _option(
        "backend",
        str | None,
        None,
        "--backend",
        metavar="NAME",
        help="auto|numpy|fast|torch|…; posenc backends lists them [default: auto]",
    ),
    _option("device", str | None, None, "--device", metavar="NAME", help="cpu|cuda|mps…"),
    _option("threads", str | None, None, "--threads", metavar="N", help="[default: by the size]"),
]

_COMMON = [
    _option("quiet", bool, False, "--quiet", "-q", help="no summary and no progress"),
    _option(
        "color", str, "auto", "--color", metavar="WHEN", help="|".join(COLORS), show_default=True
    ),
    _option("debug", bool, False, "--debug", help="show the traceback of an error"),
]


def command(
    function: Callable[..., int | None], *, documented: bool = True
) -> Callable[..., int | None]:
    """A command as Typer sees it: ``function`` with the options it leaves to this module.

    ``documented`` says whether the options' help will be read: what it derives from takes a while.
    A parameter ``choice: Choice`` stands for all options that choose an encoding (``Choice | None``
    where a command can do without one), ``console: Console`` for those that every command has.
    """
    own = inspect.signature(function, eval_str=True).parameters
    optional = "choice" in own and own["choice"].annotation != Choice
    choosing = _CHOOSING if "choice" in own else []
    if documented:
        choosing = [
            _documented_option(each.name) if each.name in OWN_OPTIONS else each for each in choosing
        ]
    options = [
        *choosing,
        *(
            each.replace(kind=Parameter.KEYWORD_ONLY)
            for each in own.values()
            if each.name not in ("choice", "console")
        ),
        *_COMMON,
    ]

    def run(**values: Any) -> int | None:
        common = {each.name: values.pop(each.name) for each in _COMMON}
        color = one_of("--color", common["color"], COLORS)
        values["console"] = Console(quiet=common["quiet"], color=color)
        if choosing:
            choice = _chosen(**{each.name: values.pop(each.name) for each in choosing})
            if choice is None and not optional:
                raise InvalidInput(
                    "--scheme, --config or --model: one of them is needed",
                    hint="posenc schemes and posenc models list what there is",
                )
            values["choice"] = choice
            for warning in choice.warnings if choice else ():
                values["console"].warning(warning)
        try:
            return function(**values)
        except BrokenPipeError:
            # Typer would give it status 1, as if a check had failed.
            raise ReaderGone from None

    run.__doc__ = function.__doc__
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in options}
    return run
