"""The rules of docs/grammar.md, held by every command that draws."""

import inspect
import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from posenc_cli.catalogue import BUILT_IN
from posenc_cli.cli.command_line import COMMANDS, function_of
from posenc_cli.cli.pictures import PictureOptions
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.parameters import Parameter, as_text
from posenc_cli.render.drawing.image import drawn_page, image_bytes
from posenc_cli.render.figure import (
    Axis,
    Curve,
    Curves,
    Figure,
    Heatmap,
    Panels,
    Picture,
    heatmaps_of,
    scales_of,
)
from posenc_cli.render.figures.encoded import parameters_text
from posenc_cli.render.style import Style
from posenc_cli.render.terminal.blocks import Medium, Page, width_of
from posenc_cli.render.terminal.text_pictures import picture_text
from tests.experiments.made import run_made_jobs

SMALL = ["--dim", "8", "--len", "16"]
DRAWN: dict[str, list[tuple[list[str], str]]] = {
    "heatmap": [
        (["-s", "sinusoidal", *SMALL, "--base", "500"], "base=500"),
        (["-s", "rope", *SMALL, "--set", "partial=0.5"], "partial=0.5"),
        (["-s", "rope", *SMALL, "--table", "angles"], "angles"),
        (["-s", "rope-yarn", *SMALL, "--set", "beta_fast=16"], "beta_fast=16"),
        (["-s", "alibi", "--heads", "2", "-l", "8", "--set", "form=mpt"], "form=mpt"),
        (["-s", "learned", *SMALL], "random weights, seed 0"),
        (["-s", "t5", "-l", "8", "--softmax", "--causal"], "causal mask"),
        (["-s", "sinusoidal-nd", "--dim", "8", "--set", "grid=3x4"], "3×4"),
    ],
    "curve": [
        (["-s", "rope", *SMALL, "--base", "500"], "base=500"),
        (["-s", "t5", "-l", "8"], "random weights, seed 0"),
        (["-s", "t5", "--table", "buckets", "--set", "num_buckets=16"], "num_buckets=16"),
    ],
    "rotation": [(["-s", "rope", "--dim", "8", "--base", "500"], "base=500")],
    "spectrum": [(["-s", "rope", *SMALL, "--base", "500"], "base=500")],
    "dot-similarity": [
        (["-s", "rope", *SMALL, "--base", "500"], "base=500"),
        (["-s", "learned", *SMALL], "random weights, seed 0"),
        (["-s", "rope", *SMALL, "--content", "random"], "content random"),
        (["-s", "alibi", "-l", "8", "--set", "form=mpt"], "form=mpt"),
    ],
    "compare": [
        (["sinusoidal", "sinusoidal", *SMALL, "--set", "b.base=500", "--tol", "9"], "base=500"),
        (["learned", "learned", *SMALL, "--set", "b.seed=7", "--tol", "9"], "seed 7"),
    ],
    "order-check": [(["-s", "t5", "--heads", "2"], "random weights, seed 0")],
    "heads": [
        (["-s", "rope", "--dim", "8", "--train", "8", "--base", "500"], "base=500"),
        (["-s", "learned", "--dim", "8", "--train", "8"], "random weights, seed 0"),
        (["-s", "rope", "-s", "t5", "--dim", "8", "--train", "8"], "t5"),
    ],
    "extrapolate": [
        (["-s", "rope", "--base", "500", "--train", "8"], "rope base=500:"),
        (["-s", "rope", "-s", "t5", "--train", "8", "--stretch", "none,window"], "rope, window"),
        (["-s", "nope", "--task", "needle", "--train", "16"], "depth of the needle"),
    ],
    "alibi-slopes": [(["--plot", "--heads", "6", "--convention", "naive"], "naive")],
}
"""What each command is asked to draw, and what its title must say of that."""

CASES = [
    pytest.param([command, *arguments], said, id=" ".join([command, *arguments]))
    for command, cases in DRAWN.items()
    for arguments, said in cases
]


@pytest.fixture
def figure_of(call, monkeypatch):
    """What a command draws into a file, before it is drawn."""
    drawn: list[Figure] = []

    def note(figure: Figure, *_: Any) -> Picture[bytes]:
        drawn.append(figure)
        return Picture(b"")

    monkeypatch.setattr("posenc_cli.render.drawing.image.image_bytes", note)
    monkeypatch.setattr("posenc_cli.experiments.job_processes.run_jobs", run_made_jobs)
    monkeypatch.setattr("posenc_cli.cli.commands.extrapolate._check_torch", lambda _: None)

    def run(*arguments: str) -> Figure:
        flag = "--picture" if arguments[0] == "extrapolate" else "--out"  # there a folder
        status, _, err = call(*arguments, flag, "a.png", "-q")
        assert status == 0, err
        return drawn[-1]

    return run


def panels_of(figure: Figure) -> tuple[Heatmap | Curves, ...]:
    return figure.panels if isinstance(figure, Panels) else (figure,)


def words_of(figure: Figure) -> str:
    """All that is written in and around a figure's panels."""
    parts = [figure.title, *getattr(figure, "notes", ())]
    for panel in panels_of(figure):
        parts += [panel.title, *panel.notes]
        parts += [curve.name for curve in getattr(panel, "curves", ())]
        parts.append(getattr(panel, "x_label", ""))
    return "\n".join(parts)


def check_colours(figure: Figure) -> None:
    """Colours diverge around a zero between values, and from nothing else."""
    shown = [heatmap.sample(64, 64) for heatmap in heatmaps_of(figure)]
    for part, scale in zip(shown, scales_of(shown), strict=True):
        if scale.kind == "diverging":
            assert scale.low == -scale.high
            signs = {*np.sign(np.concatenate([p.values.ravel() for p in shown])).tolist()}
            assert {-1.0, 1.0} <= signs or part.heatmap.limits is not None
        elif scale.kind == "sequential":
            assert scale.low >= 0 or scale.high <= 0


def test_every_command_that_draws_is_held_to_the_grammar():
    drawing = {
        name
        for name in COMMANDS
        for parameter in inspect.signature(function_of(name), eval_str=True).parameters.values()
        if inspect.isclass(parameter.annotation)
        and issubclass(parameter.annotation, PictureOptions)
    }
    assert drawing == DRAWN.keys()


@pytest.mark.long
@pytest.mark.parametrize(("arguments", "said"), CASES)
def test_a_title_says_what_is_not_the_default_axes_what_they_count_and_colours_the_sign(
    arguments, said, figure_of
):
    figure = figure_of(*arguments)
    check_colours(figure)
    assert said in words_of(figure)
    for panel in panels_of(figure):
        names = (
            (panel.x_label, panel.y_label)
            if isinstance(panel, Curves)
            else (panel.rows.label, panel.columns.label, panel.value_label)
        )
        assert all(name.strip() for name in names), panel.title


GIVEN = {"rope-longrope": {"dim": 8, "short_factor": "1,1,2,4", "long_factor": "1,4,16,64"}}
"""What a scheme cannot do without."""


OTHERS = {
    "sinusoidal-nd": {
        "grid": "4x8",
        "normalize": {"convention": "detr", "normalize": True},
        "base_size": "7x7",
        "interpolation_scale": "1.5",
        "origin": "-3,2",
    },
    "rope-yarn": {"mscale": 0.75, "mscale_all_dim": 0.75, "attention_factor": 1.25},
    "rope-longrope": {
        "dim": {"dim": 4, "short_factor": "1,2", "long_factor": "1,16"},
        "partial": {"partial": 0.5, "short_factor": "1,2", "long_factor": "1,16"},
        "factor": 4.0,
        "attention_factor": 1.25,
    },
    "rope-resonance": {"attention_factor": 1.25},
    "rope-axial": {
        "interpolation_scale": "2,0.5",
        "rope_scale": {"convention": "cosmos", "grid": "2x2x4", "rope_scale": "2,3,1"},
        "base": 100.0,
        "grid": "4x8",
        "sections": {"convention": "wan", "grid": "2x4x4", "sections": "16,8,8"},
        "base_size": {"convention": "cogvideox", "grid": "2x4x4", "base_size": "30x45"},
        "origin": "0,-3",
    },
    "rope-mixed": {
        "grid": "4x8",
        "x_frequencies": {"dim": 4, "x_frequencies": "1,2", "y_frequencies": "3,4"},
        "y_frequencies": {"dim": 4, "x_frequencies": "1,2", "y_frequencies": "3,4"},
    },
    "mrope": {
        "dim": {"dim": 64, "sections": "8,12,12"},
        "partial": {"partial": 0.5, "sections": "8,12,12"},
        "sections": "24,20,20",
        "order": {"order": "hwt", "sections": "22,22,20"},
    },
    "swin": {"window_size": "4x8"},
    "swin-v2": {"window_size": "4x8", "pretrained_window_size": "12x12"},
    "kerple-log": {"r1": 2.0, "r2": 2.0},
    "kerple-power": {"r1": 2.0, "r2": 2.0},
}
"""What a parameter may be, and others with it, where its type does not say."""

UNTRIED = {
    "rope-longrope": {"short_factor", "long_factor", "max_position_embeddings"},
    "mrope": {"axes"},
    "rope-axial": {"axes"},
}
"""What is given already, or follows from others; beside what each scheme leaves to the request."""


def others(scheme: str, parameter: Parameter) -> Iterator[dict[str, object]]:
    """Some values that are not a parameter's default, with what goes with them."""
    name, default = parameter.name, parameter.default
    known = OTHERS.get(scheme, {}).get(name)
    if known is not None:
        yield known if isinstance(known, dict) else {name: known}
    elif parameter.choices:
        yield from ({name: choice} for choice in parameter.choices if choice != default)
    elif isinstance(default, bool):
        yield {name: not default}
    elif isinstance(default, int | float):
        yield {name: 2 * default or 3}
        yield {name: default / 2 if isinstance(default, float) else default + 1}


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_parameter_of_a_scheme_is_named_where_it_is_not_the_default(name):
    scheme = BUILT_IN[name]
    untried = set(scheme.parameters) - {"weights", "seq_len"}
    for parameter in scheme.parameters.values():
        for values in others(name, parameter):
            try:
                bound = scheme.bind({**GIVEN.get(name, {}), **values}, seq_len=16)
            except InvalidInput:
                continue
            untried.discard(parameter.name)
            value = as_text(values[parameter.name])
            named = parameters_text(bound, last=15)
            assert re.search(rf"\b{parameter.name}[= ]{re.escape(value)}(,|$)", named), named
    assert untried == UNTRIED.get(name, set())


def heatmap(values: np.ndarray, label: str, title: str = "a map") -> Heatmap:
    rows, columns = values.shape
    axes = Axis("query", range(rows)), Axis("key", range(columns))
    return Heatmap(values, *axes, title, value_label=label, square=rows == columns)


def test_maps_of_one_quantity_share_a_scale_and_all_of_a_figure_one_kind_of_colours():
    values = np.linspace(0, 1, 16).reshape(4, 4)
    one, other, bias = (
        heatmap(values, "q·k / d"),
        heatmap(3 * values - 1, "q·k / d"),
        heatmap(-9 * values, "score"),
    )
    shown = [figure.sample(9, 9) for figure in (one, other, bias)]
    first, second, third = scales_of(shown)
    assert (first.low, first.high) == (second.low, second.high) == (-2, 2)
    assert (third.low, third.high) == (-9, 9)
    assert {first.kind, second.kind, third.kind} == {"diverging"}
    apart = [heatmap(values, "value").sample(9, 9), heatmap(5 * values, "value").sample(9, 9)]
    assert [scale.high for scale in scales_of(apart)] == [1, 5]


@pytest.mark.parametrize("several", [(), ("-s", "rope", "--set", "b.base=500")])
def test_what_is_drawn_as_a_bound_is_one_and_has_axes_of_its_own(several, figure_of):
    contents = ("--content", "ones", "--content", "random", "--content", "independent")
    asked = ("dot-similarity", "-s", "rope", *several, "-d", "16", "-l", "200", *contents)
    curves, bounds = figure_of(*asked, "--profile", "--bound").panels
    assert bounds.y_label == "RoFormer's bound on |q·k / d|"
    drawn = {curve.color: curve for curve in bounds.curves}
    assert len(drawn) == len(bounds.curves) == 4 if several else 2  # of independent ones none
    bounded = [curve for curve in curves.curves if curve.envelope is None]
    assert len(bounded) == (4 if several else 2)
    for curve in bounded:
        assert drawn[curve.color].x == curve.x
        assert (np.abs(curve.y) <= drawn[curve.color].y).all()


def test_of_unknown_content_the_shape_of_a_bound_is_drawn_and_called_so(figure_of):
    asked = ("dot-similarity", "-s", "rope", "-l", "64", "--content", "independent", "--bound")
    assert figure_of(*asked, "--profile").panels[-1].y_label == "mean |S_i|"


def test_one_colour_scale_stands_for_all_tables_of_cosines(call, figure_of):
    """YaRN's are multiplied by 0.1 ln 4 + 1, which colours of a scale of its own would hide."""
    asked = ("heatmap", "-s", "rope", "-s", "rope-yarn", "--set", "factor=4", "-l", "32")
    most = 0.1 * math.log(4) + 1
    text = call(*asked, "--color", "never")[1]
    assert re.findall(r"(\S+) \[.*\] (\S+)", text) == [(f"-{most:.4g}", f"{most:.4g}")]
    page = drawn_page(figure_of(*asked), Style.of(None, None, None))
    assert [axes.get_ylabel() for axes in page.axes] == ["position", "position", "cos, sin"]
    assert page.axes[-1].get_yticklabels()[-1].get_text() == f"{most:.4g}"
    # What is added to x is no rotation, and has a scale of its own.
    shown = figure_of("heatmap", "-s", "sinusoidal+rope", "-l", "32").panels
    assert [heatmap.value_label for heatmap in shown] == ["added to x", "cos, sin"]


@pytest.mark.long
def test_a_side_that_is_given_stays_and_what_has_no_room_is_named():
    figure = heatmap(np.random.default_rng(0).random((512, 600)), "value")
    (shown,) = image_bytes(figure, "png", Style.of(800, 500, None)).shown
    rows, columns = shown.values.shape
    assert f"shows {rows} of 512 queries and {columns} of 600 keys" in shown.notes
    (wide,) = image_bytes(
        heatmap(np.zeros((8, 9000)) + np.arange(9000), "value"), "png", Style()
    ).shown
    assert re.match(r"shows \d+ of 9000 keys", wide.notes[0])


@pytest.mark.parametrize("page", [(20, 8), (40, 12), (80, 23), (120, 39), (200, 49)])
@pytest.mark.parametrize("depth", ["truecolor", "none"])
def test_panels_asked_for_one_by_one_are_all_shown_and_none_is_a_few_pixels(page, depth):
    values = np.add.outer(np.arange(64.0), np.arange(64.0))
    curve = Curves((Curve((0, 1, 2), (1.0, 2.0, 1.5)),), "a curve", "offset", "q·k / d")
    panels = Panels((*[heatmap(values, "q·k / d")] * 3, curve), "all", shared=False)
    medium = Medium(depth=depth, braille=True)
    lines = picture_text(panels, Page(*page, medium)).content.splitlines()
    assert max(map(width_of, lines)) <= max(20, page[0])
    text = "\n".join(lines)
    assert text.count("a map") == 3
    assert text.count("a curve") == 1
    for row in re.split("\n.*└.*\n", text)[:-1]:
        if "a map" in row:
            assert len(re.findall("\n.*[│┤]", row)) >= 8, "lines of cells"


@pytest.mark.parametrize("count", [3, 12, 40])
def test_of_many_alike_there_are_as_many_as_have_room_and_the_note_says_so(count):
    values = np.add.outer(np.arange(32.0), np.arange(32.0))
    figures = tuple(heatmap(values, "score", f"head {i}") for i in range(count))
    panels = Panels(figures, "heads", noun="head")
    text = picture_text(panels, Page(80, 23, Medium())).content
    drawn = len(re.findall(r"head \d", text))
    assert (drawn == count) == (f"of {count} heads" not in text)
    if drawn < count:
        assert f"shows {drawn} of {count} heads" in text
        needed = int(re.search(r"--height (\d+) shows all", text)[1])
        full = picture_text(panels, Page(80, needed, Medium())).content
        assert len(re.findall(r"head \d", full)) == count
        assert len(full.splitlines()) <= needed


def test_the_order_of_curves_is_that_of_their_colours_in_text_and_in_figures():
    curves = tuple(Curve((0, 1), (float(i), i + 1.0), f"curve {i}") for i in range(6))
    figure = Curves(curves, "t", "x", "y")
    page = drawn_page(figure, Style())
    colors = [line.get_color() for line in page.axes[0].get_lines()]
    text = picture_text(figure, Page(80, 20, Medium("truecolor", braille=True))).content
    for color, name in zip(colors, (curve.name for curve in curves), strict=True):
        code = ";".join(map(str, bytes.fromhex(color[1:])))
        assert re.search(rf"\x1b\[38;2;{code}m\S+\x1b\[0m {name}", text)
    assert len({*itertools.chain(colors)}) == 6
