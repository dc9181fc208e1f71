"""``posenc compare``: compare two arrays, encodings or model files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from posenc_cli.choice import FIRST
from posenc_cli.cli.choosing import ParameterOptions, PositionOptions
from posenc_cli.cli.completers import operand_names, runtime_names
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import ENCODING, Head, argument, number_format_option, option, refuse
from posenc_cli.cli.pictures import ColorPictureOptions, PlotOutput
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.parameters import Param, parameter
from posenc_cli.formulas.tables import ROTARY_TABLES
from posenc_cli.numerics.dtypes import REAL_DTYPES, DType
from posenc_cli.positions import Positions
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.comparison.losses import Model

_TOLERANCE = parameter("tol", Annotated[float, Param("tolerance", minimum=0)], default=0.0)


def _compare_models(
    models: Sequence[Model], tol: float, output: PlotOutput, console: Console
) -> int:
    """Report the settings of one model that the other has lost."""
    from posenc_cli.comparison.losses import compare_models
    from posenc_cli.render.reports.comparison import losses_fields, losses_text

    first, second = models
    if first.stored or second.stored:
        from posenc_cli.comparison.stored_frequencies import compare_stored

        result = compare_stored(first, second, tolerance=tol)
    else:
        result = compare_models(first, second, tolerance=tol)
    for key, model in zip("AB", result.models, strict=True):
        console.warning(*(f"{key}: {warning}" for warning in model.reading.warnings))
    console.either(
        "compare",
        lambda: losses_fields(result),
        lambda: losses_text(result, console.typesetter),
        as_json=output.json,
    )
    return 0 if result.ok else 1


def compare(
    console: Console,
    a: Annotated[
        str,
        argument(metavar="A", autocompletion=operand_names, help="a file, scheme, config or model"),
    ],
    b: Annotated[
        str | None,
        argument(
            metavar="[B]",
            autocompletion=operand_names,
            help="the other one; without B, --as compares how two engines read A",
        ),
    ] = None,
    *,
    tol: Annotated[
        float,
        option(
            "--tol",
            metavar="X",
            help="largest difference to accept [default: 0]",
            show_default=False,
            parse=lambda flag, text: _TOLERANCE.value(text, flag=flag),
        ),
    ] = 0.0,
    runtimes: Annotated[
        list[str] | None,
        option(
            "--as",
            metavar="ENGINE",
            autocompletion=runtime_names,
            help="read A and B as vllm, llama.cpp or another engine does; repeat it to use one "
            "engine for A and another for B",
            rich_help_panel=ENCODING,
        ),
    ] = None,
    layer_type: Annotated[
        str | None,
        option(
            "--layer-type",
            metavar="NAME",
            help="the layer type, if a config has several",
            rich_help_panel=ENCODING,
        ),
    ] = None,
    where: PositionOptions,
    parameters: ParameterOptions,
    table: Annotated[
        str | None,
        option(
            "--table",
            known=ROTARY_TABLES,
            help=f"table of a rotary scheme: {'|'.join(ROTARY_TABLES)}",
        ),
    ] = None,
    head: Head = None,
    dtype: Annotated[
        DType | None,
        number_format_option(
            "--dtype",
            help=f"number format to compute in: {'|'.join(REAL_DTYPES)} [default: the file's, "
            "or float64]",
        ),
    ] = None,
    identify: Annotated[
        bool, option("--identify", help="identify the encoding of each file if they differ")
    ] = False,
    picture: ColorPictureOptions,
    output: PlotOutput,
) -> int:
    """Compare two arrays, encodings, configs or models.

    A and B are files (.npy .npz .csv .safetensors), schemes, configs, GGUF files or models. The
    status is 1 if they differ by more than --tol. Two NaN values are equal. If all values are NaN,
    the status is 1, because neither array holds a result.

    Given a config and its GGUF file, posenc lists the settings lost in the conversion. It also
    compares a config with a checkpoint that stores frequencies, or a model with its draft model.

    Without positions, posenc compares two rotary encodings by frequency pair, and --tol is
    relative. Without B, --as compares how transformers and another engine read A.

    The picture (--plot or --out) shows A − B. If a cell stands for several values, it shows the
    largest difference.

    Examples:
      posenc compare llama-3.1-8b llama-3.1-8b --set b.factor=16 --tol 1e-6
      posenc compare rope rope --dim 64 --set b.base=500000 --len 128
      posenc compare gemma-3-4b rope --layer-type full_attention --set b.dim=256
      posenc compare llama-2-7b --as vllm
      posenc compare config.json model.gguf
      posenc compare sinusoidal rope --dim 64 --len 128 --out difference.png
    """
    output.check(picture)
    chosen = (table, head, dtype, layer_type, *where.texts, *parameters.texts)
    from posenc_cli.cli.operands import models_of, sides_of

    if not output.draws and not any(each is not None for each in chosen):
        models = models_of((a, b), runtimes or [])
        if models is not None:
            return _compare_models(models, tol, output, console)
    from posenc_cli.comparison.compare import ArrayComparison, Identities, comparison
    from posenc_cli.render.reports.comparison import comparison_fields, comparison_text

    sides = sides_of((a, b), runtimes=runtimes or [], layer_type=layer_type, parameters=parameters)
    computing = where.texts | {"--table": table, "--head": head, "--dtype": dtype and dtype.name}
    if all(side.loaded is not None for side in sides):
        refuse(computing, "does not apply to two files: nothing is computed")
    for warning in dict.fromkeys(warning for side in sides for warning in side.warnings):
        of = [key for key, side in zip("AB", sides, strict=True) if warning in side.warnings]
        console.warning(warning if len(of) == 2 else f"{of[0]}: {warning}")
    positions = where.resolve()
    computed = all(side.loaded is None for side in sides)
    if positions is None and computed and not all(side.is_rotary for side in sides):
        positions = Positions.contiguous(0, FIRST)
    result = comparison(sides, positions, table=table, head=head, dtype=dtype, tolerance=tol)
    identities = (
        result.identities
        if identify and isinstance(result, ArrayComparison) and not result.ok
        else None
    )
    fields = comparison_fields(result, identities)
    if identify:
        known = identities or Identities({}, {})
        fields |= {
            "differing_parameters": {name: list(texts) for name, texts in known.differing.items()},
            "identities": {key.lower(): what for key, what in known.summaries.items()},
        }
    text = comparison_text(result, console.typesetter, identities)
    from posenc_cli.render.reports.differences import difference_figure

    parts = ("compare", text, partial(difference_figure, result), lambda: fields)
    try:
        output.present(*parts, look=picture, console=console)
    except InvalidInput as error:
        console.warning(f"no picture: {error.message}")
        alone = replace(output, plot=False, out=None)  # print the verdict without its picture
        alone.present(*parts, look=picture, console=console)
    return 0 if result.ok else 1
