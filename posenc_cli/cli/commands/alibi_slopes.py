"""``posenc alibi-slopes``: the slope of each head, and a check of given slopes."""

from __future__ import annotations

import math
from itertools import product, zip_longest
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli import catalogue
from posenc_cli.cli.choosing import SourceOptions, choice_of_config, in_order, resolved_config
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import (
    ModelNames,
    ReportOptions,
    completed_from,
    form_option,
    option,
    refuse,
)
from posenc_cli.cli.pictures import IMAGES, PictureOptions, image_format, show
from posenc_cli.errors import InvalidInput, abbreviated
from posenc_cli.formulas.alibi import SlopesRule, exact_slopes
from posenc_cli.records import Record, replace
from posenc_cli.render.reports.value_report import value_fields, value_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.checks.values import ValueReport
    from posenc_cli.render.figure import Curves


class Slopes(Record):
    """The slopes of ALiBi for some heads, by a convention.

    ``source`` is the model or config that states them. With ``in_bfloat16`` they are rounded to
    bfloat16.
    """

    heads: int
    max_bias: float
    convention: SlopesRule
    values: tuple[float, ...]
    source: str = ""
    in_bfloat16: bool = False

    @classmethod
    def of(cls, heads: int, max_bias: float, convention: SlopesRule) -> Slopes:
        """Return the exact slopes."""
        values = exact_slopes(heads, max_bias=max_bias, rule=convention)
        return cls(heads, max_bias, convention, tuple(values))

    def rounded(self) -> Slopes:
        """Return the slopes in bfloat16, which has 8 significant bits; ties go to the even number.

        >>> Slopes.of(3, 8.0, "press").rounded().values
        (0.0625, 0.00390625, 0.25)
        """
        parts = map(math.frexp, self.values)
        values = tuple(math.ldexp(round(part * 256), power - 8) for part, power in parts)
        return replace(self, values=values, in_bfloat16=True)

    @property
    def label(self) -> str:
        """The text that distinguishes them from other slopes."""
        heads = f"{self.heads} head{'s' if self.heads > 1 else ''}"
        prefix = f"{self.source}: " if self.source else ""
        rounded = ", rounded to bfloat16" if self.in_bfloat16 else ""
        return f"{prefix}{heads} ({self.convention}, max_bias={self.max_bias:g}{rounded})"

    @property
    def fields(self) -> dict[str, Any]:
        """The slopes and their source, for JSON."""
        asked = {"heads": self.heads, "convention": self.convention, "max_bias": self.max_bias}
        source = {"source": self.source} if self.source else {}
        form = {"format": "bfloat16"} if self.in_bfloat16 else {}
        return {**source, **form, **asked, "slopes": list(self.values)}


FORMATS = {"table": ".txt", "csv": ".csv", "json": ".json"}
"""The output formats, and the file suffix of each."""

_SCHEME = catalogue.BUILT_IN["alibi"]
_DECLARED = _SCHEME.parameters


def _declared(flag: str, name: str, metavar: str) -> Any:
    """Return the option of a scheme's parameter, with its checks."""
    parameter = _DECLARED[name]
    return option(
        flag,
        metavar=metavar,
        help=f"{parameter.rules.help}; repeatable [default: {parameter.default_text}]",
        parse=lambda flag, text: parameter.value(text, flag=flag),
        autocompletion=completed_from(parameter.choices),
        show_default=False,
    )


def _slopes_of(flag: str, name: str) -> Slopes:
    """Return the slopes of a model or a config.

    Raises: InvalidInput if it does not use ALiBi.
    """
    source = SourceOptions()
    resolved = resolved_config(source, flag, name)
    choice = choice_of_config(resolved, source, flag, name, {}, positions=None)
    if choice.scheme.name != _SCHEME.name:
        raise InvalidInput(
            f"{flag} {abbreviated(name)} is {choice.scheme.name}, not {_SCHEME.name}"
        )
    params = choice.encoding(1).bound.params
    slopes = replace(Slopes.of(params["heads"], params["max_bias"], params["slopes"]), source=name)
    return slopes.rounded() if "slope_format" in resolved.layers[0].derived else slopes


class SlopesOutput(ReportOptions):
    """Where the slopes go, and in which format."""

    form: Annotated[str | None, form_option(FORMATS)] = None


def alibi_slopes(
    console: Console,
    *,
    heads: Annotated[list[int] | None, _declared("--heads", "heads", "N")] = None,
    max_bias: Annotated[list[float] | None, _declared("--max-bias", "max_bias", "X")] = None,
    convention: Annotated[list[str] | None, _declared("--convention", "slopes", "NAME")] = None,
    config: Annotated[
        list[str] | None,
        option(
            "--config", metavar="FILE", help="a Hugging Face config.json with ALiBi; repeatable"
        ),
    ] = None,
    model: ModelNames = None,
    check: Annotated[
        str | None,
        option(
            "--check",
            metavar="FILE",
            help="compare the slopes in FILE with ALiBi's; status 1 if they differ",
        ),
    ] = None,
    plot: Annotated[
        bool,
        option(
            "--plot",
            help="draw the slopes in the terminal; --out NAME.png|.svg|.pdf makes a figure",
        ),
    ] = False,
    picture: PictureOptions,
    output: SlopesOutput,
) -> int:
    """Print the slopes of ALiBi, or check a file of slopes.

    posenc prints one slope per head, for any number of heads. Slopes are correctly rounded to
    float64. To compare slopes, repeat an option. Each combination then gets a column, and --plot
    draws all of them on the same axes.

    Examples:
      posenc alibi-slopes --heads 12
      posenc alibi-slopes --heads 112 --format csv --out slopes.csv
      posenc alibi-slopes --heads 112 --check slopes.csv
      posenc alibi-slopes --heads 16 --plot
      posenc alibi-slopes --heads 12 --convention press --convention naive --plot
      posenc alibi-slopes -m mpt-7b -m bloom-560m --plot
      posenc alibi-slopes --heads 16 --plot --out slopes.png
    """
    values: list[list[Any]] = [
        [*dict.fromkeys(texts or ())] or [_DECLARED[name].default]
        for name, texts in (("heads", heads), ("max_bias", max_bias), ("slopes", convention))
    ]
    named = in_order({"--config": config, "--model": model})
    asked = [_slopes_of(flag, name) for flag, name in named]
    if heads or max_bias or convention or not asked:
        asked = [*(Slopes.of(*combined) for combined in product(*values)), *asked]
    form = _form(output, asked, plot=plot, checks=check is not None)
    if not plot:
        refuse(picture.given, "needs --plot")
    output.prepare()
    parts = [slopes.fields for slopes in asked]
    fields = {"parts": parts} if len(parts) > 1 else parts[0]
    if plot:
        json = ("alibi-slopes", fields) if form == "json" else None
        show(_figure(asked), picture, output, console, json=json)
        return 0
    report = None if check is None else _report(check, asked[0])
    if form == "json":
        checked = {} if report is None else value_fields(report)
        text = console.json_text("alibi-slopes", {**checked, **fields})
    elif report is not None:
        text = value_text(report, console.typesetter)
    else:
        text = _text(asked, form, console)
    console.result(text, output)
    return 0 if report is None or report.ok else 1


def _form(output: SlopesOutput, asked: Sequence[Slopes], *, plot: bool, checks: bool) -> str:
    """Return the output format, and reject options that do not go together."""
    if plot and checks:
        raise InvalidInput("--plot cannot go with --check")
    if plot and output.out is not None:
        image_format(output.out)
        output = replace(output, out=None)
    elif output.suffix in IMAGES:
        raise InvalidInput(f"--out {output.place} is the name of a picture", hint="add --plot")
    form = output.chosen_form(FORMATS)
    if form == "csv" and (plot or checks):
        raise InvalidInput(f"--{'plot' if plot else 'check'} cannot go with --format csv")
    if len(asked) > 1 and (checks or form == "csv"):
        flag = "--check" if checks else "--format csv"
        raise InvalidInput(f"{flag} needs one list of slopes, not {len(asked)}")
    if plot:
        from posenc_cli.render.figure import check_distinguishable

        check_distinguishable(range(len(asked)))
    return form


def _text(asked: Sequence[Slopes], form: str, console: Console) -> str:
    """Format the slopes as a table or as CSV."""
    first = asked[0].values
    if form == "csv":
        return "\n".join(map(repr, first))
    if len(asked) == 1:
        rows = [[str(h), repr(m), f"2^{math.log2(m):g}"] for h, m in enumerate(first)]
        return console.typesetter.table(["head", "slope", "power"], rows)
    columns = [list(map(repr, slopes.values)) for slopes in asked]
    rows = [[str(h), *row] for h, row in enumerate(zip_longest(*columns, fillvalue=""))]
    return console.typesetter.table(["head", *(slopes.label for slopes in asked)], rows)


def _report(file: str, own: Slopes) -> ValueReport:
    """Return the report of `posenc check` on the slopes of a file."""
    from posenc_cli.checks.any_encoding import ValueCheck
    from posenc_cli.checks.checking import SubjectError
    from posenc_cli.checks.subjects import read_subject

    given = {"heads": own.heads, "max_bias": own.max_bias, "slopes": own.convention}
    try:
        slopes = read_subject(file)
        rounding = "bfloat16" if own.in_bfloat16 else ""
        return ValueCheck(_SCHEME, given, slopes=slopes, rounding=rounding).report()
    except SubjectError as failure:
        raise failure.error from None


def _figure(drawn: Sequence[Slopes]) -> Curves:
    """Return a figure of all slopes on one set of axes."""
    from posenc_cli.render.figure import Curve, Curves

    alone = len(drawn) == 1
    return Curves(
        curves=tuple(
            Curve(tuple(range(len(slopes.values))), slopes.values, "" if alone else slopes.label)
            for slopes in drawn
        ),
        title=f"ALiBi slopes, {'; '.join(slopes.label for slopes in drawn)}",
        x_label="head",
        y_label="slope",
        y_scale="log",
        joined=False,
    )
