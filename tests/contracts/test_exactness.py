"""Exact values stay exact: whatever the caller's decimal context, and however a formula is written.

The contexts are hostile on purpose: one digit, every trap, exponents that hold next to nothing.
"""

import decimal
import math
from decimal import Context, Decimal

import mpmath
import numpy as np
import pytest

from posenc_cli.catalogue import BUILT_IN
from posenc_cli.encoding.engine import Engine
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.request import Encoding, Request
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import Bias, Rotation, Waves, bias, rotary
from posenc_cli.numerics import exact
from posenc_cli.numerics.dtypes import FLOAT64, REAL_DTYPES
from posenc_cli.positions import Positions
from posenc_cli.records import replace
from tests.contracts.test_schemes import SMALL, every_scheme
from tests.matrices import matrix
from tests.numerics import oracle

TRAPS = [*decimal.getcontext().flags]
HOSTILE = {
    "one digit": Context(prec=1, rounding=decimal.ROUND_UP),
    "every trap": Context(prec=28, traps=TRAPS),
    "no exponents": Context(prec=3, rounding=decimal.ROUND_05UP, Emin=0, Emax=0, clamp=1, traps=[]),
}


def tables_of(name, given):
    """Bytes of the tables of a scheme with these parameters, in the strictest format."""
    kind = BUILT_IN[name].kind
    for table in ("cos-sin", "angles", "inv-freq") if kind == "rotary" else (None,):
        if (name, table) == ("rope-mixed", "inv-freq"):
            continue  # its pairs have no one frequency
        positions = None if table == "inv-freq" else "0:9,599"
        if kind == "relative":
            positions = "0:9"
        yield matrix(name, positions, dtype="float64", table=table, **given).tobytes()
    yield matrix(name, "0:9", dtype="bfloat16", **given).tobytes()


@pytest.mark.long
@every_scheme
def test_no_decimal_context_of_the_caller_shows(name):
    given = SMALL.get(name, {})
    expected = list(tables_of(name, given))
    for context in HOSTILE.values():
        with decimal.localcontext(context):
            assert list(tables_of(name, given)) == expected


def awkward(rules):
    """A number that fills float64 to its last bit, within the rules of a parameter."""
    low = max(bound for bound in (rules.minimum, rules.above, 0) if bound is not None)
    high = min(rules.maximum if rules.maximum is not None else math.inf, 8 + 2 * low)
    return low + (high - low) / math.pi


@pytest.mark.long
@pytest.mark.sweep(3)
@every_scheme
def test_no_rule_computes_with_floats_of_python(name):
    """Each number given to the last bit: a float made of them would be refused as rounded."""
    scheme = BUILT_IN[name]
    given = dict(SMALL.get(name, {}))
    for parameter in scheme.parameters.values():
        if parameter.type is float and not parameter.is_list:
            given[parameter.name] = awkward(parameter.rules)
    given |= {"low_freq_factor": 1.1 / 3} if "low_freq_factor" in given else {}
    given |= {"partial": 1.0} if "partial" in given else {}
    assert list(tables_of(name, given))


def made(scheme, positions, dtype):
    """The table of a scheme that is in no catalogue, as float64 values."""
    where = Positions.parse(positions)
    encoding = Encoding.of(scheme, {}, seq_len=where.last + 1)
    blocks = Request(encoding, where, Precision.of(dtype, None)).plan().matrix(Engine()).blocks()
    return np.concatenate([oracle.values(block, dtype) for block in blocks])


def turning(formula):
    """A rotary scheme of four pairs with that formula for its frequencies."""

    @rotary(source="these tests", formula="in the code")
    def scheme() -> Rotation:
        return Rotation(Waves(4, formula), "interleaved")

    return scheme


def of_two_pi(xp):
    return 2 * xp.pi / (6 + xp.arange(0, 4))


@pytest.mark.long
@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", REAL_DTYPES)
def test_a_formula_of_pi_is_exact_up_to_the_last_position(dtype):
    """θ_i = 2π/(6 + i): every cell of the rows before 2^53, against mpmath."""
    dtype = REAL_DTYPES[dtype]
    stop = 2**53 + 1
    start = stop - (900 if dtype is FLOAT64 else 100)
    found = made(turning(of_two_pi), f"{start}:{stop}", dtype)
    with mpmath.workprec(400):  # of a quarter turn the cosine is 0, and nearly so to mpmath
        rates = [2 * mpmath.pi / (6 + i) for i in range(4)]
        points = [[mpmath.cos_sin(p * rate) for rate in rates] for p in range(start, stop)]
        cells = [[*(c for c, _ in row), *(s for _, s in row)] for row in points]
        if dtype is FLOAT64:  # within 1 ulp of the largest magnitude
            errors = [
                abs(mpmath.mpf(value) - cell)
                for row, true in zip(found.tolist(), cells, strict=True)
                for value, cell in zip(row, true, strict=True)
            ]
            assert max(errors) <= 2.0**-52
            return
        true = [[oracle.rounded(oracle.fraction(cell), dtype) for cell in row] for row in cells]
    assert found.tolist() == true


@pytest.mark.parametrize(
    "formula",
    [
        lambda xp: xp.pi / (3 + xp.arange(0, 4) / 2),
        lambda xp: xp.asarray([xp.pi]) * 2 / (6 + xp.arange(0, 4)),
        lambda xp: xp.full(4, xp.pi) * 2 / (6 + xp.arange(0, 4)),
        lambda xp: -(-2 * xp.pi[0]) / (6 + xp.arange(0, 4)),
        lambda xp: [2 * xp.pi[0] / (6 + i) for i in range(4)],
        lambda xp: tuple(2 * xp.pi / (6 + i) for i in range(4)),
        lambda xp: (xp.pi[0] * 2 / (6 + i) for i in range(4)),
        lambda xp: np.float64(2) * xp.pi / (np.arange(6, 10)[0] + xp.arange(0, 4)),
        lambda xp: np.float32(0.5) * xp.pi * 4 / (np.float16(6) + xp.arange(0, 4)),
        lambda xp: xp.asarray(np.full(4, 0.5, np.float32)) * xp.pi * 4 / (6 + xp.arange(0, 4)),
        lambda xp: xp.sqrt(xp.pi) ** 2 * 2 / (6 + xp.arange(0, 4)),
    ],
)
def test_however_a_formula_is_written_it_is_as_exact(formula):
    rows = f"{2**53 - 99}:{2**53 + 1}"
    expected = made(turning(of_two_pi), rows, FLOAT64)
    # The cosine of a quarter turn is what the last digits of π make of it: some 1e-43.
    assert (np.abs(made(turning(formula), rows, FLOAT64) - expected) < 1e-30).all()


def of_user(scheme):
    return replace(scheme, origin="mine:scheme")


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        (lambda xp: 2 * math.pi / (6 + xp.arange(0, 4)), "6.283185307179586"),
        (lambda xp: 1 / (2**0.5) ** xp.arange(0, 4), "1.4142135623730951"),
        (lambda xp: xp.exp(1 / 3) / (1 + xp.arange(0, 4)), "0.3333333333333333"),
        (lambda xp: np.sqrt(2) / (1 + xp.arange(0, 4)), "1.4142135623730951"),
        (lambda xp: xp.arange(0, 4) / float(xp.pi), "3.141592653589793"),
        (lambda xp: math.sqrt(xp.arange(0, 4)[3]) * xp.ones(4), "1.7320508075688772"),
        (lambda xp: xp.maximum(xp.ones(4), 0.1 + 0.2), "0.30000000000000004"),
        (lambda _: [10_000.0 ** (-i / 3) for i in range(4)], "0.046415888336127795"),
        (lambda _: 1 / np.power(10_000.0, np.arange(4) / 3), "0.0021544346900318843"),
    ],
)
def test_floats_that_were_rounded_on_the_way_are_refused(formula, shown):
    with pytest.raises(InvalidInput, match=f"mine:scheme: its code raised .* {shown} is rounded"):
        made(of_user(turning(formula)), "0:3", FLOAT64)


def test_scores_of_rounded_floats_are_refused():
    @bias(source="these tests", formula="in the code")
    def scheme() -> Bias:
        return Bias(
            2,
            "offset",
            lambda xp: xp.ones(2),
            lambda xp, _, offsets: xp.abs(offsets) * math.pi,
        )

    with pytest.raises(InvalidInput, match="3.141592653589793 is rounded"):
        made(of_user(scheme), "0:3", FLOAT64)


@pytest.mark.parametrize("factor", [math.pi, 0.1 + 0.2, 1.0299999713897705, 2.0**-52, 0.1, 1e300])
def test_floats_that_were_given_or_are_short_are_the_numbers_they_hold(factor):
    @rotary(source="these tests", formula="in the code")
    def scheme(*, factor: float = 3.0) -> Rotation:
        def frequencies(xp):
            return 1 / (-factor * xp.ones(4) * (0 - 2.5)) + 0 * xp.asarray(math.e)

        return Rotation(Waves(4, frequencies), "interleaved")

    frequencies = scheme.bind({"factor": factor}).content.waves.frequencies(exact)
    with decimal.localcontext(Context(prec=80)):
        assert list(frequencies) == [1 / (Decimal(factor) * Decimal("2.5"))] * 4
