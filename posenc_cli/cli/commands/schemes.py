"""``posenc schemes``: list the encodings, and the parameters of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli import catalogue
from posenc_cli.catalogue import BrokenPlugin
from posenc_cli.cli.completers import scheme_names
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import Json, argument

if TYPE_CHECKING:
    from posenc_cli.formulas.declare import Scheme
    from posenc_cli.formulas.parameters import Parameter


def schemes(
    console: Console,
    name: Annotated[
        str | None,
        argument(
            metavar="[NAME]",
            autocompletion=scheme_names,
            help="describe this scheme; ./file.py:name for your own scheme",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the schemes, or describe one.

    The description has the formula, the source, and every parameter with its type, range and
    default.

    Examples:
      posenc schemes
      posenc schemes sinusoidal
      posenc schemes alibi --json
    """
    scheme = None if name is None else catalogue.find(name)
    listed = [scheme] if scheme else [*catalogue.BUILT_IN.values(), *catalogue.installed()]
    heads = ["scheme", "kind", "what it is"]
    console.either(
        "schemes",
        lambda: {"schemes": list(map(_fields, listed))},
        lambda: (
            _text(console, scheme)
            if scheme
            else console.typesetter.table(heads, list(map(_row, listed)))
        ),
        as_json=as_json,
    )


def _row(scheme: Scheme | BrokenPlugin) -> list[str]:
    if isinstance(scheme, BrokenPlugin):
        return [scheme.name, "broken", scheme.reason]
    return [scheme.name, scheme.kind, scheme.summary]


def _fields(scheme: Scheme | BrokenPlugin) -> dict[str, Any]:
    if isinstance(scheme, BrokenPlugin):
        return {"name": scheme.name, "error": scheme.reason}
    return {
        "name": scheme.name,
        "kind": scheme.kind,
        "summary": scheme.summary,
        "formula": scheme.formula,
        "source": scheme.source,
        "convention": scheme.convention,
        "parameters": [
            {
                "name": parameter.name,
                "flag": parameter.flag,
                "type": parameter.type_text,
                "choices": list(parameter.choices),
                "minimum": parameter.rules.minimum,
                "maximum": parameter.rules.maximum,
                "above": parameter.rules.above,
                "required": parameter.required,
                "default": None if parameter.required else parameter.default,
                "default_text": parameter.default_text,
                "help": parameter.rules.help,
                "source": parameter.rules.source,
            }
            for parameter in scheme.parameters.values()
        ],
    }


def _text(console: Console, scheme: Scheme) -> str:
    """Describe one scheme as text."""
    weights = scheme.weights
    held = "the tensors" if weights and weights.tensors is not None else "shape"
    paragraphs = [
        f"{scheme.name} ({scheme.kind}): {scheme.summary}",
        scheme.description,
        f"Formula: {scheme.formula}",
        f"Convention: {scheme.convention}" if scheme.convention else "",
        f"Source: {scheme.source}",
        f"Weights: a file of {held} {weights.text} sets these sizes." if weights else "",
    ]
    texts = [console.typesetter.paragraph(paragraph) for paragraph in paragraphs if paragraph]
    parameters = [_parameter_text(console, parameter) for parameter in scheme.parameters.values()]
    return "\n\n".join([*texts, "\n".join(parameters)] if parameters else texts)


def _parameter_text(console: Console, parameter: Parameter) -> str:
    """Describe one parameter: its flag, its values and its meaning."""
    # With spaces, a line breaks between the choices and not within one.
    kind = parameter.type_text.replace("|", " | ")
    values = ", ".join(filter(None, (kind, parameter.range_text)))
    default = f"default {parameter.default_text}" if parameter.default_text else "no default"
    if parameter.required:
        default = "required"
    source = f" (default from {parameter.rules.source})" if parameter.rules.source else ""
    head = console.typesetter.paragraph(
        f"{parameter.flag}: {values}; {default}", indent=2, hanging=6
    )
    return f"{head}\n{console.typesetter.paragraph(parameter.rules.help + source, indent=6)}"
