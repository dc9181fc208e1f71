"""``posenc alibi-slopes``: the slope of each head, and a check of someone else's."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated

import typer

from posenc_cli import catalogue
from posenc_cli.checks.slopes import check_slopes, slopes
from posenc_cli.cli.console import Console  # noqa: TC001 - read by the command table
from posenc_cli.cli.options import one_of
from posenc_cli.cli.pictures import IMAGES, PictureOptions, show
from posenc_cli.errors import InvalidInput
from posenc_cli.files.naming import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.checks.slopes import SlopesCheck
    from posenc_cli.render.figure import Curves
    from posenc_cli.schemes.alibi import SlopesRule

FORMATS = ("table", "csv", "json")
SUFFIXES = {"": "table", ".txt": "table", ".csv": "csv", ".json": "json"}
_DECLARED = catalogue.BUILT_IN["alibi"].parameters
_CONVENTIONS = _DECLARED["slopes"].choices


def alibi_slopes(
    console: Console,
    *,
    heads: Annotated[
        str, typer.Option("--heads", metavar="N", help=_DECLARED["heads"].rules.help)
    ] = _DECLARED["heads"].default_text,
    max_bias: Annotated[
        str, typer.Option("--max-bias", metavar="X", help=_DECLARED["max_bias"].rules.help)
    ] = _DECLARED["max_bias"].default_text,
    convention: Annotated[
        str, typer.Option("--convention", metavar="NAME", help=_DECLARED["slopes"].rules.help)
    ] = _DECLARED["slopes"].default_text,
    output: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="NAME", help=f"{'|'.join(FORMATS)} [default: by the suffix, table]"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="the same as --format json")] = False,
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="FILE", help="a file in place of stdout")
    ] = None,
    no_clobber: Annotated[
        bool, typer.Option("--no-clobber", help="refuse to replace an existing file")
    ] = False,
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
    count = _DECLARED["heads"].value(heads)
    bias = _DECLARED["max_bias"].value(max_bias, flag="--max-bias")
    rule: SlopesRule = one_of("--convention", convention, _CONVENTIONS)  # type: ignore[assignment]
    image = plot and out is not None and PurePath(out).suffix.lower() in IMAGES
    form = _form(output, None if image else out, as_json=as_json)
    if plot and (form != "table" or check is not None):
        raise InvalidInput("--plot: cannot go with --format csv, --json or --check")
    if check is not None and form == "csv":
        raise InvalidInput("--check: its report is a table or json, not csv")
    values = slopes(count, max_bias=bias, rule=rule)
    if image:
        show(_figure(values, rule), PictureOptions(out, clobber=not no_clobber), console)
        return 0
    checked = None
    if check is not None:
        found, dtype = _read(check)
        checked = check_slopes(found, heads=count, max_bias=bias, rule=rule, dtype=dtype)
    if form == "json":
        fields = {"heads": count, "convention": rule, "max_bias": bias, "slopes": values}
        text = console.json_text(
            "alibi-slopes", fields if checked is None else {**fields, "check": _fields(checked)}
        )
    elif checked is not None:
        text = _report(checked, count)
    elif form == "csv":
        text = "\n".join(map(repr, values))
    elif plot:
        text = _picture(console, _figure(values, rule))
    else:
        rows = [[str(h), repr(m), f"2^{math.log2(m):g}"] for h, m in enumerate(values)]
        text = console.table_text(["head", "slope", "power"], rows)
    console.result(text, out=out, clobber=not no_clobber)
    return 0 if checked is None or checked.ok else 1


def _form(output: str | None, out: str | None, *, as_json: bool) -> str:
    """The form of the result: as asked for, else by the suffix of the file."""
    if as_json and output not in (None, "json"):
        raise InvalidInput(f"--json: cannot go with --format {output}")
    if as_json or output is not None:
        return one_of("--format", output or "json", FORMATS)
    suffix = PurePath(out or "").suffix.lower()
    if suffix not in SUFFIXES:
        raise InvalidInput(
            f"--out {shown(out or '')}: no form of the slopes has the suffix {shown(suffix)} "
            f"(known: {', '.join(filter(None, SUFFIXES))})",
            hint=f"--format {'|'.join(FORMATS)}",
        )
    return SUFFIXES[suffix]


def _read(path: str) -> tuple[list[float], str]:
    """The slopes in a file, and the number format they were stored in."""
    from posenc_cli.files.reading import read_array

    if PurePath(path).suffix.lower() == ".json":
        return _read_json(path), "float64"
    loaded = read_array(path)
    values = loaded.values
    if max(values.shape) != values.size or values.dtype.kind != "f":
        shape = "×".join(map(str, values.shape))
        raise InvalidInput(f"--check {shown(path)}: holds a {shape} array, not a row of slopes")
    return values.reshape(-1).tolist(), loaded.dtype


def _read_json(path: str) -> list[float]:
    """The slopes in what ``--json`` wrote, or in a list of numbers."""
    from posenc_cli.errors import Unavailable

    try:
        document = json.loads(Path(path).read_bytes())
        slopes = document["slopes"] if isinstance(document, dict) else document
        return [float(m) for m in slopes]
    except OSError as error:
        raise Unavailable(f"cannot read {shown(path)}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidInput(f"--check {shown(path)}: holds no slopes as JSON") from error


def _report(check: SlopesCheck, heads: int) -> str:
    measure = f"worst relative difference {check.worst:.2g}, tolerance {check.tolerance:.2g}"
    if check.ok:
        return f"ok: all {heads} slopes match ({measure})"
    lines = [
        f"FAILED: the slopes differ ({measure})",
        f"head {check.at}: expected {check.expected!r}, found {check.found!r}",
    ]
    if check.explanation:
        lines.append(f"cause: {check.explanation}")
    return "\n".join(lines)


def _fields(check: SlopesCheck) -> dict[str, object]:
    """The check as JSON fields; what is not finite is null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(check).items()
    }


def _figure(values: Sequence[float], rule: str) -> Curves:
    from posenc_cli.render.figure import Curve, Curves

    return Curves(
        curves=(Curve(x=tuple(range(len(values))), y=tuple(values)),),
        title=f"ALiBi slopes, {len(values)} heads ({rule})",
        x_label="head",
        y_label="slope",
        y_scale="log",
    )


def _picture(console: Console, figure: Curves) -> str:
    from posenc_cli.render.blocks import Medium, Page
    from posenc_cli.render.terminal import curves_text

    return curves_text(figure, Page(console.width, min(20, console.height), Medium()))
