"""``posenc compare``: how far two arrays or two encodings are apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from posenc_cli.cli.choosing import ParameterOptions, PositionOptions
from posenc_cli.cli.comparison import ArrayReport, RotationReport
from posenc_cli.cli.console import Console
from posenc_cli.cli.operands import layout_of, operand, positioned, side, turns, with_parameters
from posenc_cli.cli.options import Head, Json, Setting, number_format, option
from posenc_cli.errors import InvalidInput, PosencError, abbreviated
from posenc_cli.models.runtimes import RUNTIMES, TRANSFORMERS, find
from posenc_cli.numerics.dtypes import REAL_DTYPES, DType
from posenc_cli.schemes.parameters import Param, parameter
from posenc_cli.schemes.tables import ROTARY_TABLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.cli.operands import Side

_TOLERANCE = parameter("tol", Annotated[float, Param("tolerance", minimum=0)], default=0.0)


class PairParameterOptions(ParameterOptions):
    """The parameters of both sides, or of one."""

    settings: Annotated[
        list[Setting] | None,
        option(
            "--set",
            metavar="NAME=VALUE",
            help="any other parameter, for both; a.NAME=VALUE or b.NAME=VALUE for one",
            parse=Setting.parse,
        ),
    ] = None


def compare(
    console: Console,
    a: Annotated[str, typer.Argument(metavar="A", help="a file, scheme, config or model")],
    b: Annotated[
        str | None, typer.Argument(metavar="[B]", help="another; without it A as another engine")
    ] = None,
    *,
    tol: Annotated[
        float,
        option(
            "--tol",
            metavar="X",
            help="differences to pass over [default: none]",
            show_default=False,
            parse=lambda flag, text: _TOLERANCE.value(text, flag=flag),
        ),
    ] = 0.0,
    runtimes: Annotated[
        list[str] | None,
        typer.Option(
            "--as",
            metavar="ENGINE",
            help=f"of a config: {'|'.join(RUNTIMES)}; once for both, twice for A and B",
        ),
    ] = None,
    layer_types: Annotated[
        list[str] | None,
        typer.Option(
            "--layer-type", metavar="NAME", help="which layers, of both; a.NAME or b.NAME of one"
        ),
    ] = None,
    where: PositionOptions,
    parameters: PairParameterOptions,
    table: Annotated[
        str | None,
        option(
            "--table",
            known=ROTARY_TABLES,
            help=f"of rotary schemes: {'|'.join(ROTARY_TABLES)}",
        ),
    ] = None,
    head: Head = None,
    dtype: Annotated[
        DType | None,
        option(
            "--dtype",
            metavar="NAME",
            help=f"of what is computed: {'|'.join(REAL_DTYPES)} [default: the file's, or float64]",
            parse=number_format,
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Compare two arrays or encodings; status 1 where they differ.

    A and B are files (.npy .npz .csv .safetensors), schemes, configs or models. Two rotary
    encodings without positions are compared pair by pair: frequencies and amplitude, to which
    --tol is then relative. Without --tol, status is 0 only where all values are equal; NaN equals
    NaN. With --as alone, A is what another engine makes of it beside transformers.

    \b
    Examples:
      posenc compare llama-3.1-8b llama-3.1-8b --set b.factor=16 --tol 1e-6
      posenc compare rope rope --dim 64 --set b.base=500000 --len 128
      posenc compare gemma-3-4b rope --layer-type full_attention --set b.dim=256
      posenc compare llama-2-7b --as vllm
    """
    first, second = _runtimes(runtimes or [], alone=b is None)
    sides = with_parameters(
        [
            _side("A", a, first, layer_types or []),
            _side("B", a if b is None else b, second, layer_types or []),
        ],
        parameters,
    )
    if layer_types and not any(each.layer_type for each in sides):
        raise InvalidInput(
            f"--layer-type {abbreviated(layer_types[0])}: the layers of neither of the two differ"
        )
    for warning in dict.fromkeys(warning for each in sides for warning in each.warnings):
        of = [key for key, each in zip("AB", sides, strict=True) if warning in each.warnings]
        console.warning(warning if len(of) == 2 else f"{of[0]}: {warning}")
    positions = where.resolve()
    sides = positioned(sides, positions, head=head)
    report: ArrayReport | RotationReport
    if positions is None and table is None and all(map(turns, sides)):
        report = RotationReport.of(sides, tol)
    else:
        if table is None and all(map(turns, sides)) and len({*map(layout_of, sides)}) > 1:
            table = "cos-full"  # which follows the layout; cos-sin is the same in any
        operands = [
            operand(each, other, table=table, head=head, dtype=dtype)
            for each, other in zip(sides, sides[::-1], strict=True)
        ]
        report = ArrayReport.of(sides, operands, tol)
    if as_json:
        console.json("compare", report.fields())
    else:
        console.result(report.text(console))
    return 0 if report.ok else 1


def _side(key: str, text: str, runtime: str | None, layer_types: Sequence[str]) -> Side:
    """One side, of which errors say that it is A or B.

    Raises: InvalidInput, Unavailable.
    """
    try:
        return side(text, runtime=runtime, layer_type=_layer_type(key, layer_types))
    except PosencError as error:
        error.message = f"{key}: {error.message}"
        raise


def _layer_type(key: str, given: Sequence[str]) -> str | None:
    """The layer type of a side: its own, ``a.NAME``, else that of both.

    Raises: InvalidInput where there are two.
    """
    own = [each[2:] for each in given if each.startswith(f"{key.lower()}.")]
    both = [each for each in given if not each.startswith(("a.", "b."))]
    for found in (own, both):
        if len(found) > 1:
            raise InvalidInput(f"--layer-type {abbreviated(found[1])}: is given twice")
    return next(iter([*own, *both]), None)


def _runtimes(names: Sequence[str], *, alone: bool) -> tuple[str | None, str | None]:
    """The engines of A and B; one name is for both, but of A alone for B."""
    if len(names) > 2:
        raise InvalidInput(f"--as {names[2]}: is the third; there are but two sides")
    for name in names:
        find(name)
    if alone and not names:
        raise InvalidInput(
            "B is missing: what A is to be compared with",
            hint="--as vllm compares what two engines make of one config",
        )
    if alone and len(names) == 1:
        return TRANSFORMERS, names[0]
    return (names[0], names[-1]) if names else (None, None)
