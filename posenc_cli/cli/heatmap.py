"""``posenc heatmap``: see an encoding, in the terminal or as a figure."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from posenc_cli.choice import Choice
from posenc_cli.cli.choosing import (
    ComputeOptions,
    ParameterOptions,
    PositionOptions,
    SchemesOptions,
    check_subject,
    parted_choice,
)
from posenc_cli.cli.console import Console
from posenc_cli.cli.matrices import MatrixFile
from posenc_cli.cli.options import option
from posenc_cli.cli.pictures import ColorPictureOptions, FigureOutput, show
from posenc_cli.cli.views import ViewOptions
from posenc_cli.errors import InvalidInput
from posenc_cli.records import Record

_PART = 650, 800
"""The width and height, in pixels, of each of many parts of a hybrid."""


class DrawnEncodings(Record):
    """What is drawn: one encoding, or several as parts; None where a file is."""

    choice: Choice | None

    @staticmethod
    def of_options(
        source: SchemesOptions,
        where: PositionOptions,
        parameters: ParameterOptions,
        computing: ComputeOptions,
        console: Console,
    ) -> DrawnEncodings:
        """What options name, each of several schemes in a panel of its own."""
        return DrawnEncodings(parted_choice(source, where, parameters, computing, console))


def heatmap(
    encodings: DrawnEncodings,
    console: Console,
    *,
    source: MatrixFile = None,
    view: ViewOptions,
    unsplit: Annotated[
        bool, option("--unsplit", help="columns as they are stored, sines among cosines")
    ] = False,
    softmax: Annotated[
        bool, option("--softmax", help="of a bias: the weights it alone gives keys")
    ] = False,
    causal: Annotated[
        bool, option("--causal", help="with --softmax: no query sees later keys")
    ] = False,
    picture: ColorPictureOptions,
    output: FigureOutput,
) -> None:
    """Draw the values of an encoding as colours.

    In the terminal, or to the file of --out. Sines and cosines are drawn apart, the heads of a bias
    side by side, and a grid as maps of the similarity of one position to all others (as rows with
    --positions or --dims). Of any length, only what is shown is computed: of waves the mean of the
    rows that each line stands for; of others a sample, where ▴ marks columns that change faster
    than the picture can show. The first 512 positions are shown where --len is not given, and the
    first 64 with --softmax, which draws attention as it were if all content were equal.

    Examples:
      posenc heatmap --scheme sinusoidal --len 128
      posenc heatmap -s rope -l 1000000 -d 512 --out rope.png
      posenc heatmap -s alibi --heads 8 -l 64
      posenc heatmap -s alibi --softmax --causal --head 2
      posenc heatmap -s sinusoidal-nd --set grid=14x14 --theme dark --out grid.svg
      posenc heatmap -s sinusoidal -l 128 --unsplit --out tutorial.png
      posenc heatmap --in table.npy --rows 0:32 --dims 0:32
      posenc heatmap --model llama-3.1-8b -l 8192 --table angles
    """
    choice = encodings.choice
    check_subject(choice, source)
    view.check(encodings=choice is not None, files=choice is None)
    if softmax and (view.dims is not None or unsplit):
        raise InvalidInput("--softmax: has queries and keys; --dims and --unsplit go with columns")
    if causal and not softmax:
        raise InvalidInput("--causal: goes with --softmax")
    output.prepare()
    if choice is None:
        if softmax:
            raise InvalidInput("--softmax: goes with the scheme of a bias, not with --in")
        figure, fields = view.stored_figure(source or "", split=not unsplit)
    else:
        from posenc_cli.render.encoded import figure_of, figure_of_choice

        first, draw = 512, partial(figure_of, dims=view.dims, split=not unsplit)
        if softmax:
            from posenc_cli.render.attention import FIRST_OF_WEIGHTS, weights_figure

            first, draw = FIRST_OF_WEIGHTS, partial(weights_figure, causal=causal)
        figure, fields = figure_of_choice(choice, view.table, view.head, draw, first=first)
        if softmax:
            fields |= {"softmax": True, "causal": causal}
    show(
        *(figure, picture, output, console),
        usual=_room_for(len(choice.parts)) if choice else None,
        json=("heatmap", fields) if output.json else None,
    )


def _room_for(parts: int) -> tuple[int, int] | None:
    """The sides in which all parts of a hybrid have room, None where the usual ones will do."""
    across, down = min(parts, 3), -(-parts // 3)
    return (_PART[0] * across, _PART[1] * down) if parts > 2 else None
