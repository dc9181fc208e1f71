"""Rotary encodings of text mixed with images and video: a token has a position on several axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import AxesFile, Coordinates, Rotation, Waves, rotary
from posenc_cli.formulas.inverse import plain_ladder, unguessed
from posenc_cli.formulas.mistakes import Mistake
from posenc_cli.formulas.parameters import Base, Dim, Param, as_text
from posenc_cli.formulas.rotary import PairLayout, Partial, ladder, rotated_dim

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

AxisOrder = Literal["thw", "hwt"]
_TIME, _HEIGHT, _WIDTH = range(3)


def _mistakes(xp: Any, params: Mapping[str, Any]) -> Iterator[Mistake]:
    sections = params["sections"]
    order = {name: params[name] for name in ("interleaved", "order")}
    axes = xp.asarray(_axes_of_pairs(sections, **order))
    own = xp.zeros(axes.size)
    for axis in range(len(sections)):
        on_axis = axes == axis
        count = int(on_axis.sum())
        if count:
            own[on_axis] = plain_ladder(xp, params["base"], count)
    yield Mistake("each axis has a ladder of its own", own, "huggingface/transformers#48671")


@rotary(
    source="Wang et al. 2024, arXiv:2409.12191 §2.1",
    formula=(
        "the pair i rotates by x · base^(−2i/d), where x is the position on its section's axis; "
        "interleaved: "
        "on h where i mod 3 = 1 and i < 3 · sections[1], on w where i mod 3 = 2 and i < 3 · "
        "sections[2], else on t"
    ),
    convention=(
        "Qwen2-VL, Qwen2.5-VL: layout=half; Qwen3-VL: layout=half interleaved=true "
        "sections=24,20,20. Ernie 4.5 VL: order=hwt sections=22,22,20: the pairs of h and w "
        "alternate before those of t. XD-RoPE: four sections, and as many rows in the file "
        "(HunYuan: position, width, height, image). TMRoPE is a file whose times are 40 ms apart "
        "(Qwen2.5-Omni, which cuts them to whole numbers: 25 a second; Qwen3-Omni has fractions)."
    ),
    inverse=unguessed,
    mistakes=_mistakes,
)
def mrope(
    *,
    dim: Dim = 128,
    base: Base = 10_000.0,
    layout: PairLayout = "interleaved",
    partial: Partial = 1.0,
    sections: Annotated[
        tuple[int, ...],
        Param(
            "pairs that follow each axis, in the order of the axes; d/2 together",
            minimum=0,
            maximum=32768,
            source="Qwen2-VL",
        ),
    ] = (16, 24, 24),
    interleaved: Annotated[
        bool,
        Param("alternate the axes pair by pair, instead of one section after another"),
    ] = False,
    order: Annotated[
        AxisOrder,
        Param("axes of the sections: t, h, w, or h and w in turn and then t", source="Qwen2-VL"),
    ] = "thw",
    axes: Annotated[
        str | None,
        Param(
            "file with the positions on t, h and w: (3, L) numbers, one column per token; without "
            "it, every token is text, with equal positions on all axes",
            is_file=True,
        ),
    ] = None,
) -> Rotation:
    """Multimodal RoPE: shares of the pairs rotate with a token's time, row and column.

    >>> mrope.bind({"dim": 12, "sections": "2,2,2"}).content.waves.count
    6
    """
    rotated = rotated_dim(dim, partial)
    if sum(sections) != rotated // 2:
        raise InvalidInput(
            f"--set sections {as_text(sections)}: must add up to the {rotated // 2} pairs of the "
            f"{rotated} rotated dimensions, not to {sum(sections)}"
        )
    followed = _axes_of_pairs(sections, interleaved=interleaved, order=order)

    def frequencies(xp: Any) -> Any:
        return ladder(xp, rotated, base)

    coordinates = Coordinates(followed, file=AxesFile(axes, len(sections))) if axes else None
    return Rotation(Waves(rotated // 2, frequencies, coordinates=coordinates), layout)


def _axes_of_pairs(
    sections: tuple[int, ...], *, interleaved: bool, order: AxisOrder
) -> tuple[int, ...]:
    """The axis (row of the file) that each pair follows.

    >>> _axes_of_pairs((2, 1, 1), interleaved=False, order="thw")
    (0, 0, 1, 2)
    >>> _axes_of_pairs((2, 1, 1), interleaved=True, order="thw")
    (0, 1, 2, 0)
    >>> _axes_of_pairs((1, 1, 2), interleaved=False, order="hwt")
    (1, 2, 0, 0)

    Raises: InvalidInput for sections that no model has.
    """
    given = f"--set sections {as_text(sections)}"
    if len(sections) == 4 and (interleaved or order == "hwt"):
        what = "interleaved=true" if interleaved else "order=hwt"
        raise InvalidInput(f"{given}: must be 3 numbers where {what}")
    if len(sections) not in (3, 4):
        raise InvalidInput(f"{given}: must be 3 numbers, for t, h and w, or 4 for XD-RoPE")
    if order == "hwt":
        height, width, time = sections[:3]
        if interleaved or height != width:
            what = "interleaved=true" if interleaved else f"{height} pairs for h and {width} for w"
            raise InvalidInput(
                f"--set order hwt: h and w alternate, as many pairs each; {what} does not fit",
                hint="Ernie 4.5 VL has sections=22,22,20",
            )
        return (_HEIGHT, _WIDTH) * height + (_TIME,) * time
    if interleaved:
        dealt = {_HEIGHT: 3 * sections[_HEIGHT], _WIDTH: 3 * sections[_WIDTH]}
        return tuple(
            pair % 3 if pair < dealt.get(pair % 3, 0) else _TIME for pair in range(sum(sections))
        )
    return tuple(axis for axis, count in enumerate(sections) for _ in range(count))
