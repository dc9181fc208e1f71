"""xPos: cells whose amplitude grows or shrinks, against mpmath and two peers' own code."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli import catalogue
from posenc_cli.encoding import growing
from posenc_cli.encoding.engine import Engine, wave_filler
from posenc_cli.formulas.declare import Coordinates, Growth, Waves
from posenc_cli.numerics.dtypes import REAL_DTYPES
from posenc_cli.numerics.placements import Placement
from posenc_cli.numerics.rounding import round_exact
from posenc_cli.records import replace
from tests.examples import examples
from tests.formulas.test_peers import turned
from tests.matrices import matrix

every_dtype = pytest.mark.parametrize("dtype", sorted(REAL_DTYPES))
sides = st.sampled_from(["query", "key"])


def rounded(value, dtype):
    """A number of mpmath, correctly rounded."""
    sign, mantissa, exponent, _ = value._mpf_
    exact = (-1) ** sign * Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return round_exact([exact], REAL_DTYPES[dtype])[0]


def zeta(i, d):
    return mpmath.mpf(20 * i + 4 * d) / (14 * d)


def cell(function, position, i, *, d, centre, side="query", scale_base=512):
    power = mpmath.mpf(position - centre) / mpmath.mpf(scale_base)
    amplitude = zeta(i, d) ** (power if side == "query" else -power)
    angle = position * mpmath.mpf(10_000) ** (-mpmath.mpf(2 * i) / d)
    return amplitude * getattr(mpmath, function)(angle)


@pytest.mark.sweep(3)
@examples(60)
@given(
    position=st.one_of(st.integers(0, 3000), st.integers(0, 340_000), st.integers(0, 2**53)),
    i=st.integers(0, 7),
    seq_len=st.integers(1, 5000),
    side=sides,
    function=st.sampled_from(["cos", "sin"]),
)
@every_dtype
def test_every_cell_is_correctly_rounded(  # noqa: PLR0917 - from Hypothesis
    dtype, position, i, seq_len, side, function
):
    found = matrix(
        "xpos", str(position), dim=16, seq_len=seq_len, side=side, table=function, dtype=dtype
    )
    with mpmath.workprec(500):
        expected = cell(function, position, i, d=16, centre=(seq_len + 1) // 2, side=side)
        if expected == 0:
            assert found[0, i] == 0
        elif abs(mpmath.log(abs(expected), 2)) > 2000:
            assert found[0, i] == (
                0 if abs(expected) < 1 else math.copysign(1, expected) * np.inf
            ) or (dtype == "bfloat16" and found[0, i] & 0x7FFF in (0, 0x7F80))
        else:
            assert found[0, i] == rounded(expected, dtype)


BINADES_A_POSITION = -math.log(0.4 / 1.4) / 512 / math.log(2)


def test_the_margin_covers_the_error_of_the_first_tier():
    waves = catalogue.find("xpos").bind({"dim": 8}, seq_len=900).content.waves
    cells = growing.GrowingCells(waves, waves.growth)
    positions = np.arange(0, 5000, 37)
    out = np.empty((positions.size, 4))
    cells._table.fill(out, positions, [Placement("cos", slice(0, 4))], dtype=REAL_DTYPES["float64"])
    amplitudes = cells._amplitudes(positions)
    worst = 0.0
    for row, position in enumerate(positions.tolist()):
        for i in range(4):
            with mpmath.workprec(500):
                true = cell("cos", position, i, d=8, centre=450)
                error = abs(mpmath.mpf(out[row, i] * amplitudes[row, i]) - true)
                worst = max(worst, float(error / amplitudes[row, i]))
    assert 2.0**-55 < worst < growing.MARGIN * 0.6


@pytest.mark.parametrize("scale", [2.0**-20, 1.0, 2.0**20])
def test_nearly_all_narrow_rows_are_proven_from_float64_at_any_scale(scale, monkeypatch):
    rows = counted(monkeypatch, "_rounded_cells")
    waves = catalogue.find("xpos").bind({"dim": 16}, seq_len=600).content.waves
    out = np.empty((500, 8), np.float32)
    placements = [Placement("cos", slice(0, 8))]
    filler = wave_filler(replace(waves, scale=scale), Engine())
    filler.fill(out, np.arange(1, 501), placements, dtype=REAL_DTYPES["float32"])
    assert sum(rows) <= 40  # of 500: 2⁻⁴⁹ of a cell is seldom across a tie, 2⁻²⁴ apart


@pytest.mark.long
@pytest.mark.parametrize(
    ("dtype", "binades"),
    [
        ("float16", 20),
        ("float32", 140),
        ("float64", 1021.95),
        ("float64", 1022.1),
        ("float64", 1060),
        ("bfloat16", 130),
    ],
)
def test_where_cells_underflow_they_are_correctly_rounded_subnormals(dtype, binades):
    first = int(binades / BINADES_A_POSITION)
    found = matrix("xpos", f"{first}:{first + 40}", dim=16, seq_len=1, dtype=dtype)
    with mpmath.workprec(500):
        for row in range(40):
            for column, function in ((0, "cos"), (8, "sin")):
                expected = cell(function, first + row, 0, d=16, centre=1)
                assert found[row, column] == rounded(expected, dtype)


def test_amplitudes_that_are_ties_go_to_even_either_way():
    """Of 1024 columns ζ is n/512 for some odd n above 256: one bit more than bfloat16 has."""
    given = {"dim": 1024, "seq_len": 1024, "side": "key", "table": "cos"}
    bits = matrix("xpos", "0", **given, dtype="bfloat16")[0]
    wide = matrix("xpos", "0", **given, dtype="float64")[0]
    exact = [Fraction(20 * i + 4096, 14 * 1024) for i in range(512)]
    ties = [i for i in range(512) if exact[i].denominator == 512]
    assert len(ties) > 20
    for i in ties:
        assert bits[i] == round_exact([exact[i]], REAL_DTYPES["bfloat16"])[0]
        assert wide[i] == exact[i]


def test_what_overflows_is_infinite_with_the_sign_of_the_cell():
    found = matrix("xpos", "1000000:1000100", dim=4, seq_len=1, side="key")
    plain = matrix("rope", "1000000:1000100", dim=4)
    assert np.isinf(found).all()
    assert (np.sign(found) == np.sign(plain)).all()
    shrunk = matrix("xpos", "1000000:1000100", dim=4, seq_len=1)
    assert (shrunk == 0).all()
    assert (np.signbit(shrunk) == np.signbit(plain)).all()


@pytest.mark.long
def test_cells_up_to_the_largest_number_are_correctly_rounded():
    first = int(1022.5 / BINADES_A_POSITION)
    given = {"dim": 16, "seq_len": 1, "side": "key", "dtype": "float64", "table": "cos"}
    found = matrix("xpos", f"{first}:{first + 1200}", **given)[:, 0]
    assert np.isinf(found).any()
    for row in range(0, 1200, 7):
        with mpmath.workprec(500):
            expected = cell("cos", first + row, 0, d=16, centre=1, side="key")
            assert found[row] == rounded(expected, "float64")


def test_sines_of_negative_positions_are_negative():
    waves = catalogue.find("xpos").bind({"dim": 8}, seq_len=9).content.waves
    for dtype in ("float32", "float64"):
        out = np.empty((50, 8), REAL_DTYPES[dtype].numpy)
        placements = [Placement("cos", slice(0, 4)), Placement("sin", slice(4, 8))]
        wave_filler(waves, Engine()).fill(
            out, np.arange(-50, 0), placements, dtype=REAL_DTYPES[dtype]
        )
        for row, position in enumerate(range(-50, 0)):
            for column, function in ((1, "cos"), (5, "sin")):
                with mpmath.workprec(500):
                    expected = cell(function, position, 1, d=8, centre=5)
                    assert out[row, column] == rounded(expected, dtype)


def test_an_overflow_is_warned_of(call):
    asked = ("generate", "-s", "xpos", "--set", "side=key", "--set", "seq_len=1", "--dim", "4")
    status, _, err = call(*asked, "--positions", "100000:100004")
    assert status == 0
    assert "posenc: warning: " in err
    assert "warning" not in call(*asked, "--positions", "1000:1004")[2]


@pytest.mark.sweep(6)
@pytest.mark.parametrize(("length", "offset"), [(16, 0), (17, 0), (1, 16), (4, 13)])
def test_tables_turn_as_torchscale_does(length, offset, golden):
    case, arrays = golden("xpos_torchscale")
    name = f"n{length}_o{offset}"
    x = arrays[f"x_{name}"]
    where = f"{offset}:{offset + length}"
    for side, direction in (("query", "up"), ("key", "down")):
        tables = (
            matrix("xpos", where, dim=32, side=side, seq_len=offset + length, table=table)
            for table in ("cos-full", "sin-full")
        )
        ours = turned(x, *tables, "interleaved")
        assert np.abs(ours - arrays[f"{direction}_{name}"]).max() <= case["tolerance"]["atol"]


@pytest.mark.parametrize(("dim", "length"), [(32, 16), (32, 17), (32, 1), (24, 40)])
def test_amplitudes_are_those_of_rotary_embedding_torch(dim, length, golden):
    case, arrays = golden("xpos_lucidrains")
    theirs = arrays[f"scale_d{dim}_n{length}"][:, ::2]
    given = {"dim": dim, "dtype": "float64", "convention": "lucidrains"}
    for side, power in (("query", 1), ("key", -1)):
        cos, sin = (
            matrix("xpos", f"0:{length}", side=side, table=table, **given)
            for table in ("cos", "sin")
        )
        np.testing.assert_allclose(np.hypot(cos, sin), theirs**power, **case["tolerance"])


@pytest.mark.parametrize(("arithmetic", "allowed"), [("float32", 2e-6), ("bfloat16", 3e-2)])
def test_reduced_arithmetic_is_that_of_torchscale(arithmetic, allowed):
    zetas = (np.arange(0, 32, 2, dtype=np.float32) + np.float32(0.4 * 32)) / np.float32(1.4 * 32)
    powers = np.arange(-20, 20, dtype=np.float32) / np.float32(512)
    theirs = zetas ** powers[:, None]
    plain = matrix("rope", "0:40", dim=32, table="cos", arithmetic=arithmetic)
    ours = matrix("xpos", "0:40", dim=32, table="cos", arithmetic=arithmetic)
    np.testing.assert_allclose(ours, plain * theirs, rtol=allowed, atol=1e-7)
    assert 0 < np.abs(ours - matrix("xpos", "0:40", dim=32, table="cos")).max() < 4 * allowed


def test_reduced_amplitudes_follow_float32_far_from_the_centre():
    given = {"dim": 8, "seq_len": 20_000, "table": "cos", "dtype": "float64"}
    exact, reduced = (
        matrix("xpos", "0:20000:1000", arithmetic=arithmetic, **given)
        for arithmetic in ("exact", "float32")
    )
    error = np.abs(reduced - exact) / np.abs(exact)
    assert error[0].max() > 1e-7
    assert np.median(error) < 1e-4


def test_frequencies_and_angles_are_those_of_rope():
    for table in ("angles", "inv-freq"):
        where = None if table == "inv-freq" else "0:50"
        ours = matrix("xpos", where, dim=16, table=table)
        assert (ours == matrix("rope", where, dim=16, table=table)).all()


def test_tables_agree_with_each_other_in_every_order_of_columns():
    cos, sin = (matrix("xpos", "0:200", dim=16, partial=0.5, table=t) for t in ("cos", "sin"))
    assert cos.shape == (200, 4)
    alternate = matrix("xpos", "0:200", dim=16, partial=0.5, table="interleaved")
    assert (alternate[:, 0::2] == cos).all()
    assert (alternate[:, 1::2] == sin).all()
    complex_table = matrix("xpos", "0:200", dim=16, partial=0.5, table="complex")
    assert (complex_table == cos + 1j * sin).all()


def test_a_scale_multiplies_growing_waves():
    waves = catalogue.find("xpos").bind({"dim": 8}, seq_len=9).content.waves
    out = np.zeros((9, 5))
    filler = wave_filler(replace(waves, scale=0.5), Engine())
    placements = [Placement("cos", slice(0, 4)), Placement("zero", slice(4, 5))]
    out[:, 4] = 7
    filler.fill(out, np.arange(9), placements, dtype=REAL_DTYPES["float64"])
    assert (out[:, :4] == matrix("xpos", "0:9", dim=8, table="cos", dtype="float64") / 2).all()
    assert not out[:, 4].any()
    wave_filler(replace(waves, scale=0), Engine()).fill(
        out, np.arange(9), placements[:1], dtype=REAL_DTYPES["float64"]
    )
    assert not out.any()


def test_growth_that_does_not_fit_its_waves_is_refused():
    growth = Growth(lambda xp: xp.asarray([0.5]), span=1.0, centre=0)
    waves = Waves(2, lambda xp: xp.asarray([1.0, 0.5]), growth=growth)
    with pytest.raises(ValueError, match="1 bases where 2 were declared"):
        wave_filler(waves, Engine())
    placed = Coordinates(axes=(0, 0), at=lambda positions: (positions,))
    with pytest.raises(ValueError, match="along the position"):
        wave_filler(replace(waves, coordinates=placed), Engine())


def test_amplitudes_past_all_numbers_are_infinite_or_zero():
    table = matrix("xpos", "0:4", table="cos", dim=4, scale_base=1e-300)
    assert np.isinf(table[:2]).all()
    assert (table[3] == 0).all()


def counted(monkeypatch, method, of=len):
    """How many cells are handed to a method of GrowingCells, call by call."""
    calls = []
    original = getattr(growing.GrowingCells, method)

    def counting(self, positions, *rest):
        calls.append(of(positions))
        return original(self, positions, *rest)

    monkeypatch.setattr(growing.GrowingCells, method, counting)
    return calls


@pytest.mark.parametrize("positions", ["0:300", "1000000:1000300"])
def test_nearly_no_cell_takes_long_numbers(positions, monkeypatch):
    calls = counted(monkeypatch, "_exact_cell", of=lambda _position: 1)
    for side in ("query", "key"):
        matrix("xpos", positions, dim=16, side=side, seq_len=600, dtype="float64")
    assert sum(calls) <= 32  # of 9,600; position 0 may be a tie


@pytest.mark.parametrize("base", [1e4, 1e100, 1e300])
def test_an_exact_value_has_its_digits_however_slowly_the_pair_turns(base):
    waves = catalogue.find("xpos").bind({"dim": 4, "base": base}, seq_len=1).content.waves
    cells = growing.GrowingCells(waves, waves.growth)
    for position in (1, 2**53):
        value = cells.exact_value(position, 1, sine=True)
        with mpmath.workdps(400):
            angle = position * mpmath.mpf(base) ** mpmath.mpf(-0.5)
            true = zeta(1, 4) ** (mpmath.mpf(position - 1) / 512) * mpmath.sin(angle)
            assert abs(mpmath.mpf(str(value)) / true - 1) < mpmath.mpf(10) ** -40
