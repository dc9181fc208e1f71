"""``posenc positions``: the position ids of a prompt, and a check of given ids."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli.budget import LISTED_VALUES, check_size
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import Json, ModelChoice, option, whole_option
from posenc_cli.errors import InvalidInput, abbreviated
from posenc_cli.positions import whole_number
from posenc_cli.render.typesetting import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.checks.position_ids import PositionCheck

_MOST = 1 << 20
_GRID = re.compile(r"(video:)?(\d{1,7}),(\d{1,7}),(\d{1,7})(?:@(\d{1,6}(?:\.\d{1,9})?))?")


def _grid(flag: str, text: str) -> Any:
    """Parse a grid of patches: T,H,W for an image, video:T,H,W[@SECONDS] for a video.

    Raises: InvalidInput.
    """
    match = _GRID.fullmatch(text.strip())
    sizes = [int(size) for size in match.groups()[1:4]] if match else [0]
    if match is None or not all(sizes) or (match[5] and not match[1]):
        raise InvalidInput(
            f"{flag} {abbreviated(text)}: must be FRAMES,ROWS,COLUMNS of patches",
            hint="for example 1,34,46, or video:8,34,46@0.5 with the seconds from frame to frame",
        )
    return *sizes, bool(match[1]), float(match[5] or 1)


def _lengths(flag: str, text: str) -> Any:
    """Parse comma-separated numbers of tokens.

    Raises: InvalidInput.
    """
    lengths = [whole_number(part) for part in text.split(",")]
    counts = [length for length in lengths if length is not None and length >= 0]
    if len(counts) < len(lengths):
        raise InvalidInput(
            f"{flag} {abbreviated(text)}: must be numbers of tokens, comma-separated"
        )
    return tuple(counts)


def positions(
    console: Console,
    *,
    model: ModelChoice,
    text: Annotated[
        Any,  # a tuple of numbers, which Typer does not support
        option(
            "--text",
            metavar="LIST",
            parse=_lengths,
            help="number of text tokens before, between and after the grids [default: 1 each]",
        ),
    ] = (),
    grid: Annotated[
        list[Any] | None,
        option(
            "--grid",
            metavar="T,H,W",
            parse=_grid,
            help="patches of an image (the processor's grid_thw); video:T,H,W[@SECONDS] for a "
            "video; repeatable",
        ),
    ] = None,
    left: Annotated[
        int, whole_option("--pad-left", minimum=0, help="padding tokens before the prompt")
    ] = 0,
    right: Annotated[
        int, whole_option("--pad-right", minimum=0, help="padding tokens after the prompt")
    ] = 0,
    check: Annotated[
        str | None,
        option(
            "--check",
            metavar="FILE",
            help="compare the ids in FILE with the model's; status 1 if they differ",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Print or check the position ids of a prompt.

    The ids match those of the model's own code in transformers 5.24. Text positions start at 0 and
    restart in each packed sequence. In RoBERTa and similar models, they start after the padding
    row. Padding tokens take up positions in encoders such as BERT, but not in decoders.

    In M-RoPE, each token of an image or a video has three ids: frame, row and column. In Qwen2-VL,
    text after an image starts at the image's first id plus its longer side in tokens. In
    --grid video:T,H,W@SECONDS, SECONDS is the time between frames. Without --grid, --text lists the
    lengths of packed sequences.

    With --check, posenc reads ids of shape (tokens,) or (batch, tokens). For M-RoPE, the shape can
    also be (3, tokens) or (3, batch, tokens). It ignores the ids of padding tokens, and names a
    cause only if the cause explains all wrong ids.

    Examples:
      posenc positions -m qwen2-vl-7b --text 5,3 --grid 1,34,46
      posenc positions -m llama-3-8b --text 100 --pad-left 28 --check ids.npy
      posenc positions -m llama-3-8b --text 5,3,2
      posenc positions -m qwen2-vl-7b --grid video:8,34,46@0.5 --json
    """
    from posenc_cli.checks.position_ids import (
        AXES,
        PatchGrid,
        Prompt,
        assumptions,
        check_ids,
        check_prompt,
        position_ids,
        read_ids,
        token_count,
    )
    from posenc_cli.configs.position_rules import position_rule

    name, content = model.read()
    rule = position_rule(content, name=name)
    grids = tuple(PatchGrid(*each) for each in grid or ())
    if not sum(text) and not grids:
        raise InvalidInput("--text or --grid: at least one token is needed")
    prompt = Prompt(text or (1,) * (len(grids) + 1), grids, left, right)
    check_prompt(rule, prompt)
    tokens = token_count(rule, prompt)
    check_size("--text and --grid", tokens, _MOST if check else LISTED_VALUES, "tokens")
    own = position_ids(rule, prompt)
    warnings = assumptions(rule, prompt)
    console.warning(*warnings)
    if check is not None:
        found = check_ids(rule, prompt, read_ids(check, rule, tokens))
        console.either(
            "positions-check",
            lambda: _fields(found, warnings),
            lambda: _answer(found).text(console.typesetter),
            as_json=as_json,
        )
        return 0 if found.ok else 1
    following = int(own[:, left : tokens - right].max()) + 1
    rows = zip(AXES, own, strict=True) if grids else [("position_ids", own[0])]
    ids = {name: row.tolist() for name, row in rows}
    fields = {"model_type": rule.model_type, **ids, "next": following, "warnings": list(warnings)}
    console.either(
        "positions",
        lambda: fields,
        lambda: "\n".join(",".join(map(str, row)) for row in ids.values()),
        as_json=as_json,
    )
    return 0


def _answer(found: PositionCheck) -> Answer:
    """Return the verdict on ids, the cause, the first that differs, and the next step."""
    from posenc_cli.checks.position_ids import AXES

    if found.ok:
        return Answer(True, f"ok: all {found.compared} ids are the model's")
    sequence = "" if found.sequence is None else f"sequence {found.sequence}, "
    named = f", {AXES[found.axis]}" if found.several else ""
    several = "check a longer prompt: this one does not tell these causes apart"
    return Answer(
        False,
        f"FAILED: {found.count} of {found.compared} ids differ",
        "; or ".join(f"{each.cause}: {each.text}" for each in found.causes) or "unknown",
        f"{sequence}token {found.token}{named}: expected {found.expected}, found {found.found}",
        several if len(found.causes) > 1 else "leave out --check to print the model's ids",
    )


def _fields(found: PositionCheck, warnings: Sequence[str]) -> dict[str, Any]:
    """Return the comparison of ids as JSON fields."""
    difference = {
        "axis": found.axis,
        "sequence": found.sequence,
        "token": found.token,
        "expected": found.expected,
        "found": found.found,
    }
    return {
        **_answer(found).fields(),
        "causes": [{"cause": each.cause, "text": each.text} for each in found.causes],
        "differing": found.count,
        "compared": found.compared,
        "warnings": list(warnings),
        **({} if found.ok else difference),
    }
