"""``posenc alibi-slopes``: the slope of each head, and a check of someone else's."""

from __future__ import annotations

import json
import math
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated

import typer

from posenc_cli import catalogue
from posenc_cli.checks.slopes import check_slopes, slopes
from posenc_cli.cli.console import Console  # noqa: TC001 - read by the command table
from posenc_cli.cli.options import one_of
from posenc_cli.cli.pictures import (
    IMAGES,
    Dpi,
    Height,
    PictureOptions,
    ThemeOption,
    Title,
    Width,
    show,
)
from posenc_cli.errors import InvalidInput, abbreviated, quoted_name
from posenc_cli.files.suffixes import check_suffix
from posenc_cli.records import replace
from posenc_cli.transaction import open_input

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posenc_cli.checks.slopes import SlopesCheck
    from posenc_cli.render.figure import Curves
    from posenc_cli.schemes.alibi import SlopesRule

FORMATS = ("table", "csv", "json")
SUFFIXES = {"": "table", ".txt": "table", ".csv": "csv", ".json": "json"}
_LARGEST_JSON = 8 << 20  # three times the slopes of the most heads; a device never ends
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
    title: Title = None,
    width: Width = None,
    height: Height = None,
    dpi: Dpi = None,
    theme: ThemeOption = "light",
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
    look = PictureOptions(out, width, height, dpi, theme, clobber=not no_clobber)
    if plot:
        _check_plot(form, checks=check is not None, image=image)
    else:
        _without_plot(look, title)
    if check is not None and form == "csv":
        raise InvalidInput("--check: its report is a table or json, not csv")
    console.prepare(out, clobber=not no_clobber)
    values = slopes(count, max_bias=bias, rule=rule)
    fields = {"heads": count, "convention": rule, "max_bias": bias, "slopes": values}
    if plot:
        asked = fields if form == "json" else None
        _draw(_figure(values, rule, bias, title), look, console, image=image, fields=asked)
        return 0
    checked = None
    if check is not None:
        found, dtype = _read(check)
        checked = check_slopes(found, heads=count, max_bias=bias, rule=rule, dtype=dtype)
    if form == "json":
        text = console.json_text(
            "alibi-slopes", fields if checked is None else {**fields, "check": _fields(checked)}
        )
    elif checked is not None:
        text = _report(checked, count)
    elif form == "csv":
        text = "\n".join(map(repr, values))
    else:
        rows = [[str(h), repr(m), f"2^{math.log2(m):g}"] for h, m in enumerate(values)]
        text = console.table_text(["head", "slope", "power"], rows)
    console.result(text, out=out, clobber=not no_clobber)
    return 0 if checked is None or checked.ok else 1


def _form(output: str | None, out: str | None, *, as_json: bool) -> str:
    """The form of the result: as asked for, else by the suffix of the file."""
    if as_json and output not in (None, "json"):
        raise InvalidInput(f"--json: cannot go with --format {output}")
    suffix = PurePath(out or "").suffix.lower()
    image = suffix in IMAGES
    if as_json or output is not None:
        form = one_of("--format", output or "json", FORMATS)
        own = {each: suffix for suffix, each in SUFFIXES.items()}[form]
        check_suffix(out, own, f"--format {form}", hint="--plot draws" if image else None)
        return form
    if image:
        raise InvalidInput(
            f"--out {quoted_name(out or '')}: is the name of a picture", hint="add --plot"
        )
    if suffix not in SUFFIXES:
        from posenc_cli.files.atomic import check_no_folder

        check_no_folder(out or "")
        raise InvalidInput(
            f"--out {quoted_name(out or '')}: no form of the slopes has the suffix "
            f"{quoted_name(suffix)} (known: {', '.join(filter(None, SUFFIXES))})",
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
        f"head {check.at}: expected {check.expected!r}, found {check.found!r}",
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


def _without_plot(look: PictureOptions, title: str | None) -> None:
    """Refuse options that say how a picture is to look where none is drawn."""
    for flag, value, usual in (
        ("--title", title, None),
        ("--width", look.width, None),
        ("--height", look.height, None),
        ("--dpi", look.dpi, None),
        ("--theme", look.theme, PictureOptions.theme),
    ):
        if value != usual:
            raise InvalidInput(f"{flag} {abbreviated(value or '')}: needs --plot")


def _figure(values: Sequence[float], rule: str, max_bias: float, title: str | None) -> Curves:
    from posenc_cli.render.figure import Curve, Curves

    heads = f"{len(values)} head{'s' if len(values) > 1 else ''}"
    told = f"ALiBi slopes, {heads} ({rule}, max_bias={max_bias:g})"
    return Curves(
        curves=(Curve(x=tuple(range(len(values))), y=tuple(values)),),
        title=told if title is None else title,
        x_label="head",
        y_label="slope",
        y_scale="log",
        joined=False,
    )


def _draw(
    figure: Curves,
    look: PictureOptions,
    console: Console,
    *,
    image: bool,
    fields: Mapping[str, object] | None,
) -> None:
    """Draw the slopes to the terminal, to a figure, or as text to a file."""
    if image:
        show(figure, look, console, json=None if fields is None else ("alibi-slopes", fields))
    elif look.out is None:
        lines = look.height or str(min(20, console.height))
        show(figure, replace(look, height=lines), console)
    else:
        from posenc_cli.render.blocks import Medium, Page
        from posenc_cli.render.terminal import picture_text

        page = Page(console.width, min(20, console.height), Medium())
        text = picture_text(figure, page).content
        console.result(text, out=look.out, clobber=look.clobber)
