"""Which encodings a command line trains: their schemes, parameters and labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc_cli import catalogue
from posenc_cli.choice import LETTERS, parameters_by_scheme, part_names
from posenc_cli.cli.choosing import ParameterOptions, SchemesOptions
from posenc_cli.cli.options import settings_of
from posenc_cli.errors import InvalidInput, abbreviated
from posenc_cli.experiments.request import EncodingRequest
from posenc_cli.formulas.parameters import as_text
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posenc_cli.formulas.declare import Scheme
    from posenc_cli.formulas.parameters import Parameter

DEFAULTS = ("nope", "sinusoidal", "rope", "alibi", "t5")
"""What is trained where no scheme is named: one of each way to tell positions, and none."""
_SAID_BY_SIZE = ("dim", "heads")
"""Parameters that the size of the model settles, and no label names."""


class SchemeOptions(SchemesOptions):
    """Which schemes: of a model's config none is so small."""

    config: str | None = None
    model: str | None = None
    layer_type: str | None = None
    runtime: str | None = None


class TrainedEncodings(Record):
    """The encodings that a command line names, in its order; None where it says nothing."""

    requests: tuple[EncodingRequest, ...] | None

    @staticmethod
    def of_options(source: SchemeOptions, parameters: ParameterOptions) -> TrainedEncodings:
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
                f"--scheme {request.label}: is given twice",
                hint="--set a.NAME=VALUE applies only to the first, b.NAME=VALUE to the second",
            )
    labels = [request.label for request in requests]
    labelled = [
        replace(request, label=f"{LETTERS[place % len(LETTERS)]}: {request.label}")
        if labels.count(request.label) > 1
        else request
        for place, request in enumerate(requests)
    ]
    from posenc_cli.experiments.sources import source_digest

    return tuple(replace(request, digest=source_digest(request)) for request in labelled)


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


def default_encodings() -> tuple[EncodingRequest, ...]:
    """The encodings that are trained where none is named."""
    return tuple(EncodingRequest(name, ((name, {}),)) for name in DEFAULTS)
