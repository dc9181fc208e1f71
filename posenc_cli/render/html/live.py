"""Write the interactive parts of a page: clocks by position, wavelengths by base and factor.

The script of a page multiplies a correctly rounded frequency by a position. It looks up wavelengths
in a grid that is computed here in float64 and sent with seven digits.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.spectrum import context_of
from posenc_cli.encoding.request import Encoding
from posenc_cli.numerics import exact
from posenc_cli.records import Record, replace
from posenc_cli.render.figure import Curve, Curves
from posenc_cli.render.html.html_plots import packed, table_of, text_of
from posenc_cli.render.ticks import label

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from posenc_cli.choice import Choice
    from posenc_cli.formulas.declare import Waves
    from posenc_cli.numerics.arrays import RealRows, Reals

_BASES = 1e2, 1e3, 1e4, 3e4, 1e5, 3e5, 5e5, 1e6, 3e6, 1e7
_FACTORS = 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0
_MOST_WAVES = 256
"""The most waves of a ladder: with more, the grid of wavelengths would not fit in a page."""
_STEPS = 1000
"""Steps of a position slider."""


class Clocks(Record):
    """Pairs as clocks: q at position m and k at n, each rotated from (amplitude, 0).

    ``frequencies`` are those of all pairs. ``shown`` are the pairs with a clock. ``last`` is the
    highest position of the sliders.

    Units: frequencies in radians per position.
    """

    frequencies: Reals
    amplitude: float
    shown: tuple[int, ...]
    last: int
    figure: None = None

    @property
    def data(self) -> dict[str, Any]:
        """The clocks as data for the script."""
        return {
            "kind": "clocks",
            "frequencies": packed(self.frequencies, exactly=True),
            "amplitude": self.amplitude,
            "shown": list(self.shown),
            "last": self.last,
        }

    @property
    def html(self) -> str:
        """The sliders, the score and the clock faces."""
        sliders = "".join(
            f'<label><span><b class="{of}">{of}</b> at position {name}</span>'
            f'<input type="range" name="{name}-range" min="0" max="{_STEPS}" value="{at}" '
            f'aria-label="position {name}"><input type="number" name="{name}-number" min="0" '
            f'max="{self.last}" value="{round(self.last * (at / _STEPS) ** 3)}" '
            f'aria-label="position {name}, exactly"></label>\n'
            for of, name, at in (("q", "m", 200), ("k", "n", 0))
        )
        faces = "".join(
            f'<figure class="clock"><svg viewBox="-1.1 -1.1 2.2 2.2" role="img" '
            f'aria-label="pair {pair}: q and k"><circle r="1"/><line class="k" x1="0" y1="0"/>'
            f'<line class="q" x1="0" y1="0"/></svg><figcaption>pair {pair}<br><b></b></figcaption>'
            "</figure>\n"
            for pair in self.shown
        )
        rows = (
            [str(pair), label(2 * math.pi / speed, 6) if speed else "none", f"{speed:.9g}"]
            for pair, speed in zip(self.shown, self.frequencies[[*self.shown]], strict=True)
        )
        return (
            f"{sliders}<output></output>\n<p class=note>q = k = (1, 0) in each of "
            f"{len(self.frequencies)} pairs; q·k depends on m − n alone.</p>\n"
            f'<div class="clocks">{faces}</div>\n'
            + table_of(["pair", "wavelength", "radians per position"], rows, "frequencies")
        )


class Ladder(Record):
    """The wavelengths of all pairs at each of some bases and factors.

    ``own`` has the indices of the requested base and factor. If a scheme has no base or no factor,
    there is a single value for it.

    Shape: wavelengths (bases, factors, pairs).

    Units: positions.
    """

    bases: tuple[float, ...]
    factors: tuple[float, ...]
    wavelengths: RealRows
    own: tuple[int, int]
    context: int

    @property
    def data(self) -> dict[str, Any]:
        """The ladder as data for the script."""
        return {
            "kind": "ladder",
            "bases": list(self.bases),
            "factors": list(self.factors),
            "pairs": self.wavelengths.shape[-1],
            "wavelengths": packed(self.wavelengths.ravel()),
            "context": self.context,
        }

    @property
    def figure(self) -> Curves:
        """The wavelengths as given, and at the sliders, in axes that fit all values."""
        pairs = np.arange(self.wavelengths.shape[-1])
        ends = self.wavelengths[np.isfinite(self.wavelengths)]
        given = Curve.of(pairs, self.wavelengths[self.own], "as given")
        hidden = Curve((math.nan,) * 2, (float(ends.min()), float(ends.max())), faint=True)
        return Curves(
            (
                replace(given, thin=True),
                replace(given, name="at the sliders"),
                hidden,
            ),
            "wavelengths by base and factor",
            "pair",
            "wavelength in positions",
            y_scale="log",
            levels=((float(self.context), f"context, {self.context} positions"),),
        )

    @property
    def html(self) -> str:
        """A slider for the base and the factor, if they have several values, and the result."""
        sliders = "".join(
            f'<label><span>{name} <b>{text_of(label(stops[at]))}</b></span><input type="range" '
            f'name="{name}" min="0" max="{len(stops) - 1}" value="{at}" aria-label="{name}">'
            "</label>\n"
            for name, stops, at in zip(
                ("base", "factor"), (self.bases, self.factors), self.own, strict=True
            )
            if len(stops) > 1
        )
        return f'{sliders}<output class="result" aria-live="polite"></output>\n'


def clocks_of(waves: Waves, pairs: Sequence[int], last: int) -> tuple[Clocks, ...]:
    """Return the clocks of some pairs; empty unless they rotate by the position alone."""
    amplitude = float(waves.scale)
    if waves.coordinates is not None or waves.growth is not None or not amplitude:
        return ()
    frequencies = np.array([float(each) for each in waves.frequencies(exact)])
    return (Clocks(frequencies, amplitude, tuple(pairs), max(1, last)),)


def ladder_of(choice: Choice) -> tuple[Ladder, ...]:
    """Return the wavelengths of an encoding by base and factor; empty if it has neither."""
    encoding = choice.encoding()
    waves, params = encoding.bound.content.waves, encoding.bound.params
    if waves is None or waves.coordinates is not None or waves.count > _MOST_WAVES:
        return ()
    context, _ = context_of(encoding, choice.positions, choice.context)
    length = context if choice.positions is None else choice.positions.length
    at_length = Encoding.of(choice.scheme, choice.given, seq_len=length).bound.params

    def rungs(base: float | None, factor: float | None) -> Reals:
        stated = {"base": base, "factor": factor}
        changed = {**at_length, **{k: v for k, v in stated.items() if v is not None}}
        with np.errstate(divide="ignore"):
            return np.abs(2 * np.pi / np.asarray(choice.scheme.frequencies(changed, np)))

    bases, base = _slider_stops(params.get("base"), _BASES)
    factors, factor = _slider_stops(params.get("factor"), _FACTORS)
    own = [rungs(bases[base], each) for each in factors]
    if all(np.array_equal(each, own[0]) for each in own):
        factors, factor = (params.get("factor"),), 0
    if len(bases) == len(factors) == 1:
        return ()
    grid = np.array(
        [
            own[: len(factors)]
            if each == bases[base]
            else [rungs(each, other) for other in factors]
            for each in bases
        ]
    )
    return (Ladder(_numbers(bases), _numbers(factors), grid, (base, factor), context),)


def _numbers(stops: Iterable[float | None]) -> tuple[float, ...]:
    return tuple(1.0 if stop is None else float(stop) for stop in stops)


def _slider_stops(own: Any, usual: Iterable[float]) -> tuple[tuple[Any, ...], int]:
    """Return the values of a slider, including the requested one, and its index."""
    if own is None:
        return (None,), 0
    stops = sorted({float(own), *usual})
    return tuple(stops), stops.index(float(own))
