"""Draw the pictures of docs/gallery.md, and write the words around them.

Every picture is drawn twice, for light and for dark pages. Its size and its theme are set here; the
rest is in the command below it.
"""

import contextlib
import io
import shlex
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from posenc_cli.catalogue import BUILT_IN
from posenc_cli.cli.exits import main as posenc
from posenc_cli.render.style import PALETTES

FOLDER = "images/gallery"
"""The folder of the pictures, relative to the page."""
_COLORS = 128
"""Number of colours in a picture that keeps a scale smooth."""


class Known(NamedTuple):
    """A well-known figure of the subject, drawn again."""

    name: str
    title: str
    source: str
    command: str


KNOWN = (
    Known(
        "alammar",
        "20 words, 512 dimensions, sines on the left and cosines on the right",
        "J. Alammar, “The Illustrated Transformer”, 2018",
        "heatmap -s sinusoidal -l 20 -d 512 --set layout=concat --set spacing=tensor2tensor",
    ),
    Known(
        "kazemnejad-heatmap",
        "128 dimensions at 50 positions, alternating sines and cosines",
        "A. Kazemnejad, “Transformer Architecture: The Positional Encoding”, 2019",
        "heatmap -s sinusoidal -l 50 -d 128 --unsplit --cmap RdBu",
    ),
    Known(
        "kazemnejad-products",
        "The similarity of two positions depends only on their distance",
        "the same page of A. Kazemnejad: “dot product of position embeddings for all time-steps”",
        "dot-similarity -s sinusoidal -l 50 -d 128",
    ),
    Known(
        "annotated-transformer",
        "Four dimensions plotted against position",
        "A. Rush and others, “The Annotated Transformer”, 2018",
        "curve -s sinusoidal -d 20 -l 100 --dims 4:8",
    ),
    Known(
        "roformer-rotation",
        "RoPE rotates each pair of dimensions, later pairs more slowly",
        "J. Su and others, “RoFormer”, arXiv:2104.09864, 2021, figure 1",
        "rotation -s rope -d 64",
    ),
    Known(
        "roformer-decay",
        "RoPE's q·k by distance: equal vectors, RoFormer's bound, and independent vectors, "
        "which show no decay",
        "Su et al., “RoFormer”, figure 2",
        "dot-similarity -s rope -d 128 -l 256 --profile --content ones --content independent "
        "--bound",
    ),
    Known(
        "dog-bites-man",
        "Without positions, the score of two words does not depend on their order; "
        "with RoPE it does",
        "an exercise in many courses",
        "order-check -s rope --plot",
    ),
    Known(
        "alibi-bias",
        "ALiBi's bias, head by head",
        "O. Press and others, “Train Short, Test Long”, arXiv:2108.12409, 2021, figure 3",
        "heatmap -s alibi --heads 8 -l 16",
    ),
    Known(
        "alibi-slopes",
        "The slopes of 12 heads: the authors' rule and a common mistake",
        "Press et al., “Train Short, Test Long”, section 3",
        "alibi-slopes --heads 12 --convention press --convention naive --plot",
    ),
    Known(
        "alibi-weights",
        "Attention weights of ALiBi alone, under a causal mask",
        "Press et al., “Train Short, Test Long”",
        "heatmap -s alibi --softmax --causal -l 32",
    ),
    Known(
        "t5-buckets",
        "T5 uses one bucket for each small distance, and wider buckets for large distances",
        "C. Raffel and others, “Exploring the Limits of Transfer Learning”, arXiv:1910.10683, "
        "2019, section 2.1",
        "curve -s t5 --table buckets --positions -150:151",
    ),
    Known(
        "yarn-ramp",
        "Wavelengths that YaRN keeps, blends and interpolates for 32 times Llama 2's context",
        "B. Peng and others, “YaRN”, arXiv:2309.00071, 2023, section 3.2",
        "spectrum -s rope-yarn -d 128 --set factor=32 --set original_max_position_embeddings=4096",
    ),
    Known(
        "llama-3.1",
        "Llama 3.1 makes the long wavelengths of Llama 3 eight times longer",
        "A. Dubey and others, “The Llama 3 Herd of Models”, arXiv:2407.21783, 2024",
        "spectrum -m llama-3-8b -m llama-3.1-8b",
    ),
    Known(
        "vit-grid",
        "Similarity of one patch of an image to all other patches",
        "A. Dosovitskiy and others, “An Image is Worth 16x16 Words”, arXiv:2010.11929, 2020, "
        "figure 7 (learned positions in the paper, MAE's sinusoids here)",
        "heatmap -s sinusoidal-nd -d 768 --set grid=14x14",
    ),
)

_LARGE, _SMALL = 100, 75
"""Pixels per inch."""
_VIEWS = {"heatmap": "values", "dot-similarity": "similarity", "spectrum": "spectrum"}
_OWN = {
    "rope-longrope": "-d 8 --set short_factor=1,1,2,4 --set long_factor=1,4,16,64 "
    "--set original_max_position_embeddings=64",
    "shaw": "-d 32",
    "swin": "--set window_size=8x8",
}
"""Options that a scheme needs besides its name and a length."""
_WITHOUT = {
    **{
        (name, "spectrum"): "no waves"
        for name in ("learned", "integer", "normalized", "binary", "nope", "shaw")
    },
    **{
        (name, "spectrum"): "no waves: a bias"
        for name, scheme in BUILT_IN.items()
        if scheme.kind == "bias"
    },
}


def scheme_command(name: str, view: str) -> str:
    """Return the command that draws a view of a scheme.

    >>> scheme_command("rope", "heatmap")
    'heatmap -s rope -l 64'
    """
    return " ".join(filter(None, [view, "-s", name, "-l 64", _OWN.get(name)]))


def drawn() -> Iterator[tuple[str, str, int]]:
    """Yield the name, the command and the pixels per inch of each picture."""
    for known in KNOWN:
        yield known.name, known.command, _LARGE
    for name in BUILT_IN:
        for view in _VIEWS:
            if (name, view) not in _WITHOUT:
                yield f"{name}-{view}", scheme_command(name, view), _SMALL


def files() -> list[str]:
    """Return the names of all pictures."""
    return [f"{name}-{theme}.png" for name, *_ in drawn() for theme in PALETTES]


def draw(folder: Path, pictures: Iterable[tuple[str, str, int]] | None = None) -> None:
    """Draw pictures into a folder, or all."""
    with tempfile.TemporaryDirectory() as temporary:
        for name, command, dpi in pictures or drawn():
            for theme in PALETTES:
                path = Path(temporary, "drawn.png")
                look = ["--dpi", str(dpi), "--theme", theme, "--out", str(path), "--quiet"]
                with contextlib.redirect_stdout(io.StringIO()):
                    status = posenc([*shlex.split(command), *look])
                if status:
                    raise SystemExit(f"posenc {command}: status {status}")
                with Image.open(path) as image:
                    few = image.convert("RGB").quantize(_COLORS, dither=Image.Dither.NONE)
                few.save(folder / f"{name}-{theme}.png", optimize=True)


def markdown() -> str:
    """Return the page without its introduction."""
    parts = ["## Figures of papers and blogs, reproduced"]
    for known in KNOWN:
        text = f"{known.title}. After {known.source}."
        command = f"```console\n$ posenc {known.command}\n```"
        parts += [_picture(known.name, known.title), text, command]
    parts += ["## Every scheme", _table()]
    return "\n\n".join(parts)


def _table() -> str:
    lines = [f"| scheme | {' | '.join(_VIEWS.values())} |", "|---|---|---|---|"]
    for name, scheme in BUILT_IN.items():
        cells = [
            _WITHOUT.get((name, view)) or _picture(f"{name}-{view}", f"{name}: {word}", 260)
            for view, word in _VIEWS.items()
        ]
        own = f"<br>`{_OWN[name]}`" if name in _OWN else ""
        lines.append(f"| **{name}**<br>{scheme.kind}{own} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _picture(name: str, words: str, width: int | None = None) -> str:
    wide = f' width="{width}"' if width else ""
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{FOLDER}/{name}-dark.png">'
        f'<img alt="{words}" src="{FOLDER}/{name}-light.png"{wide}></picture>'
    )
