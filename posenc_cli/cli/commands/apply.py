"""``posenc apply``: apply an encoding to vectors: x + PE, or rotate x."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from posenc_cli.backends.registry import ARITHMETICS, Arithmetic
from posenc_cli.choice import Choice
from posenc_cli.cli.choosing import (
    ComputeOptions,
    ParameterOptions,
    PositionOptions,
    SourceOptions,
    choice_of,
    required_choice,
)
from posenc_cli.cli.commands.generate import write_matrix
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import LARGEST_SEED, number_format_option, option, whole_option
from posenc_cli.cli.subjects import READ, MatrixOutput
from posenc_cli.errors import InvalidInput, quoted_name, sizes_text
from posenc_cli.files.atomic import check_apart
from posenc_cli.files.formats import format_of, ready, save
from posenc_cli.numerics.dtypes import FLOAT32, REAL_DTYPES, DType
from posenc_cli.positions import Positions
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from fractions import Fraction

    from posenc_cli.encoding.application import GivenVectors


class ChoiceFrom(Record):
    """A chosen encoding; if ``start`` is set, it has as many positions as x has vectors."""

    choice: Choice
    start: Fraction | int | None

    @staticmethod
    def of_options(
        source: SourceOptions,
        where: PositionOptions,
        parameters: ParameterOptions,
        computing: ComputeOptions,
        console: Console,
    ) -> ChoiceFrom:
        """Return the choice that options make.

        ``--start`` alone is kept for later, when the number of vectors is known.
        """
        start = None
        if where.length is None and where.positions is None:
            start, where = where.start, replace(where, start=None)
        choice = choice_of(source, where, parameters, computing, console)
        return ChoiceFrom(required_choice(choice), start)

    def at(self, count: int) -> Choice:
        """Return the choice at its positions, by default one for each of ``count`` vectors."""
        if self.start is None:
            return self.choice
        positions = Positions.from_start(self.start, count).within_exact_range(
            option=f"--start {self.start}"
        )
        parts = tuple(replace(part, positions=positions) for part in self.choice.parts)
        return replace(self.choice, positions=positions, parts=parts)


def apply(
    chosen: ChoiceFrom,
    console: Console,
    *,
    source: Annotated[
        str | None,
        option("--in", metavar="FILE", help=f"the vectors x, (…, n, dimensions): {READ}"),
    ] = None,
    seed: Annotated[
        int | None,
        whole_option(
            "--seed",
            minimum=0,
            most=LARGEST_SEED,
            help="instead of --in: the seed of --len random vectors x (standard normal)",
        ),
    ] = None,
    out_x: Annotated[
        str | None, option("--out-x", metavar="FILE", help="save the x that --seed draws")
    ] = None,
    dtype: Annotated[
        DType | None,
        number_format_option(
            "--dtype",
            help=f"number format of y: {'|'.join(REAL_DTYPES)} [default: the format of "
            "x, or float32 with --seed]",
        ),
    ] = None,
    arithmetic: Annotated[
        Arithmetic,
        option(
            "--arithmetic",
            known=ARITHMETICS,
            help="exact, or the format to compute tables in: float64|float32|bfloat16",
        ),
    ] = "exact",
    output: MatrixOutput,
) -> None:
    """Apply an encoding to vectors: x + PE, or rotate x.

    posenc adds an absolute encoding to x. With a rotary encoding, it rotates x. The shape of x is
    (…, n, dimensions). The leading axes can be batch and heads. The scheme xpos treats x as a
    query. For a key, use --set side=key.

    Values are correctly rounded. With --arithmetic float32, posenc computes and rounds tables as
    torch does, and the result has the format of --dtype. A .npy or .csv file contains only the
    result y. A .npz or .safetensors file also contains x and the positions.

    Examples:
      posenc apply -s rope --in q.npy --out rotated.npy
      posenc apply -m llama-3-8b --in q.npy --start 4096 --out rotated.npy
      posenc apply -s sinusoidal --in x.npy --out golden.npz
      posenc apply -s rope -d 128 -l 512 --seed 0 --dtype bfloat16 --out golden.safetensors
      posenc apply -m llama-3-8b --in q.npy --arithmetic float32 --out as_torch.npy
    """
    _check(source, seed, out_x, output)
    assert output.out is not None
    output.check_stdout()
    form = format_of(output.out, output.form)
    output.prepare()
    from posenc_cli.analysis.application import AppliedEncoding

    vectors = _vectors(chosen.choice, source, seed, dtype)
    stored = dtype or vectors.dtype
    name = "x" if source is None else quoted_name(source)
    applied = AppliedEncoding.of(
        chosen.at(vectors.shape[-2]), vectors.shape, name, dtype=stored, arithmetic=arithmetic
    )
    why = "left out, because it changes scores, not vectors"
    console.warning(*(f"{part}: {why}" for part in applied.left_out))
    y, x, positions = applied.matrices(vectors, wide=form.name != "safetensors")
    matrix = replace(y, others=(x, positions)) if form.holds_several else y
    matrix = output.watch(matrix, console, may_overflow=False)
    if out_x is not None:
        form_x = format_of(out_x, None)
        ready(matrix, output.out, format=form, clobber=output.clobber)
        save(x, out_x, format=form_x, clobber=output.clobber)
    weights = applied.request.random_weights
    after = ["" if seed is None else f"; x drawn, seed {seed}", f"; {weights}" if weights else ""]
    size = sizes_text(vectors.shape, " × ")
    told = f"x {applied.verb} {applied.choice.scheme.name}, {size} {stored.name}"
    write_matrix(
        "apply",
        matrix,
        form,
        output,
        console,
        told=(told, "".join(after)),
        fields=lambda: {
            **applied.fields,
            **applied.choice.origin,
            "warnings": applied.choice.warnings,
            "source": {
                "path": source,
                "seed": seed,
                "shape": vectors.shape,
                "dtype": vectors.dtype.name,
            },
            "arrays": ["x", "positions", "y"] if form.holds_several else ["y"],
            "shape": vectors.shape,
            "dtype": matrix.dtype.name,
        },
    )


def _check(source: str | None, seed: int | None, out_x: str | None, output: MatrixOutput) -> None:
    """Reject options that do not go together, or that are missing.

    Raises: InvalidInput.
    """
    if (source is None) == (seed is None):
        given = "neither is given" if source is None else "are both given"
        raise InvalidInput(f"--in and --seed: {given}; give one of the two")
    if out_x is not None and seed is None:
        raise InvalidInput("--out-x needs --seed, which draws x")
    if output.out is None:
        raise InvalidInput("--out is missing; name the output file")
    if out_x is not None:
        check_apart("--out-x", out_x, "--out", output.out)


def _vectors(
    choice: Choice, source: str | None, seed: int | None, dtype: DType | None
) -> GivenVectors:
    """Return the vectors of a file, or random ones.

    Raises: InvalidInput if the file holds none, or the number to draw is unknown.
    """
    from posenc_cli.encoding.application import GivenVectors

    if source is not None:
        return GivenVectors.read(source)
    from posenc_cli.analysis.application import vector_columns

    positions = choice.at_default().positions
    if positions is None:
        raise InvalidInput("--seed needs --len or --positions, the number of vectors")
    assert seed is not None
    return GivenVectors.drawn((positions.count, vector_columns(choice)), seed, dtype or FLOAT32)
