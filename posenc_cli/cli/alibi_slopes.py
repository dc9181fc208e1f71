"""``posenc alibi-slopes``: the slope of each head, and a check of someone else's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli import catalogue
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import ReportOptions, completed_from, form_option, option
from posenc_cli.cli.pictures import IMAGES, PictureOptions, show
from posenc_cli.errors import InvalidInput, abbreviated, quoted_name
from posenc_cli.formulas.alibi import SlopesRule, exact_slopes
from posenc_cli.inference.slopes import check_slopes, read_slopes
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posenc_cli.inference.slopes import SlopesCheck
    from posenc_cli.render.figure import Curves

FORMATS = {"table": ".txt", "csv": ".csv", "json": ".json"}
"""The forms of the slopes, and the suffix of each."""

_DECLARED = catalogue.BUILT_IN["alibi"].parameters
_LINES = 20  # of a picture that nobody gave a height


def _declared(flag: str, name: str, metavar: str) -> Any:
    """The option of a parameter of the scheme, with its checks."""
    parameter = _DECLARED[name]
    return option(
        flag,
        metavar=metavar,
        help=f"{parameter.rules.help} [default: {parameter.default_text}]",
        parse=lambda flag, text: parameter.value(text, flag=flag),
        autocompletion=completed_from(parameter.choices),
        show_default=False,
    )


class SlopesOutput(ReportOptions):
    """Where the slopes go, and in which form."""

    form: Annotated[str | None, form_option(FORMATS)] = None


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
        option(
            "--check", metavar="FILE", help="compare the slopes in FILE; status 1 if they differ"
        ),
    ] = None,
    plot: Annotated[
        bool,
        option("--plot", help="draw the slopes, or a figure with --out NAME.png|.svg|.pdf"),
    ] = False,
    picture: PictureOptions,
    output: SlopesOutput,
) -> int:
    """Print the slopes of ALiBi, or check some.

    One slope a head, correctly rounded to float64, for any number of heads.

    Examples:
      posenc alibi-slopes --heads 12
      posenc alibi-slopes --heads 112 --format csv --out slopes.csv
      posenc alibi-slopes --heads 112 --check slopes.csv
      posenc alibi-slopes --heads 16 --plot
      posenc alibi-slopes --heads 16 --plot --out slopes.png
    """
    image = plot and output.suffix in IMAGES
    form = _form(output, image=image)
    _check(form, picture, plot=plot, image=image, checks=check is not None)
    output.prepare()
    values = exact_slopes(heads, max_bias=max_bias, rule=convention)
    fields = {"heads": heads, "convention": convention, "max_bias": max_bias, "slopes": values}
    if plot:
        figure = _figure(values, convention, max_bias)
        if image:
            json = ("alibi-slopes", fields) if form == "json" else None
            show(figure, picture, output, console, json=json)
        else:
            _print(figure, picture, output, console)
        return 0
    comparison = None
    if check is not None:
        theirs, dtype = read_slopes(check)
        comparison = check_slopes(
            theirs, heads=heads, max_bias=max_bias, rule=convention, dtype=dtype
        )
    if form == "json":
        checked = {} if comparison is None else {"check": _check_fields(comparison)}
        text = console.json_text("alibi-slopes", {**fields, **checked})
    elif comparison is not None:
        text = _check_text(comparison, heads)
    elif form == "csv":
        text = "\n".join(map(repr, values))
    else:
        rows = [[str(h), repr(m), f"2^{math.log2(m):g}"] for h, m in enumerate(values)]
        text = console.table_text(["head", "slope", "power"], rows)
    console.result(text, output)
    return 0 if comparison is None or comparison.ok else 1


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


def _check(form: str, look: PictureOptions, *, plot: bool, image: bool, checks: bool) -> None:
    """Refuse options that do not go together."""
    if plot and (form == "csv" or checks or (form == "json" and not image)):
        raise InvalidInput(
            "--plot: cannot go with --format csv or --check, nor with --json but for a figure in "
            "a file",
            hint="--plot --json --out slopes.png" if form == "json" else None,
        )
    if look.given and not plot:
        flag, value = next(iter(look.given.items()))
        raise InvalidInput(f"{flag} {abbreviated(value)}: needs --plot")
    if checks and form == "csv":
        raise InvalidInput("--check: its report is a table or json, not csv")


def _check_text(check: SlopesCheck, heads: int) -> str:
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


def _check_fields(check: SlopesCheck) -> Mapping[str, object]:
    """The check as JSON has it; what is not finite is null."""
    fields = {
        "ok": check.ok,
        "worst": check.worst,
        "tolerance": check.tolerance,
        "at": check.at,
        "expected": check.expected,
        "found": check.given,
        "explanation": check.explanation,
    }
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in fields.items()
    }


def _figure(values: Sequence[float], rule: str, max_bias: float) -> Curves:
    from posenc_cli.render.figure import Curve, Curves

    heads = f"{len(values)} head{'s' if len(values) > 1 else ''}"
    return Curves(
        curves=(Curve(x=tuple(range(len(values))), y=tuple(values)),),
        title=f"ALiBi slopes, {heads} ({rule}, max_bias={max_bias:g})",
        x_label="head",
        y_label="slope",
        y_scale="log",
        joined=False,
    )


def _print(figure: Curves, look: PictureOptions, output: SlopesOutput, console: Console) -> None:
    """Draw the slopes to the terminal, or as text to a file."""
    lines = min(_LINES, console.height)
    if output.out is None:
        show(figure, replace(look, height=look.height or lines), output, console)
        return
    from posenc_cli.render.blocks import Medium, Page
    from posenc_cli.render.terminal import picture_text

    page = Page(console.width, lines, Medium())
    console.result(picture_text(look.titled(figure), page).content, output)
