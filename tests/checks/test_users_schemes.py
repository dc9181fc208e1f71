"""A scheme that a user wrote is identified, and named by a diagnosis, as posenc's own are."""

import json

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.diagnosis.diagnose import diagnose
from posenc_cli.identification.search import identify
from posenc_cli.inference.codes import Cause
from posenc_cli.inference.evidence import Evidence
from tests.checks import rope

MODULE = '''
from typing import Annotated, Any

from posenc_cli.numerics.placements import Placement
from posenc_cli.formulas.declare import (
    Bias, Coordinates, Rotation, Sinusoids, Waves, absolute, bias, rotary
)
from posenc_cli.formulas.grids import Grid
from posenc_cli.formulas.inverse import Guess
from posenc_cli.formulas.parameters import Base, Dim, Heads, Param
from posenc_cli.formulas.rotary import PairLayout, ladder, rotated_dim


@rotary(source="a user", formula="θ_i = 1 / (1 + slope · i^power)")
def harmonic(
    *,
    dim: Dim = 64,
    layout: PairLayout = "interleaved",
    slope: Annotated[float, Param("how fast frequencies fall", above=0)] = 0.5,
    power: Annotated[int, Param("of the pair", minimum=1, maximum=8)] = 2,
) -> Rotation:
    """Frequencies that fall as a harmonic series does."""
    rotated = rotated_dim(dim, 1.0)

    def frequencies(xp: Any) -> Any:
        return 1 / (1 + slope * xp.arange(0, rotated // 2) ** power)

    return Rotation(Waves(rotated // 2, frequencies), layout)


@rotary(source="a user", formula="θ_i = base^(−2i/d) · (1 + i) / factor")
def rising(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    layout: PairLayout = "interleaved",
    factor: Annotated[float, Param("context extension", minimum=1)] = 1.0,
) -> Rotation:
    """A ladder with a slope of its own."""
    rotated = rotated_dim(dim, 1.0)

    def frequencies(xp: Any) -> Any:
        return ladder(xp, rotated, base) * (xp.arange(0, rotated // 2) + 1) / factor

    return Rotation(Waves(rotated // 2, frequencies), layout)


def _inverse(xp, measured):
    yield Guess({**measured.given, "seed": 3}, cost=2.0)
    raise RuntimeError("the inverse of a user")


@rotary(source="a user", formula="θ_i = (seed + i)/1000", inverse=_inverse)
def seeded(
    *,
    dim: Dim = 64,
    layout: PairLayout = "interleaved",
    seed: Annotated[int, Param("which", minimum=1)] = 1,
) -> Rotation:
    """Frequencies that a number of the user's shifts."""

    def frequencies(xp: Any) -> Any:
        return (xp.arange(0, dim // 2) + seed) / 1000

    return Rotation(Waves(dim // 2, frequencies), layout)


@rotary(source="a user", formula="θ_i = 1 / (1 + i)^2")
def bare(*, dim: Dim = 64) -> Rotation:
    """A scheme that pairs columns in one way alone."""

    def frequencies(xp: Any) -> Any:
        return 1 / (1 + xp.arange(0, dim // 2)) ** 2

    return Rotation(Waves(dim // 2, frequencies), "interleaved")


def _sinusoids(frequencies, count, dim, coordinates=None):
    placements = Placement("cos", slice(0, count)), Placement("sin", slice(count, dim))
    return Sinusoids(Waves(count, frequencies, coordinates=coordinates), dim, placements)


@absolute(source="a user", formula="cos(p · θ_i), then sin(p · θ_i), θ_i = 1/(1 + i)")
def harmonics(*, dim: Dim = 64) -> Sinusoids:
    """Cosines first, of frequencies that are a harmonic series."""
    return _sinusoids(lambda xp: 1 / (1 + xp.arange(0, dim // 2)), dim // 2, dim)


@absolute(source="a user", formula="cos and sin of x, then y, times base^(−i/n)")
def tiles(*, dim: Dim = 64, base: Base = 10_000.0, grid: Grid = (4, 4)) -> Sinusoids:
    """Columns of the x axis first."""
    share = dim // 4

    def frequencies(xp: Any) -> Any:
        ladder = 1 / base ** (xp.arange(0, share) / share)
        return xp.concat([ladder, ladder])

    def at(numbers: Any) -> Any:
        return numbers // grid[1], numbers % grid[1]

    axes = (1,) * share + (0,) * share
    return _sinusoids(frequencies, 2 * share, dim, Coordinates(axes, at=at))


@rotary(source="a user", formula="none")
def broken(*, dim: Dim = 64, base: Base = 10_000.0) -> Rotation:
    """A scheme whose code raises."""
    raise ZeroDivisionError("the user's")
'''


@pytest.fixture(autouse=True)
def plugins(tmp_path, monkeypatch):
    (tmp_path / "users_schemes.py").write_text(MODULE)
    info = tmp_path / "users-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: users\nVersion: 1\n")
    names = ("harmonic", "rising", "seeded", "bare", "harmonics", "tiles", "broken")
    lines = [f"{name} = users_schemes:{name}\n" for name in names]
    (info / "entry_points.txt").write_text(f"[{catalogue.PLUGIN_GROUP}]\n{''.join(lines)}")
    monkeypatch.syspath_prepend(tmp_path)


def harmonic(slope=0.5, power=2, pairs=32):
    return 1 / (1 + slope * np.arange(pairs) ** power)


def rising(base=1e4, factor=1.0, pairs=32):
    return base ** -(np.arange(pairs) / pairs) * (1 + np.arange(pairs)) / factor


def tables(rates, count=512):
    angles = np.multiply.outer(np.arange(count), rates)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


@pytest.mark.long
@pytest.mark.sweep(6)
@pytest.mark.parametrize(
    ("rates", "scheme", "params"),
    [
        (harmonic(), "harmonic", {"slope": 0.5, "power": 2}),
        (rising(), "rising", {"base": 1e4, "factor": 1.0}),
        ((np.arange(32) + 3) / 1000, "seeded", {"seed": 3}),
    ],
)
def test_a_users_scheme_is_identified_by_its_defaults_or_its_inverse(rates, scheme, params):
    for arrays in (tables(rates, 64), (rates.astype(np.float32),)):
        found = identify(Evidence.of_arrays(*arrays)).match
        assert found is not None
        assert (found.scheme, {name: found.params[name] for name in params}) == (scheme, params)


@pytest.mark.long
def test_a_users_scheme_without_a_choice_of_layout_is_identified_too():
    full = [np.repeat(table, 2, axis=1) for table in tables(1 / (1 + np.arange(16)) ** 2, 64)]
    found = identify(Evidence.of_arrays(*full)).match
    assert found is not None
    assert (found.scheme, found.tables) == ("bare", ("cos-full", "sin-full"))


@pytest.mark.slow
def test_a_users_sinusoids_are_identified_where_their_own_columns_are():
    angles = np.outer(np.arange(5, 105), 1 / (1 + np.arange(16)))
    match = identify(Evidence.of_arrays(np.concatenate([np.cos(angles), np.sin(angles)], 1))).match
    assert match is not None
    assert (match.scheme, match.params, str(match.positions)) == ("harmonics", {"dim": 32}, "5:105")


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize("base", [10_000.0, 500.0])
def test_a_users_grid_is_identified(base):
    rates = base ** -(np.arange(8) / 8)
    y, x = np.divmod(np.arange(48), 8)
    angles = np.concatenate([np.outer(x, rates), np.outer(y, rates)], axis=1)
    match = identify(Evidence.of_arrays(np.concatenate([np.cos(angles), np.sin(angles)], 1))).match
    assert match is not None
    assert (match.scheme, match.params) == ("tiles", {"dim": 32, "base": base, "grid": (6, 8)})


@pytest.mark.slow
def test_the_command_that_identify_prints_writes_a_users_table_again(call, tmp_path):
    cos, sin = tables(harmonic(), 64)
    np.save(tmp_path / "t.npy", np.concatenate([cos, sin], axis=1))
    status, out, err = call("identify", str(tmp_path / "t.npy"), "--json")
    assert (status, err) == (0, "")
    first = json.loads(out)["candidates"][0]
    assert (first["scheme"], first["params"]["slope"]) == ("harmonic", 0.5)
    assert "--scheme harmonic" in first["commands"][0]


@pytest.mark.long
@pytest.mark.sweep(7)
@pytest.mark.parametrize(
    ("reference", "given", "rates", "cause", "words"),
    [
        ("rope", {}, harmonic(), Cause.FREQUENCY_RULE, "the frequencies follow harmonic"),
        ("harmonic", {}, harmonic(power=3), Cause.UNKNOWN, "have wrong frequencies"),
        ("rope-yarn", {}, harmonic(), Cause.FREQUENCY_RULE, "the frequencies follow harmonic"),
        ("rising", {}, rising(base=5e5), Cause.BASE, "the base is 500000, not 10000"),
        ("rising", {"factor": 4.0}, rising(factor=8.0), Cause.FREQUENCY_RULE,
         "the factor is 8, not 4"),
    ],
)  # fmt: skip
def test_rope_check_names_a_users_scheme_and_its_parameters(reference, given, rates, cause, words):
    right = rope.reference(reference, dim=64, **given)
    if reference == "rope-yarn":
        cos, sin = (right.scale * table for table in tables(rates))
    else:
        cos, sin = tables(rates)
    causes = diagnose(rope.of_tables(cos, sin, right, "0:512"))
    assert causes[0].cause == cause
    assert words in causes[0].message
