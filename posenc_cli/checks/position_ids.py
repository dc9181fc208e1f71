"""Compute the position ids that a model gives to a prompt, and check other code's ids.

A cause is reported if it reproduces every id in the file. For text, causes are counted padding,
packed sequences that do not restart, and an offset. For grids, they are another order of axes or
tokens, another frame step, and another start of the text that follows. If several causes fit, the
prompt cannot distinguish them, and all are reported.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.configs.position_rules import APART, PAST, SECONDS, PositionRule
from posenc_cli.errors import InvalidInput, quoted_name, sizes_text
from posenc_cli.files.reading import read_array
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

AXES = ("frames", "rows", "columns")


class PatchGrid(Record):
    """Patches of an image or a video, as a processor's ``grid_thw`` counts them.

    ``seconds`` is the time from one frame of patches to the next.
    """

    frames: int
    rows: int
    columns: int
    video: bool = False
    seconds: float = 1.0


class Prompt(Record):
    """Tokens of a prompt: ``text`` counts those before, between and after the grids.

    Without grids, ``text`` holds the lengths of sequences that are packed into one row. ``left``
    and ``right`` count padding.
    """

    text: tuple[int, ...]
    grids: tuple[PatchGrid, ...] = ()
    left: int = 0
    right: int = 0


class Numbering(Record):
    """Rules that number tokens: the model's rules, except where a field changes them.

    ``after`` says where text continues after a grid: after its longer ``side``, its ``largest`` id,
    or its ``tokens``.
    """

    skips_padding: bool | None = None
    resets: bool = True
    shift: int = 0
    axes: tuple[int, ...] = (0, 1, 2)
    by_columns: bool = False
    step: float | None = None
    after: str | None = None
    flat: bool = False


class PositionBug(Record):
    """A bug that a prompt can reveal: its ``cause``, a sentence, and the numbering."""

    cause: str
    text: str
    numbering: Numbering


class PositionCheck(Record):
    """Comparison of given ids with a model's; each of ``causes`` reproduces all ids.

    ``count`` ids differ, first at ``axis`` and ``token``, in a ``sequence`` of a batch. ``several``
    says that tokens have an id on each of three axes.
    """

    ok: bool
    count: int = 0
    compared: int = 0
    axis: int = 0
    token: int = 0
    sequence: int | None = None
    expected: int = 0
    found: int = 0
    causes: tuple[PositionBug, ...] = ()
    several: bool = False


def check_prompt(rule: PositionRule, prompt: Prompt) -> None:
    """Refuse prompts that the model's own code does not support.

    Raises: InvalidInput.
    """
    if not prompt.grids:
        _check_rows(rule, prompt)
        return
    if rule.frames is None:
        raise InvalidInput(
            f"--grid: posenc does not know how {rule.model_type} counts the patches of an image"
        )
    if len(prompt.text) != len(prompt.grids) + 1:
        raise InvalidInput(
            f"--text needs {len(prompt.grids) + 1} numbers, one more than --grid: the text tokens "
            "before, between and after the grids"
        )
    if not all(prompt.text[1:-1]):
        raise InvalidInput("--text: without text between two grids, the model reads them as one")
    if rule.frames == PAST and not prompt.text[0]:
        raise InvalidInput(f"--text 0: {rule.model_type} needs a token before the grid")
    for grid in prompt.grids:
        _check_grid(rule, grid)


def _check_grid(rule: PositionRule, grid: PatchGrid) -> None:
    """Refuse a grid of a size that the model cannot have.

    Raises: InvalidInput.
    """
    if rule.frames == PAST and grid.frames > 1 and not grid.video:
        raise InvalidInput(
            f"--grid {grid.frames},{grid.rows},{grid.columns}: an image has one frame",
            hint=f"--grid video:{grid.frames},{grid.rows},{grid.columns}",
        )
    if (
        grid.rows % rule.merge
        or grid.columns % rule.merge
        or (grid.video and grid.frames % rule.frames_merged)
    ):
        raise InvalidInput(
            f"--grid {grid.frames},{grid.rows},{grid.columns}: rows and columns must be "
            f"multiples of {rule.merge}, the side of a token in patches"
            + (f", and frames of {rule.frames_merged}" if rule.frames_merged > 1 else "")
        )
    if grid.video and grid.frames > 1 and rule.frames == APART:
        raise InvalidInput(
            f"--grid video:{grid.frames},{grid.rows},{grid.columns}: {rule.model_type} reads "
            "each frame as a grid of its own, with text between them",
            hint=f"--grid video:1,{grid.rows},{grid.columns} for each frame",
        )


def _check_rows(rule: PositionRule, prompt: Prompt) -> None:
    """Refuse a sequence that is longer than the learned table.

    Raises: InvalidInput.
    """
    lengths = [*prompt.text]
    if not rule.skips:
        lengths[0] += prompt.left
        lengths[-1] += prompt.right
    if rule.rows is not None and max(lengths) > (room := rule.rows - rule.first_row):
        padding = ", padding among them" if max(lengths) > max(prompt.text) else ""
        raise InvalidInput(
            f"--text: {max(lengths)} tokens{padding}: the table of {rule.model_type} has "
            f"{rule.rows} rows, of which {room} are for tokens"
        )


def assumptions(rule: PositionRule, prompt: Prompt) -> tuple[str, ...]:
    """Return what the ids of a prompt assume beyond the model's own code."""
    if rule.unused:
        return (
            f"{rule.model_type} uses no position ids ({rule.unused}): these only number its tokens",
        )
    if rule.read or not (prompt.left or prompt.right):
        return ()
    return (
        (
            f"whether {rule.model_type} counts padding was not read in its code: assumed to be "
            "skipped, as in generation"
        ),
    )


def position_ids(rule: PositionRule, prompt: Prompt, numbering: Numbering | None = None) -> Ids:
    """Return the ids of a prompt's tokens and padding: (3, tokens) with axes, else (1, tokens).

    Raises: InvalidInput as `check_prompt` does.
    """
    check_prompt(rule, prompt)
    numbering = numbering or Numbering()
    skips = rule.skips if numbering.skips_padding is None else numbering.skips_padding
    first = rule.start + numbering.shift
    begin = at = first if skips else first + prompt.left
    parts = list[Any]()
    for index, count in enumerate(prompt.text):
        if index and not prompt.grids and numbering.resets:
            at = first
        parts.append(np.broadcast_to(np.arange(at, at + count), (3, count)))
        at += count
        if index < len(prompt.grids):
            ids = _grid_ids(rule, prompt.grids[index], numbering) + at
            parts.append(ids)
            grid = prompt.grids[index]
            ends = {
                "side": at + max(grid.rows, grid.columns) // rule.merge,
                "largest": int(ids.max()) + 1,
                "tokens": at + ids.shape[1],
            }
            at = ends[numbering.after or rule.after]
    ids = np.concatenate(parts, axis=1)
    if numbering.flat:
        ids = np.broadcast_to(np.arange(begin, begin + ids.shape[1]), ids.shape)
    padded = np.pad(ids, ((0, 0), (prompt.left, prompt.right)), constant_values=rule.padding)
    if not skips:
        padded[:, : prompt.left] = np.arange(first, begin)
        padded[:, prompt.left + ids.shape[1] :] = np.arange(at, at + prompt.right)
    return padded if rule.frames else padded[:1]


def _grid_ids(rule: PositionRule, grid: PatchGrid, numbering: Numbering) -> Ids:
    """Return the ids of a grid's tokens relative to its first token's. Shape: (3, tokens)."""
    changed = numbering.step if grid.video else None
    first, second = _frame_factors(rule, grid) if changed is None else (changed, 1.0)
    # torch multiplies in float32 and truncates to integer ids.
    counted = np.arange(_token_frames(rule, grid), dtype=np.float32)
    frames = (counted * np.float32(first) * np.float32(second)).astype(np.int64)
    sides = [np.arange(count // rule.merge) for count in (grid.rows, grid.columns)]
    ids = np.stack(np.meshgrid(frames, *sides, indexing="ij"))
    if numbering.by_columns:
        ids = ids.swapaxes(2, 3)
    return ids.reshape(3, -1)[list(numbering.axes)]


def _frame_factors(rule: PositionRule, grid: PatchGrid) -> tuple[float, float]:
    """Return the two factors by which a frame's number is multiplied, in this order."""
    if rule.frames not in (SECONDS, PAST) or not grid.video:
        return 1.0, 1.0
    product = float(np.float32(rule.per_second) * np.float32(grid.seconds))
    return (grid.seconds, rule.per_second) if rule.frames == PAST else (product, 1.0)


def _token_frames(rule: PositionRule, grid: PatchGrid) -> int:
    """Return the number of frames of tokens in a grid."""
    return grid.frames // rule.frames_merged if grid.video else grid.frames


def token_count(rule: PositionRule, prompt: Prompt) -> int:
    """Return how many tokens a prompt has, including padding and grids."""
    grids = sum(_token_frames(rule, grid) * grid.rows * grid.columns for grid in prompt.grids)
    return prompt.left + sum(prompt.text) + grids // rule.merge**2 + prompt.right


_TEXT_AFTER = {
    "side": "the longer side of the grid",
    "largest": "its largest id (as in transformers 4)",
    "tokens": "all its tokens",
}
"""Where text may continue after a grid."""


def read_ids(path: str, rule: PositionRule, tokens: int) -> Ids:
    """Read ids from a file: (tokens,) or (batch, tokens), with axes also (3, [batch,] tokens).

    Shape: (axes, batch, tokens).

    Raises: InvalidInput, Unavailable if the file cannot be read, or holds something else.
    """
    values = read_array(path).values
    ids = values.squeeze()
    if tokens == 1:
        ids = ids[..., None]
    option = f"--check {quoted_name(path)}"
    axes = 3 if rule.frames and ids.ndim > 1 and len(ids) == 3 else 1
    if ids.shape[-1:] != (tokens,) or ids.ndim > (3 if axes > 1 else 2):
        raise InvalidInput(
            f"{option} holds an array of shape {sizes_text(values.shape)}; the prompt has "
            f"{tokens} tokens"
        )
    real = values.dtype.kind in "iuf" and np.all(np.abs(ids.astype(np.float64)) < 2**53)
    if not real or np.any(ids != np.rint(ids)):
        raise InvalidInput(f"{option}: ids must be whole numbers below 2^53")
    return ids.astype(np.int64).reshape(axes, -1, tokens)


def check_ids(rule: PositionRule, prompt: Prompt, given: Ids) -> PositionCheck:
    """Compare given ids, (axes, tokens) or (axes, batch, tokens), with those of the model.

    Padding is not compared.
    """
    right = position_ids(rule, prompt)
    unpadded = slice(prompt.left, right.shape[1] - prompt.right)
    found = given.reshape(len(given), -1, right.shape[1])[..., unpadded]  # (axes, batch, tokens)
    # Text has equal ids on all axes.
    expected = right[:, None, unpadded] if prompt.grids else right[:1, None, unpadded]
    expected, found = np.broadcast_arrays(expected, found)
    differing = expected != found
    if not differing.any():
        return PositionCheck(ok=True, compared=expected.size)
    axis, sequence, token = map(int, np.argwhere(differing)[0])
    wrong = found[:, differing.any(axis=(0, 2))]
    return PositionCheck(
        ok=False,
        count=int(differing.sum()),
        compared=expected.size,
        axis=axis,
        token=token + prompt.left,
        sequence=sequence if found.shape[1] > 1 else None,
        expected=int(expected[axis, sequence, token]),
        found=int(found[axis, sequence, token]),
        causes=_causes(rule, prompt, wrong, unpadded),
        several=len(expected) > 1,
    )


def _causes(
    rule: PositionRule, prompt: Prompt, found: Ids, unpadded: slice
) -> tuple[PositionBug, ...]:
    """Return the causes that reproduce all wrong sequences; known bugs before offsets."""
    candidates = [*_known_bugs(rule, prompt)]
    for tier in (candidates, _offset_bugs(rule, prompt, found[:, 0], candidates)):
        causes: dict[str, PositionBug] = {}
        for bug in tier:
            ids = position_ids(rule, prompt, bug.numbering)[:, None, unpadded]
            if np.all(ids == found):
                causes.setdefault(bug.cause, bug)
        if causes:
            return tuple(causes.values())
    return ()


def _known_bugs(rule: PositionRule, prompt: Prompt) -> Iterator[PositionBug]:
    """Yield known bugs that a prompt can reveal."""
    if prompt.left:
        handling = "counted as tokens" if rule.skips else "skipped, the model counts it"
        text = f"left padding is {handling}"
        yield PositionBug("padding", text, Numbering(skips_padding=not rule.skips))
    if not prompt.grids:
        if len(prompt.text) > 1:
            yield PositionBug(
                "packing", "ids do not restart at each packed sequence", Numbering(resets=False)
            )
        return
    yield PositionBug(
        "one axis", "each token has the same position on all three axes", Numbering(flat=True)
    )
    for axes in [*permutations(range(3))][1:]:  # the first is the right one
        named = ", ".join(AXES[axis] for axis in axes)
        text = f"the axes are {named}, not {', '.join(AXES)}"
        yield PositionBug("grid order", text, Numbering(axes=axes))
    yield PositionBug(
        "grid order",
        "the tokens of a grid are numbered column by column, not row by row",
        Numbering(by_columns=True),
    )
    for after in [each for each in _TEXT_AFTER if each != rule.after]:
        text = f"text continues after {_TEXT_AFTER[after]}, not after {_TEXT_AFTER[rule.after]}"
        yield PositionBug("after a grid", text, Numbering(after=after))
    for seconds in {grid.seconds for grid in prompt.grids if grid.video}:
        steps = {1.0, rule.per_second, seconds, 2 * seconds, 4 * seconds, 25 * seconds}
        right = rule.per_second * seconds if rule.frames in (SECONDS, PAST) else 1.0
        for step in sorted(steps - {right}):
            text = f"frames are {step:g} apart, not {right:g}"
            yield PositionBug("temporal step", text, Numbering(step=step))


def _offset_bugs(
    rule: PositionRule, prompt: Prompt, found: Ids, bugs: Sequence[PositionBug]
) -> Iterator[PositionBug]:
    """Yield an offset of all ids, also with known bugs unless it suffices alone."""
    right = position_ids(rule, prompt)[:, prompt.left : prompt.left + found.shape[1]]
    alone = np.all(found - right == found[0, 0] - right[0, 0])
    others = () if alone else bugs
    for bug in (PositionBug("offset", "", Numbering()), *others):
        first = position_ids(rule, prompt, bug.numbering)[0, prompt.left]
        shift = int(found[0, 0] - first)
        if shift:
            text = f"every id is {abs(shift)} too {'large' if shift > 0 else 'small'}"
            if bug.text:
                text = f"{bug.text}, and {text}"
            yield PositionBug(bug.cause, text, replace(bug.numbering, shift=shift))
