"""``posenc alibi-slopes``: the slope of each head, and a check of someone else's."""

from __future__ import annotations

import json
import math
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posenc_cli import catalogue
from posenc_cli.checks.slopes import check_slopes, slopes
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import ReportOptions, option
from posenc_cli.cli.pictures import IMAGES, PictureOptions, show
from posenc_cli.errors import InvalidInput, abbreviated, quoted_name
from posenc_cli.records import replace
from posenc_cli.schemes.alibi import SlopesRule
from posenc_cli.transaction import open_input

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posenc_cli.checks.slopes import SlopesCheck
    from posenc_cli.render.figure import Curves

FORMATS = {"table": ".txt", "csv": ".csv", "json": ".json"}
"""The forms of the slopes, and the suffix of each."""
_LARGEST_JSON = 8 << 20  # three times the slopes of the most heads; a device never ends
_DECLARED = catalogue.BUILT_IN["alibi"].parameters


def _declared(flag: str, name: str, metavar: str) -> Any:
    """The option of a parameter of the scheme, with its checks."""
    parameter = _DECLARED[name]

    def value(flag: str, text: str) -> Any:
        return parameter.value(text, flag=flag)

    return option(
        flag,
        metavar=metavar,
        help=f"{parameter.rules.help} [default: {parameter.default_text}]",
        parse=value,
        show_default=False,
    )


class SlopesOutput(ReportOptions):
    """Where the slopes go, and in which form."""

    form: Annotated[
        str | None,
        option(
            "--format", known=FORMATS, help=f"{'|'.join(FORMATS)} [default: by the suffix, table]"
        ),
    ] = None


def alibi_slopes(
    console: Console,
    *,
    heads: Annotated[int, _declared("--heads", "heads", "N")] = _DECLARED["heads"].default,
    max_bias: Annotated[float, _declared("--max-bias", "max_bias", "X")] = _DECLARED[
        "max_bias"
    ].default,
    convention: Annotated[SlopesRule, _declared("--convention", "slopes", "NAME")] = _DECLARED[
        "slopes"
    ].default,
    check: Annotated[
        str | None,
        typer.Option(
            "--check", metavar="FILE", help="compare the slopes in FILE; status 1 if they differ"
        ),
    ] = None,
    plot: Annotated[
        bool,
        typer.Option("--plot", help="draw the slopes, or a figure with --out NAME.png|.svg|.pdf"),
    ] = False,
    picture: PictureOptions,
    output: SlopesOutput,
) -> int:
    """Print the slopes of ALiBi, or check some.

    One slope a head, correctly rounded to float64, for any number of heads.

    \b
    Examples:
      posenc alibi-slopes --heads 12
      posenc alibi-slopes --heads 112 --format csv --out slopes.csv
      posenc alibi-slopes --heads 112 --check slopes.csv
      posenc alibi-slopes --heads 16 --plot
      posenc alibi-slopes --heads 16 --plot --out slopes.png
    """
    image = plot and output.suffix in IMAGES
    form = _form(output, image=image)
    if plot:
        _check_plot(form, checks=check is not None, image=image)
    for flag, value in () if plot else picture.given.items():
        raise InvalidInput(f"{flag} {abbreviated(value)}: needs --plot")
    if check is not None and form == "csv":
        raise InvalidInput("--check: its report is a table or json, not csv")
    output.prepare()
    values = slopes(heads, max_bias=max_bias, rule=convention)
    fields = {"heads": heads, "convention": convention, "max_bias": max_bias, "slopes": values}
    if plot:
        asked = fields if form == "json" else None
        figure = _figure(values, convention, max_bias)
        _draw(figure, picture, output, console, image=image, fields=asked)
        return 0
    checked = None
    if check is not None:
        found, dtype = _read(check)
        checked = check_slopes(found, heads=heads, max_bias=max_bias, rule=convention, dtype=dtype)
    if form == "json":
        text = console.json_text(
            "alibi-slopes", fields if checked is None else {**fields, "check": _fields(checked)}
        )
    elif checked is not None:
        text = _report(checked, heads)
    elif form == "csv":
        text = "\n".join(map(repr, values))
    else:
        rows = [[str(h), repr(m), f"2^{math.log2(m):g}"] for h, m in enumerate(values)]
        text = console.table_text(["head", "slope", "power"], rows)
    console.result(text, output)
    return 0 if checked is None or checked.ok else 1


def _form(output: SlopesOutput, *, image: bool) -> str:
    """The form of the result: as asked for, else by the suffix of the file."""
    pictured = output.suffix in IMAGES
    if image:
        output = replace(output, out=None)
    form = output.form_asked_for(FORMATS, hint="--plot draws" if pictured else None)
    if form is not None:
        return form
    if output.suffix in IMAGES:
        raise InvalidInput(f"--out {output.place}: is the name of a picture", hint="add --plot")
    forms = {"": "table"} | {suffix: form for form, suffix in FORMATS.items()}
    if output.suffix not in forms:
        from posenc_cli.files.atomic import check_no_folder

        check_no_folder(output.out or "")
        raise InvalidInput(
            f"--out {output.place}: no form of the slopes has the suffix "
            f"{quoted_name(output.suffix)} (known: {', '.join(FORMATS.values())})",
            hint=f"--format {'|'.join(FORMATS)}",
        )
    return forms[output.suffix]


def _read(path: str) -> tuple[list[float], str]:
    """The slopes in a file, and the number format they were stored in."""
    from posenc_cli.files.reading import read_array

    if PurePath(path).suffix.lower() == ".json":
        return _read_json(path), "float64"
    loaded = read_array(path)
    values = loaded.values
    if max(values.shape) != values.size or values.dtype.kind != "f":
        shape = "×".join(map(str, values.shape))
        raise InvalidInput(
            f"--check {quoted_name(path)}: holds a {shape} array, not a row of slopes"
        )
    return values.reshape(-1).tolist(), loaded.dtype


def _read_json(path: str) -> list[float]:
    """The slopes in what ``--json`` wrote, or in a list of numbers."""
    from posenc_cli.errors import Unavailable

    try:
        with open_input(path) as file:
            text = file.read(_LARGEST_JSON + 1)
        if len(text) > _LARGEST_JSON:
            raise InvalidInput(
                f"--check {quoted_name(path)}: is larger than {_LARGEST_JSON >> 20} MiB"
            )
        document = json.loads(text)
        slopes = document["slopes"] if isinstance(document, dict) else document
        return [float(m) for m in slopes]
    except OSError as error:
        raise Unavailable(f"cannot read {quoted_name(path)}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"--check {quoted_name(path)}: holds no slopes as JSON") from error


def _report(check: SlopesCheck, heads: int) -> str:
    measure = f"worst relative difference {check.worst:.2g}, tolerance {check.tolerance:.2g}"
    if check.ok:
        return f"ok: all {heads} slopes match ({measure})"
    lines = [
        f"FAILED: the slopes differ ({measure})",
        f"head {check.at}: expected {check.expected!r}, found {check.given!r}",
    ]
    if check.explanation:
        lines.append(f"cause: {check.explanation}")
    return "\n".join(lines)


def _fields(check: SlopesCheck) -> dict[str, object]:
    """The check as JSON fields; what is not finite is null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in check.as_dict().items()
    }


def _check_plot(form: str, *, checks: bool, image: bool) -> None:
    if form == "csv" or checks or (form == "json" and not image):
        raise InvalidInput(
            "--plot: cannot go with --format csv or --check, nor with --json but for a figure in "
            "a file",
            hint="--plot --json --out slopes.png" if form == "json" else None,
        )


def _figure(values: Sequence[float], rule: str, max_bias: float) -> Curves:
    from posenc_cli.render.figure import Curve, Curves

    heads = f"{len(values)} head{'s' if len(values) > 1 else ''}"
    title = f"ALiBi slopes, {heads} ({rule}, max_bias={max_bias:g})"
    return Curves(
        curves=(Curve(x=tuple(range(len(values))), y=tuple(values)),),
        title=title,
        x_label="head",
        y_label="slope",
        y_scale="log",
        joined=False,
    )


def _draw(
    figure: Curves,
    look: PictureOptions,
    output: SlopesOutput,
    console: Console,
    *,
    image: bool,
    fields: Mapping[str, object] | None,
) -> None:
    """Draw the slopes to the terminal, to a figure, or as text to a file."""
    if image:
        json = None if fields is None else ("alibi-slopes", fields)
        show(figure, look, output, console, json=json)
    elif output.out is None:
        lines = look.height or min(20, console.height)
        show(figure, replace(look, height=lines), output, console)
    else:
        from posenc_cli.render.blocks import Medium, Page
        from posenc_cli.render.terminal import picture_text

        page = Page(console.width, min(20, console.height), Medium())
        titled = replace(figure, title=look.title or figure.title)
        console.result(picture_text(titled, page).content, output)
